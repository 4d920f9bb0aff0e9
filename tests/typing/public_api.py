"""What users type, as mypy sees it: `make lint` checks this file, and nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Adam
from typing_extensions import assert_type

import tb_netdebug as nd
from tb_netdebug import KerasCallback, LightningCallback, OptunaPruning, TransformersCallback
from tb_netdebug.judging.report import Report

if TYPE_CHECKING:
    from tb_netdebug.checks.finding import Finding


def a_loop(model: nn.Module) -> None:
    optimizer = Adam(model.parameters())
    with nd.watch(model, optimizer, logdir="runs", every="auto", on_finding=report_of) as monitor:
        assert_type(monitor, nd.Monitor)
        monitor.step(loss=0.5, accuracy=0.9)
        assert_type(monitor.findings, "list[Finding]")


def several_models(generator: nn.Module, critic: nn.Module) -> None:
    assert_type(nd.watch({"G": generator, "C": critic}, every=1, check_numerics="ops"), nd.Monitor)


def report_of(finding: Finding) -> None:
    assert_type(finding.rule, str)


def a_folder() -> bool:
    report = nd.check(Path("runs"))
    assert_type(report, Report)
    return report.healthy


def callbacks() -> list[Any]:
    """Each is a class of its own, not Any: a name that is none of theirs would be an error."""
    made: list[type[KerasCallback | LightningCallback | OptunaPruning | TransformersCallback]] = [
        KerasCallback,
        LightningCallback,
        OptunaPruning,
        TransformersCallback,
    ]
    return list(made)


assert_type(nd.__version__, str)
nd.install_excepthook()
nd.breakpoint()
