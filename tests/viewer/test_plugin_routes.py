"""The routes as a browser sees them, on real recordings, without a TensorBoard around them."""

from __future__ import annotations

import argparse
import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.graph import Edge, Graph, Node, TensorType, encode_graph
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.viewer.plugin.application import ROUTES
from tb_netdebug.viewer.plugin.gate import READING
from tb_netdebug.viewer.plugin.loader import NetDebugLoader
from tb_netdebug.viewer.plugin.queries import FIELDS
from tests.support.record_cases import training

BASE = "/data/plugin/netdebug/"
API = Path(__file__).resolve().parents[2] / "tb_netdebug/viewer/plugin/http_api.md"
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\"'&{}%00"
KINDS = {"f64": "<f8", "f32": "<f4", "i32": "<i4", "u8": "u1"}
KIND = TensorType((8, 3), "float32")
GRAPH = Graph((Node("", "Net", order=0), Node(HOSTILE, "Linear", "", order=1)), (Edge("", HOSTILE, KIND),))
STEPS = 12


class Browser:
    """Asks the plugin as a page on localhost does."""

    def __init__(self, **flags: str | None) -> None:
        context = TBContext(flags=argparse.Namespace(**flags), logdir=flags.get("logdir"))
        self.plugin = NetDebugLoader().load(context)
        self.client = Client(self.plugin.serve)

    def get(
        self, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, **query: Any
    ) -> TestResponse:
        texts = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in query.items()
        }
        sent = {"X-NetDebug": "1", **(headers or {})}
        return self.client.open(BASE + path, method=method, query_string=texts, headers=sent)

    def json(self, path: str, **query: Any) -> Any:
        response = self.get(path, **query)
        assert 200 == response.status_code, response.get_data()
        return json.loads(response.get_data())

    def columns(self, *queries: dict[str, Any]) -> list[dict[str, Any]]:
        body = self.get("columns", q=list(queries)).get_data()
        [length] = struct.unpack("<I", body[:4])
        answers: list[dict[str, Any]] = json.loads(body[4 : 4 + length])["answers"]
        for answer in answers:
            for path, [kind, offset, size, *shape] in answer.get("columns", {}).items():
                array = np.frombuffer(body, KINDS[kind], size, 4 + length + offset)
                answer["columns"][path] = array.reshape(shape[0]) if shape else array
        return answers

    def close(self) -> None:
        if self.plugin._application:
            self.plugin._application.service.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A logdir with a training of a network, a run with hostile names, and one with nothing but losses."""
    logdir = tmp_path_factory.mktemp("logs")
    records, _ = training(STEPS)
    with_tensors = EventWriter(logdir / "net")
    for record in records:
        with_tensors.put(record)
    with_tensors.graph(encode_graph(GRAPH))
    with_tensors.close()
    hostile = EventWriter(logdir / "run <b>&'\u202e")
    hostile.put(StepRecord(0, 1.7e9, {"loss": float("nan"), HOSTILE: float("inf"), "x" * 10_000: 1.0}))
    hostile.close()
    return logdir


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    """Makes browsers, each with a plugin of its own."""
    browsers: list[Browser] = []

    def made(**flags: str | None) -> Browser:
        browsers.append(Browser(**flags))
        return browsers[-1]

    yield made
    for browser in browsers:
        browser.close()


@pytest.fixture
def browser(recorded: Path, browse: Callable[..., Browser]) -> Browser:
    return browse(logdir=str(recorded))


HOSTILE_RUN = "run <b>&'\u202e"
HEAT = {"what": "heat", "run": "net", "kind": "gradient", "statistic": "norm"}
WEIGHT = {"run": "net", "kind": "weight", "name": "encoder.layers.0.linear.weight"}


def test_every_route_and_query_is_documented() -> None:
    """What the table has, the document has."""
    text = API.read_text(encoding="utf-8")
    assert [] == [name for name in ROUTES if f"`{name}" not in text]
    assert [] == [what for what in FIELDS if f"| `{what}` |" not in text]
    fields = {name for checks in FIELDS.values() for name in checks}
    assert [] == [name for name in fields if f"`{name}`" not in text]


@pytest.mark.parametrize("route", [*ROUTES, "nonsense", ""])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_route_takes_another_method(browser: Browser, route: str, method: str) -> None:
    """Also one that does not exist, and before any of its code runs; what it takes needs a token."""
    methods = ROUTES[route].methods if route in ROUTES else READING
    response = browser.get(route, method=method)
    assert (403 if method in methods else 405) == response.status_code
    if method not in methods:
        assert ", ".join(methods) == response.headers["Allow"]
        assert method in response.get_json()["error"]


@pytest.mark.parametrize("route", [*ROUTES, "nonsense"])
def test_every_answer_is_safe_to_show(browser: Browser, route: str) -> None:
    """A type that nobody guesses, a policy with each page, and no other site that could use it."""
    for query in ({}, {"run": "net"}, {"q": "[]"}):
        # The stream has no end, but it has headers.
        response = browser.get(route, method="HEAD" if route == "live" else "GET", **query)
        assert "nosniff" == response.headers["X-Content-Type-Options"]
        assert "same-origin" == response.headers["Cross-Origin-Resource-Policy"]
        if response.mimetype == "text/html":
            assert "frame-ancestors 'self'" in response.headers["Content-Security-Policy"]
            assert "unsafe" not in response.headers["Content-Security-Policy"]
        if response.status_code >= 400 and response.mimetype != "text/html":
            assert response.get_json()["error"].endswith(".")


@pytest.mark.parametrize("route", [*ROUTES, "nonsense"])
def test_head_has_the_headers_and_no_body(browser: Browser, route: str) -> None:
    """Also of the stream, which gives nobody a seat for it."""
    response = browser.get(route, method="HEAD", run="net", q="[]")
    assert b"" == response.get_data()
    if route != "live":
        assert browser.get(route, run="net", q="[]").status_code == response.status_code


@pytest.mark.parametrize(
    ("route", "query", "status"),
    [
        ("run", {}, 400),
        ("run", {"run": "nowhere"}, 404),
        ("run", {"run": "x" * 30_000}, 400),
        ("graph", {"run": "../../etc"}, 404),
        ("graph", {"run": HOSTILE_RUN}, 404),
        ("columns", {}, 400),
        ("columns", {"q": "{"}, 400),
        ("columns", {"q": "7"}, 400),
        ("assets/../../../setup.py", {}, 404),
        ("assets/%2e%2e/index.html", {}, 404),
        ("assets/", {}, 404),
        ("index.html/", {}, 404),
        ("nonsense", {}, 404),
        ("runs/x", {}, 404),
    ],
)
def test_a_wrong_request_gets_a_sentence(
    browser: Browser, route: str, query: dict[str, str], status: int
) -> None:
    """Never a bare 500, never a file that is not in the table."""
    response = browser.get(route, **query)
    assert status == response.status_code
    assert response.get_json()["error"].endswith(".")


def test_a_foreign_name_gets_no_data_but_a_word(browser: Browser) -> None:
    """The page itself says in HTML what is wrong; files without data are for everybody."""
    headers = {"Host": "rebind.example:6006"}
    browser.client.open(BASE)
    for route in ("runs", "run", "graph", "columns", "live", "nonsense"):
        response = browser.client.open(
            BASE + route, headers=headers, environ_overrides={"SERVER_NAME": "127.0.0.1"}
        )
        assert 403 == response.status_code
        assert "--netdebug_allowed_hosts" in response.get_json()["error"]
    for route, status in (("index.html", 403), ("index.js", 200)):
        response = browser.client.open(
            BASE + route, headers=headers, environ_overrides={"SERVER_NAME": "127.0.0.1"}
        )
        assert status == response.status_code


def test_the_runs_are_listed(browser: Browser) -> None:
    """At once, and as soon as they were read with all that is known of them."""
    listed = browser.json("runs")
    assert ["net", HOSTILE_RUN] == [row["name"] for row in listed["runs"]]
    assert [] == listed["complaints"]
    browser.json("run", run="net")
    [row] = [row for row in browser.json("runs")["runs"] if row["name"] == "net"]
    assert ("netdebug", 0, STEPS - 1, STEPS, 1, 0, None) == tuple(
        row[name] for name in ("kind", "first_step", "last_step", "steps", "ranks", "gaps", "complaint")
    )
    assert row["loss"] > 0
    assert listed["epoch"] == browser.json("runs")["epoch"]


def test_a_run_says_what_is_in_it(browser: Browser) -> None:
    """Its row, its names in the order of execution, and an empty list of what does not exist yet."""
    details = browser.json("run", run="net")
    assert {"loss", "gradient_norm", "lr/0"} <= set(details["scalars"])
    assert {"kind": "weight", "name": WEIGHT["name"]} in details["series"]
    assert ([0], True, [], []) == (
        details["ranks"], details["has_graph"], details["findings"], details["gap_list"],
    )  # fmt: skip
    assert ("net", STEPS) == (details["name"], details["steps"])


def test_hostile_names_come_through_as_they_are(browser: Browser) -> None:
    """They are text in JSON, in headers of columns and in errors, and nothing else."""
    details = browser.json("run", run=HOSTILE_RUN)
    assert {HOSTILE, "x" * 10_000, "loss"} <= set(details["scalars"])
    assert "NaN" == details["loss"]
    [answer] = browser.columns({"what": "scalars", "run": HOSTILE_RUN, "names": [HOSTILE, "loss"]})
    assert [float("inf")] == answer["columns"][f"{HOSTILE}\0end"].tolist()
    assert HOSTILE == browser.json("graph", run="net")["nodes"][1]["name"]
    for path in ("runs", "run", "graph"):
        body = browser.get(path, run=HOSTILE_RUN).get_data()
        assert body.isascii()
    assert HOSTILE[:20] in browser.get("run", run=HOSTILE).get_json()["error"]


def test_all_kinds_of_columns_come_together(browser: Browser) -> None:
    """One request brings a whole page, each answer with its run and its version."""
    scalars, heat, bands, histogram, histograms, table = browser.columns(
        {"what": "scalars", "run": "net", "names": ["loss", "nothing"]},
        {**HEAT, "pattern": ".WEIGHT"},
        {"what": "bands", **WEIGHT},
        {"what": "histogram", **WEIGHT, "first": 0, "last": 3},
        {"what": "histograms", **WEIGHT, "columns": 4},
        {"what": "table", "run": "net", "kind": "activation"},
    )
    assert STEPS == len(scalars["columns"]["loss\0mean"])
    assert (3, STEPS) == heat["columns"]["values"].shape
    assert 3 == len(heat["names"])
    assert (STEPS, 9) == bands["columns"]["quantiles"].shape
    assert "statistics\0norm" in bands["columns"]
    assert 4 == histogram["merged"]
    assert 4 * 64 * 64 == histogram["columns"]["counts"].sum() + histogram["nan"]
    assert len(histograms["columns"]["first"]) + 1 == len(histograms["columns"]["offsets"])
    assert len(table["names"]) == len(table["columns"]["steps"]) == len(table["columns"]["statistics\0zeros"])
    for answer in (scalars, heat, bands, histogram, histograms, table):
        assert ("net", int) == (answer["run"], type(answer["version"]))


def test_a_query_that_fails_leaves_the_others_alone(browser: Browser) -> None:
    """A chart of a run that has gone does not empty the page."""
    wrong = [
        {"what": "nonsense"},
        {**HEAT, "run": "gone"},
        {**HEAT, "statistic": "beauty"},
        {**HEAT, "columns": 0},
    ]
    answers = browser.columns(HEAT, *wrong, HEAT)
    assert ["heat", None, None, None, None, "heat"] == [answer.get("what") for answer in answers]
    assert all(answer["error"].endswith(".") for answer in answers[1:-1])


def test_without_a_sample_there_is_no_histogram(browser: Browser) -> None:
    """The page knows by the columns, which are missing."""
    [answer] = browser.columns(
        {"what": "histogram", "run": "net", "kind": "tensor", "name": "no", "first": 0, "last": 1}
    )
    assert ({}, 0) == (answer["columns"], answer["merged"])


VALUES = st.sampled_from(
    [
        "net",
        "weight",
        WEIGHT["name"],
        "norm",
        "loss",
        0,
        1,
        5,
        -1,
        2**62,
        None,
        [],
        ["loss"],
        "*",
        "median",
        "ratio",
    ]
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {"what": st.sampled_from(sorted(FIELDS)), "run": st.just("net")},
            optional={
                "kind": st.sampled_from(["weight", "activation", "update", "tensor"]),
                "name": st.sampled_from([WEIGHT["name"], "nothing", ""]),
                "statistic": st.sampled_from(["norm", "median", "ratio", "inactive_units", "beauty"]),
                "names": st.just(["loss", "nothing"]),
                **{
                    name: st.integers(-3, 30) | VALUES
                    for name in ("first", "last", "step", "rank", "columns")
                },
            },
        ),
        max_size=6,
    )
)
def test_no_query_fails_inside(browser: Browser, queries: list[dict[str, Any]]) -> None:
    """Ranges without data, ranks that never were, statistics of other kinds: an answer, or a sentence."""
    for answer in browser.columns(*queries):
        assert "failed to answer" not in answer.get("error", "")


def test_answers_that_would_be_too_big_are_refused(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request cannot fill the memory of TensorBoard."""
    monkeypatch.setattr("tb_netdebug.viewer.plugin.answers.MOST_BYTES", 100)
    answers = browser.columns(HEAT, HEAT)
    assert "heat" == answers[0]["what"]
    assert "too big" in answers[1]["error"]


