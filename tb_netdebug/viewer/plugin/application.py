"""The WSGI application behind all of our routes: request checks, the table of routes, and error replies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.debugger.hub.calls import CallError
from tb_netdebug.debugger.protocol.arguments import ArgumentError
from tb_netdebug.viewer.plugin import control, debugging, routes
from tb_netdebug.viewer.plugin.answers import FAILED
from tb_netdebug.viewer.plugin.flags import ServerFlags, flags_of
from tb_netdebug.viewer.plugin.gate import READING, Gate, HttpRefusal, unproven, wrong_method
from tb_netdebug.viewer.plugin.live import Seats
from tb_netdebug.viewer.plugin.pacing import SlowBodyError, connection_of, pace, size_of
from tb_netdebug.viewer.plugin.queries import QueryError
from tb_netdebug.viewer.plugin.replies import error_reply, notice_page
from tb_netdebug.viewer.plugin.request_head import misshapen
from tb_netdebug.viewer.plugin.roots import Root, roots_of
from tb_netdebug.viewer.plugin.service import Service
from tb_netdebug.viewer.plugin.turns import short_turns

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment
    from tensorboard.plugins.base_plugin import TBContext

logger = logging.getLogger(__name__)

Handler = Callable[[Service, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """An entry in the table of routes.

    `guarded` routes reveal something about the runs; the others serve the same files to everybody. Other
    sites may link to a `linked` route. A `by_header` route requires our header. Methods that are not for
    reading always go through `control`, with a body of at most `most_bytes`.
    """

    answer: Handler
    guarded: bool = True
    linked: bool = False
    by_header: bool = False
    methods: tuple[str, ...] = READING
    most_bytes: int = control.MOST_BYTES


POST = ("POST",)
# A reply above this takes one of the few seats for big answers until its client has read it.
BIG_BYTES = 1 << 20
# How long the reply to a wrong token is held back, and for how many requests at once.
GUESS_SECS, MOST_GUESSES = 0.5, 16
ROUTES: dict[str, Route] = {
    "index.js": Route(routes.static, guarded=False),
    "index.html": Route(routes.page, linked=True),
    "assets/*": Route(routes.static, guarded=False),
    "runs": Route(routes.runs),
    "run": Route(routes.run),
    "graph": Route(routes.graph),
    "columns": Route(routes.columns),
    "live": Route(routes.live, by_header=True),
    "debugger/sessions": Route(debugging.sessions),
    "debugger/attend": Route(debugging.attend, methods=POST),
    "debugger/call": Route(debugging.call, methods=POST),
    "debugger/tensor": Route(debugging.tensor, methods=POST),
}
_NO_ROUTE = Route(routes.nowhere)
_FOLDER = "/plugin/netdebug/"


class Application:
    """The plugin's application, made by the first request. Safe from any thread."""

    def __init__(self, roots: list[Root], flags: ServerFlags | None = None) -> None:
        said = flags or ServerFlags()
        self.service = Service(roots, said)
        self._guesses = Seats(MOST_GUESSES)
        self._gate = Gate(said.names, listed=bool(said.hosts))

    @classmethod
    def of(cls, context: TBContext) -> Application:
        return cls(roots_of(context), flags_of(context))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        try:
            response = self._answer(request)
        except Exception:
            logger.exception("NetDebug failed to answer %r", request.path)
            response = error_reply(FAILED, status=500)
        return self._paced(response, environ)(environ, start_response)

    def _paced(self, response: Response, environ: WSGIEnvironment) -> Response:
        connection, seat = connection_of(environ), None
        if connection is None or environ["REQUEST_METHOD"] == "HEAD":
            return response
        # A big reply stays in memory until its client has read it, so only some get one at a time.
        if environ["REQUEST_METHOD"] == "GET" and size_of(response) > BIG_BYTES:
            seat = self.service.big_answers.take()
            if seat is None:
                response.close()
                busy = "Too many big answers are waiting to be read. Ask for less, or try again."
                response = error_reply(busy, status=503, headers={"Retry-After": "2"})
        pace(response, connection, seat)
        return response

    def _answer(self, request: Request) -> Response:
        place = request.path.partition(_FOLDER)[2]
        route = ROUTES.get("assets/*" if place.startswith("assets/") else place, _NO_ROUTE)
        refused = self._refusal(request.environ, route)
        if refused:
            if refused.is_guess:
                self._hold_back()
            return _refused(refused, place)
        try:
            with short_turns():
                return route.answer(self.service, request)
        except (QueryError, ArgumentError) as error:
            return error_reply(str(error), status=400)
        except SlowBodyError:
            return error_reply("The rest of the body did not arrive in time.", status=408)
        except CallError as error:
            return debugging.refusal(error)
        except ReaderError as error:
            return error_reply(str(error), status=422)

    def _hold_back(self) -> None:
        """Delay the reply to a guessed token; at most MOST_GUESSES threads of the server wait for that."""
        seat = self._guesses.take()
        if seat is not None:
            time.sleep(GUESS_SECS)
            seat.give_back()

    def _refusal(self, environ: WSGIEnvironment, route: Route) -> HttpRefusal | None:
        wrong = wrong_method(environ, route.methods) or misshapen(environ)
        if wrong is not None:
            return wrong
        if environ["REQUEST_METHOD"] not in READING:
            return self.service.control.refusal(environ, most_bytes=route.most_bytes)
        if not route.guarded:
            return None
        refused = self._gate.refusal(environ, linked=route.linked)
        return refused if refused or route.linked else unproven(environ, header_only=route.by_header)


def _refused(refused: HttpRefusal, place: str) -> Response:
    """Return the refusal, as a page where a user looks, otherwise as JSON."""
    if place == "index.html" and refused.status == 403:
        return notice_page("NetDebug does not answer here", [refused.sentence], status=403)
    headers = {"Allow": ", ".join(refused.methods)} if refused.methods else {}
    return error_reply(refused.sentence, status=refused.status, headers=headers)
