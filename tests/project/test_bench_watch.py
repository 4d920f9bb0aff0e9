"""What the benchmarks say of watching: how late a step was seen, and that each of them works at all."""

from __future__ import annotations

import os
import signal
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.viewer.plugin.queries import Query, parse_queries
from tests.support.bench_folder import load_bench
from tests.support.chromium import NoChromiumError, need_chromium
from tests.support.tensorboard_process import BoardError, search_path

load_bench()

from bench import command, hammer, live, long_run, manners, many_runs  # noqa: E402
from bench.board import Board  # noqa: E402
from bench.latency import Lateness, Spread, delays_of  # noqa: E402
from bench.long_log import LongLog  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402
from bench.results import Part  # noqa: E402

TINY = LongLog(steps=300, tensors=8, modules=3)
Result = TypeVar("Result")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """As short as it gets."""
    return Session(tmp_path / "work", Progress(is_terminal=False), is_quick=True, rounds=1)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets TensorBoard find the entry point in a checkout, too."""
    for name, value in search_path(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def with_browser(installed: None) -> Callable[[Callable[[], Result]], Result]:
    """Runs something on a thread of its own, because Playwright is there once a thread; skips without it."""
    try:
        need_chromium()
    except NoChromiumError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))

    def run(action: Callable[[], Result]) -> Result:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(action).result()

    return run


# ---- how late


def delays(seen: list[tuple[float, int]], *, since: float = 0.0) -> tuple[list[float], int]:
    """Of the steps 0 to 3, which ended at the seconds 0 to 3; the observation ends at 9."""
    found, unseen = delays_of(np.arange(4), np.arange(4.0), seen, since=since, until=9.0)
    return found.tolist(), unseen


def test_a_step_is_seen_with_the_first_view_that_reaches_as_far() -> None:
    """A later step brings the earlier ones along."""
    assert ([1.0, 1.0, 3.0, 2.0], 0) == delays([(1.0, 0), (2.0, 1), (5.0, 3)])


def test_what_was_seen_once_stays_seen() -> None:
    """A view that shows fewer steps takes nothing back, and the order of the notes does not matter."""
    assert ([4.0, 3.0, 2.0, 1.0], 0) == delays([(5.0, 1), (4.0, 3)])


def test_a_step_that_was_never_seen_counts_until_the_end() -> None:
    """It would be the best of all if it were left out."""
    assert ([1.0, 0.5, 7.0, 6.0], 2) == delays([(1.0, 0), (1.5, 1)])
    assert ([9.0, 8.0, 7.0, 6.0], 4) == delays([])


def test_steps_from_before_do_not_count() -> None:
    """Nobody could have seen them while they were new."""
    assert ([2.0, 1.0], 0) == delays([(4.0, 3)], since=2.0)


def test_lateness_is_told_in_milliseconds() -> None:
    """Half of the steps within the median, all within the latest."""
    late = Lateness.of(np.arange(101) / 100, 3)
    assert (101, 3, 500.0, 950.0, 1000.0) == (late.steps, late.unseen, late.median, late.p95, late.most)


def test_a_spread_of_one_number_is_that_number() -> None:
    """Quick runs have one round."""
    assert Spread.of([0.5]) == Spread(0.5, 0.5, 0.5, 0.5, 0.5)


# ---- what is measured


def test_a_made_up_log_is_a_whole_run(tmp_path: Path) -> None:
    """Every step, samples of all tensors in every 64th, levels of detail, and a graph."""
    told: list[int] = []
    path = LongLog(steps=8192, tensors=8, modules=3).write(tmp_path / "run", told.append)
    run = read_run(path.parent)
    assert [] == run.losses
    assert list(range(8192)) == run.main.steps.tolist()
    assert {8192 // 64} == {len(tensor.rows) for tensor in run.main.tensors.values()}
    assert 8 == len(run.main.tensors)
    assert {1, 2, 3} <= set(run.details)
    assert {"graph", "run"} <= set(run.latest)
    assert [4096, 8192] == told


def test_ranges_are_the_same_every_time_and_lie_within_the_run() -> None:
    """Of very different widths."""
    once, again = (list(long_run.zooms(long_run.FULL, 40)) for _ in range(2))
    assert once == again
    widths = [query["last"] - query["first"] + 1 for _, query in once]
    assert all(0 <= query["first"] and query["last"] < 1_000_000 for _, query in once)
    assert min(widths) < 5_000 < 200_000 < max(widths)


def test_what_the_crowd_asks_for_is_allowed() -> None:
    """A refusal would be no load."""
    asked = hammer.requests_of("some run")
    for path in asked.values():
        route, _, text = path.partition("?")
        fields = urllib.parse.parse_qs(text)
        assert route == "graph" or all(isinstance(one, Query) for one in parse_queries(fields["q"][0]))


def test_files_grow_piece_by_piece_in_turn(tmp_path: Path) -> None:
    """Each is a front part of the source, and there are as many bytes as wanted."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 * many_runs.PIECE_BYTES))
    places = [tmp_path / "a", tmp_path / "b"]
    grown = list(many_runs.growing(source, places, 4 * many_runs.PIECE_BYTES))
    assert ["a", "b", "a", "b"] == [place.name for place, _ in grown]
    assert 4 * many_runs.PIECE_BYTES == sum(size for _, size in grown)
    for place in places:
        assert source.read_bytes().startswith((place / "source").read_bytes())


