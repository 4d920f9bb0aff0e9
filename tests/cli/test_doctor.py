"""`netdebug doctor`: what works here, and the next step for what does not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tb_netdebug.cli import diagnosis, doctor
from tb_netdebug.cli.diagnosis import Diagnosis, State

RunPython = Callable[..., str]
Facts = Callable[..., dict[str, dict[str, str]]]
PRINT_FACTS = """
import argparse, sys
from tb_netdebug.cli import doctor
code = doctor.run(argparse.Namespace(json=True, logdir="runs"))
assert code in (0, 1)
"""


@pytest.fixture
def facts(run_python: RunPython) -> Facts:
    """What a doctor in a fresh interpreter finds, by topic and name; `before` runs before its import."""

    def find(before: str = "", **env: str) -> dict[str, dict[str, str]]:
        told = json.loads(run_python(before + PRINT_FACTS, env={"NETDEBUG_KERNEL": "", **env}))
        problems = [fact for fact in told["facts"] if fact["state"] == "problem"]
        assert (1, not problems) == (told["schema"], told["well"])
        return {f"{fact['topic']}/{fact['name']}": fact for fact in told["facts"]}

    return find


def absent(module: str) -> str:
    """Code after which a module cannot be imported."""
    return f"import sys; sys.modules[{module!r}] = None\n"


def test_a_good_installation_has_no_problem(facts: Facts) -> None:
    """With everything built and installed nothing is slow or blind, and each topic is there."""
    found = facts()
    assert [] == [fact for fact in found.values() if fact["state"] == "problem"]
    assert {"machine", "kernel", "frameworks", "event files"} <= {fact["topic"] for fact in found.values()}


def test_a_forced_twin_is_a_problem_with_its_way_out(facts: Facts) -> None:
    """Whoever forced the slow kernel is told by which variable."""
    found = facts(NETDEBUG_KERNEL="twin")["kernel/in use"]
    assert ("problem", "unset NETDEBUG_KERNEL") == (found["state"], found["advice"])


def test_a_missing_kernel_is_a_problem_that_names_the_compiler(
    facts: Facts,
) -> None:
    """An installation made without a compiler runs on the twin, and the advice is to install one."""
    found = facts(absent("tb_netdebug.core.stats._kernel"))["kernel/in use"]
    assert "problem" == found["state"]
    assert "gcc" in found["advice"]


def test_a_page_that_was_not_built_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The recorder works without it, so nothing else would say why the tab stays empty."""
    monkeypatch.setattr(diagnosis, "__file__", str(tmp_path / "tb_netdebug/cli/diagnosis.py"))
    (files, _) = diagnosis.page()
    assert (State.PROBLEM, "not built") == (files.state, files.value)
    assert "Node 18" in files.advice


def test_a_tab_that_tensorboard_does_not_find_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when NetDebug lies on the path without having been installed."""
    monkeypatch.setattr(diagnosis.metadata, "entry_points", lambda *, group: [])
    (_, tab) = diagnosis.page()
    assert (State.PROBLEM, "TensorBoard does not find it") == (tab.state, tab.value)


def test_a_slow_checksum_is_a_problem(facts: Facts) -> None:
    """google-crc32c falls back to pure Python where its C part does not load."""
    found = facts(absent("google_crc32c._crc32c"))["event files/checksums"]
    assert "problem" == found["state"]
    assert "google-crc32c" in found["advice"]


def test_a_slow_protobuf_is_a_problem(facts: Facts) -> None:
    """The variable that makes protobuf slow is named."""
    found = facts(PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")["event files/protobuf"]
    assert "problem" == found["state"]
    assert "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" in found["advice"]


def test_without_a_framework_runs_can_still_be_shown(
    facts: Facts,
) -> None:
    """The machine that runs TensorBoard needs no torch, so its absence is no problem."""
    found = facts("".join(map(absent, ("torch", "tensorflow", "keras"))))
    assert "note" == found["frameworks/torch, keras"]["state"]


def test_without_tensorboard_nothing_can_be_shown(facts: Facts) -> None:
    """A missing TensorBoard is a problem, with the command that installs it."""
    found = facts(absent("tensorboard"))["frameworks/tensorboard"]
    assert ("problem", "not installed") == (found["state"], found["value"])
    assert 'pip install "tensorboard>=2.15"' == found["advice"]


def test_a_broken_part_is_told_and_not_raised(facts: Facts) -> None:
    """What cannot even be looked at is a problem like any other."""
    assert "problem" == facts(absent("tb_netdebug.core.stats.kernel"))["kernel/broken"]["state"]


def test_nothing_heavy_is_imported(run_python: RunPython) -> None:
    """The versions of torch and TensorBoard are looked up, not imported."""
    code = PRINT_FACTS + "print([name for name in ('torch', 'tensorboard') if name in sys.modules])"
    assert "[]" == run_python(code).splitlines()[-1]


def test_a_file_in_the_way_of_the_logdir_is_a_problem(tmp_path: Path) -> None:
    """A logdir below something that is no folder cannot be written."""
    (tmp_path / "file").touch()
    assert State.PROBLEM is diagnosis.writable(tmp_path / "file" / "runs").state


def test_a_logdir_that_does_not_exist_yet_is_fine_and_is_not_made(tmp_path: Path) -> None:
    """Looking leaves nothing behind."""
    assert State.GOOD is diagnosis.writable(tmp_path / "new" / "runs").state
    assert [] == list(tmp_path.iterdir())


def test_the_table_shows_the_next_step_under_its_fact() -> None:
    """In a terminal each problem is followed by its advice."""
    screen = io.StringIO()
    facts = [
        Diagnosis("kernel", "in use", "twin", State.PROBLEM, "install gcc"),
        Diagnosis("gpu", "gpu 0", "fast"),
    ]
    doctor.print_table(facts, Console(file=screen, width=80))
    lines = [line.split() for line in screen.getvalue().splitlines() if line.strip()]
    expected = [
        ["kernel", "✗", "in", "use", "twin"],
        ["→", "install", "gcc"],
        ["gpu", "✓", "gpu", "0", "fast"],
    ]
    assert expected == lines


def test_the_plain_output_has_a_line_for_each_fact(capsys: pytest.CaptureFixture[str]) -> None:
    """In a file or a pipe there are no frames and no colours, and words instead of signs."""
    doctor.print_plain([Diagnosis("kernel", "in use", "twin", State.PROBLEM, "install gcc")])
    expected = ["PROBLEM", "kernel", "in", "use", "twin", "next:", "install", "gcc"]
    assert expected == capsys.readouterr().out.split()
