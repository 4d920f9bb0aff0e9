"""The module tree and the data flow of the first forward pass, for the graph in the recording."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.core.records.graph import Edge, Graph, Node, Parameter, TensorType, encode_graph
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward, is_too_deep
from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.guard import Guard

# Two modules are rarely more than a few operations apart; a longer way back is given up. In a residual stream
# every block gets something from all blocks before it. After this many operations in all, only the nearest
# few are followed, or a network of a thousand blocks would wait for half a million edges.
MOST_OPERATIONS = 2000
MOST_OPERATIONS_IN_ALL = 200_000
NEAREST_OPERATIONS = 32
# A model that is not called within this many steps is described without data flow.
PATIENCE_STEPS = 3


@dataclass(slots=True)
class ModuleTrace:
    """What one module did in its first forward pass."""

    name: str
    order: int | None = None
    calls: int = 0
    inputs: tuple[TensorType, ...] = ()
    outputs: tuple[TensorType, ...] = ()


@dataclass(slots=True)
class ForwardFlow:
    """Where the tensors of a forward pass come from, kept for this pass only.

    No tensor is kept alive: checkpointing may be about to free it for want of memory.
    """

    by_tensor: dict[int, tuple[weakref.ref[torch.Tensor], tuple[str, int]]] = field(default_factory=dict)
    by_operation: dict[Any, tuple[str, int]] = field(default_factory=dict)
    followed: int = 0

    def produced(self, name: str, output: int, tensor: torch.Tensor) -> None:
        """Note that module `name` returned the tensor as its output number `output`."""
        self.by_tensor[id(tensor)] = (weakref.ref(tensor), (name, output))
        if tensor.grad_fn is not None:
            self.by_operation[tensor.grad_fn] = (name, output)

    def sources(self, tensor: torch.Tensor) -> list[tuple[str, int]]:
        """Return the module outputs that a tensor was computed from, maybe by operations between modules."""
        direct = self.by_tensor.get(id(tensor))
        # The weak reference guards against an id that a newer tensor has taken over.
        if direct is not None and direct[0]() is tensor:
            return [direct[1]]
        found: dict[tuple[str, int], None] = {}
        waiting: deque[Any] = deque([tensor.grad_fn])
        seen: set[Any] = set()
        most = MOST_OPERATIONS if self.followed < MOST_OPERATIONS_IN_ALL else NEAREST_OPERATIONS
        while waiting and len(seen) < most:
            operation = waiting.popleft()
            if operation is None or operation in seen:
                continue
            seen.add(operation)
            source = self.by_operation.get(operation)
            if source is None:
                waiting.extend(following for following, _ in operation.next_functions)
            else:
                found[source] = None
        self.followed += len(seen)
        return list(found)


class GraphTracer:
    """Follows the first forward pass of each model with hooks on all modules, then removes the hooks."""

    def __init__(self, models: Mapping[str, nn.Module], guard: Guard) -> None:
        self._models = models
        self._guard = guard
        self._traces: dict[int, ModuleTrace] = {}
        self._edges: dict[Edge, None] = {}  # a set that keeps its order
        self._flow: ForwardFlow | None = ForwardFlow()
        self.is_taken = False
        self._calls = 0
        self._waited = 0
        self._pending = {id(model) for model in models.values()}
        self._hooks: list[tuple[ModuleTrace, Any]] = []
        for prefix, model in models.items():
            self._install(prefix, model)

    def take(self) -> bytes | None:
        """Return the encoded graph once all models were called or PATIENCE_STEPS have passed, else None."""
        if self._flow is None:
            return None
        self._waited += 1
        if self._pending and self._waited < PATIENCE_STEPS:
            return None
        self._flow, self.is_taken = None, True
        # The other hooks may have gone into a compiled graph, which would be compiled again without them.
        self._take_off([hook for trace, hook in self._hooks if trace.calls])
        self._hooks = [(trace, hook) for trace, hook in self._hooks if not trace.calls]
        return encode_graph(Graph(tuple(self._nodes()), tuple(self._edges)))

    def order_of(self, module: nn.Module) -> int | None:
        """Return the position of a module's first call, or None if that was not seen."""
        trace = self._traces.get(id(module))
        return None if trace is None else trace.order

    def close(self) -> None:
        self._flow = None
        self._take_off([hook for _, hook in self._hooks])

    def _take_off(self, hooks: Sequence[Any]) -> None:
        for hook in hooks:
            hook.remove()

    def _install(self, prefix: str, model: nn.Module) -> None:
        wrappers = wrappers_of(model)
        for name, module in model.named_modules():
            full = "/".join(part for part in (prefix, clean(name, wrappers)) if part) or type(model).__name__
            trace = self._traces[id(module)] = ModuleTrace(full)
            if is_too_deep(name, module):
                continue
            before = before_forward(module, self._before, with_kwargs=True)
            self._hooks += [(trace, before), (trace, after_forward(module, self._after))]

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_followed(module):
            return
        try:
            self._enter(self._traces[id(module)], module, list(tensors_in((*args, *kwargs.values()))))
        except Exception as error:
            self._guard.fault("following the data flow", error)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_followed(module):
            return
        try:
            self._leave(self._traces[id(module)], module, [tensor for _, tensor in tensors_in(output)])
        except Exception as error:
            self._guard.fault("following the data flow", error)

    def _is_followed(self, module: nn.Module) -> bool:
        if self._flow is None or not self._pending or not torch.is_grad_enabled():
            return False
        # torch.jit.trace would record what we do with its tensors.
        return not torch._C._is_tracing()

    def _enter(self, trace: ModuleTrace, module: nn.Module, inputs: list[tuple[str, torch.Tensor]]) -> None:
        if trace.order is None:
            trace.order = self._calls
            trace.inputs = tuple(type_of(tensor) for _, tensor in inputs)
        self._calls += 1
        trace.calls += 1
        if self._flow is None or not is_end(module):
            return
        for place, (_, tensor) in enumerate(inputs):
            for source, output in self._flow.sources(tensor):
                self._edges[Edge(source, trace.name, type_of(tensor), output, place)] = None

    def _leave(self, trace: ModuleTrace, module: nn.Module, outputs: list[torch.Tensor]) -> None:
        trace.outputs = tuple(type_of(tensor) for tensor in outputs)
        if self._flow is not None and is_end(module):
            for place, tensor in enumerate(outputs):
                self._flow.produced(trace.name, place, tensor)
        self._pending.discard(id(module))
        if not self._pending and self._flow is not None:
            self._flow = ForwardFlow()  # releases the autograd nodes

    def _nodes(self) -> list[Node]:
        nodes: dict[str, Node] = {}
        for prefix, model in self._models.items():
            wrappers = wrappers_of(model)
            names = {clean(name, wrappers): module for name, module in model.named_modules()}
            for name, module in names.items():
                trace = self._traces.get(id(module)) or ModuleTrace(name)
                full = "/".join(part for part in (prefix, name) if part) or type(model).__name__
                parent = self._parent(prefix, name, type(model).__name__)
                if full not in nodes and (parent is None or parent in nodes):
                    nodes[full] = node_of(full, parent, module, trace)
        return list(nodes.values())

    def _parent(self, prefix: str, name: str, root: str) -> str | None:
        if not name:
            return None
        above = name.rpartition(".")[0]
        return "/".join(part for part in (prefix, above) if part) or root


def is_end(module: nn.Module) -> bool:
    """Return whether edges end at a module: those that compute something do, their containers do not."""
    return next(module.children(), None) is None or next(module.parameters(recurse=False), None) is not None


def type_of(tensor: torch.Tensor) -> TensorType:
    # A nested tensor has no plain shape; its values have.
    if tensor.is_nested:
        tensor = tensor.detach().values()
    return TensorType(tuple(int(size) for size in tensor.shape), str(tensor.dtype).removeprefix("torch."))


def node_of(name: str, parent: str | None, module: nn.Module, trace: ModuleTrace) -> Node:
    file, line = source_of(module)
    parameters = [each for each in module.parameters() if not is_lazy(each)]
    return Node(
        name=name,
        class_name=type(module).__name__,
        parent=parent,
        parameters=sum(each.numel() for each in parameters),
        trainable=sum(each.numel() for each in parameters if each.requires_grad),
        own_parameters=tuple(
            Parameter(own, type_of(tensor), tensor.requires_grad)
            for own, tensor in module.named_parameters(recurse=False)
            if not is_lazy(tensor)
        ),
        source_file=file,
        source_line=line,
        inputs=trace.inputs,
        outputs=trace.outputs,
        calls=trace.calls,
        order=trace.order,
    )


def code_of(module: nn.Module) -> CodeType | None:
    """Return the code of a module's forward, or None where that is no Python function."""
    return getattr(getattr(type(module), "forward", None), "__code__", None)


def source_of(module: nn.Module) -> tuple[str, int]:
    """Return file and line of a module's forward.

    The file is relative to the working folder where it lies in it; else it is cut to its last three parts.
    """
    code = code_of(module)
    if code is None:
        return "", 0
    path = Path(code.co_filename)
    try:
        return str(path.relative_to(Path.cwd())), code.co_firstlineno
    except (ValueError, OSError):
        return "/".join(path.parts[-3:]), code.co_firstlineno
