"""The tensors of a training with torch by name: which are there, what is read of them, and for how long."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.nn import functional

from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.workbench import NOTHING, Needs, WorkbenchError
from tb_netdebug.frameworks.torch.stepping import kept, previous
from tb_netdebug.frameworks.torch.stepping.readable import TensorReadable, entry_of
from tests.support.loops import mlp, run_script, vectors
from tests.support.stepping import Script, end_step, sgd, stepped

KEEP = Needs(phases=True, keep=True)
EVERYTHING = slice(None)


def readable(tensor: torch.Tensor) -> TensorReadable:
    return TensorReadable(entry_of("user", "x", tensor, module=None), tensor)


def names(script: Script, kind: str | None = None) -> list[str]:
    return [entry.name for entry in script.bench.entries(kind)]


def value(script: Script, name: str) -> Any:
    """The whole tensor."""
    found = script.bench.tensor(name)
    return found.part((EVERYTHING,) * len(found.entry.shape))


# ---- names ---------------------------------------------------------------------------------


def test_all_tensors_of_a_batch_in_the_order_in_which_it_makes_them(logdir: Path) -> None:
    """By kind and name, from the batch to the state of the optimizer."""
    model = nn.Sequential(nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with stepped(logdir, model, optimizer, needs=Needs(backward=True, keep=True)) as (script, monitor):
        inputs, labels = vectors()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        script.bench.keep_user("mine", torch.ones(2))
        found = names(script)
        assert labels.tolist() == value(script, "label:0").tolist()
        assert inputs.tolist() == value(script, "batch:0").tolist()
        assert model[0].weight.grad.tolist() == value(script, "gradient:0.weight").tolist()
        end_step(script, monitor)
        assert ["weight", "state"] == list(dict.fromkeys(name.split(":")[0] for name in names(script)[2:]))
    assert [
        "batch:0",
        "input:Sequential", "input:0", "output:0", "output:Sequential",
        "label:0",
        "loss:0",
        "output_gradient:Sequential", "output_gradient:0",
        "gradient:0.bias", "gradient:0.weight",
        "weight:0.weight", "weight:0.bias",
        "state:0.weight/momentum_buffer", "state:0.bias/momentum_buffer",
        "user:mine",
    ] == found  # fmt: skip


def test_a_loss_that_is_not_a_number(logdir: Path) -> None:
    """It is told as what it is."""
    model = nn.Linear(1, 1)
    with stepped(logdir, model, needs=KEEP) as (script, _):
        functional.mse_loss(model(torch.tensor([[math.nan]])), torch.ones(1, 1))
        assert math.isnan(script.bench.scalars()["loss"])


def test_an_entry_says_what_it_is(logdir: Path) -> None:
    """Shape, type, place, bytes and the layer."""
    model = mlp().double()
    with stepped(logdir, model) as (script, _):
        (entry, *_rest) = script.bench.entries("weight")
    assert ("weight:0.weight", "weight", "0.weight", (16, 6), "float64", "cpu", 16 * 6 * 8, "0") == (
        entry.name, entry.kind, entry.of, entry.shape, entry.dtype, entry.device, entry.bytes, entry.module,
    )  # fmt: skip


class Twofold(nn.Module):
    """Takes several things, by name too, and gives a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Bilinear(2, 3, 1)

    def forward(self, first: torch.Tensor, *, more: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"score": self.inner(first, more["second"])}


def test_nested_inputs_and_outputs(logdir: Path) -> None:
    """Each has its place in the name."""
    model = Twofold()
    with stepped(logdir, {"G": model}, needs=KEEP) as (script, _):
        model(torch.ones(4, 2), more={"second": torch.ones(4, 3)})
        found = [*names(script, "batch"), *names(script, "input"), *names(script, "output")]
    assert [
        "batch:G/0", "batch:G/more[second]",
        "input:G[0]", "input:G[more][second]", "input:G/inner[0]", "input:G/inner[1]",
        "output:G/inner", "output:G[score]",
    ] == found  # fmt: skip


