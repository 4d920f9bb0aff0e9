"""The probe of batches: inputs, whether batches repeat, and which loader they come from."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.records.scalar_names import (
    BATCH_ID,
    BATCH_IS_SLICE,
    BATCH_SHARE,
    LOADER_BATCHES,
    LOADER_RESTARTS,
    RANDOM_SET_BACK,
    of_words,
)
from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.frameworks.torch.batches.columns import feature_scalars
from tb_netdebug.frameworks.torch.batches.contents import (
    Fingerprint,
    is_mask,
    is_on_host,
    is_zero,
    share_of_rows,
)
from tb_netdebug.frameworks.torch.batches.entries import entry_of
from tb_netdebug.frameworks.torch.batches.loaders import Loader, Loaders
from tb_netdebug.frameworks.torch.batches.randomness import RandomNumbers
from tb_netdebug.frameworks.torch.host_arrays import array_over
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped, tensors_in

current_backward = torch._C._current_graph_task_id

MOST_INPUTS = 4
# In steps with more calls (a policy queried at every move, micro-batches), the first ones are looked at.
MOST_CALLS = 8


class BatchProbe:
    """Watches the calls of the first watched model that record gradients (see `probes.Probe`).

    The fingerprint `probe/batch_id` covers all inputs of these calls. It is taken in probed steps and in the
    step after each, so that consecutive steps can be compared. Statistics of inputs are those of the step's
    first call. Inputs that are no data are left out: what the model has made itself, masks, states of zeros.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._collector = context.collector
        self._reader = context.reader
        self._guard = context.guard
        self._loaders = Loaders(context.guard)
        self._random = RandomNumbers()
        self._series = [Series(Kind.TENSOR, f"input/{number}") for number in range(MOST_INPUTS)]
        self._follows = False  # the step before was probed
        self._calls = 0
        self._fingerprint: Fingerprint | None = Fingerprint()
        self._loader: Loader | None = None
        self._before: weakref.ref[torch.Tensor] | None = None  # the first input of the last step looked at
        first = next(iter(context.models.values()), None)
        self._is_on = context.settings.batches and first is not None
        if self._is_on and first is not None:
            # An evaluation has used up its batch.
            context.calls.listen(
                entry_of(first), before=self._watch, evaluating=lambda *_: self._loaders.consume()
            )
            self._loaders.open()

    def end_step(self) -> None:
        if self._calls:
            self._put()
            self._random.end_step()
        else:
            self._random.forget()
        self._follows = self._collector.probing
        self._loaders.consume()

    def close(self) -> None:
        if self._is_on:
            self._loaders.close()

    def _watch(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not (self._follows or self._collector.probing):
            return
        # During backward, activation checkpointing repeats calls.
        if self._calls >= MOST_CALLS or current_backward() != -1:
            return
        try:
            self._look(args, kwargs)
        except Exception as error:
            self._guard.fault("looking at the inputs of the model", error)

    def _look(self, args: Any, kwargs: Any) -> None:
        self._calls += 1
        given = list(inputs_of(args, kwargs))
        for value in (*args, *kwargs.values()):
            self._reader.refuse_closed("an input of the model", value)
        self._add_to_fingerprint([tensor for _, tensor in given])
        if self._calls > 1:
            return
        is_set_back = self._random.called()
        if is_set_back is not None:
            self._collector.scalars[RANDOM_SET_BACK] = float(is_set_back)
        self._loader = self._loaders.source()
        self._look_for_slice([tensor for _, tensor in given])
        if self._collector.probing:
            # Only probed steps look at values; the others are needed for the fingerprint alone.
            data = [values_of(tensor) for name, tensor in given if is_data(name, tensor)]
            self._look_at_data([tensor for place, tensor in enumerate(data) if not is_beside(place, tensor)])
            self._look_at_words([tensor for name, tensor in given if are_words(name, tensor)])

    def _add_to_fingerprint(self, given: list[torch.Tensor]) -> None:
        for tensor in given:
            bits = array_over(tensor) if is_on_host(tensor) else None
            if bits is None:
                self._fingerprint = None  # the readable part says nothing about the rest
            elif self._fingerprint is not None:
                self._fingerprint.add(bits)
        if not given:
            self._fingerprint = None

    def _look_for_slice(self, given: list[torch.Tensor]) -> None:
        """Record whether the first input is a slice. One passed repeatedly is the whole training set."""
        if not given or not is_on_host(given[0]):
            return
        tensor, share = given[0], share_of_rows(given[0])
        if self._before is not None:
            is_new = self._before() is not tensor
            self._collector.scalars[BATCH_IS_SLICE] = float(is_new and share < 1.0)
            self._collector.scalars[BATCH_SHARE] = share
        self._before = weakref.ref(tensor)

    def _look_at_data(self, data: list[torch.Tensor]) -> None:
        named = list(zip(self._series, data, strict=False))
        if self._collector.sampling:
            self._reader.sample(named)
        for series, tensor in named:
            if is_on_host(tensor):
                for name, value in feature_scalars(tensor).items():
                    self._collector.scalars[f"probe/{series.name}/{name}"] = value

    def _look_at_words(self, given: list[torch.Tensor]) -> None:
        """Record the range of token ids: their size means nothing, but they should differ."""
        for place, tensor in enumerate(given[:MOST_INPUTS]):
            low, high = tensor.aminmax()
            self._collector.scalars[of_words(place, "min")] = float(low)
            self._collector.scalars[of_words(place, "max")] = float(high)

    def _put(self) -> None:
        scalars = self._collector.scalars
        if self._fingerprint is not None:
            scalars[BATCH_ID] = self._fingerprint.number()
        if self._loader is not None and self._loader.batches is not None:
            scalars[LOADER_BATCHES] = float(self._loader.batches)
            scalars[LOADER_RESTARTS] = float(self._loader.restarts)
        self._calls = 0
        self._fingerprint = Fingerprint()
        self._loader = None


def inputs_of(args: Any, kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for source in (args, kwargs):
        yield from tensors_in(source)


def is_data(name: str, tensor: torch.Tensor) -> bool:
    """Return whether an input is floats that no network computed, and no parameter, mask or single number."""
    return (
        tensor.is_floating_point()
        and tensor.grad_fn is None
        and type(tensor) is not nn.Parameter
        and tensor.dim() > 0
        and tensor.numel() > 0
        and "mask" not in name
        and not is_functorch_wrapped(tensor)
    )


def are_words(name: str, tensor: torch.Tensor) -> bool:
    """Return whether an input is rows of integers, like token ids. Those on a device are not waited for."""
    return (
        tensor.dtype in (torch.int64, torch.int32)
        and tensor.dim() > 1
        and tensor.numel() > 0
        and "mask" not in name
        and is_on_host(tensor)
    )


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values; of a nested tensor (sequences of different lengths), all that it really holds."""
    values: torch.Tensor = tensor.detach().values() if tensor.is_nested else tensor
    return values


def is_beside(place: int, tensor: torch.Tensor) -> bool:
    """Return whether an input is a mask or, after the first input, a state of zeros.

    False for what lies on a device: reading it would wait.
    """
    if not is_on_host(tensor) or tensor.dtype not in (torch.float32, torch.float64):
        return False
    values = array_over(tensor)
    return values is not None and (is_mask(values) or (place > 0 and is_zero(values)))
