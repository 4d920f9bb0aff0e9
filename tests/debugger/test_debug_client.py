"""How a terminal finds a hub, and what it says when there is none."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tb_netdebug.cli import main
from tb_netdebug.cli.debugging import tensorboards
from tb_netdebug.debugger.client.attendance import Attendance
from tb_netdebug.debugger.client.client import ClientError, NotHeldError, TrainingGoneError, UnreachableError
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress
from tests.support.scripted_hub import KEY, NPY, RefusedError, ScriptedHub, serving
from tests.support.tensorboard_process import TensorBoard


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with serving(ScriptedHub()) as started:
        yield started


def client_of(address: str, **environ: str) -> HttpClient:
    return HttpClient(HubAddress.of(address), label="ada", environ=environ)


@pytest.mark.parametrize(
    ("text", "origin", "whole"),
    [
        (":6006", "http://127.0.0.1:6006", "http://127.0.0.1:6006/"),
        ("6006", "http://127.0.0.1:6006", "http://127.0.0.1:6006/"),
        ("localhost:6006", "http://localhost:6006", "http://localhost:6006/"),
        ("[::1]:6006", "http://[::1]:6006", "http://[::1]:6006/"),
        ("http://box:6006/tb/#netdebug", "http://box:6006", "http://box:6006/tb/"),
        ("https://tb.lab/a/b", "https://tb.lab", "https://tb.lab/a/b/"),
        ("http://[::1]:80/", "http://[::1]", "http://[::1]/"),
    ],
)
def test_addresses_as_people_write_them(text: str, origin: str, whole: str) -> None:
    """Also copied from the browser, with a path prefix; the usual port is left out as browsers do."""
    address = HubAddress.of(text)
    assert (origin, whole) == (address.origin, str(address))


@pytest.mark.parametrize("text", ["", "box", "ftp://box:1/", "http://", "http://box:99999/", "a b:1"])
def test_what_is_no_address(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said before anything is sent."""
    assert 2 == main(["debug", text, "-c", "where"])
    assert capsys.readouterr().err.startswith("netdebug: ")


