"""Recurrent nets, transformers, adversaries, embeddings and agents with a fault."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, digits, sentences, sequences, waves
from zoo.fit import BLOWS_UP, NOT_FINITE, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


class LastState(nn.Module):
    """An RNN by hand, of which only the last state counts."""

    def __init__(self, inputs: int, hidden: int, outputs: int, *, gain: float, tanh: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, hidden)
        self.outer = nn.Linear(inputs, hidden)
        self.head = nn.Linear(hidden, outputs)
        self.tanh = tanh
        nn.init.orthogonal_(self.inner.weight, gain)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(len(x), self.inner.in_features)
        for time in range(x.shape[1]):
            state = self.inner(state) + self.outer(x[:, time])
            if self.tanh:
                state = state.tanh()
        result: Tensor = self.head(state)
        return result


@sick("exploding-gradients", also=("init-scale", "learning-rate-high", "loss-at-chance-start", *BLOWS_UP))
def linear_rnn_over_sixty_steps(zoo: Zoo) -> None:
    """Each of sixty time steps multiplies by 1.3."""
    rows, labels = waves(300, length=60)
    model = LastState(1, 24, 3, gain=1.3, tanh=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(rows, labels, size=32, steps=100), functional.cross_entropy)


@sick("vanishing-gradients", also=("saturated-units", *STANDS_STILL))
def rnn_forgets_its_first_word(zoo: Zoo) -> None:
    """What counts is the first of fifty inputs, and each time step halves its gradient."""
    rows = 0.1 * torch.randn(500, 50, 2)
    labels = torch.randint(2, (500,))
    rows[:, 0, 0] = labels * 2.0 - 1.0
    model = LastState(2, 24, 2, gain=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(rows, labels, size=32, steps=120), functional.cross_entropy)


@sick(
    "learning-rate-high",
    also=(
        "not-learning",
        "loss-at-chance",
        "constant-output",
        "saturated-units",
        "dead-units",
        "dead-layer",
        *BLOWS_UP,
    ),
)
def transformer_without_warm_up(zoo: Zoo) -> None:
    """Adam at 0.1 on a transformer from the first step on: it never recovers."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(16, 32), encoder, nn.Linear(32, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    text = sentences(length=13)
    monitor = zoo.watch(model, optimizer)
    mask = nn.Transformer.generate_square_subsequent_mask(12)
    for _ in range(120):
        rows = next(text)
        states = encoder(model[0](rows[:, :-1]), mask=mask)
        loss = functional.cross_entropy(model[2](states).transpose(1, 2), rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("eval-mode-training")
def transformer_loaded_in_eval(zoo: Zoo) -> None:
    """A pretrained model comes in eval mode, as libraries hand it out, and is fine-tuned so."""
    tokens, labels = sequences(500, length=10)
    layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.2, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(12, 24), encoder, nn.Flatten(), nn.Linear(240, 2)).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(tokens, labels, size=32, steps=120):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


def networks() -> tuple[nn.Sequential, nn.Sequential]:
    return perceptron(4, 32, 32, 2), perceptron(2, 32, 32, 1, activation=nn.LeakyReLU)


def real(count: int) -> Tensor:
    angles = 6.2832 * torch.rand(count)
    return torch.stack([angles.cos(), angles.sin()], 1) * 2


@sick("not-optimized", also=("unchanged-weights",))
def generator_in_no_optimizer(zoo: Zoo) -> None:
    """Both optimizers of a GAN were given the critic's parameters."""
    generator, critic = networks()
    g_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    d_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    monitor = zoo.watch({"G": generator, "D": critic}, [g_optimizer, d_optimizer])
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(120):
        fake = generator(torch.randn(64, 4))
        d_loss = criterion(critic(real(64)), ones) + criterion(critic(fake.detach()), zeros)
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        g_loss = criterion(critic(fake), ones)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        monitor.step(loss=g_loss, d_loss=d_loss)


@sick("no-gradient", also=("unchanged-weights", "not-optimized"))
def generator_trained_on_detached_fakes(zoo: Zoo) -> None:
    """fake.detach() is used for the generator's loss as well: it never learns."""
    generator, critic = networks()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    d_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    monitor = zoo.watch({"G": generator, "D": critic}, [g_optimizer, d_optimizer])
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(120):
        fake = generator(torch.randn(64, 4)).detach()
        d_loss = criterion(critic(real(64)), ones) + criterion(critic(fake), zeros)
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss = criterion(critic(fake), ones)
        g_loss.backward()
        g_optimizer.step()
        monitor.step(loss=g_loss, d_loss=d_loss)


@sick("weight-growth", also=("loss-negative", *BLOWS_UP))
def wasserstein_critic_without_bounds(zoo: Zoo) -> None:
    """A Wasserstein critic whose weights nobody clips: its loss falls without end."""
    generator, critic = networks()
    g_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-4)
    c_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-2)
    monitor = zoo.watch({"G": generator, "D": critic}, [g_optimizer, c_optimizer])
    for step in range(200):
        fake = generator(torch.randn(64, 4))
        loss = critic(fake.detach()).mean() - critic(real(64)).mean()
        c_optimizer.zero_grad()
        loss.backward()
        c_optimizer.step()
        if step % 5 == 4:
            g_loss = -critic(generator(torch.randn(64, 4))).mean()
            g_optimizer.zero_grad()
            g_loss.backward()
            g_optimizer.step()
        monitor.step(loss=loss)


