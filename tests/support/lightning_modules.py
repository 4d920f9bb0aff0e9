"""For the tests with Lightning: small modules of the kinds that people write, and a trainer that is quiet."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning as L  # noqa: N812 (everybody calls it so)
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd
from tests.support.loops import Trained, our_warnings, state_of

BATCHES = 5


def batches(seed: int = 0) -> DataLoader[Any]:
    """Five of eight vectors with labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(8 * BATCHES, 4, generator=generator)
    labels = torch.randint(3, (8 * BATCHES,), generator=generator)
    return DataLoader(TensorDataset(inputs, labels), batch_size=8)


class Remembering(L.LightningModule):  # type: ignore[misc]
    """Keeps the losses that it has computed."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def remember(self, loss: torch.Tensor) -> torch.Tensor:
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Holder(Remembering):
    """Calls the network that it holds; logs, clips and evaluates."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, labels = batch
        scores = self.model(inputs)
        loss = functional.cross_entropy(scores, labels)
        self.log("train_loss", loss)
        self.log_dict({"accuracy": (scores.argmax(1) == labels).float().mean(), "constant": 3})
        return self.remember(loss)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        inputs, labels = batch
        self.log("val_loss", functional.cross_entropy(self.model(inputs), labels))


class Itself(Remembering):
    """Is its own network."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(functional.relu(self.first(inputs)))
        return scores

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        inputs, labels = batch
        scores = self(inputs)
        return {"loss": self.remember(functional.cross_entropy(scores, labels)), "scores": scores.detach()}


class Autoencoder(Remembering):
    """Calls its parts; what it is when it is called is something else."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.decoder = nn.Linear(8, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        code: torch.Tensor = self.encoder(inputs)
        return code

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, _ = batch
        return self.remember(functional.mse_loss(self.decoder(self.encoder(inputs)), inputs))


class Adversaries(Remembering):
    """Manual optimization with two optimizers; the step tells no loss."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Linear(2, 4)
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))

    def training_step(self, batch: Any, batch_idx: int) -> None:
        real, _ = batch
        of_generator, of_critic = self.optimizers()
        fake = self.generator(torch.randn(len(real), 2))
        loss = (
            functional.softplus(-self.critic(real)).mean()
            + functional.softplus(self.critic(fake.detach())).mean()
        )
        of_critic.zero_grad()
        self.manual_backward(loss)
        of_critic.step()
        other = functional.softplus(-self.critic(fake)).mean()
        of_generator.zero_grad()
        self.manual_backward(other)
        of_generator.step()
        self.remember(loss.detach() + other.detach())

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.05) for part in (self.generator, self.critic)]


KINDS = {kind.__name__: kind for kind in (Holder, Itself, Autoencoder, Adversaries)}


def trainer(*callbacks: Any, folder: Path, **options: Any) -> L.Trainer:
    """On the processor, without anything on the screen."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    chosen = {"max_epochs": 2, "accelerator": "cpu", "devices": 1, "enable_checkpointing": False, **quiet}
    return L.Trainer(callbacks=list(callbacks), default_root_dir=folder, **{**chosen, **options})


def fit(module: L.LightningModule, *callbacks: Any, folder: Path, **options: Any) -> L.Trainer:
    """With an evaluation, where the module has one."""
    made = trainer(*callbacks, folder=folder, **options)
    evaluated = (batches(1),) if isinstance(module, Holder) else ()
    made.fit(module, batches(), *evaluated)
    return made


def trained(kind: str, folder: Path, *, is_watched: bool, **options: Any) -> tuple[Trained, Any]:
    """What is left of a training from a fixed seed, and the callback."""
    torch.manual_seed(7)
    module = KINDS[kind]()
    watching = {"every": 1, "strict": True, "memory": False, "on_finding": "ignore"}
    callback = nd.LightningCallback(folder / "logs", run="run", **watching) if is_watched else None
    with our_warnings() as told:
        fit(module, *([callback] if callback else []), folder=folder, **options)
    assert [] == told
    return state_of(module, module.losses), callback
