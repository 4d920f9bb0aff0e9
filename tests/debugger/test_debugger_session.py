"""A training that is debugged: pauses, steps, breakpoints, and who it waits for."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from tb_netdebug.debugger.client.http_client import ClientError
from tb_netdebug.debugger.client.local_client import LocalClient
from tb_netdebug.debugger.hub.statements import session_of, state_of
from tb_netdebug.debugger.place import CODE, Place
from tb_netdebug.debugger.protocol.messages import decoded, encoded
from tb_netdebug.debugger.trainer.course import Reason
from tb_netdebug.debugger.trainer.session import Session, pause_in_code
from tb_netdebug.debugger.workbench import NOTHING, Needs
from tests.support.debugged import Debugged, debugged, where
from tests.support.debugger_bench import bench_of
from tests.support.streamed import wait_for


def test_a_training_pauses_and_goes_on() -> None:
    """The answer to `pause` tells where it stands, and nothing moves until `continue`."""
    with debugged() as rig:
        state = rig.ask("pause")
        assert ("paused", "asked") == (state["status"], state["reason"]["kind"])
        passed = len(rig.passed)
        assert state["step"] == rig.ask("pause")["step"] == rig.step
        assert passed == len(rig.passed)
        assert "running" == rig.ask("continue")["status"]
        wait_for(lambda: len(rig.passed) > passed + 100)
        assert 1 == len(rig.held)


def test_steps_by_layer_stop_at_each_layer_and_at_what_comes_after_the_last() -> None:
    """Nobody who steps through the layers finds himself in the next batch unawares."""
    with debugged() as rig:
        rig.ask("run_to", layer="encoder.0$")
        found = [where(rig.ask("step", by="layer")) for _ in range(5)]
        assert [
            ("forward", "encoder.1", "before"),
            ("forward", "head", "before"),
            ("backward", None, "before"),
            ("optimizer", None, "before"),
            ("end", None, "before"),
        ] == found


def test_steps_by_other_measures() -> None:
    """Backward stops at the layers' gradients from the last to the first, the others where they say."""
    with debugged() as rig:
        rig.ask("run_to", layer="head")
        found = [where(rig.ask("step", by="backward"))[:2] for _ in range(6)]
        assert [("backward", name) for name in ("head", "encoder.1", "encoder.0") for _ in range(2)] == found
        assert ("optimizer", None, "before") == where(rig.ask("step", by="optimizer"))
        step = rig.step
        assert ("end", None, "before") == where(rig.ask("step", by="batch"))
        assert step + 3 == rig.ask("step", by="batch", count=3)["step"]


def test_a_step_to_what_matches_passes_everything_else() -> None:
    """`match` goes through batches until a layer has that name."""
    with debugged() as rig:
        step = rig.ask("run_to", layer="encoder.0")["step"]
        assert step == rig.ask("step", by="layer", match="head")["step"]
        assert step + 1 == rig.ask("step", by="layer", match="head")["step"]


def test_the_tensors_asked_for_last_are_followed() -> None:
    """Their values are kept to be compared with the next ones; those asked for longest ago are dropped."""
    names = [f"weight:w{number}" for number in range(9, -1, -1)]
    with debugged(bench_of(weight={name.partition(":")[2]: [1.0] for name in names})) as rig:
        rig.ask("pause")
        for name in (*names, names[3]):
            rig.ask("tensor", name=name, previous=True)
        assert {*names[2:]} == rig.session._inspection.followed
        rig.ask("tensor", name=names[0], previous=True)
        assert {names[0], names[3], *names[4:], names[2]} - {names[2]} == rig.session._inspection.followed


def test_what_the_framework_cannot_do_is_said() -> None:
    """A step that does not work here is refused with the reason, and the training stays where it is."""
    bench = bench_of(weight={"w": [1.0]})
    bench.can, bench.cannot = ("batch",), ["net: torch.compile leaves no place for hooks."]
    with debugged(bench) as rig:
        rig.ask("pause")
        with pytest.raises(ClientError, match="leaves no place for hooks"):
            rig.ask("step", by="layer")
        with pytest.raises(ClientError, match="This run cannot stop at layers"):
            rig.ask("set_breakpoint", layer="head")
        assert "paused" == rig.state["status"]


