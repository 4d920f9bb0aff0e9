"""Calls of loss functions, as the probe tells of them."""

from __future__ import annotations

from typing import Any


def call(function: str, **more: Any) -> dict[str, Any]:
    """The fact `loss-call`: batches of 32, scores for ten classes unless told otherwise."""
    return {
        "id": 0,
        "function": function,
        "module": None,
        "input_shape": [32, 10],
        "input_dtype": "float32",
        "target_shape": [32],
        "target_dtype": "int64",
        "reduction": "mean",
        "num_classes": 10 if function in ("cross_entropy", "nll_loss") else None,
        "broadcasts": False,
        "ignored_share": None,
        "weighted": False,
        "with_logits": None,
        "last_layer": "Linear",
        "site": "train.py:41",
        **more,
    }
