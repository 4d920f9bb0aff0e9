"""The static files of the page, in a table made once, so that no path from a request reaches the disk."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin.replies import HTML, PAGE_POLICY, accepts_gzip, notice_page, reply

FOLDER = Path(__file__).parent / "page"
# Not from `mimetypes`, which believes the registry of a Windows machine.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
PACKED_ALREADY = (".png", ".woff2")
# For names that contain a hash of the content.
FOR_EVER = "private, max-age=31536000, immutable"
ENTRY = b'export function render() { document.location.replace("index.html"); }\n'


@dataclass(frozen=True, slots=True)
class StaticFile:
    kind: str
    plain: bytes
    packed: bytes | None  # gzipped, if that makes it smaller
    lasting: bool  # its name contains a hash of its content


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Return all files of the built page by path, such as `/index.html`, without links and unknown types."""
    files = {
        f"/{path.relative_to(folder).as_posix()}": _static(path, lasting=path.parent != folder)
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.is_symlink()
    }
    # TensorBoard imports this module into the frame of our tab, and it replaces the frame by our page.
    files.setdefault("/index.js", StaticFile(TYPES[".js"], ENTRY, None, lasting=False))
    return files


def serve(file: StaticFile, request: Request, *, token: str | None = None) -> Response:
    """Return a file; a given token is put into the page, where only the page's own scripts can read it.

    With an empty token the page asks its user for another one.
    """
    headers = {"Cache-Control": FOR_EVER if file.lasting else "no-cache", "Vary": "Accept-Encoding"}
    if file.kind == HTML:
        headers["Content-Security-Policy"] = PAGE_POLICY
    if token is not None:
        return reply(
            _with_token(file.plain, token), file.kind, headers={**headers, "Cache-Control": "no-store"}
        )
    if file.packed is None or not accepts_gzip(request):
        return reply(file.plain, file.kind, headers=headers)
    return reply(file.packed, file.kind, headers={**headers, "Content-Encoding": "gzip"})


def _with_token(page: bytes, token: str) -> bytes:
    """Insert the token, which consists of letters, digits, - and _ and needs no escaping."""
    return page.replace(b"</head>", b'<meta name="netdebug-token" content="%b" /></head>' % token.encode(), 1)


def missing_page() -> Response:
    """Return what a checkout shows if the page was never built."""
    return notice_page(
        "NetDebug's page was not built",
        [
            "This installation lacks the files of the page. Recording and the data are not affected.",
            "A wheel contains them. In a checkout, install Node.js, run `make dev`, and restart TensorBoard.",
        ],
        status=503,
    )


def _static(path: Path, *, lasting: bool) -> StaticFile:
    plain = path.read_bytes()
    # Without the time, so that the same file always gives the same bytes.
    packed = None if path.suffix in PACKED_ALREADY else gzip.compress(plain, mtime=0)
    if packed is not None and len(packed) >= len(plain):
        packed = None
    return StaticFile(TYPES[path.suffix], plain, packed, lasting)
