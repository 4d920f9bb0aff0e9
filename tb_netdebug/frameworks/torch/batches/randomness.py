"""Whether the seed is set anew in each step, so that the same numbers are drawn again and again."""

from __future__ import annotations

from ctypes import string_at

import torch


class RandomNumbers:
    """Compares the state of torch's generator on the processor: when the model is called, and at the end of
    the step.

    A state never comes back by itself. When it is the same at the calls of two steps in a row, and was
    another one in between, then numbers were drawn and somebody has set the generator back.
    """

    def __init__(self) -> None:
        self._at_call: bytes | None = None
        self._at_end: bytes | None = None

    def called(self) -> bool | None:
        """At the first call of a step: whether it was set back since the last; None when nothing was drawn
        since, or when the last step was not looked at."""
        before, self._at_call = self._at_call, state()
        if before is None or self._at_end is None:
            return None
        is_same = before == self._at_call
        return None if is_same and self._at_end == before else is_same

    def end_step(self) -> None:
        self._at_end = state()

    def forget(self) -> None:
        self._at_call = self._at_end = None


def state() -> bytes:
    """Read off the memory: modes that a program has put around operations see none."""
    found = torch.default_generator.get_state()
    return string_at(found.data_ptr(), found.nbytes)
