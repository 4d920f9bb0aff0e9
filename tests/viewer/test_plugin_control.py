"""Who may change something: our own page does, and nobody else, whatever a web page or a program tries."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import EnvironBuilder

from tb_netdebug.viewer.plugin.control import Control
from tb_netdebug.viewer.plugin.gate import HttpRefusal
from tests.support.tensorboard_process import OURS, Reply, TensorBoard

MOST_BYTES = 1000
# The product has no such route; the gate is the same for all.
ROUTE = f"""
from tb_netdebug.viewer.plugin import application, queries, replies
told = []
def act(service, request):
    told.append(queries.json_object(request.get_data()))
    return replies.json_reply(request, {{"told": told}})
def look(service, request):
    return replies.json_reply(request, {{"told": told}})
application.ROUTES["test/act"] = application.Route(act, methods=("POST",), most_bytes={MOST_BYTES})
application.ROUTES["test/look"] = application.Route(look)
"""
TOKEN = re.compile(r'<meta name="netdebug-token" content="([\w-]{43})" />')
SECRET = "a-token-that-was-given-by-hand"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """On loopback, which also goes by the name box.lab."""
    logdir = tmp_path_factory.mktemp("logs")
    with TensorBoard(
        "--logdir", str(logdir), "--netdebug_allowed_hosts", "box.lab", preamble=ROUTE
    ) as started:
        yield started


@pytest.fixture(scope="module")
def open_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """On the network, with a token in a file."""
    folder = tmp_path_factory.mktemp("open")
    file = folder / "token"
    file.write_text(SECRET)
    file.chmod(0o600)
    flags = ("--logdir", str(folder), "--bind_all", "--netdebug_token_file", str(file))
    with TensorBoard(*flags, preamble=ROUTE, host=None) as started:
        yield started


def token_of(board: TensorBoard) -> str:
    (found,) = TOKEN.findall(board.get("index.html").body.decode())
    assert isinstance(found, str)
    return found


def asked(
    board: TensorBoard,
    changes: dict[str, str | None],
    *,
    method: str = "POST",
    route: str = "test/act",
    body: bytes = b"{}",
) -> Reply:
    """What a request gets that differs from our page's own in some headers; None leaves one out."""
    host = f"localhost:{board.port}"
    headers = {
        "Host": host,
        "Origin": f"http://{changes.get('Host') or host}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **changes,
    }
    lines = [f"{method} {OURS}{route} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    with socket.create_connection((board.host, board.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        reply = connection.makefile("rb").read()
    head, _, content = reply.partition(b"\r\n\r\n")
    status, *told = head.decode("latin-1").split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in told)}
    return Reply(int(status.split()[1]), found, content)


ELSEWHERE = "http://evil.example"
# Each differs from what our page sends in one thing; `TOKEN` stands for the right token.
TABLE: dict[str, tuple[dict[str, str | None], int]] = {
    "as our page does it": ({}, 200),
    "under a name that is allowed": ({"Host": "box.lab:6006"}, 200),
    "under an address": ({"Host": "127.0.0.1:1"}, 200),
    "as a browser marks it": ({"Sec-Fetch-Site": "same-origin"}, 200),
    "a type in other letters": ({"Content-Type": "Application/JSON"}, 200),
    "a foreign host": ({"Host": "evil.example"}, 403),
    "a rebound name": ({"Host": "rebind.example:6006"}, 403),
    "a rebound name that claims to be a proxy": (
        {"Host": "rebind.example", "Sec-Fetch-Site": "same-origin", "X-Forwarded-Host": "localhost"},
        403,
    ),
    "two hosts": ({"Host": "localhost, evil.example"}, 403),
    "another site": ({"Origin": ELSEWHERE}, 403),
    "another port of this machine": ({"Origin": "http://localhost:8888"}, 403),
    "a page without a site": ({"Origin": "null"}, 403),
    "no origin": ({"Origin": None}, 403),
    "another page of the same site": ({"Sec-Fetch-Site": "same-site"}, 403),
    "a form": ({"Content-Type": "text/plain"}, 415),
    "a form that smells of JSON": ({"Content-Type": "text/plain; application/json"}, 415),
    "JSON with a parameter": ({"Content-Type": "application/json; charset=x"}, 415),
    "no type": ({"Content-Type": None}, 415),
    "packed": ({"Content-Encoding": "gzip"}, 415),
    "no token": ({"X-NetDebug-Token": None}, 403),
    "an empty token": ({"X-NetDebug-Token": ""}, 403),
    "a wrong token": ({"X-NetDebug-Token": "x" * 43}, 403),
    "a token of other characters": ({"X-NetDebug-Token": "\xe9" * 43}, 403),
    "no length": ({"Content-Length": None}, 411),
    "in chunks": ({"Content-Length": None, "Transfer-Encoding": "chunked"}, 411),
    "in chunks with a length": ({"Transfer-Encoding": "chunked"}, 411),
    "a length that is none": ({"Content-Length": "two"}, 400),
    "a negative length": ({"Content-Length": "-2"}, 400),
    "too long": ({"Content-Length": str(MOST_BYTES + 1)}, 413),
    "far too long": ({"Content-Length": "9" * 40}, 413),
}