def test_a_loss_that_no_function_of_torch_has_made(logdir: Path) -> None:
    """It is known as soon as it is differentiated."""
    model = mlp()
    with stepped(logdir, model, needs=KEEP) as (script, monitor):
        loss = model(torch.ones(2, 6)).square().mean()
        assert [] == names(script, "loss")
        loss.backward()
        assert ["loss:backward"] == names(script, "loss")
        assert {"loss": loss.item()} == script.bench.scalars()
        monitor.step(loss=2.0, accuracy=0.5)
        script.bench.end_batch()
        assert {} == script.bench.scalars()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("weight:9.weight", "there is no parameter '9.weight'"),
        ("gradient:0.weight", "0.weight has no gradient now"),
        ("update:0.weight", "update:0.weight is available from the next batch on"),
        ("state:0.weight/exp_avg", "no optimizer has state:0.weight/exp_avg"),
        ("output:0", "output:0 was not seen in this batch"),
        ("nonsense", "'nonsense' is not the name of a tensor"),
    ],
)
def test_what_is_not_there_is_said_with_a_way_out(name: str, sentence: str, logdir: Path) -> None:
    """A sentence for the person who asked."""
    model = mlp()
    with stepped(logdir, model, sgd(model)) as (script, _):
        with pytest.raises(WorkbenchError, match=sentence):
            script.bench.tensor(name)
        assert {} == script.bench.summaries([name])
        assert {} == script.bench.changes([name])


# ---- keeping -------------------------------------------------------------------------------


def test_without_keep_a_layer_is_readable_at_its_own_stop_only(logdir: Path) -> None:
    """Nothing is held for us."""
    model = nn.Sequential(nn.Linear(6, 3), nn.Sigmoid(), nn.Flatten())
    seen: list[Any] = []

    def look(script: Script, place: Place) -> None:
        if (place.module, place.edge) == ("0", "after"):
            seen.append(value(script, "output:0").shape)

    with stepped(logdir, model, script=Script(look), needs=Needs(layers=True)) as (script, _):
        with torch.no_grad():
            whole = model.eval()  # no graph holds outputs
        with torch.enable_grad():
            whole.requires_grad_(False)(torch.ones(2, 6))
        with pytest.raises(WorkbenchError, match="output:0 is gone: it was not kept"):
            script.bench.tensor("output:0")
    assert [(2, 3)] == seen