@pytest.mark.parametrize(
    ("verb", "arguments", "sentence"),
    [
        ("step", {"by": "nothing"}, "by must be one of"),
        ("step", {}, "step needs by"),
        ("jump", {}, "There is no verb 'jump'"),
        ("pause", {"now": True}, "pause has no argument 'now'"),
        ("run_to", {}, "Run to where"),
        ("run_to", {"layer": "("}, "not a regular expression"),
        ("run_to", {"layer": r"(a)\1"}, "may take for ever"),
        ("step", {"by": "layer", "match": "(x{99}){99}"}, "is too big"),
        ("tensors", {"match": "(a)?(?(1)b|c)"}, "may take for ever"),
        ("remove_breakpoint", {"id": 9}, "no breakpoint 9"),
        ("tensor", {"name": "weight:nobody"}, "There is no tensor"),
        ("source", {"file": "/etc/passwd"}, "belongs to no frame"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(verb: str, arguments: dict[str, Any], sentence: str) -> None:
    """Whatever is asked, the training goes on unharmed."""
    with debugged() as rig:
        with pytest.raises(ClientError, match=sentence):
            rig.ask(verb, **arguments)
        assert "running" == rig.state["status"]


def test_a_batch_that_is_over_cannot_be_run_to() -> None:
    """A pause at the end of a batch comes there, or says that it is too late."""
    with debugged() as rig:
        state = rig.ask("pause", step=rig.step + 20)
        assert ("paused", "end") == (state["status"], state["place"]["phase"])
        rig.ask("continue")
        wait_for(lambda: rig.step > state["step"] + 1)
        with pytest.raises(ClientError, match=f"Batch {state['step']} is over"):
            rig.ask("pause", step=state["step"])


def test_breakpoints_stop_at_their_layer_from_their_batch_on() -> None:
    """A breakpoint says its number, counts, and lets pass when it is off or gone."""
    with debugged() as rig:
        first = rig.step + 5
        made = rig.ask("set_breakpoint", layer="encoder.1", step=first)
        state = rig.wait_until("paused")
        assert ("breakpoint", made["id"]) == (state["reason"]["kind"], state["reason"]["id"])
        assert ("forward", "encoder.1", "before") == where(state)
        assert state["step"] >= first
        assert 1 == state["breakpoints"][0]["hits"]
        rig.ask("remove_breakpoint", id=made["id"])
        step = rig.ask("continue")["step"]
        wait_for(lambda: rig.step > step + 5)
        assert "running" == rig.state["status"]


def test_a_watchpoint_stops_before_the_update_and_tells_each_hit() -> None:
    """What exceeds its threshold is listed in the order of execution, with what it was and what to do."""
    with debugged() as rig:
        rig.ask("run_to", layer="head")
        made = rig.ask(
            "set_watchpoint", kind="gradient", tensors="", statistic="abs_max", comparison=">", threshold=0.3
        )
        rig.ask("continue")
        state = rig.wait_until("paused")
        assert ("watchpoint", made["id"]) == (state["reason"]["kind"], state["reason"]["id"])
        assert ("optimizer", None, "before") == where(state)
        hits = rig.ask("hits")
        assert [("encoder.0.weight", 0.5), ("head.weight", 4.0)] == [
            (each["tensor"].partition(":")[2], each["actual"]) for each in hits
        ]
        assert all(each["advice"] for each in hits)
        rig.ask("continue")
        wait_for(lambda: rig.step > state["step"] + 5)  # it stays true, and is told once
        assert 2 == rig.state["hits"]


def test_it_is_looked_at_while_it_is_paused() -> None:
    """Tensors, expressions, the stack with its source, and pieces of a file."""
    with debugged() as rig:
        rig.ask("pause")
        value = rig.ask("tensor", name="weight:head.weight", slice="[0]")
        assert ([1.0, -2.0], 4) == (value["cells"]["values"], value["statistics"]["count"])
        assert [1.5] == rig.ask("evaluate", text="mean(abs(`weight:head.weight`))")["cells"]["values"]
        frame = next(each for each in rig.ask("stack") if each["is_user"])
        lines = rig.ask("source", file=frame["file"])["lines"]
        assert "self.session" in lines[frame["line"] - 1]
        file = b"".join(rig.client.download("local", "weight:head.weight"))
        assert b"\x93NUMPY" == file[:6]
        assert {"path": "capsules/step.pt"} == rig.ask("snapshot")


def test_nothing_is_needed_of_a_framework_until_it_has_to_stop() -> None:
    """An armed training costs a look at one flag, one that is attended the end of each batch; a lease that
    ends takes everything off again."""
    rig = Debugged()
    rig.start()
    try:
        wait_for(lambda: rig.step > 5)
        assert (False, None) == (rig.session.is_alert, rig.bench.needs)
        rig.attend()
        rig.ask("set_breakpoint", layer="nowhere")
        wait_for(lambda: rig.bench.needs is not None and rig.bench.needs.layers)
        rig.ask("remove_breakpoint", id=1)
        wait_for(lambda: rig.bench.needs == NOTHING)
        assert rig.session.is_alert
        rig.leave()
        wait_for(lambda: not rig.session.is_alert)
    finally:
        rig.stop()


def test_long_batches_can_be_paused_within() -> None:
    """Where the end of the batch is far, the phases of the batch are places, too."""
    with debugged() as rig:
        assert "end" == rig.ask("pause")["place"]["phase"]
        rig.batch_secs = 0.1
        rig.ask("continue")
        wait_for(lambda: rig.bench.needs is not None and rig.bench.needs.phases)


def test_what_somebody_wanted_who_has_gone_is_forgotten() -> None:
    """A training that runs to a place that never comes is slow for nobody's sake."""
    with debugged() as rig:
        rig.ask("step", by="layer", match="nobody", wait=0.0)
        wait_for(lambda: rig.bench.needs is not None and rig.bench.needs.layers)
        rig.leave()
        wait_for(lambda: not rig.session.is_alert)
        wait_for(lambda: not rig.state["is_attached"])
        assert (NOTHING, False) == (rig.bench.needs, rig.state["is_waiting"])


def test_a_pause_ends_when_nobody_attends_any_more() -> None:
    """A dead browser, TensorBoard or agent lets go within the lease, and says so."""
    with debugged() as rig:
        state = rig.ask("pause")
        rig.clock.now += state["lease_secs"] - 1.0
        assert rig.step == state["step"]
        rig.attend()
        rig.clock.now += state["lease_secs"] - 1.0
        assert "paused" == rig.state["status"]
        rig.clock.now += 2.0
        assert "nobody is attached" in rig.wait_until("running")["note"]
        rig.attend()
        assert rig.ask("pause")["note"] is None
        assert ["the training goes on: nobody is attached to its debugger any more."] == rig.said


def test_detached_it_stops_at_nothing() -> None:
    """Breakpoints wait until somebody comes back; leases of a client that has let go do not count."""
    with debugged() as rig:
        rig.ask("set_breakpoint", layer="head")
        rig.wait_until("paused")
        rig.ask("detach")
        rig.attend()
        step = rig.step
        wait_for(lambda: rig.step > step + 10)
        rig.leave()
        rig.attend()
        assert "breakpoint" == rig.wait_until("paused")["reason"]["kind"]


def test_it_waits_before_the_first_batch_for_whoever_comes() -> None:
    """Paused at the start it waits without an end, says how to come, and begins when it is told to."""
    rig = Debugged()
    rig.start(pauses=True)
    try:
        state = rig.wait_until("paused")
        assert ("start", 0) == (state["place"]["phase"], state["step"])
        rig.clock.now += 10_000.0
        assert [] == rig.passed
        assert "waits before its first batch" in rig.said[0]
        rig.attend()
        wait_for(lambda: rig.state["is_attached"])
        assert {"hits": 0} == rig.ask("recheck")
        rig.ask("continue")
        wait_for(lambda: bool(rig.passed))
    finally:
        rig.stop()


def test_who_asked_in_the_program_is_waited_for_ten_minutes() -> None:
    """A pause that a program asks for is no trap when nobody is at the desk."""
    rig = Debugged()
    rig.session.open(rig.bench)
    rig.session.connected()
    held = threading.Thread(
        target=rig.session.hold, args=(Place(CODE), Reason("code", "the program asked for it"))
    )
    held.start()
    rig.wait_until("paused")
    rig.clock.now += 599.0
    assert held.is_alive()
    rig.clock.now += 2.0
    held.join(20)
    assert not held.is_alive()
    assert "nobody attached" in rig.said[0]
    rig.session.close()


def test_others_that_wait_are_thought_of() -> None:
    """With a time-out of a collective, the pause says when it ends by itself, in time before it."""
    with debugged(world_size=2, collective_timeout_secs=50.0) as rig:
        state = rig.ask("pause")
        assert 40.0 == pytest.approx(state["resumes_at"] - state["paused_at"])
        rig.clock.now += 39.0
        assert "paused" == rig.ask("pause")["status"]
        rig.clock.now += 1.0
        assert "other processes wait" in rig.wait_until("running")["note"]


def test_a_breakpoint_in_the_code_counts_only_when_somebody_attends() -> None:
    """`nd.breakpoint()` does nothing otherwise, however often it is called."""
    rig = Debugged()
    rig.session.open(rig.bench)
    rig.session.connected()
    pause_in_code()
    assert "running" == rig.state["status"]
    rig.session.close()


def test_frames_that_keep_to_no_rule_are_dropped() -> None:
    """Damage on the way, and lies: the training hears nothing of them."""
    with debugged() as rig:
        for data in (b"", b"\xff" * 40, os.urandom(200), b"\x02\x00\x00\x00[]", b"\x03\x00\x00\x00NaN"):
            rig.session.receive(data)
        step = rig.step
        wait_for(lambda: rig.step > step + 3)
        assert "paused" == rig.ask("pause")["status"]


def test_a_training_that_is_over_answers_no_more() -> None:
    """What was asked and not answered is told that it is over."""
    with debugged() as rig:
        rig.ask("pause")
        rig.session.close()
        wait_for(lambda: rig.state["status"] == "over")


def test_closed_from_another_thread_a_paused_training_goes_on() -> None:
    """Nothing is taken off under its feet, and nobody waits for a lease to end."""
    rig = Debugged()
    paused_at_close = []
    rig.bench.close = lambda: paused_at_close.append(rig.session.is_paused)  # type: ignore[method-assign]
    rig.start()
    rig.attend()
    rig.ask("pause")
    rig.session.close()
    assert [False] == paused_at_close
    step = rig.step
    wait_for(lambda: rig.step > step + 5)
    rig.stop()
    assert [False] == paused_at_close


def test_closed_by_a_signal_in_a_pause_nothing_is_put_on_again() -> None:
    """A handler runs on the very thread that is paused."""
    rig = Debugged()
    rig.session.open(rig.bench)
    rig.session.connected()
    rig.attend()

    def interrupt() -> None:
        rig.wait_until("paused")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: rig.session.close())
    presser = threading.Thread(target=interrupt)
    presser.start()
    needed: list[Needs] = []
    rig.bench.close = lambda: setattr(rig.bench, "need", needed.append)  # type: ignore[method-assign]
    rig.session.hold(Place(CODE), Reason("code", "the program asked for it"))
    presser.join()
    signal.signal(signal.SIGUSR1, before)
    assert ([], "over") == (needed, rig.state["status"])


def test_ctrl_c_ends_a_pause() -> None:
    """It goes to the program as it would without a debugger, and whoever attends sees that it runs."""
    rig = Debugged()
    rig.session.open(rig.bench)
    rig.session.connected()
    rig.attend()

    def interrupt() -> None:
        rig.wait_until("paused")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=interrupt)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        rig.session.hold(Place(CODE), Reason("code", "the program asked for it"))
    presser.join()
    assert ("running", False) == (rig.state["status"], rig.session.is_paused)
    rig.session.close()


def test_a_fault_of_ours_is_said_and_pauses_nothing() -> None:
    """Whatever fails on the way into a pause, the training hears nothing of it."""
    with debugged() as rig:
        rig.bench.learning_rates = lambda: [][0]  # type: ignore[method-assign]
        state = rig.ask("pause", wait=0.0)
        wait_for(lambda: rig.step > state["step"] + 5)
        assert ("running", False) == (rig.state["status"], rig.session.is_paused)
        assert "failed while stopping the training: IndexError" in rig.said[0]


def test_whoever_connects_hears_the_newest_state() -> None:
    """What the training tells while it is being introduced would be lost."""
    client = LocalClient()
    sent: list[str] = []

    def send(data: bytes) -> bool:
        frame = decoded(data)
        if frame.type == "hello" and not sent:
            sent.append("hello")
            session.note = "newer"
            session.tell_state()
        return client.take(data)

    session = Session({}, send=send, step_of=lambda: 0, notice=print, resumed=print)
    session.connected()
    (training,) = client.sessions()
    assert "newer" == training.state["note"]


def test_what_a_session_tells_is_never_too_long_for_a_hub() -> None:
    """However many groups an optimizer has, and whatever a finding says."""
    bench = bench_of(weight={"w": [1.0]})
    bench.cannot = ["layer: compiled."] * 2000
    rate = {"optimizer": 0, "group": 0, "name": "SGD", "value": 0.1}
    bench.learning_rates = lambda: [rate] * 2000  # type: ignore[method-assign]
    with debugged(bench) as rig:
        state = rig.ask("pause")
        (training,) = rig.client.sessions()
        assert 500 == len(state_of(state)["learning_rates"])
        assert 100 == len(session_of(training.session)["cannot"])
    assert 1000 == len(Reason("finding", "x" * 9999).as_dict()["text"])


@pytest.mark.parametrize(("name", "kept"), [("net.layer.{}", 1), ("{}", 2501)])
def test_of_a_very_large_network_the_outermost_layers_are_listed(name: str, kept: int) -> None:
    """As many as there is room for in an answer, and it is said."""
    module = {
        "class_name": "Linear",
        "parent": None,
        "file": "/a/b.py",
        "line": 1,
        "order": 1,
        "parameters": 9,
    }
    bench = bench_of(weight={"w": [1.0]})
    names = ["net", *(name.format(number) for number in range(5001))]
    bench.modules = lambda: [{"name": each, **module} for each in names]  # type: ignore[method-assign]
    with debugged(bench) as rig:
        rig.ask("pause")
        assert len(names) == len(rig.ask("modules"))
        module["file"] = "/long" * 40
        assert names[:kept] == [each["name"] for each in rig.ask("modules")]
        assert f"The outermost {kept} of 5002 layers are listed." == rig.state["note"]


def test_a_lease_of_any_length_is_taken() -> None:
    """But not for longer than there is sense in."""
    with debugged() as rig:
        rig.session.receive(encoded("lease", clients=1, secs=10**400))
        assert 120.0 == rig.session.lease.secs


def test_a_child_that_was_forked_in_a_pause_is_not_paused() -> None:
    """Nor does it say anything, or take anything off."""
    with debugged() as rig:
        rig.ask("pause")
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs dies of it
            rig.session.hold(Place(CODE), Reason("code", "a child asks for it"))
            rig.session.visit(Place(CODE))
            rig.session.close()
            os._exit(len(rig.said))
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert "paused" == rig.ask("pause")["status"]
