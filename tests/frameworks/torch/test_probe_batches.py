"""What is told of the batches: inputs, fingerprints, slices, loaders."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.frameworks.torch.batches.columns import MOST_VALUES, feature_scalars, features_of
from tb_netdebug.frameworks.torch.batches.contents import Fingerprint, share_of_rows
from tb_netdebug.frameworks.torch.host_arrays import array_over
from tests.support.loops import Recurrent, Transformer, mlp, pictures, recorded, vectors
from tests.support.probed import Probed, learn, probed, sgd


def trained(logdir: Path, batch: Any, *, steps: int = 6, **options: Any) -> Probed:
    """An MLP on the batches of `batch(step)`."""
    model = mlp()
    optimizer = sgd(model)
    return probed(
        logdir, model, optimizer, lambda step: learn(model, optimizer, *batch(step)), steps=steps, **options
    )


def loaded(size: int = 40, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(size, 6), torch.randint(3, (size,))), **options)


def test_the_memory_of_a_batch_stays_its_own(logdir: Path) -> None:
    """A buffer of batches can be resized between steps, however it was looked at, and nothing differs."""
    buffer, labels = torch.empty(8, 6), torch.zeros(20, dtype=torch.long)

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        buffer.resize_(8 + step, 6).normal_()
        return buffer, labels[: 8 + step]

    def losses(watched: bool) -> list[str]:
        torch.manual_seed(0)
        if watched:
            found = trained(logdir, batch, every=1)
            return [found.scalar("loss")[step].hex() for step in range(6)]
        model = mlp()
        optimizer = sgd(model)
        return [learn(model, optimizer, *batch(step)).item().hex() for step in range(6)]

    assert losses(False) == losses(True)
    assert buffer.untyped_storage().resizable()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).reshape(4, 6),
        torch.arange(24).reshape(4, 6).t(),
        torch.arange(24, dtype=torch.int16).reshape(4, 6)[1:, ::2],
        torch.ones(1).expand(3, 5),
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.ones(2, 2, dtype=torch.complex64),
    ],
)
def test_arrays_over_tensors_are_what_numpy_makes_of_them(tensor: torch.Tensor) -> None:
    """Shape, type, values and place; but read-only, and the storage stays resizable."""
    tensor = tensor.clone() if tensor.is_contiguous() else tensor
    found = array_over(tensor)
    assert found is not None
    assert tensor.untyped_storage().resizable()
    assert not found.flags.writeable or not found.size
    expected = tensor.numpy()
    assert (expected.shape, expected.dtype, expected.tolist()) == (found.shape, found.dtype, found.tolist())
    assert expected.strides == found.strides or not found.size
    assert not found.size or found.__array_interface__["data"][0] == tensor.data_ptr()


# ---- inputs --------------------------------------------------------------------------------


def test_inputs_are_sampled(logdir: Path) -> None:
    """The floating inputs of the training call, under their numbers."""
    found = trained(logdir, lambda step: (torch.full((8, 6), float(step)), torch.zeros(8, dtype=torch.long)))
    assert {"input/0"} == found.recorded.names(Kind.TENSOR) - {"label/0"}
    samples = found.recorded.samples(Kind.TENSOR, "input/0")
    assert [(48, float(step)) for step in range(6)] == [(each.count, each.max) for each in samples.values()]


def test_token_ids_are_no_data(logdir: Path) -> None:
    """Whole numbers have no scale, but they tell one batch from another, and whether all are the same."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = sgd(model)
    tokens = torch.randint(11, (2, 4, 7))
    labels = torch.zeros(4, dtype=torch.long)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, tokens[step % 2], labels))
    assert set() == found.recorded.names(Kind.TENSOR) - {"label/0"}
    ids = list(found.scalar("probe/batch_id").values())
    assert ids[:2] * 3 == ids
    assert 2 == len(set(ids))
    for name, ends in (("min", tokens.amin((1, 2))), ("max", tokens.amax((1, 2)))):
        assert ends.tolist() * 3 == list(found.scalar(f"probe/words/0/{name}").values())