def test_what_is_there_when_keeping_begins_stays(logdir: Path) -> None:
    """As for somebody who pauses at a layer and goes on from there step by step."""
    model = nn.Sequential(nn.Linear(6, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(3, 2))

    def follow(script: Script, place: Place) -> None:
        if (place.module, place.edge) == ("1", "after"):
            script.bench.need(Needs(layers=True, keep=True))

    with stepped(logdir, model, script=Script(follow), needs=Needs(layers=True)) as (script, _):
        expected = torch.sigmoid(model[0](torch.ones(2, 6)))
        script.bench.need(Needs(layers=True))
        model(torch.ones(2, 6))
        assert expected.tolist() == value(script, "output:1").tolist()
        assert (2, 2) == value(script, "output:3").shape


def test_what_is_kept_is_let_go_of_at_the_end_of_the_batch(logdir: Path) -> None:
    """And when nothing is to be kept any more."""
    model = mlp()
    with stepped(logdir, model, needs=KEEP) as (script, monitor):
        for leave in (lambda: end_step(script, monitor), lambda: script.bench.need(NOTHING)):
            inputs = torch.ones(2, 6)
            gone = weakref.ref(inputs.untyped_storage()), weakref.ref(model(inputs))
            del inputs
            assert "input:0" in names(script)
            leave()
            assert [] == names(script, "input")
            assert gone[1]() is None


def test_no_graph_is_held(logdir: Path) -> None:
    """What is kept of a forward pass does not keep alive what backward would need."""
    model = mlp()
    with stepped(logdir, model, needs=KEEP) as (script, _):
        output = model(torch.ones(2, 6))
        output.grad_fn.metadata["mark"] = mark = mlp()  # anything that can be referred to weakly
        graph = weakref.ref(mark)
        del output, mark
        assert (2, 3) == value(script, "output:4").shape
        assert graph() is None


def test_more_than_there_is_room_for_is_not_kept(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that several tensors share counts once; what comes too late is said to be gone."""
    model = nn.Sequential(nn.Linear(6, 100), nn.Identity(), nn.Linear(100, 100))
    with stepped(logdir, model, needs=KEEP) as (script, _):
        monkeypatch.setattr(script.bench._kept, "_most_bytes", 48 + 400 * 2)
        model(torch.ones(2, 6))
        assert "output:1" in names(script)
        with pytest.raises(WorkbenchError, match=r"output:2 is gone: .* exceed the memory"):
            script.bench.tensor("output:2")
    assert 512 << 20 == kept.MOST_BYTES


def test_an_output_that_was_written_over_is_not_shown_as_what_it_was(logdir: Path) -> None:
    """Behind its own layer it can be read; after a ReLU in place it cannot."""
    model = nn.Sequential(nn.Linear(6, 3), nn.ReLU(inplace=True))
    with stepped(logdir, model, needs=KEEP) as (script, _):
        model(torch.ones(2, 6))
        with pytest.raises(WorkbenchError, match="output:0 was changed in place"):
            script.bench.tensor("output:0")
        assert "output:0" not in names(script)
        assert "output:1" in names(script)


# ---- the batch before ----------------------------------------------------------------------


def test_values_of_the_batch_before(logdir: Path) -> None:
    """They are kept of the names that were asked for, and the update is the difference."""
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    optimizer = sgd(model)
    wanted = frozenset({"weight:0.weight", "output:0", "update:0.weight", "gradient:0.weight"})
    history: list[list[float]] = []
    with stepped(logdir, model, optimizer, needs=Needs(keep=True, previous=wanted)) as (script, monitor):
        for number in range(4):
            optimizer.zero_grad()
            loss = model(torch.full((1, 2), float(number))).square().sum()
            loss.backward()
            optimizer.step()
            history.append(model[0].weight.tolist()[0])
            if number == 3:
                before = np.array(history[2], np.float32)
                now = np.array(history[3], np.float32)
                weight = script.bench.tensor("weight:0.weight")
                assert before.tolist() == weight.previous().part((0, EVERYTHING)).tolist()
                update = script.bench.tensor("update:0.weight")
                assert (now - before).tolist() == update.part((0, EVERYTHING)).tolist()
                assert np.abs(now - before).max() == pytest.approx(
                    max(abs(update.summary().min), abs(update.summary().max))
                )
                older = before - np.array(history[1], np.float32)
                assert older.tolist() == update.previous().part((0, EVERYTHING)).tolist()
                assert (1, 1) == script.bench.tensor("output:0").previous().entry.shape
                change = script.bench.changes(["weight:0.weight", "weight:1"])
                expected = np.linalg.norm(now - before) / np.linalg.norm(before)
                assert {"weight:0.weight": pytest.approx(expected)} == change
            end_step(script, monitor)
        script.bench.need(KEEP)
        assert script.bench.tensor("weight:0.weight").previous() is None


def test_an_update_that_is_asked_for_before_the_step(logdir: Path) -> None:
    """The weights are still those of the batch before; at its end they are not, and nothing is made up."""
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    optimizer = sgd(model)
    wanted = Needs(previous=frozenset({"update:0.weight"}))
    with stepped(logdir, model, optimizer) as (script, monitor):

        def train() -> list[float]:
            before = model[0].weight.detach().clone()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            return (model[0].weight.detach() - before).tolist()

        script.bench.need(wanted)
        assert train() == value(script, "update:0.weight").tolist()
        end_step(script, monitor)
        script.bench.need(NOTHING)
        train()
        script.bench.need(wanted)
        with pytest.raises(WorkbenchError, match="available from the next batch on"):
            script.bench.tensor("update:0.weight")


def test_copies_have_bounds() -> None:
    """What does not fit is forgotten, not kept from an older batch."""
    values = previous.PreviousValues(most_bytes_each=40, most_bytes=60)
    values.take("a", torch.ones(10))
    values.take("b", torch.ones(10))
    values.take("c", torch.ones(5))
    assert [True, False, True] == [values.get(name) is not None for name in "abc"]
    values.take("a", torch.ones(11))
    assert values.get("a") is None
    assert (64 << 20, 256 << 20) == (previous.MOST_BYTES_EACH, previous.MOST_BYTES)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [3.0, 9.0], 1.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [1.0, 0.0], math.inf),
        ([3.0, 4.0], [math.nan, 9.0], 1.0),
    ],
)
def test_how_much_a_tensor_has_changed(before: list[float], now: list[float], expected: float) -> None:
    """The norm of the difference by the norm before, of what is finite."""
    values = previous.PreviousValues()
    values.take("x", torch.tensor(before))
    assert expected == values.change("x", torch.tensor(now))
    assert values.change("y", torch.tensor(now)) is None
    assert values.change("x", torch.ones(3)) is None


# ---- reading -------------------------------------------------------------------------------

READABLE: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.randn(5, 7),
    "strided": lambda: torch.randn(7, 10).t()[::2],
    "expanded": lambda: torch.randn(5, 1).expand(5, 7),
    "half": lambda: torch.randn(5, 7).half(),
    "bfloat16": lambda: torch.randn(5, 7).bfloat16(),
    "float8": lambda: torch.randn(5, 7).to(torch.float8_e4m3fn),
    "complex": lambda: torch.randn(5, 7, dtype=torch.complex64),
    "conjugated": lambda: torch.randn(5, 7, dtype=torch.complex64).conj(),
    "negated": lambda: torch.randn(5, 7, dtype=torch.complex64).conj().imag,
    "integers": lambda: torch.arange(35).reshape(5, 7),
    "booleans": lambda: torch.arange(35).reshape(5, 7) > 3,
    "quantised": lambda: torch.quantize_per_tensor(torch.randn(5, 7), 0.1, 3, torch.quint8),
    "leaf": lambda: nn.Parameter(torch.randn(5, 7)),
}


@pytest.mark.parametrize("make", READABLE.values(), ids=READABLE.keys())
def test_parts_and_statistics_of_all_kinds_of_tensors(make: Callable[[], torch.Tensor]) -> None:
    """What NumPy lacks comes as float32; the numbers are those of the values."""
    tensor = make()
    found = readable(tensor)
    dense = tensor.detach().dequantize() if tensor.is_quantized else tensor.detach().resolve_conj()
    dense = dense.resolve_neg()
    expected = (
        dense.float() if dense.is_floating_point() and dense.dtype != torch.float16 else dense
    ).numpy()
    assert (5, 7) == found.entry.shape
    part = found.part((slice(1, 4), 2))
    assert expected[1:4, 2].tolist() == part.tolist()
    assert expected.dtype == part.dtype
    assert not np.shares_memory(part, expected)
    summary = found.summary()
    assert 35 == summary.count
    if not tensor.is_complex():
        assert summary.min == pytest.approx(float(expected.min()))
        mean = float(expected.astype(np.float64).mean())
        assert summary.mean == pytest.approx(mean, rel=1e-5, abs=1e-7)


def test_pieces_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tensors that have to be converted, and of differences."""
    monkeypatch.setattr("tb_netdebug.frameworks.torch.stepping.readable.PIECE", 4)
    tensor = torch.randn(3, 5, 4).to(torch.float8_e5m2)
    summary = readable(tensor).summary()
    values = tensor.float().numpy()
    assert 60 == summary.count
    assert float(values.max()) == summary.max
    assert summary.mean == pytest.approx(float(values.mean()))


def test_sparse_tensors() -> None:
    """Their statistics are of the values that they store; small ones are written out to be looked at."""
    small = torch.tensor([[0.0, 2.0], [0.0, 4.0]]).to_sparse()
    assert (2, 3.0) == (readable(small).summary().count, readable(small).summary().mean)
    assert [2.0, 4.0] == readable(small).part((EVERYTHING, 1)).tolist()
    big = torch.sparse_coo_tensor(torch.tensor([[7]]), torch.tensor([1.0]), (1 << 24,))
    assert 1 == readable(big).summary().count
    with pytest.raises(WorkbenchError, match=r"user:x cannot be read: it is sparse and too big"):
        readable(big).part((7,))


def test_nested_tensors() -> None:
    """They are what they store: all rows below each other."""
    rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(5, 3)], layout=torch.jagged)
    assert (7, 3) == readable(rows).entry.shape
    assert (21, 6 / 21) == (readable(rows).summary().count, readable(rows).summary().mean)
    assert [1, 0] == readable(rows).part((slice(1, 3), 0)).tolist()


