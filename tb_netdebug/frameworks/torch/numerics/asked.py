"""What is known of a tensor that is not finite once the question about its origin was put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tb_netdebug.frameworks.torch.calls import ModelCall
from tb_netdebug.frameworks.torch.numerics.origin_told import Origin


@dataclass(slots=True)
class Asked:
    """`live` is an origin seen while operations were followed, `seen` one that layers have shown.

    `why_not` says why nothing could be asked. `left_out`: no backward pass followed.
    """

    step: int
    kind: str
    calls: list[ModelCall]
    operations: list[str]
    live: Origin | None = None
    seen: Origin | None = None
    why_not: str = ""
    capsule: str | None = None
    left_out: bool = False
    was_updated: bool = False  # with a gradient that was not finite, before this step
    loss_function: str = ""  # that was the first to return it, at `loss_site`
    loss_site: str = ""
    is_of_function: bool = False  # that was given finite values only
    is_of_target: bool = False  # that was given finite outputs, and a target that was not
    backward_site: str = ""

    def fate(self) -> dict[str, bool]:
        """Return what became of this batch, and of the weights before it."""
        return {"left_out": self.left_out, "was_updated": self.was_updated}

    def lines_of_loss(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is known of the line at which a loss made it: its own, or others to find it by."""
        lines = {"site": fields.get("site", ""), "before": "", "backward": self.backward_site}
        if self.is_of_target:
            return {**lines, "site": self.loss_site, "operation": self.loss_function, "tensor": "target"}
        if lines["site"] or not self.loss_function:
            return lines
        if self.is_of_function or fields.get("tensor") == "target":
            return {**lines, "site": self.loss_site, "operation": self.loss_function}
        return {**lines, "before": f"{self.loss_function} at {self.loss_site}"}
