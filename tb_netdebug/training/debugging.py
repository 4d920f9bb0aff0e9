"""The monitor's side of the debugger: its session, and the control channel to TensorBoard."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.debugger.place import CODE, END, Place
from tb_netdebug.debugger.trainer.course import Reason
from tb_netdebug.debugger.trainer.session import Session
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.processes import this_one, timeout_secs
from tb_netdebug.recording.remote import below, fit, name_there, say

if TYPE_CHECKING:
    from tb_netdebug.recording.adapter import Adapter
    from tb_netdebug.recording.settings import Settings
    from tb_netdebug.transport.control_line import ControlLine
    from tb_netdebug.transport.link import Link


class Debugging:
    """The debugger of one monitor.

    `step_of` returns the present batch, `resumed` gets the length of pauses.
    """

    def __init__(
        self, settings: Settings, run_dir: Path, rank: int, guard: Guard, *,
        step_of: Callable[[], int], resumed: Callable[[float], None], snapshot: Callable[[], Path | None],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._run_dir = run_dir
        self._rank = rank
        self._guard = guard
        self._line: ControlLine | None = None
        self._found_at = -1
        self.session = Session(
            self._about(),
            send=self._send,
            step_of=step_of,
            notice=say,
            resumed=resumed,
            snapshot=snapshot,
            fault=guard.fault,
        )

    def open(self, adapter: Adapter, description: Mapping[str, Any], link: Link | None) -> None:
        """Connect; with `pause_at_start`, wait for a client."""
        from tb_netdebug.transport.control_line import ControlLine

        self.session.about |= {name: description.get(name) for name in ("framework", "models")}
        self.session.open(adapter.workbench(self.session))
        self._line = ControlLine.start(
            self._settings.debugger_address,
            run_dir=self._run_dir,
            run=self.session.about["run"],
            rank=self._rank,
            notice=say,
            link=link,
            on_control=self.session.receive,
            on_connected=self.session.connected,
        )
        self.session.connected()  # the channel may have connected before it was assigned
        if self._settings.pause_at_start:
            self.session.begin()

    def pause(self) -> None:
        """Pause the run, as `monitor.pause()`."""
        say("paused; open the Debugger tab of NetDebug in TensorBoard, or run `netdebug debug`.")
        self.session.hold(Place(CODE), Reason("code", "the program called monitor.pause()"))

    def pause_for(self, finding: Finding) -> None:
        """Pause on a finding (`on_finding="pause"`), at the end of the batch that has shown it."""
        step = self.session.step_of()
        if finding.severity > Severity.INFO and finding.cause is None and step > self._found_at:
            self._found_at = step  # of several at once, the first and worst pauses
            say(f"paused because of {finding.rule}; open the Debugger tab of NetDebug in TensorBoard.")
            self.session.hold(Place(END), Reason("finding", f"of {finding.rule}: {finding.message}"))

    def end_batch(self) -> None:
        if self.session.is_alert:
            try:
                self.session.end_batch()
            except Exception as error:  # the step is recorded all the same
                self._guard.fault("stopping the training", error)

    def keep_user(self, name: str, value: Any) -> None:
        self.session.keep_user(name, value)

    def close(self) -> None:
        try:
            self.session.close()
        except Exception as error:
            self._guard.fault("closing the debugger", error)
        if self._line is not None:
            self._line.close()

    # ---- parts -------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> bool:
        return self._line is not None and self._line.send(data)

    def _about(self) -> dict[str, Any]:
        if self._settings.remote is None:
            parts = [fit(each) for each in below(self._run_dir.absolute(), self._settings.folder)]
        else:
            parts = [*name_there(self._run_dir, self._settings, os.environ)]
        rank, size, timeout = processes(self._rank)
        host = socket.gethostname()
        alone = f"{host}:{os.getpid()}:{self._run_dir.absolute()}"
        return {
            "run": parts,
            "run_dir": str(self._run_dir.absolute()),
            "rank": rank,
            "world_size": size,
            "group": alone if size == 1 else f"{meeting_point()}:{'/'.join(parts)}",
            "pid": os.getpid(),
            "host": host,
            "program": Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "",
            "framework": None,
            "models": None,
            "can": [],
            "cannot": [],
            "collective_timeout_secs": timeout,
        }


def processes(rank: int) -> tuple[int, int, float | None]:
    """Return rank, number of processes, and the timeout in seconds of one that waits for the others."""
    met = this_one()
    return (rank, 1, None) if met is None else (*met, timeout_secs())


def meeting_point() -> str:
    """Return a text that is the same in all processes of one run."""
    return f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"


def shell(variables: dict[str, Any]) -> None:
    """Run an interpreter in the program's terminal, with the variables of its caller."""
    if sys.stdin is None or not sys.stdin.isatty():
        say("monitor.shell() needs a terminal, and this program has none. The program continues.")
        return
    banner = "The training waits. Press Ctrl-D to leave the shell and continue."
    with suppress(SystemExit):
        try:
            from IPython import embed
        except ImportError:
            import code

            code.interact(banner, local=variables, exitmsg="")
        else:
            embed(user_ns=variables, banner1=banner, colors="neutral")
