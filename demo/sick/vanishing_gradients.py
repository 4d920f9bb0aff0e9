"""Sick: a deep network of sigmoid layers, whose first layers hear nothing of the loss.

The slope of a sigmoid is 1/4 at most, so each layer hands on a fraction of the gradient that it got: after
ten of them less than a millionth is left. The loss stays where guessing among ten digits is, ln 10 = 2.303.
The cure: `nn.LeakyReLU()` for `nn.Sigmoid()`.
"""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--logdir", default="runs")
parser.add_argument("--seconds", type=float, default=600)
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)  # it is small, and others train beside it
digits = load_digits()  # 1797 pictures of 8 x 8 pixels
pictures = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)

model = nn.Sequential()
for number in range(1, 11):
    model.add_module(f"layer{number}", nn.Linear(64, 64))
    model.add_module(f"sigmoid{number}", nn.Sigmoid())
model.add_module("output", nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

monitor = nd.watch(model, optimizer, logdir=options.logdir, run="deep-sigmoid", debugger=True)
end = time.monotonic() + options.seconds
while time.monotonic() < end:
    batch = torch.randint(len(pictures), (64,))
    scores = model(pictures[batch])
    loss = functional.cross_entropy(scores, labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.045)  # about 20 batches a second can be watched; a training in earnest does not wait
    accuracy = (scores.argmax(1) == labels[batch]).float().mean()
    monitor.step(loss=loss, accuracy=accuracy)
