"""The hub in TensorBoard: which trainings there are, who attends them, and who has the controls of each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tb_netdebug.debugger.hub.calls import Call, CallError
from tb_netdebug.debugger.hub.hub import KEPT_SECS, MOST_SESSIONS, RENEW_SECS, TELL_SECS, Sessions
from tb_netdebug.debugger.hub.pausing import TRIES
from tb_netdebug.debugger.hub.ranks import called
from tb_netdebug.debugger.protocol.arguments import ArgumentError
from tb_netdebug.debugger.protocol.messages import encoded
from tests.support.scripted_session import ScriptedSession
from tests.support.streamed import wait_for

ANNA, BERT = "anna" * 4, "bert" * 4


@dataclass
class Trainer:
    key: str
    run: Sequence[str]


class Wires:
    """Stands for the collector: frames arrive at once. `unheard` are trainers that take nothing."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.told: list[tuple[str, Any]] = []
        self.here: dict[str, ScriptedSession] = {}
        self.unheard: set[str] = set()
        self.called: dict[str, Sequence[str]] = {}
        self.sessions = Sessions(lambda key, row: self.told.append((key, row)), clock=lambda: self.now)
        self.sessions.open(self)

    def send(self, trainer_key: str, data: bytes) -> bool:
        if trainer_key in self.unheard or trainer_key not in self.here:
            return False
        self.here[trainer_key].receive(data)
        return True

    def trainers(self) -> Sequence[Trainer]:
        return [Trainer(key, self.called.get(key, each.about["run"])) for key, each in self.here.items()]

    def join(self, trainer: str = "agent/1", **about: Any) -> ScriptedSession:
        """A training connects."""
        session = ScriptedSession(lambda data: self.sessions.take(trainer, data), **about)
        self.here[trainer] = session
        session.connected()
        return session

    def leave(self, trainer: str = "agent/1") -> None:
        del self.here[trainer]
        self.sessions.lost()

    def pass_by(self, secs: float) -> None:
        self.now += secs
        self.sessions.look()

    def row(self) -> dict[str, Any]:
        (found,) = self.sessions.rows()
        return found

    def key(self) -> str:
        return str(self.sessions.rows()[0]["key"])


@pytest.fixture
def wires() -> Any:
    made = Wires()
    yield made
    made.sessions.close()


def refused(wires: Wires, client: str, verb: str, **arguments: Any) -> str:
    """The kind of the error."""
    with pytest.raises(CallError) as error:
        called(wires.sessions, client, wires.key(), verb, arguments)
    return error.value.kind


# ---- which sessions there are


def test_a_training_that_says_hello_is_there(wires: Wires) -> None:
    """With what it has said of itself, and nobody who attends it."""
    session = wires.join(run="a/b")
    row = wires.row()
    assert session.about == row["session"]
    assert ("running", 0, None) == (row["state"]["status"], row["clients"], row["holder"])
    assert row["is_connected"]
    assert [(row["key"], row)] == wires.told


def test_a_session_is_called_as_the_collector_calls_its_run(wires: Wires) -> None:
    """Which may be with a suffix that the training does not know of when it says hello."""
    wires.called["agent/1"] = ("a", "b-2")
    wires.join(run="a/b")
    assert ["a", "b-2"] == wires.row()["session"]["run"]


def test_the_same_training_by_another_agent_is_the_same_session(wires: Wires) -> None:
    """The agent was killed: the collector's key is gone, ours stays, and who attends goes on attending."""
    wires.join(pid=7)
    key = wires.key()
    wires.sessions.attend(ANNA, "Anna", [key])
    wires.leave()
    assert not wires.row()["is_connected"]
    again = wires.join("other/1", pid=7)
    assert (key, True, 1) == (wires.key(), wires.row()["is_connected"], wires.row()["clients"])
    assert [1] == again.leases


def test_an_agent_that_comes_back_first_is_not_undone(wires: Wires) -> None:
    """The end of the old stream is heard after the greeting on the new one."""
    wires.join(pid=7)
    wires.join("other/1", pid=7)
    wires.leave()
    assert wires.row()["is_connected"]


