"""Accelerators that the program uses, and the states of their random number generators."""

from __future__ import annotations

import torch

ACCELERATORS = ("cuda", "xpu", "mps")


def accelerators_in_use() -> list[str]:
    """Return the names of the accelerators that the program has initialised."""
    return [name for name in ACCELERATORS if is_in_use(name)]


def is_in_use(name: str) -> bool:
    module = getattr(torch, name, None)
    # To initialise CUDA here, for a program that does not use it, would break its forks.
    return module is not None and bool(getattr(module, "is_initialized", module.is_available)())


def device_states() -> dict[str, list[torch.Tensor]]:
    """Return the states of all accelerator generators, copied to host memory, by accelerator."""
    found = {}
    for name in accelerators_in_use():
        module = getattr(torch, name)
        if hasattr(module, "get_rng_state_all"):
            found[name] = module.get_rng_state_all()
        elif hasattr(module, "get_rng_state"):
            found[name] = [module.get_rng_state()]
    return found
