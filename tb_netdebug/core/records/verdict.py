"""The verdict on a run in one word, or the reason why there is none.

The command line, `nd.check`, the page and the trainer all take their verdict from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SICK, SUSPECT, HEALTHY, UNKNOWN = "sick", "suspect", "healthy", "unknown"
# A key of the run's description, present until the first step ends; see `recording.first_step`.
BEFORE_FIRST_STEP = "before_first_step"
# A key of the same description: the class of the error that ended the program, if one did.
ENDED_WITH = "ended_with"

MOST_DAMAGE = 300
MOST_NAME = 100
ADD_STEP = "Call `monitor.step(loss=loss)` at the end of each batch; `monitor` is what `nd.watch` returned."
USE_CALLBACK = (
    "With `fit`, pass `callbacks=[nd.KerasCallback()]` in place of `nd.watch`; with `train_on_batch` or a "
    "loop of your own, call `monitor.step(loss=loss)` at the end of each batch."
)
NO_STEP = "Nothing was recorded: the files hold no step."
NO_LOSS = (
    "Nothing can be judged: the files of this run hold no loss, no norm of gradients and no histogram of "
    "weights, gradients or activations."
)
NO_CURVES = "Nothing can be judged: the files of this run hold no scalar and no histogram."


# Scalars that tell whether anything trained. Backward time is counted from the end of a forward pass that
# keeps a graph for gradients; see `recording.clock`.
OF_BACKWARD = "time/backward"
OF_EVALUATION = "probe/evaluations"
OF_OPTIMIZER = "time/optimizer"
OF_LOOP = frozenset({"loss", "gradient_norm"})
WHAT_TRAINS = (
    "Check that nd.watch was given the model and the optimizer that train, and call "
    "`monitor.step(loss=loss)` after `optimizer.step()`."
)


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The evidence in a run's steps that something was trained and can be judged.

    Optimizer steps and changed weights are evidence. So is a loss or a gradient norm alone, as from a loop
    that NetDebug cannot look into: its curve is judged like a curve from another writer. But where forward
    passes were seen and no update followed, the loss is that of a model which does not change.
    """

    has_updates: bool
    has_curves: bool
    has_backward: bool
    has_evaluations: bool

    @classmethod
    def of(cls, scalars: Collection[str], *, has_moved: bool) -> RunEvidence:
        """Return the evidence in the scalars of these names; `has_moved`: a sampled update was not zero."""
        return cls(
            has_updates=has_moved or OF_OPTIMIZER in scalars,
            has_curves=not OF_LOOP.isdisjoint(scalars),
            has_backward=OF_BACKWARD in scalars,
            has_evaluations=OF_EVALUATION in scalars,
        )

    def missing(self, steps: int) -> str | None:
        """Return why the run cannot be judged and what to do about it, or None when it can."""
        if self.has_updates or (self.has_curves and not (self.has_backward or self.has_evaluations)):
            return None
        if self.has_backward:
            without = "without an optimizer step and without a change of weights"
        elif self.has_evaluations:
            without = "in which the model was only evaluated: no gradient and no change of weights"
        else:
            without = "without a loss, a gradient or a change of weights"
        counted = "1 step was" if steps == 1 else f"{steps} steps were"
        return f"Nothing can be judged: {counted} recorded, {without}. {WHAT_TRAINS}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict as one word, with a reason where it is "unknown".

    `reason` says why it is unknown and what to do; otherwise it is None. `is_readable` is False when damage
    has left nothing of the run.
    """

    word: str
    reason: str | None = None
    is_readable: bool = True


def verdict(
    severities: Iterable[str],
    *,
    steps: int,
    evidence: RunEvidence | None = None,
    has_loss: bool = True,
    info: Mapping[str, Any] | None = None,
    damage: str = "",
    kind: str = "netdebug",
) -> Verdict:
    """Return the verdict on a run with `steps` recorded steps and findings of these severities.

    `evidence` is the evidence in these steps. Runs of other writers have none and are judged by their curves:
    `has_loss` says whether these include a loss, or another curve that shows how the training went.
    `info` is the run's description, and `damage` a sentence on what cannot be read of its files. They explain
    a run without a step, which is unknown and never healthy.
    """
    word = word_for(severities)
    if word != HEALTHY:
        return Verdict(word)
    if steps > 0:
        missing = evidence.missing(steps) if evidence is not None else None if has_loss else NO_LOSS
        return Verdict(HEALTHY) if missing is None else Verdict(UNKNOWN, missing)
    told = before_first_step(info or {})
    # `is_closed` is written last: where it can be read, damage has not taken a step.
    if damage and told.get("is_closed") is not True:
        return Verdict(
            UNKNOWN, f"Nothing could be read: {damage[:MOST_DAMAGE].rstrip('.')}.", is_readable=False
        )
    return Verdict(UNKNOWN, NO_CURVES if kind == "summary" else why_no_step(told))


def not_judged(folder: str) -> str:
    """Return the sentence shown for a run, in this folder, that has not been judged yet."""
    if "://" in folder:
        return "This run is not judged yet: copy it to this machine and call `netdebug check` on the copy."
    return f"This run is not judged yet: `netdebug check {shlex.quote(folder)}` judges it."


def ending(info: Mapping[str, Any]) -> str | None:
    """Return a sentence on the error that ended the program; the verdict on its steps says nothing of it."""
    error = info.get(ENDED_WITH)
    if not isinstance(error, str) or not error:
        return None
    if error == KeyboardInterrupt.__name__:
        return "The program was interrupted: the verdict is on the steps before."
    return f"The program ended with {error[:MOST_NAME]}: the verdict is on the steps before."


def word_for(severities: Iterable[str]) -> str:
    """Return "sick", "suspect" or "healthy" for a run that was judged."""
    found = set(severities)
    return SICK if "error" in found else SUSPECT if "warning" in found else HEALTHY


def before_first_step(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a run's description that covers the time before its first step, or an empty one."""
    told = info.get(BEFORE_FIRST_STEP)
    return told if isinstance(told, Mapping) else {}


def why_no_step(told: Mapping[str, Any]) -> str:
    """Return why the run has no step; `told` comes from a file and may hold anything."""
    if not told:
        return NO_STEP
    # bool is a subclass of int, so the exact type is compared.
    updates = told.get("optimizer_steps")
    updates = updates if type(updates) is int and updates > 0 else 0
    if told.get("is_users") is not True:
        return _of_callback(is_closed=told.get("is_closed") is True)
    what_to_do = USE_CALLBACK if told.get("is_fit") is True else ADD_STEP
    # The optimizer stepped, so the loop runs and only `monitor.step` is missing.
    if updates:
        times = "once" if updates == 1 else f"{updates} times"
        return (
            f"Nothing was recorded: the optimizer stepped {times} and `monitor.step` was not called. "
            f"{what_to_do}"
        )
    if told.get("has_failed") is True:
        return "Nothing was recorded: the program failed or was interrupted before its first step."
    if told.get("is_closed") is True:
        return (
            "Nothing was recorded: `monitor.step` was not called, and no optimizer step was seen. Check that "
            f"the training loop ran. {what_to_do}"
        )
    return (
        "Nothing is recorded yet: no step has ended, and no optimizer step was seen. If the program is over, "
        f"it ended before its first step. {what_to_do}"
    )


def _of_callback(*, is_closed: bool) -> str:
    """Return the reason for a run whose steps a callback of ours ends: the user has no line to add."""
    if is_closed:
        return "Nothing was recorded: the training ended before its first step."
    return (
        "Nothing is recorded yet: the first step has not ended. If the program is over, it ended before its "
        "first step."
    )