def test_within_a_transform_of_torch_nothing_can_be_kept(logdir: Path) -> None:
    """Calls are told all the same, and the transform gives what it would."""
    model = mlp()
    weights = {name: each.detach() for name, each in model.named_parameters()}

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional_call(model, weights, (torch.ones(2, 6),)).square().mean()

    expected = grad(loss)(weights)
    needs = Needs(layers=True, backward=True, keep=True)
    with stepped(logdir, model, needs=needs, activations=False) as (script, _):
        found = grad(loss)(weights)
        assert [] == names(script, "output")
    assert "after forward of 4" in script.told
    assert all(torch.equal(expected[name], found[name]) for name in weights)


UNREADABLE: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "meta": (lambda: torch.ones(2, device="meta"), "on the meta device"),
    "freed": (lambda: resized(torch.ones(2)), "its memory is freed"),
}


def resized(tensor: torch.Tensor) -> torch.Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(("make", "sentence"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_says_why(make: Callable[[], torch.Tensor], sentence: str) -> None:
    """Neither statistics nor parts."""
    found = readable(make())
    with pytest.raises(WorkbenchError, match=sentence):
        found.summary()
    with pytest.raises(WorkbenchError, match=sentence):
        found.part((0,))


@pytest.mark.parametrize("index", [(5,), (0, 0, 0), (slice(None, None, -1),)])
def test_parts_that_do_not_exist(index: Any) -> None:
    """A sentence, too."""
    with pytest.raises(WorkbenchError, match="user:x has no such part"):
        readable(torch.ones(2, 3)).part(index)


def test_numbers_and_empty_tensors() -> None:
    """They have parts and statistics like others."""
    assert 2.5 == readable(torch.tensor(2.5)).part(()).item()
    assert 0 == readable(torch.ones(0, 3)).summary().count
    assert (0, 3) == readable(torch.ones(0, 3)).part((EVERYTHING, EVERYTHING)).shape


def test_summaries_of_many_at_once(logdir: Path) -> None:
    """The numbers are those of each; what cannot be had is left out."""
    model = mlp()
    model[2].weight.data = model[2].weight.data.t()
    with stepped(logdir, model) as (script, _):
        wanted = [*names(script), "gradient:0.weight", "weight:none"]
        found = script.bench.summaries(wanted)
        each = {name: script.bench.tensor(name).summary() for name in wanted[:-2]}
    assert wanted[:-2] == list(found)
    for name, summary in each.items():
        assert (summary.min, summary.max, summary.mean) == (
            found[name].min,
            found[name].max,
            found[name].mean,
        )


BIG = """
import psutil, torch
from tb_netdebug.frameworks.torch.stepping.readable import DifferenceReadable, TensorReadable, entry_of

def readable(tensor):
    return TensorReadable(entry_of("weight", "x", tensor, module=None), tensor)

def difference(now, then):
    entry = entry_of("update", "x", now, module=None)
    return DifferenceReadable(entry, readable(now), readable(then), before=lambda: None)

def look(found):
    found.summary()
    found.part((slice(0, 8), slice(0, 8)))

def check(kind, found):
    before = process.memory_info().rss
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    look(found)
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    grown = int(lines["VmHWM"].split()[0]) * 1024 - before
    assert grown < 50 << 20, (kind, grown)

process = psutil.Process()
small = torch.ones(9, 9)
for warm in (small, small.bfloat16(), small.to(torch.float8_e4m3fn), small[:, ::2]):
    look(readable(warm))
look(difference(small, small))
big = torch.ones(16384, 16384)  # 1 GiB
check("whole", readable(big))
check("strided", readable(big[:, ::2]))
check("difference", difference(big[:8192], big[8192:]))
check("bfloat16", readable(big.view(torch.bfloat16)))
check("float8", readable(big[:2048].view(torch.float8_e4m3fn)))
"""


def test_a_big_tensor_is_looked_at_without_a_copy(tmp_path: Path) -> None:
    """One GiB, in whatever layout and type: the process grows by less than 50 MB, also for a moment."""
    script = tmp_path / "big.py"
    script.write_text(BIG)
    run_script(script)


# ---- what else is known --------------------------------------------------------------------


def test_learning_rates(logdir: Path) -> None:
    """Of all groups of all optimizers, numbers and tensors; they can be changed one by one or together."""
    model = mlp()
    groups = [
        {"params": model[0].parameters(), "lr": 0.5, "name": "first"},
        {"params": model[2].parameters()},
    ]
    optimizers = [
        torch.optim.SGD(groups, lr=0.25),
        torch.optim.Adam(model[4].parameters(), lr=torch.tensor(0.125)),
    ]
    with stepped(logdir, model, optimizers) as (script, _):
        bench = script.bench
        assert [
            {"optimizer": 0, "group": 0, "name": "SGD first", "value": 0.5},
            {"optimizer": 0, "group": 1, "name": "SGD", "value": 0.25},
            {"optimizer": 1, "group": 0, "name": "Adam", "value": 0.125},
        ] == bench.learning_rates()
        bench.set_learning_rate(0, 1, 0.0625)
        given = optimizers[1].param_groups[0]["lr"]
        bench.set_learning_rate(1, None, 1.0)
        assert [0.5, 0.0625, 1.0] == [each["value"] for each in bench.learning_rates()]
        assert given is optimizers[1].param_groups[0]["lr"]
        bench.set_learning_rate(0, None, 0.0)
        assert [0.0, 0.0, 1.0] == [each["value"] for each in bench.learning_rates()]


@pytest.mark.parametrize(
    ("optimizer", "group", "rate", "sentence"),
    [
        (1, None, 0.1, "there is no optimizer 1"),
        (0, 1, 0.1, "optimizer 0 has no group 1"),
        (0, 0, -1.0, "a learning rate must be a number that is not negative"),
        (0, 0, math.nan, "a learning rate must be a number that is not negative"),
    ],
)
def test_learning_rates_that_cannot_be_set(
    optimizer: int, group: int | None, rate: float, sentence: str, logdir: Path
) -> None:
    """Nothing is changed, and a sentence says why."""
    model = mlp()
    with stepped(logdir, model, sgd(model)) as (script, _):
        with pytest.raises(WorkbenchError, match=sentence):
            script.bench.set_learning_rate(optimizer, group, rate)
        assert 0.1 == script.bench.learning_rates()[0]["value"]


def test_the_modules_with_their_source(logdir: Path) -> None:
    """As a tree, with the order of their calls, and files that can be opened."""
    model = Twofold()
    with stepped(logdir, model) as (script, monitor):
        model(torch.ones(4, 2), more={"second": torch.ones(4, 3)})
        end_step(script, monitor)
        found = script.bench.modules()
    assert [("Twofold", None, 0, 7), ("inner", "Twofold", 1, 7)] == [
        (each["name"], each["parent"], each["order"], each["parameters"]) for each in found
    ]
    assert str(Path(__file__).absolute()) == found[0]["file"]
    assert "def forward" in Path(found[0]["file"]).read_text().splitlines()[found[0]["line"] - 1]
    assert Path(found[1]["file"]).is_file()
