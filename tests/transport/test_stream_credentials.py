"""Who may send to a collector: addresses, tokens, certificates, and what is found on the same machine."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from tb_netdebug.cli import main
from tb_netdebug.transport.addresses import address_of
from tb_netdebug.transport.collector import Collector
from tb_netdebug.transport.credentials import (
    Certificate,
    CredentialsError,
    TrainerCredentials,
    fingerprint_from,
    fingerprint_of,
    new_token,
    read_token,
    same_token,
    token_in,
)
from tb_netdebug.transport.ports import CollectorError

SECRET = "s3cret-" * 5


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Token and certificate, as `netdebug token --tls` makes them."""
    assert 0 == main(["token", "--tls", "--output", str(tmp_path / "keys")])
    return tmp_path / "keys"


# ---- addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("localhost:6007", ("localhost", 6007, True)), (":0", ("127.0.0.1", 0, True)),
        ("127.8.9.1:1", ("127.8.9.1", 1, True)), ("[::1]:6007", ("::1", 6007, True)),
        ("[::ffff:127.0.0.1]:1", ("::ffff:127.0.0.1", 1, True)), ("0.0.0.0:6007", ("0.0.0.0", 6007, False)),
        ("[::]:6007", ("::", 6007, False)), ("10.1.2.3:65535", ("10.1.2.3", 65535, False)),
        (" node-7.cluster.example:6007 ", ("node-7.cluster.example", 6007, False)),
        ("localhost.evil.example:1", ("localhost.evil.example", 1, False)),
        ("127.0.0.1.evil.example:1", ("127.0.0.1.evil.example", 1, False)),
    ],
)  # fmt: skip
def test_addresses(text: str, told: tuple[str, int, bool]) -> None:
    """Only what can mean no other machine is loopback, whatever a name resolves to today."""
    address = address_of(text)
    assert told == (address.host, address.port, address.is_loopback)
    assert address == address_of(str(address))


@pytest.mark.parametrize(
    "text",
    ["", "host", "6007", "host:", "host:x", "host:65536", "host:123456", "[::1]", "::1:6007", "a b:1", "http://h:1",
     "user@host:1", "999.1.1.1:1", "host:١", "-host:1", "h/x:1", "127.1:1"],
)  # fmt: skip
def test_no_addresses(text: str) -> None:
    """The sentence says how one is written."""
    with pytest.raises(ValueError, match=r"address|machine"):
        address_of(text)


# ---- tokens ----------------------------------------------------------------------------------------------


def test_tokens_are_compared_whole() -> None:
    """Neither a front part nor another case will do."""
    token = new_token()
    assert same_token(token, token.encode())
    for other in ("", token[:-1], token + "x", token.swapcase(), "ü" * 20):
        assert not same_token(token, other)


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"short", b"two words " * 3, b"x" * 600, b"\xff" * 30, b"a\0b" * 9]
)
def test_files_that_hold_no_token(tmp_path: Path, content: bytes) -> None:
    """The sentence names the file, and how a token is made, and never what is in it."""
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(CredentialsError, match="netdebug token") as caught:
        read_token(path)
    assert str(path) in str(caught.value)
    assert not content.strip() or content.decode("latin-1").strip() not in str(caught.value)


# What is no token, and the word that says why.
FAULTS = {
    "two words and more": "white space.*character 4",
    "tab\tin-the-middle-of-it": "white space.*character 4",
    "a-line\nand-another-line": "white space.*character 7",
    "no-break\u00a0space-in-it": "white space.*character 9",
    "wide\u3000space-in-the-middle": "white space.*character 5",
    "bell\x07in-the-middle-of-it": "control character.*character 5",
    "escape\x1b[31m-in-the-middle": "control character.*character 7",
    "zero\0in-the-middle-of-it": "control character.*character 5",
    "delete\x7fin-the-middle-of": "control character.*character 7",
    "c-one\x9bin-the-middle-of-it": "non-ASCII.*character 6",
    "\u00fcmlaut-in-front-of-it-all": "non-ASCII.*character 1",
    "zero\u200bwidth-in-the-middle": "non-ASCII.*character 5",
    "turned\u202e-in-the-middle-of": "non-ASCII.*character 7",
    "\ufeffbom-in-front-of-it-all": "byte order mark",
    "tooshort": "8 characters",
    "x" * 513: "513 characters",
    "x" * 100_000: "100000 characters",
}


