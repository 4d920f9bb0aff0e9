"""The routes of the plugin but the debugger's. `application` decides who may ask, and handles errors."""

from __future__ import annotations

from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin import page as pages
from tb_netdebug.viewer.plugin import wire
from tb_netdebug.viewer.plugin.answers import answer_all
from tb_netdebug.viewer.plugin.event_stream import stream_reply
from tb_netdebug.viewer.plugin.queries import QueryError, parse_queries, run_name
from tb_netdebug.viewer.plugin.replies import binary_reply, error_reply, json_reply
from tb_netdebug.viewer.plugin.service import Service


def nowhere(service: Service, request: Request) -> Response:
    return error_reply(f"NetDebug has no route {_place(request)[1:101]!r}.", status=404)


def static(service: Service, request: Request) -> Response:
    file = service.files.get(_place(request))
    if file is None:
        return error_reply("NetDebug's page has no such file. Reload the page.", status=404)
    return pages.serve(file, request)


def page(service: Service, request: Request) -> Response:
    file = service.files.get("/index.html")
    if file is None:
        return pages.missing_page()
    return pages.serve(file, request, token=service.control.token_for_page(request.environ))


def runs(service: Service, request: Request) -> Response:
    return json_reply(request, service.runs())


def run(service: Service, request: Request) -> Response:
    details = service.details(_run_name(request))
    return _no_run(request) if details is None else json_reply(request, details)


def graph(service: Service, request: Request) -> Response:
    try:
        found = service.run(_run_name(request)).graph()
    except KeyError:
        return _no_run(request)
    if found is None:
        return error_reply("No graph was recorded in this run.", status=404)
    return json_reply(request, wire.graph_json(found))


def columns(service: Service, request: Request) -> Response:
    queries = parse_queries(request.args.get("q", ""))
    return binary_reply(wire.columns_body(answer_all(queries, service.run, service.workers)))


def live(service: Service, request: Request) -> Response:
    service.attend()
    return stream_reply(request, service.hub, service.seats)


def _place(request: Request) -> str:
    return f"/{request.path.partition('/plugin/netdebug/')[2]}"


def _run_name(request: Request) -> str:
    name = request.args.get("run")
    if name is None:
        raise QueryError("`run` is missing. Give the name of a run as `run=`.")
    return run_name(name)


def _no_run(request: Request) -> Response:
    return error_reply(f"There is no run {request.args.get('run', '')[:200]!r}.", status=404)
