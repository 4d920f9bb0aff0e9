"""The address of a hub: that of its TensorBoard, as people write it or copy it from a browser."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from tb_netdebug.transport.addresses import Address, address_of

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HubAddress:
    """The address of a TensorBoard; `prefix` is its `--path_prefix` without a trailing slash."""

    at: Address
    is_tls: bool = False
    prefix: str = ""

    @classmethod
    def of(cls, text: str) -> HubAddress:
        """Parse "host:port", ":6006", or "http(s)://host:port/prefix/".

        Raises ValueError with a sentence.
        """
        if "://" not in text:
            return cls(address_of(f":{text}" if text.isdecimal() else text))
        try:
            parts = urlsplit(text.strip())
            port = parts.port or PORTS.get(parts.scheme)
        except ValueError:
            raise ValueError(f"{text!r} is not an address.") from None
        if parts.scheme not in PORTS or not parts.hostname or port is None:
            raise ValueError(f"{text!r} is not the address of a TensorBoard: write http://HOST:PORT.")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(address_of(f"{host}:{port}"), parts.scheme == "https", parts.path.rstrip("/"))

    @property
    def host(self) -> str:
        """The value of the header Host."""
        text = str(self.at)
        return text.removesuffix(f":{PORTS[self.scheme]}") if self._has_usual_port else text

    @property
    def scheme(self) -> str:
        return "https" if self.is_tls else "http"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix}/"

    @property
    def _has_usual_port(self) -> bool:
        return self.at.port == PORTS[self.scheme]