def test_without_a_browser_nothing_is_measured_in_vain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says at once what to install."""
    monkeypatch.setenv("NETDEBUG_CHROMIUM", "no-such-browser")
    assert 1 == command.main(["--only", "live"])
    assert "apt install chromium" in capsys.readouterr().err


# ---- that it works


def test_a_tensorboard_without_netdebug_is_noticed(installed: None, tmp_path: Path) -> None:
    """It would have nothing to measure; and starting one tells how long that took."""
    with Board(tmp_path, preamble=manners.LEAVE_OUT.format("netdebug")) as board:
        assert 0 < board.start_secs
        with pytest.raises(BoardError, match="install"):
            board.need_netdebug()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command works meanwhile."""
    monkeypatch.setattr(command, "WORK", tmp_path / "work")
    monkeypatch.setattr(command, "MOST_BYTES", 0)
    return tmp_path / "work"


def test_without_netdebug_the_command_ends_with_one_sentence(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to do, no stack trace, and nothing left behind."""

    def measure(session: Session) -> Part:
        session.folder.mkdir()
        with Board(session.folder, preamble=manners.LEAVE_OUT.format("netdebug")) as board:
            raise AssertionError(f"never gets so far: {board.need_netdebug()}")

    monkeypatch.setitem(command.PARTS, "manners", measure)
    assert 2 == command.main(["--only", "manners"])
    *_, last = capsys.readouterr().err.splitlines()
    told = "TensorBoard does not know NetDebug: install it first, as `make bench` does. Nothing was kept."
    assert told == last.split("  ")[-1]
    assert not work.exists()


def test_a_tensorboard_that_does_not_start_is_not_waited_for(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last words are told, in one line."""

    def measure(session: Session) -> Part:
        session.folder.mkdir()
        raise AssertionError(Board(session.folder, preamble="raise SystemExit('no\\ndisk')\n"))

    monkeypatch.setitem(command.PARTS, "manners", measure)
    monkeypatch.setattr(Board, "patience_secs", 1e6)
    assert 2 == command.main(["--only", "manners"])
    assert "TensorBoard did not start: no disk. Nothing was kept." in capsys.readouterr().err


def test_ctrl_c_ends_the_command_and_what_it_has_started(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is what shells expect."""
    boards = []

    def measure(session: Session) -> Part:
        session.folder.mkdir()
        with Board(session.folder) as board:
            boards.append(board)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("never gets so far")

    monkeypatch.setitem(command.PARTS, "manners", measure)
    assert 130 == command.main(["--only", "manners"])
    assert "Stopped. Nothing was kept." in capsys.readouterr().err
    assert boards[0].process.returncode is not None
    assert not work.exists()


def test_both_ways_to_start_are_measured(installed: None, session: Session) -> None:
    """Once each that does not count, and once each that does."""
    assert {manners.WITH: 1, manners.WITHOUT: 1} == {
        name: len(secs) for name, secs in manners.start_times(session, 1).items()
    }


def test_a_stream_is_timed_beside_a_crowd(installed: None, tmp_path: Path) -> None:
    """Each of the clients gets answers meanwhile."""
    TINY.write(tmp_path / "heavy")
    with Board(tmp_path) as board, manners.crowd(board, "heavy") as others:
        heard = manners.listen(board, tmp_path / "live", 0.5)
        told, _ = others.communicate()
    assert 10 <= heard.steps
    assert 4 == len(manners.answers_of(told))
    assert all(count > 0 for count, _ in manners.answers_of(told).values())


def test_runs_are_listed_and_read(installed: None, session: Session) -> None:
    """The list is whole at once."""
    listed = many_runs.list_runs(session, 12, 1)
    assert 0 < listed.first[0] <= listed.read[0]


def test_following_sees_all_that_is_written(tmp_path: Path) -> None:
    """Look by look."""
    source = LongLog(steps=2000, tensors=8).write(tmp_path / "source")
    followed = many_runs.Followed()
    logdir = LogDir([("", str(tmp_path / "grown"))])
    for place, _ in many_runs.growing(source, [tmp_path / "grown/run"], 1 << 30):
        logdir.refresh()
        many_runs.look(logdir, place.name, followed)
    assert 2000 == logdir.open("run").details()["steps"]
    assert followed.looks > 0 < followed.refresh_secs


@pytest.mark.parametrize("is_remote", [False, True])
def test_live_steps_are_seen(
    with_browser: Callable[..., live.Observation], session: Session, is_remote: bool
) -> None:
    """One run for a second, by our page and by TensorBoard's route; also when it comes through the stream."""
    seen = with_browser(lambda: live.observe(session, 1, 1.0, is_remote=is_remote))
    late = live.lateness(seen, seen.ours, seen.runs)
    assert 10 <= late.steps
    assert 0 == late.unseen
    assert 0 < late.median
    assert 2 == len(live.table_of(seen, late, late).rows)


def test_a_long_run_is_opened(with_browser: Callable[..., long_run.Opened], session: Session) -> None:
    """By the page itself and within TensorBoard's, then ranges of it."""
    log = LongLog(steps=5000, tensors=8)
    logdir = session.folder / "logs"
    log.write(logdir / long_run.RUN)
    opened = with_browser(lambda: long_run.open_and_look(log, logdir, session, 1))
    assert [1, 1] == [len(opened.alone), len(opened.in_shell)]
    assert {"scalars": 10, "heat map": 10} == {what: len(secs) for what, secs in opened.zooms.items()}
    assert 0 < opened.resident_before
    assert 3 == len(long_run.promises_of(log, opened))
