"""Agents that learn from rewards; their losses say little of how well they do."""

from __future__ import annotations

import copy
import random
from collections import deque

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.program import Zoo, healthy


def bandit(count: int) -> tuple[Tensor, Tensor]:
    """States, and which of four actions is paid in each."""
    states = torch.randn(count, 4)
    return states, states.argmax(1)


@healthy
def reinforce_with_baseline(zoo: Zoo) -> None:
    """Policy gradient: a loss around zero of either sign while the reward rises."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    average = 0.25
    monitor = zoo.watch(policy, optimizer)
    for _ in range(250):
        states, best = bandit(64)
        chances = torch.distributions.Categorical(logits=policy(states))
        actions = chances.sample()
        rewards = (actions == best).float()
        loss = -(chances.log_prob(actions) * (rewards - average)).mean()
        average = 0.9 * average + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss, reward=rewards.mean())


class Corridor:
    """Seven places in a row; the one at the right end pays 1, and every step costs 0.02."""

    def __init__(self) -> None:
        self.place = 0

    def reset(self) -> Tensor:
        self.place = random.randrange(6)
        return self.view()

    def step(self, action: int) -> tuple[Tensor, float, bool]:
        self.place = max(0, self.place + (1 if action else -1))
        done = self.place == 6
        return self.view(), 1.0 if done else -0.02, done

    def view(self) -> Tensor:
        return functional.one_hot(torch.tensor(self.place), 7).float()


@healthy
def dqn_with_target_network(zoo: Zoo) -> None:
    """The loss starts near zero and rises as values spread: the target network is a frozen copy."""
    network = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    memory: deque[tuple[Tensor, int, float, Tensor, bool]] = deque(maxlen=2000)
    world = Corridor()
    state = world.reset()
    monitor = zoo.watch(network, optimizer)
    for step in range(400):
        with torch.no_grad():
            best = int(network(state).argmax())
        action = best if random.random() > max(1 - step / 250, 0.1) else random.randrange(2)
        following, reward, done = world.step(action)
        memory.append((state, action, reward, following, done))
        state = world.reset() if done else following
        if len(memory) < 32:
            continue
        rows = random.sample(memory, 32)
        states, nexts = torch.stack([row[0] for row in rows]), torch.stack([row[3] for row in rows])
        actions = torch.tensor([[row[1]] for row in rows])
        rewards = torch.tensor([row[2] for row in rows])
        goes_on = torch.tensor([float(not row[4]) for row in rows])
        with torch.no_grad():
            wanted = rewards + 0.95 * goes_on * target(nexts).max(1).values
        loss = functional.smooth_l1_loss(network(states).gather(1, actions).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step % 25 == 0:
            target.load_state_dict(network.state_dict())


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(state)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


@healthy
def actor_critic_in_a_corridor(zoo: Zoo) -> None:
    """An episode a step: of two to forty states, so that batches have all sizes."""
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    world = Corridor()
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        state, done = world.reset(), False
        scores, values, entropies = [], [], []
        rewards: list[float] = []
        while not done and len(rewards) < 40:
            logits, value = model(state)
            chances = torch.distributions.Categorical(logits=logits)
            action = chances.sample()
            state, reward, done = world.step(int(action))
            scores.append(chances.log_prob(action))
            entropies.append(chances.entropy())
            values.append(value)
            rewards.append(reward)
        returns: list[float] = []
        total = 0.0
        for reward in reversed(rewards):
            total = reward + 0.95 * total
            returns.insert(0, total)
        wanted, value = torch.tensor(returns), torch.stack(values)
        advantage = wanted - value.detach()
        loss = -(torch.stack(scores) * advantage).mean() + 0.5 * functional.mse_loss(value, wanted)
        loss = loss - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        monitor.step(loss=loss, episode_reward=sum(rewards))


@healthy
def ppo_on_a_bandit(zoo: Zoo) -> None:
    """The clipped ratio: four updates on the same batch, of which the first has a loss of exactly zero."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    monitor = zoo.watch(policy, optimizer)
    for _ in range(60):
        states, best = bandit(128)
        with torch.no_grad():
            before = torch.distributions.Categorical(logits=policy(states))
            actions = before.sample()
            old = before.log_prob(actions)
        rewards = (actions == best).float()
        advantage = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        for _ in range(4):
            new = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
            ratio = (new - old).exp()
            loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss, reward=rewards.mean())
