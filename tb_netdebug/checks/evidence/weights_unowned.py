"""The sign for parameters that a loss depends on, and that belong to no model and no optimizer."""

from __future__ import annotations

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.wording.phrases import percent
from tb_netdebug.core.records.facts import UnownedFact

MOST_SHAPES = 3


def unowned(fact: UnownedFact, *, least: float, most: float) -> Sign | None:
    """Return the sign for such parameters; `least` and `most` are the shares for a warning and an error.

    Random parameters that nobody trains are a mistake. Those that are not random were trained before, and may
    be kept as they are; so may a copy outside of the model, for what lies there is not watched.
    """
    if not fact.tensors:
        return None
    share = fact.values / max(fact.values + fact.values_of_models, 1)
    is_inside = fact.id == "inside"
    is_meant = not fact.fresh or (fact.twin and not is_inside)
    is_much = share >= least and not is_meant
    severity = Severity.WARNING if is_much else Severity.INFO
    return Sign(
        Severity.ERROR if is_much and is_inside and share >= most else severity,
        f"{fact.tensors} parameters that the loss depends on ({named(fact)}) belong to no watched model and "
        f"to no optimizer. They are {percent(share)} of all weights (more than {percent(least)} is too "
        "much), and "
        + ("keep the random values that they started with." if not is_meant else "may be kept on purpose."),
        "Layers in a plain Python list or dict are unknown to torch: put them into nn.ModuleList or "
        "nn.ModuleDict, and single tensors into nn.ParameterList. If they belong to another network, give "
        "its parameters to an optimizer as well, or call requires_grad_(False) on it to keep it as it is.",
        {"share of weights in no optimizer": Evidence(share, least)},
        fact.names,
        sureness=0.95 if is_inside and is_much else 0.7 if is_much else 0.5,
    )


def named(fact: UnownedFact) -> str:
    """Return the parameters' names if they have some, else their shapes: "64 × 32"."""
    words = fact.names or [" × ".join(map(str, shape)) for shape in fact.shapes if shape]
    shown = ", ".join(words[:MOST_SHAPES])
    return f"e.g. {shown}" if len(words) > MOST_SHAPES else shown or "single numbers"
