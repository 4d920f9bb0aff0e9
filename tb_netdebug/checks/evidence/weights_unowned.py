"""The sign for parameters that a loss depends on, and that belong to no model and no optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.wording.phrases import percent

MOST_SHAPES = 3


def unowned(fact: Mapping[str, Any], *, least: float, most: float) -> Sign | None:
    """Return the sign for such parameters; `least` and `most` are the shares for a warning and an error.

    Random parameters that nobody trains are a mistake. Those that are not random were trained before, and may
    be kept as they are; so may a copy outside of the model, for what lies there is not watched.
    """
    tensors, values = int(fact.get("tensors") or 0), int(fact.get("values") or 0)
    if not tensors:
        return None
    share = values / max(values + int(fact.get("values_of_models") or 0), 1)
    is_inside = fact.get("id") == "inside"
    is_meant = not fact.get("fresh") or (bool(fact.get("twin")) and not is_inside)
    is_much = share >= least and not is_meant
    severity = Severity.WARNING if is_much else Severity.INFO
    return Sign(
        Severity.ERROR if is_much and is_inside and share >= most else severity,
        f"{tensors} parameters that the loss depends on ({named(fact)}) belong to no watched model and to no "
        f"optimizer. They are {percent(share)} of all weights (more than {percent(least)} is too much), and "
        + ("keep the random values that they started with." if not is_meant else "may be kept on purpose."),
        "Layers in a plain Python list or dict are unknown to torch: put them into nn.ModuleList or "
        "nn.ModuleDict, and single tensors into nn.ParameterList. If they belong to another network, give "
        "its parameters to an optimizer as well, or call requires_grad_(False) on it to keep it as it is.",
        {"share of weights in no optimizer": Evidence(share, least)},
        tuple(fact.get("names") or ()),
        sureness=0.95 if is_inside and is_much else 0.7 if is_much else 0.5,
    )


def named(fact: Mapping[str, Any]) -> str:
    """Return the parameters' names if they have some, else their shapes: "64 × 32"."""
    names: Sequence[str] = fact.get("names") or ()
    shapes: Sequence[Sequence[int]] = fact.get("shapes") or ()
    words = list(names) or [" × ".join(map(str, shape)) for shape in shapes if shape]
    shown = ", ".join(words[:MOST_SHAPES])
    return f"e.g. {shown}" if len(words) > MOST_SHAPES else shown or "single numbers"
