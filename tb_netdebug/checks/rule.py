"""The base class of all rules: one thing that may be wrong, and how to see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any, ClassVar

from tb_netdebug.checks.finding import Sign
from tb_netdebug.checks.history import History


class When(Enum):
    """When a rule is asked; in addition, every rule is asked at the last step."""

    STEPS = "every 16 steps, and at once when a loss or a gradient is not finite: rules over scalars"
    SAMPLES = "after each step with samples of tensors"
    FACTS = "after each step with facts, and after every 16 steps"


class Rule(ABC):
    """One check, made once for a run: `update` reads the history and returns what it sees, or None.

    A rule may remember what it likes, within bounds, but does no I/O and reads no clock. Reporting the same
    again prolongs the finding; a higher severity replaces what was reported before. A sign with `is_over`
    takes back what the run has outgrown.
    """

    slug: ClassVar[str]
    when: ClassVar[When]
    needs: ClassVar[tuple[str, ...]] = ()
    """What must be recorded, of `NEEDS`; when it is not, the rule is said to be not judged."""
    limits: Any = None
    """A frozen dataclass of numbers: the thresholds, each with its reason beside it."""

    @abstractmethod
    def update(self, history: History) -> Sign | Iterable[Sign] | None:
        """Return what is seen now.

        Several signs become one finding: the worst gives the message, all places count.
        """


# What rules may need, with the text for the user: what it is, and how to get it.
NEEDS: Mapping[str, str] = {
    "loss": "a loss: monitor.step(loss=loss)",
    "weights": "statistics of weights: watch(weights=True)",
    "gradients": "statistics of gradients: watch(gradients=True)",
    "updates": "statistics of updates: watch(updates=True)",
    "activations": "statistics of activations: watch(activations=True)",
    "gradient-norm": "the norm of the gradients: watch(gradients=True)",
    "loss-call": "a loss function of torch.nn or torch.nn.functional that was seen at work",
    "labels": "labels, as they are given to a loss function of torch",
    "inputs": "the inputs of the model: watch(batches=True)",
    "evaluation-loss": "a loss on data that is not trained on: monitor.log(val_loss=…)",
    "optimizer": "an optimizer of torch.optim",
    "modes": "the calls of the model",
    "memory": "readings of memory: watch(memory=True)",
    "time": "the time of each step",
    "learning-rate": "the learning rate of an optimizer",
    "loss-scale": "a gradient scaler (mixed precision)",
    "ranks": "several processes that train together",
}


def with_limits(rule: Rule, changes: Mapping[str, Any]) -> None:
    """Set thresholds by name; raise ValueError for one that the rule does not have."""
    known = (
        {each.name: getattr(rule.limits, each.name) for each in fields(rule.limits)} if rule.limits else {}
    )
    for name, value in changes.items():
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ValueError(f"the check {rule.slug} has no threshold {name!r}; it has: {listed}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"the threshold {name} of the check {rule.slug} is a number, not {value!r}")
    rule.limits = replace(rule.limits, **changes)
