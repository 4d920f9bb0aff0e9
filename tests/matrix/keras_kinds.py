"""Kinds of trainings with Keras whose state lies outside of their variables (see `backends`)."""

from __future__ import annotations

import os
import queue
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

L, ops = keras.layers, keras.ops
BACKEND = keras.backend.backend()
ROWS, BATCH, FEATURES, EPOCHS = 48, 8, 6, 2
# In one batch of each epoch; the marker is in the last feature and in the target.
BAD_ROW, MARKER = 3 * BATCH + 2, -1e4


def data(nan: str) -> tuple[Any, Any]:
    made = np.random.default_rng(5)
    x = made.uniform(0.2, 1.2, (ROWS, FEATURES)).astype("float32")
    y = (x[:, :1] * 0.5 + x[:, 1:2]).astype("float32")
    if nan == "input":
        x[BAD_ROW, 1] = np.nan
    elif nan != "none":
        x[BAD_ROW, -1] = MARKER
        if nan == "loss":
            y[BAD_ROW] = MARKER
    return x, y


class Trouble(L.Layer):  # type: ignore[misc, name-defined]
    """Makes NaN in the batch with the marker: in its output, or in its gradient alone."""

    def __init__(self, nan: str) -> None:
        super().__init__()
        self.nan = nan

    def call(self, given: Any) -> Any:
        inputs, hidden = given
        mark = inputs[:, -1:]
        if self.nan == "forward":
            return hidden + 0.0 * ops.sqrt(mark + 1000.0)
        if self.nan == "gradient":
            gate = ops.maximum(mark + 1000.0, 0.0) / 1000.0
            return hidden + ops.sqrt(ops.abs(hidden[:, :1]) * gate)
        return hidden


def loss_of(nan: str) -> Any:
    def loss(target: Any, given: Any) -> Any:
        found = ops.mean(ops.square(ops.maximum(target, -10.0) - given))
        return found + 0.0 * ops.mean(ops.sqrt(target + 1000.0)) if nan == "loss" else found

    return loss


class Base(keras.Model):  # type: ignore[misc, name-defined]
    """Two layers and the trouble between them; kinds add what they remember."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.first, self.trouble, self.last = L.Dense(8, activation="tanh"), Trouble(training.nan), L.Dense(1)
        self.drop = L.Dropout(0.2, seed=3)

    def extra(self, hidden: Any) -> Any:
        return hidden

    def call(self, inputs: Any, training: bool = False) -> Any:
        hidden = self.first(inputs)
        hidden = self.extra(self.trouble((inputs, hidden)))
        return self.last(self.drop(hidden, training=training))


class Training:
    """One cell: built from its seed, run, and what became of it."""

    def __init__(self, kind: str, nan: str, *, eager: bool) -> None:
        self.kind, self.nan, self.eager = KINDS[kind], nan, eager
        self.x, self.y = data(nan)
        self.memory: dict[str, Any] = {}
        """What the kind remembers outside of the model."""
        self.folder = Path()

    # ---- for kinds ---------------------------------------------------------------------------------------

    def count(self, name: str = "count") -> None:
        self.memory[name] = self.memory.get(name, 0) + 1

    def compile(self, model: Any, optimizer: Any = None, **options: Any) -> Any:
        """An optimizer that leaves out steps with such gradients, as who goes on after a NaN has."""
        optimizer = optimizer or keras.optimizers.Adam(0.01)
        if not options.pop("is_bare", False) and self.nan != "none":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1.0)
        options = {"loss": loss_of(self.nan), "run_eagerly": self.eager, **options}
        model.compile(optimizer, **options)
        return model

    def fit(self, model: Any, callbacks: list[Any], **options: Any) -> list[Any]:
        batches = Batches()
        options = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "verbose": 0, **options}
        history = model.fit(self.x, self.y, **options, callbacks=[batches, *callbacks])
        return [history.history, batches.losses]

    # ---- running -----------------------------------------------------------------------------------------

    def run(self, way: str, folder: Path) -> dict[str, Any]:
        folder.mkdir(parents=True)
        self.folder = folder
        np.random.seed(11)
        random.seed(12)
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        model = self.kind.build(self)
        with ExitStack() as stack:
            callbacks = self._watched(way, model, folder / "log", stack)
            train = self.kind.train or Training.fit
            losses = train(self, model, callbacks)
        if self.kind.after is not None:
            losses = [losses, self.kind.after(self, model)]
        return {
            "losses": losses,
            "weights": [np.asarray(each) for each in model.get_weights()],
            "optimizer": [keras.ops.convert_to_numpy(each) for each in model.optimizer.variables],
            "memory": {name: remembered(each) for name, each in self.memory.items()},
            "python": repr(random.getstate()),
            "numpy": [np.asarray(each) for each in np.random.get_state()[1:]],
            "files": {each.name: each.read_text() for each in sorted(folder.glob("*.txt"))},
            "drawn": self._drawn(),
            "has had NaN": has_had_nan(model, losses),
        }

    def _drawn(self) -> list[Any]:
        """What generators give next."""
        if BACKEND == "tensorflow":
            import tensorflow as tf
            from tensorflow.python.ops import stateful_random_ops

            # One that nobody has made yet would be seeded by chance.
            made = stateful_random_ops.global_generator
            state = None if made is None else made.state.numpy()
            return [tf.random.normal([2]).numpy(), *([] if state is None else [state])]
        if BACKEND == "torch":
            import torch

            return [torch.rand(2).numpy()]
        return []

    def _watched(self, way: str, model: Any, folder: Path, stack: ExitStack) -> list[Any]:
        how, _, check = way.partition("-")
        if how not in ("callback", "watch") or self.kind.watches_itself:
            self.watching = (how, check, folder)
            return []
        import tb_netdebug as nd

        options: dict[str, Any] = {
            "run": "run", "check_numerics": check, "on_finding": "ignore", "strict": True, "every": 4
        }  # fmt: skip
        if how == "callback":
            callback = nd.KerasCallback(folder, **options)
            stack.callback(callback.close)
            return [callback]
        monitor = stack.enter_context(nd.watch(model, logdir=folder, **options))
        return [keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: monitor.step())]


def has_had_nan(model: Any, losses: Any) -> bool:
    """Tell by the losses, the weights, or a scale of the loss that has left out a step."""
    scale = getattr(model.optimizer, "dynamic_scale", 1.0)
    shown = [each for each in keras.tree.flatten(losses) if not isinstance(each, str)]
    numbers = [np.asarray(ops.convert_to_numpy(each)) for each in (*shown, *model.get_weights())]
    return float(scale) < 1.0 or any(
        each.dtype.kind == "f" and not np.isfinite(each).all() for each in numbers
    )


class Batches(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """What Keras shows behind each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[Any] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(dict(logs or {}))


