"""The gRPC channel from an agent to a collector: its encryption, its token, and its keep-alive."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from tb_netdebug.transport import discovery
from tb_netdebug.transport.addresses import Address
from tb_netdebug.transport.credentials import (
    CredentialsError,
    TrainerCredentials,
    checked_token,
    fingerprint_of,
)
from tb_netdebug.transport.limits import KEEP_ALIVE_SECS, KEEP_ALIVE_WAIT_SECS, MESSAGE_BYTES

FETCH_SECS = 10.0
Options = Sequence[tuple[str, "int | str"]]
CHANNEL_OPTIONS: Options = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", int(1000 * KEEP_ALIVE_SECS)),
    ("grpc.keepalive_timeout_ms", int(1000 * KEEP_ALIVE_WAIT_SECS)),
    ("grpc.http2.ping_timeout_ms", int(1000 * KEEP_ALIVE_WAIT_SECS)),
    # Ping in silence, too, and without a limit: a run may have nothing to send for minutes.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),  # the collector decides what is sent again
    ("grpc.enable_http_proxy", 0),  # a proxy for the web is not meant for this
    ("grpc.use_local_subchannel_pool", 1),  # closing a channel closes its connection
)


@dataclass(frozen=True)
class Protection:
    """The credentials and options of a channel; None is plain text, at the explicit request of a user."""

    credentials: grpc.ChannelCredentials | None
    options: Options = ()


async def connected(address: Address, credentials: TrainerCredentials) -> grpc.aio.Channel:
    """Return a channel to the collector, without blocking the loop.

    Raise CredentialsError with a sentence for what only a person can mend, and OSError when the certificate
    could not be fetched.
    """
    return _channel(address, await asyncio.to_thread(protection, address, credentials))


def channel(address: Address, credentials: TrainerCredentials) -> grpc.aio.Channel:
    """Return the same, blocking: it may take seconds when a certificate has to be fetched."""
    return _channel(address, protection(address, credentials))


def protection(address: Address, credentials: TrainerCredentials) -> Protection:
    found = discovery.find(address.port) if address.is_loopback else None
    # The process that left the file is the one that listens; the environment's token may be for another.
    token = found.token if found else credentials.token
    pinned = credentials.fingerprint or (found.tls if found and not credentials.ca_file else None)
    if pinned or credentials.ca_file or not address.is_loopback:
        return _across_a_network(address, credentials, token, pinned)
    if token is None:
        raise CredentialsError(
            f"You have no collector running at {address}, and no token for anybody else's. Start one there "
            "(TensorBoard with NetDebug, or `netdebug collect`). If a tunnel leads to it, put its token "
            "into NETDEBUG_TOKEN, or the name of the token file into NETDEBUG_TOKEN_FILE."
        )
    return Protection(_with_token(grpc.local_channel_credentials(), token))


def _across_a_network(
    address: Address, credentials: TrainerCredentials, token: str | None, pinned: str | None
) -> Protection:
    if credentials.insecure and not address.is_loopback:
        if credentials.wants_tls:
            raise CredentialsError(
                "NETDEBUG_INSECURE excludes NETDEBUG_TLS_CA and NETDEBUG_TLS_FINGERPRINT: unset it."
            )
        return Protection(None)  # and without the token, which others on the network could read
    if token is None:
        raise CredentialsError(
            f"{address} needs a token: put the collector's token into NETDEBUG_TOKEN, or the name of its "
            "file into NETDEBUG_TOKEN_FILE."
        )
    if pinned:
        return _pinned(address, token, pinned)
    roots = _authorities(credentials) if credentials.ca_file else None
    return Protection(_with_token(grpc.ssl_channel_credentials(root_certificates=roots), token))


def _authorities(credentials: TrainerCredentials) -> bytes:
    assert credentials.ca_file is not None
    try:
        roots = credentials.ca_file.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{credentials.ca_file} cannot be read: {error.strerror or error}.") from None
    fingerprint_of(roots)
    return roots


# ---- a certificate pinned by its fingerprint


def _pinned(address: Address, token: str, fingerprint: str) -> Protection:
    """Return a protection that accepts this very certificate, by whatever name the machine is reached."""
    pem = _fetched(address)
    seen = fingerprint_of(pem)
    if not hmac.compare_digest(seen, fingerprint):
        raise CredentialsError(
            f"The certificate of {address} is not the expected one. Its fingerprint is {seen}. If the "
            "collector has a new certificate, put this into NETDEBUG_TLS_FINGERPRINT; if not, somebody "
            "else answers in its place."
        )
    name = _own_name(address, pem)
    # As the only root, it makes the channel's own handshake fail for any other certificate.
    secured = grpc.ssl_channel_credentials(root_certificates=pem)
    return Protection(_with_token(secured, token), (("grpc.ssl_target_name_override", name),))


def _fetched(address: Address) -> bytes:
    context = _context()
    context.verify_mode = ssl.CERT_NONE  # only to fetch it: nothing is sent on this connection
    with _secured(address, context) as secured:
        der = secured.getpeercert(binary_form=True)
    if der is None:
        raise ConnectionError(f"{address} shows no certificate")
    return ssl.DER_cert_to_PEM_cert(der).encode()


def _own_name(address: Address, pem: bytes) -> str:
    """Return a name for which the certificate is valid: gRPC insists on comparing one."""
    context = _context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a leaf certificate may be its own trust anchor
    context.load_verify_locations(cadata=pem.decode("ascii"))
    try:
        with _secured(address, context) as secured:
            told: dict[str, Any] = dict(secured.getpeercert() or {})
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message
        raise CredentialsError(f"The certificate of {address} is not valid: {why}.") from None
    names = [value for kind, value in told.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    names += [pair[1] for (pair, *_) in told.get("subject", ()) if pair[0] == "commonName"]
    if not names:
        raise CredentialsError(f"The certificate of {address} contains no name.")
    # A wildcard is no name, but it matches any label in its place.
    return str(names[0]).replace("*", "netdebug")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The fingerprint identifies the machine, by whatever name it is reached.
    context.check_hostname = False
    # A gRPC server may refuse a client that does not offer HTTP/2.
    context.set_alpn_protocols(["h2"])
    return context


def _secured(address: Address, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((address.host, address.port), timeout=FETCH_SECS)
    try:
        return context.wrap_socket(plain)
    except ssl.SSLCertVerificationError:
        plain.close()
        raise
    except ssl.SSLError:
        plain.close()
        raise CredentialsError(
            f"{address} does not use TLS: its collector was started without a certificate, or something "
            "else listens there."
        ) from None
    except OSError:
        plain.close()
        raise


# ---- the channel


def _with_token(secured: grpc.ChannelCredentials, token: str) -> grpc.ChannelCredentials:
    fit = checked_token(token, "What was found for the collector's token")  # else gRPC fails without a reason
    return grpc.composite_channel_credentials(secured, grpc.access_token_call_credentials(fit))


def _channel(address: Address, protected: Protection) -> grpc.aio.Channel:
    options = [*CHANNEL_OPTIONS, *protected.options]
    if protected.credentials is None:
        return grpc.aio.insecure_channel(str(address), options=options)
    return grpc.aio.secure_channel(str(address), protected.credentials, options=options)
