"""Reads back what NetDebug has recorded: monitoring that has failed would be the fastest of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tb_netdebug.core.eventlog.reader.run import RunColumns, read_run
from tb_netdebug.core.records.step import Kind
from tb_netdebug.recording.governor import MOST_STEPS_BETWEEN_NORMS

# What each step has, sampled or not: the second one comes from the hooks. Gradient norms may be rarer, as far
# as the governor lets them be.
IN_EVERY_STEP = ("loss", "batch_size")
# What each sampled step has; inputs and labels are looked at by probes, in fewer of them.
OF_THE_NETWORK = {Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION}


class NotRecordedError(RuntimeError):
    """Something is missing in the file, so the times and sizes mean nothing."""


def columns_of(run_dir: Path, steps: int) -> RunColumns:
    """All that the file says. Raises NotRecordedError unless it has each of the steps once, complete."""
    run = read_run(run_dir)
    if run.losses:
        raise NotRecordedError(f"the event file is damaged: {run.losses[0].complaint}")
    found = run.main
    if found.steps.tolist() != list(range(steps)):
        raise NotRecordedError(f"the event file has {len(found.steps)} of {steps} steps")
    for name in IN_EVERY_STEP:
        if name not in found.scalars or len(found.scalars[name].rows) != steps:
            raise NotRecordedError(f"not every step in the event file has its {name}")
    norms = len(found.scalars["gradient_norm"].rows) if "gradient_norm" in found.scalars else 0
    if norms < steps // MOST_STEPS_BETWEEN_NORMS:
        raise NotRecordedError(f"only {norms} of {steps} steps in the event file have a gradient norm")
    return found


def sampled_steps(columns: RunColumns, steps: int, *, every: bool) -> int:
    """How many steps were sampled, all of them with `every`. Raises NotRecordedError when that is not so."""
    if not {series.kind for series in columns.tensors} >= OF_THE_NETWORK:
        raise NotRecordedError("weights, gradients, updates or activations are missing in the event file")
    if every:
        check_every(columns, steps)
    return len(columns.scalars["monitor/every"].rows)


def check_every(columns: RunColumns, steps: int) -> None:
    short: Sequence[str] = sorted(
        f"{series.name} ({len(tensor.rows)})"
        for series, tensor in columns.tensors.items()
        if series.kind in OF_THE_NETWORK and len(tensor.rows) != steps
    )
    if short:
        raise NotRecordedError(f"not in each of the {steps} steps: {', '.join(short)}")


def tags(columns: RunColumns) -> set[str]:
    """The tensors by kind and name, such as "weight/0.bias"."""
    return {f"{Kind(series.kind).name.lower()}/{series.name}" for series in columns.tensors}
