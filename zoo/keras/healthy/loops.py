"""Training steps and loops of one's own, several networks, mixed precision."""

# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.keras.data import blobs, digits, regression
from zoo.keras.late import keras, tf
from zoo.program import Zoo, healthy


@healthy
def keras_gradient_tape(zoo: Zoo) -> None:
    """The loop of TensorFlow's guide, step by step in Python."""
    x, y = blobs(1200, features=16, classes=4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1200).batch(48)
    model = keras.Sequential([keras.layers.Dense(48, activation="relu"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.Adam(2e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    monitor = zoo.watch(model, optimizer)
    for _ in range(5):
        for inputs, labels in data:
            with tf.GradientTape() as tape:
                loss = loss_fn(labels, model(inputs, training=True))
            gradients = tape.gradient(loss, model.trainable_weights)
            optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
            monitor.step(loss=loss)


@healthy
def keras_tape_in_a_function(zoo: Zoo) -> None:
    """The same as a tf.function of one's own, with clipping, and a validation after each epoch."""
    x, y = regression(1000, features=8)
    train = tf.data.Dataset.from_tensor_slices((x[:800], y[:800, None])).shuffle(800).batch(32)
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)

    @tf.function
    def train_step(inputs: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    monitor = zoo.watch(model, optimizer)
    for _ in range(6):
        for inputs, targets in train:
            monitor.step(loss=train_step(inputs, targets))
        predicted = model(x[800:], training=False)
        monitor.log(val_loss=float(tf.reduce_mean(tf.square(predicted - y[800:, None]))))


@healthy
def keras_variational_autoencoder(zoo: Zoo) -> None:
    """The example of Keras's site in small: train_step, two losses, metrics of one's own."""

    class VAE(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(48, activation="relu")
            self.mean, self.log_var = keras.layers.Dense(4), keras.layers.Dense(4)
            self.decoder = keras.Sequential(
                [keras.layers.Dense(48, activation="relu"), keras.layers.Dense(64, activation="sigmoid")]
            )
            self.total = keras.metrics.Mean(name="loss")
            self.divergence = keras.metrics.Mean(name="kl_loss")

        @property
        def metrics(self) -> Any:
            return [self.total, self.divergence]

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                hidden = self.hidden(data)
                mean, log_var = self.mean(hidden), self.log_var(hidden)
                code = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
                made = self.decoder(code)
                rebuilt = tf.reduce_mean(keras.losses.binary_crossentropy(data, made)) * 64
                spread = -0.5 * (1 + log_var - tf.square(mean) - tf.exp(log_var))
                divergence = tf.reduce_mean(tf.reduce_sum(spread, axis=1))
                loss = rebuilt + divergence
            gradients = tape.gradient(loss, self.trainable_weights)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
            self.total.update_state(loss)
            self.divergence.update_state(divergence)
            return {each.name: each.result() for each in self.metrics}

    pictures = digits()[0].reshape(-1, 64)
    model = VAE()
    model.compile(keras.optimizers.Adam(2e-3))
    model.fit(pictures, batch_size=64, epochs=7, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_generator_and_critic(zoo: Zoo) -> None:
    """A GAN of points in the plane with two optimizers in its train_step."""

    class GAN(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            leaky = keras.layers.LeakyReLU
            self.generator = keras.Sequential([keras.layers.Dense(32), leaky(), keras.layers.Dense(2)])
            self.critic = keras.Sequential([keras.layers.Dense(32), leaky(), keras.layers.Dense(1)])

        def compile(self, critic: Any, generator: Any, loss: Any) -> None:
            super().compile()
            self.critics, self.generators, self.measure = critic, generator, loss

        def train_step(self, real: Any) -> Any:
            count = tf.shape(real)[0]
            fake = self.generator(tf.random.normal((count, 8)))
            points = tf.concat([fake, real], axis=0)
            labels = tf.concat([tf.zeros((count, 1)), tf.ones((count, 1))], axis=0)
            with tf.GradientTape() as tape:
                critic_loss = self.measure(labels, self.critic(points))
            gradients = tape.gradient(critic_loss, self.critic.trainable_weights)
            self.critics.apply_gradients(zip(gradients, self.critic.trainable_weights, strict=True))
            with tf.GradientTape() as tape:
                judged = self.critic(self.generator(tf.random.normal((count, 8))))
                loss = self.measure(tf.ones((count, 1)), judged)
            gradients = tape.gradient(loss, self.generator.trainable_weights)
            self.generators.apply_gradients(zip(gradients, self.generator.trainable_weights, strict=True))
            return {"d_loss": critic_loss, "g_loss": loss}

    points = np.random.normal(size=(1600, 2)) @ np.array([[0.6, 0.2], [0.0, 0.4]]) + np.array([1.0, -0.5])
    model = GAN()
    model.compile(
        critic=keras.optimizers.Adam(2e-3, beta_1=0.5),
        generator=keras.optimizers.Adam(1e-3, beta_1=0.5),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    data = tf.data.Dataset.from_tensor_slices(points.astype("float32")).shuffle(1600).batch(64)
    model.fit(data, epochs=8, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_mixed_float16(zoo: Zoo) -> None:
    """set_global_policy("mixed_float16"), with the softmax in float32 as the guide says."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    x, y = digits()
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(10),
            keras.layers.Activation("softmax", dtype="float32"),
        ]
    )
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    model.fit(x.reshape(-1, 64), y, batch_size=64, epochs=6, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_twins_with_contrastive_loss(zoo: Zoo) -> None:
    """One encoder for two inputs, the distance between them, and a loss function of one's own."""

    def contrastive(same: Any, distance: Any) -> Any:
        same = keras.ops.cast(same, distance.dtype)
        apart = keras.ops.square(keras.ops.maximum(1.0 - distance, 0.0))
        return keras.ops.mean(same * keras.ops.square(distance) + (1 - same) * apart)

    x, y = blobs(1600, features=12, classes=4)
    partner = np.random.permutation(1600)
    partner = np.where(np.random.rand(1600) < 0.3, np.arange(1600)[::-1], partner)
    encoder = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(8, activation="tanh")]
    )
    one, other = keras.Input((12,)), keras.Input((12,))
    gap = keras.layers.Subtract()([encoder(one), encoder(other)])
    distance = keras.layers.Lambda(
        lambda each: keras.ops.sqrt(keras.ops.sum(keras.ops.square(each), axis=1, keepdims=True) + 1e-7)
    )(gap)
    model = keras.Model([one, other], distance)
    model.compile(keras.optimizers.Adam(2e-3), contrastive)
    model.fit(
        [x, x[partner]],
        (y == y[partner]).astype("float32"),
        batch_size=64,
        epochs=7,
        verbose=0,
        callbacks=[zoo.callback()],
    )


@healthy
def keras_bandit_by_train_on_batch(zoo: Zoo) -> None:
    """Values of five actions, learned from the rewards of the one that was tried; train_on_batch."""
    wanted = np.random.normal(size=(6, 5))
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(5)])
    model.compile(keras.optimizers.Adam(3e-3), loss=keras.losses.Huber())
    monitor = zoo.watch(model)
    for step in range(200):
        states = np.random.normal(size=(32, 6)).astype("float32")
        values = np.array(model(states))
        greedy = values.argmax(1)
        action = np.where(
            np.random.rand(32) < max(0.1, 1 - step / 100), np.random.randint(5, size=32), greedy
        )
        reward = np.tanh(states @ wanted)[np.arange(32), action]
        values[np.arange(32), action] = reward
        loss = model.train_on_batch(states, values)
        monitor.step(loss=float(loss))
