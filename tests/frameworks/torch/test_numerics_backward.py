"""A NaN that comes up on the way back: which operation made it, at which line, in its step."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.numerics.backward_checks import BackwardChecks
from tb_netdebug.frameworks.torch.numerics.capsule_file import load_capsule
from tb_netdebug.frameworks.torch.numerics.replay import replay
from tb_netdebug.recording.governor import Governor
from tests.support.numerics import Between, Inside, facts_told, rows, train


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return facts_told(monkeypatch)


def root_of_square(given: torch.Tensor) -> torch.Tensor:
    zero = given * 0.0
    return torch.sqrt(zero * zero)  # has no slope


def loss_of(output: torch.Tensor) -> torch.Tensor:
    return root_of_square(output).mean()


def line() -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    at = next(at for at, each in enumerate(lines, 1) if each.endswith("# has no slope"))
    return f"test_numerics_backward.py:{at}"


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], torch.Tensor], str]] = {
    "in the loss": (lambda: nn.Linear(4, 2), loss_of, "Linear"),
    "in a model": (lambda: Between(root_of_square), torch.mean, "Between"),
    "deep inside": (lambda: Inside(root_of_square), torch.mean, "blocks.1"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operation_is_named(name: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """With its line and the module around it, and so in the finding; the capsule holds weights of before."""
    make, loss, where = CASES[name]
    train(make(), rows, logdir, loss_of=loss, check_numerics="ops", steps=2)
    told = facts[0]
    assert (0, "gradient", where, "SqrtBackward0", line()) == tuple(
        told[each] for each in ("step", "what", "where", "operation", "site")
    )
    weights = load_capsule(told["capsule"])["models"][""].values()
    assert all(each.isfinite().all() for each in weights)
    (finding,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-gradient")
    assert f"They appeared on the way back in SqrtBackward0 at {line()}, which was given" in finding.message
    assert ("SqrtBackward0", line()) == tuple(finding.evidence[each].value for each in ("operation", "line"))


def test_by_default_the_first_layer_on_the_way_back_is_named(logdir: Path) -> None:
    """And what names the operation: the mode, and a replay of the capsule."""
    train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, steps=1)
    (finding,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-gradient")
    assert 'the first with such gradients (check_numerics="ops" names the operation)' in finding.message
    done = replay(str(finding.evidence["capsule"].value), nn.Linear(4, 2), backward=True, loss=loss_of)
    assert done.gradient is not None
    assert ("SqrtBackward0", line()) == (done.gradient.operation, done.gradient.site)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_step_without_a_norm_is_caught_by_a_glance(
    is_wanted: bool, logdir: Path, facts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the weights are changed; where it does not fit, the step after it says whose update it was."""
    monkeypatch.setattr(Governor, "next", lambda self, **_: False)
    monkeypatch.setattr(Governor, "norm_is_due", lambda self: False)
    monkeypatch.setattr(Governor, "glance_is_due", lambda self: is_wanted)
    steps = iter(range(6))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    train(
        model,
        rows,
        logdir,
        loss_of=lambda output: loss_of(output) if next(steps) == 3 else output.square().mean(),
        steps=6,
    )
    (told,) = facts
    weights = load_capsule(told["capsule"])["models"][""].values()
    is_finite = all(each.isfinite().all() for each in weights)
    assert ((3, "gradient", True) if is_wanted else (4, "parameter", False)) == (
        told["step"], told["what"], is_finite,
    )  # fmt: skip
    found = {each.rule: each for each in nd.check(logdir).runs[0].findings}
    if is_wanted:
        assert 3 == found["nonfinite-gradient"].first_step
    else:
        assert "The update of step 3 wrote it, or code between" in found["nonfinite-weight"].message


def test_operations_that_are_followed_tell_without_a_norm(
    logdir: Path, facts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the step itself, whether or not its gradients are measured."""
    monkeypatch.setattr(Governor, "next", lambda self, **_: False)
    monkeypatch.setattr(Governor, "norm_is_due", lambda self: False)
    monkeypatch.setattr(Governor, "glance_is_due", lambda self: False)
    steps = iter(range(4))
    train(
        nn.Linear(4, 2),
        rows,
        logdir,
        loss_of=lambda output: loss_of(output) if next(steps) == 2 else output.square().mean(),
        steps=4,
        check_numerics="ops",
    )
    assert [(2, "gradient", "SqrtBackward0")] == [
        (told["step"], told["what"], told["operation"]) for told in facts
    ]


def test_a_replay_names_what_a_loss_was_given(logdir: Path) -> None:
    train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, steps=1)
    capsule = next((logdir / "run/capsules").iterdir())
    labels = torch.full((6, 2), float("nan"))
    done = replay(
        capsule, nn.Linear(4, 2), backward=True, loss=lambda output: ((output - labels) ** 2).mean()
    )
    assert done.gradient is not None
    assert ("loss", "operand", "sub") == (done.gradient.what, done.gradient.tensor, done.gradient.operation)
    assert done.gradient.site.startswith("test_numerics_backward.py:")


class Swallowing(torch.autograd.Function):
    """Lets no gradient through."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(gradients[0])


def test_an_infinity_that_gets_nowhere_is_not_blamed() -> None:
    """The first one on the way back is swallowed; that of another operation gets to a parameter."""
    parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
    reached = (parameters[0] * 1.0) ** 0.5
    root = reached.sum() + torch.sqrt(Swallowing.apply(parameters[1])).sum()
    checks = BackwardChecks()
    checks.begin([root])
    torch.autograd.backward([root])
    checks.end()
    assert checks.found is not None
    assert "PowBackward0" == checks.found.operation


def test_it_leaves_nothing_behind() -> None:
    """A graph that is kept has no hooks after the pass, and one that is not is freed with its loss."""
    parameter = torch.nn.Parameter(torch.ones(3))
    root = (parameter * 2.0).sqrt().sum()
    checks = BackwardChecks()
    checks.begin([root])
    root.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    checks.end()
    looked: list[Any] = []
    checks._look = lambda *given: looked.append(given)  # type: ignore[method-assign]
    root.backward()  # type: ignore[no-untyped-call]
    assert [] == looked

    class Kept(torch.Tensor):
        pass

    given = torch.ones(3).as_subclass(Kept)
    kept = weakref.ref(given)
    root = (parameter * given).sum()
    checks.begin([root])
    gc.disable()
    try:
        del root, given
        checks.end()
        assert kept() is None
    finally:
        gc.enable()


def test_modes_of_the_user_see_nothing_of_it() -> None:
    """Gradients that are spread out are read by operations of torch."""

    def seen(checks: BackwardChecks | None) -> list[str]:
        parameter = torch.nn.Parameter(torch.ones(3, 4))
        root = (parameter * 2.0).t().sum()
        mode = Listing()
        if checks is not None:
            checks.begin([root])
        with mode:
            torch.autograd.backward([root])
        return mode.seen

    assert seen(None) == seen(BackwardChecks())


class Listing(TorchDispatchMode):
    """A mode of the user's."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_the_same_training(logdir: Path) -> None:
    """Followed and not, to the last bit."""
    weights = []
    for mode in ("sampled", "ops"):
        torch.manual_seed(0)
        model = Inside(torch.relu)
        train(model, rows, logdir, steps=4, check_numerics=mode, run=mode)
        weights.append([each.detach().clone() for each in model.parameters()])
    assert all(map(torch.equal, *weights))