class TwoInputs(nn.Module):
    """Takes data, and things that are no data."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)

    def forward(self, inputs: torch.Tensor, *others: Any, mask: Any = None, more: Any = None) -> torch.Tensor:
        scores: torch.Tensor = self.body(inputs)
        return scores


def test_masks_and_states_are_no_data(logdir: Path) -> None:
    """Minus infinity in a mask, a first state of zeros and what a network has made are not told as inputs."""
    model = TwoInputs()
    optimizer = sgd(model)
    mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -math.inf)
    made = nn.Linear(2, 2)(torch.ones(8, 2))

    def body(step: int) -> None:
        optimizer.zero_grad()
        inputs = torch.randn(8, 6)
        model(
            inputs, mask, torch.zeros(8, 4), made, mask=torch.ones(8), more=torch.ones(8, 2)
        ).sum().backward()
        optimizer.step()

    found = probed(logdir, model, optimizer, body)
    assert {"input/0", "input/1"} == found.recorded.names(Kind.TENSOR) - {"label/0"}
    assert {16} == {each.count for each in found.recorded.samples(Kind.TENSOR, "input/1").values()}


def test_only_the_first_training_call_is_sampled(logdir: Path) -> None:
    """Evaluations and further calls of a step add nothing to its input."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        with torch.no_grad():
            model(torch.full((5, 6), 100.0))
        loss = learn(model, optimizer, *vectors())
        model(torch.full((5, 6), 100.0))
        return loss

    found = probed(logdir, model, optimizer, body)
    assert [48] * 6 == [each.count for each in found.recorded.samples(Kind.TENSOR, "input/0").values()]


def test_without_batches_nothing_is_told(logdir: Path) -> None:
    """`batches=False` leaves the inputs alone."""
    found = trained(logdir, lambda step: vectors(), batches=False)
    assert set() == found.recorded.names(Kind.TENSOR) - {"label/0"}
    assert {} == found.scalar("probe/batch_id")


# ---- features ------------------------------------------------------------------------------


def test_features_of_a_matrix() -> None:
    """Constant columns, the range of scales and the largest offset, as NumPy would say."""
    columns = torch.randn(50, 4, dtype=torch.float64) * torch.tensor([1.0, 1000.0, 0.0, 0.01]) + 3.0
    found = feature_scalars(columns)
    scales = columns.std(dim=0, correction=0)
    assert 0.25 == found["constant_features"]
    assert pytest.approx(float(scales[1])) == found["feature_scale"]
    assert pytest.approx(float(scales[1] / scales[3])) == found["feature_scale_ratio"]
    assert pytest.approx(float(columns[:, 3].mean() / scales[3])) == found["feature_offset"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_channels_of_pictures(dtype: torch.dtype) -> None:
    """A channel that never changes is one of four, in any type of number and order in memory."""
    batch = torch.randn(4, 4, 5, 6).to(dtype)
    batch[:, 2] = 0.1
    for each in (batch, batch.to(memory_format=torch.channels_last)):
        assert 0.25 == feature_scalars(each)["constant_features"]


def test_constant_everywhere() -> None:
    """Then there is no scale to compare."""
    assert {"constant_features": 1.0, "feature_scale": 0.0} == feature_scalars(torch.full((8, 3), 0.1))


@pytest.mark.parametrize("shape", [(8,), (1, 5), (0, 3), (3, 0), (8, 2, 3), (0, 3, 2, 2)])
def test_shapes_without_features(shape: tuple[int, ...]) -> None:
    """A batch of one has no spread, and other shapes no features."""
    assert {} == feature_scalars(torch.zeros(shape))


def test_values_that_are_not_finite_do_not_count() -> None:
    """NaN and infinity are said elsewhere."""
    batch = torch.randn(8, 3)
    batch[2, 0], batch[3, 1] = math.nan, math.inf
    assert (
        pytest.approx(float(batch[:, 2].std(correction=0)), rel=1e-6)
        == feature_scalars(batch)["feature_scale"]
    )


@pytest.mark.parametrize("shape", [(9000, 100), (20, 50_000), (300, 3, 64, 64), (2, 3, 1000, 500)])
def test_big_batches_are_looked_at_in_parts(shape: tuple[int, ...]) -> None:
    """The cost is bounded, whatever is fed."""
    features = features_of(torch.zeros(shape))
    assert features is not None
    assert 0 < features.size <= 2 * MOST_VALUES
    assert features.shape[1] > 1


# ---- fingerprints ----------------------------------------------------------------------------


def number_of(*tensors: torch.Tensor) -> float:
    fingerprint = Fingerprint()
    for tensor in tensors:
        bits = array_over(tensor)
        assert bits is not None
        fingerprint.add(bits)
    return fingerprint.number()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_equal_batches_have_equal_fingerprints(dtype: torch.dtype) -> None:
    """Whatever their order in memory; and others have others, even if little is different."""
    batch = torch.rand(64, 784).round(decimals=1).to(dtype)
    other = batch.clone()
    other[:, ::2] = (other[:, ::2] == 0).to(dtype)
    assert number_of(batch) == number_of(batch.clone()) == number_of(batch.t().contiguous().t())
    assert number_of(batch) != number_of(other)
    assert number_of(batch).is_integer()
    assert number_of(batch) < 2**52


def test_sparse_batches_are_told_apart() -> None:
    """Two bags of words are both nearly all zeros."""
    numbers = set()
    for seed in range(20):
        torch.manual_seed(seed)
        batch = torch.zeros(32, 10_000)
        batch[torch.arange(32), torch.randint(10_000, (32,))] = 1.0
        numbers.add(number_of(batch))
    assert 20 == len(numbers)


def test_shape_and_order_count() -> None:
    """The same numbers in another shape are another batch."""
    assert number_of(torch.zeros(4, 6)) != number_of(torch.zeros(6, 4))
    assert number_of(torch.zeros(2), torch.ones(2)) != number_of(torch.ones(2), torch.zeros(2))


def test_ids_come_in_pairs(logdir: Path) -> None:
    """After the first 32 steps: in sampled steps, and in the step after each."""
    found = trained(logdir, lambda step: vectors(), steps=60, every=10)
    assert [*range(33), 40, 41, 50, 51] == list(found.scalar("probe/batch_id"))
    assert [*range(32), 40, 50] == list(found.scalar("probe/input/0/feature_scale"))


def test_all_calls_of_a_step_count(logdir: Path) -> None:
    """Micro-batches, and moves of a policy that begins in the same state in every game."""
    model = mlp()
    optimizer = sgd(model)
    start = torch.zeros(1, 6)

    def body(step: int) -> None:
        optimizer.zero_grad()
        (model(start) + model(torch.randn(1, 6))).sum().backward()
        optimizer.step()

    found = probed(logdir, model, optimizer, body)
    assert 6 == len(set(found.scalar("probe/batch_id").values()))


def test_inputs_that_cannot_be_read_give_no_id(logdir: Path) -> None:
    """What can be read beside them would say nothing."""
    model = TwoInputs()
    optimizer = sgd(model)

    def body(step: int) -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 6), torch.ones(3, dtype=torch.complex64).conj()).sum().backward()
        optimizer.step()

    assert {} == probed(logdir, model, optimizer, body).scalar("probe/batch_id")


