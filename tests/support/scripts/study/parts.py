from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(width, 2)

    def forward(self, inputs):
        return self.last(self.drop(self.first(inputs).relu()))
