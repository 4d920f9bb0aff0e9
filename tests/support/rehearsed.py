"""Runs scripts up to a step, each in a fork of one process that has imported torch; prints what they had.

The lines of standard input are [script, step, patience_secs] as JSON; each answer is one, too.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import torch

from tb_netdebug.experiments.rehearsal import steps_on_torch
from tb_netdebug.experiments.rehearsal.stop import Stopped, run_to_step
from tb_netdebug.training.zero_code.script import Script

ANSWER = "ANSWER "


def told(stopped: Stopped) -> dict[str, Any]:
    return {
        "where": stopped.where,
        "without_step": stopped.without_step,
        "error": None if stopped.error is None else type(stopped.error).__name__,
        "models": [{name: type(each).__name__ for name, each in s.models.items()} for s in stopped.subjects],
        "watched": [s.is_watched for s in stopped.subjects],
        "optimizers": [[type(each).__name__ for each in s.optimizers] for s in stopped.subjects],
        "main": {
            name: value
            for name, value in vars(sys.modules["__main__"]).items()
            if isinstance(value, int | float | str) or name == "now"
        },
    }


def use(stopped: Stopped) -> int:
    """Going backward and stepping is free here."""
    weight = torch.nn.Parameter(torch.ones(1))
    weight.sum().backward()
    torch.optim.SGD([weight], lr=0.5).step()
    print(ANSWER + json.dumps({**told(stopped), "free": weight.item()}), flush=True)
    return 0


def main() -> None:
    assert steps_on_torch
    for line in sys.stdin:
        name, step, patience_secs = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            code = 3
            try:
                code = run_to_step(Script(name, ("--flag",)), use, step=step, patience_secs=patience_secs)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(ANSWER + json.dumps({"status": status}), flush=True)


if __name__ == "__main__":
    main()
