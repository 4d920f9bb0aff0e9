"""A C module of ours with the address and undefined behaviour sanitizers, and a script that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
FLAGS = ["-std=c11", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}"]
TIMEOUT_SECS = 600


def ended_of(source: str, script: str, extension: Path) -> subprocess.CompletedProcess[str]:
    """How a script of tests/support ended that was given the `extension` made of a file of tb_netdebug/."""
    command = ["gcc", *SANITIZE, *FLAGS, str(ROOT / "tb_netdebug" / source), "-o", str(extension)]
    subprocess.run(command, check=True, timeout=TIMEOUT_SECS)
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": "" if sys.flags.isolated else str(ROOT),
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "tests/support" / script), str(extension)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECS,
        check=False,
    )
