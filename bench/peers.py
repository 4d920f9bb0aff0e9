"""The ways to watch a training that are compared, each set up as its documentation says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
from torch import Tensor, nn

import tb_netdebug as nd
from bench.models import Training

WANDB_REST_SECS = 0.05
WANDB_MOST_RESTS = 100


class Watcher(Protocol):
    """`after` ends a step and `flush` brings all it recorded to the file: both are timed. `rest` is not."""

    def after(self, loss: Tensor) -> None: ...
    def flush(self) -> None: ...
    def rest(self) -> None: ...
    def close(self) -> None: ...


class Nothing:
    """No monitoring."""

    def __init__(self, training: Training, folder: Path) -> None:
        pass

    def after(self, loss: Tensor) -> None:
        pass

    def flush(self) -> None:
        pass

    def rest(self) -> None:
        """Waits for what still runs in other processes; none here."""

    def close(self) -> None:
        pass


class NetDebug(Nothing):
    """`watch` with nothing but the model, its optimizer and a place."""

    options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, training: Training, folder: Path) -> None:
        self._monitor = nd.watch(training.model, training.optimizer, logdir=folder, run="run", **self.options)

    def after(self, loss: Tensor) -> None:
        self._monitor.step(loss=loss)

    def flush(self) -> None:
        self._monitor.flush()

    def close(self) -> None:
        self._monitor.close()


class NetDebugEverything(NetDebug):
    """Statistics and histograms of all weights, gradients, updates and activations in every step."""

    options = {"every": 1}  # noqa: RUF012


def leaves(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose outputs are histograms in all contenders: those that compute something themselves."""
    for name, module in model.named_modules():
        has_children = next(module.children(), None) is not None
        has_parameters = next(module.parameters(recurse=False), None) is not None
        is_view = isinstance(module, nn.Flatten)
        # The projection inside MultiheadAttention is never called: the attention itself is the layer.
        if not is_view and (has_parameters or not has_children) and not name.endswith("self_attn.out_proj"):
            yield name, module


class TensorBoardHistograms(Nothing):
    """`SummaryWriter.add_histogram` of weights, gradients and activations in every step."""

    def __init__(self, training: Training, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        make: Callable[..., Any] = SummaryWriter
        self._writer = make(str(folder))
        self.tags: set[str] = set()
        self._training = training
        self.is_on = True
        self._hooks = [
            module.register_forward_hook(self._hook(name)) for name, module in leaves(training.model)
        ]

    def add(self, tag: str, tensor: Tensor | None, step: int) -> None:
        """One histogram."""
        self.tags.add(tag)
        self._writer.add_histogram(tag, tensor, step)

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if self.is_on:
                # Of an attention's outputs the second, its weights, is None in training.
                place, tensor = ("[0]", output[0]) if isinstance(output, tuple) else ("", output)
                self.add(f"activation/{name}{place}", tensor, self._training.steps)

        return look

    def after(self, loss: Tensor) -> None:
        step = self._training.steps - 1
        for name, parameter in self._training.model.named_parameters():
            self.add(f"weight/{name}", parameter, step)
            self.add(f"gradient/{name}", parameter.grad, step)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._writer.close()


@contextmanager
def wandb_settings(folder: Path) -> Iterator[None]:
    """Offline, silent, and nothing outside of `folder`; ends wandb's own process at last."""
    places = {f"WANDB_{name}_DIR": str(folder) for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    plain = {"MODE": "offline", "SILENT": "true", "CONSOLE": "off", "ERROR_REPORTING": "false"}
    wanted = {**places, **{f"WANDB_{name}": value for name, value in plain.items()}}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        import wandb

        wandb.teardown()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Wandb(Nothing):
    """`wandb.watch` with histograms of weights and gradients in every step, offline."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._settings = wandb_settings(folder)
        self._settings.__enter__()
        import wandb

        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(project="bench", mode="offline", dir=str(folder), settings=settings)
        self._model = training.model
        self._run.watch(self._model, log="all", log_freq=1)
        self._children = list(psutil.Process().children(recursive=True))

    def after(self, loss: Tensor) -> None:
        self._run.log({"loss": loss.item()})

    def rest(self) -> None:
        """wandb writes in a process of its own, which must not disturb whoever is next."""
        used = -1.0
        for _ in range(WANDB_MOST_RESTS):
            before, used = used, self._cpu_secs()
            if used == before:
                return
            time.sleep(WANDB_REST_SECS)

    def _cpu_secs(self) -> float:
        times = [child.cpu_times() for child in self._children if child.is_running()]
        return sum(each.user + each.system for each in times)

    def close(self) -> None:
        self._run.unwatch(self._model)
        self._run.finish()
        self._settings.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Contender:
    """`part` of the steps are run: those that take several times as long get fewer."""

    name: str
    title: str
    watcher: Callable[[Training, Path], Watcher]
    is_ours: bool = False
    part: float = 1.0


BARE = Contender("bare", "no monitoring", Nothing)
# The same once more: how far apart equal things are measured tells how much a difference means.
AGAIN = Contender("again", "no monitoring, once more", Nothing)
AUTO = Contender("netdebug", "NetDebug as it comes", NetDebug, is_ours=True)
EVERYTHING = Contender("netdebug_everything", "NetDebug, `every=1`", NetDebugEverything, is_ours=True)
HISTOGRAMS = Contender("tensorboard", "`SummaryWriter.add_histogram`", TensorBoardHistograms, part=0.1)
WANDB = Contender("wandb", '`wandb.watch(log="all", log_freq=1)`', Wandb, part=0.25)

CONTENDERS = (BARE, AUTO, EVERYTHING, AGAIN, HISTOGRAMS, WANDB)