def test_nothing_listens() -> None:
    """The sentence says what to start."""
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(
            UnreachableError, match=r"Nothing listens at http://127.0.0.1:.*start `tensorboard"
        ):
            client_of(f":{bound.getsockname()[1]}").sessions()


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "does not speak HTTP"),
        (b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "is not a TensorBoard"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not a JSON object"),
    ],
)
def test_something_else_listens(reply: bytes, sentence: str) -> None:
    """Whatever it is, it is told from a TensorBoard."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ClientError, match=sentence):
            client_of(f":{server.getsockname()[1]}").sessions()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_tensorboard_without_netdebug(tmp_path: Path) -> None:
    """It is told apart from something that is none; the sentence says what to install where."""
    without = "from tensorboard import default\ndefault.get_dynamic_plugins = lambda: []\n"
    with (
        TensorBoard("--logdir", str(tmp_path), preamble=without) as board,
        pytest.raises(UnreachableError, match=r"has no NetDebug: install it"),
    ):
        client_of(board.url).sessions()


def test_requests_are_those_of_our_page(hub: ScriptedHub) -> None:
    """Origin, type and token are right, and the client has a name of its own."""
    client = client_of(hub.address)
    (training,) = client.attend([KEY], take=KEY)
    assert ("night/mlp", 0, True) == (training.run, training.rank, training.is_paused)
    assert {"client": client.id, "label": "ada"} == training.holder
    assert 32 == len(client.id)
    assert ("pause", {"wait": 0.5}) == (client.call(KEY, "pause", wait=0.5), hub.calls[-1])[1]


def test_a_hub_that_was_started_again_has_another_token(hub: ScriptedHub) -> None:
    """The client finds it by itself."""
    client = client_of(hub.address)
    client.attend([KEY])
    hub.token, hub.epoch = "n" * 43, "second"
    client.attend([KEY])
    assert "second" == client.epoch


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ClientError), (404, TrainingGoneError), (409, NotHeldError), (422, ClientError)],
)
def test_refusals_keep_their_sentence(hub: ScriptedHub, status: int, kind: type[ClientError]) -> None:
    """What the hub says is what the person reads."""

    def refuse(_: object) -> None:
        raise RefusedError(status, "Because of the weather.")

    hub.answers["recheck"] = refuse
    with pytest.raises(kind, match="Because of the weather"):
        client_of(hub.address).call(KEY, "recheck")


def test_a_token_never_travels_without_tls(hub: ScriptedHub) -> None:
    """Over http that of the page is the only one that is sent."""
    secret = "a-token-that-was-given-by-hand"
    hub.token, hub.is_token_in_page = secret, False
    with pytest.raises(ClientError, match="token is missing"):
        client_of(hub.address, NETDEBUG_TOKEN=secret).attend([KEY])
    assert [] == hub.attended


def test_downloads_come_in_pieces(hub: ScriptedHub) -> None:
    """A big tensor is never whole in memory."""
    pieces = list(client_of(hub.address).download(KEY, "weight:encoder.weight", slice_text="[0]"))
    assert NPY == b"".join(pieces)
    assert len(pieces) > 1
    assert "[0]" == hub.calls[-1][1]["slice"]


def test_a_download_that_is_cut_short(hub: ScriptedHub) -> None:
    """It is no whole tensor, and nobody takes it for one."""
    hub.npy_bytes = len(NPY) + 1
    with pytest.raises(ClientError, match="cut short"):
        list(client_of(hub.address).download(KEY, "weight:encoder.weight"))


def test_who_attends_keeps_saying_so(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it leaves, which it says at once; a hub that is away for a while is told of once."""
    monkeypatch.setattr("tb_netdebug.debugger.client.attendance.EVERY_SECS", 0.01)
    heard: list[str | None] = []
    changed = threading.Event()

    def hear(sentence: str | None) -> None:
        heard.append(sentence)
        changed.set()

    with Attendance(client_of(hub.address), hear) as attendance:
        attendance.attend([KEY])
        hub.token = "o" * 40  # is found again
        right, hub.is_gone = hub.attend, False
        hub.attend = lambda body: (_ for _ in ()).throw(RefusedError(503, "Too busy."))  # type: ignore[method-assign]
        assert changed.wait(60)
        changed.clear()
        hub.attend = right  # type: ignore[method-assign]
        assert changed.wait(60)
    assert ["Too busy.", None] == heard
    assert [[KEY], []] == [hub.attended[0]["sessions"], hub.attended[-1]["sessions"]]


def info(folder: Path, name: str, **changes: object) -> None:
    """As TensorBoard writes it."""
    process = psutil.Process()
    told = {
        "cache_key": "", "db": "", "logdir": "/logs", "path_prefix": "", "pid": process.pid, "port": 7001,
        "start_time": int(process.create_time()) + 5, "version": "2.20.0", **changes,
    }  # fmt: skip
    (folder / name).write_text(json.dumps(told))


@pytest.fixture
def info_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / ".tensorboard-info"
    folder.mkdir()
    return folder


def test_the_tensorboard_of_this_machine(info_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If there is one that lives, it is meant; dead ones, and files that are none, are not."""
    info(info_folder, f"pid-{os.getpid()}.info", path_prefix="/tb/")
    info(info_folder, "pid-2.info", pid=2**22 + 1)
    info(info_folder, "pid-3.info", start_time=0)
    (info_folder / "pid-4.info").write_text("{")
    assert ["http://localhost:7001/tb"] == [board.url for board in tensorboards.running()]
    info(info_folder, "pid-5.info", port=7002)
    assert 2 == main(["debug", "-c", "where"])
    shown = capsys.readouterr().err
    assert "several TensorBoards" in shown
    assert "http://localhost:7002 (/logs)" in shown


def test_without_one_the_usual_port_is_tried(info_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And said."""
    main(["debug", "-c", "help"])
    assert "trying http://localhost:6006" in capsys.readouterr().err


def test_a_real_tensorboard_tells_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that it leaves is the one that is looked for."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TensorBoard("--logdir", str(tmp_path), env={"TMPDIR": str(tmp_path)}) as board:
        deadline = time.monotonic() + 60  # it says where it is before it leaves its file
        while not (boards := tensorboards.running()):
            assert time.monotonic() < deadline
        (found,) = boards
        assert board.port == found.port
        client_of(found.url).sessions()
