"""Data that the programs learn from: made up, seeded by the runner, or what comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor


def blobs(count: int, *, features: int, classes: int, spread: float = 2.0) -> tuple[Tensor, Tensor]:
    """Clouds of points around one centre a class, with labels in random order."""
    centres = torch.randn(classes, features) * spread
    labels = torch.randint(classes, (count,))
    return centres[labels] + torch.randn(count, features), labels


def regression(count: int, *, features: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Inputs, and targets of shape (count, 1) near a smooth function of them; both of about unit size."""
    inputs = torch.randn(count, features)
    weights = torch.randn(features, 1) / features**0.5
    targets = inputs @ weights + 0.5 * torch.sin(2 * inputs[:, :1]) + noise * torch.randn(count, 1)
    return inputs, targets / targets.std()


def shapes(count: int, *, size: int = 12) -> tuple[Tensor, Tensor]:
    """Small noisy pictures (count, 1, size, size) of a flat bar, an upright one, a cross and a square."""
    labels = torch.randint(4, (count,))
    pictures = 0.3 * torch.randn(count, 1, size, size)
    for picture, label in zip(pictures, labels.tolist(), strict=True):
        row, column = (int(each) for each in torch.randint(2, size - 3, (2,)))
        if label in (0, 2):
            picture[0, row, :] += 1.5
        if label in (1, 2):
            picture[0, :, column] += 1.5
        if label == 3:
            picture[0, row - 1 : row + 2, column - 1 : column + 2] += 1.5
    return pictures, labels


def discs(count: int, *, size: int = 14) -> tuple[Tensor, Tensor]:
    """Noisy pictures (count, 1, size, size) of one disc each, and where it is: 1.0 inside, 0.0 outside."""
    places = 2 + (size - 4) * torch.rand(count, 2, 1, 1)
    radius = 1.5 + 2 * torch.rand(count, 1, 1)
    steps = torch.arange(float(size))
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="ij"))
    masks = ((grid - places).square().sum(1) < radius**2).float()[:, None]
    return masks + 0.4 * torch.randn_like(masks), masks


def digits() -> tuple[Tensor, Tensor]:
    """1797 handwritten digits as (1797, 1, 8, 8) in 0 to 1, shuffled, with their labels."""
    found = datasets.load_digits()
    order = torch.randperm(len(found.target))
    pictures = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16
    return pictures[order], torch.tensor(found.target)[order]


def table(name: str) -> tuple[Tensor, Tensor]:
    """ "iris", "wine" or "breast_cancer" as it is stored: unscaled, and sorted by label if it is so there."""
    found = getattr(datasets, f"load_{name}")()
    return torch.tensor(np.asarray(found.data), dtype=torch.float32), torch.tensor(found.target)


def sequences(count: int, *, length: int, words: int = 12) -> tuple[Tensor, Tensor]:
    """Rows of tokens 1 … words-1, and whether more of them are even than odd."""
    tokens = torch.randint(1, words, (count, length))
    return tokens, (tokens.remainder(2).sum(1) * 2 < length).long()


def waves(count: int, *, length: int) -> tuple[Tensor, Tensor]:
    """Noisy sines (count, length, 1) of three frequencies, and which one it is."""
    labels = torch.randint(3, (count,))
    time = torch.linspace(0, 1, length)[None]
    phases = 6.28 * torch.rand(count, 1)
    rows = torch.sin(6.28 * (labels[:, None] * 2 + 1) * time + phases) + 0.2 * torch.randn(count, length)
    return rows[:, :, None], labels


def sentences(*, length: int, words: int = 16) -> Iterator[Tensor]:
    """Endless batches (32, length) of text from a made-up language: each word mostly decides the next."""
    successor = torch.randperm(words)
    while True:
        rows = [torch.randint(words, (32,))]
        for _ in range(length - 1):
            random = torch.randint(words, (32,))
            rows.append(torch.where(torch.rand(32) < 0.85, successor[rows[-1]], random))
        yield torch.stack(rows, 1)


def batches(*tensors: Tensor, size: int, steps: int) -> Iterator[tuple[Tensor, ...]]:
    """Shuffled in each epoch, as a DataLoader would."""
    order: list[int] = []
    for _ in range(steps):
        if len(order) < size:
            order = torch.randperm(len(tensors[0])).tolist()
        chosen, order = order[:size], order[size:]
        yield tuple(each[chosen] for each in tensors)
