"""The reckoning: what was found, missed and cried over nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tb_netdebug.checks.wording.phrases import percent
from zoo.program import Program
from zoo.run import Outcome, Said


@dataclass(frozen=True)
class Case:
    """A program with one seed, and what came of it."""

    program: Program
    outcome: Outcome

    @property
    def said(self) -> list[Said]:
        """What counts: a finding from before the fault was there is not about it."""
        return [each for each in self.outcome.said if each.said_step >= self.program.from_step]

    @property
    def is_alarmed(self) -> bool:
        return bool(self.said)

    @property
    def is_right(self) -> bool:
        return any(each.slug in self.program.right for each in self.said)

    @property
    def is_exact(self) -> bool:
        return any(each.slug == self.program.slug for each in self.said)

    @property
    def steps_until(self) -> int | None:
        """Steps from the fault to the first right finding; None if there is none."""
        steps = [each.said_step for each in self.said if each.slug in self.program.right]
        return min(steps) - self.program.from_step if steps else None


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.count} of {self.of} ({percent(self.value)})" if self.of else "none of 0"


@dataclass(frozen=True)
class Tally:
    """All cases of a part of the zoo. Every rate counts runs: programs times seeds."""

    cases: Sequence[Case] = field(default_factory=tuple)

    @classmethod
    def of(cls, programs: Sequence[Program], outcomes: Sequence[Outcome]) -> Tally:
        by_name: Mapping[str, Program] = {program.name: program for program in programs}
        place = {program.name: number for number, program in enumerate(programs)}
        ordered = sorted(outcomes, key=lambda each: (place[each.name], each.seed))
        return cls([Case(by_name[outcome.name], outcome) for outcome in ordered])

    def part(self, *, held_out: bool) -> Tally:
        return Tally([case for case in self.cases if case.program.is_held_out == held_out])

    def of_framework(self, framework: str) -> Tally:
        return Tally([case for case in self.cases if case.program.framework == framework])

    @property
    def sick(self) -> list[Case]:
        return [case for case in self.cases if case.program.is_sick]

    @property
    def healthy(self) -> list[Case]:
        return [case for case in self.cases if not case.program.is_sick]

    @property
    def failed(self) -> list[Case]:
        """Programs that did not run to their end: nothing is known of them, and they count as misjudged."""
        return [case for case in self.cases if case.outcome.error]

    @property
    def recall(self) -> Share:
        return Share(sum(case.is_alarmed for case in self.sick), len(self.sick))

    @property
    def right(self) -> Share:
        """Of all sick ones: a right rule spoke."""
        return Share(sum(case.is_right for case in self.sick), len(self.sick))

    @property
    def exact(self) -> Share:
        """Of all sick ones: the very rule spoke that the program names first."""
        return Share(sum(case.is_exact for case in self.sick), len(self.sick))

    @property
    def false_alarms(self) -> Share:
        alarmed = sum(case.is_alarmed or bool(case.outcome.error) for case in self.healthy)
        return Share(alarmed, len(self.healthy))

    @property
    def prompt(self) -> Share:
        """Of those whose fault one step shows: named within one step."""
        at_once = [case for case in self.sick if case.program.shows_at_once]
        return Share(
            sum(case.steps_until is not None and case.steps_until <= 1 for case in at_once), len(at_once)
        )

    @property
    def median_steps(self) -> float | None:
        """Until a right rule spoke, of those whose fault takes a while to be seen."""
        steps = [
            case.steps_until
            for case in self.sick
            if case.steps_until is not None and not case.program.shows_at_once
        ]
        return median(steps) if steps else None

    @property
    def misses(self) -> list[Case]:
        return [case for case in self.sick if not case.is_right]

    @property
    def inexact(self) -> list[Case]:
        """Found by rules that are right as well, and not by the one that the program names first."""
        return [case for case in self.sick if case.is_right and not case.is_exact]

    @property
    def late(self) -> list[Case]:
        """Found, but more than one step after a fault that one step shows."""
        return [case for case in self.sick if case.program.shows_at_once and (case.steps_until or 0) > 1]

    @property
    def alarms(self) -> list[Case]:
        return [case for case in self.healthy if case.is_alarmed]

    @property
    def broken(self) -> dict[str, str]:
        """Rules that raised an error, and the error."""
        return {slug: error for case in self.cases for slug, error in case.outcome.broken.items()}

    @property
    def otherwise(self) -> list[Case]:
        return [case for case in self.cases if case.outcome.otherwise]
