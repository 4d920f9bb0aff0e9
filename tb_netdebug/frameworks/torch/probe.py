"""The context that every probe is given (see `probes.Probe`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from tb_netdebug.frameworks.torch.backward import BackwardListeners
from tb_netdebug.frameworks.torch.call_hooks import CallHooks
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.parameters import Parameters
from tb_netdebug.frameworks.torch.reader import TensorReader
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings


@dataclass(frozen=True, slots=True)
class ProbeContext:
    """The watched run, and where a probe puts what it finds."""

    models: Mapping[str, nn.Module]
    parameters: Parameters
    optimizers: OptimizerHooks
    calls: CallHooks
    backward: BackwardListeners
    collector: StepCollector
    reader: TensorReader
    guard: Guard
    settings: Settings
