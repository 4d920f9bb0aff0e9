"""Make what agents and a collector on different machines need: a token, and with --tls a certificate.

Both are files that only you can read, in a folder of their own. Nothing is overwritten without --new. The
certificate is self-signed: the training's side knows it by its fingerprint, so no authority is needed, and
the name under which the collector's machine is reached does not matter.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.transport.credentials import Certificate, CredentialsError, new_token, read_token

TOKEN, CERTIFICATE, KEY = "token", "cert.pem", "key.pem"
# Ten years: trainers know the certificate by its fingerprint, so a new one would shut them out.
DAYS = 3650
PORT = 6007
OPENSSL_SECS = 60
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
REQUEST = """\
[req]
distinguished_name = subject
x509_extensions = extensions
prompt = no
[subject]
CN = netdebug
[extensions]
subjectAltName = {names}
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=None,
        help="the folder that the files are written to (default: ~/.config/netdebug)",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="also make a certificate, for a collector that other machines can reach",
    )
    parser.add_argument("--new", action="store_true", help="replace existing files")


def run(arguments: argparse.Namespace) -> int:
    folder = (arguments.output or default_folder()).absolute()
    try:
        prepare(folder)
        made = token_file(folder, anew=arguments.new)
        read_token(made)
        certificate = certificate_in(folder, anew=arguments.new) if arguments.tls else None
    except CredentialsError as error:
        raise UserMistake(f"{error} `netdebug token --new` makes new ones.") from None
    except OSError as error:
        raise UserMistake(f"{error.filename or folder}: {error.strerror or error}") from None
    lines = instructions_with_tls(folder, certificate) if certificate else instructions(folder)
    print(visible_lines("\n".join(lines)))
    return 0


def default_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "netdebug"


def prepare(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def token_file(folder: Path, *, anew: bool) -> Path:
    path = folder / TOKEN
    if anew or not path.exists():
        write_secret(path, f"{new_token()}\n".encode())
    return path


def write_secret(path: Path, data: bytes) -> None:
    """Write a file atomically; other users cannot read it at any moment."""
    descriptor, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    Path(fresh).replace(path)


# ---- the certificate


def certificate_in(folder: Path, *, anew: bool) -> Certificate:
    """Return the certificate in the folder, or make one. Raise CredentialsError, UserMistake, OSError."""
    cert, key = folder / CERTIFICATE, folder / KEY
    if anew or not (cert.exists() or key.exists()):
        make_certificate(cert, key, sorted({"netdebug", "localhost", *own_names()}))
    return Certificate.read(cert, key)


def own_names() -> Iterable[str]:
    """Return the host names for the certificate, for clients that verify names (NETDEBUG_TLS_CA)."""
    return (name for name in (socket.gethostname(), socket.getfqdn()) if _NAME.fullmatch(name))


def make_certificate(cert: Path, key: Path, names: Iterable[str]) -> None:
    """Make a P-256 key and a certificate self-signed with it. Raise UserMistake, OSError."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise UserMistake(
            "making a certificate needs the program `openssl`, which is not installed. Install it (apt "
            "install openssl), or give the collector a certificate of your own."
        )
    with tempfile.TemporaryDirectory(dir=cert.parent, prefix=".certificate.") as name:
        work = Path(name)
        alternatives = ", ".join(f"DNS:{each}" for each in names)
        (work / "request").write_text(REQUEST.format(names=alternatives), encoding="ascii")
        command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-nodes", "-sha256", "-days", str(DAYS), "-config", str(work / "request")]
        command += ["-keyout", str(work / "key"), "-out", str(work / "cert")]
        # The umask keeps the key private from the moment openssl creates it.
        ran = subprocess.run(
            command, capture_output=True, text=True, umask=0o077, timeout=OPENSSL_SECS, check=False
        )
        if ran.returncode != 0:
            raise UserMistake(f"openssl could not make a certificate: {' '.join(ran.stderr.split())[-500:]}")
        write_secret(key, (work / "key").read_bytes())
        write_secret(cert, (work / "cert").read_bytes())


# ---- instructions


def instructions(folder: Path) -> list[str]:
    token = shlex.quote(str(folder / TOKEN))
    return [
        f"Token: {token} (only you can read it)",
        "",
        "For a collector behind an ssh tunnel. On its machine:",
        f"    netdebug collect --listen :{PORT} --logdir runs --token-file {token}",
        f"or  tensorboard --logdir runs --netdebug_listen localhost:{PORT} --netdebug_token_file {token}",
        f"    ssh -R {PORT}:localhost:{PORT} TRAINING-MACHINE",
        "",
        "Where the training runs, with a copy of the token file (scp):",
        "    export NETDEBUG_TOKEN_FILE=COPY-OF-THE-TOKEN-FILE",
        f"    export NETDEBUG_REMOTE=localhost:{PORT}",
        "",
        "For a collector that other machines reach directly: netdebug token --tls",
    ]


def instructions_with_tls(folder: Path, certificate: Certificate) -> list[str]:
    token, cert, key = (shlex.quote(str(folder / name)) for name in (TOKEN, CERTIFICATE, KEY))
    return [
        f"Token:        {token} (only you can read it)",
        f"Certificate:  {cert}",
        f"Its key:      {key} (only you can read it; it stays here)",
        f"Fingerprint:  {certificate.fingerprint}",
        "",
        "Where the collector runs:",
        f"    netdebug collect --listen 0.0.0.0:{PORT} --logdir runs \\",
        f"        --token-file {token} --tls-cert {cert} --tls-key {key}",
        f"or  tensorboard --logdir runs --netdebug_listen 0.0.0.0:{PORT} \\",
        f"        --netdebug_token_file {token} --netdebug_tls_cert {cert} --netdebug_tls_key {key}",
        "",
        "Where the training runs, with a copy of the token file (scp):",
        "    export NETDEBUG_TOKEN_FILE=COPY-OF-THE-TOKEN-FILE",
        f"    export NETDEBUG_TLS_FINGERPRINT={certificate.fingerprint}",
        f"    export NETDEBUG_REMOTE=COLLECTORS-MACHINE:{PORT}",
    ]
