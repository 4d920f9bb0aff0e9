"""Commands that resume the training and pause it."""

from __future__ import annotations

import time
from argparse import Namespace

from tb_netdebug.cli.debugging.command import Command, whole
from tb_netdebug.cli.debugging.place_text import tell_state
from tb_netdebug.cli.debugging.words import CommandError, OptionParser, excluding
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.debugger.protocol.choices import STEPS

DIRECTLY = "&"
PAUSE_SECS = 10.0


def pause(workspace: Workspace, _: Namespace) -> None:
    """Pause the training at the next place that it passes, and show where."""
    deadline = time.monotonic() + PAUSE_SECS
    workspace.call("pause", wait=1.0)
    # Each request waits at most a second for the pause; a single layer may take longer.
    while workspace.state.get("status") == "running" and time.monotonic() < deadline:
        workspace.call("pause", wait=1.0)
    if workspace.state.get("status") == "running":
        workspace.output.say(
            "A pause is requested; the run pauses at the next place where it can. `wait` waits for it."
        )
    tell_state(workspace)


def go_on(workspace: Workspace, arguments: Namespace) -> None:
    """Let the training run until a breakpoint, a watchpoint or Ctrl-C stops it.

    `continue &` does not wait for that. `detach` lets it run for good.
    """
    if arguments.directly == DIRECTLY:
        workspace.call("continue")
        workspace.output.say("Running. `wait` waits for the next stop, `pause` pauses the run.")
        return
    workspace.go("continue")
    tell_state(workspace)


def step(workspace: Workspace, arguments: Namespace) -> None:
    """Run one batch, or N; or layers, layers backward, optimizer steps, operations.

    step                       a batch
    step layer 3               three layers forward
    step layer -m attention    the next layer whose name matches
    step op -x 'view|copy'     the next operation that is none of these

    Ops are slow: every operation of the model is inspected while stepping them.
    """
    wanted = list(arguments.what)
    by = wanted.pop(0) if wanted and not wanted[0].isdecimal() else "batch"
    if by not in STEPS:
        raise CommandError(f"A run can be stepped by {', '.join(STEPS)}, not by {by!r}.")
    times = whole(wanted.pop(0), "number of steps") if wanted else 1
    if wanted:
        raise CommandError(f"{wanted[0]!r} is one word too many. Usage: step [BY] [N] [-m RE] [-x RE]")
    step_by(workspace, by, times, excluding(arguments.match, arguments.exclude))


def next_layer(workspace: Workspace, arguments: Namespace) -> None:
    """Step to the next layer forward, or N of them on. Short for `step layer`."""
    step_by(workspace, "layer", arguments.count, excluding(arguments.match, arguments.exclude))


def step_by(workspace: Workspace, by: str, times: int, match: str | None) -> None:
    if by not in (workspace.training.session.get("can") or STEPS):
        # The trainer reports in its session what it cannot do, and why.
        reasons = " ".join(map(str, workspace.training.session.get("cannot") or ()))
        raise CommandError(f"This run cannot be stepped by {by}. {reasons}".strip())
    workspace.go("step", by=by, count=times, match=match)
    tell_state(workspace)


def until(workspace: Workspace, arguments: Namespace) -> None:
    """Run to a layer whose name matches, or with `until step N` to the end of that batch."""
    words = arguments.target
    if words[0] == "step" and len(words) == 2:
        workspace.go("run_to", step=whole(words[1], "number of a step"))
    elif len(words) == 1:
        workspace.go("run_to", layer=workspace.exactly(words[0]))
    else:
        raise CommandError("Usage: until LAYER-RE, or until step N")
    tell_state(workspace)


def wait(workspace: Workspace, _: Namespace) -> None:
    """Wait until the training stops, as `continue` does. Ctrl-C pauses it."""
    workspace.refresh()
    workspace.wait_for_stop()
    tell_state(workspace)


def restart(workspace: Workspace, _: Namespace) -> None:
    """Go back to the beginning of the step; in `netdebug replay` only."""
    if workspace.restart is None:
        raise CommandError("Only the step of a capsule can be restarted: netdebug replay CAPSULE SCRIPT")
    workspace.restart()
    workspace.go("continue")
    tell_state(workspace)


def detach(workspace: Workspace, _: Namespace) -> None:
    """Let the training run on, with everything that would stop it off until somebody comes back."""
    workspace.detach()
    tell_state(workspace)


def _directly(parser: OptionParser) -> None:
    parser.add_argument("directly", nargs="?", choices=[DIRECTLY], metavar="&")


def _filter(parser: OptionParser) -> None:
    parser.add_argument("-m", "--match", metavar="RE")
    parser.add_argument("-x", "--exclude", metavar="RE")


def _step(parser: OptionParser) -> None:
    parser.add_argument("what", nargs="*", metavar="BY|N")
    _filter(parser)


def _next(parser: OptionParser) -> None:
    parser.add_argument("count", nargs="?", type=int, default=1, metavar="N")
    _filter(parser)


def _target(parser: OptionParser) -> None:
    parser.add_argument("target", nargs="+", metavar="LAYER-RE|step N")


COMMANDS = (
    Command("pause", pause),
    Command("continue", go_on, short=("c", "cont"), takes=_directly, repeats=True),
    Command(
        "step", step, short=("s",), takes=_step, completes=(*STEPS, "--match", "--exclude"), repeats=True
    ),
    Command("next", next_layer, short=("n",), takes=_next, completes=("--match", "--exclude"), repeats=True),
    Command("until", until, short=("u",), takes=_target, completes=("step", "layers")),
    Command("wait", wait),
    Command("restart", restart),
    Command("detach", detach),
)