def test_other_processes_are_other_sessions(wires: Wires) -> None:
    """By run, rank and process."""
    others: list[dict[str, Any]] = [{}, {"run": "b"}, {"rank": 1}, {"pid": 2}]
    for number, about in enumerate(others):
        wires.join(f"agent/{number}", **about)
    assert 4 == len({row["key"] for row in wires.sessions.rows()})


def test_a_training_that_is_lost_is_kept_for_a_minute(wires: Wires) -> None:
    """Then it is told to have gone."""
    wires.join()
    key = wires.key()
    wires.leave()
    wires.pass_by(KEPT_SECS - 1)
    assert (key, False) == (wires.told[-1][0], wires.told[-1][1]["is_connected"])
    wires.pass_by(1)
    assert [] == wires.sessions.rows()
    assert (key, None) == wires.told[-1]


def test_a_training_that_says_goodbye_is_gone(wires: Wires) -> None:
    """At once: it will not come back."""
    session = wires.join()
    key = wires.key()
    session.leave()
    assert ([], (key, None)) == (wires.sessions.rows(), wires.told[-1])


def test_states_are_told_twenty_times_a_second(wires: Wires) -> None:
    """Of those in between only the newest is."""
    session = wires.join()
    wires.told.clear()
    for _ in range(100):
        session.advance()
    assert [] == wires.told
    wires.pass_by(TELL_SECS)
    assert [100] == [row["state"]["step"] for _, row in wires.told]
    wires.pass_by(TELL_SECS)
    assert 1 == len(wires.told)


STATE = ScriptedSession(lambda data: None).state()
ABOUT = ScriptedSession(lambda data: None).about
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "no length": b"\1\2",
    "a length that is wrong": b"\xff\xff\xff\xff{}",
    "no JSON": b"\x02\0\0\0{]",
    "a list": b"\x02\0\0\0[]",
    "an endless depth": (50_000).to_bytes(4, "little") + b"[" * 50_000,
    "an unknown type": encoded("order", verb="rm"),
    "a state that is none": encoded("state", state=7),
    "a status that is none": encoded("state", state={**STATE, "status": "<b>"}),
    "a step that is a text": encoded("state", state={**STATE, "step": "7"}),
    "a step without end": encoded("state", state={**STATE, "step": 10**60}),
    "a switch that is a number": encoded("state", state={**STATE, "is_attached": 1}),
    "a note without end": encoded("state", state={**STATE, "note": "x" * 100_000}),
    "breakpoints without end": encoded("state", state={**STATE, "breakpoints": [{"id": 1}] * 5000}),
    "a breakpoint that is none": encoded("state", state={**STATE, "breakpoints": [[]]}),
    "a place that is none": encoded("state", state={**STATE, "place": {"phase": "nowhere"}}),
    "an answer to nobody": encoded("answer", id=1, value=1),
    "an answer without number": encoded("answer", id={}, value=1),
    "somebody else's hello": encoded("hello", session={**ABOUT, "pid": 99}, state=STATE),
    "a hello without a session": encoded("hello", state=STATE),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_what_keeps_to_no_rule_is_dropped(wires: Wires, what: str) -> None:
    """Nothing of it is told on, and the session stays."""
    wires.join()
    before = wires.sessions.rows()
    wires.told.clear()
    wires.pass_by(1)
    wires.sessions.take("agent/1", NONSENSE[what])
    wires.sessions.take("agent/2", NONSENSE[what])
    assert (before, []) == (wires.sessions.rows(), wires.told)


def test_fields_that_nobody_knows_go_no_further(wires: Wires) -> None:
    """A browser gets what README.md has, and what is missing as it would be without."""
    wires.join()
    state = {"status": "running", "step": 3, "spell": "<script>", "place": {"phase": "end", "evil": 1}}
    wires.sessions.take("agent/1", encoded("state", state=state))
    told = wires.row()["state"]
    assert STATE.keys() == told.keys()
    assert ("end", 3, []) == (told["place"]["phase"], told["step"], told["breakpoints"])
    assert "evil" not in told["place"]


