"""The rule for predictions and targets that do not have the same shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom, loss_function
from tb_netdebug.core.records.facts import DifferenceFact, LossCallFact


class LossInputShape(Rule):
    """Each prediction is silently compared with every target, or there is only one class."""

    slug = "loss-input-shape"
    when = When.FACTS
    needs = ("loss-call",)

    def update(self, history: History) -> Iterator[Sign]:
        for call in history.facts(LossCallFact):
            if call.broadcasts:
                yield from broadcast(call)
            elif call.function == "cross_entropy" and call.num_classes == 1:
                yield one_class(call)
            elif call.softmax_of_one:
                yield always_one(call)
        for fact in history.facts(DifferenceFact):
            yield subtracted(fact)


def broadcast(call: LossCallFact) -> Iterator[Sign]:
    given, wanted = call.input_shape, call.target_shape or ()
    joint = joined(given, wanted)
    if joint is None or math.prod(wanted) == 1:
        return  # a single target number is meant, as in least-squares GANs
    pairs, most = math.prod(joint), max(math.prod(given), math.prod(wanted))
    if pairs > most:
        # Extra dimensions on both sides, or a result for every pair, mean that all are to be compared with
        # all.
        is_meant = call.reduction == "none" and len(given) == len(wanted)
        severity = Severity.INFO if is_meant else Severity.ERROR
        yield crossed(call, given, wanted, pairs, severity)
    elif math.prod(given) < math.prod(wanted) and given[-1:] != wanted[-1:]:
        yield crossed(call, given, wanted, pairs, Severity.WARNING)


def joined(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape that both are broadcast to, or None if they cannot be."""
    length = max(len(first), len(second))
    padded = [(1,) * (length - len(shape)) + tuple(shape) for shape in (first, second)]
    sizes = []
    for one, other in zip(*padded, strict=True):
        if one != other and 1 not in (one, other):
            return None
        sizes.append(other if one == 1 else one)
    return tuple(sizes)


def crossed(
    call: LossCallFact, given: tuple[int, ...], wanted: tuple[int, ...], pairs: int, severity: Severity
) -> Sign:
    function = call.function
    is_of_logits = function == "binary_cross_entropy_with_logits"
    called = Idiom.BINARY_LOGITS_CALL if is_of_logits else loss_function(function)
    return Sign(
        severity,
        f"{loss_function(function)} is given predictions of shape {list(given)} and targets of shape "
        f"{list(wanted)}. They are broadcast to one shape, so {pairs} pairs are compared where "
        f"{math.prod(wanted)} targets are meant: each prediction is pulled to the mean of targets that are "
        "not its own.",
        f"Give both the same shape, for example `{called}({Idiom.SQUEEZED_OUTPUT}, "
        f"target)` or `{called}(output, {Idiom.TARGET_AS_OUTPUT})`.",
        {
            "shape of predictions": Evidence(str(list(given))),
            "shape of targets": Evidence(str(list(wanted))),
            "pairs that are compared": Evidence(float(pairs), float(math.prod(wanted))),
        },
        where=(call.site or function,),
        sureness=0.97,
    )


def subtracted(fact: DifferenceFact) -> Sign:
    """Report a loss that the program writes itself: only the predictions and the result are known."""
    given, made = fact.prediction_shape, fact.shape
    return Sign(
        Severity.ERROR,
        f"The difference between predictions of shape {list(given)} and targets has the shape "
        f"{list(made)}: {math.prod(made)} pairs are compared where {math.prod(given)} are meant, so each "
        "prediction is pulled to the mean of targets that are not its own.",
        f"Give both the same shape, for example `{Idiom.SQUEEZED_OUTPUT} - target` or `output - "
        f"{Idiom.TARGET_AS_OUTPUT}`; or {Idiom.USE_A_LOSS_THAT_WARNS}. If all pairs are meant, say so: "
        f"`{Idiom.PAIR_ALL}`.",
        {
            "shape of predictions": Evidence(str(list(given))),
            "shape of the difference": Evidence(str(list(made))),
            "pairs that are compared": Evidence(float(math.prod(made)), float(math.prod(given))),
        },
        where=("loss",),
        sureness=0.9,
    )


def always_one(call: LossCallFact) -> Sign:
    return Sign(
        Severity.ERROR,
        "The network ends in a softmax of 1 unit (at least 2 are needed): its output is always 1, whatever "
        "the input is. Keras computes the loss from the score before the softmax, so it may fall, but "
        "predict() gives 1 for each input.",
        'For yes or no, end in a sigmoid: `Dense(1, activation="sigmoid")`; or give the last layer as many '
        "units as there are classes.",
        {"units of the softmax": Evidence(1.0, 2.0)},
        where=(call.site or call.function,),
        sureness=0.99,
    )


def one_class(call: LossCallFact) -> Sign:
    return Sign(
        Severity.ERROR,
        f"{Idiom.CROSS_ENTROPY} is given one score for each input, so there is 1 class (at least 2 are "
        "needed): its probability is always 1, the loss is always 0, and nothing is learned.",
        f"{Idiom.USE_ONE_OUTPUT}; or give the last layer as many outputs as there are classes.",
        {"classes": Evidence(1.0, 2.0)},
        where=(call.site or "cross_entropy",),
        sureness=0.99,
    )
