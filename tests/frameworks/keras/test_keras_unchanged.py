"""Trainings of Keras give the same numbers with and without us, and every part of them is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.keras_runs import X, Y, both, dense, fit

L = keras.layers


def plain(**options: Any) -> Any:
    return dense(
        L.Dense(24), L.Activation("tanh"), L.Dense(24), L.ReLU(), L.Dropout(0.3), L.Dense(3), **options
    )


def pictures() -> Any:
    return dense(
        L.Reshape((4, 4, 1)), L.Conv2D(4, 3, padding="same", use_bias=False), L.BatchNormalization(),
        L.Activation("relu"), L.SpatialDropout2D(0.2), L.Conv2D(4, 3), L.Activation("elu"),
        L.GlobalAveragePooling2D(), L.Dense(3),
    )  # fmt: skip


def words() -> Any:
    return dense(L.Embedding(20, 8), L.LSTM(8), L.Dense(3))


class Own(keras.Model):  # type: ignore[misc, name-defined]
    """A model with a training step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = L.Dense(16, activation="gelu")
        self.inner = keras.Sequential([L.Dense(8), L.LayerNormalization()])
        self.last = L.Dense(3)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.inner(self.first(inputs)))

    def train_step(self, data: Any) -> Any:
        inputs, labels = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=labels, y_pred=self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def own() -> Any:
    model = Own()
    model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def frozen() -> Any:
    model = plain()
    model.layers[0].trainable = False
    return model


def mixed() -> Any:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return plain()
    finally:
        keras.mixed_precision.set_global_policy("float32")


def mirrored() -> Any:
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        return plain()


def several() -> Any:
    """Several inputs and outputs, and a layer that is shared."""
    one, two = L.Input((8,), name="one"), L.Input((8,), name="two")
    shared = L.Dense(8, activation="elu", name="shared")
    hidden = L.BatchNormalization()(L.Concatenate()([shared(one), shared(two)]))
    hidden = L.Add()([hidden, L.Dense(16)(hidden)])
    classes = L.Dense(3, name="classes", activation="softmax")(hidden)
    outputs = {"classes": classes, "number": L.Dense(1, name="number")(hidden)}
    model = keras.Model({"one": one, "two": two}, outputs)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        {"classes": "sparse_categorical_crossentropy", "number": "mse"},
    )
    return model


def fit_several(model: Any, callbacks: list[Any]) -> Any:
    inputs = {"one": X[:, :8], "two": X[:, 8:]}
    targets = {"classes": Y, "number": X[:, :1]}
    return model.fit(inputs, targets, epochs=3, verbose=0, callbacks=callbacks)


def fit_words(model: Any, callbacks: list[Any]) -> Any:
    return model.fit(abs(X * 5).astype(int) % 20, Y, epochs=3, verbose=0, callbacks=callbacks)


def fit_weighted(model: Any, callbacks: list[Any]) -> Any:
    return fit(model, callbacks, class_weight={0: 1.0, 1: 2.0, 2: 1.0})


