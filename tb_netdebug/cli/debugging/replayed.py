"""Debugs the step of a capsule in this process; the step is paused at its beginning."""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tb_netdebug.cli.debugging.choice import choose_training
from tb_netdebug.cli.debugging.output import DebuggerOutput
from tb_netdebug.cli.debugging.place_text import tell_state
from tb_netdebug.cli.debugging.prompt import Prompt, run_commands
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.replay_callables import told
from tb_netdebug.debugger.client.attendance import Attendance
from tb_netdebug.debugger.client.local_client import LocalClient

if TYPE_CHECKING:
    from tb_netdebug.frameworks.torch.numerics.rerun import Rerun

START_SECS = 60.0
WATCHED = ("batch", "output", "loss", "output_gradient", "gradient")


def debug_capsule(
    path: str,
    content: dict[str, Any],
    model: Any,
    *,
    loss: Callable[[Any], Any] | None,
) -> int:
    """Run the debugger on a capsule until the user quits or standard input ends; return the exit code.

    Raise CapsuleError.
    """
    rerun_module = importlib.import_module("tb_netdebug.frameworks.torch.numerics.rerun")
    client = LocalClient()
    rerun: Rerun = rerun_module.Rerun(path, content, model, send=client.take, loss=loss, words_of=words_of)
    client.listen(rerun.session.receive)
    rerun.start()
    try:
        # The session is in this process and cannot become unreachable, so there is no trouble to report.
        with Attendance(client, lambda _: None) as attendance:
            client.wait_for_session(START_SECS)
            workspace = Workspace(
                client,
                attendance,
                DebuggerOutput(),
                is_interactive=sys.stdin.isatty() and sys.stdout.isatty(),
            )
            workspace.restart = rerun.restart
            choose_training(workspace, run=None, rank=None)
            workspace.wait_for_stop()
            watch_numbers(workspace)
            tell(workspace, rerun.notes, has_loss=loss is not None)
            if not workspace.is_interactive:
                return run_commands(workspace, sys.stdin)
            Prompt(workspace, deque()).run()
    finally:
        rerun.close()
    return 0


def words_of(error: Exception) -> str:
    """Return an error as text: a UserMistake as the table shows it, any other error with its class."""
    return str(error).rstrip(".") if isinstance(error, UserMistake) else told(error)


def watch_numbers(workspace: Workspace) -> None:
    """Set watchpoints for values that are not finite, which most capsules are about.

    So `continue` runs to the first of them.
    """
    for kind in WATCHED:
        workspace.call(
            "set_watchpoint", kind=kind, tensors="", statistic="nonfinite", comparison="is", threshold=None
        )


def tell(workspace: Workspace, notes: Sequence[str], *, has_loss: bool) -> None:
    for note in notes:
        workspace.output.say(f"Note: {harmless(note)}.")
    workspace.output.say(
        "The backward pass begins at the loss that --loss computes."
        if has_loss
        else "The capsule does not hold the loss. The backward pass begins at the sum of the model's "
        "outputs, or at the loss that --loss computes from them."
    )
    workspace.output.say(
        "`continue` runs to the first NaN or infinity or to the end of the step, `next` to the next layer. "
        "`restart` goes back to the beginning of the step. `help` lists the commands."
    )
    tell_state(workspace)
