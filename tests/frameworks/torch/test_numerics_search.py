"""Searching for the first NaN or infinity of a run changes nothing, and does not always work."""

from __future__ import annotations

import itertools
import queue
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import assert_equal, hooks_of, our_warnings, state_of
from tests.support.numerics import NAN, Between, Inside, facts_told, rows, train


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells, with the step in which it tells it."""
    return facts_told(monkeypatch)


# ---- nothing changes --------------------------------------------------------------------------------------


class Eventful(nn.Module):
    """Everything that a forward pass can leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 8, max_norm=0.5)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.spectral = nn.utils.spectral_norm(nn.Linear(8, 8))
        self.modern = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.state: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        noise = random.random() + float(np.random.rand())
        hidden = self.dropout(self.norm(self.embedding(x))) + noise * torch.rand(8)
        hidden = self.modern(torch.relu(self.spectral(hidden)))
        self.state = hidden.detach()
        result: torch.Tensor = self.head(hidden)
        return result


@pytest.mark.parametrize("options", [None, {}, {"check_numerics": "layers"}, {"check_numerics": "ops"}])
@pytest.mark.parametrize("mode", [True, False])
def test_nothing_changes(options: dict[str, Any] | None, mode: bool, logdir: Path) -> None:
    """The loss of one step in three is NaN, its gradients are left out: weights and random numbers agree."""

    def run(options: dict[str, Any] | None) -> Any:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        model = Eventful().train(mode)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        monitor = None
        if options is not None:
            monitor = nd.watch(
                model, optimizer, logdir=logdir, run="run", strict=True, on_finding="ignore", **options
            )
        losses = []
        for step in range(7):
            optimizer.zero_grad()
            output = model(torch.randint(7, (6,)))
            loss = functional.cross_entropy(output, torch.randint(2, (6,)))
            if step % 3 == 1:
                loss = loss + torch.log(-output.abs()).mean()
            losses.append(repr(loss.item()))
            loss.backward()  # type: ignore[no-untyped-call]
            if step % 3 != 1:
                optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
        if monitor is not None:
            monitor.close()
        drawn = [repr(random.random()), repr(float(np.random.rand()))]
        assert model.state is not None
        return state_of(model, [*losses, *drawn, repr(model.state.sum().item())]), hooks_of(model)  # type: ignore[list-item]

    before, after = run(None), run(options)
    before[0].gradients, after[0].gradients = {}, {}
    assert_equal(before[0], after[0])
    assert before[1] == after[1]


def test_the_buffers_of_a_graph_may_not_be_touched(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A backward pass that needs a buffer as it was still runs after the search."""
    torch.manual_seed(0)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.scale.mul_(1.5)
            return torch.log(-(self.linear(x) * self.scale).abs())

    model = Scaled()
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = model(torch.randn(2, 4)).mean()
        loss.backward()
        monitor.step(loss=loss)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((4,), 1.5), model.scale)


def test_the_batch_is_not_written_to_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A model that works in place gets copies."""
    x = torch.full((2, 4), 2.0)

    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(-self.linear(x.mul_(2.0)).abs())

    train(Doubling(), lambda _: (x,), logdir, steps=1)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((2, 4), 4.0), x)


class Talkative(nn.Linear):
    """Prints in each forward pass, as people who look for a NaN do, and lets another thread print as well."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        print("forward")  # noqa: T201
        print("to the other stream", file=sys.stderr)  # noqa: T201
        other = threading.Thread(target=print, args=["of another thread"])
        other.start()
        other.join()
        return super().forward(input) + NAN


def test_what_is_printed_is_printed_once(
    logdir: Path, facts: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the copy of the process prints is heard by nobody."""
    streams = sys.stdout, sys.stderr
    train(Talkative(4, 1), rows, logdir, steps=1)
    told = capsys.readouterr()
    assert [0] == [fact["step"] for fact in facts]
    assert (1, 1) == (told.out.count("forward"), told.err.count("to the other stream"))
    assert 1 == told.out.count("of another thread")
    assert streams == (sys.stdout, sys.stderr)


