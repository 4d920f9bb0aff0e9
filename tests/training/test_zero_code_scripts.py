"""Whole scripts that are watched without a line in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.core.records.step import Kind
from tb_netdebug.training.zero_code.results import Result
from tb_netdebug.training.zero_code.run_summary import closing_words, run_lines, summary
from tests.support.loops import Recorded
from tests.support.zero_code import ROOT, SCRIPTS, run, zero_code

SAME = [
    "gan.py",
    "functions.py",
    "trainer.py",
    "folds.py",
    "lbfgs.py",
    "scaled.py",
    "tensors.py",
    "inference.py",
]


@pytest.mark.parametrize("script", SAME)
def test_a_watched_script_computes_the_same_bit_for_bit(
    script: str, logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, weights and random numbers."""
    expected = run(script, capsys=capsys, monkeypatch=monkeypatch)
    with zero_code(logdir):
        actual = run(script, capsys=capsys, monkeypatch=monkeypatch)
    assert expected == actual


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_are_left_alone(context: str, logdir: Path) -> None:
    """Even a worker that trains a network of its own writes nothing."""
    package = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "tb_netdebug", "run", "--logdir", logdir, "workers.py", context],
        cwd=SCRIPTS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "True True") == (ran.returncode, ran.stdout.splitlines()[-1]), ran.stderr
    (recorded,) = logdir.iterdir()
    found = Recorded(recorded)
    assert [float(line) for line in ran.stdout.splitlines()[:-1]] == pytest.approx(found.series("loss"))
    assert 1 == len(found.run.files)
    assert 1 == ran.stderr.count("NetDebug: 6 steps recorded")


def test_a_gan_is_one_training_with_a_loss_for_each_network(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step ends when both optimizers have stepped; the losses have the networks' names."""
    with zero_code(logdir):
        printed = run("gan.py", capsys=capsys, monkeypatch=monkeypatch)
    found = Recorded(logdir / "run")
    losses = [[float(word) for word in line.split()] for line in printed.splitlines()[:-1]]
    assert list(range(10)) == found.steps
    assert {"netD": "Sequential", "netG": "Sequential"} == found.info["models"]
    assert [of_d for of_d, _ in losses] == pytest.approx(found.series("scalar/loss_netD"))
    assert [of_g for _, of_g in losses] == pytest.approx(found.series("scalar/loss_netG"))
    assert [sum(both) for both in losses] == pytest.approx(found.series("loss"))
    assert {"netD/0.weight", "netG/2.bias"} <= found.names(Kind.WEIGHT)
    assert 10 == len(found.samples(Kind.GRADIENT, "netG/0.weight"))


def test_accumulated_batches_are_one_step(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was differentiated for it is added up: half of two batches' losses each."""
    with zero_code(logdir):
        printed = run("trainer.py", capsys=capsys, monkeypatch=monkeypatch)
    losses = [float(word.strip("'[], ")) for word in printed.splitlines()[0].split(", ")]
    found = Recorded(logdir / "run")
    assert [first + second for first, second in zip(losses[::2], losses[1::2], strict=True)] == pytest.approx(
        found.series("loss")
    )
    assert [8.0] * 6 == found.series("batch_size")


def test_each_fold_of_a_cross_validation_is_a_run_and_its_network_is_let_go(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new network with a new optimizer, the old ones being gone: `run`, `run-2`, `run-3`."""
    with zero_code(logdir) as watched:
        printed = run("folds.py", capsys=capsys, monkeypatch=monkeypatch)
    assert "held: 0" in printed
    assert [4, 5, 6] == [len(Recorded(logdir / name).steps) for name in ("run", "run-2", "run-3")]
    told = closing_words(watched)
    assert "3 runs recorded: 3 healthy." in told
    assert "run-2: 5 steps" in told


def test_a_closure_that_is_called_again_and_again_has_one_loss(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LBFGS: the loss of a step is the first that it evaluates, which is what `step` returns."""
    with zero_code(logdir):
        printed = run("lbfgs.py", capsys=capsys, monkeypatch=monkeypatch)
    expected = [float(line) for line in printed.splitlines()]
    assert expected == pytest.approx(Recorded(logdir / "run").series("loss"))


def test_a_skipped_step_of_a_scaler_is_a_step_and_losses_are_not_scaled(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.amp.GradScaler: the infinite loss stands where it was."""
    with zero_code(logdir):
        printed = run("scaled.py", capsys=capsys, monkeypatch=monkeypatch)
    expected = [float(line) for line in printed.splitlines()[:-1]]
    assert float("inf") == expected[3]
    found = Recorded(logdir / "run")
    assert expected == pytest.approx(found.series("loss"))
    assert [3] == [step for step, is_true in found.scalars["probe/loss_scale_skipped"].items() if is_true]


def test_tensors_that_belong_to_no_module_are_watched(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, gradients and the loss of a program that trains plain tensors."""
    with zero_code(logdir):
        printed = run("tensors.py", capsys=capsys, monkeypatch=monkeypatch)
    found = Recorded(logdir / "run")
    assert [float(line) for line in printed.splitlines()] == pytest.approx(found.series("loss"))
    assert {"tensor0", "tensor1"} == found.names(Kind.WEIGHT) == found.names(Kind.GRADIENT)


def test_the_closing_line_counts_all_verdicts(logdir: Path) -> None:
    """Suspect runs, too; and one without a step is unknown, not healthy."""
    warning = Finding("loss-spike", Severity.WARNING, 1, 2, [], "It jumps.", "Look.", {}, 0.9)
    error = Finding("nonfinite-loss", Severity.ERROR, 1, 2, [], "It is NaN.", "Look.", {}, 0.9)
    results = [
        Result(logdir / name, steps, findings)
        for name, steps, findings in (
            ("a", 3, [warning]),
            ("b", 3, [error, warning]),
            ("c", 3, []),
            ("d", 0, []),
            ("e", 5, []),
        )
    ]
    assert "5 runs recorded: 1 sick, 1 suspect, 2 healthy, 1 unknown." == summary(results)
    lines = run_lines(results)
    assert "  d: nothing recorded, unknown" in lines
    assert "  c: 3 steps, healthy" in lines
