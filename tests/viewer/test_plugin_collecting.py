"""The collector in TensorBoard: there when it is needed, a sentence when it cannot be, no secret anywhere."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tb_netdebug.debugger.hub.hub import Sessions
from tb_netdebug.transport.credentials import new_token
from tb_netdebug.viewer.plugin.collecting import Collecting
from tb_netdebug.viewer.plugin.flags import ServerFlags
from tb_netdebug.viewer.plugin.roots import Root
from tests.support.tensorboard_process import TensorBoard

PATIENCE = 400


def until(find: Callable[[], Any]) -> Any:
    for _ in range(PATIENCE):
        found = find()
        if found:
            return found
        Event().wait(0.05)
    raise AssertionError("it did not come to that")


def collector(board: TensorBoard) -> dict[str, Any]:
    """Where it listens or why it does not, once it knows."""

    def known() -> Any:
        told = board.json("runs")["collector"]
        return told if told["address"] or told["trouble"] else None

    found = until(known)
    assert isinstance(found, dict)
    return found


def published(board: TensorBoard) -> list[Path]:
    return sorted(board.runtime.rglob("collector-*.json"))


def assert_listens(address: str) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30):
        pass


def test_the_first_look_at_the_page_starts_it(logdir: Path) -> None:
    """On a free port of this machine alone; its user's trainers find it by a file that only they can read."""
    with TensorBoard("--logdir", str(logdir)) as board:
        assert 200 == board.get("/data/plugins_listing").status
        assert [] == published(board)
        told = collector(board)
        assert (None, 0) == (told["trouble"], told["trainers"])
        assert_listens(told["address"])
        (file,) = published(board)
        status = file.stat()
        assert (0o600, os.getuid()) == (stat.S_IMODE(status.st_mode), status.st_uid)
        found = json.loads(file.read_text())
        assert (told["address"], board.process.pid) == (f"127.0.0.1:{found['port']}", found["pid"])
        board.process.terminate()
        board.process.wait(timeout=30)
        assert [] == published(board)
    assert [] == [*logdir.iterdir()]


def test_a_place_to_listen_needs_no_look_at_the_page(logdir: Path) -> None:
    """Trainings do not wait for somebody who opens it."""
    with TensorBoard("--logdir", str(logdir), "--netdebug_listen", ":0") as board:
        assert until(lambda: published(board))
        found = board.wait_for_log(r"NetDebug takes the records of trainings at (\S+)")
        assert found[1] == collector(board)["address"]
        assert [] == board.json("runs")["complaints"]


def test_a_secret_is_in_no_flag_no_process_list_and_no_log(logdir: Path, tmp_path: Path) -> None:
    """A flag names the file, and TensorBoard shows flags to everybody."""
    token = new_token()
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    with TensorBoard("--logdir", str(logdir), "--netdebug_token_file", str(file)) as board:
        collector(board)
        page_token = re.findall(r'netdebug-token" content="([\w-]+)"', board.get("index.html").body.decode())
        told = board.get("/data/environment").body.decode()
        assert str(file) in told
        shown = [told, board.log, board.get("runs").body.decode()]
        shown += [Path(f"/proc/{board.process.pid}/{name}").read_text() for name in ("cmdline", "environ")]
        notes = Path(tempfile.gettempdir(), ".tensorboard-info").glob(f"pid-{board.process.pid}.info")
        shown += [note.read_text() for note in notes]
        for secret in [token, *page_token]:
            assert [] == [text for text in shown if secret in text]
        assert json.loads(published(board)[0].read_text())["token"] == token


@pytest.fixture
def taken() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_said(logdir: Path, taken: int) -> None:
    """TensorBoard goes on, and the page tells."""
    with TensorBoard("--logdir", str(logdir), "--netdebug_listen", f"127.0.0.1:{taken}") as board:
        assert f"Port {taken} is used" in collector(board)["trouble"]
        (complaint,) = board.json("runs")["complaints"]
        assert collector(board)["trouble"] == complaint


