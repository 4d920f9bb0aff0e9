"""The WSGI application behind all of our routes: gate, table of routes, and errors that say something."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from tb_netdebug.debugger.calls import CallError
from tb_netdebug.debugger.verbs import ArgumentError
from tb_netdebug.plugin import control, debugging, routes
from tb_netdebug.plugin.answers import FAILED
from tb_netdebug.plugin.flags import Flags, flags_of
from tb_netdebug.plugin.gate import READING, Gate, Refusal, wrong_method
from tb_netdebug.plugin.queries import QueryError
from tb_netdebug.plugin.replies import error_reply, notice_page
from tb_netdebug.plugin.roots import Root, roots_of
from tb_netdebug.plugin.service import Service
from tb_netdebug.plugin.turns import short_turns
from tb_netdebug.reader.errors import ReaderError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment
    from tensorboard.plugins.base_plugin import TBContext

logger = logging.getLogger(__name__)

Handler = Callable[[Service, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """`guarded` ones tell something about the runs; the others are the same files for everybody. Methods
    other than those of reading pass `control` in any case, with a body of at most `most_bytes`."""

    answer: Handler
    guarded: bool = True
    methods: tuple[str, ...] = READING
    most_bytes: int = control.MOST_BYTES


POST = ("POST",)
ROUTES: dict[str, Route] = {
    "index.js": Route(routes.static, guarded=False),
    "index.html": Route(routes.page),
    "assets/*": Route(routes.static, guarded=False),
    "runs": Route(routes.runs),
    "run": Route(routes.run),
    "graph": Route(routes.graph),
    "columns": Route(routes.columns),
    "live": Route(routes.live),
    "debugger/sessions": Route(debugging.sessions),
    "debugger/attend": Route(debugging.attend, methods=POST),
    "debugger/call": Route(debugging.call, methods=POST),
    "debugger/tensor": Route(debugging.tensor, methods=POST),
}
_NO_ROUTE = Route(routes.nowhere)
_FOLDER = "/plugin/netdebug/"


class Application:
    """Starts working with the first request; safe from any thread."""

    def __init__(self, roots: list[Root], flags: Flags | None = None) -> None:
        said = flags or Flags()
        self.service = Service(roots, said)
        self._gate = Gate(said.names, listed=bool(said.hosts))

    @classmethod
    def of(cls, context: TBContext) -> Application:
        return cls(roots_of(context), flags_of(context))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        try:
            response = self._answer(request)
        except Exception:
            logger.exception("NetDebug failed to answer %s", request.path)
            response = error_reply(FAILED, status=500)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        place = request.path.partition(_FOLDER)[2]
        route = ROUTES.get("assets/*" if place.startswith("assets/") else place, _NO_ROUTE)
        refused = self._refusal(request.environ, route)
        if refused:
            return _refused(refused, place)
        try:
            with short_turns():
                return route.answer(self.service, request)
        except (QueryError, ArgumentError) as error:
            return error_reply(str(error), status=400)
        except CallError as error:
            return debugging.refusal(error)
        except ReaderError as error:
            return error_reply(str(error), status=422)

    def _refusal(self, environ: WSGIEnvironment, route: Route) -> Refusal | None:
        wrong = wrong_method(environ, route.methods)
        if wrong is not None:
            return wrong
        if environ["REQUEST_METHOD"] not in READING:
            return self.service.control.refusal(environ, most_bytes=route.most_bytes)
        return self._gate.refusal(environ) if route.guarded else None


def _refused(refused: Refusal, place: str) -> Response:
    """In words where a person looks, as JSON where the page does."""
    if place == "index.html" and refused.status == 403:
        return notice_page("NetDebug does not answer here", [refused.sentence], status=403)
    headers = {"Allow": ", ".join(refused.methods)} if refused.methods else {}
    return error_reply(refused.sentence, status=refused.status, headers=headers)
