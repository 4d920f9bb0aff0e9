"""The C reader under the address and undefined behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tb_netdebug/reader/native/module.c"
SCRIPT = ROOT / "tests/support/asan_reader.py"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
FLAGS = ["-std=c11", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}"]
TIMEOUT_SECS = 600


def test_no_access_outside(tmp_path: Path) -> None:
    """Whatever bytes come in, nothing outside of them is touched, and nothing is done that C leaves open."""
    extension = tmp_path / "_native.so"
    subprocess.run(
        ["gcc", *SANITIZE, *FLAGS, str(SOURCE), "-o", str(extension)], check=True, timeout=TIMEOUT_SECS
    )
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": "" if sys.flags.isolated else str(ROOT),
    }
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(extension)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECS,
        check=False,
    )
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("done ")
