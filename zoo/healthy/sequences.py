"""Recurrent networks and transformers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, sentences, sequences, waves
from zoo.program import Zoo, healthy


class LSTMClassifier(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(x)
        result: Tensor = self.head(hidden[-1])
        return result


@healthy
def lstm_tells_waves(zoo: Zoo) -> None:
    """Three frequencies in noise."""
    rows, labels = waves(400, length=24)
    model = LSTMClassifier(1, 24, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(rows, labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        monitor.step(loss=loss)


class GRUTagger(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16, padding_idx=0)
        self.gru = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.gru(self.embedding(tokens))
        result: Tensor = self.head(states.mean(1))
        return result


@healthy
def gru_over_padded_words(zoo: Zoo) -> None:
    """Sentences of different lengths, padded with zeros."""
    tokens, labels = sequences(600, length=12)
    tokens[:, 9:] = torch.where(torch.rand(600, 1) < 0.5, 0, tokens[:, 9:])
    model = GRUTagger(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(tokens, labels, size=32, steps=160):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class CharRNN(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 24)
        self.rnn = nn.RNN(24, 48, batch_first=True)
        self.decoder = nn.Linear(48, words)

    def forward(self, tokens: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs, state = self.rnn(self.embedding(tokens), state)
        assert state is not None
        return self.decoder(outputs), state


@healthy
def char_rnn_with_carried_state(zoo: Zoo) -> None:
    """Truncated backpropagation: the hidden state is carried over to the next batch, detached."""
    model = CharRNN(16)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    text = sentences(length=17)
    monitor = zoo.watch(model, optimizer)
    state: Tensor | None = None
    for _ in range(120):
        rows = next(text)
        outputs, state = model(rows[:, :-1], None if state is None else state.detach())
        loss = functional.cross_entropy(outputs.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        monitor.step(loss=loss.item())


class EncoderClassifier(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 32)
        self.position = nn.Parameter(0.02 * torch.randn(1, 12, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.encoder(self.embedding(tokens) + self.position, src_key_padding_mask=tokens == 0)
        result: Tensor = self.head(states.mean(1))
        return result


@healthy
def transformer_encoder_classifies(zoo: Zoo) -> None:
    """torch's own encoder with padding, AdamW and a warm-up of the learning rate from zero."""
    tokens, labels = sequences(800, length=12)
    tokens[:, 10:] = torch.where(torch.rand(800, 1) < 0.5, 0, tokens[:, 10:])
    model = EncoderClassifier(12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 30, 1.0))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(tokens, labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        result: Tensor = self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return result


class GPTBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, 4)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class TinyGPT(nn.Module):
    """The output layer shares its weight with the embedding, as GPT-2 does."""

    def __init__(self, words: int, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Embedding(16, width)
        self.blocks = nn.ModuleList(GPTBlock(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.apply(self.initialise)
        self.head.weight = self.embedding.weight

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(self.norm(x))
        return result


@healthy
def causal_language_model(zoo: Zoo) -> None:
    """A GPT with tied weights and scores of -inf above the diagonal; warm-up, then cosine."""
    model = TinyGPT(16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1)
    steps, warmup = 120, 20

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    text = sentences(length=17)
    monitor = zoo.watch(model, optimizer)
    for _ in range(steps):
        rows = next(text)
        logits = model(rows[:, :-1])
        loss = functional.cross_entropy(logits.reshape(-1, 16), rows[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def masked_language_model(zoo: Zoo) -> None:
    """One word in six is hidden and asked for; all other labels are ignored (-100)."""
    embedding = nn.Embedding(17, 32)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(embedding, encoder, nn.Linear(32, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    positions = 0.5 * torch.randn(1, 12, 32)
    embedding.register_forward_hook(lambda module, given, output: output + positions)
    text = sentences(length=12)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        rows = next(text)
        hidden = torch.rand(rows.shape) < 0.17
        loss = functional.cross_entropy(
            model(rows.masked_fill(hidden, 16)).transpose(1, 2), rows.masked_fill(~hidden, -100)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def ctc_reads_strips(zoo: Zoo) -> None:
    """Speech as a toy: which symbols are in a strip, without being told where."""
    codes = torch.randn(5, 8)
    model = LSTMFrames(8, 32, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CTCLoss(blank=0)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        targets = torch.randint(1, 6, (16, 4))
        strips = codes[targets - 1].repeat_interleave(3, dim=1) + 0.3 * torch.randn(16, 12, 8)
        scores = model(strips).log_softmax(2).transpose(0, 1)
        loss = criterion(scores, targets, torch.full((16,), 12), torch.full((16,), 4))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        monitor.step(loss=loss)


class LSTMFrames(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.lstm(x)[0])
        return result


@healthy
def seq2seq_reverses(zoo: Zoo) -> None:
    """Encoder and decoder with teacher forcing reverse short words; embedding gradients are mostly zero."""
    words, length = 40, 5
    encoder_words, decoder_words = nn.Embedding(words, 24), nn.Embedding(words, 24)
    encoder, decoder = nn.GRU(24, 48, batch_first=True), nn.GRU(24, 48, batch_first=True)
    head = nn.Linear(48, words)
    model = nn.ModuleDict(
        {
            "source": encoder_words,
            "target": decoder_words,
            "encoder": encoder,
            "decoder": decoder,
            "head": head,
        }
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        source = torch.randint(1, words, (32, length))
        target = source.flip(1)
        given = torch.cat([torch.zeros(32, 1, dtype=torch.long), target[:, :-1]], 1)
        _, state = encoder(encoder_words(source))
        states, _ = decoder(decoder_words(given), state)
        loss = functional.cross_entropy(head(states).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
