"""The loss functions of torch.nn.functional that are watched, and how their calls are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn._reduction import legacy_get_string

from tb_netdebug.frameworks.torch.taps import twin_of


class Family(Enum):
    """The kinds of targets."""

    CLASSES = "the number of a class for each row, or a share for each class"
    BINARY = "yes or no for each value"
    VALUES = "a number for each value"
    SHARES = "a share for each class"
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class LossFunction:
    """A loss function; `with_logits`: whether it takes raw scores (None: neither these nor probabilities)."""

    name: str
    family: Family = Family.OTHER
    with_logits: bool | None = None
    target: str | None = "target"
    function: Any = None
    twin: Callable[..., Any] | None = None
    parameters: tuple[str, ...] = ()

    @property
    def is_elementwise(self) -> bool:
        """Whether it compares values one by one, so that differing shapes are broadcast."""
        return self.family in (Family.BINARY, Family.VALUES) or self.name in _PAIRWISE


_PAIRWISE = ("kl_div", "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss")
_KINDS = (
    LossFunction("cross_entropy", Family.CLASSES, with_logits=True),
    LossFunction("nll_loss", Family.CLASSES, with_logits=False),
    LossFunction("multi_margin_loss", Family.CLASSES),
    LossFunction("binary_cross_entropy", Family.BINARY, with_logits=False),
    LossFunction("binary_cross_entropy_with_logits", Family.BINARY, with_logits=True),
    LossFunction("multilabel_soft_margin_loss", Family.BINARY, with_logits=True),
    LossFunction("mse_loss", Family.VALUES),
    LossFunction("l1_loss", Family.VALUES),
    LossFunction("smooth_l1_loss", Family.VALUES),
    LossFunction("huber_loss", Family.VALUES),
    LossFunction("poisson_nll_loss", Family.VALUES),
    LossFunction("kl_div", Family.SHARES),
    LossFunction("gaussian_nll_loss"),
    LossFunction("soft_margin_loss"),
    LossFunction("hinge_embedding_loss"),
    LossFunction("multilabel_margin_loss"),
    LossFunction("cosine_embedding_loss"),
    LossFunction("margin_ranking_loss"),
    LossFunction("linear_cross_entropy"),
    LossFunction("ctc_loss", target="targets"),
    LossFunction("triplet_margin_loss", target=None),
    LossFunction("triplet_margin_with_distance_loss", target=None),
)


def loss_functions() -> list[LossFunction]:
    """Return the watched functions that this version of torch has."""
    found = []
    for kind in _KINDS:
        function = getattr(functional, kind.name, None)
        if function is None:
            continue
        code = function.__code__
        found.append(
            LossFunction(
                kind.name,
                kind.family,
                kind.with_logits,
                kind.target,
                function,
                twin_of(function),
                code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
            )
        )
    return found


class LossCall:
    """One call of a loss function, its arguments by name."""

    __slots__ = ("arguments", "function", "input", "output", "reduction", "target")

    def __init__(self, function: LossFunction, args: tuple[Any, ...], output: Tensor) -> None:
        self.function = function
        self.arguments = dict(zip(function.parameters, args, strict=True))
        self.input: Tensor = args[0]
        target = self.arguments[function.target] if function.target else None
        self.target: Tensor | None = target if isinstance(target, Tensor) else None
        self.output = output
        self.reduction = self._reduction()

    def _reduction(self) -> str:
        mean, reduce = self.arguments.get("size_average"), self.arguments.get("reduce")
        if mean is None and reduce is None:
            return str(self.arguments.get("reduction", "mean"))
        return legacy_get_string(mean, reduce, emit_warning=False)

    @property
    def weight(self) -> Tensor | None:
        """The weights of classes, or of single values."""
        found = self.arguments.get("weight")
        return found if isinstance(found, Tensor) else None

    @property
    def has_shares(self) -> bool:
        """Whether each target is a probability for each class, not the number of a class."""
        return self.target is not None and self.target.shape == self.input.shape and self.input.dim() > 0

    @property
    def num_classes(self) -> int | None:
        if self.function.family is Family.CLASSES and self.input.dim():
            return self.input.shape[1 if self.input.dim() > 1 else 0]
        if self.function.family is Family.BINARY:
            return 2
        return None

    @property
    def ignored(self) -> Tensor | None:
        """A mask of the targets that are ignored; None if none can be."""
        index: int | None = self.arguments.get("ignore_index")
        if self.target is None or index is None or self.target.is_floating_point():
            return None
        return torch.eq(self.target, index)

    @property
    def broadcasts(self) -> bool:
        return (
            self.function.is_elementwise and self.target is not None and self.target.shape != self.input.shape
        )

    def repeated(self, prediction: Tensor, target: Tensor, **changed: Any) -> Tensor:
        """Return the mean loss of another prediction, from the same function with the same settings."""
        assert self.function.twin is not None
        arguments = {**self.arguments, "size_average": None, "reduce": None, "reduction": "mean", **changed}
        arguments = {name: arguments[name] for name in self.function.parameters}
        first, second = self.function.parameters[:2]
        result = self.function.twin(**{**arguments, first: prediction, second: target})
        assert isinstance(result, torch.Tensor)
        return result