def test_a_trainer_that_the_collector_has_not_accepted_is_nobody(wires: Wires) -> None:
    """For example because its run has a name that no folder may have."""
    wires.sessions.take("agent/9", encoded("hello", session=ABOUT, state=STATE))
    assert [] == wires.sessions.rows()


def test_there_are_so_many_sessions_and_no_more(wires: Wires) -> None:
    """Whoever comes then has to wait for one to go."""
    hello = [encoded("hello", session={**ABOUT, "pid": pid}, state=STATE) for pid in range(MOST_SESSIONS + 1)]
    session = wires.join("agent/-1", pid=5000)
    for number, frame in enumerate(hello):
        wires.here = {f"agent/{number}": session}
        wires.sessions.take(f"agent/{number}", frame)
    assert MOST_SESSIONS == len(wires.sessions.rows())


# ---- who attends


def test_trainings_hear_how_many_attend(wires: Wires) -> None:
    """At once when that changes, and again every few seconds."""
    session = wires.join()
    key = wires.key()
    wires.sessions.attend(ANNA, "Anna", [key])
    wires.sessions.attend(BERT, "Bert", [key])
    wires.sessions.attend(BERT, "Bert", [])
    assert [1, 2, 1] == session.leases
    wires.pass_by(RENEW_SECS)
    assert [1, 2, 1, 1] == session.leases
    assert 1 == wires.row()["clients"]


def test_who_has_not_attended_for_ten_seconds_has_left(wires: Wires) -> None:
    """The training hears it, and the controls are free."""
    session = wires.join()
    key = wires.key()
    wires.sessions.attend(ANNA, "Anna", [key])
    called(wires.sessions, ANNA, key, "continue", {})
    wires.pass_by(9.9)
    assert {"client": ANNA, "label": "Anna"} == wires.row()["holder"]
    wires.pass_by(0.1)
    assert (0, None, 0) == (session.leases[-1], wires.row()["holder"], wires.row()["clients"])
    assert wires.sessions.look() is None


def test_who_asks_something_is_there(wires: Wires) -> None:
    """A terminal that asks once need not say so before."""
    session = wires.join()
    called(wires.sessions, ANNA, wires.key(), "hits", {})
    assert [1] == session.leases


def test_a_hub_that_ends_lets_go(wires: Wires) -> None:
    """Nobody stays paused for a TensorBoard that was closed."""
    session = wires.join()
    wires.sessions.attend(ANNA, "Anna", [wires.key()])
    wires.sessions.close()
    assert 0 == session.leases[-1]


# ---- who has the controls


def test_first_come_first_served(wires: Wires) -> None:
    """Others may look, and are told who steers."""
    session = wires.join()
    key = wires.key()
    for client, label in ((ANNA, "Anna"), (BERT, "Bert")):
        wires.sessions.attend(client, label, [key])
    called(wires.sessions, ANNA, key, "pause", {})
    with pytest.raises(CallError, match="Anna has the controls") as error:
        called(wires.sessions, BERT, key, "continue", {})
    assert "held" == error.value.kind
    assert session.is_paused
    assert [] == called(wires.sessions, BERT, key, "hits", {})
    assert {"client": ANNA, "label": "Anna"} == wires.row()["holder"]


def test_controls_are_taken_over_and_let_go(wires: Wires) -> None:
    """Whoever has lost them is told like everybody else."""
    wires.join()
    key = wires.key()
    wires.sessions.attend(ANNA, "Anna", [key], take=key)
    wires.sessions.attend(BERT, "Bert", [key], take=key)
    assert BERT == wires.told[-1][1]["holder"]["client"]
    assert "held" == refused(wires, ANNA, "pause")
    wires.sessions.attend(ANNA, "Anna", [key], release=key)
    assert BERT == wires.row()["holder"]["client"]
    wires.sessions.attend(BERT, "Bert", [key], release=key)
    assert wires.told[-1][1]["holder"] is None
    called(wires.sessions, ANNA, key, "pause", {})
    assert ANNA == wires.row()["holder"]["client"]


