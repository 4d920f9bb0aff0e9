"""Healthy: a small convolutional network that learns to read handwritten digits."""

import argparse
import time
from collections import OrderedDict

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LinearLR

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--logdir", default="runs")
parser.add_argument("--seconds", type=float, default=600)
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)  # it is small, and others train beside it
digits = load_digits()  # 1797 pictures of 8 x 8 pixels
pictures = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)

model = nn.Sequential(
    OrderedDict(
        conv1=nn.Conv2d(1, 16, 3, padding=1),
        relu1=nn.LeakyReLU(),
        conv2=nn.Conv2d(16, 32, 3, padding=1, stride=2),
        relu2=nn.LeakyReLU(),
        flatten=nn.Flatten(),
        dropout=nn.Dropout(0.25),
        hidden=nn.Linear(512, 64),
        relu3=nn.LeakyReLU(),
        output=nn.Linear(64, 10),
    )
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
warm_up = LinearLR(optimizer, start_factor=0.05, total_iters=1500)

monitor = nd.watch(model, optimizer, logdir=options.logdir, run="healthy", debugger=True)
end = time.monotonic() + options.seconds
while time.monotonic() < end:
    batch = torch.randint(len(pictures), (64,))
    inputs = pictures[batch] + 0.2 * torch.randn(64, 1, 8, 8)  # noise, so that it learns no picture by heart
    scores = model(inputs)
    loss = functional.cross_entropy(scores, labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warm_up.step()
    time.sleep(0.045)  # about 20 batches a second can be watched; a training in earnest does not wait
    accuracy = (scores.argmax(1) == labels[batch]).float().mean()
    monitor.step(loss=loss, accuracy=accuracy)
