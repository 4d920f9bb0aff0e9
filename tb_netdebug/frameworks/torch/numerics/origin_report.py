"""The origin of non-finite values as it is reported, and the module names used in reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of


@dataclass(frozen=True, slots=True)
class Origin:
    """What made the first non-finite values.

    `masked_only`: they are infinities that somebody put there on purpose, as masks are made. `masked_inputs`:
    the non-finite inputs were such infinities. `tensor` names an input or a parameter;
    it is "operand" if an operation of the module was given them, and nobody knows by whom. `operation` and
    `site` are the operation and its line. `before` is a call, with its line, that was already given the
    values.
    """

    what: str  # "output", "input", "parameter"
    where: str
    class_name: str
    kind: str
    order: int
    inputs_finite: bool = True
    parameters_finite: bool = True
    masked_only: bool = False
    masked_inputs: bool = False
    tensor: str = ""
    operation: str = ""
    site: str = ""
    before: str = ""


class Place(NamedTuple):
    """The place of an operation in a model: the innermost enclosing module, and the source line."""

    where: str
    class_name: str
    line: str


def names_of(models: Mapping[str, nn.Module]) -> dict[int, tuple[str, str]]:
    """Return the full name and the class of each module, by id; a root is named after its class."""
    found: dict[int, tuple[str, str]] = {}
    for prefix, model in models.items():
        wrappers = wrappers_of(model)
        for name, module in model.named_modules():
            name = clean(f"{name}.", wrappers).rstrip(".") or type(module).__name__
            found.setdefault(id(module), (f"{prefix}/{name}" if prefix else name, type(module).__name__))
    return found
