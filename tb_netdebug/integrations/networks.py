"""Which networks a module holds that is a training itself, as those of Lightning are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from tb_netdebug.integrations.first_call import trained_ids
from tb_netdebug.integrations.torch_scripts.owners import parameter_ids


def networks_of(
    holder: nn.Module, called: nn.Module | None, optimizers: Sequence[Any]
) -> dict[str, nn.Module]:
    """By name, as for `watch`: what was called, when it has all that is trained; else the parts that are.

    A module around a network which nobody calls is no model: its calls would never be seen. When no call was
    seen at all, it is.
    """
    trained = trained_ids(optimizers)
    if called is None or called is holder:
        return {"": holder}
    if trained <= parameter_ids(called):
        return {"": called}
    parts = {
        name: part for name, part in holder.named_children() if not trained.isdisjoint(parameter_ids(part))
    }
    if not trained <= {number for part in parts.values() for number in parameter_ids(part)}:
        return {"": holder}  # it has parameters of its own
    return parts if len(parts) > 1 else {"": next(iter(parts.values()), holder)}
