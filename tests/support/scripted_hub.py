"""A hub over real HTTP with one training that plays its part: it checks requests as the product does, keeps
what it was asked, and answers as the wire says.

For the words of the terminal alone; `tests/cli/test_debug_command_live.py` has a real TensorBoard and a real
training.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tb_netdebug.cli import main
from tb_netdebug.debugger.hub.statements import session_of, state_of
from tb_netdebug.debugger.protocol.choices import STEPS

TOKEN = "t" * 43
KEY = "0123456789abcdef"
ROUTES = "/data/plugin/netdebug/"
FILE = "/home/ada/net.py"
SOURCE = [f"line {number}" for number in range(1, 31)]
MODULES: list[dict[str, Any]] = [
    {"name": "", "class_name": "Net", "parent": None, "parameters": 12, "file": FILE, "line": 3, "order": 0},
    {
        "name": "encoder",
        "class_name": "Linear",
        "parent": "",
        "parameters": 8,
        "file": FILE,
        "line": 5,
        "order": 1,
    },
    {
        "name": "encoder2",
        "class_name": "ReLU",
        "parent": "",
        "parameters": 0,
        "file": FILE,
        "line": 6,
        "order": 2,
    },
]
TENSORS = [
    {"name": name, "kind": name.partition(":")[0], "of": "encoder", "shape": [2, 3], "dtype": "float32",
     "device": "cpu", "bytes": size, "module": "encoder"}
    for name, size in (
        ("input:encoder[1]", 24), ("output:encoder", 48), ("gradient:encoder.weight", 12),
        ("weight:encoder.weight", 12),
    )
]  # fmt: skip
STACK: list[dict[str, Any]] = [
    {"file": "/lib/torch/linear.py", "line": 7, "function": "forward", "is_user": False, "locals": []},
    {"file": FILE, "line": 10, "function": "forward", "is_user": True,
     "locals": [{"name": "x", "type": "Tensor", "text": "float32[2, 3]"}]},
    {"file": FILE, "line": 20, "function": "<module>", "is_user": True, "locals": []},
]  # fmt: skip
PLACE = {
    "phase": "forward", "module": "encoder", "class_name": "Linear", "edge": "before", "op": None,
    "number": 2, "file": FILE, "line": 10, "function": "forward",
}  # fmt: skip
STATISTICS = {
    "count": 6, "nan": 1, "pos_inf": 0, "neg_inf": 0, "zeros": 2, "min": -1.5, "max": 2.0, "mean": 0.25,
    "std": 1.0, "norm": 2.5,
}  # fmt: skip
CELLS = {"shape": [2, 3], "rows": [0, 1], "columns": [0, 1], "values": [[0.0, 1.5, "NaN"], [0.0, 2.0, -1.5]]}
TENSOR = {
    "name": "weight:encoder.weight", "shape": [2, 3], "dtype": "float32", "device": "cpu", "bytes": 24,
    "statistics": STATISTICS,
    "histogram": {"lower": [-1.5, 0.0, 1.0], "upper": [0.0, 1.0, 2.0], "counts": [1, 2, 2]},
    "slice": "[:, :]", "cells": CELLS, "previous": None, "difference": None,
    "notes": ["Something is thinned."],
}  # fmt: skip
HIT = {
    "number": 1, "step": 4, "place": PLACE, "watchpoint": 1, "tensor": "gradient:encoder.weight",
    "kind": "gradient", "statistic": "abs_max", "comparison": ">", "threshold": 100.0, "actual": 250.5,
    "advice": "Lower the learning rate.",
}  # fmt: skip
PRESET = {
    "preset": "nonfinite-loss", "title": "The loss is not finite", "kind": "loss", "tensors": "",
    "statistic": "nonfinite", "comparison": "is", "threshold": None, "is_on": True, "advice": "Look.",
}  # fmt: skip
NPY = b"\x93NUMPY" + bytes(300_000)
Debug = Callable[..., str]
Answer = Callable[[dict[str, Any]], Any]


class RefusedError(Exception):
    """Answered with this status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ScriptedHub:
    """`calls` are (verb, arguments) in their order; `answers` overrides what a verb answers. The training is
    paused at first; a step leaves it paused, but `continue` leaves it running until `stop` is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.attended: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.epoch = "first"
        self.token = TOKEN
        self.is_token_in_page = True
        self.holder: dict[str, Any] | None = None
        self.changed = threading.Condition()
        self.session: dict[str, Any] = {
            **session_of({}), "run": ["night", "mlp"], "run_dir": "/runs/night/mlp", "group": "g",
            "pid": 4242, "host": "box", "program": "train.py", "framework": "torch", "models": {"": "Net"},
            "can": [*STEPS],
        }  # fmt: skip
        self.state: dict[str, Any] = {
            **state_of({}), "version": 1, "status": "paused", "is_attached": True, "step": 4, "place": PLACE,
            "reason": {"kind": "asked", "text": "you asked for it", "id": None}, "paused_at": 1.0,
            "lease_secs": 15.0, "loss": 0.5,
            "learning_rates": [{"optimizer": 0, "group": 0, "name": "SGD", "value": 0.1}],
        }  # fmt: skip
        self.others: list[dict[str, Any]] = []
        self.is_gone = False
        self.npy_bytes = len(NPY)
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def change(self, **fields: Any) -> None:
        """Of the state."""
        with self.changed:
            self.state = {**self.state, **fields, "version": self.state["version"] + 1}
            self.changed.notify_all()

    def stop(
        self, kind: str = "breakpoint", text: str = "of breakpoint 1", number: int = 1, **fields: Any
    ) -> None:
        reason = {"kind": kind, "text": text, "id": number}
        self.change(status="paused", step=self.state["step"] + 1, reason=reason, **fields)

    def asked(self, verb: str) -> list[dict[str, Any]]:
        """The arguments of all calls of the verb."""
        return [arguments for name, arguments in self.calls if name == verb]

    def wait_for_call(self, verb: str, times: int = 1) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked(verb)) >= times, 60), (
                f"nobody asked for {verb}"
            )

    # ---- what it answers -----------------------------------------------------------------------------------

    def row(self) -> dict[str, Any]:
        return {
            "key": KEY, "session": self.session, "state": self.state, "holder": self.holder, "clients": 1,
            "is_connected": True,
        }  # fmt: skip

    def sessions(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "sessions": [*([] if self.is_gone else [self.row()]), *self.others]}

    def attend(self, body: dict[str, Any]) -> dict[str, Any]:
        self.attended.append(body)
        if body["take"]:
            self.holder = {"client": body["client"], "label": body["label"]}
        if body["release"]:
            self.holder = None
        return self.sessions()

    def call(self, body: dict[str, Any]) -> dict[str, Any]:
        verb, arguments = body["verb"], body["arguments"]
        if self.is_gone or body["session"] != KEY:
            raise RefusedError(404, "This run is no longer available.")
        with self.changed:
            self.calls.append((verb, arguments))
            self.changed.notify_all()
        answer = self.answers.get(verb) or getattr(self, f"_{verb}", None)
        return {"value": answer(arguments) if answer else None}

    def _pause(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.state["status"] == "running":
            self.stop("asked", "you asked for it")
        return self.state

    def _step(self, _: dict[str, Any]) -> dict[str, Any]:
        self.stop("step", "you stepped to here")
        return self.state

    def _run_to(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._step(arguments)

    def _continue(self, _: dict[str, Any]) -> dict[str, Any]:
        self.change(status="running", reason=None)
        return self.state

    def _detach(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._continue(arguments)

    def _set(self, what: str, wanted: dict[str, Any]) -> dict[str, Any]:
        points = [dict(point) for point in self.state[what]]
        number = wanted.get("id") or len(points) + 1
        made = {"is_on": True, "hits": 0, **wanted, "id": number}
        self.change(**{what: [*(point for point in points if point["id"] != number), made]})
        return made

    def _set_breakpoint(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return self._set("breakpoints", wanted)

    def _set_watchpoint(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return self._set("watchpoints", wanted)

    def _remove(self, what: str, number: int) -> None:
        self.change(**{what: [point for point in self.state[what] if point["id"] != number]})

    def _remove_breakpoint(self, wanted: dict[str, Any]) -> None:
        self._remove("breakpoints", wanted["id"])

    def _remove_watchpoint(self, wanted: dict[str, Any]) -> None:
        self._remove("watchpoints", wanted["id"])

    def _presets(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return [PRESET]

    def _hits(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        return [HIT][: self.state["hits"]][wanted.get("since", 0) :]

    def _recheck(self, _: dict[str, Any]) -> dict[str, Any]:
        self.change(hits=1)
        return {"hits": 1}

    def _set_learning_rate(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**self.state["learning_rates"][0], "value": wanted["value"]}]

    def _snapshot(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"path": "/runs/night/mlp/capsules/step-4.pt"}

    def _modules(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return MODULES

    def _stack(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return STACK

    def _source(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["file"] != FILE:
            raise RefusedError(422, "That file is none of this training's.")
        return {"file": FILE, "first_line": 1, "lines": SOURCE}

    def _tensors(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        kind, match = wanted.get("kind"), wanted.get("match") or ""
        return [
            each for each in TENSORS if kind in (None, each["kind"]) and re.search(match, str(each["name"]))
        ]

    def _tensor(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["name"] not in [each["name"] for each in TENSORS]:
            raise RefusedError(422, f"There is no tensor {wanted['name']}.")
        more = {"previous": {"statistics": STATISTICS}, "difference": {"statistics": STATISTICS}}
        return {**TENSOR, "name": wanted["name"], **(more if wanted.get("previous") else {})}

    def _evaluate(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return {**TENSOR, "name": wanted["text"]}

    def _batch(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**TENSORS[0], "role": "input"}, {**TENSORS[1], "role": "label"}]


def other(hub: ScriptedHub, run: str, rank: int, key: str) -> dict[str, Any]:
    """A training beside its own, for `others`."""
    return {**hub.row(), "key": key, "session": {**hub.session, "run": [run], "rank": rank}}


def debugging(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> Debug:
    """Does commands, all of which have to work unless `code` says otherwise: what they show, or the error."""

    def run(*commands: str, code: int = 0) -> str:
        assert code == main(["debug", hub.address, "-c", *commands])
        caught = capsys.readouterr()
        assert (code == 0) == (caught.err == "")
        return caught.out if code == 0 else caught.err

    return run


@contextmanager
def serving(hub: ScriptedHub) -> Iterator[ScriptedHub]:
    """On a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == f"{ROUTES}index.html":
                token = f'<meta name="netdebug-token" content="{hub.token}" />' * hub.is_token_in_page
                self._reply(200, f"<html><head>{token}</head></html>".encode())
            elif not self.headers["X-NetDebug"]:
                self._error(403, "Our header is missing.")
            elif self.path == f"{ROUTES}debugger/sessions":
                self._reply(200, json.dumps(hub.sessions()).encode())
            elif self.path == "/data/plugins_listing":
                self._reply(200, b'{"netdebug": {}}')
            else:
                self._error(404, "There is nothing here.")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                self._check()
                route = self.path.removeprefix(f"{ROUTES}debugger/")
                if route == "tensor":
                    hub.calls.append(("tensor.npy", json.loads(body)))
                    return self._reply(200, NPY, size=hub.npy_bytes)
                answer = {"attend": hub.attend, "call": hub.call}[route](json.loads(body))
                self._reply(200, json.dumps(answer).encode())
            except RefusedError as refusal:
                self._error(refusal.status, str(refusal))

        def _check(self) -> None:
            """As `viewer/plugin/control.py`."""
            if self.headers["Origin"] != f"http://{self.headers['Host']}":
                raise RefusedError(403, "Only our own page.")
            if self.headers["Content-Type"] != "application/json":
                raise RefusedError(415, "JSON alone.")
            if self.headers["X-NetDebug-Token"] != hub.token:
                raise RefusedError(403, "The token is missing or an old one.")

        def _error(self, status: int, sentence: str) -> None:
            self._reply(status, json.dumps({"error": sentence}).encode())

        def _reply(self, status: int, body: bytes, *, size: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if size is None else size))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
