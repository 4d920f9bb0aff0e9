import argparse
import sys

import torch
from torch.nn import functional

from .parts import Encoder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = Encoder(8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    for _ in range(arguments.steps):
        inputs = torch.randn(10, 6)
        labels = (inputs[:, 0] > 0).long()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))
    print([value.tolist() for value in model.state_dict().values()], torch.rand(1).item())
    print(sys.argv[1:], __name__)


if __name__ == "__main__":
    main()
