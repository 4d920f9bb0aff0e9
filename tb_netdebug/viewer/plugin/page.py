"""The static files of the page: a fixed table, made once, so that no path of a request reaches the disk."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin.replies import HTML, PAGE_POLICY, accepts_gzip, notice_page, reply

FOLDER = Path(__file__).parent / "page"
# By hand, because the registry of a Windows machine may say anything.
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
FOR_EVER = "private, max-age=31536000, immutable"
ENTRY = b'export function render() { document.location.replace("index.html"); }\n'


@dataclass(frozen=True, slots=True)
class StaticFile:
    kind: str
    plain: bytes
    packed: bytes | None  # by gzip, where that makes it smaller
    lasting: bool  # its name has a hash of its content


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Every file of the built page by its path, such as `/index.html`; without links and unknown types."""
    files = {
        f"/{path.relative_to(folder).as_posix()}": _static(path, lasting=path.parent != folder)
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.is_symlink()
    }
    files.setdefault("/index.js", StaticFile(TYPES[".js"], ENTRY, None, lasting=False))
    return files


def serve(file: StaticFile, request: Request, *, token: str | None = None) -> Response:
    """With a token the page holds it, where only its own scripts can read it; with an empty one it asks for
    another."""
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
    """The token is of letters, digits, - and _."""
    return page.replace(b"</head>", b'<meta name="netdebug-token" content="%b" /></head>' % token.encode(), 1)


def missing_page() -> Response:
    """What a checkout shows in which nobody has built the page yet."""
    return notice_page(
        "The page of NetDebug was not built",
        [
            "This installation has the recorder and the data, but not the files of the page.",
            "A wheel brings them along. In a checkout, `make dev` builds them, for which Node.js has to be "
            "installed; then start TensorBoard again.",
        ],
        status=503,
    )


def _static(path: Path, *, lasting: bool) -> StaticFile:
    plain = path.read_bytes()
    packed = None if path.suffix in PACKED_ALREADY else gzip.compress(plain, mtime=0)
    if packed is not None and len(packed) >= len(plain):
        packed = None
    return StaticFile(TYPES[path.suffix], plain, packed, lasting)
