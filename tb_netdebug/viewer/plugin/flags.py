"""Parses TensorBoard's flags that concern us: its own `--host`, and those that `loader.FLAGS` adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tb_netdebug.viewer.plugin.gate import host_name

if TYPE_CHECKING:
    from tensorboard.plugins.base_plugin import TBContext


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """The flags as given; empty where nothing was given.

    `listen` is None in a program other than a TensorBoard that knows our flags. `hosts` are the names in
    `--netdebug_allowed_hosts`, `complaints` the values that could not be parsed.
    """

    listen: str | None = None
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""
    own_host: str = ""
    hosts: frozenset[str] = frozenset()
    complaints: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All host names that TensorBoard was told are its own."""
        own = host_name(self.own_host)
        return self.hosts | ({own} if own else set())


def flags_of(context: TBContext) -> ServerFlags:
    """Return our flags. Never fails: an older TensorBoard, or another program, may have none of them."""
    given = getattr(context, "flags", None)

    def text(name: str) -> str:
        value = getattr(given, name, None)
        return value.strip() if isinstance(value, str) else ""

    hosts, complaints = _hosts(text("netdebug_allowed_hosts"))
    return ServerFlags(
        listen=text("netdebug_listen") if hasattr(given, "netdebug_listen") else None,
        tls_cert=text("netdebug_tls_cert"),
        tls_key=text("netdebug_tls_key"),
        token_file=text("netdebug_token_file"),
        own_host=text("host"),
        hosts=hosts,
        complaints=complaints,
    )


def _hosts(listed: str) -> tuple[frozenset[str], tuple[str, ...]]:
    named = {each: host_name(each) for part in listed.split(",") if (each := part.strip())}
    complaints = [
        f"--netdebug_allowed_hosts has {each[:100]!r}, which is not a host name."
        for each, name in named.items()
        if name is None
    ]
    return frozenset(name for name in named.values() if name), tuple(complaints)
