"""Tokens and waves: recurrent layers and attention."""

# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from zoo.keras.data import sentences, sequences, waves
from zoo.keras.late import keras, tf
from zoo.program import Zoo, healthy


@healthy
def keras_lstm_reads_tokens(zoo: Zoo) -> None:
    """Embedding, LSTM, one sigmoid."""
    tokens, labels = sequences(1200, length=9)
    model = keras.Sequential(
        [keras.layers.Embedding(12, 16), keras.layers.LSTM(24), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy", metrics=["accuracy"])
    model.fit(tokens, labels, batch_size=48, epochs=8, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_stacked_gru_on_waves(zoo: Zoo) -> None:
    """A bidirectional GRU below another one, from a dataset that is cached and shuffled."""
    x, y = waves(900, length=20)
    data = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(900).batch(32, drop_remainder=True)
    model = keras.Sequential(
        [
            keras.Input((20, 1)),
            keras.layers.Bidirectional(keras.layers.GRU(12, return_sequences=True)),
            keras.layers.GRU(12),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy")
    model.fit(data, epochs=6, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_small_transformer(zoo: Zoo) -> None:
    """A transformer block of one's own: attention, layer norm, shortcuts, learned places."""

    class Places(keras.layers.Layer):
        def __init__(self, length: int, words: int, width: int) -> None:
            super().__init__()
            self.tokens = keras.layers.Embedding(words, width)
            self.places = keras.layers.Embedding(length, width)
            self.length = length

        def call(self, tokens: Any) -> Any:
            return self.tokens(tokens) + self.places(keras.ops.arange(self.length))

    tokens, labels = sequences(1200, length=9)
    inputs = keras.Input((9,), dtype="int32")
    x = Places(9, 12, 24)(inputs)
    seen = keras.layers.MultiHeadAttention(num_heads=2, key_dim=12, dropout=0.1)(x, x)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x + seen)
    wide = keras.layers.Dense(24)(keras.layers.Dense(48, activation="gelu")(x))
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x + keras.layers.Dropout(0.1)(wide))
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(x))
    model.compile(keras.optimizers.AdamW(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(tokens, labels, batch_size=48, epochs=7, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_next_word(zoo: Zoo) -> None:
    """A language model: each place of a GRU's output tells the word that follows."""
    rows = sentences(1000, length=13)
    model = keras.Sequential(
        [
            keras.layers.Embedding(16, 24),
            keras.layers.GRU(32, return_sequences=True),
            keras.layers.Dense(16),
        ]
    )
    model.compile(
        keras.optimizers.Adam(5e-3, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(rows[:, :-1], rows[:, 1:], batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])
