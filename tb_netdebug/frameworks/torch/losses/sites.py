"""Where the user's program calls loss functions, and what is reported once about each place."""

from __future__ import annotations

import re
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.frameworks.torch.frames import user_frame
from tb_netdebug.frameworks.torch.losses.functions import LossCall
from tb_netdebug.recording.frames import place_of

MOST_SITES = 32
# A site whose facts keep changing (sequences of all lengths) is reported this often, then no more.
MOST_TELLINGS = 16
# Operations between the last layer and the loss that change the shape or type of its output, not its values.
MOST_RESHAPES = 8
RESHAPES = frozenset({
    "Alias", "Clone", "Contiguous", "Expand", "Flatten", "Index", "Narrow", "Permute", "ReshapeAlias",
    "Select", "Slice", "SplitWithSizes", "Squeeze", "T", "ToCopy", "Transpose", "Unbind", "UnsafeView",
    "Unsqueeze", "View",
})  # fmt: skip
# Layers whose operations have other names in autograd's graph.
LAYERS = {
    "Relu": "ReLU", "LeakyRelu": "LeakyReLU", "Elu": "ELU", "Gelu": "GELU", "Silu": "SiLU", "Prelu": "PReLU",
    "Addmm": "Linear", "Mm": "Linear", "Convolution": "Conv", "NativeLayerNorm": "LayerNorm",
    "NativeBatchNorm": "BatchNorm", "NativeDropout": "Dropout", "LogSigmoid": "LogSigmoid",
}  # fmt: skip

_GRAPH_NAME = re.compile(r"Backward\d*$")


class Site:
    """A loss function called at one place; `id` numbers the sites in order of appearance."""

    __slots__ = ("_tellings", "_told", "id", "module", "place", "step")

    def __init__(self, number: int, place: str, module: str | None) -> None:
        self.id = number
        self.place = place
        self.module = module
        self.step = -1
        self._told: LossCallFact | None = None
        self._tellings = 0

    def news(self, call: LossCall, ignored_share: float | None) -> LossCallFact | None:
        """Return the fact of a call, or None if only the batch size has changed since the last report."""
        fact = LossCallFact(
            id=self.id,
            function=call.function.name,
            module=self.module,
            input_shape=tuple(call.input.shape),
            input_dtype=name_of(call.input.dtype),
            target_shape=None if call.target is None else tuple(call.target.shape),
            target_dtype=None if call.target is None else name_of(call.target.dtype),
            reduction=call.reduction,
            num_classes=call.num_classes,
            broadcasts=call.broadcasts,
            weighted=call.weight is not None,
            with_logits=call.function.with_logits,
            last_layer=last_layer(call.input),
            site=self.place,
            target_learns=call.target is not None and call.target.requires_grad,
        )
        # The first dimension is that of the batch: it may change without being news.
        known = replace(fact, input_shape=fact.input_shape[1:], target_shape=(fact.target_shape or ())[1:])
        if known == self._told or self._tellings >= MOST_TELLINGS:
            return None
        self._told = known
        self._tellings += 1
        return replace(fact, ignored_share=ignored_share)


class Sites:
    """The sites of a run, at most MOST_SITES."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, CodeType, int], Site] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, function: str, frame: FrameType | None) -> Site | None:
        """Return the site of a call. `frame` may be ours or torch's: the user's is searched outwards."""
        user = user_frame(frame)
        if user is None:
            return None
        # f_lasti tells several calls in one line apart.
        key = function, user.f_code, user.f_lasti
        site = self._known.get(key)
        if site is None and len(self._known) < MOST_SITES:
            module = loss_module(frame, user)
            site = self._known[key] = Site(len(self._known), place_of(user), module)
        return site


def loss_module(frame: FrameType | None, user: FrameType) -> str | None:
    """Return the class name of the torch loss module that was called, or None if none was."""
    while frame is not None and frame is not user:
        if frame.f_code.co_name == "forward":
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                return type(module).__name__
        frame = frame.f_back
    return None


def last_layer(given: Tensor) -> str | None:
    """Return the layer that computed a tensor, by its usual name: "Softmax" also for torch.softmax."""
    node: Any = given.grad_fn
    for _ in range(MOST_RESHAPES):  # back over operations that leave the values alone
        if node is None:
            return None
        name = _GRAPH_NAME.sub("", node.name())
        # A compiled or scripted node does not tell which layer it contains.
        if name not in RESHAPES or not node.next_functions:
            return None if name.startswith(("Compiled", "torch::")) else layer_name(name, node)
        node = node.next_functions[0][0]
    return None


def layer_name(name: str, node: Any) -> str:
    if name == "Hardtanh" and (node._saved_min_val, node._saved_max_val) == (0.0, 6.0):
        return "ReLU6"
    return LAYERS.get(name, name)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
