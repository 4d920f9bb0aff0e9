"""What is measured of one call of a loss function: classes, ranges, and what guessing would cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from tb_netdebug.frameworks.torch.losses import classes, selection
from tb_netdebug.frameworks.torch.losses.functions import LossCall, loss_functions
from tb_netdebug.frameworks.torch.losses.numbers import numbers_of
from tb_netdebug.frameworks.torch.losses.scalar_sink import measuring
from tests.support.device_cases import Audit
from tests.support.loops import no_warnings

FUNCTIONS = {each.name: each for each in loss_functions()}


def numbers(name: str, *args: Any, **options: Any) -> dict[str, float]:
    """What is measured of a call of this function."""
    function = FUNCTIONS[name]
    output = function.function(*args, **options)
    defaults = dict(
        zip(reversed(function.parameters), reversed(function.function.__defaults__), strict=False)
    )
    given = {**defaults, **dict(zip(function.parameters, args, strict=False)), **options}
    with measuring(args[0].device):
        found = numbers_of(LossCall(function, tuple(given[key] for key in function.parameters), output))
        return {key: float(value) for key, value in found.items()}


def fitted(name: str, guess: Tensor, expand: Callable[[Tensor], Tensor], *args: Any, **options: Any) -> float:
    """The loss of the best constant answer, found by minimising."""
    guess = guess.double().requires_grad_()
    optimizer = torch.optim.LBFGS([guess], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = FUNCTIONS[name].function(expand(guess), *args, **options).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return float(FUNCTIONS[name].function(expand(guess).detach(), *args, **options).mean())


# ---- losses of classes ---------------------------------------------------------------------

SCORES = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
CLASSES = torch.tensor([0, 0, 0, 0, 1, 1, 2, 4] * 5)
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 1.0, 3.0])


def test_classes() -> None:
    """How often right, which class is the most frequent, how they follow each other."""
    found = numbers("cross_entropy", SCORES, CLASSES)
    assert found["value"] == pytest.approx(float(functional.cross_entropy(SCORES, CLASSES)))
    assert found["uniform"] == pytest.approx(math.log(5))
    shares = (0.5, 0.25, 0.125, 0.125)
    assert found["baseline"] == pytest.approx(-sum(p * math.log(p) for p in shares))
    assert found["collision"] == pytest.approx(sum(p * p for p in shares))
    assert (found["top_share"], found["top_class"], found["classes"]) == (0.5, 0, 4)
    assert found["accuracy"] == pytest.approx(float((SCORES.argmax(1) == CLASSES).float().mean()))
    assert found["adjacent_equal"] == pytest.approx(4 * 5 / 39)
    assert (found["target_min"], found["target_max"], found["target_mean"]) == (0, 4, 1.0)
    assert found["target_std"] == pytest.approx(float(CLASSES.double().std(correction=0)))


def test_inputs() -> None:
    """Range, and whether rows look like probabilities or their logarithms."""
    scores = numbers("cross_entropy", SCORES, CLASSES)
    assert scores["input_min"] == pytest.approx(float(SCORES.min()))
    assert scores["input_std"] == pytest.approx(float(SCORES.std(correction=0)))
    assert scores["outside_01"] == pytest.approx(float(((SCORES < 0) | (SCORES > 1)).float().mean()))
    assert scores["row_sum_error"] > 0.1 < scores["row_logsumexp_error"]
    shares = numbers("cross_entropy", SCORES.softmax(1), CLASSES)
    assert shares["outside_01"] == 0.0
    assert shares["row_sum_error"] == pytest.approx(0, abs=1e-6)
    logs = numbers("nll_loss", SCORES.log_softmax(1), CLASSES)
    assert logs["row_logsumexp_error"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, WEIGHTS])
@pytest.mark.parametrize("kind", ["classes", "some ignored", "shares"])
def test_guessing_classes(kind: str, weight: Tensor | None, smoothing: float, reduction: str) -> None:
    """The baseline is the least loss that a constant answer has, whatever the settings."""
    target = CLASSES.clone()
    if kind == "some ignored":
        target[::3] = -100
    elif kind == "shares":
        target = SCORES.flip(0).softmax(1).double()
    options: dict[str, Any] = {"label_smoothing": smoothing, "reduction": reduction}
    own = None if weight is None else weight.double()
    least = fitted(
        "cross_entropy", torch.zeros(5), lambda it: it.expand(40, 5), target, weight=own, **options
    )
    even = functional.cross_entropy(torch.zeros(40, 5).double(), target, weight=own, **options).mean()
    found = numbers("cross_entropy", SCORES.double(), target, weight=own, **options)
    assert found["baseline"] == pytest.approx(least, rel=1e-6)
    assert found["uniform"] == pytest.approx(float(even), rel=1e-6)


def test_ignored_targets_do_not_count() -> None:
    """Neither as a class, nor as a neighbour, nor as wrong."""
    target = torch.tensor([3, 3, -100, -100, 3, 3])
    scores = functional.one_hot(torch.tensor([3, 3, 0, 0, 3, 0]), 5).float()
    found = numbers("cross_entropy", scores, target)
    assert (found["classes"], found["top_share"], found["top_class"]) == (1, 1.0, 3)
    assert (found["target_min"], found["target_max"], found["target_std"]) == (3, 3, 0)
    assert (found["accuracy"], found["adjacent_equal"], found["baseline"]) == (0.75, 1.0, 0.0)


def test_segmentation() -> None:
    """Classes are in dimension 1; the order of pixels says nothing of the order of samples."""
    scores = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(2))
    target = scores.argmax(1)
    target[0, 0] = 255
    found = numbers("cross_entropy", scores, target, ignore_index=255)
    assert found["accuracy"] == 1.0
    assert found["uniform"] == pytest.approx(math.log(3))
    assert "adjacent_equal" not in found
    flat = numbers("cross_entropy", scores.movedim(1, -1).reshape(-1, 3), target.flatten(), ignore_index=255)
    del flat["adjacent_equal"]
    assert found == pytest.approx(flat)


def test_soft_labels_count_as_their_most_likely_class() -> None:
    """One-hot targets give what the numbers of the classes give."""
    hard = numbers("cross_entropy", SCORES, CLASSES)
    soft = numbers("cross_entropy", SCORES, functional.one_hot(CLASSES, 5).float())
    for name in hard.keys() - {"target_min", "target_max", "target_mean", "target_std"}:
        assert hard[name] == pytest.approx(soft[name], rel=1e-6), name
    assert (soft["target_min"], soft["target_max"]) == (0, 1)
    assert soft["target_mean"] == pytest.approx(0.2)


def test_a_single_row() -> None:
    """Without a batch dimension there are no neighbours."""
    found = numbers("cross_entropy", SCORES[0], CLASSES[0])
    assert (found["classes"], found["top_share"], found["baseline"]) == (1, 1.0, 0.0)
    assert "adjacent_equal" not in found


def test_everything_ignored() -> None:
    """There is no answer, and no error."""
    found = numbers("cross_entropy", SCORES, torch.full((40,), -100))
    assert math.isnan(found["value"])
    assert math.isnan(found["accuracy"])


def test_big_outputs_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows a part is looked at; of the labels all. Sums stay sums over everything."""
    generator = torch.Generator().manual_seed(3)
    scores, target = torch.randn(4000, 8, generator=generator), torch.randint(8, (4000,), generator=generator)
    whole = numbers("cross_entropy", scores, target, reduction="sum")
    values, truth = torch.randn(4000, 8, generator=generator), torch.randn(4000, 8, generator=generator)
    square = numbers("mse_loss", values, truth, reduction="sum")
    monkeypatch.setattr(selection, "MOST_VALUES", 8000)
    thin = numbers("cross_entropy", scores, target, reduction="sum")
    exact = {"value", "baseline", "uniform", "top_share", "classes", "adjacent_equal", "target_mean"}
    for name in exact:
        assert whole[name] == pytest.approx(thin[name]), name
    assert whole["accuracy"] == pytest.approx(thin["accuracy"], abs=0.03)
    assert whole["accuracy"] != thin["accuracy"]
    pixels = numbers("cross_entropy", scores.view(2, 8, 40, 50), target.view(2, 40, 50), reduction="sum")
    assert whole["baseline"] == pytest.approx(pixels["baseline"])
    monkeypatch.setattr(classes, "MOST_LABELS", 1000)
    few = numbers("cross_entropy", scores.view(2, 8, 40, 50), target.view(2, 40, 50), reduction="sum")
    assert whole["baseline"] == pytest.approx(few["baseline"], rel=0.02)
    assert whole["baseline"] != few["baseline"]
    assert square["baseline"] == pytest.approx(
        numbers("mse_loss", values, truth, reduction="sum")["baseline"], rel=0.1
    )


