"""What users do with a model beside training it: each gives something that can be compared."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import pkgutil
import re
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import fusion
from torch.optim.swa_utils import AveragedModel

from tests.matrix.outcome import digest, of_model

Operation = Callable[[nn.Module, tuple[Any, ...], Path], Any]
OPERATIONS: dict[str, Operation] = {}
ADDRESS = re.compile(r"0x[0-9a-f]+")


def operation(done: Operation) -> Operation:
    OPERATIONS[done.__name__] = done
    return done


def result_of(done: Operation, model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    """What came of it, or what was raised."""
    torch.manual_seed(3)
    try:
        return done(model, given, folder)
    except Exception as error:
        return f"raised {type(error).__name__}: {ADDRESS.sub('', str(error))[:400]}"


# ---- copies --------------------------------------------------------------------------------


@operation
def deep_copy(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return about(copy.deepcopy(model), given)


@operation
def deep_copy_of_list(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    """Together with other things that know it."""
    copied = copy.deepcopy({"model": model, "layers": list(model.modules()), "parts": [model, model]})
    assert copied["parts"][0] is copied["model"] is copied["layers"][0]
    return about(copied["model"], given)


@operation
def shallow_copy(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    """It shares everything with the original; what is called is what counts."""
    return called(copy.copy(model), given)


@operation
def averaged(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    average = AveragedModel(model, use_buffers=True)
    average.update_parameters(model)
    average.update_parameters(model)
    return about(average, given)


@operation
def pickled(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    """Not its bytes, in which torch puts addresses, but all names that it asks for."""
    reading = Names(io.BytesIO(pickle.dumps(model)))
    return about(reading.load(), given), sorted(reading.names)


class Names(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return super().find_class(module, name)


@operation
def state_dict(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    state = model.state_dict()
    again = copy.deepcopy(model)
    again.load_state_dict(state)
    return digest(dict(state)), repr(getattr(state, "_metadata", None)), about(again, given)


# ---- files ---------------------------------------------------------------------------------


@operation
def saved(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    path = folder / "model.pt"
    torch.save(model, path)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return digest(path.read_bytes()), sorted(unsafe), about(torch.load(path, weights_only=False), given)


@operation
def saved_with_weights_only(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    """Read with what is allowed that the file has of torch.nn and of the user, and with nothing else."""
    path = folder / "allowed.pt"
    torch.save(model, path)
    names = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    allowed = [pkgutil.resolve_name(name) for name in names if name.startswith(("torch.nn.", "tests."))]
    with torch.serialization.safe_globals(allowed):
        return about(torch.load(path, weights_only=True), given)


@operation
def saved_state(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    torch.save(model.state_dict(), folder / "state.pt")
    torch.load(folder / "state.pt", weights_only=True)
    return digest((folder / "state.pt").read_bytes())


# ---- other forms ---------------------------------------------------------------------------


@operation
def scripted(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return of_script(torch.jit.script(model), given)


@operation
def scripted_copy(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return of_script(torch.jit.script(copy.deepcopy(model).eval()), given)


@operation
def traced(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    evaluated = copy.deepcopy(model).eval()
    return of_script(torch.jit.trace(evaluated, given, strict=False, check_trace=False), given)


@operation
def traced_itself(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    with torch.random.fork_rng():
        return of_script(torch.jit.trace(model, given, strict=False, check_trace=False), given)


def of_script(script: Any, given: tuple[Any, ...]) -> Any:
    file = io.BytesIO()
    torch.jit.save(script, file)
    code = [(name, each.code) for name, each in script.named_modules() if hasattr(each, "code")]
    return digest(code), called(torch.jit.load(io.BytesIO(file.getvalue())), given)


@operation
def exported(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    program = torch.export.export(model, given)
    return ADDRESS.sub("", str(program.graph)), called(program.module(), given)


@operation
def symbolic(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    graph = torch.fx.symbolic_trace(model)
    return graph.code, called(graph, given)


@operation
def compiled_eager(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return compiled(model, given, "eager")


@operation
def compiled_aot_eager(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return compiled(model, given, "aot_eager")


@operation
def compiled_copy(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    return compiled(copy.deepcopy(model), given, "eager")


def compiled(model: nn.Module, given: tuple[Any, ...], backend: str) -> Any:
    """In both modes and twice each; how many graphs there were, and how often it was compiled anew."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graphs = torch._dynamo.testing.CompileCounterWithBackend(backend)
    whole = torch.compile(model, fullgraph=True, backend=graphs)
    results = []
    with torch._dynamo.config.patch(allow_rnn=True):
        for mode in (True, True, False, False, True):
            model.train(mode)
            results.append(called(whole, given))
    counters = {name: dict(counts) for name, counts in torch._dynamo.utils.counters.items()}
    breaks = sum(counters.get("graph_break", {}).values())
    return (
        results,
        graphs.frame_count,
        graphs.op_count,
        breaks,
        counters.get("stats", {}).get("unique_graphs"),
    )


