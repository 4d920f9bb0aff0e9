"""The plugin that takes our tab when NetDebug cannot start, and shows why. Made by `loader.stand_in`.

It imports nothing but Python and TensorBoard's base class, because anything else may be what is broken.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from tensorboard.plugins.base_plugin import FrontendMetadata

_METADATA = base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="NetDebug")
_SCRIPT = 'export function render() { document.location.replace("index.html"); }\n'
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>NetDebug</title>
<h1>NetDebug could not be started</h1>
<p>{reason}</p>
<p>The rest of TensorBoard is not affected. The terminal in which TensorBoard runs shows where it happened,
and <code>netdebug doctor</code> lists what is missing on this machine.</p>
</html>
"""
_HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'self'"),
]


class StandIn(base_plugin.TBPlugin):  # type: ignore[misc]  # TensorBoard has no types
    """A tab that shows the reason."""

    plugin_name = "netdebug"

    def __init__(self, error: Exception) -> None:
        self._reason = f"{type(error).__name__}: {error}"

    def get_plugin_apps(self) -> dict[str, WSGIApplication]:
        return {"/index.js": self.serve, "/*": self.serve}

    def is_active(self) -> bool:
        return True

    def frontend_metadata(self) -> FrontendMetadata:
        return _METADATA

    def data_plugin_names(self) -> tuple[str, ...]:
        return ("netdebug",)

    def serve(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve the page and its script as usual, and the reason as an error on every other path."""
        path, method = environ.get("PATH_INFO", ""), environ.get("REQUEST_METHOD", "")
        if method not in ("GET", "HEAD"):
            status, kind, body = (
                "405 Method Not Allowed",
                "application/json",
                '{"error": "Only GET and HEAD."}',
            )
        elif path.endswith("/index.js"):
            status, kind, body = "200 OK", "text/javascript", _SCRIPT
        elif path.endswith("/index.html"):
            status, kind, body = "200 OK", "text/html", _PAGE.format(reason=html.escape(self._reason))
        else:
            status, kind = "503 Service Unavailable", "application/json"
            body = json.dumps({"error": f"NetDebug could not be started. {self._reason}"})
        data = body.encode("utf-8", "replace")
        headers = [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(data))), *_HEADERS]
        start_response(status, headers)
        return [] if method == "HEAD" else [data]
