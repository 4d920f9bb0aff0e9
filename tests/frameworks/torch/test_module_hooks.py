"""Hooks of ours are found by calls of a module, and by nobody else: neither in it nor in copies and files."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import subprocess
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.modules import module as torch_module

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.hooks import REGISTRIES, HookView, after_forward, before_forward

COPIES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "deep copy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "file": lambda model: torch.load(io.BytesIO(bytes_of(model)), weights_only=False),
}


class Own(nn.Module):
    """Its state is what its author says, as of many."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Own()), nn.Linear(3, 1))


def bytes_of(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.save(model, file)
    return file.getvalue()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, monitor: nd.Monitor) -> None:
    loss = model(torch.ones(4, 3)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)


def kinds_in(model: nn.Module) -> set[str]:
    """The types of all registries, and of all that is in them."""
    registries = [vars(module)[name] for module in model.modules() for name in REGISTRIES]
    return {type(each).__name__ for each in registries} | {
        type(hook).__module__ for each in registries for hook in OrderedDict.values(each)
    }


@pytest.mark.parametrize("numerics", ["sampled", "layers", "ops"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_hold_nothing_of_ours(name: str, numerics: str, logdir: Path) -> None:
    """While it is watched, and afterwards."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, every=1, check_numerics=numerics, strict=True) as monitor:
        step(model, optimizer, monitor)
        assert "HookView" in kinds_in(model)
        copied = COPIES[name](model)
        if name != "copy":  # which shares what modules have said themselves of their state
            assert {"OrderedDict"} == kinds_in(copied)
        assert type(vars(copied)["_forward_hooks"]) is OrderedDict
        step(model, optimizer, monitor)
    assert {"OrderedDict"} == kinds_in(model)


def test_files_are_the_same_to_the_byte(logdir: Path) -> None:
    """And can be read without NetDebug, with no class allowed that it would not take without us."""
    model = network()
    expected = bytes_of(model)
    with nd.watch(model, logdir=logdir, every=1, strict=True):
        written = bytes_of(model)
    assert expected == written
    file = logdir / "model.pt"
    file.write_bytes(bytes_of(model[0]))
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['tb_netdebug'] = None\n"
            "import torch; from torch import nn\n"
            "asked = torch.serialization.get_unsafe_globals_in_checkpoint(sys.argv[1])\n"
            "torch.serialization.add_safe_globals([nn.Linear])\n"
            "torch.load(sys.argv[1], weights_only=True)\n"
            "print(asked)",
            str(file),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "['torch.nn.modules.linear.Linear']\n" == told


def test_scripted_while_watched(logdir: Path) -> None:
    """As it is and as a copy, which is how averaged models are exported."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with nd.watch(model, logdir=logdir, every=1, check_numerics="ops", strict=True):
        expected = model(torch.ones(2, 3))
        for scripted in (torch.jit.script(model), torch.jit.script(copy.deepcopy(model).eval())):
            assert torch.equal(expected, scripted(torch.ones(2, 3)))
        averaged = torch.optim.swa_utils.AveragedModel(model)
        assert torch.equal(expected, averaged(torch.ones(2, 3)))


@pytest.mark.parametrize("numerics", ["sampled", "layers", "ops"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_once(backend: str, numerics: str, logdir: Path) -> None:
    """As one graph, whatever is watched of it, and with the user's own hook in it."""
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    model[0].register_forward_hook(lambda module, args, output: output * 2)
    expected = model(torch.ones(4, 3))
    graphs = CompileCounterWithBackend(backend)
    compiled: Any = torch.compile(model, backend=graphs, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(match="torch.compile allows no hooks"):
        monitor = nd.watch(compiled, optimizer, logdir=logdir, every=2, check_numerics=numerics)
    with monitor:
        assert torch.equal(expected, compiled(torch.ones(4, 3)))
        for _ in range(6):
            step(compiled, optimizer, monitor)
    assert 1 == graphs.frame_count


def test_an_evaluation_takes_the_way_that_it_would_take(logdir: Path) -> None:
    """torch evaluates a transformer on a faster way, with other last bits, when it has no hooks."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    batch = torch.randn(3, 5, 16)
    with torch.no_grad():
        expected = model.eval()(batch)
        with nd.watch(model, logdir=logdir, every=1, strict=True):
            assert torch.equal(expected, model(batch))


# ---- the user's own hooks ----------------------------------------------------------------------------------


def test_hooks_of_the_user_stay_theirs() -> None:
    """In their order, before, during and after ours; ours see what goes in first and what comes out last."""
    calls: list[str] = []
    module = nn.Linear(2, 2)

    def note(name: str) -> Callable[..., None]:
        return lambda *_: calls.append(name)

    older = module.register_forward_hook(note("older"))
    ours = [
        before_forward(module, lambda module, args, kwargs: calls.append("before"), with_kwargs=True),
        after_forward(module, note("after"), always_call=True),
    ]
    newer = module.register_forward_hook(note("newer"), prepend=True)
    theirs = module.register_forward_pre_hook(note("theirs"))
    module(torch.ones(1, 2))
    assert ["before", "theirs", "newer", "older", "after"] == calls
    assert (1, 2) == (len(module._forward_pre_hooks), len(module._forward_hooks))
    older.remove()
    theirs.remove()
    calls.clear()
    module(torch.ones(1, 2))
    assert ["before", "newer", "after"] == calls
    for handle in ours:
        handle.remove()
        handle.remove()
    calls.clear()
    module(torch.ones(1, 2))
    assert ["newer"] == calls
    newer.remove()
    module(torch.ones(1, 2))
    assert ["newer"] == calls


def test_a_hook_from_before_is_gone_for_the_compiler_too() -> None:
    """Its handle knows the registry that was there before ours; torch.compile looks into ours."""
    model = nn.Sequential(nn.Linear(3, 1))
    handles = [
        model[0].register_forward_hook(lambda module, args, output: output * 2),
        model[0].register_forward_hook(lambda module, args, kwargs, output: output * 3, with_kwargs=True),
        model[0].register_forward_hook(lambda module, args, output: output * 5),
    ]
    ours = after_forward(model[0], lambda *_: None)
    for handle in handles[:2]:
        handle.remove()
    given = torch.ones(2, 3)
    expected = model(given)
    torch._dynamo.reset()
    assert torch.equal(expected, torch.compile(model, backend="eager", fullgraph=True)(given))
    ours.remove()
    assert {OrderedDict} == {type(vars(model[0])[name]) for name in REGISTRIES}


def test_a_view_is_the_registry_to_everybody_else() -> None:
    """Whatever is done to it happens to the original, and nothing shows what is ours."""
    module = nn.Linear(2, 2)
    original = module._forward_hooks
    handle = after_forward(module, lambda *_: None)
    view: Any = module._forward_hooks
    assert isinstance(view, HookView)
    first, second = (lambda *_: None), (lambda *_: None)
    view[1], view[2] = first, second
    view.move_to_end(1)
    assert [2, 1] == list(view) == list(view.keys()) == list(original) == list(reversed([1, 2]))
    assert [second, first] == list(view.values())
    assert (True, OrderedDict(original), 2) == (view == original, view.copy(), len(view))
    assert {2: second, 1: first} == dict(view)
    assert repr(view) == repr(original)
    del original[2]  # as a handle that is older than the view does
    assert ([1], 2) == (list(view), len(view.items()))
    assert first is view.pop(1)
    assert "none" == view.pop(1, "none")
    assert second is view.setdefault(5, second)
    view.update({6: first})
    assert (6, first) == view.popitem()
    assert {5: second} == original
    view.clear()
    assert ({}, True) == (original, bool(view))
    handle.remove()
    assert module._forward_hooks is original


def test_registries_that_are_cleared_by_hand() -> None:
    """As some programs do: whatever is found there can be taken out, ours too, and nothing is left."""
    for clear in (
        lambda hooks: [hooks.__delitem__(key) for key, _ in list(hooks.items())],
        lambda hooks: [hooks.popitem() for _ in iter(lambda: bool(hooks), False)],
        lambda hooks: [hooks.pop(key) for key, _ in list(hooks.items())],
    ):
        calls: list[str] = []
        module = nn.Linear(2, 2)
        module.register_forward_hook(lambda *_, seen=calls: seen.append("theirs"))
        handle = after_forward(module, lambda *_, seen=calls: seen.append("ours"))
        clear(module._forward_hooks)
        module(torch.ones(1, 2))
        handle.remove()
        assert ([], 0) == (calls, len(module._forward_hooks))


def test_a_registry_that_is_shared_with_a_copy() -> None:
    """What is registered through the copy is called for both, as torch has it."""
    calls: list[str] = []
    module = nn.Linear(2, 2)
    first = module.register_forward_hook(lambda *_: calls.append("first"))
    copied = copy.copy(module)
    handle = after_forward(module, lambda *_: None)
    first.remove()
    copied.register_forward_hook(lambda *_: calls.append("second"))
    module(torch.ones(1, 2))
    assert ["second"] == calls
    handle.remove()


def test_a_raising_module_is_left_by_ours() -> None:
    """A hook that is called always is called then, too, and once."""
    calls: list[str] = []

    class Fails(nn.Module):
        def forward(self) -> None:
            raise ValueError("as ever")

    module = Fails()
    handle = after_forward(module, lambda *_: calls.append("after"), always_call=True)
    with pytest.raises(ValueError, match="as ever"):
        module()
    assert ["after"] == calls
    handle.remove()


def test_hooks_for_all_modules_stay_theirs(logdir: Path) -> None:
    calls: list[nn.Module] = []
    handle = torch_module.register_module_forward_hook(lambda module, *_: calls.append(module))
    model = nn.Linear(2, 1)
    with nd.watch(model, logdir=logdir, every=1, strict=True):
        model(torch.ones(1, 2))
    handle.remove()
    assert [model] == calls


# ---- modules that are hard to deal with --------------------------------------------------------------------


class Prickly(nn.Module):
    """Nothing but calling it is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = nn.Module.__hash__

    def __bool__(self) -> bool:
        raise RuntimeError("asked whether it is true")

    def __len__(self) -> int:
        raise RuntimeError("counted")


@pytest.mark.parametrize("numerics", ["sampled", "layers", "ops"])
def test_modules_that_may_not_be_compared(numerics: str, logdir: Path) -> None:
    model = nn.Sequential(Prickly(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, every=1, check_numerics=numerics, strict=True) as monitor:
        step(model, optimizer, monitor)


@pytest.mark.parametrize("options", [{}, {"check_numerics": "ops"}, {"debugger": True}])
def test_a_closed_monitor_lets_its_model_go(options: dict[str, Any], logdir: Path) -> None:
    """It may be kept for its findings."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, every=1, on_finding="ignore", **options) as monitor:
        for _ in range(3):
            step(model, optimizer, monitor)
    left = [weakref.ref(model), weakref.ref(optimizer)]
    del model, optimizer
    gc.collect()
    assert [None, None] == [each() for each in left]
    assert [] == [each for each in monitor.findings if each.rule == "nonfinite-loss"]


def test_hooks_of_the_user_have_the_numbers_that_they_would_have(logdir: Path) -> None:
    """They are keys in files of the model."""
    numbers = []
    for watched in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        first = model.register_forward_hook(lambda *_: None).id
        with nd.watch(model, optimizer, logdir=logdir, strict=True) if watched else nullcontext() as monitor:
            for _ in range(2):
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
                if monitor is not None:
                    monitor.step()
            numbers.append(model.register_forward_hook(lambda *_: None).id - first)
    assert [1, 1] == numbers


class Nested(nn.Module):
    """Of modules within each other; the innermost notes how many frames there are."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.inner = Nested(depth - 1) if depth else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.inner is not None:
            out: torch.Tensor = self.inner(x * self.scale)
            return out
        FRAMES.append(len(inspect.stack(0)))
        return x * self.scale


FRAMES: list[int] = []


def test_deeply_nested_modules_need_no_more_frames(logdir: Path) -> None:
    """Torch adds one for each module with hooks; else a model that just fits would not."""
    model = Nested(90)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model(torch.ones(2))
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2)).sum()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    alone, *watched = FRAMES
    assert all(alone <= each <= alone + 40 for each in watched)
