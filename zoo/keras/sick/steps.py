"""Mistakes in training steps and loops of one's own."""

# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

from typing import Any

from zoo.consequences import BLOWS_UP, STANDS_STILL
from zoo.keras.data import blobs, digits, regression, shapes
from zoo.keras.late import keras, tf
from zoo.program import Zoo, sick


@sick("unchanged-weights", also=("not-optimized", "no-gradient", *STANDS_STILL))
def keras_gradients_never_applied(zoo: Zoo) -> None:
    """A GradientTape loop that computes gradients, and forgets apply_gradients."""
    x, y = blobs(1000, features=16, classes=4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(40)
    model = keras.Sequential([keras.layers.Dense(48, activation="relu"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.Adam(1e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    monitor = zoo.watch(model, optimizer)
    for _ in range(5):
        for inputs, labels in data:
            with tf.GradientTape() as tape:
                loss = loss_fn(labels, model(inputs, training=True))
            tape.gradient(loss, model.trainable_variables)
            monitor.step(loss=loss)


@sick("eval-mode-training")
def keras_step_in_inference(zoo: Zoo) -> None:
    """A train_step that calls the model with training=False: no dropout, batch norm as it was made."""

    class Pictures(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.net = keras.Sequential(
                [
                    keras.layers.Conv2D(8, 3),
                    keras.layers.BatchNormalization(),
                    keras.layers.ReLU(),
                    keras.layers.Flatten(),
                    keras.layers.Dropout(0.3),
                    keras.layers.Dense(4),
                ]
            )

        def call(self, inputs: Any, training: bool = False) -> Any:
            return self.net(inputs, training=training)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=False))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    x, y = shapes(800)
    model = Pictures()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick("no-gradient", also=("unchanged-weights", "not-optimized", "frozen-weights"))
def keras_encoder_behind_stop_gradient(zoo: Zoo) -> None:
    """A stop_gradient left over from an experiment: the encoder stays random."""

    class Tagger(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.Sequential(
                [keras.layers.Dense(48, activation="relu"), keras.layers.Dense(32, activation="relu")]
            )
            self.head = keras.layers.Dense(10, activation="softmax")

        def call(self, inputs: Any) -> Any:
            return self.head(tf.stop_gradient(self.encoder(inputs)))

    x, y = digits()
    model = Tagger()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x.reshape(-1, 64), y, batch_size=64, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("not-optimized", also=("unchanged-weights", "frozen-weights", "no-gradient", *STANDS_STILL))
def keras_only_the_head_is_given(zoo: Zoo) -> None:
    """The gradients are taken of the last layer's weights alone, in a model that is new as a whole."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.SGD(0.01)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 64), y)).shuffle(1797).batch(64)
    head = model.layers[-1].trainable_variables
    monitor = zoo.watch(model, optimizer)
    for _ in range(5):
        for inputs, labels in data:
            with tf.GradientTape() as tape:
                loss = loss_fn(labels, model(inputs, training=True))
            optimizer.apply_gradients(zip(tape.gradient(loss, head), head, strict=True))
            monitor.step(loss=loss)


@sick("diverging-loss", also=("loss-negative", "loss-at-chance-start", *BLOWS_UP))
def keras_wrong_sign(zoo: Zoo) -> None:
    """A train_step of one's own that climbs: the gradients are taken of minus the error."""

    class Upwards(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = keras.layers.Dense(32, "relu"), keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.out(self.hidden(inputs))

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                error = tf.reduce_mean(tf.square(y - self(x, training=True)))
                loss = -error
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": error}

    x, y = regression(1000, features=8)
    model = Upwards()
    model.compile(keras.optimizers.Adam(2e-3))
    model.fit(x, y[:, None], batch_size=40, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("frozen-weights", also=("no-gradient", "unchanged-weights", "zero-gradients", *STANDS_STILL))
def keras_rounding_in_the_middle(zoo: Zoo) -> None:
    """Codes of 0 and 1 by tf.round between encoder and decoder: its slope is 0."""
    x, y = shapes(800)
    inputs = keras.Input((12, 12, 1))
    hidden = keras.layers.Conv2D(8, 3, strides=2, activation="relu")(inputs)
    code = keras.layers.Dense(24, activation="sigmoid")(keras.layers.Flatten()(hidden))
    code = keras.layers.Lambda(lambda each: tf.round(each))(code)
    outputs = keras.layers.Dense(4, activation="softmax")(keras.layers.Dense(24, activation="relu")(code))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=6, verbose=0, callbacks=[zoo.callback()])
