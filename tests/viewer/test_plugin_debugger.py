"""The debugger's routes in a real TensorBoard: who may ask what, two windows at once, and big tensors."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support.hub_page import HubPage, token_of
from tests.support.scripted_session import PIECE, DebuggedTraining
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import OURS, Reply, TensorBoard

BERT = {"client": "b" * 16, "label": "Bert"}
NO_ANSWER_SECS = 60
GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture(scope="module")
def board(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    logdir = tmp_path_factory.mktemp("logs")
    with TensorBoard("--logdir", str(logdir), "--netdebug_listen", ":0", env=home.env) as started:
        yield started


@pytest.fixture(scope="module")
def training(
    home: Home, board: TensorBoard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DebuggedTraining]:
    with DebuggedTraining(home, tmp_path_factory.mktemp("far"), size=GIGABYTE + 5) as started:
        HubPage(board).key()
        yield started


@pytest.fixture
def page(board: TensorBoard, training: DebuggedTraining) -> Iterator[HubPage]:
    made = HubPage(board)
    yield made
    for each in (made, HubPage(board, **BERT)):
        each.attend()


ATTEND = {"label": "Anna", "sessions": []}
CALL = {"verb": "continue", "arguments": {}}
TENSOR = {"name": "weight:fc.weight"}
Headers = dict[str, str | None]
GATE: dict[str, tuple[Headers, int]] = {
    "a foreign host": ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
    "another site": ({"Origin": "http://evil.example"}, 403),
    "another port": ({"Origin": "http://localhost:1"}, 403),
    "no origin": ({"Origin": None}, 403),
    "cross-site": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "no token": ({"X-NetDebug-Token": None}, 403),
    "a wrong token": ({"X-NetDebug-Token": "x" * 43}, 403),
    "a form": ({"Content-Type": "text/plain"}, 415),
    "no length": ({"Content-Length": None}, 411),
    "too long": ({"Content-Length": "100000"}, 413),
}


def asked(
    board: TensorBoard, route: str, body: dict[str, Any], changes: Headers, *, method: str = "POST"
) -> Reply:
    """What a request gets that differs from our page's own in some headers; None leaves one out."""
    host = f"localhost:{board.port}"
    data = json.dumps({"client": "a" * 16, **body}).encode()
    headers = {
        "Host": host,
        "Origin": f"http://{host}",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        "X-NetDebug-Token": token_of(board),
        **changes,
    }
    connection = http.client.HTTPConnection(board.host, board.port, timeout=NO_ANSWER_SECS)
    try:
        connection.putrequest(method, OURS + route, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        with connection.getresponse() as response:
            return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("what", GATE)
@pytest.mark.parametrize(
    ("route", "body"), [("debugger/attend", ATTEND), ("debugger/call", CALL), ("debugger/tensor", TENSOR)]
)
def test_who_is_not_our_page_reaches_no_training(
    page: HubPage, training: DebuggedTraining, what: str, route: str, body: dict[str, Any]
) -> None:
    """Not with any of the routes, and whatever it brings of the rest."""
    changes, status = GATE[what]
    key = page.key()
    before = training.facts()
    whole = {**body, "session": key} if body is not ATTEND else {**body, "take": key}
    reply = asked(page.board, route, whole, changes)
    assert status == reply.status
    assert reply.json()["error"].endswith(".")
    after = training.facts()
    assert (before["asked"], before["leases"]) == (after["asked"], after["leases"])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
@pytest.mark.parametrize("route", ["debugger/attend", "debugger/call", "debugger/tensor"])
def test_a_route_that_changes_something_is_posted_to(page: HubPage, route: str, method: str) -> None:
    """A link or a picture of another site would be a GET."""
    reply = asked(page.board, route, {}, {}, method=method)
    assert (405, "POST") == (reply.status, reply.headers["Allow"])


def test_the_list_is_read_by_whoever_may_read(page: HubPage) -> None:
    """As the runs are: not by other sites, and nothing is posted to it."""
    assert 405 == asked(page.board, "debugger/sessions", {}, {}).status
    assert 403 == page.board.get("debugger/sessions", {"Origin": "http://evil.example"}).status
    found = page.board.json("debugger/sessions")
    assert page.board.json("runs")["epoch"] == found["epoch"]
    assert "NaN" == found["sessions"][0]["state"]["loss"]


CALLS: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "no client": ("debugger/call", {**CALL, "client": None}, 400, "client"),
    "a short client": ("debugger/call", {**CALL, "client": "a"}, 400, "client"),
    "a client with a break": ("debugger/call", {**CALL, "client": "a" * 20 + "\n"}, 400, "client"),
    "no session": ("debugger/call", {**CALL, "session": None}, 400, "session"),
    "an unknown session": ("debugger/call", {**CALL, "session": "gone"}, 404, "no longer available"),
    "a session that is a list": ("debugger/call", {**CALL, "session": []}, 400, "session"),
    "an unknown verb": ("debugger/call", {**CALL, "verb": "exec"}, 400, "exec"),
    "arguments that are none": ("debugger/call", {**CALL, "arguments": [1]}, 400, "arguments"),
    "an unknown argument": ("debugger/call", {**CALL, "arguments": {"x": 1}}, 400, "no argument 'x'"),
    "a wrong argument": ("debugger/call", {"verb": "hits", "arguments": {"since": -1}}, 400, "negative"),
    "an unknown field": ("debugger/call", {**CALL, "shell": "rm"}, 400, "shell"),
    "a refusal": ("debugger/call", {"verb": "remove_breakpoint", "arguments": {"id": 7}}, 422, "7"),
    "sessions that are none": ("debugger/attend", {**ATTEND, "sessions": "x"}, 400, "sessions"),
    "a key that is none": ("debugger/attend", {**ATTEND, "sessions": [1]}, 400, "sessions"),
    "taking nothing": ("debugger/attend", {**ATTEND, "take": "gone"}, 404, "no longer available"),
    "a label that is none": ("debugger/attend", {**ATTEND, "label": 7}, 400, "label"),
    "a tensor of nobody": ("debugger/tensor", {**TENSOR, "session": "gone"}, 404, "no longer available"),
    "a tensor without a name": ("debugger/tensor", {}, 400, "name"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_what_cannot_be_meant_is_said(page: HubPage, what: str) -> None:
    """With the status for it, and a sentence that names it."""
    route, body, status, word = CALLS[what]
    named = {} if route == "debugger/attend" else {"session": page.key()}
    reply = page.post(route, **{**named, **body})
    assert status == reply.status, reply.body
    assert word in reply.json()["error"]


def test_two_windows_see_who_has_the_controls(page: HubPage) -> None:
    """The second one looks on, takes over when it wants to, and the first one hears it from the stream."""
    bert, key = HubPage(page.board, **BERT), page.key()
    page.attend(key)
    bert.attend(key)
    assert "paused" == page.call(key, "pause")["status"]
    refused = bert.post("debugger/call", session=key, verb="continue", arguments={})
    assert (409, True) == (refused.status, "Anna has the controls" in refused.json()["error"])
    assert [] == bert.call(key, "hits")
    with page.board.stream() as stream:
        stream.until("hello")
        bert.attend(key, take=key)
        told = stream.until("debugger")
        assert (key, BERT) == (told.data["key"], told.data["holder"])
        assert "running" == bert.call(key, "continue")["status"]
        while told.data["state"]["status"] != "running":
            told = stream.until("debugger")
    assert 409 == page.post("debugger/call", session=key, verb="pause", arguments={}).status
    bert.attend()
    assert "paused" == page.call(key, "pause")["status"]
    page.call(key, "continue")


def test_a_stream_goes_on_where_it_was_cut(page: HubPage, training: DebuggedTraining) -> None:
    """With the newest state of each session that changed meanwhile, and nothing twice."""
    key = page.key()
    page.attend(key, take=key)
    with page.board.stream() as stream:
        page.call(key, "set_learning_rate", optimizer=0, value=0.25)
        last = stream.until("debugger")
        while last.data["state"]["learning_rates"][0]["value"] != 0.25:
            last = stream.until("debugger")
    for value in (0.3, 0.4, 0.5):
        page.call(key, "set_learning_rate", optimizer=0, value=value)
    wait_for(lambda: page.entry(key)["state"]["learning_rates"][0]["value"] == 0.5)
    with page.board.stream(headers={"Last-Event-ID": last.id}) as stream:
        assert last.id == stream.until("hello").id
        event = stream.until("debugger")
        while event.data["state"]["learning_rates"][0]["value"] != 0.5:
            assert 0.3 <= event.data["state"]["learning_rates"][0]["value"]
            event = stream.until("debugger")
    with page.board.stream(headers={"Last-Event-ID": event.id}) as stream:
        assert event.id == stream.until("hello").id
        page.attend(key, release=key)
        assert stream.until("debugger").data["holder"] is None


def test_a_session_that_goes_is_told(home: Home, page: HubPage, training: DebuggedTraining) -> None:
    """Also to who comes back later."""
    with DebuggedTraining(home, training_folder(home), run="other") as other, page.board.stream() as stream:
        event = stream.until("debugger")
        while event.data.get("session", {}).get("run") != ["other"]:
            event = stream.until("debugger")
        other.do("leave")
        gone = stream.until("debugger")
        while "is_gone" not in gone.data:
            gone = stream.until("debugger")
    assert {"key": event.data["key"], "is_gone": True} == gone.data
    with page.board.stream(headers={"Last-Event-ID": event.id}) as stream:
        told = stream.until("debugger")
        while told.data["key"] != gone.data["key"]:
            told = stream.until("debugger")
        assert gone.data == told.data


def training_folder(home: Home) -> Any:
    return home.folder / "other"


def keys_of(page: HubPage, run: str) -> list[str]:
    return [each["key"] for each in page.sessions() if each["session"]["run"] == [run]]


def letters(start: int, count: int) -> bytes:
    """What a scripted session has in such a place of a tensor."""
    return b"".join(bytes([at // PIECE % 251]) for at in range(start, start + count))


def test_a_gigabyte_passes_through(page: HubPage) -> None:
    """Whole, under a harmless name, and TensorBoard needs no more memory for it than for a small one."""
    process = psutil.Process(page.board.process.pid)
    key = page.key()
    took = before = process.memory_info().rss
    with page.posted("debugger/tensor", session=key, name="weight:../../a b/\r\nc") as response:
        assert 200 == response.status
        assert 'attachment; filename="weight_.._.._a_b_c.npy"' == response.getheader("Content-Disposition")
        assert str(GIGABYTE + 5) == response.getheader("Content-Length")
        size = 0
        while data := response.read(PIECE):
            assert letters(size, 1) + letters(size + len(data) - 1, 1) == data[:1] + data[-1:]
            size += len(data)
            took = max(took, process.memory_info().rss)
    assert GIGABYTE + 5 == size
    assert took - before < 50e6


def test_who_hangs_up_is_sent_nothing_more(page: HubPage, training: DebuggedTraining) -> None:
    """The training is not asked for the rest, and there is room for the next one."""
    key = page.key()
    for _ in range(6):
        with page.posted("debugger/tensor", session=key, name="weight:fc") as response:
            response.read(10)

    def asked_for() -> int:
        return sum(verb == "bytes" for verb in training.facts()["asked"])

    before = -1
    while before != (now := asked_for()):
        before = now
        page.call(key, "recheck")
    with page.posted("debugger/tensor", session=key, name="weight:fc") as response:
        assert 200 == response.status
        response.read(10)
    assert before < 6 * GIGABYTE / PIECE


def test_so_many_downloads_at_once(page: HubPage) -> None:
    """Whoever comes then is told to wait."""
    key = page.key()
    open_ones = [page.posted("debugger/tensor", session=key, name="weight:fc") for _ in range(4)]
    try:
        assert [200] * 4 == [each.__enter__().status for each in open_ones]
        reply = page.post("debugger/tensor", session=key, name="weight:fc")
        assert (503, "2") == (reply.status, reply.headers["retry-after"])
    finally:
        for each in open_ones:
            each.__exit__(None, None, None)
    wait_for(lambda: first_byte(page, key) == b"\0")


def first_byte(page: HubPage, key: str) -> bytes:
    with page.posted("debugger/tensor", session=key, name="weight:fc") as response:
        return response.read(1) if response.status == 200 else b""


def test_a_training_that_is_killed_cuts_a_download(home: Home, page: HubPage) -> None:
    """The file is not taken for a whole one, and TensorBoard goes on."""
    with DebuggedTraining(home, training_folder(home), run="killed", size=GIGABYTE) as other:
        other.wait_until_connected()
        wait_for(lambda: keys_of(page, "killed"))
        (key,) = keys_of(page, "killed")
        with page.posted("debugger/tensor", session=key, name="weight:fc") as response:
            response.read(PIECE)
            other.kill()
            with pytest.raises(http.client.IncompleteRead):
                response.read()
    assert "Traceback" not in page.board.log
