"""Rules over the inputs of the network: inputs without content, and inputs of an awkward size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tb_netdebug.checks.evidence.headway import Headway, headway
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.scalar_names import BATCH_SIZE, of_input, of_words


def input_places(history: History) -> list[tuple[str, int]]:
    """Return `input/0` and so on, with their places among the tensors of their kind."""
    # As many inputs as the probes record.
    names = ("input/0", "input/1", "input/2", "input/3")
    place = history.tensors.place
    return [(name, place[name]) for name in names if name in place]


def has_other_inputs(history: History) -> bool:
    """Return whether the network gets inputs other than floats, such as token ids."""
    root = history.layers.nodes.get("")
    return root is not None and any(
        not each.dtype.removeprefix("torch.").startswith(("float", "bfloat", "complex", "half", "double"))
        for each in root.inputs
    )


@dataclass(frozen=True, slots=True)
class InputConstantLimits:
    spread: float = 1e-6  # standard deviation relative to the size; rounding leaves this much of a constant
    looks: float = 2  # samples; the first batch alone may be a state of rest
    rows: float = 4  # a batch of one or two may be constant by chance
    constant_features: float = 0.5  # borders of pictures and rare words are constant in many batches


class InputConstant(Rule):
    """All inputs are the same number, or all rows of a batch are the same."""

    slug = "input-constant"
    when = When.SAMPLES
    needs = ("inputs",)
    limits = InputConstantLimits()

    def __init__(self) -> None:
        self._constant = self._alike = 0
        self._since = 0

    def update(self, history: History) -> Sign | None:
        now = history.tensors.now
        rows = history.value(BATCH_SIZE)
        if rows is None or rows < self.limits.rows:
            return None
        places = [] if now is None else [place for _, place in input_places(history) if now.count[place] > 0]
        if now is None or not places:
            return self._words(history)
        size = now.abs_max[places]
        is_constant = bool((now.std[places] <= self.limits.spread * size).all())
        features = [history.value(of_input(index, "constant_features")) for index in range(len(places))]
        is_alike = all(share == 1.0 for share in features)
        if not self._constant and not self._alike:
            self._since = history.step
        self._constant = self._constant + 1 if is_constant else 0
        self._alike = self._alike + 1 if is_alike and not is_constant else 0
        if self._constant >= self.limits.looks:
            return self._same(
                history,
                f"All {now.count[places].sum():.0f} input values of the batch are "
                f"{number(now.mean[places[0]], 4)}",
                float(now.std[places].max()),
            )
        if self._alike >= self.limits.looks:
            return self._same(history, f"All {rows:.0f} rows of the batch are the same", 0.0)
        return self._features([share for share in features if share is not None])

    def _words(self, history: History) -> Sign | None:
        """Check token ids: if all are the same, they are unknown to the vocabulary, or padding."""
        ends = [[history.value(of_words(place, end)) for end in ("min", "max")] for place in range(4)]
        known = [(low, high) for low, high in ends if low is not None and high is not None]
        if not known:
            return None
        if not self._constant:
            self._since = history.step
        self._constant = self._constant + 1 if all(low == high for low, high in known) else 0
        if self._constant < self.limits.looks:
            return None
        return Sign(
            Severity.ERROR,
            f"In {self._constant} batches, all words have the number {known[0][0]:.0f} "
            f"({self.limits.looks:.0f} are enough): such inputs tell nothing about the answer.",
            "Look at one batch just before the model: `print(inputs[:2])`, and at what these numbers stand "
            "for. Often the vocabulary has none of the words (upper and lower case, another tokenizer), or "
            "all are padding.",
            {"different words in the batch": Evidence(1.0, 2.0)},
            since=self._since,
            sureness=0.95,
        )

    def _same(self, history: History, seen: str, spread: float) -> Sign:
        label = history.tensors.place.get("label/0")
        now = history.tensors.now
        labels_vary = label is not None and now is not None and now.std[label] > 0
        severity = Severity.ERROR if labels_vary else Severity.WARNING
        return Sign(
            Severity.INFO if has_other_inputs(history) else severity,
            f"{seen}, in {self._looks} batches ({self.limits.looks:.0f} are enough)"
            + (", while their labels differ" if labels_vary else "")
            + ": such inputs tell nothing about the answer.",
            "Look at one batch just before the model: `print(inputs.min(), inputs.max(), inputs.std())`. "
            "Often whole numbers were divided with //, a scaling was applied twice, or a buffer was never "
            "filled.",
            {
                "standard deviation of the inputs": Evidence(spread, self.limits.spread),
                "batches looked at": Evidence(float(self._looks), self.limits.looks),
            },
            where=("input/0",),
            since=self._since,
            sureness=0.95,
        )

    @property
    def _looks(self) -> int:
        return max(self._constant, self._alike)

    def _features(self, shares: list[float]) -> Sign | None:
        share = max(shares, default=0.0)
        if share <= self.limits.constant_features:
            return None
        return Sign(
            Severity.INFO,
            f"{percent(share)} of the input features have one value in the whole batch (more than "
            f"{percent(self.limits.constant_features)} is worth knowing). Borders of pictures and rare "
            "features are like that.",
            "If you expect them to vary, look at a batch: `inputs.std(dim=0)`.",
            {"share of constant features": Evidence(share, self.limits.constant_features)},
            where=("input/0",),
            sureness=0.7,
        )


@dataclass(frozen=True, slots=True)
class InputScaleLimits:
    size: float = 20.0  # root mean square of the inputs; layers are initialised for 1
    feature_scale_ratio: float = 1e3  # largest to smallest spread of features: one step size cannot suit both
    feature_offset: float = 30.0  # mean of a feature over its spread: the differences drown in the mean
    small: float = 1e-3  # root mean square; the signal drowns in the biases
    steps: float = 40  # before it is reported to hurt: the first steps repair much
    share_of_baseline: float = 0.9  # of a constant answer's loss: a network that beats it by a tenth copes
    share_of_start: float = 0.9  # the same where no baseline is known


class InputScale(Rule):
    """Inputs are far from the size that layers are made for, and the training suffers."""

    slug = "input-scale"
    when = When.STEPS
    needs = ("inputs", "loss")
    limits = InputScaleLimits()

    def update(self, history: History) -> Sign | None:
        first = history.tensors.first
        if first is None:
            return None
        for index, (name, place) in enumerate(input_places(history)):
            if place < len(first.rms):
                measures = self._awkward(history, index, float(first.rms[place]))
                if measures:
                    course = None if begins_with_norm(history) else headway(history)
                    return self._judge(course, name, measures, since=first.step)
        return None

    def _awkward(self, history: History, index: int, size: float) -> dict[str, Evidence]:
        """Return what is out of proportion in an input, as evidence."""
        limits = self.limits
        found = {}
        if size > limits.size:
            found["size of the inputs (root mean square)"] = Evidence(size, limits.size)
        elif 0 < size < limits.small:
            found["size of the inputs (root mean square)"] = Evidence(size, limits.small)
        for name, words, limit in (
            (
                "feature_scale_ratio",
                "largest spread of a feature over the smallest",
                limits.feature_scale_ratio,
            ),
            ("feature_offset", "mean of a feature over its spread", limits.feature_offset),
        ):
            curve = history.curve(of_input(index, name))
            if curve is not None and middle(curve.values) > limit:
                found[words] = Evidence(middle(curve.values), limit)
        return found

    def _judge(self, course: Headway | None, name: str, measures: dict[str, Evidence], *, since: int) -> Sign:
        severity, effect = Severity.INFO, ""
        if course is not None and self._hurts(course):
            severity, effect = Severity.WARNING, f" The training suffers: {course.words}."
        seen = " and ".join(
            f"the {words} is {number(float(each.value))} ({number(each.limit or 0.0)} is the limit)"
            for words, each in measures.items()
        )
        return Sign(
            severity,
            f"The inputs are far from the range that layers are made for: {seen}. Large inputs cause large "
            f"steps, and small features beside them have no effect.{effect}",
            "Scale each feature to mean 0 and spread 1 with the numbers of the training data: "
            "`inputs = (inputs - mean) / std`; divide pictures by 255.",
            measures,
            where=(name,),
            since=since,
            sureness=0.8,
        )

    def _hurts(self, course: Headway) -> bool:
        limits = self.limits
        if course.nonfinite:
            return True
        if course.steps < limits.steps or course.is_falling:
            return False
        if math.isfinite(course.share_of_baseline):
            return course.share_of_baseline > limits.share_of_baseline
        return course.start > 0 and course.share_of_start > limits.share_of_start


def begins_with_norm(history: History) -> bool:
    """Return whether the first layer scales the inputs itself."""
    nodes = history.layers.nodes.values()
    parents = {node.parent for node in nodes}
    called = [node for node in nodes if node.order is not None and node.name not in parents]
    first = min(called, key=lambda node: node.order or 0, default=None)
    return first is not None and "Norm" in first.class_name


def middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan
