"""Reads what the graph of a loss still knows of a forward pass: tensors that operations saved for backward.

Reading them may run user code (hooks on saved tensors), so only a process that does not train does it. An
operation that uses weights belongs to their module. For the others, the call is repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.calls import ModelCall, next_operation
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.graph_nodes import MARK, name_of, number_of
from tb_netdebug.frameworks.torch.numerics.loss_origin import part_of
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, names_of
from tb_netdebug.frameworks.torch.values import tensors_in

MOST_NODES = 20_000
# Operations that may stand between a weight and the operation that uses it.
PASSING = frozenset(
    {"T", "Transpose", "Permute", "View", "ToCopy", "Expand", "Unsqueeze", "Reshape", "Slice", "Select"}
)
MOST_PASSED = 4
OUTPUTS = ("_saved_result", "_saved_out")

Owner = tuple[str, str]  # a module's name and class


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first operation that saved a NaN or +inf, or made one; numbers are autograd's sequence numbers."""

    origin: Origin
    number: int
    last_output: int  # the newest operation that made an output of a model
    is_within: bool  # whether the named module encloses it for certain
    operations: tuple[tuple[int, str], ...]  # all operations of the graph, with their names

    @property
    def is_in_a_model(self) -> bool:
        return self.number <= self.last_output


def first_seen(root: torch.Tensor, models: Mapping[str, nn.Module]) -> Sighting | None:
    """Return the first bad operation, with the innermost module that is known to enclose it."""
    nodes = forward_order(root)
    last_output = max((number_of(node) for node in nodes if MARK in node.metadata), default=-1)
    weights = owners_of_weights(models)
    owners = [owner_of(node, weights) for node in nodes]
    for place, node in enumerate(nodes):
        made, given = evidence_of(node)
        if made or given:
            own = origin_of(node, module_around(owners, place, models), is_made_here=made)
            is_within = own.where not in {name for name, _ in roots_of(models)}
            named = tuple((number_of(each), name_of(each)) for each in nodes)
            return Sighting(own, number_of(node), last_output, is_within and bool(own.where), named)
    return None


def roots_of(models: Mapping[str, nn.Module]) -> list[Owner]:
    """Return the names and classes of the models themselves; names of inner modules may lack the root's."""
    names = names_of(models)
    return [names[id(model)] for model in models.values()]


def origin_of(node: Any, owner: Owner, *, is_made_here: bool) -> Origin:
    operation = name_of(node).lower() if is_made_here else ""
    tensor = "" if is_made_here else "operand"
    return Origin("output", *owner, "NaN", 0, inputs_finite=is_made_here, tensor=tensor, operation=operation)


def forward_order(*roots: torch.Tensor) -> list[Any]:
    """Return the operations behind losses or outputs in the order in which they ran."""
    waiting: deque[Any] = deque(root.grad_fn for root in roots)
    seen: dict[Any, None] = {}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.popleft()
        if node is None or node in seen or name_of(node) == "AccumulateGrad":
            continue
        seen[node] = None
        waiting.extend(following for following, _ in node.next_functions)
    return sorted(seen, key=number_of)


def evidence_of(node: Any) -> tuple[bool, bool]:
    """Return whether a non-finite value was made here, and whether the operation was already given one."""
    inputs = outputs = False
    for name in dir(node):
        if not name.startswith("_saved_"):
            continue
        try:
            kept = getattr(node, name)
        except RuntimeError:  # freed by an earlier backward pass
            continue
        found = [flags_of(each.detach()) for _, each in tensors_in(kept)]
        if any(each.nan or each.pos_inf for each in found):
            outputs, inputs = (True, inputs) if name.startswith(OUTPUTS) else (outputs, True)
    return (outputs or makes_one(node)) and not inputs, inputs


def makes_one(node: Any) -> bool:
    """Return whether the operation's inputs are known to make a NaN or an infinity, such as a log of 0."""
    return part_of(node) not in ("", "target")


# ---- the module, by the weights that operations use -------------------------------------------------------


def owners_of_weights(models: Mapping[str, nn.Module]) -> dict[int, Owner]:
    names = names_of(models)
    return {
        id(weight): names[id(module)]
        for model in models.values()
        for module in model.modules()
        for weight in module._parameters.values()
        if weight is not None
    }


def owner_of(node: Any, weights: Mapping[int, Owner], passed: int = 0) -> Owner | None:
    """Return the module whose weights the operation uses."""
    for following, _ in node.next_functions:
        if following is None:
            continue
        if name_of(following) == "AccumulateGrad":
            found = weights.get(id(following.variable))
        elif name_of(following) in PASSING and passed < MOST_PASSED:
            found = owner_of(following, weights, passed + 1)
        else:
            continue
        if found is not None:
            return found
    return None


def module_around(owners: list[Owner | None], place: int, models: Mapping[str, nn.Module]) -> Owner:
    """Return the operation's owner, or the innermost module that encloses its neighbours with an owner."""
    own = owners[place]
    if own is not None:
        return own
    names = names_of(models)
    before = next((each for each in reversed(owners[:place]) if each is not None), None)
    behind = next((each for each in owners[place:] if each is not None), None)
    if before is None or behind is None:
        return names[id(next(iter(models.values())))] if len(models) == 1 else ("", "")
    known = dict(names.values())
    parts = before[0].split(".")
    common = ".".join(parts[: common_length(parts, behind[0].split("."))])
    return (common, f"{known[common]} (own code)") if common in known else ("", "")


def common_length(first: list[str], second: list[str]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second))
    )


def is_of_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")


# ---- the module, by a call that is repeated ----------------------------------------------------------------


class ModuleSpans:
    """Repeats a call and notes which operations run inside which module."""

    def __init__(self) -> None:
        self._running: list[tuple[nn.Module, int]] = []
        self._spans: list[tuple[int, int, nn.Module]] = []

    def repeat(self, call: ModelCall, model: nn.Module) -> list[Any]:
        """Repeat the call and return its operations in order. Raise what it raises."""
        with ExitStack() as stack:
            for module in model.modules():
                stack.callback(before_forward(module, self._enter).remove)
                stack.callback(after_forward(module, self._leave).remove)
            stack.enter_context(call.conditions())
            stack.enter_context(torch.enable_grad())
            torch.set_rng_state(call.before)
            output = model(*call.args, **call.kwargs)
        return forward_order(*(each for _, each in tensors_in(output)))

    def around(self, node: Any) -> list[nn.Module]:
        """Return the modules inside which an operation ran, innermost first."""
        number = number_of(node)
        spans = [each for each in self._spans if each[0] <= number < each[1]]
        return [module for _, _, module in sorted(spans, key=lambda span: span[1] - span[0])]

    def _enter(self, module: nn.Module, _: Any) -> None:
        self._running.append((module, next_operation()))

    def _leave(self, module: nn.Module, *_: Any) -> None:
        running, began = self._running.pop()
        if running is module:
            self._spans.append((began, next_operation(), module))


def suspect_of(modules: Sequence[nn.Module]) -> nn.Module | None:
    """Return the first module with user code, since torch's own layers repeat exactly; else the first."""
    own = (each for each in modules if not is_of_torch(each))
    return next(own, modules[0] if modules else None)


def between(before: Sequence[nn.Module], behind: Sequence[nn.Module] = ()) -> nn.Module | None:
    """Return the module that did something between an operation in `before` and one in `behind`.

    It is a module that had not ended, or one that had begun, if only one of the two sides has user code. Else
    only a module around both is certain. Among nested modules, the outermost is certain.
    """
    not_ended = [each for each in before if each not in behind and not is_of_torch(each)]
    begun = [each for each in behind if each not in before and not is_of_torch(each)]
    if bool(not_ended) != bool(begun):
        return (not_ended or begun)[-1]
    return suspect_of([each for each in before if each in behind])


def placed(seen: Sighting, call: ModelCall, models: Mapping[str, nn.Module], model: nn.Module) -> Origin:
    """Return the origin with its innermost module, found by repeating the call; unchanged when that fails.

    The same operations run both times up to the first difference: the value was made there.
    """
    spans = ModuleSpans()
    try:
        nodes = spans.repeat(call, model)
    except Exception:  # user code runs here
        return seen.origin
    here = [name for number, name in seen.operations if call.first_operation <= number <= seen.last_output]
    before = sum(call.first_operation <= number < seen.number for number, _ in seen.operations)
    there = [name_of(node) for node in nodes]
    same = common_length(here, there)
    same_behind = common_length(here[same:][::-1], there[same:][::-1])
    if before < same:
        module = suspect_of(spans.around(nodes[before]))
    elif same + same_behind < len(there):
        module = suspect_of(spans.around(nodes[same]))
    else:  # the first run had more operations than the repetition
        module = between(*(spans.around(node) for node in nodes[max(same - 1, 0) : same + 1]))
    if module is None:
        return seen.origin
    where, class_name = names_of(models)[id(module)]
    if seen.is_within and not f"{where}.".startswith(f"{seen.origin.where}."):
        return seen.origin  # the weights around the operation rule that module out
    is_own = next(module.children(), None) is not None
    return replace(seen.origin, where=where, class_name=f"{class_name} (own code)" if is_own else class_name)
