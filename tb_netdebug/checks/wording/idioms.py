"""Translates the messages of rules, which are written for PyTorch users, for users of Keras."""

from __future__ import annotations

import re

LOSSES = "keras.losses."
CLIP = "keras.optimizers.Adam(…, clipnorm=1.0)"
# Whole phrases where single words would not do; longer ones are matched before those that they contain.
IN_KERAS = {
    "Clip them between loss.backward() and optimizer.step(): torch.nn.utils.clip_grad_norm_"
    "(model.parameters(), 1.0)": f"Clip them in the optimizer: {CLIP}",
    "`torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)` before `optimizer.step()`": f"`{CLIP}`",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)": CLIP,
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)": CLIP,
    "torch.nn.utils.clip_grad_norm_": "clipnorm=1.0 of the optimizer",
    "it expects logarithms of probabilities, which are at most 0 and whose exponentials add up to 1": (
        "without from_logits=True it expects probabilities, which add up to 1"
    ),
    "Apply log_softmax to the scores before the loss: `F.log_softmax(scores, dim=1)`": (
        f"Tell the loss, `{LOSSES}SparseCategoricalCrossentropy(from_logits=True)`"
    ),
    ", or use cross_entropy, which takes raw scores": (
        ', or end the network in `Dense(classes, activation="softmax")`'
    ),
    "It wants logarithms of probabilities: put `torch.log_softmax(scores, dim=1)` before it, or use "
    "`torch.nn.functional.cross_entropy(scores, labels)`, which takes raw scores": (
        "It wants probabilities: end the network in a softmax, or say from_logits=True"
    ),
    "output.squeeze(-1)": "keras.ops.squeeze(output, -1)",
    "target.view_as(output)": "keras.ops.reshape(target, output.shape)",
    "use functional.mse_loss, which warns of this": "use a loss of `keras.losses`, which brings both to one "
    "shape",
    "say so: `output.unsqueeze(1)`": "say so: `keras.ops.expand_dims(target, 0)`",
    "mse_loss": "mean_squared_error",
    "nll_loss": "categorical_crossentropy",
    "With one output for yes or no, use binary_cross_entropy_with_logits (nn.BCEWithLogitsLoss) and float "
    "targets": f"With one output for yes or no, use `{LOSSES}BinaryCrossentropy(from_logits=True)`",
    "use binary_cross_entropy (nn.BCELoss), which expects probabilities": "leave out from_logits=True, so "
    "that the loss expects probabilities",
    "Weigh rare classes more: `weight=` of cross_entropy, `pos_weight=` of binary_cross_entropy_with_logits, "
    "or a WeightedRandomSampler": "Weigh rare classes more, `fit(…, class_weight={0: 1.0, 1: 10.0})`, or "
    "draw them more often, `tf.data.Dataset.sample_from_datasets`",
    "binary_cross_entropy_with_logits": "binary_crossentropy with from_logits=True",
    "binary_cross_entropy": "binary_crossentropy",
    "cross_entropy": "categorical_crossentropy with from_logits=True",
    "the last Linear layer": "the last Dense layer",
    "`DataLoader(..., shuffle=True)`, or `order = torch.randperm(len(inputs))` in each epoch": "`fit(…, "
    "shuffle=True)`, or `dataset.shuffle(10_000)` before `.batch(…)`",
    "Let other processes load: `DataLoader(..., num_workers=4, persistent_workers=True, pin_memory=True)`": (
        "Load beside the training: `dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
        ".prefetch(tf.data.AUTOTUNE)`"
    ),
    "let a `DataLoader(..., num_workers=4)` do that in other processes": (
        "let `dataset.map(load).prefetch(tf.data.AUTOTUNE)` do that beside the training"
    ),
    "Call `model.train()` at the beginning of each epoch, and again after each evaluation that called "
    "`model.eval()`": "Call the model with `training=True` in the training step: `self(x, training=True)`",
    "If not, say so: layer.requires_grad_(False)": "If not, say so: layer.trainable = False",
    "optimizer.step() was not called in": "optimizer.apply_gradients() was not called in",
    "were only added up": "were not used",
    "Call optimizer.step() after loss.backward(), and only then optimizer.zero_grad()": "Call "
    "optimizer.apply_gradients(zip(gradients, model.trainable_variables)) behind tape.gradient()",
    "Give the optimizer all of them: torch.optim.Adam(model.parameters()), made after the last layer was "
    "added, or optimizer.add_param_group({'params': …}) for what comes later": "Give tape.gradient() and "
    "optimizer.apply_gradients() all of model.trainable_variables, when the last layer is there",
    "say so with layer.requires_grad_(False)": "say so with layer.trainable = False",
    "gets layer.requires_grad_(False)": "gets layer.trainable = False",
    "look for .detach(), torch.no_grad(), .data or numpy between these layers and the loss, and whether "
    "forward() uses": "look for keras.ops.stop_gradient, .numpy(), round or argmax between these layers and "
    "the loss, and whether call() uses",
    ".detach(), torch.no_grad(), rounding": "keras.ops.stop_gradient, rounding",
    "torch.nn.init.kaiming_normal_(weight)": 'kernel_initializer="he_normal"',
    '`nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")`': '`kernel_initializer="he_normal"`',
    "`nn.init.xavier_uniform_(layer.weight)`": '`kernel_initializer="glorot_uniform"`',
    "`nn.init.normal_(last.weight, std=0.01)`": "`kernel_initializer=keras.initializers.RandomNormal("
    "stddev=0.01)`",
    "torch.nn.init.kaiming_normal_": 'kernel_initializer="he_normal"',
    "in a recurrent network, orthogonal_": 'in a recurrent network, "orthogonal"',
    "xavier_normal_ with tanh": '"glorot_normal" with tanh',
    "leave torch's own": "leave Keras's own",
    "as torch starts them": "as Keras starts them",
    "`nn.LayerNorm`": "`layers.LayerNormalization`",
    "`nn.BatchNorm2d`": "`layers.BatchNormalization`",
    "`nn.LeakyReLU(0.01)`": "`layers.LeakyReLU(0.01)`",
    "`nn.GELU()`": '`activation="gelu"`',
    "`nn.ReLU()`": '`activation="relu"`',
    "`nn.Dropout(0.2)`": "`layers.Dropout(0.2)`",
    "use `F.leaky_relu` or `F.gelu` in the place of `F.relu`": 'use `activation="leaky_relu"` or `"gelu"` in '
    'the place of `"relu"`',
    "does `optimizer` hold the parameters of this very model; is `loss.backward()` called on the loss of "
    "this batch and `optimizer.step()` after it": "are the layers trainable, and do they get gradients",
    "torch.optim.AdamW(model.parameters(), weight_decay=0.01)": "keras.optimizers.AdamW(weight_decay=0.01)",
    "print(optimizer.param_groups[0]['lr'])": "print(optimizer.learning_rate)",
    "torch.round, sign, argmax": "round, sign, argmax",
    "torch.isfinite(x).all(1)": "np.isfinite(x).all(1)",
    "torch.nan_to_num": "np.nan_to_num",
    "cured by log(x + 1e-8) or .clamp(min=1e-8)": "cured by log(x + 1e-8) or keras.ops.maximum(x, 1e-8)",
}  # fmt: skip
PHRASES = re.compile("|".join(map(re.escape, sorted(IN_KERAS, key=len, reverse=True))))


def in_words_of(framework: object, text: str) -> str:
    """Return the text as users of `framework` would say it; `framework` comes from the run's info."""
    if not str(framework or "").startswith("keras"):
        return text
    return PHRASES.sub(lambda found: IN_KERAS[found.group()], text)
