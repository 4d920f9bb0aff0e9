"""Whose connection it is: another user of the same machine gets the page, but not the token within it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tb_netdebug.viewer.plugin.peer import _end, is_not_of, is_other_users, owner_of_peer
from tests.support.tensorboard_process import OURS, TensorBoard

CLIENT = "0100007F:C350"
LISTENS = "   0: 0100007F:1776 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0"
OUR_END = "   1: 0100007F:1776 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0"


def theirs(*, uid: int = 1000, inode: int = 13, local: str = CLIENT, remote: str = "0100007F:1776") -> str:
    return f"   2: {local} {remote} 01 00000000:00000000 00:00000000 00000000 {uid:5}        0 {inode} 1 0"


@pytest.mark.parametrize(
    ("lines", "is_other"),
    [
        ([LISTENS, OUR_END, theirs()], False),
        ([LISTENS, OUR_END, theirs(uid=1001)], True),
        ([LISTENS, OUR_END, theirs(uid=0)], False),
        ([LISTENS, OUR_END, theirs(uid=0, inode=0)], True),
        ([LISTENS, OUR_END, theirs(inode=0)], True),
        ([LISTENS, OUR_END], True),
        ([LISTENS, OUR_END, theirs(uid=1001), theirs(remote="0100007F:1777")], True),
        ([LISTENS, OUR_END, theirs(uid=1001, local="0100007F:C351"), theirs()], False),
        ([], False),
        (["nonsense", "", theirs(remote="0100007F:1777")], False),
    ],
)
def test_the_owner_of_the_other_end_decides(lines: list[str], is_other: bool) -> None:
    """One who closed it at once to hide, too; a table without our own end is one of somewhere else."""
    assert is_other == is_not_of(1000, lines, client=CLIENT, server=6006)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_of_ours_is_found(host: str) -> None:
    """In the real table, by its address as that writes it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            accepted, (address, client_port, *_) = server.accept()
            environ = {"REMOTE_ADDR": address, "REMOTE_PORT": client_port, "SERVER_PORT": str(port)}
            lines = Path("/proc/self/net", "tcp6" if ":" in host else "tcp").read_text().splitlines()
            assert not is_other_users(environ)
            end = _end(*client.getsockname()[:2])
            assert not is_not_of(os.getuid(), lines, client=end, server=port)
            assert (os.getuid() != 0) == is_not_of(os.getuid() + 1, lines, client=end, server=port)
            accepted.close()
        assert is_other_users({**environ, "REMOTE_PORT": "1"})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_tells_of_a_connection(host: str) -> None:
    """By that alone it is known whose it is; when the other end is closed, nobody is trusted for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            accepted, (address, client_port, *_) = server.accept()
            environ = {
                "REMOTE_ADDR": address,
                "REMOTE_PORT": client_port,
                "SERVER_PORT": str(port),
                "werkzeug.socket": accepted,
            }
            assert (os.getuid(), os.fstat(client.fileno()).st_ino) == owner_of_peer(accepted)
            assert not is_other_users(environ)
        assert is_other_users(environ)
        accepted.close()
        assert owner_of_peer(accepted) is None


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"REMOTE_ADDR": "127.0.0.1"},
        {"REMOTE_ADDR": "nonsense", "REMOTE_PORT": "1", "SERVER_PORT": "2"},
        {"REMOTE_ADDR": "::zz", "REMOTE_PORT": "1", "SERVER_PORT": "2"},
    ],
)
def test_what_is_no_connection_is_nobodys(environ: dict[str, str]) -> None:
    """And nothing fails for it."""
    assert not is_other_users(environ)


# Everything is imported before: that user may not be able to read it.
ASK = """
import encodings.idna, http.client, os, sys
host, port, path, user = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port))
os.setuid(int(user))
connection.request("GET", path)
print(connection.getresponse().read().decode())
"""


def test_the_page_of_another_user_holds_no_token(logdir: Path) -> None:
    """Only root can be two users at once; anybody else sees that the own page has one."""
    users = [os.getuid(), *([65534] if os.getuid() == 0 else [])]
    with TensorBoard("--logdir", str(logdir)) as board:
        where = [board.host, str(board.port), f"{OURS}index.html"]
        pages = [
            subprocess.run(
                [sys.executable, "-I", "-c", ASK, *where, str(user)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for user in users
        ]
    assert [user == os.getuid() for user in users] == ["netdebug-token" in page for page in pages]
    assert all('id="page"' in page for page in pages)
