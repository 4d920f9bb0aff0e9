"""A forward pass that leaves no trace: random numbers, buffers and attributes stay what they were."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.capture.pytorch.numerics.side_effects import Contents, is_same
from tb_netdebug.capture.pytorch.numerics.unheard import unheard

ACCELERATORS = ("cuda", "xpu", "mps")


@contextmanager
def unnoticed(models: Iterable[nn.Module]) -> Iterator[None]:
    """Around calls of `models` without gradients.

    Their modules get copies of their buffers meanwhile, since a backward pass to come may need the old ones
    as they are. What it prints was printed before; what it writes into a file is not taken back.
    """
    with ExitStack() as stack:
        stack.enter_context(same_random_numbers())
        stack.enter_context(same_attributes(models))
        stack.enter_context(torch.no_grad())
        stack.enter_context(eager())
        stack.enter_context(unheard())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


@contextmanager
def eager() -> Iterator[None]:
    """Nothing is compiled, and what is compiled runs as it was written."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    if set_stance is None or "torch._dynamo" not in sys.modules:
        yield
        return
    with set_stance("force_eager"):
        yield


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """All generators that a forward pass may draw from by itself."""
    host, own = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    devices = device_states()
    try:
        yield
    finally:
        torch.set_rng_state(host)
        random.setstate(own)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        for name, states in devices.items():
            set_device_states(name, states)


def device_states() -> dict[str, list[torch.Tensor]]:
    """The generators of accelerators in use; their states lie in host memory."""
    found = {}
    for name in ACCELERATORS:
        module = getattr(torch, name, None)
        if module is None or not getattr(module, "is_initialized", module.is_available)():
            continue
        if hasattr(module, "get_rng_state_all"):
            found[name] = module.get_rng_state_all()
        elif hasattr(module, "get_rng_state"):
            found[name] = [module.get_rng_state()]
    return found


def set_device_states(name: str, states: list[torch.Tensor]) -> None:
    module = getattr(torch, name)
    if hasattr(module, "set_rng_state_all"):
        module.set_rng_state_all(states)
    else:
        module.set_rng_state(states[0])


@contextmanager
def same_attributes(models: Iterable[nn.Module]) -> Iterator[None]:
    """Attributes of all modules, and what lists and dictionaries hold that their code can reach."""
    modules = list({id(each): each for model in models for each in model.modules()}.values())
    kept = [(vars(module), dict(vars(module))) for module in modules]
    contents = Contents(modules)
    lend_copies(modules)
    try:
        yield
    finally:
        for attributes, before in kept:
            if not is_same(attributes, before):
                attributes.clear()
                attributes.update(before)
        contents.put_back()


def lend_copies(modules: list[nn.Module]) -> None:
    """Buffers, and weights that a forward pass writes to (embeddings with a greatest norm)."""
    copies: dict[int, torch.Tensor] = {}

    def copy_of(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone()
        return copies[id(tensor)]

    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None and not is_lazy(buffer):
                module._buffers[name] = copy_of(buffer)
        if getattr(module, "max_norm", None) is not None:
            for name, weight in module._parameters.items():
                if weight is not None and not is_lazy(weight):
                    module._parameters[name] = nn.Parameter(copy_of(weight), requires_grad=False)
