"""Every instruction set of the C kernel, chosen by the environment, gives the twin's bytes."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tb_netdebug.core.stats import _kernel, twin
from tests.support import kernel_cases

SUPPORTED = cast("list[str]", _kernel.description()["supported"])
RunPython = Callable[..., str]
SCRIPT = str(Path(kernel_cases.__file__))
RUN_SCRIPT = f"import runpy; runpy.run_path({SCRIPT!r}, run_name='__main__')"
ON_OPENMP = f"""
from tb_netdebug.frameworks.torch.adapter import COMPUTING
from tb_netdebug.core.stats import kernel
assert kernel.borrow_threads(COMPUTING)
{RUN_SCRIPT}
"""
# scikit-learn brings another copy of the same runtime, and is often imported first.
BESIDE_ANOTHER = """
import os, sys, sklearn.utils._openmp_helpers, torch
torch.set_num_threads(2)
values = torch.randn(1 << 22)
values + values
from tb_netdebug.frameworks.torch.adapter import COMPUTING
from tb_netdebug.core.stats import kernel
assert kernel.borrow_threads(COMPUTING)
before = len(os.listdir("/proc/self/task"))
kernel.summarize([(values.data_ptr(), values.numel(), 0)], 2)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
print(len(loaded), len(os.listdir("/proc/self/task")) - before)
"""
ASK = "from tb_netdebug.core.stats import kernel; print(kernel.description()['kernel'], kernel.reason)"


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """What the twin answers to the fixed set of calls."""
    return kernel_cases.digests(twin)


@pytest.mark.parametrize("instruction_set", SUPPORTED)
def test_instruction_set(run_python: RunPython, expected: dict[str, str], instruction_set: str) -> None:
    """In a process that asks for one instruction set, that one runs and every result is the twin's."""
    found = json.loads(run_python(RUN_SCRIPT, env={"NETDEBUG_KERNEL": instruction_set}))
    assert instruction_set == found["description"]["instruction_set"]
    assert expected == found["digests"]


def test_on_the_threads_of_a_framework(run_python: RunPython, expected: dict[str, str]) -> None:
    """Run by the OpenMP threads that torch has brought along, every result is the same."""
    found = json.loads(run_python(ON_OPENMP))
    assert "openmp" == found["description"]["threads"]
    assert expected == found["digests"]


def test_beside_another_openmp(run_python: RunPython) -> None:
    """Of two runtimes the framework's own is used: no threads are added that would fight with its."""
    assert "2 0" == run_python(BESIDE_ANOTHER).strip()


def test_all_variants_are_compiled() -> None:
    """The build holds the plain variant, and on x86 those that the machine picks from."""
    assert set(SUPPORTED) <= set(cast("list[str]", _kernel.description()["compiled"]))
    assert "baseline" in SUPPORTED


def test_twin_on_request(run_python: RunPython) -> None:
    """NETDEBUG_KERNEL=twin takes the twin, and the reason says so."""
    assert run_python(ASK, env={"NETDEBUG_KERNEL": "twin"}).startswith("twin NETDEBUG_KERNEL=twin")


def test_unknown_name(run_python: RunPython) -> None:
    """A name that no kernel has leaves the best one in place, and the reason says that it was ignored."""
    told = run_python(ASK, env={"NETDEBUG_KERNEL": "altivec"})
    assert told.startswith("native ")
    assert "altivec is ignored" in told


def test_script_agrees_with_itself(capsys: pytest.CaptureFixture[str], expected: dict[str, str]) -> None:
    """The script prints what its functions return: the comparison above compares the right thing."""
    runpy.run_path(SCRIPT, run_name="__main__")
    assert expected == json.loads(capsys.readouterr().out)["digests"]
