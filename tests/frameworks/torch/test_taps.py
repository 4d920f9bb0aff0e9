"""Functions of torch that are listened to stay what they are for everybody else."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import cross_entropy

from tb_netdebug.frameworks.torch.backward import watch_backward
from tb_netdebug.frameworks.torch.losses.functions import loss_functions
from tb_netdebug.frameworks.torch.taps import listen

INPUT = torch.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 0.3]])
TARGET = torch.tensor([1, 2])


def doubled(inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A user's function with a loss in it."""
    return functional.cross_entropy(inputs * 2, target)


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    """What the loss functions say of their calls while the test runs."""
    seen: list[Any] = []
    handles = [listen(each.function, after=lambda *call: seen.append(call)) for each in loss_functions()]
    yield seen
    for handle in handles:
        handle.close()


def test_all_ways_to_a_function_are_heard(calls: list[Any]) -> None:
    """Through its module, a loss module, and a name that was imported before anybody listened."""
    functional.cross_entropy(INPUT, TARGET)
    torch.nn.CrossEntropyLoss(reduction="sum")(INPUT, TARGET)
    cross_entropy(INPUT, target=TARGET, label_smoothing=0.5)
    assert 3 == len(calls)
    assert [INPUT, TARGET, None, None, -100, None, "sum", 0.0] == list(calls[1][0])
    assert calls[2][0][-1] == 0.5


def test_nothing_is_left_when_the_last_one_closes() -> None:
    """Two listen, one closes: the other still hears. Then the code is the function's own again."""
    code, told = cross_entropy.__code__, []
    first = listen(cross_entropy, after=lambda *_: told.append("first"))
    second = listen(cross_entropy, after=lambda *_: told.append("second"))
    cross_entropy(INPUT, TARGET)
    first.close()
    first.close()
    cross_entropy(INPUT, TARGET)
    assert cross_entropy.__code__ is not code
    second.close()
    cross_entropy(INPUT, TARGET)
    assert ["first", "second", "second"] == told
    assert cross_entropy.__code__ is code
    assert functional.cross_entropy is cross_entropy


def test_the_function_looks_the_same() -> None:
    """Name, signature, source, documentation and pickles, of all loss functions."""
    functions = [each.function for each in loss_functions()]

    def looks() -> list[Any]:
        return [
            (f.__name__, f.__doc__, inspect.signature(f), inspect.getsource(f), pickle.dumps(f))
            for f in functions
        ]

    before = looks()
    handles = [listen(each, before=lambda _: None) for each in functions]
    assert before == looks()
    assert len(functions) == len(handles) >= 20
    for handle in handles:
        handle.close()


def test_a_call_that_raises_is_reported_as_failed() -> None:
    """With its arguments; the traceback shows nothing more than without a listener."""
    told: list[tuple[str, Any]] = []
    handle = listen(
        cross_entropy,
        after=lambda args, _: told.append(("after", args[1])),
        failed=lambda args: told.append(("failed", args[1])),
    )
    cross_entropy(INPUT, TARGET)
    with pytest.raises(IndexError) as caught:
        cross_entropy(INPUT, TARGET + 9)
    handle.close()
    assert [("after", [1, 2]), ("failed", [10, 11])] == [(what, given.tolist()) for what, given in told]
    assert ["cross_entropy", "cross_entropy"] == [each.name for each in caught.traceback][1:]


