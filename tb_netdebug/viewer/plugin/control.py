"""Decides who may change something, such as pause a training run. Reading has milder rules, in `gate`.

A request that is neither GET nor HEAD has to pass all of these checks, in this order, before any code of its
route runs and before a byte of its body is read:

  1. The route takes the method (`application` has the table; preflights are never taken).
  2. The Host is localhost, an address, or a name that TensorBoard was told; no browser header replaces that.
  3. The Origin is there and equals the Host: our own page sent it, not another site's form or script.
  4. TensorBoard listens on loopback, and the connection belongs to its own user. Where others can open our
     page, the token within it proves nothing; there the page must have been opened over https, and the token
     is that of `--netdebug_token_file`, which the page does not contain.
  5. The type is exactly JSON, which a page of another site cannot send without a preflight.
  6. The token is right, compared in constant time.
  7. The length is given, and within the limit of the route. Chunked bodies have no length, and are refused.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tb_netdebug.viewer.plugin.gate import HttpRefusal, is_ours, netloc, on_loopback
from tb_netdebug.viewer.plugin.peer import is_other_users

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from tb_netdebug.viewer.plugin.flags import ServerFlags

JSON = "application/json"
TOKEN_HEADER = "X-NetDebug-Token"
MOST_BYTES = 1 << 16
_OUR_PAGE = "Only NetDebug's own page may do this; this request came from elsewhere."


def _new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Control:
    """The rules for changing something; `names` are hosts that are ours.

    `page_token` is embedded in our page and new with each start of TensorBoard. `typed_token` is for the
    network, and known only to those whom it was given.
    """

    names: frozenset[str] = frozenset()
    typed_token: str | None = field(default=None, repr=False)
    page_token: str = field(default_factory=_new_token, repr=False)

    @classmethod
    def of(cls, flags: ServerFlags) -> Control:
        """Return the rules for the flags; `collecting` reports what is wrong with the token file."""
        from tb_netdebug.transport.credentials import CredentialsError, read_token

        try:
            typed = read_token(Path(flags.token_file).expanduser()) if flags.token_file else None
        except CredentialsError:
            typed = None
        return cls(flags.names, typed)

    def refusal(self, environ: WSGIEnvironment, *, most_bytes: int = MOST_BYTES) -> HttpRefusal | None:
        """Return why this request may not change anything, or None if it may."""
        is_private = is_ours_alone(environ)
        return (
            self._foreign_host(environ)
            or _foreign_origin(environ)
            or (None if is_private else self._open_to_others(environ))
            or _other_type(environ)
            or (_wrong_token(environ, self.page_token) if is_private else self._wrong_typed_token(environ))
            or _wrong_length(environ, most_bytes)
        )

    def token_for_page(self, environ: WSGIEnvironment) -> str | None:
        """Return the token to embed in our page for this request.

        Empty: a user who was given the other token may paste it there. None: nothing can be controlled from
        there.
        """
        if self._foreign_host(environ):
            return None
        if is_ours_alone(environ):
            return self.page_token
        return None if self.typed_token is None else ""

    def _foreign_host(self, environ: WSGIEnvironment) -> HttpRefusal | None:
        if is_ours(environ.get("HTTP_HOST", ""), self.names):
            return None
        return HttpRefusal(
            403,
            "Runs can be controlled only under a host name that TensorBoard knows: localhost, or one of "
            "--netdebug_allowed_hosts.",
        )

    def _open_to_others(self, environ: WSGIEnvironment) -> HttpRefusal | None:
        if self.typed_token is None:
            return HttpRefusal(
                403,
                "Other people can open this page too: TensorBoard listens to the network, or another user "
                "of this machine sent the request. Controlling runs from here needs --netdebug_token_file "
                "and a proxy with https. Or start TensorBoard yourself without --bind_all, and use a "
                "tunnel (ssh -L).",
            )
        if urlsplit(environ.get("HTTP_ORIGIN", "")).scheme != "https":
            return HttpRefusal(
                403, "A token is accepted over https only. Open this page through a proxy with https."
            )
        return None

    def _wrong_typed_token(self, environ: WSGIEnvironment) -> HttpRefusal | None:
        if _wrong_token(environ, self.typed_token) is None:
            return None
        given = environ.get("HTTP_X_NETDEBUG_TOKEN")
        if given:
            from tb_netdebug.transport.credentials import token_fault

            wrong = token_fault(given)
            more = f" It is not a token: {wrong}." if wrong else ""
            return HttpRefusal(403, f"This is not the token of --netdebug_token_file.{more}", is_guess=True)
        return HttpRefusal(
            403, "This needs the token of --netdebug_token_file. Paste it on the Debugger page."
        )


def is_ours_alone(environ: WSGIEnvironment) -> bool:
    """Return whether only our own user can have sent it."""
    return on_loopback(environ) and not is_other_users(environ)


def _foreign_origin(environ: WSGIEnvironment) -> HttpRefusal | None:
    site, origin = environ.get("HTTP_SEC_FETCH_SITE"), environ.get("HTTP_ORIGIN", "")
    is_own = netloc(origin) == environ.get("HTTP_HOST", "").lower()
    return None if is_own and site in (None, "same-origin") else HttpRefusal(403, _OUR_PAGE)


def _other_type(environ: WSGIEnvironment) -> HttpRefusal | None:
    if environ.get("CONTENT_TYPE", "").strip().lower() == JSON and not environ.get("HTTP_CONTENT_ENCODING"):
        return None
    return HttpRefusal(415, f"The content type must be {JSON}.")


def _wrong_token(environ: WSGIEnvironment, right: str | None) -> HttpRefusal | None:
    from tb_netdebug.transport.credentials import same_token

    given = environ.get("HTTP_X_NETDEBUG_TOKEN", "").encode("latin-1", "replace")
    if right is not None and same_token(right, given):
        return None
    sentence = f"The token in {TOKEN_HEADER} is missing or outdated. Reload the page."
    return HttpRefusal(403, sentence, is_guess=bool(given))


def _wrong_length(environ: WSGIEnvironment, most_bytes: int) -> HttpRefusal | None:
    length = environ.get("CONTENT_LENGTH", "")
    if environ.get("HTTP_TRANSFER_ENCODING") or not length:
        return HttpRefusal(
            411, "The request must state the length of its body; a chunked body is not accepted."
        )
    if not (length.isascii() and length.isdecimal()):
        return HttpRefusal(400, "The length of the body is not a number.")
    # The length of the text first: int() takes long for thousands of digits, or refuses them.
    if len(length) > 12 or int(length) > most_bytes:
        return HttpRefusal(413, f"The body may have at most {most_bytes} bytes.")
    return None
