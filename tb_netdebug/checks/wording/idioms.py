"""Spells what findings advise, such as clipping gradients, for the framework of the run.

A rule puts an `Idiom` into its text; the engine spells it when it makes the finding.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

# Encloses the name of an idiom in a text: no name of a layer and no line of code holds it.
MARK = "\x00"


class Spelling(NamedTuple):
    """One idiom in the words of each framework."""

    torch: str
    keras: str


class Idiom(Enum):
    """What a rule may name instead of spelling it; in a text, an idiom is its marked name."""

    # Names of loss functions, as recordings have them: `loss_function` finds them.
    CROSS_ENTROPY = Spelling("cross_entropy", "categorical_crossentropy with from_logits=True")
    NLL_LOSS = Spelling("nll_loss", "categorical_crossentropy")
    BINARY_CROSS_ENTROPY = Spelling("binary_cross_entropy", "binary_crossentropy")
    BINARY_CROSS_ENTROPY_WITH_LOGITS = Spelling(
        "binary_cross_entropy_with_logits",
        "binary_crossentropy with from_logits=True",
    )
    MSE_LOSS = Spelling("mse_loss", "mean_squared_error")

    # What losses expect.
    EXPECTS_LOG_PROBABILITIES = Spelling(
        "it expects logarithms of probabilities, which are at most 0 and whose exponentials add up to 1",
        "without from_logits=True it expects probabilities, which add up to 1",
    )
    GIVE_LOG_PROBABILITIES = Spelling(
        "Apply log_softmax to the scores before the loss: `F.log_softmax(scores, dim=1)`",
        "Tell the loss that it gets scores: `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`",
    )
    OR_GIVE_SCORES = Spelling(
        "or use cross_entropy, which takes raw scores",
        'or end the network in `Dense(classes, activation="softmax")`',
    )
    WANTS_LOG_PROBABILITIES = Spelling(
        "It expects logarithms of probabilities: put `torch.log_softmax(scores, dim=1)` before it, or use "
        "`torch.nn.functional.cross_entropy(scores, labels)`, which takes raw scores",
        "It expects probabilities: end the network in a softmax, or pass from_logits=True",
    )
    USE_ONE_OUTPUT = Spelling(
        "With one output for yes or no, use binary_cross_entropy_with_logits (nn.BCEWithLogitsLoss) and "
        "float targets",
        "With one output for yes or no, use `keras.losses.BinaryCrossentropy(from_logits=True)`",
    )
    USE_PROBABILITIES = Spelling(
        "use binary_cross_entropy (nn.BCELoss), which expects probabilities",
        "leave out from_logits=True, so that the loss expects probabilities",
    )
    KEEP_LOG_SOFTMAX = Spelling(
        "use nll_loss (nn.NLLLoss) with it", "turn it into a softmax and leave out from_logits=True"
    )
    SQUEEZED_OUTPUT = Spelling("output.squeeze(-1)", "keras.ops.squeeze(output, -1)")
    TARGET_AS_OUTPUT = Spelling("target.view_as(output)", "keras.ops.reshape(target, output.shape)")
    BINARY_LOGITS_CALL = Spelling("binary_cross_entropy_with_logits", "binary_crossentropy")
    USE_A_LOSS_THAT_WARNS = Spelling(
        "use functional.mse_loss, which warns of this",
        "use a loss of `keras.losses`, which brings both to one shape",
    )
    PAIR_ALL = Spelling("output.unsqueeze(1)", "keras.ops.expand_dims(target, 0)")
    LINEAR = Spelling("Linear", "Dense")
    WEIGH_RARE_CLASSES = Spelling(
        "Weigh rare classes more: `weight=` of cross_entropy, `pos_weight=` of "
        "binary_cross_entropy_with_logits, or a WeightedRandomSampler",
        "Weigh rare classes more, `fit(…, class_weight={0: 1.0, 1: 10.0})`, or draw them more often, "
        "`tf.data.Dataset.sample_from_datasets`",
    )

    # Data.
    SHUFFLED = Spelling(
        "`DataLoader(..., shuffle=True)`, or `order = torch.randperm(len(inputs))` in each epoch",
        "`fit(…, shuffle=True)`, or `dataset.shuffle(10_000)` before `.batch(…)`",
    )
    LOAD_BESIDE = Spelling(
        "Load in other processes: `DataLoader(..., num_workers=4, persistent_workers=True, pin_memory=True)`",
        "Load in parallel with the training: `dataset.map(load, "
        "num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)`",
    )
    LET_LOADER_WORK = Spelling(
        "let a `DataLoader(..., num_workers=4)` do that in other processes",
        "let `dataset.map(load).prefetch(tf.data.AUTOTUNE)` do that in parallel with the training",
    )
    FIND_NAN_ROWS = Spelling("~torch.isfinite(x).all(1)", "~np.isfinite(x).all(1)")
    FILL_NAN = Spelling("torch.nan_to_num", "np.nan_to_num")

    # Training steps.
    USE_TRAINING_MODE = Spelling(
        "Call `model.train()` at the beginning of each epoch, and again after each evaluation that called "
        "`model.eval()`",
        "Call the model with `training=True` in the training step: `self(x, training=True)`",
    )
    OPTIMIZER_STEP = Spelling("optimizer.step()", "optimizer.apply_gradients()")
    ONLY_ADDED_UP = Spelling("were only added up", "were not used")
    STEP_AFTER_BACKWARD = Spelling(
        "Call optimizer.step() after loss.backward(), and only then optimizer.zero_grad()",
        "Call optimizer.apply_gradients(zip(gradients, model.trainable_variables)) after tape.gradient()",
    )
    OPTIMIZE_ALL = Spelling(
        "Pass all of them to the optimizer: torch.optim.Adam(model.parameters()), created after the last "
        "layer, or optimizer.add_param_group({'params': …}) for those that come later",
        "Pass all of model.trainable_variables to tape.gradient() and optimizer.apply_gradients(), once "
        "the last layer is there",
    )
    IS_OPTIMIZED = Spelling(
        "does `optimizer` hold the parameters of this model; is `loss.backward()` called on the loss of "
        "this batch and `optimizer.step()` after it",
        "are the layers trainable, and do they get gradients",
    )
    ADAMW_WITH_DECAY = Spelling(
        "torch.optim.AdamW(model.parameters(), weight_decay=0.01)",
        "keras.optimizers.AdamW(weight_decay=0.01)",
    )
    PRINT_LEARNING_RATE = Spelling("print(optimizer.param_groups[0]['lr'])", "print(optimizer.learning_rate)")

    # Gradients.
    CLIP_THEM = Spelling(
        "Clip them between loss.backward() and optimizer.step(): "
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "Clip them in the optimizer: keras.optimizers.Adam(…, clipnorm=1.0)",
    )
    CLIP_BEFORE_STEP = Spelling(
        "`torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)` before `optimizer.step()`",
        "`keras.optimizers.Adam(…, clipnorm=1.0)`",
    )
    CLIP_AND_CHECK = Spelling(
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
        "keras.optimizers.Adam(…, clipnorm=1.0)",
    )
    CLIP = Spelling(
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "keras.optimizers.Adam(…, clipnorm=1.0)",
    )
    CLIPPING = Spelling("torch.nn.utils.clip_grad_norm_", "clipnorm=1.0 of the optimizer")
    FREEZE = Spelling("layer.requires_grad_(False)", "layer.trainable = False")
    DETACHING_CALLS = Spelling(
        ".detach(), torch.no_grad(), .data or numpy", "keras.ops.stop_gradient, .numpy(), round or argmax"
    )
    FORWARD_METHOD = Spelling("forward()", "call()")
    DETACHING = Spelling(".detach(), torch.no_grad()", "keras.ops.stop_gradient")
    ROUND = Spelling("torch.round", "round")
    CLAMP = Spelling(".clamp(min=1e-8)", "keras.ops.maximum(x, 1e-8)")

    # Layers and their start.
    HE_START_CALL = Spelling("torch.nn.init.kaiming_normal_(weight)", 'kernel_initializer="he_normal"')
    HE_START_OF_LAYER = Spelling(
        '`nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")`',
        '`kernel_initializer="he_normal"`',
    )
    GLOROT_START_OF_LAYER = Spelling(
        "`nn.init.xavier_uniform_(layer.weight)`",
        '`kernel_initializer="glorot_uniform"`',
    )
    SMALL_START_OF_LAST = Spelling(
        "`nn.init.normal_(last.weight, std=0.01)`",
        "`kernel_initializer=keras.initializers.RandomNormal(stddev=0.01)`",
    )
    HE_START = Spelling("torch.nn.init.kaiming_normal_", 'kernel_initializer="he_normal"')
    ORTHOGONAL_START = Spelling("orthogonal_", '"orthogonal"')
    GLOROT_START = Spelling("xavier_normal_", '"glorot_normal"')
    FRAMEWORK = Spelling("torch", "Keras")
    LAYER_NORM = Spelling("`nn.LayerNorm`", "`layers.LayerNormalization`")
    BATCH_NORM = Spelling("`nn.BatchNorm2d`", "`layers.BatchNormalization`")
    LEAKY_RELU = Spelling("`nn.LeakyReLU(0.01)`", "`layers.LeakyReLU(0.01)`")
    GELU = Spelling("`nn.GELU()`", '`activation="gelu"`')
    RELU = Spelling("`nn.ReLU()`", '`activation="relu"`')
    DROPOUT = Spelling("`nn.Dropout(0.2)`", "`layers.Dropout(0.2)`")
    USE_LEAKY_FUNCTION = Spelling(
        "use `F.leaky_relu` or `F.gelu` in the place of `F.relu`",
        'use `activation="leaky_relu"` or `"gelu"` in the place of `"relu"`',
    )

    def __str__(self) -> str:
        return f"{MARK}{self.name}{MARK}"


LOSS_FUNCTIONS = {
    idiom.value.torch: idiom
    for idiom in (
        Idiom.CROSS_ENTROPY,
        Idiom.NLL_LOSS,
        Idiom.BINARY_CROSS_ENTROPY,
        Idiom.BINARY_CROSS_ENTROPY_WITH_LOGITS,
        Idiom.MSE_LOSS,
    )
}


def loss_function(name: object) -> str:
    """Return the loss function of a record, which has torch's name for it, as it stands in a rule's text."""
    return str(LOSS_FUNCTIONS.get(str(name), name))


def spelled(text: str, framework: object) -> str:
    """Return the text with its idioms as users of `framework` write them; it comes from the run's info."""
    if MARK not in text:
        return text
    is_keras = str(framework or "").startswith("keras")
    for idiom in Idiom:
        text = text.replace(str(idiom), idiom.value.keras if is_keras else idiom.value.torch)
    return text
