"""Accelerators in use, and the states of their random generators."""

from __future__ import annotations

import torch

ACCELERATORS = ("cuda", "xpu", "mps")


def accelerators_in_use() -> list[str]:
    """Return the names of those that the program has begun to use."""
    return [name for name in ACCELERATORS if is_in_use(name)]


def is_in_use(name: str) -> bool:
    module = getattr(torch, name, None)
    return module is not None and bool(getattr(module, "is_initialized", module.is_available)())


def device_states() -> dict[str, list[torch.Tensor]]:
    """Return the states of all generators, in host memory."""
    found = {}
    for name in accelerators_in_use():
        module = getattr(torch, name)
        if hasattr(module, "get_rng_state_all"):
            found[name] = module.get_rng_state_all()
        elif hasattr(module, "get_rng_state"):
            found[name] = [module.get_rng_state()]
    return found
