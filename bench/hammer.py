"""Clients that ask a TensorBoard for as much as they may, each one request after the other, until standard
input ends: `hammer.py URL RUN`, where URL ends with our routes. Says "asking" when each has had an answer.

Prints a line of JSON at the end: how many answers each kind of request got, and how many megabytes.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

KINDS = ("weight", "gradient", "update", "activation")
REPLY_SECS = 120


def requests_of(run: str) -> dict[str, str]:
    """What the clients ask for, by its name."""
    heat = [
        {"what": "heat", "run": run, "kind": kind, "statistic": "norm", "columns": 4000} for kind in KINDS
    ]
    names = ["loss", "gradient_norm", "time/step", "lr/0"]
    scalars = [{"what": "scalars", "run": run, "names": names, "points": 20_000}]
    ridge = {"what": "histograms", "run": run, "columns": 1000, "kind": "weight"}
    ridges = [{**ridge, "name": f"encoder.layers.{at}.weight"} for at in range(10)]
    return {
        "heat maps": columns(heat),
        "scalars": columns(scalars),
        "histograms": columns(ridges),
        "graph": f"graph?{urllib.parse.urlencode({'run': run})}",
    }


def columns(queries: list[dict[str, Any]]) -> str:
    return f"columns?{urllib.parse.urlencode({'q': json.dumps(queries)})}"


@dataclass(slots=True)
class Crowd:
    """`answers` and `bytes` by the name of the request; `first` is released by each client's first answer."""

    url: str
    answers: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    first: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, name: str, path: str) -> None:
        """Again and again."""
        while not self._over.is_set():
            request = urllib.request.Request(f"{self.url}{path}", headers={"X-NetDebug": "1"})
            with urllib.request.urlopen(request, timeout=REPLY_SECS) as reply:
                size = sum(map(len, pieces(reply)))
            with self._lock:
                self.answers[name] += 1
                self.bytes[name] += size
                if self.answers[name] == 1:
                    self.first.release()

    def end(self) -> None:
        self._over.set()


def pieces(reply: Any) -> Iterator[bytes]:
    while piece := reply.read(1 << 20):
        yield piece


def main(url: str, run: str) -> None:
    crowd = Crowd(url)
    asked = requests_of(run)
    clients = [threading.Thread(target=crowd.ask, args=item, daemon=True) for item in asked.items()]
    for client in clients:
        client.start()
    for _ in clients:
        crowd.first.acquire(timeout=REPLY_SECS)
    sys.stdout.write("asking\n")
    sys.stdout.flush()
    sys.stdin.read()
    crowd.end()
    for client in clients:
        client.join()
    told = {name: [crowd.answers[name], crowd.bytes[name] / 1e6] for name in asked}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
