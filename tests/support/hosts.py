"""Two hosts with a cable between them: namespaces of this machine, with names that both of them know.

Root may make them, and elsewhere everybody in a user namespace. Where neither is allowed the hosts are two
addresses of loopback: less is tried then (devices and names are missing, and a relay is cut in the place of a
cable), and what a test asserts is asserted all the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.support.bad_network import BadNetwork

ADDRESSES = {"one": "10.77.0.1", "two": "10.77.0.2"}
# A device for the network, a name, and a file of names.
PARTS = ("--net", "--uts", "--mount")
KEEP = 'mount --bind "$0" /etc/hosts && hostname "$1" && echo ready && exec sleep infinity'
TOOLS = ("unshare", "nsenter", "ip", "mount", "hostname")
CUT_SECS = 600.0


@dataclass(frozen=True)
class Host:
    """`prefix` goes before a command that is to run there; it begins in the folder `/`."""

    prefix: tuple[str, ...]
    name: str
    address: str
    device: str


class Hosts:
    """`one` and `two`; `apart` when they are namespaces. `folder` is for a file of their names."""

    def __init__(self, folder: Path) -> None:
        self._keepers: list[subprocess.Popen[str]] = []
        self._relay: BadNetwork | None = None
        self._names = folder / "hosts"
        names = {"localhost": "127.0.0.1", **ADDRESSES}
        self._names.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        is_root = os.getuid() == 0
        self.apart = self._keep("one", "unshare", *(() if is_root else ("--user", "--map-root-user")), *PARTS)
        if self.apart:
            into = () if is_root else ("--user", "--preserve-credentials")
            self.one = self._host("one", *into)
            assert self._keep("two", *self.one.prefix, "unshare", *PARTS)
            self.two = self._host("two", *into)
            self._connect()
        else:
            self.one = Host((), "127.0.0.2", "127.0.0.2", "lo")
            self.two = Host((), "127.0.0.3", "127.0.0.3", "lo")

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._relay is not None:
            self._relay.kill()
        for keeper in self._keepers:
            keeper.kill()
            keeper.communicate()

    def way_to(self, address: str) -> str:
        """By which the other host reaches it."""
        if self.apart:
            return address
        self._relay = BadNetwork(address)
        return self._relay.address

    def unplug(self) -> None:
        """Nothing passes any more, and nobody is told."""
        if self.apart:
            told(self.one, "ip link set cable down")
        elif self._relay is not None:
            self._relay.hold(CUT_SECS)

    def plug(self) -> None:
        if self.apart:
            told(self.one, "ip link set cable up")
        elif self._relay is not None:
            self._relay.hold(0.0)

    def _keep(self, name: str, *command: str) -> bool:
        """A process that keeps namespaces; whether that is possible and allowed."""
        if not all(map(shutil.which, TOOLS)):
            return False
        keeper = subprocess.Popen(
            [*command, "sh", "-c", KEEP, str(self._names), name],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._keepers.append(keeper)
        assert keeper.stdout is not None
        return keeper.stdout.readline() == "ready\n"

    def _host(self, name: str, *into: str) -> Host:
        enter = ("nsenter", "--target", str(self._keepers[-1].pid), *into, *PARTS)
        return Host(enter, name, ADDRESSES[name], "cable")

    def _connect(self) -> None:
        told(self.one, f"ip link add cable type veth peer name cable netns {self._keepers[1].pid}")
        for host in (self.one, self.two):
            told(host, f"ip address add {host.address}/24 dev cable")
            told(host, "ip link set lo up")
            told(host, "ip link set cable up")


def told(host: Host, command: str) -> None:
    subprocess.run([*host.prefix, *command.split()], check=True)
