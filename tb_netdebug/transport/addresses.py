"""Collector addresses, as people write them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^\s\[\]:/@]*):(?P<port>[0-9]{1,5})", re.ASCII)
# 253 characters at most, as in DNS.
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", re.ASCII)
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port.

    `is_loopback` is true only when it can mean no other machine. A host name that resolves to this machine
    does not count: tomorrow it may resolve elsewhere.
    """

    host: str
    port: int
    is_loopback: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Parse "host:port", "[::1]:6007", or ":6007" for this machine.

    Raise ValueError with a sentence.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text!r} is not an address. Write HOST:PORT, such as 10.1.2.3:6007 or [::1]:6007, or :6007 "
            "for this machine."
        )
    host, port = found["host"].strip("[]") or LOOPBACK, int(found["port"])
    if port > 65535:
        raise ValueError(f"{text!r} is not an address: the highest port is 65535.")
    return at(host, port)


def at(host: str, port: int) -> Address:
    """Return the address of a host without brackets. Raise ValueError with a sentence."""
    if host.lower() == "localhost":
        return Address(host, port, True)
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        # Digits and dots alone are a mistyped IP address, not a name.
        if ":" in host or host.replace(".", "").isdecimal() or not _HOST_NAME.fullmatch(host):
            raise ValueError(f"{host!r} is neither a host name nor an address.") from None
        return Address(host, port, False)
    # ::ffff:127.0.0.1 is loopback as well, but older Pythons deny that of the mapped form.
    mapped = getattr(number, "ipv4_mapped", None)
    return Address(host, port, (mapped or number).is_loopback)
