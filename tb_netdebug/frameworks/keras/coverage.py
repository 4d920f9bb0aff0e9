"""Report what is trained: weights held by optimizers, weights with gradients, and the modes of layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tb_netdebug.core.records.facts import GradientsFact, ModesFact, OptimizerFact, ParameterGroup, TypedFact
from tb_netdebug.core.records.scalar_names import EVAL_MODULES, MODE_MODULES
from tb_netdebug.frameworks.keras.layers import Network, WatchedWeight, native
from tb_netdebug.recording.collector import StepCollector

if TYPE_CHECKING:
    from tb_netdebug.frameworks.keras.tap import AppliedGradients, StepTap

# A fact lists at most this many names; its `…_total` has their number.
MOST_NAMES = 256
FEWEST_LOOKS = 2


class KerasCoverage:
    """Emits the facts `optimizer`, `gradients` and `modes`, when first seen and whenever they change."""

    def __init__(self, network: Network, collector: StepCollector) -> None:
        self._network = network
        self._collector = collector
        self._optimizers: dict[int, int] = {}
        self._told: dict[tuple[str, int], TypedFact] = {}
        self._without: dict[int, int] = {}
        self._had: set[int] = set()
        self._held: set[int] = set()
        self._idle = 0

    def look(self, tap: StepTap) -> None:
        """Inspect the optimizers, gradients and modes of one step.

        A traced graph stands for all its runs, so after FEWEST_LOOKS steps of the same tap only the scalars
        of the modes are repeated.
        """
        if tap.looks >= FEWEST_LOOKS:
            self._put_modes(tap)
            return
        tap.looks += 1
        # Counts the steps in a row in which no optimizer ran and every weight was frozen.
        self._idle = 0 if tap.applied_to or not self._is_all_frozen() else self._idle + 1
        if tap.applied_to:
            self._look_at_gradients(tap.applied_to)
            for applied in tap.applied_to:
                self._tell_optimizer(applied.optimizer)
            self._tell_gradients()
        elif tap.losses and self._idle >= FEWEST_LOOKS:
            self._tell_idle()
        self._tell_modes(tap)
        self._put_modes(tap)

    def _look_at_gradients(self, applied_to: list[AppliedGradients]) -> None:
        for applied in applied_to:
            for variable, gradient in applied.pairs:
                key = id(native(variable))
                self._held.add(key)
                if gradient is None:
                    self._without[key] = self._without.get(key, 0) + 1
                else:
                    self._had.add(key)

    def _tell_optimizer(self, optimizer: Any) -> None:
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        held = [native(each) for each in getattr(optimizer, "_trainable_variables", None) or []]
        self._held.update(map(id, held))
        missing = [each for each in self._trainable() if id(native(each.variable)) not in self._held]
        strangers = sum(id(each) not in self._network.weights for each in held)
        decay = getattr(optimizer, "weight_decay", None)
        group = ParameterGroup(rate_of(optimizer), float(decay) if decay else 0.0, len(held))
        fact = OptimizerFact(
            id=number,
            class_name=type(getattr(optimizer, "inner_optimizer", optimizer)).__name__,
            groups=(group,),
            parameters=len(held),
            strangers=strangers,
            missing=tuple(each.name for each in missing[:MOST_NAMES]),
            missing_total=len(missing),
            missing_with_gradient=0,
            hidden=(),
            alike=False,
        )
        self._tell(fact, replace(fact, groups=()), number)

    def _tell_gradients(self) -> None:
        looks = max(self._without.values(), default=0)
        if self._without and looks < FEWEST_LOOKS:
            return
        none = tuple(
            each.name
            for key, each in self._network.weights.items()
            if self._without.get(key, 0) >= FEWEST_LOOKS and key not in self._had
        )
        frozen = tuple(each.name for each in self._network.weights.values() if not is_trainable(each))
        if not none and not frozen:
            return
        fact = GradientsFact(
            none=none[:MOST_NAMES],
            none_total=len(none),
            steps=looks,
            frozen=frozen[:MOST_NAMES],
            frozen_total=len(frozen),
            detached=not self._had,
        )
        self._tell(fact, replace(fact, steps=0))

    def _tell_idle(self) -> None:
        """Report that every weight is frozen.

        Keras does not call the optimizer when nothing can be trained, so there are no gradients to report.
        """
        frozen = tuple(each.name for each in self._network.weights.values())
        fact = GradientsFact(
            steps=self._idle, frozen=frozen[:MOST_NAMES], frozen_total=len(frozen), all_frozen=True
        )
        self._tell(fact, replace(fact, steps=0))

    def _tell_modes(self, tap: StepTap) -> None:
        if not tap.modes:
            return
        frozen = [name for name, (_, is_frozen) in tap.modes.items() if is_frozen]
        in_eval = [
            name
            for name, (training, is_frozen) in tap.modes.items()
            if not is_frozen and (training is None or training is False)
        ]
        total = len(tap.modes) - len(frozen)
        tap.mode_counts = float(total), float(len(in_eval))
        fact = ModesFact(
            eval=tuple(in_eval[:MOST_NAMES]),
            total=total,
            root_eval=len(in_eval) == total,
            frozen=tuple(sorted(frozen)[:MOST_NAMES]),
            evaluating_root_train=False,
        )
        self._tell(fact, fact)

    def _put_modes(self, tap: StepTap) -> None:
        if tap.modes:
            scalars = self._collector.scalars
            scalars[MODE_MODULES], scalars[EVAL_MODULES] = tap.mode_counts

    def _is_all_frozen(self) -> bool:
        return bool(self._network.weights) and not self._trainable()

    def _trainable(self) -> list[WatchedWeight]:
        return [each for each in self._network.weights.values() if is_trainable(each)]

    def _tell(self, fact: TypedFact, known: TypedFact, number: int = 0) -> None:
        """Emit the fact if it is new; `known` is the fact without what may change."""
        if self._told.get((fact.KIND, number)) != known:
            self._told[fact.KIND, number] = known
            self._collector.fact(fact)


def is_trainable(watched: WatchedWeight) -> bool:
    return bool(getattr(watched.variable, "trainable", True))


def rate_of(optimizer: Any) -> float | None:
    """Return the current learning rate, also of a schedule; None if it cannot be read here."""
    try:
        rate = optimizer.learning_rate
        return float(rate.numpy() if hasattr(rate, "numpy") else rate)
    except (AttributeError, TypeError, ValueError):
        return None
