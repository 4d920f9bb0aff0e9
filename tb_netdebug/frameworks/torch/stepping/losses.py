"""Notes the labels that loss functions are given, and the losses, while they are wanted."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tb_netdebug.frameworks.torch.losses.functions import LossFunction, loss_functions
from tb_netdebug.frameworks.torch.stepping.kept import KeptTensors
from tb_netdebug.frameworks.torch.stepping.visits import Visits, current_backward
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.frameworks.torch.values import tensors_in

is_grad_enabled = torch.is_grad_enabled


class Losses:
    """Listens to torch's loss functions. Labels and losses are numbered in the order of a batch.

    A root of backward that no loss function of torch has returned is called "backward".
    """

    def __init__(self, visits: Visits, kept: KeptTensors) -> None:
        self._visits = visits
        self._kept = kept
        self._handles: list[Handle] = []
        self._calls = 0

    def put_on(self) -> None:
        if not self._handles:
            self._handles = [
                listen(each.function, after=partial(self._called, each)) for each in loss_functions()
            ]

    def take_off(self) -> None:
        for handle in self._handles:
            handle.close()
        self._handles = []

    def end_batch(self) -> None:
        self._calls = 0

    def differentiated(self, roots: Any) -> None:
        """Note the roots of a backward pass that is about to begin."""
        known = {id(kept.present()) for _, kept in self._kept if kept.kind == "loss"}
        known |= {id(kept.seen()) for _, kept in self._kept if kept.kind == "loss"}
        found = [tensor for _, tensor in tensors_in(roots) if id(tensor) not in known]
        for number, tensor in enumerate(found):
            self._kept.put("loss", "backward" if len(found) == 1 else f"backward[{number}]", tensor)

    def _called(self, function: LossFunction, args: tuple[Any, ...], output: Any) -> None:
        if not self._visits.are_wanted or not is_grad_enabled() or current_backward() != -1:
            return
        try:
            self._put(function, args, output)
        except Exception as error:
            self._visits.guard.fault(f"looking at {function.name}", error)

    def _put(self, function: LossFunction, args: tuple[Any, ...], output: Any) -> None:
        given = dict(zip(function.parameters, args, strict=True)).get(function.target or "")
        number, self._calls = self._calls, self._calls + 1
        if isinstance(given, Tensor):
            self._kept.put("label", str(number), given)
        if isinstance(output, Tensor):
            self._kept.put("loss", str(number), output)