# ---- other losses --------------------------------------------------------------------------

ANSWERS = (torch.rand(30, 4, generator=torch.Generator().manual_seed(4)) > 0.7).double()
GUESSES = torch.randn(30, 4, generator=torch.Generator().manual_seed(5)).double()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", ["", "weight", "pos_weight", "both"])
def test_guessing_answers(weights: str, reduction: str) -> None:
    """Of each column its own, with the weights of the call."""
    options: dict[str, Any] = {"reduction": reduction}
    if weights in ("weight", "both"):
        options["weight"] = torch.rand(30, 1, generator=torch.Generator().manual_seed(6)).double()
    if weights in ("pos_weight", "both"):
        options["pos_weight"] = torch.tensor([1.0, 2.0, 3.0, 4.0]).double()
    name = "binary_cross_entropy_with_logits"
    found = numbers(name, GUESSES, ANSWERS, **options)
    least = fitted(name, torch.zeros(4), lambda it: it.expand(30, 4), ANSWERS, **options)
    assert found["baseline"] == pytest.approx(least, rel=1e-5)
    even = functional.binary_cross_entropy_with_logits(torch.zeros(30, 4).double(), ANSWERS, **options)
    assert found["uniform"] == pytest.approx(float(even.mean()))


def test_answers() -> None:
    """Which side of the threshold; for single answers also how they follow each other."""
    target = torch.tensor([1.0, 1.0, 1.0, 0.0])[:, None]
    found = numbers("binary_cross_entropy", torch.tensor([0.9, 0.8, 0.4, 0.3])[:, None], target)
    assert (found["accuracy"], found["top_share"], found["top_class"], found["classes"]) == (0.75, 0.75, 1, 2)
    assert found["collision"] == 0.625
    assert found["adjacent_equal"] == pytest.approx(2 / 3)
    logits = numbers("binary_cross_entropy_with_logits", torch.tensor([0.9, 0.8, 0.4, -0.3])[:, None], target)
    assert logits["accuracy"] == 1.0
    assert logits["uniform"] == pytest.approx(math.log(2))
    alone = numbers("binary_cross_entropy", torch.full((3, 1), 0.5), torch.zeros(3, 1))
    assert (alone["classes"], alone["top_class"]) == (1, 0)
    assert alone["baseline"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss"])
def test_guessing_values(name: str, reduction: str) -> None:
    """No constant answer is better than the baseline; of squares it is the variance."""
    target = torch.rand(31, 3, generator=torch.Generator().manual_seed(7)).double() * torch.tensor(
        [1, 10, 0.1]
    )
    found = numbers(name, torch.zeros(31, 3).double(), target, reduction=reduction)
    least = fitted(name, target.mean(0), lambda it: it.expand(31, 3), target, reduction=reduction)
    assert found["baseline"] == pytest.approx(least, rel=0.02)
    if name == "mse_loss":
        scale = 93 if reduction == "sum" else 1
        assert found["baseline"] == pytest.approx(float(target.var(0, correction=0).mean()) * scale)


def test_few_rows_have_one_guess() -> None:
    """The mean of a column of two values says nothing."""
    target = torch.tensor([[1.0, 5.0], [3.0, 7.0]])
    assert numbers("mse_loss", torch.zeros(2, 2), target)["baseline"] == pytest.approx(5.0)


def test_shares() -> None:
    """The mean of the targets is the best constant answer; torch's warning about means is not provoked."""
    target = SCORES.softmax(1).double()
    with no_warnings():
        found = numbers("kl_div", SCORES.double().log_softmax(1), target, reduction="batchmean")
    least = fitted(
        "kl_div", torch.zeros(5), lambda it: it.log_softmax(0).expand(40, 5), target, reduction="batchmean"
    )
    assert found["baseline"] == pytest.approx(least, rel=1e-6)
    assert found["row_logsumexp_error"] == pytest.approx(0, abs=1e-6)


def test_all_functions_are_measured() -> None:
    """At least the value, without an error, of every loss function of torch."""
    a, b, sign = torch.randn(6, 4), torch.randn(6, 4), torch.tensor([1.0, -1.0] * 3)
    calls: dict[str, tuple[Any, ...]] = {
        "multi_margin_loss": (a, torch.tensor([0, 1, 2, 3, 0, 1])),
        "multilabel_soft_margin_loss": (a, (b > 0).float()),
        "gaussian_nll_loss": (a, b, torch.ones(6, 4)),
        "soft_margin_loss": (a, b.sign()),
        "hinge_embedding_loss": (a, b.sign()),
        "multilabel_margin_loss": (a, torch.tensor([[0, 1, -1, 2]] * 6)),
        "cosine_embedding_loss": (a, b, sign),
        "margin_ranking_loss": (a[:, 0], b[:, 0], sign),
        "triplet_margin_loss": (a, b, a + b),
        "ctc_loss": (
            torch.randn(9, 6, 4).log_softmax(2),
            torch.ones(6, 3, dtype=torch.long),
            (9,) * 6,
            (3,) * 6,
        ),
    }
    for name, args in calls.items():
        assert numbers(name, *args)["value"] == pytest.approx(float(FUNCTIONS[name].function(*args))), name


# ---- without waiting -----------------------------------------------------------------------

GPU = torch.device("cuda:0")


def on_paper(name: str, *shapes: tuple[int, ...], whole: bool = False, **options: Any) -> int:
    """Measures a call whose tensors have no values, on a GPU that does not exist; how many numbers."""
    function = FUNCTIONS[name]
    with FakeTensorMode():
        given = [torch.zeros(shape, device=GPU) for shape in shapes]
        if whole:
            given[1] = given[1].long()
        defaults = dict(
            zip(reversed(function.parameters), reversed(function.function.__defaults__), strict=False)
        )
        call = {**defaults, **dict(zip(function.parameters, given, strict=False)), **options}
        arguments = tuple(call[key] for key in function.parameters)
        with measuring(GPU), Audit():
            found = numbers_of(LossCall(function, arguments, torch.zeros((), device=GPU)))
        assert {1} == {each.numel() for each in found.values() if isinstance(each, Tensor)}
        assert {GPU} == {each.device for each in found.values() if isinstance(each, Tensor)}
    return len(found)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_no_value_is_looked_at(reduction: str) -> None:
    """Nothing of what is measured needs a value, and no operation waits for the device."""
    ways: list[tuple[str, tuple[tuple[int, ...], ...], bool]] = [
        ("cross_entropy", ((32, 5), (32,)), True),
        ("cross_entropy", ((32, 5), (32, 5)), False),
        ("cross_entropy", ((4, 21, 300, 300), (4, 300, 300)), True),
        ("nll_loss", ((32, 5), (32,)), True),
        ("binary_cross_entropy", ((32, 1), (32, 1)), False),
        ("binary_cross_entropy_with_logits", ((32, 4), (32, 4)), False),
        ("mse_loss", ((32, 3), (32, 3)), False),
        ("l1_loss", ((900, 300), (900, 300)), False),
        ("huber_loss", ((32,), (32,)), False),
        ("kl_div", ((32, 5), (32, 5)), False),
        ("poisson_nll_loss", ((32, 5), (32, 5)), False),
    ]
    for name, shapes, whole in ways:
        assert on_paper(name, *shapes, whole=whole, reduction=reduction) >= 11, name
