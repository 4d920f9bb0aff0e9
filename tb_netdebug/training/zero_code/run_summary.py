"""What `netdebug run` prints about a program: findings as they come, and a summary at the end."""

from __future__ import annotations

import resource
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.phrases import counted
from tb_netdebug.checks.words import paragraph, places, since
from tb_netdebug.core.records.verdict import ENDED_WITH, ending
from tb_netdebug.core.start_folder import as_typed
from tb_netdebug.judging.configuration import checks_of
from tb_netdebug.recording.remote import remote_of
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.results import UNKNOWN, Result

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode
    from tb_netdebug.transport.addresses import Address

MOST_RUNS_NAMED = 12
NOT_YET = ("tensorflow", "jax")
NONE_SEEN = {
    "torch": "made no torch.optim optimizer",
    "keras": "trained no Keras model that NetDebug could see",
}
VERDICTS = ("sick", "suspect", "healthy", UNKNOWN)
# Other programs that a script starts take less than a training run does.
NOTABLE_SECS = 2.0
PROBE_SECS = 1.0
OF_CHECKS = "--set, --off or --config"
IN_CODE = "call nd.watch and monitor.step there"
REACHED = " Check that the training loop was reached, and that its loader had batches."


def tell(finding: Finding) -> None:
    """Print a finding at once, in one line; advice follows at the end.

    Symptoms of known causes are left out.
    """
    tell_of("", finding)


def tell_of(run: str, finding: Finding) -> None:
    """Print a finding of one of several processes."""
    if finding.severity > Severity.INFO and finding.cause is None:
        head = f"{finding.severity.text.upper()} {finding.rule}, {since(finding)}{places(finding.where)}"
        with suppress(OSError, ValueError, AttributeError):  # there may be no terminal any more
            sys.stderr.write(f"NetDebug: {f'{run}: ' if run else ''}{head}\n")
            sys.stderr.flush()


def closing_words(watched: ZeroCode) -> str:
    """Return the summary after everything is closed: steps, verdict, findings, and where to see more."""
    results = watched.results()
    if not any(result.steps for result in results):
        return f"NetDebug: {nothing_recorded(watched, results)}"
    lines = [f"NetDebug: {summary(results)}"]
    if len(results) > 1:
        lines += run_lines(results)
    how = watched.failed_with.__name__ if watched.failed_with is not None else ""
    ended = ending({ENDED_WITH: how})
    if ended is not None:
        lines.append(ended)
    for finding, runs in joined(results):
        lines += ["", paragraph(finding)]
        if len(results) > 1:
            lines.append(f"  Seen in {listed([run.run_dir.name for run in runs])}.")
    passed_over = watched.passed_over + sum(result.passed_over for result in results)
    if passed_over:
        lines += ["", f"{passed_over} more runs were not recorded, because there were many short ones."]
    shown = as_typed(watched.logdir)
    where = as_typed(results[0].run_dir) if len(results) == 1 else shown
    sent = delivery(watched.asked.remote, results, names_shown(watched, results))
    if sent:
        lines += ["", sent]
    if not watched.asked.is_spooled:
        lines += ["", f"Recorded in {where}. To see more: tensorboard --logdir {shlex.quote(shown)}"]
    return "\n".join(lines)


def unused_options(asked: Settings, environment: Mapping[str, str]) -> str:
    """Return which options of `netdebug run` a program that watches itself does not use; empty if none."""
    # What the environment and netdebug.toml set counts for nd.watch, too.
    usual = Settings(remote=remote_of(None, environment), checks=checks_of(None, Path()))
    given = [each.name for each in fields(Settings) if getattr(asked, each.name) != getattr(usual, each.name)]
    if "checks" in given and not asked.checks:
        given.remove("checks")
    if not given:
        return ""
    options = ", ".join(OF_CHECKS if name == "checks" else f"--{name.replace('_', '-')}" for name in given)
    here = ", ".join(f"{name}=" for name in given)
    return (
        f"NetDebug: the script calls nd.watch itself, which replaces `netdebug run`. Ignored: {options}. "
        f"Set them in the script: nd.watch(..., {here}...)."
    )


# ---- nothing was recorded -------------------------------------------------------------------------------


def nothing_recorded(watched: ZeroCode, results: Sequence[Result]) -> str:
    """Return why nothing was recorded, and what to do about it.

    It claims that nothing was trained only where that was seen.
    """
    if results:
        names = listed([result.run_dir.name for result in results])
        return f"no step was recorded: the script ended before the first step of {names} was complete."
    how = ending_of(watched)
    if watched.optimizers:
        return (
            f"{how or 'an optimizer was made, but no step of it was seen'}. Nothing was recorded."
            f"{'' if how else REACHED}{compiled()}"
        )
    for discovery in watched.unrecorded():
        return discovery
    elsewhere = in_other_processes(watched)
    if elsewhere:
        return elsewhere
    if watched.found and how:
        return f"{how}. Nothing was recorded."
    if watched.found:
        seen = " and ".join(NONE_SEEN[framework] for framework in watched.found)
        return f"nothing was trained: the script {seen}. Nothing was recorded."
    others = [name for name in NOT_YET if name in sys.modules]
    if others:
        return f"NetDebug watches PyTorch and Keras, and this script imported only {others[0]}."
    return "the script imported neither torch nor keras, so there was nothing to watch."


def ending_of(watched: ZeroCode) -> str:
    """Return how the script ended early; empty if it came to its own end."""
    if watched.failed_with is None and not watched.exit_status:
        return ""
    if watched.failed_with is None:
        how = f"exited with status {watched.exit_status}"
    else:
        how = "was interrupted" if issubclass(watched.failed_with, KeyboardInterrupt) else "failed"
    return f"the script {how} before its first step was seen"


