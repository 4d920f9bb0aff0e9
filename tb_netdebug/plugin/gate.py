"""Who gets an answer. TensorBoard itself checks nothing: any web page can send requests to it, and by DNS
rebinding read the replies.

- Methods: GET and HEAD. Preflights and everything else end here, before any code of a route.
- Pages of other sites: refused. The browser says `Sec-Fetch-Site: cross-site`; an older one says it by an
  Origin that is not the Host. A link that somebody follows to the page itself is fine.
- Names: while TensorBoard listens on loopback only, the Host is localhost, an IP address (rebinding needs a
  name), or what TensorBoard was told by `--host`. Another name is accepted when the browser marks the request
  as same-origin: it does so only over https or on localhost, and no script can set that header. TensorBoard
  speaks no https, so there is a proxy in front of it (Jupyter, a cloud notebook, nginx), and a rebound name,
  which is always plain http, is not among them. When TensorBoard listens to the network (`--bind_all`), it
  goes by names that nobody knows here, and all are accepted.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

METHODS = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@,\[\]]+)(?::[0-9]{1,5})?")
_SAME_ORIGIN = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    sentence: str


def refusal(environ: WSGIEnvironment, *, names: frozenset[str] = frozenset()) -> Refusal | None:
    """Why this request gets no data, or None when it gets some; `names` are hosts that are ours, too."""
    method = environ.get("REQUEST_METHOD", "")
    if method not in METHODS:
        return Refusal(405, f"NetDebug answers GET and HEAD here, not {method[:20]}.")
    return _foreign_page(environ) or _foreign_name(environ, names)


def _foreign_page(environ: WSGIEnvironment) -> Refusal | None:
    site, origin = environ.get("HTTP_SEC_FETCH_SITE"), environ.get("HTTP_ORIGIN")
    if site is not None:
        foreign = site == "cross-site" and environ.get("HTTP_SEC_FETCH_MODE") != "navigate"
    else:
        foreign = origin is not None and _netloc(origin) != environ.get("HTTP_HOST", "").lower()
    if not foreign:
        return None
    return Refusal(403, "NetDebug answers its own page only, and this request came from another web site.")


def _foreign_name(environ: WSGIEnvironment, names: frozenset[str]) -> Refusal | None:
    host = environ.get("HTTP_HOST")
    if host is None or not _on_loopback(environ.get("SERVER_NAME", "")):
        return None  # every browser sends a Host
    name = host_name(host)
    if name is not None and (name == "localhost" or name in names or _address(name)):
        return None
    if environ.get("HTTP_SEC_FETCH_SITE") in _SAME_ORIGIN:
        return None
    port = environ.get("SERVER_PORT", "6006")
    return Refusal(
        403,
        f"NetDebug does not answer to the name {host[:100]!r}: TensorBoard listens on this machine alone, "
        "and a name that leads here may be a web page's trick to read your runs. Open "
        f"http://localhost:{port}/ instead, or reach TensorBoard through a proxy with https, or start "
        "TensorBoard with --bind_all if everyone who can reach this machine may see the runs.",
    )


def host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None when it is not one name."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").removesuffix(".").lower() if found else None


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _on_loopback(server: str) -> bool:
    """Of the address that TensorBoard's socket is bound to."""
    address = _address(server)
    return address.is_loopback if address else server == "localhost"
