"""`netdebug replay --model --loss`: what they name may stand in a script that trains; it never does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from torch import nn

from tests.experiments.test_rehearsal_files import digest
from tests.experiments.test_replay_script import capsule_of, netdebug
from tests.support.replayed_here import replay_here

# Without a guard: who imports it trains. `late` is defined when the training is over.
SCRIPT = """
import torch
from torch import nn

print("BEGAN", flush=True)

def make():
    return nn.Linear(3, 2)

def root_loss(output):
    return (output * 0.0).sqrt().sum()

def labelled_loss(output, labels):
    return nn.functional.cross_entropy(output, labels)

def inner_loss(output):
    return labelled_loss(output)

def trained():
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        print("TRAINED", step, flush=True)
        torch.save(model.state_dict(), "ckpt.pt")
    return model

model = trained()

def late():
    return nn.Linear(3, 2)
"""
STUBBORN = SCRIPT.replace("model = trained()", "while True:\n    try: trained()\n    except: continue")
GUARDED = SCRIPT.replace("model = trained()", "if __name__ == '__main__': trained()")
SCRIPTS = {"tr.py": SCRIPT, "stubborn.py": STUBBORN, "net.py": GUARDED}
ROOT_LOSS = ("--backward", "--loss", "tr.py:root_loss")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("callables")
    for name, text in SCRIPTS.items():
        (path / name).write_text(text)
    capsule_of(nn.Linear(3, 2), path)
    return path


def replayed(folder: Path, *words: str) -> tuple[int, str, str]:
    """Return exit status, output and errors. Nothing was trained, and no file changed."""
    before = digest(folder)
    ran = netdebug(folder, ["replay", "--no-debug", *words])
    assert "TRAINED" not in ran.stdout
    assert "Traceback" not in ran.stderr
    assert before == digest(folder)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ((*ROOT_LOSS, "other.pt", "tr.py"), 1),
        (("--backward", "--loss", "tr:root_loss", "other.pt", "-m", "tr"), 1),
        (("--model", "tr.py:make", *ROOT_LOSS, "other.pt"), 1),
        (("--backward", "--loss", "net.py:root_loss", "other.pt", "tr.py"), 2),
        ((*ROOT_LOSS, "--model", "stubborn.py:make", "other.pt"), 2),
    ],
)
def test_a_training_script_gives_its_callable(words: Sequence[str], runs: int, folder: Path) -> None:
    """Each file runs once, up to its first optimizer step; one that does not end is left behind."""
    code, shown, errors = replayed(folder, *words)
    assert 1 == code, errors
    assert runs == shown.count("BEGAN")
    assert "first NaN on the way back is in the gradients of" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--model", "tr.py:late"),
            "--model tr.py:late: tr.py was stopped before its first optimizer step (tr.py:24), and had not "
            "defined late by then; define it above that line, or in a file that does not train",
        ),
        (
            ("--model", "tr.py:make", "--loss", "tr.py:late"),
            "--loss tr.py:late: tr.py was stopped before its first optimizer step (tr.py:24), and had not",
        ),
        (
            ("--model", "net.py:trained"),
            "--model net.py:trained trains: it was stopped before its first optimizer step (net.py:24)",
        ),
        (("--model", "tr.py:nn"), "--model tr.py:nn is not callable: nn is of type module"),
    ],
)
def test_what_is_not_there_when_training_begins(words: Sequence[str], sentence: str, folder: Path) -> None:
    """One sentence says so, and what to do."""
    code, _, errors = replayed(folder, *words, "other.pt")
    assert 2 == code
    assert sentence in errors


@pytest.mark.parametrize(
    ("options", "value", "why"),
    [
        (["--backward"], float("nan"), "the forward pass has NaN or infinities before that point"),
        ([], 1.0, "only --backward (backward=True) goes that far"),
    ],
)
def test_a_loss_that_is_not_called(
    options: list[str], value: float, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """That is said, and why; else the result would seem to be the loss's."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(GUARDED)
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, value)
    words = ["--no-debug", *options, "--model", "net.py:make", "--loss", "net.py:root_loss"]
    assert (0 if value == 1.0 else 1) == replay_here([*words, capsule_of(model, tmp_path)])
    assert f"Note: the given loss was not called: {why}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        (
            "labelled_loss",
            2,
            "--loss net.py:labelled_loss cannot be called with the model's output as its only argument: "
            "TypeError: labelled_loss() missing 1 required positional argument: 'labels' (net.py:13)",
        ),
        (
            "inner_loss",
            2,
            "The step failed: TypeError: labelled_loss() missing 1 required positional argument: 'labels' "
            "(net.py:17).",
        ),
        ("make", 2, "--loss net.py:make cannot be called with the model's output as its only argument"),
        ("repr", 2, "--loss net.py:repr returned str, not a tensor, as the loss"),
    ],
)
def test_a_loss_that_fails_is_told_at_the_users_line(
    name: str, code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rather than at ours; and what a loss gets is said."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(GUARDED + "repr = repr\n")
    capsule = capsule_of(nn.Linear(3, 2), tmp_path)
    words = ["--no-debug", "--backward", "--model", "net.py:make", "--loss", f"net.py:{name}", capsule]
    assert code == replay_here(words)
    caught = capsys.readouterr()
    assert sentence in " ".join((caught.out + caught.err).split())