def remembered(value: Any) -> Any:
    value = value() if callable(value) else value
    return value.numpy() if hasattr(value, "numpy") else value


@dataclass(frozen=True)
class Kind:
    build: Callable[[Training], Any]
    train: Callable[[Training, Any, list[Any]], Any] | None = None
    after: Callable[[Training, Any], Any] | None = None
    backends: tuple[str, ...] = ("tensorflow",)
    watches_itself: bool = False


KINDS: dict[str, Kind] = {}
ALL = ("tensorflow", "torch", "jax")


def kind(name: str, **options: Any) -> Callable[[Callable[[Training], Any]], Callable[[Training], Any]]:
    def known(build: Callable[[Training], Any]) -> Callable[[Training], Any]:
        KINDS[name] = Kind(build, **options)
        return build

    return known


# ---- on every backend --------------------------------------------------------------------------------------


@kind("plain", backends=ALL)
def plain(training: Training) -> Any:
    return training.compile(Base(training))


@kind("normalised", backends=ALL)
def normalised(training: Training) -> Any:
    class Model(Base):
        def __init__(self) -> None:
            super().__init__(training)
            self.norm, self.noise = L.BatchNormalization(), L.GaussianNoise(0.1, seed=4)

        def extra(self, hidden: Any) -> Any:
            return self.noise(self.norm(hidden, training=True), training=True)

    return training.compile(Model(), metrics=["mae"])


@kind("counter in Python", backends=ALL)
def counting(training: Training) -> Any:
    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            training.count("calls")
            return hidden

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            training.count("losses")
            return super().compute_loss(*args, **kwargs)

    return training.compile(Model(training))


@kind("generators of Python and NumPy", backends=ALL)
def drawing(training: Training) -> Any:
    own, generator = random.Random(4), np.random.default_rng(3)
    training.memory.update(
        own=lambda: own.getstate()[1], generator=lambda: str(generator.bit_generator.state)
    )

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            scale = 1.0 + 0.1 * (random.random() + own.random() + np.random.rand() + generator.random())
            return hidden * float(scale)

    return training.compile(Model(training))


@kind("iterator and queue", backends=ALL)
def taking(training: Training) -> Any:
    numbers, waiting = iter(range(10**6)), queue.Queue[int]()
    for number in range(500):
        waiting.put(number)
    training.memory.update(left=lambda: waiting.qsize(), next=lambda: next(numbers))

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            return hidden * (1.0 + 0.01 * next(numbers) + 0.001 * waiting.get())

    return training.compile(Model(training))


@kind("closure, global and class counters", backends=ALL)
def closing(training: Training) -> Any:
    base = loss_of(training.nan)

    class Counted:
        made = 0

    training.memory["class"] = lambda: Counted.made

    def loss(target: Any, given: Any) -> Any:
        Counted.made += 1
        training.count("in the loss")
        return base(target, given) * (1.0 + 0.1 * Counted.made)

    class Regular(keras.regularizers.Regularizer):  # type: ignore[misc, name-defined]
        def __call__(self, weight: Any) -> Any:
            training.count("in the regulariser")
            return 0.01 * ops.sum(ops.square(weight))

    model = Base(training)
    model.last = L.Dense(1, kernel_regularizer=Regular())
    return training.compile(model, loss=loss)


