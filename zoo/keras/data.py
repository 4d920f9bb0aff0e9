"""What programs of Keras learn from, as NumPy arrays; the runner has seeded NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


def blobs(count: int, *, features: int, classes: int, spread: float = 2.0) -> tuple[Floats, Labels]:
    """Clouds of points around one centre a class, with labels in random order."""
    centres = np.random.normal(size=(classes, features)) * spread
    labels = np.random.randint(classes, size=count)
    return (centres[labels] + np.random.normal(size=(count, features))).astype("float32"), labels


def regression(count: int, *, features: int, noise: float = 0.1) -> tuple[Floats, Floats]:
    """Inputs, and targets of shape (count,) near a smooth function of them; both of about unit size."""
    inputs = np.random.normal(size=(count, features))
    targets = inputs @ np.random.normal(size=features) / features**0.5 + 0.5 * np.sin(2 * inputs[:, 0])
    targets += noise * np.random.normal(size=count)
    return inputs.astype("float32"), (targets / targets.std()).astype("float32")


def shapes(count: int, *, size: int = 12) -> tuple[Floats, Labels]:
    """Small noisy pictures (count, size, size, 1) of a flat bar, an upright one, a cross and a square."""
    labels = np.random.randint(4, size=count)
    pictures = (0.3 * np.random.normal(size=(count, size, size, 1))).astype(np.float32)
    for picture, label in zip(pictures, labels.tolist(), strict=True):
        row, column = np.random.randint(2, size - 3, size=2)
        if label in (0, 2):
            picture[row] += 1.5
        if label in (1, 2):
            picture[:, column] += 1.5
        if label == 3:
            picture[row - 1 : row + 2, column - 1 : column + 2] += 1.5
    return pictures, labels


def digits() -> tuple[Floats, Labels]:
    """1797 handwritten digits as (1797, 8, 8, 1) in 0 to 1, shuffled, with their labels."""
    found = datasets.load_digits()
    order = np.random.permutation(len(found.target))
    return (found.images[order, :, :, None] / 16).astype("float32"), found.target[order].astype("int64")


def table(name: str) -> tuple[Floats, Labels]:
    """ "iris", "wine" or "breast_cancer", unscaled and shuffled."""
    found: Any = getattr(datasets, f"load_{name}")()
    order = np.random.permutation(len(found.target))
    return found.data[order].astype("float32"), found.target[order].astype("int64")


def sequences(count: int, *, length: int, words: int = 12) -> tuple[NDArray[np.int64], Labels]:
    """Rows of tokens 1 … words-1, and whether more of them are even than odd."""
    tokens = np.random.randint(1, words, size=(count, length))
    return tokens, ((tokens % 2).sum(1) * 2 < length).astype("int64")


def waves(count: int, *, length: int) -> tuple[Floats, Labels]:
    """Noisy sines (count, length, 1) of three frequencies, and which one it is."""
    labels = np.random.randint(3, size=count)
    phases = 6.28 * np.random.rand(count, 1)
    rows = np.sin(6.28 * (labels[:, None] * 2 + 1) * np.linspace(0, 1, length) + phases)
    return (rows + 0.2 * np.random.normal(size=rows.shape)).astype("float32")[:, :, None], labels


def sentences(count: int, *, length: int, words: int = 16) -> NDArray[np.int64]:
    """Rows of a made-up language: each word mostly decides the next."""
    successor = np.random.permutation(words)
    rows = np.random.randint(words, size=(count, length))
    for place in range(1, length):
        follows = np.random.rand(count) < 0.85
        rows[:, place] = np.where(follows, successor[rows[:, place - 1]], rows[:, place])
    return rows
