"""The tally in words: for the terminal, and as docs/zoo.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from zoo.program import KERAS, TORCH, Program
from zoo.tally import Case, Tally

Rows = list[tuple[str, str]]
TITLES = {TORCH: "PyTorch", KERAS: "Keras"}


def rates(tally: Tally) -> Rows:
    steps = tally.median_steps
    return [
        ("sick runs in which something was found", str(tally.recall)),
        ("... by a right rule", str(tally.right)),
        ("... by the very rule the program names first", str(tally.exact)),
        ("healthy runs with a false alarm", str(tally.false_alarms)),
        ("faults that one step shows: named within 1 step", str(tally.prompt)),
        ("other faults: steps until a right rule spoke, median", "-" if steps is None else f"{steps:g}"),
        ("programs that failed", str(len(tally.failed))),
    ]


def summary(title: str, tally: Tally) -> Iterator[str]:
    yield f"{title}: {programs(tally.sick)} sick and {programs(tally.healthy)} healthy programs"
    for name, value in rates(tally):
        yield f"  {name:<54}{value:>18}"


def programs(cases: Sequence[Case]) -> int:
    return len({case.program.name for case in cases})


def details(tally: Tally) -> Iterator[str]:
    """By name: only for the part that rules are tuned on."""
    yield from block("Failed", tally.failed, lambda case: case.outcome.error.strip().splitlines()[-1:])
    yield from block("Missed (no right rule spoke)", tally.misses, missed)
    yield from block("Found by another right rule", tally.inexact, missed)
    yield from block("Found later than one step after", tally.late, lateness)
    yield from block("False alarms", tally.alarms, messages)
    yield from block(
        "Judged otherwise from the files", tally.otherwise, lambda case: [", ".join(case.outcome.otherwise)]
    )
    for slug, error in tally.broken.items():
        yield f"The rule {slug} broke: {error}"


def block(title: str, cases: Sequence[Case], lines: Callable[[Case], list[str]]) -> Iterator[str]:
    """One entry a program; what several seeds say alike stands once."""
    if not cases:
        return
    yield ""
    yield f"{title}:"
    for name, group in groupby(cases, key=lambda case: case.program.name):
        same = list(group)
        seeds = ",".join(str(case.outcome.seed) for case in same)
        yield f"  {name} (seeds {seeds})"
        yield from (f"      {line}" for line in lines(same[0]))


def missed(case: Case) -> list[str]:
    wanted = f"wanted {case.program.slug}"
    others = [each.slug for each in case.outcome.said]
    return [f"{wanted}, said {', '.join(others) or 'nothing'}"]


def lateness(case: Case) -> list[str]:
    return [f"{case.program.slug}: {case.steps_until} steps"]


def messages(case: Case) -> list[str]:
    return [f"{each.severity} {each.slug} at step {each.said_step}: {each.message}" for each in case.said]


def everything(tally: Tally) -> Iterator[str]:
    """What was said in each run."""
    for case in tally.cases:
        outcome, program = case.outcome, case.program
        wanted = program.slug or "healthy"
        yield f"{program.name} seed {outcome.seed} [{wanted}] {outcome.steps} steps, {outcome.secs:.1f} s"
        yield from (f"    {line}" for line in outcome.error.strip().splitlines())
        for each in outcome.said:
            yield f"    {each.severity} {each.slug} since {each.first_step}, said at {each.said_step}"
            yield f"        {each.message}"
        if outcome.infos:
            yield f"    info: {', '.join(outcome.infos)}"


# ---- docs/zoo.md

HEAD = """# The zoo

Small trainings, sick and healthy, on which the checks are measured. They are written as people write
trainings, without a look at the rules. About a third of them is held out: whoever tunes rules does not see
it. It is drawn by a checksum of the names, without those that somebody has looked at since, and with all
that were written after the rules were last tuned.

Found means an error or a warning. A run is a program with one seed. `make zoo` makes this page anew.
"""


def page(tally: Tally, *, seeds: int, made_on: str) -> str:
    lines = [HEAD, made_on, ""]
    for framework, title in TITLES.items():
        cases = tally.of_framework(framework)
        parts = {"tuned on": cases.part(held_out=False), "held out": cases.part(held_out=True), "all": cases}
        if cases.cases:
            lines += [*rate_table(title, parts), ""]
    lines += ["## Sick programs", "", *sick_table(tally, seeds), ""]
    lines += slow(tally)
    lines += ["## Healthy programs", "", *healthy_table(tally, seeds)]
    return "\n".join(lines) + "\n"


def rate_table(title: str, parts: dict[str, Tally]) -> Iterator[str]:
    yield f"| {title} | {' | '.join(parts)} |"
    yield f"| --- |{' ---: |' * len(parts)}"
    counts = [f"{programs(each.sick)} + {programs(each.healthy)}" for each in parts.values()]
    yield f"| programs, sick + healthy | {' | '.join(counts)} |"
    for row in zip(*(rates(each) for each in parts.values()), strict=True):
        yield f"| {row[0][0]} | {' | '.join(value for _, value in row)} |"


def sick_table(tally: Tally, seeds: int) -> Iterator[str]:
    yield f"| program | what is wrong | its rule | right rule, of {seeds} seeds | steps until |"
    yield "| --- | --- | --- | ---: | ---: |"
    for program, cases in by_program(tally.sick):
        right = sum(case.is_right for case in cases)
        steps = sorted(case.steps_until for case in cases if case.steps_until is not None)
        until = "-" if not steps else f"{steps[0]}" if len(set(steps)) == 1 else f"{steps[0]} to {steps[-1]}"
        yield f"| {name_of(program)} | {program.about} | `{program.slug}` | {right} | {until} |"


def slow(tally: Tally) -> list[str]:
    told = [f"- {program.name}: {program.slowly}" for program, _ in by_program(tally.sick) if program.slowly]
    title = "One step is no proof of these faults, though it is of others with the same rule:"
    return [title, "", *told, ""] if told else []


def healthy_table(tally: Tally, seeds: int) -> Iterator[str]:
    yield f"| program | what it is | false alarms, of {seeds} seeds |"
    yield "| --- | --- | --- |"
    for program, cases in by_program(tally.healthy):
        slugs = sorted({f"`{each.slug}`" for case in cases for each in case.said})
        alarms = sum(case.is_alarmed for case in cases)
        told = f"{alarms}: {', '.join(slugs)}" if slugs else "0"
        yield f"| {name_of(program)} | {program.about} | {told} |"


def by_program(cases: Sequence[Case]) -> Iterator[tuple[Program, list[Case]]]:
    for _, group in groupby(cases, key=lambda case: case.program.name):
        same = list(group)
        yield same[0].program, same


def name_of(program: Program) -> str:
    return f"{program.name}{' (held out)' if program.is_held_out else ''}"
