"""What listeners hear: the newest state of what changed, each once, whoever is slow."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.viewer.plugin.event_stream import EventStream
from tb_netdebug.viewer.plugin.live import MOST_SESSIONS, Hub, Seats, SessionKey, resume_point
from tb_netdebug.viewer.plugin.turns import SHORT_TURN_SECS, short_turns


def hub_of(*names: str) -> Hub:
    hub = Hub()
    hub.set_list({name: {"name": name, "steps": None} for name in names})
    return hub


def told(hub: Hub, since: int = 0) -> list[tuple[str | None, Any]]:
    return [(news.name, news.row and news.row["steps"]) for news in hub.since(since)]


def parsed(chunk: bytes) -> list[tuple[str, str, Any]]:
    """(event, id, data) of each event in a piece of a stream."""
    found = []
    for block in chunk.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields["event"], fields["id"], json.loads(fields["data"])))
    return found


def test_a_change_replaces_the_one_before() -> None:
    """Whoever looks late gets the newest state, once, in the order of the changes."""
    hub = hub_of("a", "b")
    for steps in (1, 2, 3):
        hub.set_row("a", {"steps": steps})
    hub.set_row("b", {"steps": 9})
    hub.set_row("a", {"steps": 4})
    assert [(None, None), ("b", 9), ("a", 4)] == told(hub)
    assert [("a", 4)] == told(hub, hub.version - 1)
    assert [] == told(hub, hub.version)


def test_the_same_state_again_is_no_news() -> None:
    """Looking at a run that did not change wakes nobody."""
    hub = hub_of("a")
    hub.set_row("a", {"steps": 1})
    version = hub.version
    hub.set_row("a", {"steps": 1})
    hub.set_row("gone", {"steps": 1})
    assert version == hub.version


def test_a_run_that_went_is_not_told_of() -> None:
    """After the list changed, only runs that are in it have news."""
    hub = hub_of("a", "b")
    hub.set_row("b", {"steps": 1})
    hub.set_list({"a": {"steps": 5}})
    assert [(None, None)] == told(hub)
    assert [{"steps": 5}] == hub.rows()[1]


def test_sessions_of_the_debugger_are_told_like_runs() -> None:
    """The newest state of each, once, between what happens to runs; also a run and a session of one name."""
    hub = hub_of("a")
    for step in (1, 2):
        hub.set_session("a", {"key": "a", "step": step})
    hub.set_row("a", {"steps": 1})
    version = hub.version
    hub.set_session("b", {"key": "b", "step": 7})
    hub.set_session("b", {"key": "b", "step": 7})
    assert version + 1 == hub.version
    keys = [(news.name, news.row) for news in hub.since(1)]
    assert [
        (SessionKey("a"), {"key": "a", "step": 2}),
        ("a", {"steps": 1}),
        (SessionKey("b"), {"key": "b", "step": 7}),
    ] == keys
    hub.set_list({})
    assert [SessionKey("a"), SessionKey("b"), None] == [news.name for news in hub.since(1)]


def test_a_session_that_has_gone_is_told_to_who_comes_back() -> None:
    """As long as there are not too many others."""
    hub = hub_of()
    hub.set_session("a", {"key": "a"})
    seen = hub.version
    hub.set_session("a", None)
    assert [{"key": "a", "is_gone": True}] == [news.row for news in hub.since(seen)]
    hub.set_session("b", {"key": "b"})
    for number in range(MOST_SESSIONS):
        hub.set_session(f"{number}", None)
    keys = [news.row["key"] for news in hub.since(seen) if news.row is not None]
    assert (MOST_SESSIONS, "b", "1") == (len(keys), keys[0], keys[1])


def test_more_sessions_than_fit() -> None:
    """The oldest one goes; whoever listens hears of the others."""
    hub = hub_of()
    for number in range(MOST_SESSIONS + 2):
        hub.set_session(f"{number}", {"key": f"{number}"})
    keys = [news.row["key"] for news in hub.since(0) if news.row is not None and "key" in news.row]
    assert [f"{number}" for number in range(2, MOST_SESSIONS + 2)] == keys


def test_what_comes_with_the_list_is_told_as_one() -> None:
    """A collector that started, for example: the runs are as before."""
    hub = hub_of("a")
    version, rows = hub.rows()
    hub.tell_list()
    assert ([(None, None)], rows) == (told(hub, version), hub.rows()[1])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=40), st.integers(0, 45))
def test_what_is_told_brings_a_listener_up_to_date(changes: list[tuple[str, int]], at: int) -> None:
    """From any version on, the state then plus the news is the state now, and ids rise."""
    hub = hub_of("a", "b", "c")
    states: dict[int, dict[str, Any]] = {hub.version: {row["name"]: row["steps"] for row in hub.rows()[1]}}
    for name, steps in changes:
        hub.set_row(name, {"name": name, "steps": steps})
        states[hub.version] = {row["name"]: row["steps"] for row in hub.rows()[1]}
    version = min(at + 1, hub.version)
    news = hub.since(version)
    assert states[hub.version] == {
        **states[version],
        **{one.name: one.row["steps"] for one in news if one.row},
    }
    assert sorted({one.version for one in news}) == [one.version for one in news]


def test_waiting_ends_with_news_and_with_the_hub() -> None:
    """A listener sleeps until there is something to tell, and never beyond the end."""
    hub = hub_of("a")
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(len(hub.wait(hub.version, timeout=60))))
    waiter.start()
    hub.set_row("a", {"steps": 1})
    waiter.join()
    late = threading.Thread(target=lambda: found.append(len(hub.wait(hub.version, timeout=60))))
    late.start()
    hub.close()
    late.join()
    assert 0 == found[1]


@pytest.mark.parametrize(
    ("identity", "version"),
    [
        ("{}-2", 2),
        ("{}-0", 0),
        ("{}-999", 3),
        ("other-2", None),
        ("{}", None),
        ("", None),
        ("{}-x", None),
        ("{}-²", None),
    ],
)
def test_an_id_of_this_epoch_is_where_to_go_on(identity: str, version: int | None) -> None:
    """An id of another start of TensorBoard, or no id at all, means to begin anew."""
    hub = hub_of("a")
    hub.set_row("a", {"steps": 1})
    hub.set_row("a", {"steps": 2})
    assert version == resume_point(identity.format(hub.epoch), hub)


def test_every_hub_has_an_epoch_of_its_own() -> None:
    """Versions of a TensorBoard that was restarted mean nothing to the new one."""
    assert Hub().epoch != Hub().epoch


def test_seats_are_limited_and_given_back_once() -> None:
    """A stream that is closed twice does not make room for two."""
    seats = Seats(2)
    first, second = seats.take(), seats.take()
    assert first is not None
    assert second is not None
    assert None is seats.take()
    first.give_back()
    first.give_back()
    assert None is not seats.take()
    assert None is seats.take()


@pytest.fixture
def seats() -> Seats:
    return Seats(1)


def listener(hub: Hub, seats: Seats, seen: int | None = None, **more: Any) -> EventStream:
    seat = seats.take()
    assert seat is not None
    return EventStream(hub, seat, seen, **more)


def test_an_event_of_a_session_is_its_entry(seats: Seats) -> None:
    """Under a name of its own, and with an id by which the stream goes on."""
    hub = hub_of("a")
    stream = listener(hub, seats)
    events = iter(stream)
    next(events)
    hub.set_session("k", {"key": "k", "clients": 1})
    assert [("debugger", f"{hub.epoch}-{hub.version}", {"key": "k", "clients": 1})] == parsed(next(events))
    stream.close()


def test_a_stream_begins_with_where_it_stands(seats: Seats) -> None:
    """The first event has the epoch, and an id from which to resume."""
    hub = hub_of("a")
    stream = listener(hub, seats)
    hello = next(iter(stream))
    assert hello.startswith(b"retry: 1000\n")
    [(name, identity, data)] = parsed(hello.partition(b"\n")[2])
    assert ("hello", f"{hub.epoch}-1", {"epoch": hub.epoch, "version": 1}) == (name, identity, data)
    stream.close()


def test_a_stream_tells_the_list_and_the_runs(seats: Seats) -> None:
    """All that is new comes in one piece; a run comes with its whole row."""
    hub = hub_of("a")
    stream = listener(hub, seats)
    events: Iterator[bytes] = iter(stream)
    next(events)
    hub.set_list({"a": {"steps": None}, "b": {"steps": None}})
    hub.set_row("b", {"steps": 3, "loss": float("nan")})
    assert [
        ("runs", f"{hub.epoch}-2", {"version": 2}),
        ("run", f"{hub.epoch}-3", {"run": "b", "steps": 3, "loss": "NaN"}),
    ] == parsed(next(events))
    stream.close()


def test_a_resumed_stream_starts_with_what_was_missed(seats: Seats) -> None:
    """The newest state of every run that changed since."""
    hub = hub_of("a", "b")
    for steps in range(5):
        hub.set_row("a", {"steps": steps})
    stream = listener(hub, seats, 1)
    events = iter(stream)
    assert {"epoch": hub.epoch, "version": 1} == parsed(next(events).partition(b"\n")[2])[0][2]
    assert [("run", f"{hub.epoch}-6", {"run": "a", "steps": 4})] == parsed(next(events))
    stream.close()


def test_a_stream_ends_with_the_hub_and_gives_its_seat_back(seats: Seats) -> None:
    """At the end of TensorBoard the browser gets a proper end, even in the middle of waiting."""
    hub = hub_of("a")
    stream = listener(hub, seats)
    events = iter(stream)
    next(events)
    threading.Thread(target=hub.close).start()
    assert [] == list(events)
    stream.close()
    assert None is not seats.take()


def test_a_stream_that_was_never_read_gives_its_seat_back(seats: Seats) -> None:
    """A browser may hang up before the first event."""
    stream = listener(hub_of("a"), seats)
    stream.close()
    assert None is not seats.take()


def test_a_stream_notices_that_its_listener_hung_up(seats: Seats) -> None:
    """The socket says so at once, while a write would only fail some seconds later."""
    ours, theirs = socket.socketpair()
    with ours:
        stream = listener(hub_of("a"), seats, connection=ours)
        events = iter(stream)
        next(events)
        theirs.close()
        assert [] == list(events)
        stream.close()


def test_a_quiet_stream_says_that_it_lives(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment comes when nothing happens, so that proxies and browsers do not give up."""
    monkeypatch.setattr("tb_netdebug.viewer.plugin.event_stream.LOOK_SECS", 0.001)
    monkeypatch.setattr("tb_netdebug.viewer.plugin.event_stream.HEARTBEAT_SECS", 0.003)
    stream = listener(hub_of("a"), seats)
    events = iter(stream)
    next(events)
    assert b": still here\n\n" == next(events)
    stream.close()


def test_turns_are_short_while_anybody_works() -> None:
    """And as they were before when the last one has left, also after a mistake."""

    @short_turns()
    def fail() -> float:
        return 1 / 0

    usual = sys.getswitchinterval()
    with short_turns():
        with pytest.raises(ZeroDivisionError):
            fail()
        assert SHORT_TURN_SECS == pytest.approx(sys.getswitchinterval())
    assert usual == sys.getswitchinterval()
