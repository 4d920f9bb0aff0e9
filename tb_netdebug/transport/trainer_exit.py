"""How a training process ended, in a sentence that claims no more than was seen."""

from __future__ import annotations

import os
import signal

from tb_netdebug.core.records.witness import Ending
from tb_netdebug.transport import stream_pb2 as pb

MOST_LETTERS = 80


def ending_of(*, time: float, goodbye: pb.Goodbye | None, status: int | None, memory_ran_out: bool) -> Ending:
    """Return how a process ended; `status` is encoded as `wait` does, None when it is not known."""
    code = None if status is None else os.waitstatus_to_exitcode(status)
    killed_by = -code if code is not None and code < 0 else None
    exit_code = code if code is not None and code >= 0 else None
    out_of_memory = memory_ran_out and killed_by == signal.SIGKILL
    error = goodbye.error[:MOST_LETTERS] if goodbye is not None else ""
    if error == KeyboardInterrupt.__name__:
        sentence = f"The program was interrupted ({error}), and closed its recording."
    elif killed_by is not None:
        sentence = _killed(killed_by, out_of_memory=out_of_memory, was_closed=goodbye is not None)
    elif exit_code:
        sentence = _failed(exit_code, error, was_closed=goodbye is not None)
    elif goodbye is None:
        sentence = _left(exit_code, memory_ran_out=memory_ran_out)
    elif error:
        sentence = f"The recording was closed because of {_with_article(error)}."
    else:
        sentence = "The training ended normally and closed its recording."
    is_well = goodbye is not None and not error and not exit_code and killed_by is None
    return Ending(time, is_well, exit_code, killed_by, out_of_memory, sentence)


def _killed(number: int, *, out_of_memory: bool, was_closed: bool) -> str:
    when = "after it had closed its recording" if was_closed else "in the middle of the training"
    what = f"The process was killed by {_name(number)} {when}."
    if out_of_memory:
        return (
            f"{what} The system reports that it killed a process of this group for lack of memory, most "
            "likely this one."
        )
    if number == signal.SIGKILL:
        return f"{what} The sender of the signal is unknown; the system does not report a lack of memory."
    return what


def _failed(code: int, error: str, *, was_closed: bool) -> str:
    reason = f" because of {_with_article(error)}" if error else ""
    rest = "" if was_closed else ", without closing its recording"
    return f"The program ended with exit code {code}{reason}{rest}."


def _left(exit_code: int | None, *, memory_ran_out: bool) -> str:
    if exit_code == 0:
        return "The program ended with exit code 0, without closing its recording (as os._exit does)."
    hint = (
        " The system killed a process of its group for lack of memory, possibly this one."
        if memory_ran_out
        else ""
    )
    return f"The process disappeared, and how it ended is unknown.{hint}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_article(error: str) -> str:
    return f"{'an' if error[:1].upper() in 'AEIOU' else 'a'} {error}"
