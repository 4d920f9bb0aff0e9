"""Autoencoders, adversaries, flows and denoisers."""

from __future__ import annotations

import math

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, digits
from zoo.program import Zoo, healthy


@healthy
def autoencoder_of_digits(zoo: Zoo) -> None:
    """Down to eight numbers and back, sigmoid at the end, mean squared error."""
    inputs = digits()[0].flatten(1)
    model = nn.Sequential(
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 8),
        nn.Linear(8, 32),
        nn.ReLU(),
        nn.Linear(32, 64),
        nn.Sigmoid(),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=200):
        loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(64, 6), nn.Linear(64, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(z), mean, log_variance


@healthy
def vae_with_bernoulli(zoo: Zoo) -> None:
    """Evidence lower bound, summed over pixels: about 40 nats."""
    inputs = digits()[0].flatten(1)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=200):
        output, mean, log_variance = model(x)
        likelihood = functional.binary_cross_entropy_with_logits(output, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
        loss = (likelihood + divergence) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss, divergence=divergence.detach() / len(x))


def ring(count: int) -> Tensor:
    angles = 6.2832 * torch.rand(count)
    return torch.stack([angles.cos(), angles.sin()], 1) * 2 + 0.05 * torch.randn(count, 2)


@healthy
def gan_on_a_ring(zoo: Zoo) -> None:
    """Two networks against each other: neither loss goes down for long, and that is as it should be."""
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(
        nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
    )
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    monitor = zoo.watch({"G": generator, "D": critic}, [g_optimizer, d_optimizer])
    for _ in range(200):
        fake = generator(torch.randn(64, 4))
        d_loss = criterion(critic(ring(64)), ones) + criterion(critic(fake.detach()), zeros)
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        g_loss = criterion(critic(fake), ones)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        monitor.step(loss=g_loss, d_loss=d_loss)


@healthy
def wasserstein_gan_with_clipping(zoo: Zoo) -> None:
    """Critic weights are clipped to ±0.05, its loss is negative, five critic steps to each other one."""
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    g_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    c_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    monitor = zoo.watch({"generator": generator, "critic": critic})
    for _ in range(50):
        for _ in range(5):
            c_loss = critic(generator(torch.randn(64, 4)).detach()).mean() - critic(ring(64)).mean()
            c_optimizer.zero_grad()
            c_loss.backward()
            c_optimizer.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-0.05, 0.05)
        g_loss = -critic(generator(torch.randn(64, 4))).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        monitor.step(loss=g_loss, critic_loss=c_loss)


@healthy
def gradient_penalty_gan(zoo: Zoo) -> None:
    """WGAN-GP: a gradient of a gradient in each step; each network has its own monitor step."""
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    monitor = zoo.watch({"generator": generator, "critic": critic}, [g_optimizer, c_optimizer])
    for step in range(200):
        real, fake = ring(64), generator(torch.randn(64, 4)).detach()
        mix = torch.rand(64, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        slopes = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        penalty = 10 * ((slopes.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + penalty
        c_optimizer.zero_grad()
        loss.backward()
        c_optimizer.step()
        if step % 3 == 0:
            g_optimizer.zero_grad()
            (-critic(generator(torch.randn(64, 4))).mean()).backward()
            g_optimizer.step()
        monitor.step(loss=loss)


class Coupling(nn.Module):
    def __init__(self, flip: bool) -> None:
        super().__init__()
        self.flip = flip
        last = nn.Linear(32, 2)
        nn.init.zeros_(last.weight)  # the identity at the start
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), last)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, 1) if not self.flip else x.chunk(2, 1)[::-1]
        shift, log_scale = self.net(a).chunk(2, 1)
        b = b * log_scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), log_scale.squeeze(1)


@healthy
def normalising_flow_below_zero(zoo: Zoo) -> None:
    """A log-density of narrow data: the loss is negative and falls on."""
    layers = nn.ModuleList(Coupling(bool(number % 2)) for number in range(4))
    points, _ = datasets.make_moons(600, noise=0.05, random_state=zoo.seed)
    inputs = torch.tensor(points, dtype=torch.float32) * 0.1
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
    monitor = zoo.watch(layers, optimizer)
    for (x,) in batches(inputs, size=100, steps=250):
        total = torch.zeros(len(x))
        for layer in layers:
            x, log_scale = layer(x)
            total = total + log_scale
        log_density = (-0.5 * x**2 - 0.5 * math.log(2 * math.pi)).sum(1) + total
        loss = -log_density.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def denoiser_of_diffusion(zoo: Zoo) -> None:
    """Predicts the noise in a noisy point; with an average of the weights that is only evaluated."""
    model = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.95)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step in range(200):
        clean, noise, time = ring(128), torch.randn(128, 2), torch.rand(128, 1)
        noisy = clean * (1 - time).sqrt() + noise * time.sqrt()
        loss = functional.mse_loss(model(torch.cat([noisy, time], 1)), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        if step % 50 == 49:
            with torch.no_grad():
                monitor.log(ema_loss=functional.mse_loss(average(torch.cat([noisy, time], 1)), noise))
        monitor.step(loss=loss)


class Discrete(nn.Module):
    """Eight switches of eight positions each, drawn with Gumbel noise; gradients pass straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
        self.decoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> Tensor:
        logits = self.encoder(x).view(-1, 8, 8)
        word = functional.gumbel_softmax(logits, tau=1.0, hard=True)
        result: Tensor = self.decoder(word.flatten(1))
        return result


@healthy
def autoencoder_with_discrete_code(zoo: Zoo) -> None:
    """Seven eighths of the code are exactly zero in each row."""
    inputs = digits()[0].flatten(1)
    model = Discrete()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=250):
        loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def convolutional_denoising_autoencoder(zoo: Zoo) -> None:
    """Strided convolutions down, transposed ones up."""
    inputs = digits()[0]
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 1, 2, stride=2),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.L1Loss()
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=32, steps=150):
        loss = criterion(model(x + 0.2 * torch.randn_like(x)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