# ---- slices ----------------------------------------------------------------------------------


def test_a_slice_of_the_data_in_every_step(logdir: Path) -> None:
    """The first 8 of 80 rows, taken anew in every step."""
    inputs, labels = torch.randn(80, 6), torch.randint(3, (80,))
    found = trained(logdir, lambda step: (inputs[:8], labels[:8]))
    assert [1.0] * 5 == list(found.scalar("probe/batch_is_slice").values())
    assert [0.1] * 5 == list(found.scalar("probe/batch_share").values())
    assert 1 == len(set(found.scalar("probe/batch_id").values()))


def test_a_training_set_is_no_slice(logdir: Path) -> None:
    """It was cut off once, and is then passed as it is."""
    inputs, labels = torch.randn(80, 6)[:64], torch.randint(3, (80,))[:64]
    found = trained(logdir, lambda step: (inputs, labels))
    assert [0.0] * 5 == list(found.scalar("probe/batch_is_slice").values())


@pytest.mark.parametrize(
    ("tensor", "share"),
    [
        (torch.zeros(10, 4), 1.0),
        (torch.zeros(10, 4)[:5], 0.5),
        (torch.zeros(10, 4)[2:3].detach(), 0.1),
        (torch.zeros(10, 4)[:, :-1], 1.0),  # tokens but the last
        (torch.zeros(10, 4)[3], 0.1),
        (torch.zeros(10, 4, 2)[:5].transpose(0, 1), 0.5),
        (torch.zeros(4).unsqueeze(0), 1.0),
        (torch.zeros(1).expand(10, 4), 1.0),
        (torch.zeros(10, 3, 4, 4).to(memory_format=torch.channels_last), 1.0),
        (torch.zeros(()), 1.0),
        (torch.zeros(0, 4), 1.0),
    ],
)
def test_share_of_rows(tensor: torch.Tensor, share: float) -> None:
    """How many of the rows in memory a view shows."""
    assert share == share_of_rows(tensor)


