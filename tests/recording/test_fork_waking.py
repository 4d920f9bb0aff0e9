"""A copy in which another thread's lock stays closed is known by its sleep, and is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tb_netdebug.recording.clock import now
from tb_netdebug.recording.fork.waking import awakes

PATIENT_SECS = 60.0
SLEEPS = "import signal; signal.pause()"
SPEAKS = "import os, signal; sum(range(10_000_000)); os.write(1, b'.'); signal.pause()"
ENDS = "sum(range(10_000_000))"


@pytest.mark.parametrize(("code", "expected"), [(SLEEPS, False), (SPEAKS, True), (ENDS, True)])
def test_who_sleeps_without_a_sign_never_awakes(code: str, expected: bool) -> None:
    """However long there is; who computes is waited for."""
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=writer) as copy:
        os.close(writer)
        try:
            assert expected == awakes(copy.pid, reader, until=now() + PATIENT_SECS)
        finally:
            copy.kill()
            os.close(reader)