@pytest.mark.parametrize("given", FAULTS)
def test_what_is_wrong_with_a_token_is_said_where_it_is_read(tmp_path: Path, given: str) -> None:
    """From a file, the environment, a program, and by whoever compares it; never with the token itself."""
    path = tmp_path / "token"
    path.write_bytes(f"{given}\n".encode())
    path.chmod(0o600)
    said = []
    reads: list[Callable[[], object]] = [
        lambda: read_token(path),
        lambda: token_in({"NETDEBUG_TOKEN": given}),
        lambda: token_in({"NETDEBUG_TOKEN_FILE": str(path)}),
        lambda: TrainerCredentials.of({"NETDEBUG_TOKEN": f" {given}\r\n"}),
        lambda: TrainerCredentials(token=given),
    ]
    for read in reads:
        with pytest.raises(CredentialsError, match=FAULTS[given]) as caught:
            read()
        said.append(str(caught.value))
    with pytest.raises(CollectorError, match=FAULTS[given]) as refused:
        Collector(tmp_path, address_of("127.0.0.1:0"), token=given).start()
    said.append(str(refused.value))
    for sentence in said:
        assert given not in sentence
        assert sentence.isascii()
        assert sentence.isprintable()
        assert "netdebug token" in sentence


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_files_of_editors_that_leave_a_mark(tmp_path: Path, mark: bytes) -> None:
    """As Windows writes them."""
    name = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[
        mark
    ]
    path = tmp_path / "token"
    path.write_bytes(mark + SECRET.encode(name))
    path.chmod(0o600)
    with pytest.raises(CredentialsError, match="plain text without one"):
        read_token(path)


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", "  {}\t\n\n", "{}"])
def test_space_around_a_token_does_not_count(tmp_path: Path, around: str) -> None:
    """Editors end files with a line."""
    path = tmp_path / "token"
    path.write_bytes(around.format(SECRET).encode())
    path.chmod(0o600)
    assert SECRET == read_token(path)
    assert SECRET == token_in({"NETDEBUG_TOKEN": around.format(SECRET)})


def test_files_that_others_can_read(tmp_path: Path) -> None:
    """A token that everybody knows is none."""
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o640)
    assert SECRET == read_token(path)
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="chmod 600") as caught:
        read_token(path)
    assert SECRET not in str(caught.value)
    with pytest.raises(CredentialsError, match="No such file"):
        read_token(tmp_path / "missing")


def test_what_the_environment_says(tmp_path: Path) -> None:
    """Each of the variables, and no secret in what is printed of it."""
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "token").chmod(0o600)
    print_of_it = ":".join(["AB"] * 32)
    told = TrainerCredentials.of(
        {
            "NETDEBUG_TOKEN_FILE": str(tmp_path / "token"),
            "NETDEBUG_TLS_FINGERPRINT": print_of_it,
            "NETDEBUG_INSECURE": "0",
        }
    )
    assert (SECRET, "ab" * 32, None, False, True) == (
        told.token, told.fingerprint, told.ca_file, told.insecure, told.wants_tls,
    )  # fmt: skip
    assert SECRET not in f"{told!r} {told}"
    assert TrainerCredentials() == TrainerCredentials.of({"NETDEBUG_TOKEN": "", "NETDEBUG_INSECURE": ""})
    assert TrainerCredentials.of({"NETDEBUG_INSECURE": "1"}).insecure
    for name in ("NETDEBUG_TOKEN", "NETDEBUG_TLS_FINGERPRINT", "NETDEBUG_INSECURE"):
        with pytest.raises(CredentialsError, match=r"NETDEBUG|fingerprint"):
            TrainerCredentials.of({name: "perhaps"})


def test_fingerprints(keys: Path) -> None:
    """As OpenSSL counts them, in each way of writing."""
    import subprocess

    ran = subprocess.run(
        ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", str(keys / "cert.pem")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    fingerprint = fingerprint_of((keys / "cert.pem").read_bytes())
    assert fingerprint == fingerprint_from(ran.stdout)
    assert fingerprint == Certificate.read(keys / "cert.pem", keys / "key.pem").fingerprint
    for wrong in ("", fingerprint[:-1], fingerprint + "0", "zz" * 32):
        with pytest.raises(CredentialsError):
            fingerprint_from(wrong)


def test_certificates_that_are_none(keys: Path, tmp_path: Path) -> None:
    """A key of another certificate, a file in the wrong place, and a key that everybody can read."""
    assert 0 == main(["token", "--tls", "--output", str(tmp_path / "others")])
    for cert, key in (
        ("keys/cert.pem", "others/key.pem"),
        ("keys/key.pem", "keys/key.pem"),
        ("keys/token", "keys/key.pem"),
    ):
        with pytest.raises(CredentialsError, match="not a certificate and its key"):
            Certificate.read(tmp_path / cert, tmp_path / key)
    assert "PRIVATE" not in repr(Certificate.read(keys / "cert.pem", keys / "key.pem"))
    (keys / "key.pem").chmod(0o604)
    with pytest.raises(CredentialsError, match="chmod 600"):
        Certificate.read(keys / "cert.pem", keys / "key.pem")
