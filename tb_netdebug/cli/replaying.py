"""The part of `netdebug replay` that runs in the held process: capsule, model, and the batch run again."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from tb_netdebug.cli.capsule_text import contents, rows_of, verdict
from tb_netdebug.cli.debugging.replayed import debug_capsule
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.replay_callables import (
    IMPOSSIBLE,
    GivenOption,
    refuse,
    refusing,
    told,
    with_loss,
    with_model,
)
from tb_netdebug.experiments.rehearsal.channel import tell
from tb_netdebug.experiments.rehearsal.definitions import Definitions
from tb_netdebug.experiments.rehearsal.stop import Stopped, run_to_step
from tb_netdebug.training.zero_code.script import Script

HINT = "To run the batch again: netdebug replay CAPSULE SCRIPT, or --model MODULE:CALLABLE."
# The limit for reading a capsule; most take less than a second.
READ_SECS = 120
ROOM_BYTES = 2 << 30


def replay(
    *,
    capsule: str,
    script: list[str],
    is_module: bool,
    model: str | None,
    loss: str | None,
    backward: bool,
    is_for_debugger: bool,
    **_: Any,
) -> int:
    """Replay a capsule and return the exit status.

    This is the entry point in the held process; `cli/replay.py` starts it.
    """
    from tb_netdebug.frameworks.torch.numerics.capsule_file import CapsuleError

    def use(model: Any, function: Callable[[Any], Any] | None) -> int:
        ran = ReplayedModels(capsule, content, model, function, backward=backward)
        return ran.debug() if is_for_debugger else ran.show()

    def use_script(stopped: Stopped) -> int:
        chosen_models = chosen(content, stopped)
        said = without_step(stopped)
        if said:
            sys.stderr.write(f"netdebug: {harmless(said)}\n")
        return with_loss(loss_place, Definitions(stopped), partial(use, chosen_models))

    is_idle = True
    try:
        content = loaded(capsule)
        say(contents(capsule, content))
        loss_place = GivenOption.of("--loss", loss) if loss else None
        if model:
            is_idle = False
            definitions = Definitions()
            return with_model(
                GivenOption.of("--model", model),
                definitions,
                lambda built: with_loss(loss_place, definitions, partial(use, built)),
            )
        if not script:
            say(HINT)
            return 0
        check_script(script[0], is_module=is_module)
        is_idle = False
        return run_to_step(
            Script(script[0], tuple(script[1:]), is_module=is_module), partial(refusing, use_script)
        )
    except (UserMistake, CapsuleError) as mistake:
        if is_idle:
            tell("idle", None)
        return refuse(mistake)


def say(what: Any) -> None:
    Console(highlight=False, markup=False, emoji=False).print(what)


# ---- the capsule -----------------------------------------------------------------------------------------


def loaded(path: str) -> dict[str, Any]:
    """Load a capsule within bounded time and memory, whatever the file holds. Raise CapsuleError."""
    from tb_netdebug.frameworks.torch.numerics import capsule_file

    size = capsule_file.check_file(path)
    with limited(2 * size + ROOM_BYTES):
        try:
            return capsule_file.load_capsule(path)
        except MemoryError:
            raise capsule_file.CapsuleError(
                f"{path} cannot be read as a capsule: it takes too much memory"
            ) from None


@contextmanager
def limited(more_bytes: int) -> Iterator[None]:
    """Limit time and memory of the block: SIGALRM ends a slow process, a greedy one gets MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # RLIMIT_AS counts address space, so the limit is relative to what is mapped already.
    most = psutil.Process().memory_info().vms + more_bytes
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    # SIG_DFL, not a handler: the default action also ends native code, and the parent reports the signal.
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(READ_SECS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ---- the model -------------------------------------------------------------------------------------------


def check_script(name: str, *, is_module: bool) -> None:
    if not is_module and name != "-" and not Path(name).exists():
        raise UserMistake(f"there is no script {name}")


def chosen(content: dict[str, Any], stopped: Stopped) -> dict[str, Any]:
    """Return the models of the script that the capsule was written for, by their names in it."""
    from tb_netdebug.frameworks.torch.numerics.capsule_choice import choose

    found = choose(content, [each.models for each in stopped.subjects])
    if found:
        return found
    if stopped.error is not None:
        raise UserMistake(f"{stopped.script} ended before its first optimizer step: {told(stopped.error)}")
    where = f" up to {stopped.where}" if stopped.where else ", which ended without an optimizer step"
    raise UserMistake(
        f"no torch model was seen in {stopped.script}{where}; give --model MODULE:CALLABLE instead"
    )


def without_step(stopped: Stopped) -> str:
    """Return what to report of a script that made no optimizer step; empty if it made one or failed."""
    if stopped.without_step:
        return (
            f"{stopped.script} was stopped ({stopped.where}) after {stopped.without_step} without an "
            "optimizer step. If it trains, NetDebug did not see how."
        )
    if not stopped.has_stepped and stopped.error is None:
        return f"{stopped.script} ran to its end without an optimizer step."
    return ""


# ---- the batch -------------------------------------------------------------------------------------------


class ReplayedModels:
    """The capsule together with the models to run it on."""

    def __init__(self, path: str, content: dict[str, Any], model: Any, loss: Any, *, backward: bool) -> None:
        self._path = path
        self._content = content
        self._model = model
        self._loss = loss
        self._backward = backward

    def debug(self) -> int:
        return debug_capsule(self._path, self._content, self._model, loss=self._loss)

    def show(self) -> int:
        from tb_netdebug.frameworks.torch.numerics.replay import CapsuleError, replay

        tell("waiting", "the replay of the batch has not ended")
        try:
            done = replay(self._content, self._model, backward=self._backward, loss=self._loss)
        except (CapsuleError, UserMistake):
            raise
        except Exception as error:  # perhaps the very error that the capsule is about
            return self._failed(error)
        finally:
            tell("waiting", "")
        say(rows_of(done))
        for note in done.notes:
            say(f"Note: {harmless(note)}.")
        say(verdict(done, self._content))
        return 0 if done.is_finite else 1

    def _failed(self, error: Exception) -> int:
        kept = self._content.get("error")
        is_same = isinstance(kept, str) and type(error).__name__ in kept.strip().rpartition("\n")[2]
        say(harmless(f"The step failed{' as it did then' if is_same else ''}: {told(error)}."))
        return 1 if is_same else IMPOSSIBLE
