"""What people ask in forums: losses, shapes, masks and inputs that are not what they were taken for."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, discs, sentences, sequences, table, waves
from zoo.fit import BLOWS_UP, NOT_FINITE, STANDS_STILL, descend, fit, perceptron
from zoo.program import Zoo, sick


@sick("nonfinite-gradient", also=NOT_FINITE, from_step=25)
def angle_of_a_pair_of_equals(zoo: Zoo) -> None:
    """Half of the later pairs are twice the same row: the slope of acos at 1 is infinite, clamped or not."""
    left, _ = blobs(3200, features=16, classes=8)
    right = left + 0.5 * torch.randn_like(left)
    right[800::2] = left[800::2]
    model = perceptron(16, 32, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x: Tensor, other: Tensor) -> Tensor:
        one, two = (functional.normalize(model(each), dim=1) for each in (x, other))
        angle = (one * two).sum(1).clamp(-1, 1).acos()
        wanted = 1 - functional.cosine_similarity(x, other)
        return functional.mse_loss(angle, wanted)

    descend(zoo, model, optimizer, zip(left.split(32), right.split(32), strict=True), loss_of)


class Answering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 24)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.gru(self.embedding(tokens))
        result: Tensor = self.head(states)
        return result


@sick("nonfinite-loss", also=NOT_FINITE, from_step=30)
def prompts_that_fill_the_whole_window(zoo: Zoo) -> None:
    """Words of the prompt have the label -100; a batch without any answer has a loss of 0 / 0."""
    model = Answering()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text = sentences(length=17)
    prompts = torch.randint(4, 12, (120,)).tolist()
    prompts[30] = 16

    def loss_of(prompt: int) -> Tensor:
        rows = next(text)
        targets = rows[:, 1:].clone()
        targets[:, :prompt] = -100
        return functional.cross_entropy(model(rows[:, :-1]).transpose(1, 2), targets)

    descend(zoo, model, optimizer, ((prompt,) for prompt in prompts), loss_of)


@sick("zero-gradients", also=("unchanged-weights", "loss-input-shape", "loss-input-range", *STANDS_STILL))
def one_output_for_cross_entropy(zoo: Zoo) -> None:
    """A yes or no with one output and CrossEntropyLoss: the softmax of one number is 1, the loss always 0."""
    inputs, labels = table("breast_cancer")
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    model = perceptron(30, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = batches(inputs, labels.float()[:, None], size=32, steps=120)
    fit(zoo, model, optimizer, feed, nn.CrossEntropyLoss())


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(1, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.gru(x)  # (directions, batch, 16)
        result: Tensor = self.head(last.view(len(x), -1))
        return result


@sick("loss-at-chance", also=("not-learning", "loss-plateau"))
def two_directions_viewed_as_one_row(zoo: Zoo) -> None:
    """last.view(batch, -1) where (directions, batch, …) had to be transposed: states of other rows."""
    rows, labels = waves(500, length=20)
    model = BothWays()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(zoo, model, optimizer, batches(rows, labels, size=32, steps=160), functional.cross_entropy)


class Pooled(nn.Module):
    """One learned question to all words of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 24, padding_idx=0)
        self.question = nn.Parameter(torch.randn(1, 1, 24))
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)
        self.head = perceptron(24, 32, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        words = self.embedding(tokens)
        question = self.question.expand(len(tokens), 1, 24)
        found, _ = self.attention(question, words, words, key_padding_mask=tokens != 0)
        result: Tensor = self.head(found[:, 0])
        return result


@sick("loss-at-chance", also=("constant-output", "not-learning", "loss-plateau"))
def padding_mask_the_other_way_round(zoo: Zoo) -> None:
    """1 means "a word" in the mask and "leave it out" in torch: only the padding is ever read."""
    tokens, labels = sequences(600, length=9)
    tokens = torch.cat([tokens, torch.zeros(600, 3, dtype=torch.long)], 1)
    model = Pooled()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=150), functional.cross_entropy)


@sick("input-scale", also=("constant-output", *STANDS_STILL))
def pixels_divided_twice(zoo: Zoo) -> None:
    """ToTensor() has divided by 255 already; done again by hand, all pixels are between 0 and 0.004."""
    pictures, labels = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    feed = batches(pictures / 255, labels, size=32, steps=160)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("loss-negative", also=("loss-input-logits", "loss-input-range", *BLOWS_UP))
def overlap_of_raw_scores(zoo: Zoo) -> None:
    """A Dice loss without the sigmoid: scores are no shares, and the loss is not between 0 and 1."""
    pictures, masks = discs(400)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def loss_of(x: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = model(x)
        return 1 - (2 * (scores * mask).sum() + 1) / (scores.sum() + mask.sum() + 1)

    descend(zoo, model, optimizer, batches(pictures, masks, size=32, steps=150), loss_of)


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = perceptron(64, 48, 16)
        self.decoder = nn.Sequential(perceptron(8, 48, 64), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


@sick("constant-output", also=("vanishing-gradients", *STANDS_STILL))
def summed_divergence_on_a_mean_error(zoo: Zoo) -> None:
    """A VAE: the error is a mean over all pixels, the divergence a sum over all rows, and wins."""
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor) -> Tensor:
        found, mean, log_variance = model(x)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        total: Tensor = functional.mse_loss(found, x) + divergence
        return total

    descend(zoo, model, optimizer, batches(digits()[0].flatten(1), size=64, steps=280), loss_of)


class Identified(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.identity = nn.Embedding(rows, 16)
        self.net = perceptron(22, 48, 2)

    def forward(self, row: Tensor, columns: Tensor) -> Tensor:
        result: Tensor = self.net(torch.cat([self.identity(row), columns], 1))
        return result


@sick("overfitting", from_step=40)
def row_numbers_as_a_feature(zoo: Zoo) -> None:
    """The number of the patient was left in the table as a category: each is learned by heart."""
    columns = torch.randn(600, 6)
    labels = (columns[:, 0] + columns[:, 1] + 2 * torch.randn(600) > 0).long()
    row = torch.arange(600)
    model = Identified(600)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    feed = batches(row[:300], columns[:300], labels[:300], size=50, steps=240)
    for step, (number, x, y) in enumerate(feed, start=1):
        loss = functional.cross_entropy(model(number, x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step % 6 == 0:
            model.eval()
            with torch.no_grad():
                validation = functional.cross_entropy(model(row[300:], columns[300:]), labels[300:])
            monitor.log(val_loss=validation)
            model.train()
