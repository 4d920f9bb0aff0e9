import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, words):
        return self.head(self.rnn(self.embed(words))[0])


class Trainer:
    """Accumulates two batches for each step, and scales its loss."""

    def __init__(self, net, every=2):
        self.net = net
        self.every = every
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=0.01)
        self.losses = []

    def loss(self, words):
        logits = self.net(words[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())

    def fit(self, count):
        for number in range(count):
            loss = self.loss(torch.randint(0, 20, (4, 9))) / self.every
            loss.backward()
            self.losses.append(loss.item())
            if (number + 1) % self.every == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()


torch.set_num_threads(1)
torch.manual_seed(2)
trainer = Trainer(Net())
trainer.fit(12)
print([repr(loss) for loss in trainer.losses])
print([value.sum().item() for value in trainer.net.state_dict().values()], torch.rand(1).item())
