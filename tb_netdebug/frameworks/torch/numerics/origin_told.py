"""What made the first values that are not finite, as it is told, and the names of modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of


@dataclass(frozen=True, slots=True)
class Origin:
    """What made the first values that are not finite.

    `masked_only`: they are infinities that somebody put there, as masks are made. `masked_inputs`: so were
    those that it was given. `tensor` names an input or a parameter, `operation` and `site` the operation and
    its line, `before` a call that was given the values, with its line.
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
    """Of an operation in a model: the innermost module around it, and its line."""

    where: str
    class_name: str
    line: str


def names_of(models: Mapping[str, nn.Module]) -> dict[int, tuple[str, str]]:
    """The full name and the class of each module, by id; a root is named after its class."""
    found: dict[int, tuple[str, str]] = {}
    for prefix, model in models.items():
        wrappers = wrappers_of(model)
        for name, module in model.named_modules():
            name = clean(f"{name}.", wrappers).rstrip(".") or type(module).__name__
            found.setdefault(id(module), (f"{prefix}/{name}" if prefix else name, type(module).__name__))
    return found
