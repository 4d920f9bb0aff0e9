"""What a step that is not sampled costs, counted: time would depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "support/scripts/step_calls.py"


def test_an_ordinary_step_makes_few_calls(logdir: Path) -> None:
    """Whatever looks at each step adds to these, and has to save as much elsewhere."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(logdir)], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["python"] <= 132
    assert found["native"] <= 129
