"""Requests in odd spellings, byte by byte to a real TensorBoard: our routes answer none of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.tensorboard_process import OURS, Reply, TensorBoard
from tests.viewer.test_plugin_control import token_of

GET = f"GET {OURS}runs HTTP/1.1"
CRLF = "\r\n"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(tmp_path_factory.mktemp("logs"))) as started:
        yield started


def exchanged(board: TensorBoard, sent: bytes) -> Reply:
    """The answer to exactly these bytes."""
    with socket.create_connection((board.host, board.port), timeout=30) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        reply = connection.makefile("rb").read()
    if not reply.startswith(b"HTTP/"):  # to HTTP/0.9, which has no head
        assert b"NetDebug does not answer this request" in reply
        return Reply(400, {}, reply)
    head, _, body = reply.partition(b"\r\n\r\n")
    status, *_ = head.decode("latin-1").split(CRLF)
    return Reply(int(status.split()[1]), {}, body)


def told(board: TensorBoard, line: str, *headers: str, end: str = CRLF) -> Reply:
    """The answer to a first line and headers, of which ours comes by itself."""
    return exchanged(board, (end.join([line, *headers, "X-NetDebug: 1", "", ""])).encode("latin-1"))


def own(board: TensorBoard) -> str:
    return f"Host: localhost:{board.port}"


@pytest.mark.parametrize("end", [CRLF, "\n"])
@pytest.mark.parametrize("host", ["localhost", "localhost.:6006", "127.0.0.1:65535", "[::1]", "LOCALHOST:1"])
def test_what_is_well_formed_is_answered(board: TensorBoard, host: str, end: str) -> None:
    """As a browser sends it, and as somebody types it; nothing that a proxy adds changes anything."""
    for version in ("1.0", "1.1"):
        assert 200 == told(board, f"GET {OURS}runs HTTP/{version}", f"Host: {host}", end=end).status
    assert 200 == told(board, f"GET {OURS}runs HTTP/1.0").status
    forwarded = ("X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: host=evil.example")
    assert 200 == told(board, GET, f"Host: {host}", *forwarded).status
    hidden = ("X-Forwarded-Host: localhost", "X-Forwarded-For: 127.0.0.1", "Forwarded: host=localhost")
    assert 403 == told(board, GET, "Host: evil.example", *hidden).status


@pytest.mark.parametrize("route", ["runs", "index.html", "index.js", "live", "nonsense"])
@pytest.mark.parametrize(
    "target",
    [
        "http://localhost{path}", "http://localhost:{port}{path}", "http://127.0.0.1{path}", "HTTP://LOCALHOST{path}",
        "http://evil.example{path}", "https://localhost{path}", "x://localhost{path}", "http://u@localhost{path}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("host", ["evil.example", "localhost"])
def test_a_target_is_a_path(board: TensorBoard, route: str, target: str, host: str) -> None:
    """A whole URL would go before the Host, so that the two may name different servers."""
    line = f"GET {target.format(path=OURS + route, port=board.port)} HTTP/1.1"
    assert 400 == told(board, line, f"Host: {host}").status


@pytest.mark.parametrize("path", ["http:{path}", "x:{path}", "HTTP:{path}"])
def test_a_target_without_a_server_is_no_path_either(board: TensorBoard, path: str) -> None:
    """Werkzeug forgets a scheme."""
    assert 400 == told(board, f"GET {path.format(path=OURS)}runs HTTP/1.1", own(board)).status


@pytest.mark.parametrize("route", ["runs", "index.html", "index.js"])
@pytest.mark.parametrize(
    "line",
    [
        "HEAD  {path} HTTP/1.1", "GET\t{path} HTTP/1.1", "GET {path}\tHTTP/1.1", "GET {path}  HTTP/1.1",
        " GET {path} HTTP/1.1", "GET {path} HTTP/1.1 ", "GET\x0b{path} HTTP/1.1", "GET\x0c{path} HTTP/1.1",
        "GET\xa0{path} HTTP/1.1", "GET {path}\x85HTTP/1.1", "GET\x1c{path} HTTP/1.1", "GET \r{path} HTTP/1.1",
        "GET {path}", "GET {path} HTTP/0.9", "GET {path} HTTP/01.1", "GET {path} HTTP/1.2",
        "GET {path} HTTP/1.01", "GET {path}#x\x7f HTTP/1.1", "\tGET {path} HTTP/1.1",
    ],
)  # fmt: skip
def test_a_first_line_has_one_spelling(board: TensorBoard, line: str, route: str) -> None:
    """No other white space, no more of it, and a version that is one."""
    assert 400 == told(board, line.format(path=OURS + route), own(board)).status


@pytest.mark.parametrize("method", ["get", "Get", "gET", "head", "GET\xc0", "G\x01ET"])
def test_a_method_has_one_spelling(board: TensorBoard, method: str) -> None:
    """Letters count."""
    assert 405 == told(board, f"{method} {OURS}runs HTTP/1.1", own(board)).status


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: localhost", "Host: localhost"),
        ("Host: localhost", "Host: evil.example"),
        ("Host: evil.example", "host: localhost"),
        ("Host: evil.example", " localhost"),
        ("Host: localhost", "X-Other: a", "\tb"),
        (" Host: localhost",),
        ("Host : localhost",),
        ("Host: localhost", "no header at all"),
        ("Host: localhost", "X-NetDebug: 1"),
        ("Host: localhost", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
        ("Host: localhost", "Origin: http://localhost", "Origin: http://evil.example"),
        ("Host: localhost", "Content-Length: 0", "Content-Length: 0"),
        ("Host: localhost", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Host: localhost", "Transfer-Encoding: chunked"),
        ("Host: localhost", "Transfer-Encoding: identity"),
        (),
    ],
)
def test_headers_that_may_be_read_in_two_ways(board: TensorBoard, headers: tuple[str, ...]) -> None:
    """Twice, folded, without a name, in two lengths, or without a Host."""
    assert 400 == told(board, GET, *headers).status
    assert 400 == told(board, f"GET {OURS}index.html HTTP/1.1", *headers).status


@pytest.mark.parametrize(
    "host",
    [
        "user@localhost", "localhost@evil.example", "user:x@127.0.0.1", "localhost:0", "localhost:65536",
        "localhost:99999", "localhost:-1", "localhost..", "localhost:6006:6006", "localhost, localhost", "",
        "[::1]x", "[::1%lo]", "localhost/", "localhost\\", "localhost%00", "0x7f000001", "2130706433",
    ],
)  # fmt: skip
def test_a_host_is_a_name_and_a_port(board: TensorBoard, host: str) -> None:
    """What is neither is nobody's."""
    assert 403 == told(board, GET, f"Host: {host}").status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Content-Length: 2",), 400),  # accepted, and then too little is in the body
        (("Content-Length: 2", "Content-Length: 2"), 400),
        (("Content-Length: 2", "Content-Length: 3"), 400),
        (("Content-Length: 2", "Transfer-Encoding: chunked"), 411),
        (("Transfer-Encoding: chunked",), 411),
        (("Transfer-Encoding: gzip, chunked", "Content-Length: 2"), 411),
        (("Transfer-Encoding: \x0bchunked", "Content-Length: 2"), 411),
        (("Content-Length: +2",), 400),
        (("Content-Length: 2_0",), 400),
        (("Content-Length: 0x2",), 400),
        (("Content-Length: 2, 2",), 400),
        (("Content-Length: 2", "X-NetDebug-Token: x"), 400),
        (("Content-Length: 2", "Content-Type: application/json"), 400),
        (("Content-Length: 2", "Host: localhost"), 400),
    ],
)
def test_what_changes_something_has_one_length(
    board: TensorBoard, headers: tuple[str, ...], status: int
) -> None:
    """With everything right but this."""
    line = f"POST {OURS}debugger/attend HTTP/1.1"
    right = (
        own(board), f"Origin: http://localhost:{board.port}", "Content-Type: application/json",
        f"X-NetDebug-Token: {token_of(board)}",
    )  # fmt: skip
    sent = CRLF.join([line, *right, *headers, "", ""]).encode("latin-1") + b"{}"
    reply = exchanged(board, sent)
    assert status == reply.status
    assert reply.json()["error"].endswith(".")
    assert (headers == ("Content-Length: 2",)) == ("client" in reply.json()["error"])


def test_a_path_may_have_letters_of_any_alphabet(board: TensorBoard) -> None:
    """As curl sends them, without escapes."""
    line = f"GET {OURS}run?run=\u00e9\u4e2d HTTP/1.1\r\nHost: localhost\r\nX-NetDebug: 1\r\n\r\n"
    assert 404 == exchanged(board, line.encode()).status
