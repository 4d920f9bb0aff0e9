"""Collect the records of training runs on other machines into a logdir on this one, until Ctrl-C.

By default it listens to this machine alone, and runs of the same user find the collector automatically. An
address that other machines can reach needs a token and a certificate: `netdebug token --tls` makes both, and
prints what to type on either side. TensorBoard with NetDebug has a collector of its own; this one is for
machines where no TensorBoard runs. It only stores records: debugging a run takes TensorBoard.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.progress import ProgressLine
from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.transport.addresses import Address, address_of
from tb_netdebug.transport.credentials import Certificate, CredentialsError, new_token, read_token, token_in

if TYPE_CHECKING:
    from tb_netdebug.transport.collector import Collector

DEFAULT_LISTEN = ":6007"
WARNING = "Warning: TLS is off. Anybody who can reach this port can read and write recordings."
TICK_SECS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=DEFAULT_LISTEN,
        help="the address at which agents connect; without a host, only from this machine (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--logdir",
        metavar="DIR",
        type=Path,
        default=Path("runs"),
        help="the folder that runs are written to (default: %(default)s)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="the file with the token that agents must present (default: NETDEBUG_TOKEN, or the file that "
        "NETDEBUG_TOKEN_FILE names; if only this machine can connect, a new token)",
    )
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate, in PEM form")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, in PEM form")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="accept other machines without a certificate and a token: anybody who can reach the port can "
        "read and write recordings",
    )


def run(arguments: argparse.Namespace) -> int:
    # gRPC logs lost peers and malformed requests to standard error, in words meant for its own developers.
    # Must be set before gRPC is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from tb_netdebug.transport.ports import CollectorError

    allow_many_files()
    try:
        collector = prepared(arguments)
        address = collector.start()
    except (CredentialsError, CollectorError) as error:
        raise UserMistake(str(error)) from None
    began = time.monotonic()
    try:
        say(greeting(arguments, collector, address))
        with ending_by_signals():
            show_until_interrupted(collector)
    finally:
        collector.stop()
    totals = collector.totals()
    secs = time.monotonic() - began
    say(
        [
            f"Ended after {duration(secs)}: {size(totals.bytes)} of "
            f"{count(totals.trainers, 'training process')}."
        ]
    )
    return 0


def prepared(arguments: argparse.Namespace) -> Collector:
    """Return a collector that is not started yet. Raise UserMistake, CredentialsError."""
    from tb_netdebug.transport.collector import Collector

    try:
        listen = address_of(arguments.listen)
    except ValueError as error:
        raise UserMistake(str(error)) from None
    if arguments.logdir.exists() and not arguments.logdir.is_dir():
        raise UserMistake(f"{harmless(str(arguments.logdir))} is a file. Give --logdir a folder.")
    return Collector(
        arguments.logdir,
        listen,
        token=token(arguments, listen),
        certificate=certificate(arguments),
        insecure=arguments.insecure,
        notice=lambda sentence: say([harmless(sentence)], sys.stderr),
    )


def token(arguments: argparse.Namespace, listen: Address) -> str:
    """Return the token that agents have to send; on loopback, a new one if none is given."""
    given = read_token(arguments.token_file.expanduser()) if arguments.token_file else token_in(os.environ)
    if given is None and not listen.is_loopback and not arguments.insecure:
        raise UserMistake(
            f"other machines can reach {listen}, so a token and a certificate are needed. `netdebug token "
            "--tls` makes both, and prints what to type on either side."
        )
    # On loopback a new token is enough: runs of the same user find it with the collector.
    return given or new_token()


def certificate(arguments: argparse.Namespace) -> Certificate | None:
    """Return the certificate that the options name, or None. Raise UserMistake for contradictory options."""
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise UserMistake(
            "--tls-cert and --tls-key must be given together: a certificate and its private key."
        )
    if arguments.tls_cert is None:
        return None
    if arguments.insecure:
        raise UserMistake("--insecure and --tls-cert exclude each other: leave one of them out.")
    return Certificate.read(arguments.tls_cert.expanduser(), arguments.tls_key.expanduser())


def allow_many_files() -> None:
    """Raise the soft limit on file descriptors, which is too low for many trainers.

    Each trainer needs two or three descriptors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return  # then files are refused, with that reason, once there are too many


# ---- output


def greeting(arguments: argparse.Namespace, collector: Collector, address: Address) -> list[str]:
    """Return what to type where the training runs; it contains no secret."""
    lines = [f"Collecting into {harmless(str(arguments.logdir))}, listening at {address}.", ""]
    if address.is_loopback:
        lines += [
            "For runs on this machine:",
            f"    export NETDEBUG_REMOTE={address}",
            "For runs on other machines: `netdebug token` prints what to type, with an ssh tunnel or with "
            "TLS.",
        ]
    else:
        # A wildcard address is nothing to connect to: print the name of this machine instead.
        name = socket.gethostname() if address.host in ("0.0.0.0", "::") else address.host
        here = Address(name, address.port, False)
        lines += ["Where the training runs:", f"    export NETDEBUG_REMOTE={here}"]
        lines += credentials_there(collector)
    lines += [
        "",
        "Ctrl-C ends the collector. Training continues, and the rest is sent to the next collector at this "
        "address.",
    ]
    return lines


def credentials_there(collector: Collector) -> list[str]:
    """Return the environment variables that an agent needs, or the warning when TLS is off."""
    if collector.certificate is None:
        return ["    export NETDEBUG_INSECURE=1", "", WARNING]
    return [
        "    export NETDEBUG_TOKEN_FILE=COPY-OF-THE-TOKEN-FILE",
        f"    export NETDEBUG_TLS_FINGERPRINT={collector.certificate.fingerprint}",
    ]


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """End the block on SIGTERM as on Ctrl-C.

    The handlers also replace SIG_IGN, which shells set on SIGINT for background jobs.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_until_interrupted(collector: Collector) -> None:
    """Report trainers and bytes until Ctrl-C.

    On a terminal, one line is kept up to date; elsewhere a line is written when the number of trainers
    changes.
    """
    # An event that nobody sets: a sleep that a signal interrupts.
    never, shown, before = threading.Event(), -1, collector.totals().bytes
    line = ProgressLine()
    try:
        while not never.wait(TICK_SECS):
            trainers, now = len(collector.trainers()), collector.totals().bytes
            text = f"{count(trainers, 'trainer')}, {size(now)} received, {size((now - before) / TICK_SECS)}/s"
            line.show(text)
            if trainers != shown and not line.is_terminal:
                line.say(text)
            shown, before = trainers, now
    finally:
        line.clear()


def say(lines: list[str], stream: TextIO | None = None) -> None:
    print(visible_lines("\n".join(lines)), file=stream or sys.stdout, flush=True)


def count(number: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


def size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def duration(secs: float) -> str:
    minutes, rest = divmod(int(secs), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
