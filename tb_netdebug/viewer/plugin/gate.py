"""Decides who gets an answer when reading; `control` has the rules for requests that change something.

TensorBoard itself checks nothing: any web page can send requests to it, and read the replies by DNS
rebinding. The rules:

- Methods: those of the route, which are GET and HEAD unless its entry in the table says otherwise. Preflights
  and everything else end here, before any code of a route.
- Pages of other sites: refused. The browser sends `Sec-Fetch-Site: cross-site`; an older one sends an Origin
  that is not the Host. A link that a user follows to the page itself is fine.
- Everything but the page and its files has a cost: a computation, a connection, one of the few seats at the
  live stream. Browsers do not mark requests over plain http to another machine, so images and frames of any
  site could ask for it. It takes the header `X-NetDebug`, which a page of another site cannot send without a
  preflight. A request that the browser marks as same-origin, or as typed by the user, needs no such header,
  except for the stream.
- Names: while TensorBoard listens on loopback only, the Host has to be localhost, an IP address (rebinding
  needs a name), or a name given by `--host` or `--netdebug_allowed_hosts`. Another name is accepted if the
  browser marks the request as same-origin: it does so only over https or on localhost, and no script can set
  that header. TensorBoard does not speak https, so there must be a proxy in front of it (Jupyter, a cloud
  notebook, nginx), and it cannot be a rebound name, which is always plain http. When TensorBoard listens to
  the network (`--bind_all`), its names are unknown here, and all are accepted, unless
  `--netdebug_allowed_hosts` lists them.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed.wsgi import WSGIEnvironment

READING = ("GET", "HEAD")
OWN_HEADER = "X-NetDebug"
MOST_PORT = 65535
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@,\[\]]+)(?::([0-9]{1,5}))?")
_SAME_ORIGIN = ("same-origin", "none")
# Another port of the same machine is the same site: it can neither read our replies nor send our header.
_NOT_FOREIGN = (*_SAME_ORIGIN, "same-site")


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """Why a request is refused, as a status and a sentence.

    `methods` are the allowed ones if the method is wrong. `is_guess` marks a wrong token, after which the
    reply is delayed.
    """

    status: int
    sentence: str
    methods: tuple[str, ...] = ()
    is_guess: bool = False


def wrong_method(environ: WSGIEnvironment, methods: Sequence[str]) -> HttpRefusal | None:
    method = environ.get("REQUEST_METHOD", "")
    if method in methods:
        return None
    sentence = f"NetDebug answers {' and '.join(methods)} here, not {method[:20]}."
    return HttpRefusal(405, sentence, tuple(methods))


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules for reading. `names` are our own hosts; `listed` says that the user listed all names."""

    names: frozenset[str] = frozenset()
    listed: bool = False

    def refusal(self, environ: WSGIEnvironment, *, linked: bool = False) -> HttpRefusal | None:
        """Return why this request is refused, or None. `linked`: other sites may link to this route."""
        return _foreign_page(environ, linked=linked) or self._foreign_name(environ)

    def _foreign_name(self, environ: WSGIEnvironment) -> HttpRefusal | None:
        host = environ.get("HTTP_HOST")
        if host is None or not (self.listed or on_loopback(environ)):
            return None  # not a browser: those always send a Host
        if is_ours(host, self.names) or environ.get("HTTP_SEC_FETCH_SITE") in _SAME_ORIGIN:
            return None
        port = environ.get("SERVER_PORT", "6006")
        where = "only on this machine" if on_loopback(environ) else "only under the names that it was given"
        return HttpRefusal(
            403,
            f"NetDebug does not answer to the name {host[:100]!r}: TensorBoard listens {where}, and an "
            f"unknown name may be a web page's trick to read your runs. Open http://localhost:{port}/ "
            "instead, reach TensorBoard through a proxy with https, or start TensorBoard with that name in "
            "--netdebug_allowed_hosts.",
        )


def unproven(environ: WSGIEnvironment, *, header_only: bool = False) -> HttpRefusal | None:
    """Return why this may come from any web page, or None if it is from our page or a program."""
    if environ.get("HTTP_X_NETDEBUG"):
        return None
    if not header_only and environ.get("HTTP_SEC_FETCH_SITE") in _SAME_ORIGIN:
        return None
    return HttpRefusal(
        403,
        f"This needs the header {OWN_HEADER}: 1, which pages of other web sites cannot send. NetDebug's own "
        f"page and commands send it (reload an older page); with curl, add -H '{OWN_HEADER}: 1'.",
    )


def _foreign_page(environ: WSGIEnvironment, *, linked: bool) -> HttpRefusal | None:
    site, origin = environ.get("HTTP_SEC_FETCH_SITE"), environ.get("HTTP_ORIGIN")
    if site is not None:
        is_link = linked and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
        foreign = site not in _NOT_FOREIGN and not is_link
    else:
        foreign = origin is not None and netloc(origin) != environ.get("HTTP_HOST", "").lower()
    if not foreign:
        return None
    return HttpRefusal(403, "NetDebug answers only its own page; this request came from another web site.")


def is_ours(host: str, names: frozenset[str]) -> bool:
    """Return whether a Host header names this machine: localhost, an address, or one of the names."""
    name = host_name(host)
    return name is not None and (name == "localhost" or name in names or _address(name) is not None)


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without port and brackets; None if it is not a single name."""
    found = _HOST.fullmatch(host)
    if found is None or not 0 < int(found[2] or 1) <= MOST_PORT:
        return None
    return found[1].strip("[]").removesuffix(".").lower()


def netloc(origin: str) -> str:
    """Return host and port of an Origin as in a Host header; empty if it has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def on_loopback(environ: WSGIEnvironment) -> bool:
    """Return whether TensorBoard's socket is bound to an address that only this machine can reach."""
    server = environ.get("SERVER_NAME", "")
    address = _address(server)
    return address.is_loopback if address else server == "localhost"


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
