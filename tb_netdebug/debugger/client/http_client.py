"""The client of a hub in a TensorBoard, over HTTP, as the page is."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tb_netdebug.core.records.json_text import json_bytes
from tb_netdebug.debugger.client.client import (
    ClientError,
    ListedTraining,
    NotHeldError,
    TrainingGoneError,
    UnreachableError,
    new_id,
)
from tb_netdebug.debugger.client.hub_address import HubAddress
from tb_netdebug.transport.credentials import CredentialsError, token_in

ROUTES = "/data/plugin/netdebug/"
# The hub itself gives up after ten seconds.
REPLY_SECS = 20.0
MOST_REPLY_BYTES = 64 << 20
PIECE_BYTES = 1 << 18
# The page carries the token of the TensorBoard that serves it.
TOKEN = re.compile(rb'<meta name="netdebug-token" content="([\w-]{1,512})"')
ERRORS: Mapping[int, type[ClientError]] = {404: TrainingGoneError, 409: NotHeldError}
OLD_TOKEN = 403  # the status of a refused token


class HttpClient:
    """Sends requests to a hub; one per terminal.

    Others see `label` when this client holds the controls. `environ` may hold a token, for a TensorBoard that
    more users than its own can open.
    """

    def __init__(self, address: HubAddress, *, label: str, environ: Mapping[str, str]) -> None:
        self.address = address
        self.id = new_id()
        self.epoch = ""
        self._label = label
        self._environ = environ
        self._token: str | None = None

    def sessions(self) -> list[ListedTraining]:
        return self._trainings(_json(self.read("debugger/sessions")))

    def read(self, route: str) -> bytes:
        """Return what a route answers that needs no token; raise ClientError."""
        status, body = self._request("GET", route)
        if status != 200:
            self._find_token()  # raises a better error if more is wrong than this route
            raise _refusal(status, body, self.address)
        return body

    def attend(
        self, sessions: Sequence[str], *, take: str | None = None, release: str | None = None
    ) -> list[ListedTraining]:
        wanted = {"label": self._label, "sessions": list(sessions), "take": take, "release": release}
        return self._trainings(self._posted("debugger/attend", wanted))

    def call(self, session: str, verb: str, /, **arguments: Any) -> Any:
        told = self._posted("debugger/call", {"session": session, "verb": verb, "arguments": arguments})
        return told.get("value")

    def download(self, session: str, name: str, *, slice_text: str | None = None) -> Iterator[bytes]:
        wanted = {"session": session, "name": name, "slice": slice_text}
        self._token = self._token or self._find_token()
        with self._reply("POST", "debugger/tensor", wanted) as reply:
            if reply.status != 200:
                raise _refusal(reply.status, reply.read(MOST_REPLY_BYTES), self.address)
            while piece := reply.read(PIECE_BYTES):
                yield piece
            if reply.length:
                raise ClientError("The tensor was cut short: the run continued, or the hub ended.")

    def _trainings(self, told: Mapping[str, Any]) -> list[ListedTraining]:
        self.epoch = str(told.get("epoch"))
        entries = told.get("sessions")
        return [ListedTraining.of(entry) for entry in entries] if isinstance(entries, list) else []

    def _posted(self, route: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Post a request.

        If the token is refused, it is tried again with a new one: TensorBoard was restarted.
        """
        before, self._token = self._token, self._token or self._find_token()
        status, body = self._request("POST", route, wanted)
        if status == OLD_TOKEN and before is not None:
            self._token = self._find_token()
            status, body = self._request("POST", route, wanted)
        if status != 200:
            raise _refusal(status, body, self.address)
        return _json(body)

    def _find_token(self) -> str:
        """Return the token of the page or, over https, that of the environment.

        Raises ClientError with what is wrong with this address.
        """
        status, page = self._request("GET", "index.html")
        if status != 200:
            raise self._no_page(status)
        found = TOKEN.search(page)
        if found is not None:
            return found[1].decode()
        try:
            given = token_in(self._environ) if self.address.is_tls else None
        except CredentialsError as error:
            raise ClientError(str(error)) from None
        # Without a token it is up to TensorBoard to say why it refuses.
        return given or ""

    def _no_page(self, status: int) -> ClientError:
        found, listing = self._request("GET", "/data/plugins_listing")
        try:
            plugins = json.loads(listing) if found == 200 else None
        except ValueError:
            plugins = None
        if not isinstance(plugins, dict):
            return UnreachableError(f"The server at {self.address} is not a TensorBoard.")
        if "netdebug" not in plugins:
            return UnreachableError(
                f"The TensorBoard at {self.address} has no NetDebug: install it into TensorBoard's Python "
                "environment, and restart TensorBoard."
            )
        return UnreachableError(
            f"NetDebug in the TensorBoard at {self.address} returned no page (status {status}): open it in "
            "a browser to see why."
        )

    def _request(self, method: str, route: str, wanted: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        with self._reply(method, route, wanted) as reply:
            body = reply.read(MOST_REPLY_BYTES + 1)
            if len(body) > MOST_REPLY_BYTES:
                raise ClientError(f"The answer from {self.address} is too big.")
            return reply.status, body

    @contextmanager
    def _reply(
        self, method: str, route: str, wanted: Mapping[str, Any] | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection()
        # Another site's page cannot send X-NetDebug without a preflight, which the plugin refuses.
        headers = {"Host": self.address.host, "X-NetDebug": "1"}
        body = None
        if wanted is not None:
            body = json_bytes({"client": self.id, **wanted})
            headers |= {
                "Origin": self.address.origin,
                "Content-Type": "application/json",
                "X-NetDebug-Token": self._token or "",
            }
        path = self.address.prefix + (route if route.startswith("/") else ROUTES + route)
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as reply:
                yield reply
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"The certificate of {self.address} is not trusted: {error.verify_message}."
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.address, error) from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        at = self.address.at
        if self.address.is_tls:
            return http.client.HTTPSConnection(at.host, at.port, timeout=REPLY_SECS)
        return http.client.HTTPConnection(at.host, at.port, timeout=REPLY_SECS)


def _unreachable(address: HubAddress, error: Exception) -> UnreachableError:
    if isinstance(error, ConnectionRefusedError):
        return UnreachableError(
            f"Nothing listens at {address}: start `tensorboard --logdir ...` there, or give its HOST:PORT."
        )
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{address} does not answer.")
    if isinstance(error, http.client.HTTPException):
        return UnreachableError(f"The server at {address} does not speak HTTP, or broke off its answer.")
    return UnreachableError(f"{address} cannot be reached: {getattr(error, 'strerror', None) or error}.")


def _refusal(status: int, body: bytes, address: HubAddress) -> ClientError:
    """Return the error that the hub reported, else one with the status."""
    try:
        said = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError):
        said = f"{address} answers with status {status}."
    return ERRORS.get(status, ClientError)(str(said))


def _json(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ClientError("The hub's answer is not a JSON object.")
    return told
