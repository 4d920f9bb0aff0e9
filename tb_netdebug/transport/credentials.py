"""Tokens and certificates: read from files and the environment, compared in constant time, never printed."""

from __future__ import annotations

import codecs
import hashlib
import hmac
import re
import secrets
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Shorter tokens could be guessed; longer ones do not fit into a header.
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 512
MOST_FILE_BYTES = 1 << 20
_SIGN = re.compile(r"[!-~]", re.ASCII)
_MARKS = ("\ufeff", "\xef\xbb\xbf")  # as decoded text, and as the bytes of UTF-8's mark decoded as Latin-1
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FINGERPRINT = re.compile(r"(?:sha-?256[:= ]*)?(?:fingerprint[:= ]*)?((?:[0-9a-f]{2}:?){31}[0-9a-f]{2})")
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class CredentialsError(ValueError):
    """A problem with credentials, in a sentence that says what to do and holds no secret."""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def checked_token(text: str, source: str) -> str:
    """Return the token without surrounding white space. Raise CredentialsError when it cannot be one."""
    token = text.strip()
    if not token:
        raise CredentialsError(f"{source} is empty. `netdebug token` makes a token.")
    wrong = token_fault(token)
    if wrong is not None:
        raise CredentialsError(
            f"{source} does not hold a token: {wrong}. A token is one line of {SHORTEST_TOKEN} to "
            f"{LONGEST_TOKEN} letters, digits and signs, without spaces. `netdebug token` makes one."
        )
    return token


def token_fault(token: str) -> str | None:
    """Return why a text cannot be a token, without quoting it; None when it can.

    gRPC itself would only report INTERNAL.
    """
    if token.startswith(_MARKS):
        return "it begins with a byte order mark; save it as plain text without one"
    for number, character in enumerate(token, start=1):
        if character.isspace():
            return f"it contains white space (character {number})"
        if not _SIGN.fullmatch(character):
            kind = (
                "a control character" if character < " " or character == "\x7f" else "a non-ASCII character"
            )
            return f"it contains {kind} (character {number})"
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        return f"it has {len(token)} characters"
    return None


def read_token(path: Path) -> str:
    """Return the token in a file. Raise CredentialsError, also when all users could read the file."""
    data = _read(path, "token file")
    if path.stat().st_mode & stat.S_IRWXO:
        raise CredentialsError(f"The token file {path} is open to all users: chmod 600 {path}")
    # UTF-16, as some shells write it, has a byte order mark of its own: report that one.
    text = _MARKS[0] + "?" if data.startswith(_UTF16) else data.decode("utf-8", "replace")
    return checked_token(text, f"The token file {path}")


def same_token(ours: str, theirs: str | bytes) -> bool:
    """Compare two tokens in a time that reveals nothing, not even their lengths."""
    theirs = theirs if isinstance(theirs, bytes) else theirs.encode("utf-8", "surrogateescape")
    # Digests are of one length: compare_digest alone would reveal whether the lengths are equal.
    pair = (hashlib.sha256(each).digest() for each in (ours.encode(), theirs))
    return hmac.compare_digest(*pair)


def fingerprint_of(pem: bytes) -> str:
    """Return the SHA-256 of the first certificate as 64 hexadecimal digits.

    Raise CredentialsError when there is none.
    """
    begin, end = pem.find(b"-----BEGIN CERTIFICATE-----"), pem.find(b"-----END CERTIFICATE-----")
    try:
        first = pem[begin : end + len(b"-----END CERTIFICATE-----")].decode("ascii")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()
    except ValueError:
        raise CredentialsError("The file does not contain a certificate in PEM form.") from None


def fingerprint_from(text: str) -> str:
    """Parse a fingerprint as people and other tools write it, with colons or without.

    Raise CredentialsError.
    """
    found = _FINGERPRINT.fullmatch(text.strip().lower())
    if found is None:
        raise CredentialsError(
            "A certificate's fingerprint is its SHA-256, 64 hexadecimal digits, as `netdebug token --tls` "
            "prints it."
        )
    return found[1].replace(":", "")


@dataclass(frozen=True)
class Certificate:
    """A collector's certificate chain and its key, in PEM form."""

    chain: bytes
    key: bytes = field(repr=False)

    @classmethod
    def read(cls, cert_file: Path, key_file: Path) -> Certificate:
        """Read both files. Raise CredentialsError when they are malformed or do not belong together."""
        chain, key = _read(cert_file, "certificate"), _read(key_file, "key")
        if key_file.stat().st_mode & stat.S_IRWXO:
            raise CredentialsError(f"The key {key_file} is open to all users: chmod 600 {key_file}")
        try:
            # With an empty password, because OpenSSL would otherwise ask for one at the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, key_file, password=str)
        except (ssl.SSLError, OSError):
            raise CredentialsError(
                f"{cert_file} and {key_file} are not a certificate and its key, both in PEM form and "
                "without a password."
            ) from None
        return cls(chain, key)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.chain)


@dataclass(frozen=True, slots=True)
class TrainerCredentials:
    """What the trainer's side knows of a collector: its token, and how to check its certificate."""

    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    fingerprint: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.token is not None:
            checked_token(self.token, "The token for the collector")

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> TrainerCredentials:
        """Read the credentials from the environment.

        The variables are NETDEBUG_TOKEN, NETDEBUG_TOKEN_FILE, NETDEBUG_TLS_CA, NETDEBUG_TLS_FINGERPRINT and
        NETDEBUG_INSECURE; empty ones count as not set. Raise CredentialsError with a sentence.
        """
        fingerprint = environ.get("NETDEBUG_TLS_FINGERPRINT", "").strip()
        authority = environ.get("NETDEBUG_TLS_CA", "").strip()
        return cls(
            token=token_in(environ),
            ca_file=Path(authority).expanduser() if authority else None,
            fingerprint=fingerprint_from(fingerprint) if fingerprint else None,
            insecure=_is_yes(environ.get("NETDEBUG_INSECURE", "")),
        )

    @property
    def wants_tls(self) -> bool:
        """Whether there is something to check a certificate by."""
        return self.ca_file is not None or self.fingerprint is not None


def token_in(environ: Mapping[str, str]) -> str | None:
    """Return the token in the environment, or in the file that it names. Raise CredentialsError."""
    if given := environ.get("NETDEBUG_TOKEN", "").strip():
        return checked_token(given, "NETDEBUG_TOKEN")
    if path := environ.get("NETDEBUG_TOKEN_FILE", "").strip():
        return read_token(Path(path).expanduser())
    return None


def _is_yes(text: str) -> bool:
    word = text.strip().lower()
    if word not in _YES + _NO:
        raise CredentialsError("NETDEBUG_INSECURE must be 1 or 0.")
    return word in _YES


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise CredentialsError(f"The {what} {path} cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_FILE_BYTES:
        raise CredentialsError(f"The {what} {path} is too big.")
    return data