def test_who_turns_to_another_training_lets_go_of_this_one(wires: Wires) -> None:
    """Nobody can take what it does not attend, either."""
    wires.join()
    key = wires.key()
    wires.sessions.attend(ANNA, "Anna", [key], take=key)
    wires.sessions.attend(ANNA, "Anna", [], take=key)
    assert wires.row()["holder"] is None


# ---- calls


def test_a_call_reaches_the_training_with_all_its_arguments(wires: Wires) -> None:
    """Those that were not given have their defaults; the answer is the training's."""
    session = wires.join()
    assert {"heard": {}} == called(wires.sessions, ANNA, wires.key(), "recheck", {})
    assert [] == called(wires.sessions, ANNA, wires.key(), "hits", {"since": 5})
    heard = [(each["verb"], each["client"], each["arguments"]) for each in session.asked]
    assert [("recheck", ANNA, {}), ("hits", ANNA, {"since": 5, "most": 200})] == heard


def test_what_cannot_be_asked_reaches_nobody(wires: Wires) -> None:
    """No such verb, no such argument, one that is missing or of another type."""
    session = wires.join()
    for verb, arguments in (
        ("eval", {}),
        ("pause", {"now": 1}),
        ("step", {}),
        ("step", {"by": "year"}),
        ("run_to", {"layer": "("}),
        ("set_learning_rate", {"optimizer": 0, "value": "fast"}),
    ):
        with pytest.raises(ArgumentError):
            called(wires.sessions, ANNA, wires.key(), verb, arguments)
    assert [] == session.asked
    with pytest.raises(CallError, match="no longer available"):
        called(wires.sessions, ANNA, "elsewhere", "hits", {})


def test_a_refusal_of_the_training_is_told_on(wires: Wires) -> None:
    """In its own words."""
    wires.join()
    with pytest.raises(CallError, match=r"There is no breakpoint 9\.") as error:
        called(wires.sessions, ANNA, wires.key(), "remove_breakpoint", {"id": 9})
    assert "refused" == error.value.kind


def test_a_verb_that_waits_is_answered_in_any_case(wires: Wires) -> None:
    """With the newest state, when the training is in the middle of a long batch."""
    wires.join(silent=("pause",))
    assert "running" == called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})["status"]


def test_a_training_that_does_not_answer(wires: Wires) -> None:
    """Nobody waits for ever, and so many questions wait at the same time."""
    wires.join(silent=("hits",))
    (entry,) = wires.sessions.claim(ANNA, wires.key(), steers=False)
    with pytest.raises(CallError, match="did not answer") as error:
        wires.sessions.answer(entry, wires.sessions.ask(entry, ANNA, "hits", {}), secs=0.0)
    assert "late" == error.value.kind
    assert {} == entry.calls
    for _ in range(64):
        wires.sessions.ask(entry, ANNA, "hits", {})
    assert "busy" == refused(wires, ANNA, "hits")


@pytest.mark.parametrize("end", ["lost", "bye", "again", "closed"])
def test_who_waits_hears_that_the_training_is_gone(wires: Wires, end: str) -> None:
    """At once, however it went; and so does who asks afterwards."""
    session = wires.join(silent=("hits",))
    (entry,) = wires.sessions.claim(ANNA, wires.key(), steers=False)
    call: Call = wires.sessions.ask(entry, ANNA, "hits", {})
    {"lost": wires.leave, "bye": session.leave, "again": session.connected, "closed": wires.sessions.close}[
        end
    ]()
    assert call.error is not None
    assert "gone" == call.error.kind
    if end == "lost":
        assert "gone" == refused(wires, ANNA, "hits")


def test_a_training_that_takes_nothing_is_busy(wires: Wires) -> None:
    """Its agent has too much waiting for it already."""
    wires.join()
    wires.unheard.add("agent/1")
    assert "busy" == refused(wires, ANNA, "hits")


