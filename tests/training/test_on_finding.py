"""What becomes of findings while a network trains: printed, raised, called, or left to who looks."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.judging.online import Judge

STEPS = 40


def blow_up(logdir: Path, *, at: int = 20, steps: int = STEPS, **options: Any) -> int:
    """A loss that is no number from a step on; how many steps were made."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    made = 0
    with nd.watch(model, optimizer, logdir=logdir, run="run", **options) as monitor:
        for step in range(steps):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=math.nan if step >= at else loss)
            made += 1
            assert monitor.flush()
    return made


def test_findings_are_printed_once(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To standard error, with what to try and where there is more."""
    assert STEPS == blow_up(logdir)
    out, err = capsys.readouterr()
    assert "" == out
    assert 1 == err.count("NetDebug: ERROR nonfinite-loss, step 20")
    assert "  Try: " in err
    assert 1 == err.count(f"tensorboard --logdir {logdir}")


def test_ignored_findings_are_still_there(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert STEPS == blow_up(logdir, on_finding="ignore")
    assert ("", "") == capsys.readouterr()
    assert "nonfinite-loss" in {found.rule for found in nd.check(logdir).runs[0].findings}


def test_an_error_is_raised_where_the_step_ends(logdir: Path) -> None:
    """As soon as the next batch, with the finding; the log is complete."""
    with pytest.raises(FindingError, match="nonfinite-loss") as raised:
        blow_up(logdir, on_finding="raise")
    assert ("nonfinite-loss", 20) == (raised.value.finding.rule, raised.value.finding.first_step)
    assert 20 <= nd.check(logdir).runs[0].steps - 1 <= 22


def test_a_callable_is_given_each_finding(logdir: Path) -> None:
    """On the thread that trains, notes too."""
    told: list[tuple[str, Severity]] = []

    def note(finding: Finding) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append((finding.rule, finding.severity))

    assert STEPS == blow_up(logdir, on_finding=note)
    assert ("nonfinite-loss", Severity.ERROR) in told
    assert len(told) == len(set(told))


def test_a_finding_of_the_last_step_is_raised_at_the_end(logdir: Path) -> None:
    with pytest.raises(FindingError, match="nonfinite-loss"):
        blow_up(logdir, at=STEPS - 1, on_finding="raise")


def test_an_exception_of_the_training_goes_first(logdir: Path) -> None:
    """What the network suffers from must not hide why the program ended."""

    def fail() -> None:
        with nd.watch(torch.nn.Linear(2, 1), logdir=logdir, run="run", on_finding="raise") as monitor:
            monitor.step(loss=math.nan)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()


def test_checks_can_be_left_out(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert STEPS == blow_up(logdir, checks={"nonfinite-loss": False})
    assert "nonfinite-loss" not in capsys.readouterr().err


@pytest.mark.parametrize("checks", [{"nothing": False}, {"nonfinite-loss": 3}, {"nonfinite-loss": {"x": 1}}])
def test_wishes_that_cannot_be_meant_are_said_at_once(logdir: Path, checks: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nothing|nonfinite-loss"):
        nd.watch(torch.nn.Linear(2, 1), logdir=logdir, checks=checks)


def test_what_got_worse_is_told_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second time it says so, with the new numbers, and does not repeat what to try."""
    judge = Judge({}, "print", tmp_path / "run")
    warning = Finding("loss-spike", Severity.WARNING, 3, 3, [], "It is 2.", "Mend it.", {}, 0.9)
    judge._tell([warning])
    judge._tell([replace(warning, severity=Severity.ERROR, last_step=9, message="It is 4.")])
    told = [line for line in capsys.readouterr().err.splitlines() if "tensorboard" not in line]
    assert [
        "NetDebug: WARNING loss-spike, step 3",
        "  It is 2.",
        "  Try: Mend it.",
        "NetDebug: Now an ERROR: loss-spike, steps 3 to 9",
        "  It is 4.",
        "  Try: as said above.",
    ] == told


def test_who_closes_second_waits_for_the_findings(logdir: Path) -> None:
    """`netdebug run` closes at the end what a thread of its own may be closing just then."""
    order: list[str] = []

    def close() -> None:
        monitor.close()
        order.append("second")

    second = threading.Thread(target=close)

    def look(finding: Finding) -> None:
        if not second.ident:
            second.start()
            second.join(0.5)
        order.append(finding.rule)

    model = torch.nn.Linear(4, 1)
    monitor = nd.watch(model, logdir=logdir, run="run", on_finding=look)
    model(torch.randn(8, 4)).square().mean().backward()
    monitor.step(loss=math.nan)
    monitor.close()
    second.join()
    assert "second" == order[-1]
    assert 1 < len(order)
