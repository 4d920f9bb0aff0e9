"""A collector in a process of its own: no gRPC thread comes into the process that runs the tests."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.spoken_to import SpokenTo, listen

TOKEN = "a-token-for-tests-only"


class CollectorProcess(SpokenTo):
    """`address` is where it listens; `settings` are arguments of Limits."""

    def __init__(
        self, root: Path, *, at: str = "127.0.0.1:0", token: str = TOKEN, certificate: Path | None = None,
        insecure: bool = False, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (),
        **settings: Any,
    ) -> None:  # fmt: skip
        runtime = root.parent / "runtime"
        runtime.mkdir(exist_ok=True)
        super().__init__(__file__, env={"XDG_RUNTIME_DIR": str(runtime), **(env or {})}, prefix=prefix)
        self.runtime = runtime
        self.root = root
        limits = {"sync_secs": 0.05, **settings}
        made = {"root": str(root), "token": token, "insecure": insecure, "limits": limits}
        self.address: str = self.do("start", at, str(certificate or ""), made)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop(self) -> None:
        self.do("stop")

    def trainers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("trainers")
        return found

    def notices(self) -> list[str]:
        found: list[str] = self.do("notices")
        return found

    def send(self, key: str, data: bytes) -> bool:
        return bool(self.do("send", key, base64.b64encode(data).decode()))

    def heard(self) -> list[tuple[str, bytes]]:
        """What trainers said to the debugger."""
        return [(key, base64.b64decode(data)) for key, data in self.do("heard")]


class _Program:
    """The other side."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.controls: list[tuple[str, str]] = []

    def start(self, at: str, certificate: str, made: dict[str, Any]) -> str:
        from tb_netdebug.transport.addresses import address_of
        from tb_netdebug.transport.collector import Collector
        from tb_netdebug.transport.credentials import Certificate
        from tb_netdebug.transport.limits import Limits

        folder = Path(certificate)
        self.collector = Collector(
            Path(made["root"]),
            address_of(at),
            token=made["token"],
            certificate=Certificate.read(folder / "cert.pem", folder / "key.pem") if certificate else None,
            insecure=made["insecure"],
            limits=Limits(**made["limits"]),
            notice=self.told.append,
        )
        self.collector.on_control(
            lambda key, data: self.controls.append((key, base64.b64encode(data).decode()))
        )
        return str(self.collector.start())

    def stop(self) -> None:
        self.collector.stop()

    def trainers(self) -> list[dict[str, Any]]:
        return [asdict(trainer) for trainer in self.collector.trainers()]

    def totals(self) -> dict[str, int]:
        return asdict(self.collector.totals())

    def notices(self) -> list[str]:
        return self.told

    def send(self, key: str, data: str) -> bool:
        return self.collector.send(key, base64.b64decode(data))

    def heard(self) -> list[tuple[str, str]]:
        return self.controls


if __name__ == "__main__":
    listen(_Program())
