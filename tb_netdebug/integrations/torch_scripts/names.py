"""The names of models in the user's program, found without running any of it."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Sequence
from typing import Any

from torch import nn

from tb_netdebug.frameworks.torch.frames import user_frame

GIVES_PARAMETERS = ("parameters", "named_parameters")

# File and line.
Place = tuple[str, int]


def user_place() -> Place | None:
    """Return the running line of the user's program, or of a library when a library made the optimizer."""
    frame = user_frame(sys._getframe(1))
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def names_at(place: Place | None) -> list[str]:
    """Return names such as `model` in `Adam(model.parameters())`, for all models of the call in that line."""
    if place is None:
        return []
    try:
        tree = ast.parse("".join(linecache.getlines(place[0])))
    except (SyntaxError, ValueError):  # a notebook's magics; a file that has changed since
        return []
    except SystemError:  # CPython 3.11 may lose count of its recursion depth when several threads parse
        return []
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= place[1] <= (node.end_lineno or node.lineno)
    ]
    # The call that makes the optimizer encloses the others in the line.
    widest = max(calls, key=lambda call: (call.end_lineno or call.lineno) - call.lineno, default=None)
    inside = [] if widest is None else list(ast.walk(widest))
    named = [
        node.func.value
        for node in inside
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in GIVES_PARAMETERS
    ]
    named.sort(key=lambda node: (node.lineno, node.col_offset))
    return [ast.unparse(node).removeprefix("self.").replace("/", "_") for node in named]


def named(models: Sequence[nn.Module], guesses: dict[int, str]) -> dict[str, nn.Module]:
    """Return the models by the names of the main program, or by `guesses` (by id), or by class; all unique.

    A single model needs no name.
    """
    if len(models) == 1:
        return {"": models[0]}
    main = dict(vars(sys.modules.get("__main__", sys)))
    # Reversed, so that the first of several names for one model wins.
    in_main = {id(value): name for name, value in reversed(main.items()) if not name.startswith("_")}
    found: dict[str, nn.Module] = {}
    for model in models:
        name = in_main.get(id(model)) or guesses.get(id(model)) or type(model).__name__
        found[unused(name, found)] = model
    return found


def unused(name: str, taken: Any) -> str:
    """Return the name, with a number appended if it is taken."""
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def common_prefix(names: Sequence[str]) -> str:
    """Return the part of the module tree that all names share: "G" for "G.0.weight" and "G.1.bias"."""
    parts = [name.split(".")[:-1] for name in names]
    if not parts:
        return ""
    shortest = min(parts, key=len)
    same = 0
    while same < len(shortest) and len({tuple(each[: same + 1]) for each in parts}) == 1:
        same += 1
    return ".".join(shortest[:same])
