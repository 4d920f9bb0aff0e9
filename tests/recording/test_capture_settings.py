"""What watch() refuses, and how it says so; where a run is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tb_netdebug as nd
from tb_netdebug.recording.run_folder import is_distributed, rank, run_folder
from tb_netdebug.recording.settings import Settings

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"every": 0}, ValueError, "the least is 1"),
    ({"every": -3}, ValueError, "the least is 1"),
    ({"every": "often"}, ValueError, '"auto"'),
    ({"every": 1.5}, TypeError, '"auto" or a number of steps'),
    ({"every": True}, TypeError, '"auto" or a number of steps'),
    ({"every": None}, TypeError, '"auto" or a number of steps'),
    ({"overhead": 0}, ValueError, "0.02 means 2 %"),
    ({"overhead": 2}, ValueError, "0.02 means 2 %"),
    ({"overhead": -0.1}, ValueError, "0.02 means 2 %"),
    ({"overhead": float("nan")}, ValueError, "0.02 means 2 %"),
    ({"overhead": "2%"}, TypeError, "a number"),
    ({"overhead": True}, TypeError, "a number"),
    ({"flight_recorder": -1}, ValueError, "0 keeps none"),
    ({"flight_recorder": 1.5}, TypeError, "a whole number"),
    ({"flight_recorder": None}, TypeError, "a whole number"),
    ({"num_classes": 0}, ValueError, "the number of classes"),
    ({"num_classes": "ten"}, TypeError, "a whole number, or None"),
    ({"include": "("}, ValueError, "not a regular expression"),
    ({"exclude": "a{2,1}"}, ValueError, "not a regular expression"),
    ({"include": ["a"]}, TypeError, "a regular expression, or None"),
    ({"exclude": 5}, TypeError, "a regular expression, or None"),
    ({"on_finding": "shout"}, ValueError, "ignore"),
    ({"on_finding": None}, ValueError, "callable"),
    ({"check_numerics": "all"}, ValueError, "sampled"),
    ({"checks": ["x"]}, TypeError, 'or {"dead-units": {"share": 0.8}}, or None'),
    ({"checks": []}, TypeError, "a dictionary such as"),
    ({"checks": "dead-units"}, TypeError, "a dictionary such as"),
    ({"remote": "host"}, ValueError, "is not an address. Write HOST:PORT"),
    ({"remote": ""}, ValueError, "is not an address. Write HOST:PORT"),
    ({"remote": "host:99999"}, ValueError, "the highest port is 65535"),
    ({"remote": 6007}, TypeError, "the address of a collector"),
    ({"debugger": "host"}, ValueError, "is not an address. Write HOST:PORT"),
    ({"debugger": 6007}, TypeError, "the address of a collector"),
    ({"pause_at_start": 1}, TypeError, "True or False"),
    ({"run": ""}, ValueError, "a folder below logdir"),
    ({"run": ".."}, ValueError, "a folder below logdir"),
    ({"run": "."}, ValueError, "a folder below logdir"),
    ({"run": "../other"}, ValueError, "a folder below logdir"),
    ({"run": "a/../../b"}, ValueError, "a folder below logdir"),
    ({"run": "/tmp/x"}, ValueError, "a folder below logdir"),
    ({"run": 7}, TypeError, "a name, or None"),
    ({"logdir": 7}, TypeError, "a folder, or None"),
    *[
        ({switch: "no"}, TypeError, "True or False")
        for switch in (
            *("weights", "gradients", "updates", "activations"),
            *("memory", "batches", "console", "capsules", "strict"),
        )
    ],
]  # fmt: skip

UNARMED: list[dict[str, Any]] = [
    {"on_finding": "pause"},
    {"pause_at_start": True},
    {"debugger": False, "on_finding": "pause"},
]


@pytest.mark.parametrize(("options", "kind", "text"), WRONG, ids=[str(case[0]) for case in WRONG])
def test_what_cannot_be_meant_is_refused(
    options: dict[str, Any], kind: type[Exception], text: str, logdir: Path
) -> None:
    """The error names the argument and what it may be, and nothing is left behind."""
    ((name, value),) = options.items()
    model = torch.nn.Linear(1, 1)
    with pytest.raises(kind, match=re.escape(text)) as raised:
        nd.watch(model, **{"logdir": logdir, **options})
    assert str(raised.value).startswith(f"{name}={value!r}".partition("'")[0])
    assert [] == list(logdir.iterdir())
    assert not model._forward_hooks


@pytest.mark.parametrize("options", UNARMED, ids=map(str, UNARMED))
def test_a_pause_needs_a_debugger(options: dict[str, Any], logdir: Path) -> None:
    """A training that is believed to be debugged and is not would be worse than none."""
    with pytest.raises(ValueError, match="needs the debugger: add debugger=True"):
        nd.watch(torch.nn.Linear(1, 1), logdir=logdir, **options)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (3, "watch() got int"),
        ({}, "watch() got nothing"),
        (torch.nn.Linear, "watch() got type"),
        ({"G": torch.nn.Linear(1, 1), "D": None}, "watch() got Linear, NoneType"),
        ([torch.nn.Linear(1, 1)], "watch() got list"),
    ],
)
def test_what_is_no_model(model: Any, text: str, logdir: Path) -> None:
    """The error says what it got and what it takes."""
    with pytest.raises(TypeError, match=re.escape(text)):
        nd.watch(model, logdir=logdir)
    assert [] == list(logdir.iterdir())


@pytest.mark.parametrize("optimizer", [3, "sgd", [None], torch.optim.SGD, {"a": 1}])
def test_what_is_no_optimizer(optimizer: Any, logdir: Path) -> None:
    """The error says that it may be left out."""
    with pytest.raises(TypeError, match=r"not a torch\.optim\.Optimizer; leave it out"):
        nd.watch(torch.nn.Linear(1, 1), optimizer, logdir=logdir)
    assert [] == list(logdir.iterdir())


def test_what_is_fine() -> None:
    """Numbers of NumPy, compiled patterns, paths and callables are taken."""
    settings = Settings(
        every=np.int64(3),  # type: ignore[arg-type]
        overhead=np.float32(0.5),  # type: ignore[arg-type]
        include=re.compile("^a"),  # type: ignore[arg-type]
        logdir=Path("x"),
        run="group/one",
        on_finding=print,
        num_classes=10,
        flight_recorder=0,
    )
    assert 3 == settings.period
    assert settings.wants("ab")
    assert not settings.wants("ba")
    assert Settings().period is None


def test_names_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a folder for the second in which the run began, never the same twice."""
    first, second = (run_folder(tmp_path, None, {}) for _ in range(2))
    assert first != second
    assert [tmp_path] * 2 == [first.parent, second.parent]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(-\d+)?", second.name)
    assert tmp_path / "mine" == run_folder(tmp_path, "mine", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / "runs/mine" == run_folder(None, "mine", {})
    assert tmp_path / "runs/mine-2" == run_folder(None, "mine", {})
    assert Path.home() / "logs/mine" == run_folder("~/logs", "mine", {})


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The name is given all the same; the writer says what is wrong."""
    (tmp_path / "file").write_text("")
    assert tmp_path / "file" == run_folder(tmp_path / "file", None, {}).parent


@pytest.mark.parametrize(
    ("environment", "number", "several"),
    [
        ({}, 0, False),
        ({"RANK": "3", "WORLD_SIZE": "4"}, 3, True),
        ({"RANK": "0", "WORLD_SIZE": "1"}, 0, False),
        ({"SLURM_PROCID": "2"}, 2, False),
        ({"RANK": "one", "WORLD_SIZE": "two"}, 0, False),
    ],
)
def test_ranks(environment: dict[str, str], number: int, several: bool) -> None:
    """Launchers say in the environment which process this is."""
    assert (number, several) == (rank(environment), is_distributed(environment))


def test_processes_of_one_launcher_share_a_folder(tmp_path: Path) -> None:
    """All ranks find the same name without talking to each other; a second training of theirs has another."""
    environments = [{"RANK": str(number), "WORLD_SIZE": "2"} for number in range(2)]
    first, second = ({run_folder(tmp_path, None, each) for each in environments} for _ in range(2))
    assert 1 == len(first) == len(second)
    assert first != second
