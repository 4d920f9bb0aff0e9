"""Three trainings of Keras on torch and one of torch: `fit`, `train_on_batch`, loops; then an error."""

from __future__ import annotations

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import layers

torch.set_num_threads(1)
X = np.random.default_rng(0).normal(size=(160, 8)).astype("float32")
Y = (X[:, 0] > 0).astype(int)


def network(rate: float) -> keras.Model:
    model = keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    return model


keras.utils.set_random_seed(1)
healthy = network(0.1)
for _ in range(2):
    history = healthy.fit(X, Y, epochs=2, verbose=0, validation_data=(X[:32], Y[:32])).history
    sys.stdout.write(f"{history}\n")
sick = network(1e4)
for start in range(0, 160, 8):
    sys.stdout.write(f"{sick.train_on_batch(X[start : start + 8], Y[start : start + 8])}\n")
linear = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
for start in range(0, 160, 16):
    optimizer.zero_grad()
    outputs = linear(torch.tensor(X[start : start + 16]))
    loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(Y[start : start + 16]))
    loss.backward()
    optimizer.step()
    sys.stdout.write(f"{loss.item()}\n")
looped, adam = network(0.1), keras.optimizers.Adam(0.01)
for start in range(0, 160, 16):
    looped.zero_grad()
    loss = looped.loss(torch.tensor(Y[start : start + 16]), looped(X[start : start + 16], training=True))
    loss.backward()
    with torch.no_grad():
        adam.apply([each.value.grad for each in looped.trainable_weights], looped.trainable_weights)
    sys.stdout.write(f"{loss.item()}\n")
healthy.fit(X[:, :5], Y, verbose=0)
