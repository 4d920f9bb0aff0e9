"""Checks whether the seed is set anew in each step, so that the same numbers are drawn repeatedly."""

from __future__ import annotations

from ctypes import string_at

import torch


class RandomNumbers:
    """Compares the state of torch's CPU generator at the model's call with that at the end of the step.

    A state never recurs by itself. If it is the same at the calls of two consecutive steps, but was another
    one in between, then numbers were drawn and the program has reset the generator.
    """

    def __init__(self) -> None:
        self._at_call: bytes | None = None
        self._at_end: bytes | None = None

    def called(self) -> bool | None:
        """Return, at a step's first call, whether the generator was reset since the last one.

        None if nothing was drawn since, or if the last step was not looked at.
        """
        before, self._at_call = self._at_call, state()
        if before is None or self._at_end is None:
            return None
        is_same = before == self._at_call
        # The same state all along: nothing was drawn.
        return None if is_same and self._at_end == before else is_same

    def end_step(self) -> None:
        self._at_end = state()

    def forget(self) -> None:
        self._at_call = self._at_end = None


def state() -> bytes:
    """Return the generator's state, read from memory so that modes of the program see no operation."""
    found = torch.default_generator.get_state()
    return string_at(found.data_ptr(), found.nbytes)