def test_a_mistake_of_ours_is_told_and_logged(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The page gets a sentence, the terminal the place."""
    monkeypatch.setattr("tb_netdebug.viewer.plugin.service.Service.runs", lambda self: 1 / 0)
    response = browser.get("runs")
    assert 500 == response.status_code
    assert "terminal" in response.get_json()["error"]
    assert "ZeroDivisionError" in caplog.text


def test_without_a_logdir_the_list_says_so(browse: Callable[..., Browser]) -> None:
    """TensorBoard allows other sources of data than a logdir."""
    listed = browse(logdir=None).json("runs")
    assert ([], ["TensorBoard was started without --logdir, so there are no runs to show."]) == (
        listed["runs"], listed["complaints"],
    )  # fmt: skip


def test_a_folder_that_is_none_is_a_complaint(browse: Callable[..., Browser], tmp_path: Path) -> None:
    """The page shows the sentence where the runs would be."""
    (tmp_path / "file").write_text("no folder")
    listed = browse(logdir=str(tmp_path / "file")).json("runs")
    assert str(tmp_path / "file") in listed["complaints"][0]


def test_the_tab_is_constant(browser: Browser) -> None:
    """What TensorBoard asks for with every look at its tabs costs nothing and cannot fail."""
    plugin = browser.plugin
    assert re.fullmatch("[A-Za-z0-9_-]+", plugin.plugin_name)
    assert plugin.frontend_metadata() is plugin.frontend_metadata()
    assert ("/index.js", "NetDebug") == (
        plugin.frontend_metadata().es_module_path,
        plugin.frontend_metadata().tab_name,
    )
    assert (True, ("netdebug",)) == (plugin.is_active(), plugin.data_plugin_names())
    assert {"/index.js", "/*"} == set(plugin.get_plugin_apps())