def compiled() -> str:
    """Return a guess about torch.compile, made only where something was compiled."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    if not counters.get("frames"):
        return ""
    return " (torch.compile hides the steps that it compiles; nd.watch and monitor.step record them.)"


def in_other_processes(watched: ZeroCode) -> str:
    """Return a note on processes started otherwise than by multiprocessing: they are not watched."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    secs = used.ru_utime + used.ru_stime
    if secs >= NOTABLE_SECS:
        return (
            f"nothing was recorded. This process trained nothing. Processes that it started used {secs:.0f} "
            "s of processor time and were not watched. If one of them trains, start it with `netdebug "
            f"run`, or {IN_CODE}."
        )
    going_on = children_of_this() if watched.forks else []
    if going_on:
        names = listed([f"process {pid}" for pid in going_on])
        return (
            f"nothing was recorded in this process. It started {names}, still running; training there is "
            "recorded as a separate run."
        )
    return ""


def children_of_this() -> list[int]:
    """Return the child processes that have not ended."""
    import psutil

    with suppress(psutil.Error):
        children = psutil.Process().children()
        return [each.pid for each in children if each.status() != psutil.STATUS_ZOMBIE]
    return []


# ---- something was recorded -----------------------------------------------------------------------------


def summary(results: Sequence[Result]) -> str:
    if len(results) == 1:
        (only,) = results
        return f"{counted(only.steps, 'step')} recorded, verdict {only.verdict}{of_what(only.findings)}."
    verdicts = [result.verdict for result in results]
    counts = [f"{verdicts.count(each)} {each}" for each in VERDICTS if each in verdicts]
    return f"{len(results)} runs recorded: {', '.join(counts)}."


def of_what(findings: Sequence[Finding]) -> str:
    """Return a text such as ": 1 error, 2 warnings"; empty if there is nothing to complain about."""
    counts = [
        counted(number, severity.text)
        for severity in (Severity.ERROR, Severity.WARNING)
        if (number := sum(finding.severity is severity for finding in findings))
    ]
    return f": {', '.join(counts)}" if counts else ""


def run_lines(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results[:MOST_RUNS_NAMED]:
        rules = ", ".join(each.rule for each in result.findings if each.severity > Severity.INFO)
        verdict_of_it = f"{result.verdict} ({rules})" if rules else result.verdict
        if not result.is_over:
            verdict_of_it += f"; process {result.pid} is still running, or was killed"
        steps = counted(result.steps, "step") if result.steps else "nothing recorded"
        lines.append(f"  {result.run_dir.name}: {steps}, {verdict_of_it}")
    more = len(results) - MOST_RUNS_NAMED
    return [*lines, f"  and {more} more"] if more > 0 else lines


def joined(results: Sequence[Result]) -> list[tuple[Finding, list[Result]]]:
    """Return each rule once, as it was found first, with all runs in which it was found."""
    found: dict[str, tuple[Finding, list[Result]]] = {}
    for result in results:
        for finding in result.findings:
            found.setdefault(finding.rule, (finding, []))[1].append(result)
    return sorted(found.values(), key=lambda each: (each[0].cause is not None, -each[0].severity))


def names_shown(watched: ZeroCode, results: Sequence[Result]) -> list[str]:
    """Return the runs' names as the user knows them: as here or, if nothing stays here, as asked for."""
    if watched.asked.is_spooled and len(results) == 1 and watched.asked.run:
        return [Path(watched.asked.run).name]
    return [result.run_dir.name for result in results]


def delivery(remote: str | None, results: Sequence[Result], shown: Sequence[str]) -> str:
    """Return what the collector has of the records, and where the rest is; empty if nothing is sent.

    The runs' names at the collector are given where they differ from those `shown`.
    """
    states = [result.delivery for result in results]
    if remote is None or not any(states):
        return ""
    from tb_netdebug.transport.addresses import address_of
    from tb_netdebug.transport.link import DELIVERED, UNSENT

    address = address_of(remote)
    others = names_there(results, shown)
    if all(state == DELIVERED for state in states):
        return f"Sent to {remote}{others and f' as {others}'}: the TensorBoard there shows the details."
    left = [result.run_dir for result in results if result.delivery != DELIVERED]
    kept = listed([as_typed(each) for each in left])
    later = (
        "They are sent as soon as a collector answers: within ten minutes automatically, after that with "
        "the next run sent there. Or read them here: tensorboard --logdir "
        f"{shlex.quote(as_typed(left[0].parent))}"
    )
    if all(state == UNSENT for state in states):
        return f"Nothing was sent. {why_unsent(address)} The records are in {kept}. {later}"
    called = others and f" of {others}, its name there"
    return f"The collector at {address} does not have everything{called} yet. The rest is in {kept}. {later}"


def names_there(results: Sequence[Result], shown: Sequence[str]) -> str:
    names = [result.name_there or result.run_dir.name for result in results]
    return listed(names) if [Path(name).name for name in names] != [*shown] else ""


def why_unsent(address: Address) -> str:
    at = f":{address.port}" if address.is_loopback else str(address)
    try:
        socket.create_connection((address.host, address.port), timeout=PROBE_SECS).close()
    except ConnectionRefusedError:
        there = "" if address.is_loopback else " there"
        return (
            f"No collector is running at {address}. Start one{there} with `netdebug collect --listen {at}`."
        )
    except OSError as error:
        return f"The collector at {address} could not be reached ({error})."
    return f"The collector at {address} refused the records; the reason is printed above."


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