def test_an_answer_of_another_form_is_refused(wires: Wires) -> None:
    """A browser gets what the verb is said to answer, and nothing that is too deep to be looked at."""
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    wires.join(silent=("hits", "modules", "pause"))
    (entry,) = wires.sessions.claim(ANNA, wires.key(), steers=False)
    for verb, value in (("hits", {"a": 1}), ("modules", deep), ("pause", {"status": "asleep"})):
        call = wires.sessions.ask(entry, ANNA, verb, {})
        wires.sessions.take("agent/1", encoded("answer", id=call.number, value=value))
        assert call.error is not None
        assert "does not know" in str(call.error)


# ---- ranks


def ranks_of(wires: Wires, count: int = 2) -> list[ScriptedSession]:
    return [
        wires.join(f"agent/{rank}", rank=rank, world_size=count, group="g", pid=rank) for rank in range(count)
    ]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("continue", {}),
        ("detach", {}),
        ("step", {"by": "layer"}),
        ("run_to", {"step": 7}),
        ("set_learning_rate", {"optimizer": 0, "value": 0.5}),
        ("set_breakpoint", {"layer": "fc"}),
    ],
)
def test_what_steers_goes_to_all_ranks(wires: Wires, verb: str, arguments: dict[str, Any]) -> None:
    """And what looks goes to the one that was asked."""
    sessions = ranks_of(wires, 3)
    other = wires.join("agent/9", run="another")
    called(wires.sessions, ANNA, wires.key(), verb, arguments)
    called(wires.sessions, ANNA, wires.key(), "hits", {})
    assert [verb, "hits"] == [each["verb"] for each in sessions[0].asked]
    assert [[verb]] * 2 == [[each["verb"] for each in session.asked] for session in sessions[1:]]
    assert [] == other.asked


def test_who_attends_one_rank_attends_all(wires: Wires) -> None:
    """Else the others would go on without it; and their controls are held together."""
    sessions = ranks_of(wires)
    keys = [row["key"] for row in wires.sessions.rows()]
    wires.sessions.attend(ANNA, "Anna", keys[:1], take=keys[0])
    assert [[1], [1]] == [session.leases for session in sessions]
    assert [ANNA] * 2 == [row["holder"]["client"] for row in wires.sessions.rows()]


def test_ranks_pause_at_the_end_of_the_same_batch(wires: Wires) -> None:
    """One that none of them has reached, although one is far ahead and they do not know of each other."""
    slow, fast = ranks_of(wires)
    for _ in range(20):
        wires.now += 0.1
        slow.advance(3)
        fast.advance(10)
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    assert slow.goal == fast.goal
    assert slow.goal in range(200 + 10, 200 + 20)
    for session in (slow, fast):
        session.advance(1000)
    assert (slow.step, True, True) == (fast.step, slow.is_paused, fast.is_paused)


def test_a_rank_that_was_too_late_is_asked_again(wires: Wires) -> None:
    """The others are let go meanwhile, and the next batch is further away."""
    first, hasty = ranks_of(wires)
    goals: list[int] = []
    pause = hasty._pause

    def late(step: int, wait: float) -> Any:
        goals.append(step)
        hasty.step = max(hasty.step, 100)  # told of by nobody yet
        return pause(step, wait)

    hasty._pause = late  # type: ignore[method-assign, assignment]
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    assert sorted(set(goals)) == goals
    assert goals[-1] == first.goal == hasty.goal
    assert goals[-1] >= 100
    missed = len(goals) - 1
    assert ["pause", "continue"] * missed + ["pause"] == [each["verb"] for each in first.asked]


def test_ranks_that_cannot_be_caught_go_on(wires: Wires) -> None:
    """It is said, and nobody is left behind."""
    first, runaway = ranks_of(wires)
    pause = runaway._pause

    def late(step: int, wait: float) -> Any:
        runaway.step = step + 1
        return pause(step, wait)

    runaway._pause = late  # type: ignore[method-assign, assignment]
    with pytest.raises(CallError, match="could not be paused together"):
        called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    assert ["pause", "continue"] * TRIES == [each["verb"] for each in runaway.asked]
    assert (None, None) == (first.goal, runaway.goal)


def test_the_others_of_a_paused_rank_pause_at_once(wires: Wires) -> None:
    """They wait for it anyway, in a collective, and never come to another batch."""
    first, second = ranks_of(wires)
    first.is_paused = True
    first.tell()
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    assert second.is_paused
    assert second.asked[0]["arguments"]["step"] is None


