"""For the tests with transformers: two tiny models without a download, and a Trainer that is quiet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

import tb_netdebug as nd
from tests.support.loops import Trained, our_warnings, state_of

transformers.logging.set_verbosity_error()

BATCHES = 5
Texts = list[dict[str, torch.Tensor]]


def writer() -> Any:
    """Predicts the next token."""
    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2))


def reader() -> Any:
    """Tells what kind a text is of."""
    sizes = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return BertForSequenceClassification(
        BertConfig(**sizes, intermediate_size=32, max_position_embeddings=16, num_labels=3)
    )


def texts(kind: str, number: int = 4 * BATCHES) -> Texts:
    """Of random tokens."""
    generator = torch.Generator().manual_seed(0)
    made = [torch.randint(32, (12,), generator=generator) for _ in range(number)]
    kinds = torch.randint(3, (number,), generator=generator)
    return [
        {"input_ids": text, "labels": text if kind == "writer" else kinds[place]}
        for place, text in enumerate(made)
    ]


class Remembering(Trainer):  # type: ignore[misc]
    """Keeps the losses that its model has computed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.losses: list[float] = []

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        found = super().compute_loss(model, inputs, *args, **options)
        if model.training:
            self.losses.append((found[0] if isinstance(found, tuple) else found).item())
        return found


def trainer(kind: str, folder: Path, *callbacks: Any, of: type[Trainer] = Remembering, **options: Any) -> Any:
    chosen = {
        "output_dir": str(folder), "per_device_train_batch_size": 4, "num_train_epochs": 2, "report_to": [],
        "save_strategy": "no", "eval_strategy": "epoch", "use_cpu": True, "disable_tqdm": True,
        "logging_strategy": "no", "learning_rate": 1e-3,
    }  # fmt: skip
    model = {"writer": writer, "reader": reader}[kind]()
    arguments = TrainingArguments(**{**chosen, **options})
    made = of(
        model, arguments, train_dataset=texts(kind), eval_dataset=texts(kind, 8), callbacks=list(callbacks)
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def trained(
    kind: str, folder: Path, *, is_watched: bool, watching: dict[str, Any] | None = None, **options: Any
) -> tuple[Trained, Any]:
    """What is left of a training from a fixed seed, and the callback."""
    torch.manual_seed(7)
    chosen = {"run": "run", "every": 1, "strict": True, "memory": False, "on_finding": "ignore"}
    callback = nd.TransformersCallback(folder / "logs", **{**chosen, **(watching or {})})
    made = trainer(kind, folder, *([callback] if is_watched else []), **options)
    with our_warnings() as told:
        made.train()
    assert [] == told
    return state_of(made.model, made.losses), callback