# ---- loaders ---------------------------------------------------------------------------------


def test_a_loader_that_is_started_over_in_every_step(logdir: Path) -> None:
    """`next(iter(loader))` gives the first batch again and again."""
    loader = loaded(batch_size=8)
    found = trained(logdir, lambda step: next(iter(loader)))
    assert [5.0] * 6 == list(found.scalar("probe/loader_batches").values())
    assert [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] == list(found.scalar("probe/loader_restarts").values())
    assert 1 == len(set(found.scalar("probe/batch_id").values()))


def epochs(loader: DataLoader[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        yield from loader


def test_epochs(logdir: Path) -> None:
    """One start for each."""
    batches = epochs(loaded(batch_size=8, shuffle=True), 2)
    found = trained(logdir, lambda step: next(batches), steps=10)
    assert [1.0] * 5 + [2.0] * 5 == list(found.scalar("probe/loader_restarts").values())


def test_a_loader_that_only_feeds_evaluations(logdir: Path) -> None:
    """It is started over before every training step, and none of our business."""
    model = mlp()
    optimizer = sgd(model)
    inputs, labels = vectors()
    validation = loaded(batch_size=8)

    def body(step: int) -> torch.Tensor:
        with torch.no_grad():
            for each, _ in validation:
                model(each)
        return learn(model, optimizer, inputs, labels)

    found = probed(logdir, model, optimizer, body)
    assert {} == found.scalar("probe/loader_batches")


def test_training_and_validation(logdir: Path) -> None:
    """The loader of the training is the one that is told."""
    model = mlp()
    optimizer = sgd(model)
    training, validation = loaded(batch_size=8), loaded(16, batch_size=8)

    def train(monitor: nd.Monitor) -> None:
        for _ in range(2):
            for inputs, labels in training:
                monitor.step(loss=learn(model, optimizer, inputs, labels))
            with torch.no_grad():
                for inputs, _ in validation:
                    model(inputs)

    found = recorded(logdir, model, optimizer, train, on_finding="ignore")
    assert [5.0] * 10 == found.series("probe/loader_batches")
    assert [1.0] * 5 + [2.0] * 5 == found.series("probe/loader_restarts")


class Endless(IterableDataset[Any]):
    """Would make its loader warn when it is asked for its length and gives more."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.randn(6), 1

    def __len__(self) -> int:
        return 2


def test_a_loader_without_length(logdir: Path) -> None:
    """It is not asked for one."""
    batches = iter(DataLoader(Endless(), batch_size=4))
    found = trained(logdir, lambda step: next(batches))
    assert {} == found.scalar("probe/loader_batches")


def test_data_loaders_are_put_back(logdir: Path) -> None:
    """By the last of several monitors; a loop that is going on does not notice."""
    original = DataLoader.__iter__
    first, second = (nd.watch(mlp(), logdir=logdir, run=name, memory=False) for name in "ab")
    assert original is not DataLoader.__iter__
    batches = iter(loaded(batch_size=8))
    next(batches)
    first.close()
    assert original is not DataLoader.__iter__
    second.close()
    assert original is DataLoader.__iter__
    assert 4 == len(list(batches))


# ---- several models --------------------------------------------------------------------------


def test_a_recurrent_network_and_pictures(logdir: Path) -> None:
    """Sequences have no features; channels of pictures have."""
    model = Recurrent()
    optimizer = sgd(model)
    sequence, labels = torch.randn(4, 6, 5), torch.zeros(4, dtype=torch.long)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, sequence, labels))
    assert {"input/0"} == found.recorded.names(Kind.TENSOR) - {"label/0"}
    assert {} == found.scalar("probe/input/0/constant_features")
    assert 0.0 == feature_scalars(pictures()[0])["constant_features"]


def test_a_pair_of_networks(logdir: Path) -> None:
    """The inputs are those of the first one; what the second is fed by it is no data."""
    generator, judge = nn.Linear(4, 6), nn.Linear(6, 1)
    optimizers = {"g": sgd(generator), "d": sgd(judge)}

    def body(step: int) -> None:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
            judge(generator(torch.randn(8, 4))).mean().backward()
            optimizer.step()

    found = probed(logdir, {"g": generator, "d": judge}, optimizers, body)
    assert {"input/0"} == found.recorded.names(Kind.TENSOR) - {"label/0"}
    assert {32} == {each.count for each in found.recorded.samples(Kind.TENSOR, "input/0").values()}