def test_a_rank_that_answers_late_is_not_forgotten(wires: Wires) -> None:
    """It was in the middle of a long batch: who has asked knows no more by then, and the ranks pause together
    after all. Until something else is asked of them."""
    first, second = ranks_of(wires)
    second.silent = ("pause",)
    assert "running" == called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})["status"]
    missed = second.asked[-1]
    second.silent = ()
    wires.sessions.take("agent/1", encoded("answer", id=missed["id"], error="It is over.", kind="gone"))
    wait_for(lambda: first.goal == second.goal != missed["arguments"]["step"])
    assert ["pause", "continue", "pause"] == [each["verb"] for each in first.asked]
    second.silent = ("pause",)
    called(wires.sessions, ANNA, wires.key(), "continue", {})
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    missed = second.asked[-1]
    called(wires.sessions, ANNA, wires.key(), "continue", {})
    wires.sessions.take("agent/1", encoded("answer", id=missed["id"], error="It is over.", kind="gone"))
    wait_for(lambda: not pausing_threads())
    assert ["continue", "pause", "continue"] == [each["verb"] for each in first.asked][-3:]


def test_a_rank_that_waits_for_a_paused_one_is_freed(wires: Wires) -> None:
    """It was one batch further, and is in a collective now: it answers when the others go on."""
    first, second = ranks_of(wires)
    second.silent = ("pause",)
    go_on = second._continue

    def freed() -> Any:
        second.silent = ()
        return go_on()

    second._continue = freed  # type: ignore[method-assign]
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    first.advance(1000)
    assert first.is_paused
    wait_for(lambda: not pausing_threads())
    assert ["pause", "continue", "pause"] == [each["verb"] for each in first.asked]
    assert not first.is_paused
    assert first.goal == second.goal
    assert first.goal is not None


def pausing_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "netdebug-pausing"]


def test_a_pause_right_after_going_on_is_one_of_all(wires: Wires) -> None:
    """All have said by then that they go on, whatever else was told of them before."""
    both = ranks_of(wires)
    for session in both:
        session.is_paused = True
        session.tell()
        session.tell = lambda: None  # type: ignore[method-assign]
    called(wires.sessions, ANNA, wires.key(), "continue", {})
    called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
    assert both[0].goal == both[1].goal
    assert both[0].goal is not None


def test_how_fast_a_training_goes_is_known_after_a_pause(wires: Wires) -> None:
    """So the next one is as far ahead as it has to be."""
    both = ranks_of(wires)
    for _ in range(20):
        wires.now += 0.1
        for session in both:
            session.advance(100)
    for _ in range(2):
        called(wires.sessions, ANNA, wires.key(), "pause", {"wait": 0})
        assert (both[0].goal or 0) - both[0].step in range(80, 121)
        for session in both:
            session.advance(200)
        called(wires.sessions, ANNA, wires.key(), "continue", {})


def test_a_breakpoint_is_the_same_one_on_all_ranks(wires: Wires) -> None:
    """Whatever number each of them has given it: one has refused some before."""
    first, second = ranks_of(wires)
    second._next_id = 5
    made = called(wires.sessions, ANNA, wires.key(), "set_breakpoint", {"layer": "fc"})
    called(wires.sessions, ANNA, wires.key(), "set_breakpoint", {"layer": "conv"})
    called(
        wires.sessions, ANNA, wires.key(), "set_breakpoint", {"id": made["id"], "layer": "fc", "is_on": False}
    )
    layers = [{each["layer"]: each["is_on"] for each in one.breakpoints.values()} for one in (first, second)]
    assert [{"fc": False, "conv": True}] * 2 == layers
    called(wires.sessions, ANNA, wires.key(), "remove_breakpoint", {"id": made["id"]})
    assert [["conv"]] * 2 == [[each["layer"] for each in one.breakpoints.values()] for one in (first, second)]
    assert [2, 6] == [*first.breakpoints, *second.breakpoints]
