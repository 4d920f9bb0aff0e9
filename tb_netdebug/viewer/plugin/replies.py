"""HTTP replies, with the headers that every one of them carries."""

from __future__ import annotations

import gzip
import html
from collections.abc import Iterable, Mapping

from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin import wire
from tb_netdebug.viewer.plugin.gate import READING

JSON = "application/json"
BINARY = "application/octet-stream"
HTML = "text/html; charset=utf-8"
# Loads nothing but what this host serves, and may not be framed by other sites.
PAGE_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"
)
BARE_PAGE_POLICY = "default-src 'none'; frame-ancestors 'self'"
COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
# Below this a reply fits into a few packets, and compressing gains nothing.
_SMALL_BYTES = 4096


def json_reply(request: Request, value: object, *, status: int = 200) -> Response:
    body = b"".join(wire.json_chunks(value))
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if len(body) > _SMALL_BYTES and accepts_gzip(request):
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return reply(body, JSON, status=status, headers=headers)


def binary_reply(body: wire.Body) -> Response:
    """Return the body in pieces, so that copying a big one does not block the other threads."""
    headers = {"Cache-Control": "no-store", "Content-Length": str(body.size)}
    return reply(body.chunks(), BINARY, headers=headers)


def error_reply(sentence: str, *, status: int, headers: Mapping[str, str] | None = None) -> Response:
    body = b"".join(wire.json_chunks({"error": sentence}))
    more = {"Allow": ", ".join(READING)} if status == 405 else {}
    return reply(body, JSON, status=status, headers={"Cache-Control": "no-store", **more, **(headers or {})})


def notice_page(title: str, sentences: Iterable[str], *, status: int = 200) -> Response:
    """Return a page of plain text, for when there is nothing better to show."""
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in sentences)
    page = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>NetDebug</title>\n<h1>{html.escape(title)}</h1>\n{paragraphs}</html>\n"
    )
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": BARE_PAGE_POLICY}
    return reply(page.encode("utf-8", "replace"), HTML, status=status, headers=headers)


def reply(
    body: bytes | Iterable[bytes], kind: str, *, status: int = 200, headers: Mapping[str, str]
) -> Response:
    # Not werkzeug's own phrase, which is UNKNOWN in capitals for other codes.
    line = f"{status} {HTTP_STATUS_CODES.get(status, 'Unknown')}"
    response = Response(body, status=line, content_type=kind, headers={**COMMON_HEADERS, **headers})
    response.direct_passthrough = not isinstance(body, bytes)
    return response


def accepts_gzip(request: Request) -> bool:
    return bool(request.accept_encodings["gzip"] > 0)
