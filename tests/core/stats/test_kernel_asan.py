"""The C kernel under the address and undefined behaviour sanitizers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NATIVE = ROOT / "tb_netdebug/core/stats/native"
SCRIPT = ROOT / "tests/support/asan_run.py"
SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-g",
    "-O1",
    "-fno-omit-frame-pointer",
]
FLAGS = ["-std=c11", "-fPIC", "-ffp-contract=off", "-fno-math-errno", f"-I{sysconfig.get_path('include')}"]
TIMEOUT_SECS = 600


def variants() -> dict[str, list[str]]:
    """The instruction sets and their compiler flags, as setup.py has them."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "X86_VARIANTS":
            on_x86 = os.uname().machine == "x86_64"
            return {"baseline": [], **(ast.literal_eval(node.value) if on_x86 else {})}
    raise LookupError("setup.py has no X86_VARIANTS")


def started(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["gcc", *SANITIZE, *FLAGS, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True
    )


def finish(compilers: list[subprocess.Popen[str]]) -> None:
    told = [compiler.communicate(timeout=TIMEOUT_SECS)[1] for compiler in compilers]
    assert all(compiler.returncode == 0 for compiler in compilers), "\n".join(told)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension module with sanitizers, built from the sources of the checkout: a wheel holds no C."""
    folder = tmp_path_factory.mktemp("asan")
    have = [f"-DHAVE_{name.upper()}=1" for name in variants()]
    objects, compilers = [], []
    for source in sorted(NATIVE.glob("*.c")):
        copies = variants() if source.name == "passes.c" else {"": have}
        for name, flags in copies.items():
            objects.append(f"{source.stem}{name}.o")
            named = [f"-DVARIANT={name}"] if name else []
            compilers.append(started([*named, *flags, "-c", str(source), "-o", objects[-1]], folder))
    finish(compilers)
    finish([started(["-shared", *objects, "-lm", "-lpthread", "-o", "_kernel.so"], folder)])
    return folder / "_kernel.so"


def run(extension: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": "" if sys.flags.isolated else str(ROOT),
    }
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(extension), *flags],
        env=environment,
        cwd=extension.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECS,
        check=False,
    )


def test_no_access_outside(extension: Path) -> None:
    """No function reads or writes outside its arguments, or does what C leaves undefined, on any tensor."""
    ended = run(extension)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("done ")
    assert ended.stdout.endswith(" baseline")


def test_an_access_outside_is_seen(extension: Path) -> None:
    """The control: one value too many, and the sanitizer stops the run."""
    ended = run(extension, "--over-read")
    assert 0 != ended.returncode
    assert "heap-buffer-overflow" in ended.stderr
