"""The record of one question about a non-finite tensor, kept by `probe` until the answer is reported."""

from __future__ import annotations

from dataclasses import dataclass

from tb_netdebug.frameworks.torch.calls import ModelCall
from tb_netdebug.frameworks.torch.numerics.fact import LossFields
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin


@dataclass(slots=True)
class OriginQuestion:
    """What was known when the question was asked, and what has been learnt about the batch since.

    `live` is an origin seen by following operations, `seen` one that the layer checks found. `why_not` says
    why the question could not be asked. `left_out`: no backward pass followed.
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
    was_updated: bool = False  # the weights, with a non-finite gradient, before this step
    divided_by_zero: str = ""  # the class of the optimizer that did so in the update before this step
    loss_function: str = ""  # the first one that returned the value, at `loss_site`
    loss_site: str = ""
    is_of_function: bool = False  # all arguments of the loss function were finite
    is_of_target: bool = False  # the outputs were finite, the target was not
    backward_site: str = ""

    def fate(self) -> LossFields:
        """Return what became of this batch, and what damaged the weights before it."""
        return {
            "left_out": self.left_out,
            "was_updated": self.was_updated,
            "divided_by_zero": self.divided_by_zero,
        }

    def lines_of_loss(self, fields: LossFields) -> LossFields:
        """Return the line at which the loss became non-finite, or the lines nearest to it that are known."""
        lines: LossFields = {"site": fields.get("site", ""), "before": "", "backward": self.backward_site}
        if self.is_of_target:
            return {**lines, "site": self.loss_site, "operation": self.loss_function, "tensor": "target"}
        if lines["site"] or not self.loss_function:
            return lines
        if self.is_of_function or fields.get("tensor") == "target":
            return {**lines, "site": self.loss_site, "operation": self.loss_function}
        # The value came out of an earlier operation: all that is known is that it was there by this call.
        return {**lines, "before": f"{self.loss_function} at {self.loss_site}"}
