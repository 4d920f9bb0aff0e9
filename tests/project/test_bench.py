"""The benchmarks measure what they say they do, and their report is not rounded in our favour."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.bench_folder import ROOT, load_bench

load_bench()

from bench import command, log_bytes, machine, memory, models, one_pass, peers, report, step_time  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402
from bench.recorded import NotRecordedError, columns_of, sampled_steps  # noqa: E402
from bench.results import Column, Part, Promise, Results, Row, Table, UnknownResultsError  # noqa: E402
from bench.rounds import paired, paired_difference, paired_middle, turn  # noqa: E402

TINY = models.Kind(
    "mlp", "tiny", lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), (5, 6), 3, 5
)
KEPT = Promise("MLP: a step is slower by", 1.241, 2.0, "%", True)
BROKEN = Promise("MLP: fewer bytes by", 29.99, 30.0, "×", False)
TABLE = Table(
    "Some table",
    [Column("median, ms", 1, "less"), Column("× faster", 1, "more")],
    [Row("NetDebug", [1.01, 2.09], is_ours=True), Row("the other", [1.09, None])],
)
MACHINE = {"processor": "Some CPU, 2 cores usable", "memory": "8.0 GiB", "torch": "2.13.0"}


@pytest.fixture
def results() -> Results:
    """A made-up run of everything."""
    parts = [Part(name, name.title(), "How.", 3, 1.5, [KEPT, BROKEN], [TABLE]) for name in command.PARTS]
    return Results("2026-01-31", False, 61.0, MACHINE, parts)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """As short as it gets."""
    return Session(tmp_path, Progress(is_terminal=False), is_quick=True, rounds=1)


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    """Nothing gets lost on the way through the file."""
    results.write(tmp_path / "results.json")
    assert results == Results.read(tmp_path / "results.json")


def test_the_file_says_which_promises_are_kept(results: Results, tmp_path: Path) -> None:
    """Whoever reads the file needs not know on which side of a limit it is good to be."""
    results.write(tmp_path / "results.json")
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [True, False] == [promise["kept"] for promise in data["parts"][0]["promises"]]


def test_results_of_another_schema_are_refused(tmp_path: Path) -> None:
    """Numbers that mean something else must not get into the README."""
    (tmp_path / "results.json").write_text('{"schema": 999}', encoding="utf-8")
    with pytest.raises(UnknownResultsError, match="make bench"):
        Results.read(tmp_path / "results.json")


def test_what_is_not_a_number_is_not_written(results: Results, tmp_path: Path) -> None:
    """A measurement that went wrong ends as an error, not as a file that is no JSON."""
    part = replace(results.parts[0], promises=[replace(KEPT, measured=float("nan"))])
    with pytest.raises(ValueError, match="JSON"):
        replace(results, parts=[part]).write(tmp_path / "results.json")
    assert not replace(KEPT, measured=float("nan")).is_kept


@pytest.mark.parametrize(
    ("expected", "value", "digits", "up"),
    [
        ("2.01", 2.001, 2, True),
        ("1.99", 1.999, 2, False),
        ("1.1", 1.1, 1, True),
        ("-0.3", -0.31, 1, True),
        ("3", 3.0, 0, True),
        ("not measurable", float("inf"), 1, True),
    ],
)
def test_numbers_are_rounded_in_the_given_direction(
    expected: str, value: float, digits: int, up: bool
) -> None:
    """Up where less is better, down where more is."""
    assert expected == report.rounded(value, digits, up=up)


def test_a_hair_over_the_limit_is_not_kept() -> None:
    """The number itself decides, not what is shown of it."""
    close = replace(KEPT, measured=2.0001)
    assert not close.is_kept
    assert "2.01 %" == report.measured_text(close)
    assert "29.9 ×" == report.measured_text(BROKEN)


def test_tables_are_rounded_to_our_disadvantage() -> None:
    """Our times up and those of others down, what we are better by down."""
    ours, theirs = TABLE.rows
    assert ["1.1", "2.0"] == report.cells(ours, TABLE.columns)
    assert ["1.0", ""] == report.cells(theirs, TABLE.columns)


def test_the_report_has_machine_promises_and_tables(results: Results) -> None:
    """One text with all of it, whose tables are aligned."""
    text = report.whole_report(results)
    assert "Some CPU" in text
    assert "| not kept |" in text
    assert "### Some table" in text
    widths = {len(line) for line in report.table_text(TABLE).splitlines()}
    assert 1 == len(widths)


def test_a_quick_run_is_called_one(results: Results) -> None:
    """Its numbers must not be taken for the real ones."""
    assert "Quick run" in report.whole_report(replace(results, is_quick=True))


def test_the_readme_gets_the_numbers_between_its_markers(results: Results, tmp_path: Path) -> None:
    """The rest of it stays as it was, and doing it again changes nothing."""
    readme = tmp_path / "README.md"
    readme.write_text("Before\n<!-- bench -->\nold\n<!-- /bench -->\nAfter\n", encoding="utf-8")
    report.update_readme(readme, results)
    once = readme.read_text(encoding="utf-8")
    report.update_readme(readme, results)
    assert once == readme.read_text(encoding="utf-8")
    assert once.startswith("Before\n<!-- bench -->\nMeasured on 2026-01-31")
    assert once.endswith("\n<!-- /bench -->\nAfter\n")
    assert "old" not in once
    assert "not kept" in once


def test_a_readme_without_markers_is_left_alone(results: Results, tmp_path: Path) -> None:
    """There is an error that says what is missing."""
    readme = tmp_path / "README.md"
    readme.write_text("Before <!-- /bench --> and <!-- bench -->\n", encoding="utf-8")
    with pytest.raises(report.MissingMarkersError, match="<!-- bench -->"):
        report.update_readme(readme, results)
    assert "Before <!-- /bench --> and <!-- bench -->\n" == readme.read_text(encoding="utf-8")


def test_the_readme_shows_the_results_that_are_kept() -> None:
    """As long as there are none, it shows none."""
    kept = ROOT / command.RESULTS
    expected = report.readme_section(Results.read(kept)) if kept.exists() else ""
    assert expected in (ROOT / "README.md").read_text(encoding="utf-8")


def test_only_a_whole_run_is_kept(results: Results, tmp_path: Path) -> None:
    """A quick or partial run leaves earlier results as they are."""
    quiet = Progress(is_terminal=False)
    (tmp_path / "bench").mkdir()
    (tmp_path / "README.md").write_text("<!-- bench --><!-- /bench -->", encoding="utf-8")
    assert not command.keep(replace(results, is_quick=True), quiet, root=tmp_path)
    assert not command.keep(replace(results, parts=results.parts[:1]), quiet, root=tmp_path)
    assert [] == list((tmp_path / "bench").iterdir())
    assert command.keep(results, quiet, root=tmp_path)
    assert {"results.json", "results.md"} == {path.name for path in (tmp_path / "bench").iterdir()}


def test_parts_of_a_later_run_stand_beside_the_others(results: Results, tmp_path: Path) -> None:
    """What was measured on another day or another machine says so."""
    quiet = Progress(is_terminal=False)
    (tmp_path / "bench").mkdir()
    (tmp_path / "README.md").write_text("<!-- bench --><!-- /bench -->", encoding="utf-8")
    assert command.keep(results, quiet, root=tmp_path)
    names = list(command.PARTS)
    anew = [replace(each, rounds=9) for each in results.parts[1:2]]
    later = replace(results, date="2026-02-01", parts=anew, machine={**MACHINE, "memory": "16 GiB"})
    assert command.keep(later, quiet, updates=True, root=tmp_path)
    kept = Results.read(tmp_path / command.RESULTS)
    assert names == [part.name for part in kept.parts]
    assert [9 if name == names[1] else 3 for name in names] == [part.rounds for part in kept.parts]
    text = (tmp_path / command.RESULTS).with_suffix(".md").read_text(encoding="utf-8")
    assert len(names) - 1 == text.count(
        ", on 2026-01-31, measured elsewhere: Some CPU, 2 cores usable; 8.0 GiB"
    )
    assert "Measured on 2026-02-01" in text


def test_the_machine_is_described_without_its_name_or_paths() -> None:
    """The file is published."""
    told = " ".join(machine.describe(2).values())
    assert platform.node() not in told.split()
    assert str(ROOT) not in told
    assert str(Path.home()) not in told.split()


def test_everybody_begins_a_round_once_and_comes_after_several() -> None:
    """No contender has the same one before it in every round."""
    rounds = [turn("abcd", number) for number in range(4)]
    assert ["a", "b", "c", "d"] == sorted(order[0] for order in rounds)
    before = {order[order.index("c") - 1] for order in rounds if order[0] != "c"}
    assert len(before) > 1


def test_a_slow_round_does_not_change_the_ratio() -> None:
    """Ratios are taken within a round."""
    assert 2.0 == paired([2.0, 20.0, 2.0], [1.0, 10.0, 1.0])


def test_differences_are_those_within_a_round() -> None:
    """A round in which everything takes longer tells as much as any other."""
    assert 1.0 == paired_difference([2.0, 21.0, 3.0], [1.0, 20.0, 2.0])


def test_a_disturbed_round_does_not_count_and_two_levels_are_averaged() -> None:
    """Of stretches with one sample or two, the mean tells the cost, and a median only one of the two."""
    assert 1.5 == paired_middle([1.0, 1.0, 2.0, 2.0], [1.0] * 4)
    assert 1.0 == paired_middle([1.0, 1.0, 1.0, 99.0], [1.0] * 4)


@pytest.mark.parametrize(
    ("millions", "kind"),
    list(zip([0.67, 0.25, 4.90], models.KINDS, strict=True)),
    ids=["mlp", "cnn", "transformer"],
)
def test_the_networks_are_of_the_promised_size(millions: float, kind: models.Kind) -> None:
    """Million parameters."""
    assert millions == round(models.Training(kind).parameters / 1e6, 2)


def test_all_copies_of_a_network_train_alike() -> None:
    """What is compared does the same work."""
    one, other = models.Training(TINY), models.Training(TINY)
    assert [one.step().item() for _ in range(3)] == [other.step().item() for _ in range(3)]


@pytest.mark.parametrize("contender", peers.CONTENDERS, ids=lambda contender: contender.name)
def test_three_steps_of_each_contender(contender: peers.Contender, tmp_path: Path) -> None:
    """Everybody sees the training through, changes nothing in it, and writes what it is there to write."""
    bare, training = models.Training(TINY), models.Training(TINY)
    watcher = contender.watcher(training, tmp_path)
    losses = []
    for _ in range(3):
        losses.append(training.step())
        watcher.after(losses[-1])
    watcher.flush()
    watcher.rest()
    watcher.close()
    assert torch.equal(torch.stack(losses), torch.stack([bare.step() for _ in range(3)]))
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert (written == 0) == (contender in (peers.BARE, peers.AGAIN))


def test_steps_that_are_missing_in_the_file_are_noticed(tmp_path: Path) -> None:
    """Monitoring that records nothing would be the fastest."""
    training = models.Training(TINY)
    watcher = peers.NetDebugEverything(training, tmp_path)
    for _ in range(3):
        watcher.after(training.step())
    watcher.close()
    assert 3 == sampled_steps(columns_of(tmp_path / "run", 3), 3, every=True)
    with pytest.raises(NotRecordedError, match="3 of 4"):
        columns_of(tmp_path / "run", 4)


def test_step_times_of_all_contenders(session: Session) -> None:
    """One round with a tiny network gives a row for each and the three promises."""
    with step_time.runners(TINY, session.folder) as running:
        step_time.run_rounds(running, TINY, session, 1)
    for runner in running:
        step_time.note_samples(runner)
    table = step_time.table_of(TINY, running)
    assert [contender.title for contender in peers.CONTENDERS] == [row.title for row in table.rows]
    assert 100.0 == table.rows[2].values[-1]
    assert ["%", "%", "×"] == [
        promise.unit for promise in step_time.promises_of(TINY, step_time.ratios_of(running))
    ]


def test_both_files_hold_the_same_tensors(session: Session) -> None:
    """4 weights, gradients and updates each, and 3 activations."""
    ours, peers_bytes, tensors = log_bytes.bytes_per_step(TINY, session, 11)
    assert 15 == tensors
    assert 0 < ours < peers_bytes


def test_one_pass_gives_its_two_promises(session: Session) -> None:
    """One short round of all of it."""
    part = one_pass.measure(session)
    assert ["×", "×"] == [promise.unit for promise in part.promises]
    assert 12 == len(part.tables[2].rows)


def test_the_long_training_tells_its_memory(tmp_path: Path) -> None:
    """A reading every so many steps, of a process that sampled them all."""
    readings = list(memory.train(tmp_path, 20, every_steps=10))
    assert [10, 20] == [reading.step for reading in readings]
    assert 0 < readings[0].resident
    assert 20 == sampled_steps(columns_of(tmp_path / "run", 20), 20, every=True)