def test_names_that_are_none_are_said(logdir: Path) -> None:
    """The others of the list are allowed."""
    with TensorBoard("--logdir", str(logdir), "--netdebug_allowed_hosts", "box.lab,a/b") as board:
        (complaint,) = board.json("runs")["complaints"]
        assert "'a/b'" in complaint
        assert [200, 403] == [
            board.get("runs", headers={"Host": host}).status for host in ("box.lab:6006", "b:6006")
        ]


def trouble(roots: list[Root], flags: ServerFlags) -> tuple[str, list[str]]:
    """Why there is no collector with these flags, and what of that the page shows to everybody."""
    changed = Event()
    collecting = Collecting(roots, flags, changed.set, Sessions(lambda key, row: None))
    collecting.start()
    assert changed.wait(60)
    told, complaints = collecting.as_dict()["trouble"], collecting.complaints
    collecting.close()
    assert isinstance(told, str)
    return told, complaints


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (ServerFlags(listen="nonsense"), "'nonsense' is not an address"),
        (ServerFlags(listen="0.0.0.0:0"), "netdebug token --tls"),
        (ServerFlags(listen=":0", tls_cert="/nowhere.pem"), "must be given together"),
        (
            ServerFlags(listen=":0", tls_cert="/nowhere.pem", tls_key="/nowhere"),
            "/nowhere.pem cannot be read",
        ),
        (ServerFlags(listen="", token_file="/nowhere"), "/nowhere cannot be read"),
    ],
)
def test_a_wrong_flag_is_said(logdir: Path, flags: ServerFlags, words: str) -> None:
    """In a sentence that says what is meant."""
    told, complaints = trouble([("", str(logdir))], flags)
    assert (True, True, [told]) == (words in told, told.endswith("."), complaints)


def test_a_token_with_white_space_is_said(logdir: Path, tmp_path: Path) -> None:
    """In the list of runs, for a real TensorBoard; the token is not in it."""
    file = tmp_path / "token"
    file.write_text("two words and more words")
    file.chmod(0o600)
    with TensorBoard("--logdir", str(logdir), "--netdebug_token_file", str(file)) as board:
        board.get("runs")
        board.wait_for_log("does not hold a token: it contains white space \\(character 4\\)")
        told = board.json("runs")
        assert "two words" not in board.log
    assert "white space" in told["collector"]["trouble"]
    assert [told["collector"]["trouble"]] == told["complaints"]


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        ([], "without --logdir"),
        ([("", "s3://bucket/logs")], "netdebug collect"),
        ([("", "/dev/null/logs")], "/dev/null cannot be written to"),
    ],
)
def test_where_nothing_can_be_put_is_said_to_who_asked(
    monkeypatch: pytest.MonkeyPatch, roots: list[Root], words: str
) -> None:
    """Who just looks at runs that others have recorded is not bothered with it."""
    monkeypatch.setattr("tb_netdebug.viewer.plugin.collecting.LATER_SECS", 0.0)
    told, complaints = trouble(roots, ServerFlags(listen=""))
    assert (True, []) == (words in told, complaints)
    told, complaints = trouble(roots, ServerFlags(listen=":0"))
    assert (True, [told]) == (words in told, complaints)


def test_a_grpc_that_does_not_fit_is_said(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard itself needs gRPC, but it may have an older one."""
    monkeypatch.setitem(sys.modules, "tb_netdebug.transport.collector", None)
    told, complaints = trouble([("", str(logdir))], ServerFlags(listen=":0"))
    assert (True, [told]) == ("a package is missing" in told, complaints)


def test_a_program_that_is_no_tensorboard_gets_no_collector(logdir: Path) -> None:
    """Its process is not ours to start servers in."""
    collecting = Collecting([("", str(logdir))], ServerFlags(), lambda: None, Sessions(lambda key, row: None))
    collecting.start()
    collecting.close()
    assert {"address": None, "trouble": None, "trainers": 0} == collecting.as_dict()
