"""What `netdebug replay` does in the process that is held, done in a fork of this one, without a script."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

import torch

from tb_netdebug.cli import replay as command
from tb_netdebug.cli import replaying


def replay_here(words: Sequence[str]) -> int:
    """Return the exit code of the words behind `netdebug replay`, which name no script.

    A fork, because a process in which training was stopped cannot train any more.
    """
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = parser.parse_args(command.spelled_out(words))
    assert not arguments.script
    outputs = [os.memfd_create(name) for name in ("output", "errors")]
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        act(arguments, outputs)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for descriptor, stream in zip(outputs, (sys.stdout, sys.stderr), strict=True):
        with os.fdopen(descriptor) as file:
            file.seek(0)
            stream.write(file.read())
    return code


def act(arguments: argparse.Namespace, outputs: Sequence[int]) -> None:
    """In the fork: threads of torch are not there any more, so none are asked for."""
    code = 70
    try:
        sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False) for each in outputs)
        torch.set_num_threads(1)
        is_for_debugger = command.is_for_debugger(arguments.debug)
        code = replaying.replay(**vars(arguments), is_for_debugger=is_for_debugger)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
