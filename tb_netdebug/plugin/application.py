"""The WSGI application behind all of our routes: gate, table of routes, and errors that say something."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from tb_netdebug.plugin import routes
from tb_netdebug.plugin.answers import FAILED
from tb_netdebug.plugin.gate import Refusal, host_name, refusal
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
    """`guarded` ones tell something about the runs; the others are the same files for everybody."""

    answer: Handler
    guarded: bool = True


ROUTES: dict[str, Route] = {
    "index.js": Route(routes.static, guarded=False),
    "index.html": Route(routes.page),
    "assets/*": Route(routes.static, guarded=False),
    "runs": Route(routes.runs),
    "run": Route(routes.run),
    "graph": Route(routes.graph),
    "columns": Route(routes.columns),
    "live": Route(routes.live),
}
_FOLDER = "/plugin/netdebug/"


class Application:
    """Starts working with the first request; safe from any thread."""

    def __init__(self, roots: list[Root], names: frozenset[str] = frozenset()) -> None:
        self._names = names
        self.service = Service(roots)

    @classmethod
    def of(cls, context: TBContext) -> Application:
        host = getattr(getattr(context, "flags", None), "host", None)
        name = host_name(host) if isinstance(host, str) else None
        return cls(roots_of(context), frozenset([name]) if name else frozenset())

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
        route = ROUTES.get("assets/*" if place.startswith("assets/") else place)
        refused = refusal(request.environ, names=self._names)
        if refused and (route is None or route.guarded or refused.status == 405):
            return _refused(refused, place)
        if route is None:
            return error_reply(f"NetDebug has no route {place[:100]!r}.", status=404)
        try:
            with short_turns():
                return route.answer(self.service, request)
        except QueryError as error:
            return error_reply(str(error), status=400)
        except ReaderError as error:
            return error_reply(str(error), status=422)


def _refused(refused: Refusal, place: str) -> Response:
    """In words where a person looks, as JSON where the page does."""
    if place == "index.html" and refused.status == 403:
        return notice_page("NetDebug does not answer here", [refused.sentence], status=403)
    return error_reply(refused.sentence, status=refused.status)
