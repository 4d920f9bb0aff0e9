"""Runs the rules over the records of one run, and keeps what they find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tb_netdebug.checks.causes import explain, weigh
from tb_netdebug.checks.evaluation import is_evaluation
from tb_netdebug.checks.finding import MOST_PLACES, Finding, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.layers import LayerTable
from tb_netdebug.checks.rule import NEEDS, Rule, When, with_limits
from tb_netdebug.checks.rules import ALL
from tb_netdebug.checks.wording.idioms import spelled
from tb_netdebug.core.records.facts import LossCallFact, OptimizerFact
from tb_netdebug.core.records.findings import listing_order
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.scalar_names import (
    EVAL_MODULES,
    GRADIENT_NORM,
    LOSS,
    LOSS_SCALE,
    LOSSES,
    MEMORY,
    NONFINITE_GRADIENTS,
    RATES,
    TIME_STEP,
    WORDS,
)
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tb_netdebug.core.stats.packed import NONFINITE

# Rules over scalars are asked this often: asking costs as much for one step as for several.
STEPS_BETWEEN = 16
# Samples of every step say little more than those of every eighth, and judging them costs more than taking
# them. Up to LOOKS_AT_ONCE samples in a row are judged, as at the start of a run.
STEPS_BETWEEN_LOOKS = 8
LOOKS_AT_ONCE = 64
NONE_NONFINITE = bytes(NONFINITE.stop - NONFINITE.start)


class Engine:
    """Asks the rules about each record and keeps their findings.

    The same records in the same order give the same findings, however they are divided among calls of `feed`.

    `checks` switches rules off (`{"dead-units": False}`) or sets their thresholds (`{"dead-units": {"share":
    0.8}}`). Raises ValueError for a check or threshold that does not exist.
    """

    def __init__(self, checks: Mapping[str, Any] | None = None, *, rules: Sequence[type[Rule]] = ALL) -> None:
        self.history = History()
        self.broken: dict[str, str] = {}
        self._rules = chosen(rules, checks or {})
        self._by_time = {when: [rule for rule in self._rules if rule.when is when] for when in When}
        self._found: dict[str, Finding] = {}
        self._news: dict[str, Finding] = {}
        self._has: set[str] = set()
        self._looks = float(LOOKS_AT_ONCE)

    def describe(self, *, graph: Graph | None = None, info: dict[str, Any] | None = None) -> None:
        """Set what is known of the run besides its steps."""
        if graph is not None:
            self.history.layers = LayerTable.of(graph)
        if info is not None:
            self.history.info = info

    def feed(self, records: Iterable[StepRecord], *, rank: int = 0) -> list[Finding]:
        """Judge the records and return the findings that are new or worse than before."""
        with np.errstate(all="ignore"):  # NaN and overflow are reported as findings, not as warnings of NumPy
            for record in records:
                if rank:
                    self._take_rank(rank, record)
                else:
                    self._take(record)
        # What other ranks bring up is returned with the next record of the first.
        return [] if rank else self._told()

    def finish(self) -> list[Finding]:
        """Ask every rule once more, because no more records are there for now; return what is new."""
        if self.history.steps:
            with np.errstate(all="ignore"):
                self._ask(self._rules)
            self.history.recent.clear()
        return self._told()

    @property
    def findings(self) -> list[Finding]:
        """Copies of all findings, causes before consequences, the worst first; they no longer change."""
        found = {
            slug: replace(each, where=list(each.where), consequences=list(each.consequences))
            for slug, each in self._found.items()
        }
        weigh(found)
        return sorted(
            found.values(),
            key=lambda each: listing_order(
                each.severity, cause=each.cause, first_step=each.first_step, rule=each.rule
            ),
        )

    @property
    def not_judged(self) -> dict[str, str]:
        """The rules that could not judge, each with what it would need."""
        self._note_needs()
        missing = {rule.slug: [need for need in rule.needs if need not in self._has] for rule in self._rules}
        return {
            slug: "; ".join(NEEDS[need] for need in needs)
            for slug, needs in missing.items()
            if needs and slug not in self._found
        }

    # ---- one record

    def _take(self, record: StepRecord) -> None:
        history = self.history
        if not (record.scalars or record.facts) and record.step <= history.step:
            return  # late samples from the flight recorder: samples are judged in their order
        if record.samples and not self._is_worth_a_look(record):
            record = replace(record, samples=[])
        history.take(record)
        is_due = len(history.recent) >= STEPS_BETWEEN or is_alarming(record)
        if record.samples:
            self._ask(self._by_time[When.SAMPLES])
        if record.facts or is_due:
            self._ask(self._by_time[When.FACTS])
        if is_due:
            self._ask(self._by_time[When.STEPS])
            history.recent.clear()

    def _is_worth_a_look(self, record: StepRecord) -> bool:
        # A token bucket: one sample per STEPS_BETWEEN_LOOKS steps, LOOKS_AT_ONCE at most.
        gained = max(record.step - self.history.step, 0) / STEPS_BETWEEN_LOOKS
        self._looks = min(self._looks + gained, LOOKS_AT_ONCE)
        if self._looks >= 1.0:
            self._looks -= 1.0
            return True
        return is_alarming(record) or any(map(is_nonfinite, record.samples))

    def _take_rank(self, rank: int, record: StepRecord) -> None:
        """Take a record of another process; many may come at once, and each of its samples is compared."""
        self.history.take_rank(rank, record)
        if self.history.has_facts:
            self._ask(self._by_time[When.FACTS])
        if record.samples:
            self._ask(rule for rule in self._by_time[When.SAMPLES] if "ranks" in rule.needs)

    def _ask(self, rules: Iterable[Rule]) -> None:
        for rule in rules:
            if rule.slug in self.broken:
                continue
            try:
                signs = rule.update(self.history)
                for sign in () if signs is None else (signs,) if isinstance(signs, Sign) else signs:
                    self._note(rule.slug, sign)
            except Exception as error:  # a mistake in one rule must not cost the others
                self.broken[rule.slug] = f"{type(error).__name__}: {error}"

    def _note(self, slug: str, sign: Sign) -> None:
        step = self.history.step
        in_order = self.history.layers.in_order
        known = self._found.get(slug)
        if sign.is_over:
            self._end(known, sign)
            return
        if known is None:
            self._found[slug] = self._news[slug] = Finding(
                rule=slug,
                severity=sign.severity,
                first_step=step if sign.since is None else sign.since,
                last_step=step,
                where=in_order(sign.where)[:MOST_PLACES],
                message=self._worded(sign.message),
                advice=self._worded(sign.advice),
                evidence=dict(sign.evidence),
                sureness=sign.sureness,
            )
            return
        # A repeated sign prolongs the finding; its text changes only if the sign is worse or knows more.
        known.last_step = max(known.last_step, step)
        if len(known.where) < MOST_PLACES and not set(sign.where).issubset(known.where):
            known.where = in_order((*known.where, *sign.where))[:MOST_PLACES]
        is_news = sign.severity > known.severity or (sign.knows_more and sign.severity is known.severity)
        if is_news:
            if sign.knows_more and sign.since is not None:
                known.first_step = min(known.first_step, sign.since)
            self._news[slug] = known
        if is_news or (sign.refreshes and sign.severity is known.severity):
            known.severity = sign.severity
            known.message, known.advice = self._worded(sign.message), self._worded(sign.advice)
            known.evidence, known.sureness = dict(sign.evidence), sign.sureness

    def _end(self, known: Finding | None, sign: Sign) -> None:
        """Turn a finding into a note, until its rule reports it again as a warning or an error."""
        if known is not None and known.severity > Severity.INFO:
            known.severity = Severity.INFO
            known.message = f"{known.message} {self._worded(sign.message)}"
            known.advice = self._worded(sign.advice)

    def _worded(self, text: str) -> str:
        return spelled(text, self.history.info.get("framework"))

    def _told(self) -> list[Finding]:
        if not self._news:
            return []
        news, self._news = self._news, {}
        explain(self._found)
        return [each for each in self.findings if each.rule in news]

    def _note_needs(self) -> None:
        history = self.history
        has = {
            LOSS: history.curve(LOSS) is not None,
            "gradient-norm": history.curve(GRADIENT_NORM) is not None,
            "weights": history.weights.looks,
            "gradients": history.gradients.looks,
            "updates": history.updates.looks,
            "activations": history.activations.looks,
            "loss-call": bool(history.known_facts(LossCallFact)),
            "labels": any(curve.name.endswith("/target_min") for curve in history.curves(LOSSES)),
            "inputs": any(name.startswith("input/") for name in history.of_kind(Kind.TENSOR).names)
            or any(history.curves(WORDS)),
            "evaluation-loss": any(is_evaluation(curve.name) for curve in history.curves()),
            "optimizer": bool(history.known_facts(OptimizerFact)),
            "modes": history.curve(EVAL_MODULES) is not None,
            "memory": any(history.curves(MEMORY)),
            "time": history.curve(TIME_STEP) is not None,
            "learning-rate": any(history.curves(RATES)),
            "loss-scale": history.curve(LOSS_SCALE) is not None,
            "ranks": bool(history.ranks),
        }
        self._has = {name for name, is_there in has.items() if is_there}


def is_alarming(record: StepRecord) -> bool:
    """Return whether the record must not wait for the next sixteenth step: something is not finite."""
    loss = record.scalars.get(LOSS, 0.0)
    return not math.isfinite(loss) or record.scalars.get(NONFINITE_GRADIENTS, 0.0) > 0


def is_nonfinite(sample: Sample) -> bool:
    """Return whether the sample has a non-finite value.

    A step has many samples, so the packed summary is read.
    """
    return sample.summary[NONFINITE] != NONE_NONFINITE


def chosen(rules: Sequence[type[Rule]], checks: Mapping[str, Any]) -> list[Rule]:
    """Return the rules that `checks` leaves on; raise ValueError for an unknown check or threshold."""
    made = {rule.slug: rule() for rule in rules}
    for slug, wish in checks.items():
        if slug not in made:
            raise ValueError(f"there is no check {slug!r}; `netdebug check --list` shows all")
        if isinstance(wish, Mapping):
            with_limits(made[slug], wish)
        elif not isinstance(wish, bool):
            raise ValueError(f"checks={{{slug!r}: {wish!r}}}: True, False, or thresholds by name")
    return [rule for slug, rule in made.items() if checks.get(slug) is not False]