def test_errors_and_warnings_are_those_of_the_function(calls: list[Any]) -> None:
    """What torch refuses it still refuses in its own words, and its warnings do not point at us."""
    with pytest.raises(ValueError, match="batch_size"):
        functional.cross_entropy(INPUT, torch.tensor([1, 2, 0]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        functional.mse_loss(torch.ones(3, 1), torch.ones(3))
    assert ["functional.py"] == [each.filename.rsplit("/", 1)[1] for each in told]
    assert 1 == len(calls)


def assert_same(function: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(doubled(INPUT, TARGET), function(*args), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_in_one_graph(backend: str, calls: list[Any]) -> None:
    """torch.compile(fullgraph=True) neither breaks nor is told about while it traces."""
    torch._dynamo.reset()
    compiled = torch.compile(doubled, fullgraph=True, backend=backend)
    found = compiled(INPUT, TARGET)
    assert len(calls) <= 1  # the backend "eager" calls the function itself
    assert_same(lambda: found)


def test_compiled_before_and_after(calls: list[Any]) -> None:
    """Listening and closing again and again makes no more than two compiled versions."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(doubled, fullgraph=True, backend="aot_eager")
    for _ in range(6):
        assert_same(compiled, INPUT, TARGET)
        handle = listen(functional.mse_loss, after=lambda *_: None)
        assert_same(compiled, INPUT, TARGET)
        handle.close()
    assert 1 == torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_closing_does_not_compile_anew() -> None:
    """A watched run after another finds the code that was compiled for the first."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(doubled, fullgraph=True, backend="aot_eager")
    for _ in range(5):
        assert_same(compiled, INPUT, TARGET)
        handle = listen(cross_entropy, after=lambda *_: None)
        assert_same(compiled, INPUT, TARGET)
        handle.close()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_scripted_traced_and_transformed(calls: list[Any]) -> None:
    """torch.jit and torch.fx see the function as it was."""
    assert_same(torch.jit.script(doubled), INPUT, TARGET)
    assert_same(torch.jit.trace(doubled, (INPUT, TARGET)), INPUT, TARGET)
    graph = torch.fx.symbolic_trace(doubled)
    assert functional.cross_entropy in [node.target for node in graph.graph.nodes]
    assert_same(graph, INPUT, TARGET)


def test_tables_of_tensor_subclasses_find_the_function(calls: list[Any]) -> None:
    """What overrides functions by their identity is given the function itself."""
    asked: list[Any] = []

    class Asking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    functional.cross_entropy(INPUT.as_subclass(Asking), TARGET)
    assert asked[0] is functional.cross_entropy


def test_only_plain_functions() -> None:
    """What is written in C has no code that could be exchanged."""
    with pytest.raises(TypeError, match="not a plain function"):
        listen(torch.relu, before=lambda _: None)


def test_all_kinds_of_parameters() -> None:
    """Positional-only, keyword-only, and what is left over of either, which comes behind the others."""

    def odd(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **options: int) -> list[Any]:
        return [a, b, rest, c, d, options]

    def only(*, key: int = 1) -> int:
        return key

    seen: list[Any] = []
    handles = [listen(each, before=seen.append) for each in (odd, only)]
    assert [1, 2, (), 3, 4, {}] == odd(1, c=3)
    assert [1, 5, (6,), 7, 8, {"e": 9}] == odd(1, 5, 6, c=7, d=8, e=9)
    assert (1, 9) == (only(), only(key=9))
    assert [(1, 2, 3, 4), (1, 5, 7, 8, 6, 9), (1,), (9,)] == seen
    for handle in handles:
        handle.close()


def test_who_exchanges_the_code_after_us_keeps_it() -> None:
    """Then ours is not put back, and tells nobody any more."""

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    handle = listen(one, before=lambda _: None)
    one.__code__ = two.__code__
    handle.close()
    assert 2 == one()
    again = listen(one, before=lambda _: None)
    assert 2 == one()
    again.close()
    assert one.__code__ is two.__code__


def test_backward_is_watched_at_both_ends() -> None:
    """By all that watch; Tensor.backward and torch.autograd.backward are the same."""
    told: list[Any] = []
    first = watch_backward(lambda roots: told.append(("before", roots)))
    second = watch_backward(after=lambda roots: told.append(("after", roots)))
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * 2).sum()
    loss.backward()
    losses = [weight.sum(), weight.prod()]
    torch.autograd.backward(losses)
    first.close()
    second.close()
    weight.sum().backward()
    assert [("before", loss), ("after", loss), ("before", losses), ("after", losses)] == told


def test_a_watcher_that_fails_does_not_disturb() -> None:
    """Without a guard it is said once, and the watch ends."""

    def fail(_: Any) -> None:
        raise ZeroDivisionError("ours")

    watch = watch_backward(fail)
    weight = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        weight.sum().backward()
    weight.sum().backward()
    assert weight.grad is not None
    assert [2.0, 2.0] == weight.grad.tolist()
    watch.close()