MODELS: dict[str, tuple[Callable[[], Any], Callable[[Any, list[Any]], Any]]] = {
    "plain": (plain, fit),
    "eager": (lambda: plain(run_eagerly=True), fit),
    "pictures": (pictures, fit),
    "words": (words, fit_words),
    "own step": (own, fit),
    "frozen": (frozen, fit),
    "mixed precision": (mixed, fit),
    "mirrored": (mirrored, fit),
    "several": (several, fit_several),
    "weighted": (plain, fit_weighted),
    "accumulating": (
        lambda: plain(optimizer=keras.optimizers.Adam(0.01, gradient_accumulation_steps=4)),
        fit,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_the_same_to_the_last_bit(name: str, tmp_path: Path) -> None:
    """Losses and weights do not change; each batch has its loss, and all weights are sampled."""
    run, is_same = both(tmp_path, *MODELS[name])
    assert is_same
    assert len(run.scalar("loss")) == 24 >= len(run.scalar("gradient_norm")) >= 8
    assert set(run.scalar("batch_size").values()) <= {32.0, 16.0}
    assert run.names("WEIGHT") >= run.names("UPDATE") >= run.names("GRADIENT") != set()
    assert run.names("ACTIVATION")


def in_front(inputs: Any, kind: str) -> Any:
    """Return what a layer "before" makes of the inputs, which a ReLU is to read."""
    pictures = L.Reshape((4, 4, 1))(inputs)
    parts: dict[str, Callable[[], Any]] = {
        "dense": lambda: L.Dense(16, name="before")(inputs),
        "convolution": lambda: L.Conv2D(4, 3, name="before")(pictures),
        "convolution in depth": lambda: L.DepthwiseConv2D(3, name="before")(pictures),
        "convolution and shortcut": lambda: L.Add(name="before")(
            [L.Conv2D(1, 3, padding="same")(pictures), pictures]
        ),
        "no bias": lambda: L.Dense(16, use_bias=False, name="before")(inputs),
        "dense and shortcut": lambda: L.Add(name="before")([L.Dense(16)(inputs), inputs]),
        "batch norm": lambda: L.BatchNormalization(name="before")(L.Dense(16)(inputs)),
    }
    return parts[kind]()


def with_nan(model: Any, callbacks: list[Any]) -> Any:
    inputs = X.copy()
    inputs[150, 2] = np.nan
    return model.fit(inputs, Y, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)


@pytest.mark.parametrize("is_six", [False, True])
@pytest.mark.parametrize(
    ("kind", "is_shown"),
    [
        ("dense", False), ("convolution", False), ("convolution in depth", False),
        ("convolution and shortcut", False), ("no bias", True), ("dense and shortcut", True),
        ("batch norm", True),
    ],
)  # fmt: skip
def test_a_nan_in_front_of_a_relu_does_what_it_does_alone(
    kind: str, is_shown: bool, is_six: bool, tmp_path: Path
) -> None:
    """TensorFlow's fused ReLU turns it into 0; what is not fused is shown, and so is the ReLU's output."""

    def build() -> Any:
        inputs = keras.Input((16,))
        clipped = L.ReLU(max_value=6.0 if is_six else None, name="clip")(in_front(inputs, kind))
        model = keras.Model(inputs, L.Dense(3)(L.Flatten()(clipped)))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    run, is_same = both(tmp_path, build, with_nan)
    assert is_same
    assert ("before" in run.names("ACTIVATION")) is is_shown
    assert "clip" in run.names("ACTIVATION")


def test_nothing_is_traced_after_the_second_step(tmp_path: Path) -> None:
    """One trace for sampled steps and one for the others, also with a smaller batch at the end."""
    run, is_same = both(tmp_path, plain, lambda model, calls: fit(model, calls, batch_size=60))
    assert is_same
    assert run.traces.counts[:2] == [1, 2]
    assert set(run.traces.counts[1:]) == {2}


def test_everything_every_step_is_one_trace(tmp_path: Path) -> None:
    """With every=1 no step is an ordinary one."""
    run, is_same = both(tmp_path, plain, fit, every=1)
    assert is_same
    assert set(run.traces.counts) == {1}
    series = [each for each in run.recorded.tensors if each.kind.name in ("ACTIVATION", "GRADIENT")]
    assert {len(run.recorded.tensors[each]) for each in series} == {24}


def test_numbers_that_come_late_get_to_their_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from an accelerator, which is not waited for: each step has the numbers that it has otherwise."""
    early, _ = both(tmp_path / "early", plain, fit)
    monkeypatch.setattr("tb_netdebug.frameworks.keras.adapter.answers_late", lambda: True)
    late, is_same = both(tmp_path / "late", plain, fit)
    assert is_same
    for name in ("loss", "lr/0", "batch_size"):
        assert early.scalar(name) == late.scalar(name)
    assert len(late.scalar("time/data")) == len(late.scalar("probe/batch_id")) == 24
    assert "health" not in late.recorded.scalars


@pytest.mark.parametrize(("option", "value"), [("jit_compile", True), ("steps_per_execution", 4)])
def test_what_hides_the_step_is_said(option: str, value: Any, tmp_path: Path) -> None:
    """The training goes on as it is; weights and the loss are recorded."""
    with pytest.warns(Warning, match="the inside of the training step is not watched"):
        run, is_same = both(tmp_path, lambda: plain(**{option: value}), fit)
    assert is_same
    assert run.names("WEIGHT")
    assert not run.names("ACTIVATION")
    assert len(run.scalar("loss")) == (24 if option == "jit_compile" else 6)


def test_a_second_fit_goes_on_counting(tmp_path: Path) -> None:
    """The same callback and model: one recording."""

    def twice(model: Any, callbacks: list[Any]) -> Any:
        fit(model, callbacks)
        return fit(model, callbacks, validation_data=(X[:32], Y[:32]))

    run, is_same = both(tmp_path, plain, twice)
    assert is_same
    assert sorted(run.scalar("loss")) == list(range(48))
    assert len(run.scalar("scalar/val_loss")) == 3