@pytest.mark.parametrize("what", TABLE)
def test_what_is_not_our_page_changes_nothing(board: TensorBoard, what: str) -> None:
    """Each control refuses by itself, and what is refused never reaches the code of the route."""
    changes, status = TABLE[what]
    before = len(board.json("test/look")["told"])
    reply = asked(board, {"X-NetDebug-Token": token_of(board), **changes})
    assert status == reply.status
    assert before + (status == 200) == len(board.json("test/look")["told"])
    if status != 200:
        assert reply.json()["error"].endswith(".")
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(
    "method", ["OPTIONS", "GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "BREW", "post"]
)
def test_a_route_takes_its_own_methods_alone(board: TensorBoard, method: str) -> None:
    """A preflight is none of them: TensorBoard would have handed it to the code."""
    before = len(board.json("test/look")["told"])
    reply = asked(board, {"X-NetDebug-Token": token_of(board)}, method=method)
    # TensorBoard's own server does not know some methods at all.
    assert reply.status in (405, 501)
    assert reply.status == 501 or reply.headers["allow"] == "POST"
    assert before == len(board.json("test/look")["told"])


@pytest.mark.parametrize("route", ["test/look", "runs", "index.html", "nonsense"])
def test_routes_for_reading_take_no_body(board: TensorBoard, route: str) -> None:
    """With everything right that a change needs."""
    reply = asked(board, {"X-NetDebug-Token": token_of(board)}, route=route)
    assert (405, "GET, HEAD") == (reply.status, reply.headers["allow"])


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b"\xff\xfe", b'"' + b"[" * 900])
def test_a_body_has_to_be_an_object(board: TensorBoard, body: bytes) -> None:
    """What is none is said in a sentence, never as a bare 500."""
    reply = asked(board, {"X-NetDebug-Token": token_of(board)}, body=body)
    assert (400, True) == (reply.status, "body" in reply.json()["error"])


def test_the_token_is_in_the_page_alone(board: TensorBoard) -> None:
    """The same for all of its readers, in no other answer, in no cache, and not for a rebound name."""
    token = token_of(board)
    assert token == token_of(board)
    page = board.get("index.html")
    assert "no-store" == page.headers["cache-control"]
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    assert "set-cookie" not in page.headers
    for path in ("runs", "index.js", "/", "/data/environment", "/data/plugins_listing"):
        assert token.encode() not in board.get(path).body
    rebound = board.get("index.html", headers={"Host": "rebind.example"})
    proxied = board.get("index.html", headers={"Host": "proxy.example", "Sec-Fetch-Site": "same-origin"})
    assert [(403, False), (200, False)] == [
        (each.status, token.encode() in each.body) for each in (rebound, proxied)
    ]
    assert token not in board.log


def test_on_the_network_the_page_proves_nothing(open_board: TensorBoard) -> None:
    """Everybody can open it there, so it holds no token; the one from the file counts, and over https."""
    assert [] == TOKEN.findall(open_board.get("index.html").body.decode())
    secure = {"Host": "10.0.0.5:6006", "Origin": "https://10.0.0.5:6006"}
    for token, status in ((None, 403), ("x" * 43, 403), (SECRET, 200)):
        assert status == asked(open_board, {**secure, "X-NetDebug-Token": token}).status
    plain = {"Host": "10.0.0.5:6006", "Origin": "http://10.0.0.5:6006", "X-NetDebug-Token": SECRET}
    reply = asked(open_board, plain)
    assert (403, True) == (reply.status, "https" in reply.json()["error"])


def environ(*, server: str = "127.0.0.1", **headers: str) -> dict[str, object]:
    found = EnvironBuilder(
        method="POST", path="/x", data=b"{}", content_type="application/json"
    ).get_environ()
    return {
        **found,
        "SERVER_NAME": server,
        "HTTP_HOST": "localhost",
        "HTTP_ORIGIN": "http://localhost",
        **headers,
    }


def refused(control: Control, given: dict[str, object]) -> HttpRefusal | None:
    return control.refusal(given)


def test_without_a_token_file_the_network_controls_nothing() -> None:
    """Whatever is sent; the sentence says what would do."""
    control = Control()
    headers = {"HTTP_X_NETDEBUG_TOKEN": control.page_token}
    assert refused(control, environ(**headers)) is None
    for server in ("0.0.0.0", "::", "10.0.0.5", "box.lab"):
        found = refused(control, environ(server=server, **headers))
        assert found is not None
        assert (403, True) == (found.status, "--netdebug_token_file" in found.sentence)
        assert control.token_for_page(environ(server=server)) is None


def test_tokens_are_new_each_time_and_never_shown() -> None:
    """Also not where an object is printed."""
    one, other = Control(typed_token=SECRET), Control()
    assert one.page_token != other.page_token
    assert 43 == len(one.page_token)
    assert one.page_token not in repr(one)
    assert SECRET not in repr(one)


@given(st.text(max_size=60))
def test_no_header_makes_it_fail(text: str) -> None:
    """Headers are anybody's text, and none of it is a token."""
    control = Control()
    for name in ("HTTP_HOST", "HTTP_ORIGIN", "HTTP_X_NETDEBUG_TOKEN", "CONTENT_TYPE", "CONTENT_LENGTH"):
        headers = {"HTTP_X_NETDEBUG_TOKEN": control.page_token, name: text}
        found = refused(control, environ(**headers))
        assert found is None or found.status in (400, 403, 411, 413, 415)
    assert refused(control, environ(HTTP_X_NETDEBUG_TOKEN=text)) is not None
