"""Finds the networks inside a module that defines the whole training, such as a LightningModule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from tb_netdebug.integrations.first_call import trained_ids
from tb_netdebug.integrations.torch_scripts.owners import parameter_ids


def networks_of(
    holder: nn.Module, called: nn.Module | None, optimizers: Sequence[Any]
) -> dict[str, nn.Module]:
    """Return the networks of `holder` by name, as `watch` takes them.

    It is the module that was called if it has everything that is trained, else the parts of the holder that
    are trained. A module around a network that nobody calls is no model, since its calls would never be seen;
    when no call was seen at all, it is taken all the same.
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
        return {"": holder}  # the holder has parameters of its own
    return parts if len(parts) > 1 else {"": next(iter(parts.values()), holder)}
