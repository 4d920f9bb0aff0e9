"""A check of the port before a collector listens, for an error message that says what is wrong."""

from __future__ import annotations

import errno
import socket

from tb_netdebug.transport.addresses import Address


class CollectorError(RuntimeError):
    """A collector could not be started; the sentence is for the person who started it."""


def try_port(listen: Address) -> None:
    """Bind the address once. Raise CollectorError with the reason, which gRPC does not give."""
    try:
        kind, *_, where = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(kind, socket.SOCK_STREAM) as tried:
            # As gRPC does: a port whose last connections are still closing counts as free.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
    except socket.gaierror:
        raise CollectorError(f"This machine has no address {listen.host!r} to listen at.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CollectorError(
                f"Port {listen.port} is used by another program: choose another port."
            ) from None
        raise CollectorError(f"Cannot listen at {listen}: {error.strerror}.") from None
