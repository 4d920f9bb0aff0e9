"""What a program of the zoo is, and the list of all."""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding

# Faults that a single step shows, unless a program says why its one is not: they are to be named within one
# step. The others need a while to be seen.
AT_ONCE = frozenset(
    {
        "nonfinite-loss",
        "nonfinite-gradient",
        "nonfinite-weight",
        "nonfinite-activation",
        "nonfinite-input",
        "no-gradient",
        "not-optimized",
        "init-constant",
        "loss-input-softmaxed",
        "loss-input-logits",
        "loss-input-shape",
        "loss-input-range",
        "input-constant",
        "labels-single-class",
        "eval-mode-training",
        "train-mode-evaluating",
        "learning-rate-zero",
    }
)


class Watcher(Protocol):
    """What is common to a monitor and a callback."""

    @property
    def run_dir(self) -> Path | None: ...
    @property
    def findings(self) -> list[Finding]: ...
    def close(self) -> None: ...


# Once held out, until somebody looked at what the rules say of them.
LOOKED_AT = frozenset(
    {
        "wine_as_it_is_stored",
        "weight_decay_of_twenty",
        "transformer_without_warm_up",
        "dqn_with_target_network",
        "decoder_that_nobody_trains",
        "epochs_schedule_stepped_in_each_batch",
        "pixels_divided_twice",
        "summed_divergence_on_a_mean_error",
        "row_numbers_as_a_feature",
        "head_made_in_the_first_forward",
        "thawed_after_the_optimizer_was_made",
        "lambda_returns_the_rate_itself",
        "seed_set_in_every_step",
        "keras_gradients_never_applied",
        "most_pictures_of_one_kind",
        "two_thirds_of_filters_dead",
        "relu_behind_the_scores",
        "pairs_that_belong_together_only",
        "two_views_that_only_attract",
        "linear_decay_over_epochs",
        "every_word_unknown",
        "batch_fetched_outside_the_loop",
        "tanh_net_with_tiny_weights",
        "deep_classifier_with_xavier_gain_four",
        "likelihood_of_probabilities",
        "divergence_of_probabilities",
        "everything_frozen_but_a_bias",
        "regression_hardly_moves",
        "cleared_between_backward_and_step",
        "clipped_to_almost_nothing",
        "scores_of_pixels_viewed",
        "both_factors_of_the_adapters_zero",
        "seconds_since_1970",
        "epsilon_of_a_thousand",
        "one_task_after_the_other",
        "few_shots_an_episode",
        "sums_of_sets",
        "overfit_one_batch_on_purpose",
        "keras_column_against_row",
        "keras_bytes_divided_as_whole_numbers",
        "keras_sigmoid_into_from_logits",
        "keras_schedule_of_whole_numbers",
        "keras_wrong_sign",
        "keras_stacked_gru_on_waves",
    }
)
# Families of programs that were written, by somebody who does not know the rules, after these were tuned.
UNSEEN = frozenset({"unseen", "unseen_more"})


class Zoo:
    """What a program gets: its seed, and a monitor that tells nobody. All sources of chance are seeded."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.watchers: list[Watcher] = []
        self._options: dict[str, Any] = {"logdir": folder, "on_finding": "ignore"}

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> nd.Monitor:
        """Closed after the program, if the program does not."""
        monitor = nd.watch(model, optimizer, run=self._next_run(), **self._options, **options)
        self.watchers.append(monitor)
        return monitor

    def callback(self, **options: Any) -> Any:
        """The same for `fit` of Keras."""
        callback = nd.KerasCallback(run=self._next_run(), **self._options, **options)
        self.watchers.append(callback)
        return callback

    def _next_run(self) -> str:
        return f"run{len(self.watchers)}"


Body = Callable[[Zoo], None]
TORCH, KERAS = "torch", "keras"
# Where their programs are.
PACKAGES = {
    TORCH: ("zoo.healthy", "zoo.sick"),
    KERAS: ("zoo.keras.healthy", "zoo.keras.sick"),
}


@dataclass(frozen=True)
class Program:
    """`slug` is the rule that has to speak, or "" if none may; `also` are others that are right as well.

    `from_step` is the first step in which the fault is there. `slowly` is why one step is no proof of it,
    where it is of other faults with this slug.
    """

    name: str
    body: Body = field(compare=False, repr=False)
    about: str = ""
    family: str = ""
    slug: str = ""
    also: tuple[str, ...] = ()
    from_step: int = 0
    slowly: str = ""
    framework: str = TORCH

    @property
    def is_sick(self) -> bool:
        return bool(self.slug)

    @property
    def is_held_out(self) -> bool:
        """A third of all, which nobody who tunes the rules looks at."""
        is_drawn = zlib.crc32(self.name.encode()) % 3 == 0
        return self.name not in LOOKED_AT and (self.family in UNSEEN or is_drawn)

    @property
    def shows_at_once(self) -> bool:
        return self.slug in AT_ONCE and not self.slowly

    @property
    def right(self) -> tuple[str, ...]:
        return (self.slug, *self.also)


_PROGRAMS: dict[str, Program] = {}


def sick(
    slug: str, *, also: tuple[str, ...] = (), from_step: int = 0, slowly: str = ""
) -> Callable[[Body], Body]:
    """A training with a fault that `slug` names; those in `also` are no mistake either."""

    def enlist(body: Body) -> Body:
        _add(body, slug, also, from_step, slowly)
        return body

    return enlist


def healthy(body: Body) -> Body:
    """A training that learns what it should, however odd it looks."""
    _add(body, "", (), 0, "")
    return body


def _add(body: Body, slug: str, also: tuple[str, ...], from_step: int, slowly: str) -> None:
    name = body.__name__
    if name in _PROGRAMS:
        raise ValueError(f"two programs of the zoo are called {name}")
    about = (body.__doc__ or "").strip().splitlines()[0] if body.__doc__ else ""
    package, _, family = body.__module__.rpartition(".")
    framework = KERAS if package in PACKAGES[KERAS] else TORCH
    _PROGRAMS[name] = Program(name, body, about, family, slug, also, from_step, slowly, framework)


def all_programs(*frameworks: str) -> list[Program]:
    """Of these frameworks, or of all: healthy ones first, then by family, in the order in which they are
    written down. No framework is imported but torch, for its own programs."""
    wanted = frameworks or tuple(PACKAGES)
    for name in (name for framework in wanted for name in PACKAGES[framework]):
        package = import_module(name)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
            import_module(f"{name}.{module.name}")
    return [each for framework in wanted for each in _PROGRAMS.values() if each.framework == framework]