COLLECTED: list[torch.Tensor] = []


def test_what_hooks_and_code_have_collected(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Lists and dictionaries that are filled by hooks or by `forward` get nothing from the search."""
    near: dict[str, list[torch.Tensor]] = {"outputs": []}

    class Store:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def hook(self, *given: Any) -> None:
            self.seen.append(given)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.cache: dict[str, Any] = {"all": []}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            COLLECTED.append(x)
            self.cache["all"].append(x)
            return torch.log(-self.linear(x).abs())

    COLLECTED.clear()
    model, store = Net(), Store()
    model.linear.register_forward_hook(lambda _, __, output: near["outputs"].append(output))
    model.linear.register_forward_pre_hook(store.hook)
    train(model, rows, logdir, steps=2)
    assert "log" == facts[0]["operation"]
    assert [2] * 4 == [len(COLLECTED), len(near["outputs"]), len(store.seen), len(model.cache["all"])]


def test_values_from_nowhere(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """What torch does not see being made is at least said of the module that puts it out."""

    class Outside(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            result = x.clone()
            result.numpy()[:] = NAN
            return result

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return gradient

    train(Between(Outside.apply), rows, logdir, steps=1)
    assert ("output", "NaN", "") == (facts[0]["what"], facts[0]["kind"], facts[0]["why_not"])


def test_evaluations_and_losses_of_the_search_are_not_counted(logdir: Path) -> None:
    """No probe takes the repeated forward pass for one of the user's."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    seen: list[dict[str, float]] = []
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = torch.log(-model(torch.randn(2, 4)).abs()).mean()
        loss.backward()
        seen.append(dict(monitor._collector.scalars))
        monitor.step(loss=loss)
    assert not seen[0].get("probe/evaluations")


# ---- what cannot be repeated ------------------------------------------------------------------------------


def test_autocast_is_on_again_in_the_search(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """An overflow of float16 does not happen in float32; the backward pass begins outside of autocast."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for layer in (model[0], model[1]):
        nn.init.constant_(layer.weight, 300.0)
        nn.init.zeros_(layer.bias)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.ones(2, 4)).float().mean()
        loss.backward()
        monitor.step(loss=loss)
    assert ("1", "Inf", "") == (facts[0]["where"], facts[0]["kind"], facts[0]["why_not"])


def test_a_model_that_differentiates(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Forces are gradients of an energy: such a pass is repeated with gradients, and leaves none."""
    torch.manual_seed(0)

    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad(self.linear(x).tanh().sum(), x, create_graph=True)
            return torch.log(-force.abs())

    train(Forces(), rows, logdir, steps=1, check_numerics="sampled")
    assert ("output", "log", "") == (facts[0]["what"], facts[0]["operation"], facts[0]["why_not"])


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_activation_checkpointing(is_reentrant: bool, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Modules that are called again in backward are named like all others."""
    torch.manual_seed(0)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block = nn.Linear(4, 4), Between(torch.log)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.utils.checkpoint.checkpoint(
                self.block, self.first(x), use_reentrant=is_reentrant
            )
            return result

    train(Checkpointed(), rows, logdir, steps=1)
    assert ("block", "log", "") == (facts[0]["where"], facts[0]["operation"], facts[0]["why_not"])


def test_a_model_that_cannot_be_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The reason is told, and that its output was not finite."""

    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.numbers = itertools.count()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if next(self.numbers):
                raise ValueError("only once")
            return torch.log(-self.linear(x).abs())

    train(Once(), rows, logdir, steps=1)
    assert ("output", "Once") == (facts[0]["what"], facts[0]["where"])
    assert "ValueError: only once" in facts[0]["why_not"]


def test_a_model_that_talks_to_others_is_not_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Other processes would not answer, and ours would wait for them."""

    class Talking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            torch.distributed.all_reduce(y.detach())
            return torch.log(-y.abs())

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        train(Talking(), rows, logdir, steps=1)
    finally:
        torch.distributed.destroy_process_group()
    assert "communicates with other processes" in facts[0]["why_not"]


def test_a_compiled_model_is_followed_uncompiled(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """And is not compiled again because of it."""
    torch._dynamo.reset()
    compilations: list[int] = []

    def count(graph: Any, _: Any) -> Any:
        compilations.append(1)
        return graph

    torch.manual_seed(0)
    model = torch.compile(Inside(torch.log), backend=count)
    with our_warnings():
        train(model, rows, logdir, steps=4, strict=False)  # type: ignore[arg-type]
    assert ("blocks.1", "log") == (facts[0]["where"], facts[0]["operation"])
    assert [1] == compilations


def test_a_model_compiled_in_place(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """No call of it is seen, but what it has kept for the way back is."""
    torch._dynamo.reset()
    model = Inside(torch.log)
    model.compile(backend="eager")
    with our_warnings():
        train(model, rows, logdir, steps=2, strict=False)
    assert ("output", "blocks.1", "log") == tuple(facts[0][name] for name in ("what", "where", "operation"))
    assert "no call of the model was seen" == facts[0]["why_not"]


# ---- what lies outside of the model's buffers --------------------------------------------------------------


class Drawing(nn.Module):
    """With generators, an iterator and a counter of its own."""

    drawn = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.own, self.numpy = torch.Generator().manual_seed(3), np.random.default_rng(3)
        self.python, self.numbers = random.Random(3), itertools.count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Drawing.drawn += 1
        noise = torch.rand((), generator=self.own) + self.numpy.random() + self.python.random()
        with torch.no_grad():
            self.linear.weight.add_(1e-3 * next(self.numbers))
        result: torch.Tensor = self.linear(x) + noise
        return result

    def state(self) -> tuple[Any, ...]:
        drawn = repr(self.own.get_state().sum()), self.numpy.random(), self.python.random()
        return (*drawn, next(self.numbers), Drawing.drawn, repr(self.linear.weight.sum().item()))


@pytest.mark.parametrize("numerics", [None, "sampled", "layers", "ops"])
def test_state_outside_of_buffers_stays(
    numerics: str | None, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    """A batch of NaN is skipped by the program; everything goes on as without us."""

    def run(numerics: str | None) -> tuple[Any, ...]:
        torch.manual_seed(0)
        Drawing.drawn = 0
        model = Drawing()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        options = {"check_numerics": numerics, "strict": True, "on_finding": "ignore", "logdir": logdir}
        monitor = nd.watch(model, optimizer, **options) if numerics else None  # type: ignore[arg-type]
        for step in range(4):
            loss = model(torch.randn(3, 4) * (NAN if step == 2 else 1)).mean()
            optimizer.zero_grad()
            loss.backward()
            if loss.isfinite():
                optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
        if monitor is not None:
            monitor.close()
        return model.state()

    assert run(None) == run(numerics)
    assert (["input"] if numerics else []) == [fact["what"] for fact in facts]


@pytest.mark.usefixtures("little_patience")
def test_a_model_that_waits_for_its_queue(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """It would wait for ever when it is called again: a copy of the process does, until the run ends."""
    ready: queue.Queue[float] = queue.Queue()

    class Waits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.linear(x) * ready.get()
            return result

    for value in (1.0, NAN, 1.0):
        ready.put(value)
    train(Waits(), rows, logdir, steps=3)
    assert ready.empty()
    (fact,) = facts
    assert ("unknown", 1, None, "the run ended first") == tuple(
        fact[name] for name in ("what", "step", "repeats", "why_not")
    )
    assert Path(fact["capsule"]).is_file()


def divided(x: torch.Tensor) -> torch.Tensor:
    """More operations than there are when it does not happen."""
    result: torch.Tensor = torch.relu(x / torch.zeros_like(x) * 0).neg()
    return result


def test_what_a_signal_handler_raises_reaches_the_program(logdir: Path) -> None:
    """Also while the training waits for the copy: a time limit ends it, and is no fault of ours."""
    ready: queue.Queue[float] = queue.Queue()

    class Waits(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) * ready.get()

    def interrupt(*_: object) -> None:
        raise TimeoutError("time is up")

    ready.put(NAN)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(TimeoutError, match="time is up"):
            train(Waits(4, 1), rows, logdir, steps=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_one_that_could_not_be_run_again(logdir: Path, facts: list[dict[str, Any]], tmp_path: Path) -> None:
    """Nothing is claimed of what it would have given."""
    file = tmp_path / "seen"

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.log(-self.linear(x).abs())
            file.write_text("seen", encoding="utf-8")
            return hidden

    train(Writes(), rows, logdir, steps=1)
    (fact,) = facts
    assert ("log", None) == (fact["operation"], fact["repeats"])
    assert "could not be run again (PermissionError" in fact["why_not"]


def test_a_model_with_a_sparse_buffer(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """As those of graphs have; it has no memory that could be shared."""

    class OfGraph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("edges", torch.eye(3).to_sparse())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            edges: Any = self.edges
            return torch.log(-torch.sparse.mm(edges, self.linear(x)).abs())

    train(OfGraph(), lambda step: (torch.randn(3, 4),), logdir, steps=1)
    assert ("log", "OfGraph") == (facts[0]["operation"], facts[0]["where"])


class Once(nn.Module):
    """Makes a NaN in its second call, and in no other."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.calls = itertools.count()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(-x.abs()) if next(self.calls) == 1 else x.tanh()


@pytest.mark.parametrize(
    ("function", "operation"), [(torch.log, "log"), (torch.sqrt, "sqrt"), (divided, "div")]
)
def test_one_that_does_not_repeat(
    function: Callable[[torch.Tensor], torch.Tensor],
    operation: str,
    logdir: Path,
    facts: list[dict[str, Any]],
) -> None:
    """The innermost module that was seen with it is named, and that the cause lies elsewhere."""
    parts = nn.Sequential(nn.Linear(4, 4), Once(function), nn.Linear(4, 4))
    train(
        nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), parts), nn.Linear(4, 1)),
        rows,
        logdir,
        steps=3,
    )
    (fact,) = facts
    seen = tuple(fact[name] for name in ("where", "class_name", "operation", "repeats", "inputs_finite"))
    assert ("1.1.1", "Once", operation, False, True) == seen
    (finding,) = (
        each for run in nd.check(logdir).runs for each in run.findings if each.rule == "nonfinite-activation"
    )
    assert "1.1.1 (Once)" in finding.message
    assert "gave finite values" in finding.message


class MoreOnce(nn.Module):
    """Does one operation more in its second call than in any other."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = itertools.count()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.linear(x)
        return torch.sqrt(-hidden.abs()) if next(self.calls) == 1 else hidden


class Scaled(nn.Module):
    """Code of the user that begins at once."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh() * 2


@pytest.mark.parametrize(
    ("behind", "where"),
    [(nn.GELU(), "1"), (nn.Linear(4, 4), "1"), (Scaled(), "")],
    ids=["a layer without weights", "a layer", "own code, too"],
)
def test_an_operation_more_is_not_of_the_layer_behind(
    behind: nn.Module, where: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    """Layers of torch do the same every time. Of two modules that may have done it neither is named."""
    model = nn.Sequential(nn.Linear(4, 4), MoreOnce(), behind, nn.Linear(4, 1))
    train(model, rows, logdir, steps=3)
    (fact,) = facts
    assert ("sqrt", False) == (fact["operation"], fact["repeats"])
    assert (where or "Sequential") == fact["where"]
