"""Who gets in to a real collector: by token, by certificate, across a network and on the same machine."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tb_netdebug.cli import main
from tb_netdebug.transport.credentials import fingerprint_of
from tests.support.collector_process import TOKEN, CollectorProcess
from tests.support.dialer import dial
from tests.support.stream_peer import Agent, Peer


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Token and certificate, as `netdebug token --tls` makes them."""
    assert 0 == main(["token", "--tls", "--output", str(tmp_path / "keys")])
    return tmp_path / "keys"


@pytest.fixture
def own_address() -> str:
    """An address of this machine that is not loopback; without a network, loopback with TLS forced."""
    addresses = [
        each.address
        for nic in psutil.net_if_addrs().values()
        for each in nic
        if each.family == socket.AF_INET
    ]
    return next((each for each in addresses if not each.startswith("127.")), "127.0.0.1")


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as process:
        yield process


@pytest.mark.parametrize(
    ("token", "more"),
    [(None, []), ("wrong-" * 5, []), (TOKEN[:-1], []), ("", []), (None, [("authorization", TOKEN)]),
     (None, [("authorization", f"Basic {TOKEN}")]), (TOKEN, [("authorization", f"Bearer {TOKEN}")])],
)  # fmt: skip
def test_without_the_right_token(
    tmp_path: Path, peer: Peer, token: str | None, more: list[tuple[str, str]]
) -> None:
    """Nothing is read of such a stream, and the sentence does not say what was expected."""
    with CollectorProcess(tmp_path / "root") as collector:
        code, sentence = peer.stream(collector.address, token=token, metadata=more).end()
        assert ("UNAUTHENTICATED", False) == (code, TOKEN in sentence)
        assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("two words and more words", "contains white space"),
        ("short", "5 characters"),
        ("x" * 600, "600 char"),
    ],
)
def test_what_is_no_token_is_said_by_the_collector(tmp_path: Path, peer: Peer, token: str, told: str) -> None:
    """A client of another kind sends it; ours says so by itself, before anything is sent."""
    with CollectorProcess(tmp_path / "root") as collector:
        code, sentence = peer.stream(collector.address, token=token).end()
        assert ("UNAUTHENTICATED", False) == (code, token in sentence)
        assert told in sentence
        said = dial(collector.address, {"XDG_RUNTIME_DIR": str(tmp_path), "NETDEBUG_TOKEN": token})
        assert told in said
        assert token not in said


def test_across_a_network(tmp_path: Path, keys: Path, own_address: str, peer: Peer) -> None:
    """TLS, by a name that the certificate has or by its fingerprint; never without the token."""
    with CollectorProcess(tmp_path / "root", at=f"{own_address}:0", certificate=keys) as collector:
        where, ca = collector.address, str(keys / "cert.pem")
        assert 1 == Agent(peer.stream(where, how="tls", ca=ca, name="netdebug")).greet().version
        assert "UNAUTHENTICATED" == peer.stream(where, how="tls", ca=ca, name="netdebug", token=None).end()[0]
        assert "UNAVAILABLE" == peer.stream(where, how="tls", ca=ca, name="evil.example").end()[0]
        assert "UNAVAILABLE" == peer.stream(where, how="tls").end()[0]  # the authorities of this machine
        assert "UNAVAILABLE" == peer.stream(where, how="plain").end()[0]
        fingerprint = fingerprint_of((keys / "cert.pem").read_bytes())
        secret = {"NETDEBUG_TOKEN": TOKEN}
        assert "welcome" == dial(where, {**secret, "NETDEBUG_TLS_FINGERPRINT": fingerprint})
        assert "UNAUTHENTICATED" == dial(
            where, {"NETDEBUG_TOKEN": "x" * 20, "NETDEBUG_TLS_FINGERPRINT": fingerprint}
        )
        wrong = dial(where, {**secret, "NETDEBUG_TLS_FINGERPRINT": "ab" * 32})
        assert re.search(f"not the expected one.*{fingerprint}", wrong)
        assert "NETDEBUG_TOKEN" in dial(where, {"NETDEBUG_TLS_FINGERPRINT": fingerprint})
        assert (
            "excludes" in dial(where, {"NETDEBUG_INSECURE": "1", "NETDEBUG_TLS_FINGERPRINT": fingerprint})
            or own_address == "127.0.0.1"
        )
        assert "UNAVAILABLE" == dial(where, {**secret, "NETDEBUG_TLS_CA": ca})  # it is made for no address
        name = socket.gethostname()
        assert dial(f"{name}:{collector.port}", {**secret, "NETDEBUG_TLS_CA": ca}) in (
            "welcome",
            "UNAVAILABLE",
        )


def test_another_machine_in_its_place(tmp_path: Path, keys: Path, own_address: str) -> None:
    """Whoever answers at the address with a certificate of the same name gets neither token nor data."""
    assert 0 == main(["token", "--tls", "--output", str(tmp_path / "others")])
    with CollectorProcess(
        tmp_path / "root", at=f"{own_address}:0", certificate=tmp_path / "others"
    ) as impostor:
        expected = fingerprint_of((keys / "cert.pem").read_bytes())
        told = dial(impostor.address, {"NETDEBUG_TOKEN": TOKEN, "NETDEBUG_TLS_FINGERPRINT": expected})
        assert "somebody else answers in its place" in told


def test_without_encryption(tmp_path: Path, own_address: str) -> None:
    """Only when both sides ask for it, and then without a token on the wire."""
    if own_address == "127.0.0.1":
        pytest.fail("this machine has no network interface")
    with CollectorProcess(tmp_path / "root", at=f"{own_address}:0", insecure=True) as collector:
        assert "welcome" == dial(collector.address, {"NETDEBUG_INSECURE": "1", "NETDEBUG_TOKEN": TOKEN})
        assert "UNAVAILABLE" == dial(collector.address, {"NETDEBUG_TOKEN": TOKEN})
        assert "does not use TLS" in dial(
            collector.address, {"NETDEBUG_TOKEN": TOKEN, "NETDEBUG_TLS_FINGERPRINT": "ab" * 32}
        )


def test_on_the_same_machine(tmp_path: Path, keys: Path) -> None:
    """The same user's trainers need nothing at all, with TLS or without; others have no token."""
    for certificate in (None, keys):
        with CollectorProcess(tmp_path / "root", certificate=certificate) as collector:
            found = {"XDG_RUNTIME_DIR": str(collector.runtime)}
            assert "welcome" == dial(collector.address, found)
            assert "welcome" == dial(collector.address, {**found, "NETDEBUG_TOKEN": "for-another-collector"})
            elsewhere = {"XDG_RUNTIME_DIR": str(tmp_path), "NETDEBUG_TOKEN": TOKEN}
            if certificate is None:  # as through a tunnel, where no file tells of the collector
                assert "welcome" == dial(collector.address, elsewhere)
            assert (
                "no collector running" in dial(collector.address, {"XDG_RUNTIME_DIR": str(tmp_path)})
                or certificate
            )
