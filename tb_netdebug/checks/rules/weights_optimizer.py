"""The rule for weights that are in no optimizer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, model_of, parameters_of
from tb_netdebug.checks.evidence.weights_unowned import unowned
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import agree, counted, percent
from tb_netdebug.core.records.facts import OptimizerFact, UnownedFact
from tb_netdebug.core.records.step import Kind


@dataclass(frozen=True, slots=True)
class OptimizedLimits:
    share: float = 0.1  # of all trainable weights
    most: float = 0.9  # from here on, hardly anything is trained


class NotOptimized(Rule):
    """Trainable weights are in no optimizer, or an optimizer holds tensors of another model."""

    slug = "not-optimized"
    when = When.FACTS
    needs = ("optimizer",)
    limits = OptimizedLimits()

    def __init__(self) -> None:
        self._told = False
        self._was_complete = False  # at some time, the optimizers had everything that was trainable

    def update(self, history: History) -> Iterator[Sign]:
        left_out = self._missing(history)
        if left_out is not None:
            yield left_out
        for fact in history.facts(UnownedFact):
            sign = unowned(fact, least=self.limits.share, most=self.limits.most)
            if sign is not None:
                yield sign

    def _missing(self, history: History) -> Sign | None:
        known = [fact for fact in history.known_facts(OptimizerFact).values() if not fact.is_of_none]
        if not known or (self._told and not history.facts(OptimizerFact)):
            return None
        missing = set.intersection(*(set(fact.missing or ()) for fact in known))
        strangers = sum(fact.strangers or 0 for fact in known)
        if not missing:
            self._was_complete = True
            return None
        parameters = parameters_of(history)
        share = parameters.share(missing)
        if any(fact.alike for fact in known) or (strangers and share >= self.limits.most):
            self._told = True
            return self._copied(missing, strangers, share)
        self._told = True
        return self._left_out(history, parameters, missing, share)

    def _copied(self, missing: set[str], strangers: int, share: float) -> Sign:
        return Sign(
            Severity.ERROR,
            f"The optimizer holds {counted(strangers, 'tensor that is', 'tensors that are')} not in the "
            f"model, and {counted(len(missing), 'weight tensor')} of the model ({percent(share)} of its "
            f"weights) {agree(len(missing), 'is', 'are')} in no optimizer: it trains another copy of the "
            "network.",
            "Create the optimizer when the model is complete: after model.to(device), copy.deepcopy, "
            "replacing layers and loading. optimizer = torch.optim.Adam(model.parameters()) needs the same "
            "model that you call.",
            {
                "share of weights in no optimizer": Evidence(share, self.limits.share),
                "tensors of another model": Evidence(float(strangers), 0.0),
            },
            tuple(sorted(missing)),
            sureness=0.98,
        )

    def _left_out(self, history: History, known: ParameterTable, missing: set[str], share: float) -> Sign:
        is_meant = self._is_meant(history, known, missing)
        is_much = share >= self.limits.share and not is_meant
        is_most = share >= self.limits.most
        if is_meant:
            why = "They may be kept on purpose, as a pretrained part or a copy is."
        elif self._was_complete:
            why = "They became trainable after the optimizer was made, and stay as they are."
        else:
            why = "They keep the random values that they started with."
        return Sign(
            Severity.ERROR if is_most and not is_meant else Severity.WARNING if is_much else Severity.INFO,
            f"{counted(len(missing), 'trainable weight tensor')} ({percent(share)} of all weights) "
            f"{agree(len(missing), 'is', 'are')} in no optimizer (more than {percent(self.limits.share)} is "
            f"too much). {why}",
            f"{Idiom.OPTIMIZE_ALL}. Freeze what is to stay as it is: {Idiom.FREEZE}.",
            {"share of weights in no optimizer": Evidence(share, self.limits.share)},
            tuple(sorted(missing, key=lambda name: known.place.get(name, 0))),
            sureness=0.9 if is_much else 0.5,
        )

    def _is_meant(self, history: History, known: ParameterTable, missing: set[str]) -> bool:
        """Return whether the weights are left out on purpose.

        That is the case for a model beside others, or a copy of a part that is trained, if no gradients reach
        it; and for a first part that is no longer as random as at its start.
        """
        facts = history.known_facts(OptimizerFact).values()
        with_gradient = max(fact.missing_with_gradient or 0 for fact in facts)
        is_beside = is_whole_model(known, missing) or is_twin(known, missing)
        if is_beside and with_gradient < len(missing) / 2:
            return True
        # A program that unfreezes something in the middle of a run wants it to be trained.
        is_kept = is_first_part(known, missing) and not is_fresh(history, known, missing)
        return is_kept and not self._was_complete


def is_whole_model(known: ParameterTable, missing: set[str]) -> bool:
    """Return whether one whole model of several, or more than one, is missing."""
    models: dict[str, set[str]] = {}
    for name in known.names:
        models.setdefault(model_of(name), set()).add(name)
    return len(models) > 1 and all(names <= missing for names in models.values() if names & missing)


def is_twin(known: ParameterTable, missing: set[str]) -> bool:
    """Return whether the missing weights are a copy of a part that is trained.

    They lie below another part, each with the same name and size: a teacher, a target network, an average of
    weights.
    """
    sizes = Counter((below(name), float(known.elements[place])) for name, place in known.place.items()
                    if name not in missing and "." in below(name))  # fmt: skip
    return all(
        "." in below(name)
        and name in known.place
        and sizes[below(name), float(known.elements[known.place[name]])]
        for name in missing
    )


def below(name: str) -> str:
    return name.partition(".")[2]


def is_first_part(known: ParameterTable, missing: set[str]) -> bool:
    """Return whether the trained matrices all run after the others, as in fine-tuning the last layers."""
    is_some = False
    for chain in known.chains:
        names = [known.names[place] for place in chain if known.matrix[place] and known.called[place]]
        left = [name in missing for name in names]
        is_some = is_some or (any(left) and not all(left))
        if is_some and sorted(left, reverse=True) != left:
            return False
    return is_some


def is_fresh(history: History, known: ParameterTable, missing: set[str]) -> bool:
    """Return whether most of these matrices are distributed uniformly, as torch and Keras start them."""
    places = [known.place[name] for name in missing if name in known.place]
    places = [place for place in places if known.matrix[place] and known.fan_in[place] > 0]
    largest = np.maximum(
        np.abs(known.first(history, Kind.WEIGHT, "min")), np.abs(known.first(history, Kind.WEIGHT, "max"))
    )
    spread = known.first(history, Kind.WEIGHT, "std")
    fresh = [
        any(is_uniform(largest[place], spread[place], bound) for bound in bounds(known, place))
        for place in places
    ]
    return bool(fresh) and sum(fresh) >= len(fresh) / 2


def bounds(known: ParameterTable, place: int) -> tuple[float, ...]:
    """Return the bounds of torch's own layers, of Glorot (Keras layers, xavier_uniform_), and of He."""
    fan_in, fan_out = float(known.fan_in[place]), float(known.fan_out[place])
    return 1.0 / math.sqrt(fan_in), math.sqrt(6.0 / (fan_in + fan_out)), math.sqrt(6.0 / fan_in)


def is_uniform(largest: float, spread: float, bound: float) -> bool:
    # A uniform distribution on ±bound has the standard deviation bound / sqrt(3).
    return bool(largest <= bound * 1.001 and abs(spread * math.sqrt(3.0) / bound - 1.0) < 0.1)