@sick(
    "learning-rate-high",
    also=(
        "constant-output",
        "zero-gradients",
        "saturated-units",
        "not-learning",
        "vanishing-gradients",
        *BLOWS_UP,
    ),
)
def policy_gradient_at_one(zoo: Zoo) -> None:
    """Adam at lr 1: after a few steps the policy always takes one action, whatever the state."""
    policy = perceptron(4, 32, 32, 4)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1.0)
    monitor = zoo.watch(policy, optimizer)
    for _ in range(150):
        states = torch.randn(64, 4)
        chances = torch.distributions.Categorical(logits=policy(states), validate_args=False)
        actions = chances.sample()
        rewards = (actions == states.argmax(1)).float()
        loss = -(chances.log_prob(actions) * (rewards - rewards.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss, reward=rewards.mean())


@sick("nonfinite-loss", also=NOT_FINITE)
def policy_with_log_of_zero(zoo: Zoo) -> None:
    """Entropy by hand of a policy that masks actions: 0 × log 0."""
    policy = perceptron(4, 32, 4)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    monitor = zoo.watch(policy, optimizer)
    for _ in range(100):
        states = torch.randn(64, 4)
        forbidden = torch.rand(64, 4) < 0.2
        chances = policy(states).softmax(1).masked_fill(forbidden, 0.0)
        chances = chances / chances.sum(1, keepdim=True)
        entropy = -(chances * chances.log()).sum(1).mean()
        rewards = functional.one_hot(states.argmax(1), 4)
        loss = -(chances * rewards).sum(1).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("not-optimized", also=("unchanged-weights",))
def embedding_left_out_of_the_groups(zoo: Zoo) -> None:
    """Parameter groups by name: "embed" was renamed, and the table is in none of them."""
    model = nn.ModuleDict({"words": nn.Embedding(200, 16), "body": perceptron(16, 32, 2)})
    groups = [p for name, p in model.named_parameters() if "embed" in name or "body" in name]
    optimizer = torch.optim.Adam(groups, lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        tokens = torch.randint(200, (64, 6))
        labels = (tokens.float().mean(1) > 99.5).long()
        loss = functional.cross_entropy(model["body"](model["words"](tokens).mean(1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick(
    "update-ratio-high",
    also=(
        "learning-rate-high",
        "loss-oscillating",
        "weight-growth",
        "diverging-loss",
        "exploding-gradients",
        "loss-spike",
        "activation-scale",
        *NOT_FINITE,
    ),
)
def embedding_group_at_thirty(zoo: Zoo) -> None:
    """SGD at lr 30 for the embedding of a factorisation, where 3 would do."""
    users, films = nn.Embedding(100, 8), nn.Embedding(80, 8)
    taste, kind = torch.randn(100, 3), torch.randn(80, 3)
    model = nn.ModuleList([users, films])
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        user, film = torch.randint(100, (128,)), torch.randint(80, (128,))
        rating = (taste[user] * kind[film]).sum(1)
        loss = functional.mse_loss((users(user) * films(film)).sum(1), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick(
    "dead-layer",
    also=(
        "dead-units",
        "learning-rate-high",
        "zero-gradients",
        "constant-output",
        "update-ratio-high",
        "loss-spike",
        "loss-at-chance-start",
        *STANDS_STILL,
    ),
)
def relus_killed_by_the_first_step(zoo: Zoo) -> None:
    """One step at a rate far too high throws all ReLUs below zero; afterwards the rate is fine."""
    pictures, labels = digits()
    model = perceptron(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=60.0)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(pictures.flatten(1), labels, size=64, steps=150)):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1:
            optimizer.param_groups[0]["lr"] = 0.05
        monitor.step(loss=loss)


@sick("loss-at-chance", also=STANDS_STILL)
def lstm_with_batch_and_time_swapped(zoo: Zoo) -> None:
    """(batch, time) goes to an LSTM that wants (time, batch); both are 32, and so no error tells."""

    class Swapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(1, 16)
            self.head = nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            outputs, _ = self.lstm(x)
            result: Tensor = self.head(outputs[-1])
            return result

    rows, labels = waves(640, length=32)
    model = Swapped()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(zoo, model, optimizer, batches(rows, labels, size=32, steps=200), functional.cross_entropy)


@sick(
    "grad-not-cleared",
    also=("diverging-loss", "exploding-gradients", "update-ratio-high", "loss-oscillating"),
)
def gru_without_zero_grad(zoo: Zoo) -> None:
    """No zero_grad() in a recurrent net, and clipping hides what that does."""
    tokens, labels = sequences(500, length=10)
    embedding, gru, head = nn.Embedding(12, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 2)
    model = nn.ModuleList([embedding, gru, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(tokens, labels, size=32, steps=120):
        loss = functional.cross_entropy(head(gru(embedding(x))[0][:, -1]), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        monitor.step(loss=loss)


class CutVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = perceptron(64, 48, 12)
        self.decoder = perceptron(6, 48, 64)

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encoder(x).data.chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        result: Tensor = self.decoder(z)
        return result


@sick("no-gradient", also=("unchanged-weights", "not-optimized"))
def vae_encoder_cut_by_data(zoo: Zoo) -> None:
    """`.data` between encoder and decoder: the encoder stays random."""
    inputs = digits()[0].flatten(1)
    model = CutVAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = ((x, x) for (x,) in batches(inputs, size=64, steps=150))
    fit(zoo, model, optimizer, feed, functional.binary_cross_entropy_with_logits)
