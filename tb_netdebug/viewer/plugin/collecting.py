"""Runs the collector in TensorBoard: records of training runs on other machines, and debugger connections.

The collector writes the records into the logdir, and connects the debugger with training runs on this machine
and others. To look at runs nobody needs it, so no failure to start ends in an exception: with
`--netdebug_listen` it becomes a complaint on the page, otherwise a fact that clients may ask for.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tb_netdebug.core.records.visible import visible
from tb_netdebug.viewer.plugin.roots import is_url

if TYPE_CHECKING:
    from tb_netdebug.debugger.hub.hub import Sessions
    from tb_netdebug.transport.addresses import Address
    from tb_netdebug.transport.collector import Collector
    from tb_netdebug.transport.credentials import Certificate
    from tb_netdebug.viewer.plugin.flags import ServerFlags
    from tb_netdebug.viewer.plugin.roots import Root

logger = logging.getLogger(__name__)

# Port 0: the system chooses a free one.
NOWHERE = "127.0.0.1:0"
CLOSE_SECS = 5.0
# The import takes the processor for a moment, so the first chart goes first.
LATER_SECS = 0.5


class Collecting:
    """Starts the collector once, in a thread of its own. Safe from any thread."""

    def __init__(
        self, roots: Sequence[Root], flags: ServerFlags, changed: Callable[[], None], sessions: Sessions
    ) -> None:
        self._roots = roots
        self._flags = flags
        self._changed = changed
        self._sessions = sessions
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._running: tuple[Collector, Address] | None = None
        self._trouble = ""
        self._notice = ""

    @property
    def is_asked_for(self) -> bool:
        flags = self._flags
        # Any of these flags shows that the user expects other machines to connect.
        return any((flags.listen, flags.tls_cert, flags.tls_key, flags.token_file))

    @property
    def complaints(self) -> list[str]:
        """The complaints that the page has to show to everybody."""
        trouble = self._trouble if self.is_asked_for else ""
        return [*self._flags.complaints, *filter(None, (trouble, self._notice))]

    def as_dict(self) -> dict[str, object]:
        """Return the address it listens at, or why there is none; both are null until it has started."""
        running = self._running
        return {
            "address": str(running[1]) if running else None,
            "trouble": self._trouble or None,
            "trainers": len(running[0].trainers()) if running else 0,
        }

    def start(self) -> None:
        """Start the collector; do nothing if that was done before, or TensorBoard does not know our flags."""
        with self._lock:
            if self._thread is None and not self._closing.is_set() and self._flags.listen is not None:
                self._thread = threading.Thread(target=self._start, name="netdebug-collecting", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the collector; whatever has arrived is on the disk afterwards."""
        with self._lock:
            self._closing.set()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=CLOSE_SECS)
        running, self._running = self._running, None
        if running is not None:
            running[0].stop()

    def _start(self) -> None:
        if not self.is_asked_for and self._closing.wait(LATER_SECS):
            return
        try:
            collector = collector_of(self._roots, self._flags, notice=self._notify)
            self._sessions.open(collector)
            collector.on_control(self._sessions.take)
            collector.on_left(self._sessions.lost)
            self._run(collector, collector.start())
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            self._trouble = f"Runs on other machines cannot be watched: {_reason(error)}"
            (logger.warning if self.is_asked_for else logger.info)("NetDebug: %s", visible(self._trouble))
        except Exception as error:
            self._trouble = f"Runs on other machines cannot be watched: {type(error).__name__}: {error}"
            logger.exception("NetDebug could not start its collector")
        self._changed()

    def _run(self, collector: Collector, address: Address) -> None:
        with self._lock:
            if not self._closing.is_set():
                self._running = collector, address
        atexit.register(self._sessions.close)  # last in, first out: before the collector's own handler
        if self._running is None:
            collector.stop()
        elif self.is_asked_for:
            logger.warning("NetDebug takes the records of trainings at %s", address)

    def _notify(self, sentence: str) -> None:
        """Show a sentence on the page, about a full disk for example.

        With its time: it may be over by now.
        """
        logger.warning("NetDebug: %s", visible(sentence))
        self._notice = f"{datetime.now():%H:%M}: {sentence}"
        self._changed()


def collector_of(roots: Sequence[Root], flags: ServerFlags, *, notice: Callable[[str], None]) -> Collector:
    """Return the collector for the flags, not yet started. Raises ValueError, OSError or ImportError."""
    from tb_netdebug.transport.addresses import address_of

    root = writable(roots)
    wanted = address_of(flags.listen or NOWHERE)
    certificate, token = certificate_of(flags, wanted), token_of(flags, wanted)
    from tb_netdebug.transport.collector import Collector  # imports gRPC

    return Collector(root, wanted, token=token, certificate=certificate, notice=notice)


def writable(roots: Sequence[Root]) -> Path:
    """Return the folder that takes the records: the first root, if it can be written to."""
    if not roots:
        raise ValueError("TensorBoard was started without --logdir.")
    path = roots[0][1]
    if is_url(path):
        raise ValueError(f"{path} is not a folder on this machine. Use `netdebug collect` with one that is.")
    there = next(each for each in (Path(path), *Path(path).parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{there} cannot be written to.")
    return Path(path)


def certificate_of(flags: ServerFlags, wanted: Address) -> Certificate | None:
    from tb_netdebug.transport.credentials import Certificate

    if bool(flags.tls_cert) != bool(flags.tls_key):
        raise ValueError("--netdebug_tls_cert and --netdebug_tls_key must be given together.")
    if flags.tls_cert:
        return Certificate.read(Path(flags.tls_cert).expanduser(), Path(flags.tls_key).expanduser())
    if not wanted.is_loopback:
        raise ValueError(
            f"{wanted} can be reached from the network, so --netdebug_tls_cert and --netdebug_tls_key are "
            "needed. `netdebug token --tls` makes both files."
        )
    return None


def token_of(flags: ServerFlags, wanted: Address) -> str:
    """Return the token of the file, else of the environment; on loopback a new one, which trainers find."""
    from tb_netdebug.transport import credentials

    if flags.token_file:
        return credentials.read_token(Path(flags.token_file).expanduser())
    given = credentials.token_in(os.environ)
    if given is None and not wanted.is_loopback:
        raise ValueError(
            f"{wanted} can be reached from the network, so --netdebug_token_file is needed. `netdebug "
            "token` makes a token."
        )
    return given or credentials.new_token()


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"a package is missing ({error})."
    text = str(error) or type(error).__name__
    return text if text.endswith(".") else f"{text}."