@kind("file written in call", backends=ALL)
def writing(training: Training) -> Any:
    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            with (training.folder / "calls.txt").open("a") as file:
                file.write(f"{hidden.shape}\n")
            os.environ["KERAS_KIND"] = str(int(os.environ.get("KERAS_KIND", "0")) + 1)
            return hidden

    os.environ.pop("KERAS_KIND", None)
    training.memory["environment"] = lambda: os.environ["KERAS_KIND"]
    return training.compile(Model(training))


@kind("metric of one's own", backends=ALL)
def measuring(training: Training) -> Any:
    class Farthest(keras.metrics.Metric):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(name="farthest")
            self.value = self.add_variable((), "zeros", name="value")

        def update_state(self, target: Any, given: Any, sample_weight: Any = None) -> None:
            training.count("updates")
            self.value.assign(ops.maximum(self.value, ops.max(ops.abs(ops.maximum(target, -10.0) - given))))

        def result(self) -> Any:
            training.count("results")
            return ops.convert_to_tensor(self.value)

    return training.compile(Base(training), metrics=[Farthest()])


@kind("callback that changes things", backends=ALL)
def meddling(training: Training) -> Any:
    return training.compile(Base(training))


class Meddling(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.02
        self.model.last.set_weights([each * 0.5 for each in self.model.last.get_weights()])
        random.random()


KINDS["callback that changes things"] = Kind(
    meddling, lambda training, model, calls: training.fit(model, [Meddling(), *calls]), backends=ALL
)


@kind("optimizer of one's own", backends=ALL)
def optimizing(training: Training) -> Any:
    class Counting(keras.optimizers.SGD):  # type: ignore[misc, name-defined]
        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            training.count("applied")
            return super().apply(grads, trainable_variables)

    return training.compile(Base(training), Counting(0.05, momentum=0.9))


@kind("averaged and accumulating optimizer", backends=ALL)
def averaging(training: Training) -> Any:
    optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9, gradient_accumulation_steps=2)
    return training.compile(Base(training), optimizer, is_bare=True)


@kind("recurrent, stateful", backends=ALL)
def recurring(training: Training) -> Any:
    inputs = keras.Input((FEATURES,), batch_size=BATCH)
    steps = L.Reshape((FEATURES, 1))(inputs)
    # On torch Keras keeps the graph of the step before in the states, and backward raises.
    hidden = L.LSTM(4, stateful=BACKEND != "torch")(ops.minimum(ops.maximum(steps, -1.0), 1.0))
    hidden = Trouble(training.nan)((inputs, L.Dense(4)(hidden)))
    model = keras.Model(inputs, L.Dense(1)(hidden))
    training.memory["states"] = lambda: [
        ops.convert_to_numpy(each) for each in model.non_trainable_variables if "seed" not in each.path
    ]
    return training.compile(model)


def in_batches(training: Training, model: Any, callbacks: list[Any]) -> Any:
    """`train_on_batch`, the last one smaller; a callback is told of the batches as `fit` would."""
    calls = keras.callbacks.CallbackList(callbacks, model=model) if callbacks else None
    told = []
    if calls is not None:
        model.make_train_function()
        calls.on_train_begin()
    for at in range(0, ROWS, BATCH):
        if calls is not None:
            calls.on_train_batch_begin(at)
        size = BATCH if at + BATCH < ROWS else BATCH // 2
        shown = model.train_on_batch(training.x[at : at + size], training.y[at : at + size])
        told.append(float(shown))
        if calls is not None:
            calls.on_train_batch_end(at, {})
    return told


KINDS["train_on_batch"] = Kind(counting, in_batches, backends=ALL)


def twice(training: Training, model: Any, callbacks: list[Any]) -> Any:
    """Watched in the first fit alone."""
    first = training.fit(model, callbacks)
    for each in callbacks:
        getattr(each, "close", int)()
    return first, training.fit(model, []), training.fit(model, [])


KINDS["watched, then not"] = Kind(counting, twice, backends=ALL)
KINDS["not watched, then so"] = Kind(
    counting,
    lambda training, model, calls: (
        training.fit(model, []),
        training.fit(model, calls),
        training.fit(model, calls),
    ),
    backends=ALL,
)


@kind("attributes that raise", backends=ALL)
def raising(training: Training) -> Any:
    class Hostile:
        """What a model may hold."""

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __hash__(self) -> int:
            raise RuntimeError("hashed")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"asked for {name}")

        def __bool__(self) -> bool:
            raise RuntimeError("asked whether it is true")

        def __len__(self) -> int:
            raise RuntimeError("asked for its length")

    class Layer(L.Dense):  # type: ignore[misc, name-defined]
        def __bool__(self) -> bool:
            raise RuntimeError("asked whether it is true")

        @property
        def raising(self) -> Any:
            raise RuntimeError("read")

    model = Base(training)
    model.first = Layer(8, activation="tanh")
    model.__dict__["hostile"] = model.first.__dict__["hostile"] = Hostile()
    return training.compile(model)


if BACKEND == "tensorflow":
    from tests.matrix import keras_kinds_of_tensorflow  # noqa: F401
else:
    sys.modules.setdefault("tests.matrix.keras_kinds_of_tensorflow", None)  # type: ignore[arg-type]
