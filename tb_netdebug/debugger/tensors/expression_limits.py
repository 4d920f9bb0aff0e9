"""Limits the cost of an expression: it comes over the wire, and the run waits for it."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable

from tb_netdebug.debugger.workbench import WorkbenchError

MOST_LETTERS = 2000
MOST_DEPTH = 40
MOST_NODES = 300
MOST_BYTES = 64 << 20
MOST_BYTES_TOGETHER = 512 << 20
# Multiplications in one matrix product or decomposition: about a second.
MOST_PRODUCTS = 2_000_000_000
MOST_SECS = 3.0


class Budget:
    """The budget of one evaluation; every function that makes values asks it first. Raises WorkbenchError."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._until = clock() + MOST_SECS
        self._bytes = 0

    def take_time(self) -> None:
        if self._clock() > self._until:
            raise WorkbenchError(f"This takes longer than {MOST_SECS:g} s: take slices of the tensors first.")

    def take_values(self, shape: tuple[int, ...], item_bytes: int = 8) -> None:
        needed = math.prod(shape) * item_bytes
        self._bytes += needed
        if needed > MOST_BYTES:
            raise WorkbenchError(
                f"The {math.prod(shape)} values of shape {list(shape)} are more than {MOST_BYTES >> 20} MB: "
                "take a slice first, such as `NAME`[0]. mean, std, min, max, sum, norm, count, zeros and "
                "nonfinite of a whole tensor work at any size."
            )
        if self._bytes > MOST_BYTES_TOGETHER:
            raise WorkbenchError(
                f"The parts are more than {MOST_BYTES_TOGETHER >> 20} MB together: take slices first."
            )
        self.take_time()

    def take_products(self, count: int) -> None:
        if count > MOST_PRODUCTS:
            raise WorkbenchError(
                f"This takes {count:.1g} multiplications, which is too many: take slices first."
            )


def refuse_big(tree: ast.AST) -> None:
    """Refuse a tree that is too big or too deep, before any recursion walks through it."""
    waiting, count = [(tree, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > MOST_DEPTH or count > MOST_NODES:
            raise WorkbenchError("The expression is too long or too deeply nested: evaluate its parts.")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
