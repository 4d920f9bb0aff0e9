"""What a program that was watched without its doing is told about itself, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tb_netdebug.capture.zero_code.training import Training
from tb_netdebug.checks.finding import Finding, Severity, verdict
from tb_netdebug.checks.phrases import counted
from tb_netdebug.checks.words import paragraph, places, since

if TYPE_CHECKING:
    from tb_netdebug.capture.zero_code.driver import ZeroCode

MOST_RUNS_NAMED = 12
NOT_YET = ("tensorflow", "jax")
NONE_SEEN = {
    "torch": "made no optimizer of torch.optim",
    "keras": "trained no model of Keras where it could be seen",
}


def tell(finding: Finding) -> None:
    """At once, in one line; what to do about it is said at the end. Symptoms of known causes are not told."""
    if finding.severity > Severity.INFO and finding.cause is None:
        head = f"{finding.severity.text.upper()} {finding.rule}, {since(finding)}{places(finding.where)}"
        with suppress(OSError, ValueError, AttributeError):  # there may be no terminal any more
            sys.stderr.write(f"NetDebug: {head}\n")
            sys.stderr.flush()


def closing_words(watched: ZeroCode) -> str:
    """After everything is closed: how many steps, the verdict, the findings, and where to see more."""
    trainings = [training for training in watched.trainings if training.steps]
    if not trainings:
        return f"NetDebug: {nothing_trained(watched)}"
    lines = [f"NetDebug: {summary(trainings)}"]
    if len(trainings) > 1:
        lines += run_lines(trainings)
    for finding, runs in joined(trainings):
        lines += ["", paragraph(finding)]
        if len(trainings) > 1:
            lines.append(f"  Seen in {listed([run.run_dir.name for run in runs])}.")
    if watched.passed_over:
        lines += ["", f"{watched.passed_over} more trainings were not recorded: they were many, and short."]
    shown = short(watched.logdir)
    where = short(trainings[0].run_dir) if len(trainings) == 1 else shown
    if watched.remote is not None:
        lines += ["", f"Sent to {watched.remote}: the TensorBoard there shows more."]
    if not watched.is_spooled:
        lines += ["", f"Recorded in {where}. To see more: tensorboard --logdir {quoted(shown)}"]
    return "\n".join(lines)


def nothing_trained(watched: ZeroCode) -> str:
    if watched.optimizers:
        return (
            "an optimizer was made, but no step of it was seen. Nothing was recorded. (torch.compile hides "
            "steps that it compiles; nd.watch and monitor.step show them.)"
        )
    if watched.found:
        seen = " and ".join(NONE_SEEN[framework] for framework in watched.found)
        return f"nothing was trained: the script {seen}. Nothing was recorded."
    others = [name for name in NOT_YET if name in sys.modules]
    if others:
        return f"PyTorch and Keras are watched so far, and this script has imported {others[0]} alone."
    return "the script has imported neither torch nor keras, so there was nothing to watch."


def summary(trainings: Sequence[Training]) -> str:
    findings = [finding for training in trainings for finding in training.findings]
    steps = sum(training.steps for training in trainings)
    if len(trainings) == 1:
        return f"{counted(steps, 'step')} recorded, verdict {verdict(findings)}{of_what(findings)}."
    sick = sum(verdict(training.findings) == "sick" for training in trainings)
    return (
        f"{len(trainings)} trainings with {counted(steps, 'step')} recorded, {sick or 'none'} of them sick."
    )


def of_what(findings: Sequence[Finding]) -> str:
    """ ": 1 error, 2 warnings"; empty when there is nothing to complain of."""
    counts = [
        counted(number, severity.text)
        for severity in (Severity.ERROR, Severity.WARNING)
        if (number := sum(finding.severity is severity for finding in findings))
    ]
    return f": {', '.join(counts)}" if counts else ""


def run_lines(trainings: Sequence[Training]) -> list[str]:
    lines = []
    for training in trainings[:MOST_RUNS_NAMED]:
        rules = ", ".join(each.rule for each in training.findings if each.severity > Severity.INFO)
        verdict_of_it = verdict(training.findings) + (f" ({rules})" if rules else "")
        lines.append(f"  {training.run_dir.name}: {counted(training.steps, 'step')}, {verdict_of_it}")
    more = len(trainings) - MOST_RUNS_NAMED
    return [*lines, f"  and {more} more"] if more > 0 else lines


def joined(trainings: Sequence[Training]) -> list[tuple[Finding, list[Training]]]:
    """Each rule once, as it was found first, and all runs in which it was."""
    found: dict[str, tuple[Finding, list[Training]]] = {}
    for training in trainings:
        for finding in training.findings:
            found.setdefault(finding.rule, (finding, []))[1].append(training)
    return sorted(found.values(), key=lambda each: (each[0].cause is not None, -each[0].severity))


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def short(path: Path) -> str:
    """As one would type it here."""
    with suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def quoted(path: str) -> str:
    """For a shell."""
    import shlex

    return shlex.quote(path)