@operation
def fused(model: nn.Module, given: tuple[Any, ...], folder: Path) -> Any:
    layers = list(copy.deepcopy(model).eval().children())
    if len(layers) < 2:
        return "nothing to fuse"
    sort = {nn.BatchNorm2d: fusion.fuse_conv_bn_eval, nn.BatchNorm1d: fusion.fuse_linear_bn_eval}
    fuse = sort.get(type(layers[1]))  # type: ignore[arg-type]
    if fuse is None:
        return "nothing to fuse"
    return about(fuse(layers[0], layers[1]), given)  # type: ignore[arg-type]


# ---- what is compared ----------------------------------------------------------------------


def called(model: Any, given: tuple[Any, ...]) -> str:
    """The output, and the gradients that come of it."""
    output = model(*given)
    several = (
        output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    )
    return digest([each.detach() for each in several])


def about(copied: nn.Module, given: tuple[Any, ...]) -> Any:
    """Everything of a copy: values, hooks, names of attributes, what is ours; then it is trained a step."""
    found = [
        of_model(copied),
        [hooks_of(each) for each in copied.modules()],
        ours(copied),
        ours_in_text(copied),
    ]
    found.append([sorted(vars(each)) for each in copied.modules()])
    found.append(called(copied, given))
    weights = [each for each in copied.parameters() if each.requires_grad]
    if weights:
        torch.stack([each.sum() for each in weights]).sum().backward()  # type: ignore[no-untyped-call]
    return found


def hooks_of(module: nn.Module) -> dict[str, list[str]]:
    """By the name of the dictionary: which functions there are."""
    return {
        name: [getattr(each, "__qualname__", type(each).__qualname__) for each in hooks.values()]
        for name, hooks in vars(module).items()
        if name.endswith("_hooks") and hooks
    }


def ours_in_text(copied: nn.Module) -> Any:
    """Not every model that can be copied can be pickled."""
    try:
        return b"tb_netdebug" in pickle.dumps(copied)
    except Exception as error:
        return type(error).__name__


def ours(root: object) -> list[str]:
    """All objects of NetDebug's that can be reached from this one, without classes, modules and globals."""
    seen, waiting, found = {id(root)}, [root], []
    while waiting:
        each = waiting.pop()
        where = each.__module__ if isinstance(each, types.FunctionType) else type(each).__module__
        if str(where).startswith("tb_netdebug"):
            found.append(f"{where}.{getattr(each, '__qualname__', type(each).__qualname__)}")
        for other in referred(each):
            if id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
    return sorted(set(found))


def referred(each: object) -> list[Any]:
    if isinstance(each, (type, types.ModuleType, types.FrameType, types.CodeType, weakref.ref, str, bytes)):
        return []
    if isinstance(each, types.FunctionType):
        return [each.__closure__, each.__defaults__, each.__kwdefaults__, vars(each)]
    return gc.get_referents(each)
