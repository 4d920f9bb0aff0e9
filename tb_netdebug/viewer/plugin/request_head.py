"""Checks a request as it was sent: its first line and its headers, before a server has normalized them.

Werkzeug takes any white space between the words of the first line, takes the Host from a target that is a
whole URL, keeps the last of two lengths, and unfolds folded lines. A proxy in front of TensorBoard may read
such a request differently, so our routes do not answer it. Browsers and HTTP libraries send none.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from tb_netdebug.viewer.plugin.gate import READING, HttpRefusal

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# One space, a path, one space. Non-ASCII letters in a path are accepted.
_FIRST_LINE = re.compile(rb"[A-Z]+ /[^\x00-\x20\x7f]* HTTP/1\.[01]\r?\n")
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")
# With two of one of these, two programs may read the request in two ways.
_ONCE = frozenset(
    {
        "host", "origin", "content-type", "content-length", "transfer-encoding", "sec-fetch-site",
        "sec-fetch-mode", "x-netdebug", "x-netdebug-token",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """Everything that came before the body."""

    line: bytes
    headers: Message


def misshapen(environ: WSGIEnvironment) -> HttpRefusal | None:
    """Return why a request gets no answer whatever it asks for, or None if it is well formed."""
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI") or "/"
    if not target.startswith("/"):
        return _wrong("its target must be a path; the server name belongs only in Host")
    if environ.get("SERVER_PROTOCOL", "HTTP/1.1") not in _VERSIONS:
        return _wrong("its first line must end with HTTP/1.1")
    if environ.get("HTTP_TRANSFER_ENCODING") and environ.get("REQUEST_METHOD") in READING:
        return _wrong("a read request must not have a chunked body")
    head = head_of(environ)
    return None if head is None else _wrong_line(head) or _wrong_headers(head)


def head_of(environ: WSGIEnvironment) -> Head | None:
    """Return the head from the handler of the server that called us; None under other servers.

    WSGI has no field for it, but the handler's method is on this thread's stack.
    """
    connection = environ.get("werkzeug.socket")
    frame = sys._getframe(1) if connection is not None else None
    while frame is not None:
        if frame.f_code.co_name == "run_wsgi":
            handler = frame.f_locals.get("self")
            if isinstance(handler, BaseHTTPRequestHandler) and handler.connection is connection:
                line: bytes = getattr(handler, "raw_requestline", b"")  # not in typeshed
                return Head(line, handler.headers)
        frame = frame.f_back
    return None


def _wrong_line(head: Head) -> HttpRefusal | None:
    if _FIRST_LINE.fullmatch(head.line):
        return None
    return _wrong("its first line must be a method, a path and HTTP/1.1, separated by single spaces")


def _wrong_headers(head: Head) -> HttpRefusal | None:
    if head.headers.defects:
        return _wrong("one of its header lines is invalid")
    seen: set[str] = set()
    for name, value in head.headers.items():
        if "\n" in value or "\r" in value:
            return _wrong("a header continues on the next line")
        lower = name.lower()
        if lower in seen and lower in _ONCE:
            return _wrong(f"it has more than one {lower}")
        seen.add(lower)
    if head.line.rstrip().endswith(b"1.1") and "host" not in seen:
        return _wrong("it has no Host")
    return None


def _wrong(why: str) -> HttpRefusal:
    return HttpRefusal(400, f"NetDebug does not answer this request: {why}.")
