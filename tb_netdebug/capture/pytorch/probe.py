"""What every probe is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.pytorch.optimizers import OptimizerHooks
from tb_netdebug.capture.pytorch.parameters import Parameters
from tb_netdebug.capture.pytorch.reader import TensorReader
from tb_netdebug.capture.settings import Settings


@dataclass(frozen=True, slots=True)
class ProbeContext:
    """The training that is watched, and where to put what is seen of it."""

    models: Mapping[str, nn.Module]
    parameters: Parameters
    optimizers: OptimizerHooks
    collector: Collector
    reader: TensorReader
    guard: Guard
    settings: Settings
