"""What a training leaves behind, as digests of all its bits, part by part."""

from __future__ import annotations

import hashlib
import json
import locale
import os
import random
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

OURS = ("NETDEBUG", "PYTEST", "COLUMNS", "LINES")


def digest(value: Any) -> str:
    """The same for the same bits, in every process."""
    found = hashlib.blake2b(digest_size=12)
    for piece in pieces(value):
        found.update(piece)
        found.update(b";")
    return found.hexdigest()


def pieces(value: Any) -> Iterable[bytes]:
    if isinstance(value, torch.Tensor):
        yield from tensor_pieces(value.detach())
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping):
        yield f"mapping of {len(value)}".encode()
        for key, each in value.items():
            yield repr(key).encode()
            yield from pieces(each)
    elif isinstance(value, (list, tuple)):
        yield f"sequence of {len(value)}".encode()
        for each in value:
            yield from pieces(each)
    elif isinstance(value, float):
        yield value.hex().encode()
    elif value is None or isinstance(value, (bool, int, str, bytes, np.generic, torch.dtype)):
        yield repr(value).encode()
    else:
        raise TypeError(f"a state of {type(value)} cannot be compared")


def tensor_pieces(tensor: torch.Tensor) -> Iterable[bytes]:
    if is_lazy(tensor):
        yield b"uninitialized"
        return
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        yield from tensor_pieces(tensor.indices())
        tensor = tensor.values()
    yield f"tensor {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}".encode()
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    yield tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def of_model(model: nn.Module) -> dict[str, Any]:
    """Parameters, their gradients and the buffers, by name; no state_dict, which somebody may count."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {
        "parameters": {name: digest(each) for name, each in parameters.items()},
        "gradients": {name: digest(each.grad) for name, each in parameters.items()},
        "buffers": {name: digest(each) for name, each in model.named_buffers(remove_duplicate=False)},
        "modes": {name: each.training for name, each in model.named_modules()},
    }


def of_optimizer(optimizer: torch.optim.Optimizer) -> str:
    """What it has in mind for each parameter, and its settings."""
    known = [
        (
            {name: each for name, each in group.items() if name != "params"},
            [(each, dict(optimizer.state.get(each, {}))) for each in group["params"]],
        )
        for group in optimizer.param_groups
    ]
    return digest(known)


def of_generators() -> dict[str, str]:
    return {
        "torch": digest(torch.get_rng_state()),
        "numpy": digest(np.random.get_state()),
        "python": digest(random.getstate()),
    }


def of_surroundings() -> dict[str, Any]:
    """What all of a process shares, and a training could find changed."""
    return {
        "environment": digest({name: os.environ[name] for name in sorted(os.environ) if is_users(name)}),
        "folder": Path.cwd().name,
        "locale": list(locale.getlocale()),
        "threads": torch.get_num_threads(),
        "type": str(torch.get_default_dtype()),
        "gradients": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "anomalies": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "errors of numpy": sorted(np.geterr().items()),
        "filters": digest([repr(each) for each in warnings.filters]),
    }


def is_users(name: str) -> bool:
    return not name.startswith(OURS)


def of_files(folder: Path) -> dict[str, str]:
    """Every file below, by its path."""
    return {
        str(path.relative_to(folder)): digest(path.read_bytes()) if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def write(path: Path, found: Mapping[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(found), encoding="utf-8")
    unfinished.replace(path)
