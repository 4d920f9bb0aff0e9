"""The probe for how processes share the work: how many of them train on batches of their own."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tb_netdebug.core.records.facts import DataParallelFact
from tb_netdebug.frameworks.torch.batches.entries import entry_of
from tb_netdebug.frameworks.torch.hooks import before_forward
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.recording import processes


class RanksProbe:
    """Records the fact `data-parallel` once; nothing for processes that share batches by design.

    See `probes.Probe`. The watched model may be the one inside a wrapper, so the answer is looked up while
    the wrapper is calling it.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._collector = context.collector
        self._guard = context.guard
        self._model = next(iter(context.models.values()), None)
        self._here = processes.this_one()
        self._hook: Any = None
        if self._here is not None and self._model is not None:
            self._hook = before_forward(entry_of(self._model), self._look)

    def end_step(self) -> None:
        """Do nothing: everything is recorded in the first call."""

    def close(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _look(self, module: nn.Module, args: Any) -> None:
        self.close()
        if self._guard.is_off or self._model is None or self._here is None:
            return
        try:
            batches = batches_of(self._model)
            if batches is not None:
                self._collector.fact(DataParallelFact(self._here[1], batches))
        except Exception as error:
            self._guard.fault("asking how the processes share the work", error)


def batches_of(model: nn.Module) -> int | None:
    """Return how many processes should get different batches; None when that is unknown."""
    # DistributedDataParallel sets this attribute of its class while its forward pass runs.
    calling = getattr(DistributedDataParallel, "_active_ddp_module", None)
    wrapper = model if isinstance(model, DistributedDataParallel) else calling
    if wrapper is not None:
        return int(wrapper.process_group.size())
    for module in model.modules():
        # FSDP2 turns a module into an FSDPModule, which has this method.
        state_of = getattr(module, "_get_fsdp_state", None)
        group = getattr(state_of(), "_fsdp_param_group", None) if state_of is not None else None
        if group is not None:
            return int(group.mesh_info.mesh.size())
    return None
