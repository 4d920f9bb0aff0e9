"""Writes capsules: the batch, the weights and everything else needed to run one step again, in one file."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.frameworks.torch.calls import ModelCall
from tb_netdebug.frameworks.torch.numerics.devices import device_states
from tb_netdebug.frameworks.torch.numerics.portable import Portable, bytes_of
from tb_netdebug.frameworks.torch.numerics.search import inner
from tb_netdebug.recording.run_folder import rank
from tb_netdebug.recording.signal_handlers import is_from_a_handler
from tb_netdebug.version import __version__

VERSION = 1
MOST_BYTES = 512 << 20
MOST_CAPSULES = 3
# So much of the disk is left free.
ROOM_BYTES = 256 << 20
# Parts that are left out when a capsule would be too big, in this order, and their names in the report.
DISPENSABLE = {"optimizers": "the states of the optimizers", "models": "the weights", "calls": "the batch"}


class CapsuleWriter:
    """Writes `<run>/capsules/step-<n>.pt`, at most three per run. The run waits for the file.

    Capsules hold tensors and plain values only, so `torch.load(…, weights_only=True)` reads them: no code
    runs.
    """

    def __init__(self, run_dir: Path, *, most_bytes: int = MOST_BYTES, room_bytes: int = ROOM_BYTES) -> None:
        self._folder = run_dir / "capsules"
        self._most_bytes = most_bytes
        self._room_bytes = room_bytes
        self.written: list[Path] = []
        self.last_step = -1

    @property
    def is_full(self) -> bool:
        return len(self.written) >= MOST_CAPSULES

    def write(
        self,
        step: int,
        reason: str,
        *,
        calls: Sequence[ModelCall],
        models: Mapping[str, nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        about: Mapping[str, Any],
    ) -> Path | str:
        """Write a capsule and return its path, or half a sentence on why there is none.

        `about` is stored as JSON texts. Raises nothing but what a signal handler of the user's raises.
        """
        if self.is_full:
            return f"a run keeps at most {MOST_CAPSULES} capsules"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            content = self._content(step, reason, calls, models, optimizers, about)
            path = self._save(content, step)
        except Exception as error:
            if is_from_a_handler(error):
                raise
            return f"{type(error).__name__}: {error}"
        self.written.append(path)
        self.last_step = step
        return path

    def _content(
        self,
        step: int,
        reason: str,
        calls: Sequence[ModelCall],
        models: Mapping[str, nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        about: Mapping[str, Any],
    ) -> dict[str, Any]:
        portable = Portable()
        content: dict[str, Any] = {
            "netdebug_capsule": VERSION,
            "step": step,
            "reason": reason,
            "time": time.time(),
            "rank": rank(os.environ),
            "versions": versions(),
            "classes": {name: type(model).__name__ for name, model in models.items()},
            "evaluating": {name: evaluating(model) for name, model in models.items()},
            "calls": [call_of(portable, number, call) for number, call in enumerate(calls)],
            "models": {
                name: portable.of(weights_of(inner(model)), f"weights {name}".strip())
                for name, model in models.items()
            },
            "optimizers": [
                {"class": type(each).__name__, "state": portable.of(state_of(each), "optimizer")}
                for each in optimizers
            ],
            "random": random_states(portable),
            **{name: json.dumps(value, default=str) for name, value in about.items()},
        }
        extra = [
            f"weights {name}: {each}".strip() for name, model in models.items() for each in extras(model)
        ]
        content["left_out"] = portable.left_out + extra + self._made_smaller(content)
        return content

    def _made_smaller(self, content: dict[str, Any]) -> list[str]:
        """Leave out what does not fit, the least needed first, and return what was left out and why."""
        free = shutil.disk_usage(self._folder).free - self._room_bytes
        most = min(self._most_bytes, free)
        left_out = []
        for name, what in DISPENSABLE.items():
            size = bytes_of(content)
            if size <= most:
                break
            # The empty value of its type: readers expect the type, and take an empty part for a missing one.
            content[name] = type(content[name])()
            is_scarce = free < self._most_bytes
            why = "the disk is nearly full" if is_scarce else f"more than {most >> 20} MiB in all"
            left_out.append(f"{what}: {why}")
        return left_out

    def _save(self, content: dict[str, Any], step: int) -> Path:
        own = f"-rank{content['rank']}" if content["rank"] else ""
        path = self._folder / f"step-{step}{own}.pt"
        number = 1
        while path.exists():
            number += 1
            path = self._folder / f"step-{step}{own}-{number}.pt"
        # Write under another name first: a reader never sees half a file.
        unfinished = self._folder / f".{path.name}.{os.getpid()}"
        try:
            torch.save(content, unfinished)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path


def call_of(portable: Portable, number: int, call: ModelCall) -> dict[str, Any]:
    """Return a call in portable form, and whether all its arguments could be kept."""
    before = len(portable.left_out)
    args = portable.late(list(call.args), f"argument of call {number}")
    kwargs = portable.late(call.kwargs, f"argument of call {number}")
    return {
        "model": call.name,
        "args": args,
        "kwargs": kwargs,
        "random": call.before,
        "autocast": {device: str(dtype).rpartition(".")[2] for device, dtype in call.autocast.items()},
        "changed_since": call.has_changed(),
        "complete": len(portable.left_out) == before,
    }


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and persistent buffers under their state_dict names.

    `state_dict` itself is not called: it may be user code, with hooks that count or clean up.
    """
    return {
        f"{prefix}{name}": tensor
        for prefix, module in modules_of(model)
        for name, tensor in (*module._parameters.items(), *module._buffers.items())
        if tensor is not None and not is_lazy(tensor) and name not in module._non_persistent_buffers_set
    }


def modules_of(
    module: nn.Module, prefix: str = "", around: frozenset[int] = frozenset()
) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module under all its prefixes; one that contains itself ends there."""
    yield prefix, module
    around |= {id(module)}
    for name, child in module._modules.items():
        if child is not None and id(child) not in around:
            yield from modules_of(child, f"{prefix}{name}.", around)


def extras(model: nn.Module) -> Iterator[str]:
    """Yield what a state_dict would hold besides tensors, which only user code could supply."""
    for prefix, module in modules_of(model):
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            yield f"the extra state of {prefix.rstrip('.') or type(module).__name__}"


def state_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what the optimizer's state_dict would give, without running hooks on it."""
    numbers: dict[int, int] = {}
    groups = []
    for group in optimizer.param_groups:
        places = [numbers.setdefault(id(each), len(numbers)) for each in group["params"]]
        groups.append({**group, "params": places})
    state = {numbers.get(id(key), str(key)): value for key, value in dict(optimizer.state).items()}
    return {"state": state, "param_groups": groups}


def evaluating(model: nn.Module) -> list[str]:
    """Return the names of the modules in eval mode; the root's name is empty."""
    return [name for name, module in model.named_modules() if not module.training]


def random_states(portable: Portable) -> dict[str, Any]:
    """Return all generator states at the time of writing; the state before a call is kept with the call."""
    version, numbers, following = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "devices": portable.of(device_states(), "random numbers"),
        "python": [version, list(numbers), following],
    }


def versions() -> dict[str, str]:
    return {"netdebug": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
