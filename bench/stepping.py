"""What the debugger costs a training that runs, and how fast one is paused and stepped."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from torch import nn

import tb_netdebug as nd
from bench.board import Board
from bench.elsewhere import meeting_place
from bench.latency import Spread
from bench.models import KINDS, TOKENS, Encoder, Kind, Training
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from bench.side_by_side import Runner, more_busy, noise_of, one_thread, run_rounds, slower
from bench.stepping_page import in_the_page
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress
from tests.support.tensorboard_process import BoardError

TITLE = "The debugger"
METHOD = (
    "Cost: copies of a network train with `watch()` as it comes and one thread of torch, and take turns in "
    "short stretches, as in the part before. Of the MLP one copy is armed (`debugger=`) while nobody is "
    "connected to it, and one is attached to a real TensorBoard and runs; both are compared with a copy "
    "without a debugger. Of two networks one copy is attached, and one is attached and has 100 watchpoints, "
    "which look at every weight and every gradient in every step and are never met: of the transformer of "
    "the other parts, with 16 layers, and of 100 linear layers in a row, which compute little for each of "
    "their weights. By the clock; noise as in the part before. Latency: a training of 100 steps a second "
    "runs in a process of its own, a headless Chromium shows the Debugger page. Its buttons are pressed by a "
    "script in the page; the time ends in the first task after the frame in which the page says that the "
    "training is paused. Steps: F10 is held for some seconds, and the stops that the page shows are counted."
)
ATTACHED_PERCENT, WATCHED_PERCENT = 0.5, 5.0
PAUSE_MS, STEPS_A_SECOND = 100.0, 50.0
ROUNDS, QUICK_ROUNDS = 64, 3
READY_SECS = 60.0
LAYERS, BLOCKS = 100, 16
WATCHPOINTS = 100

ALONE, AGAIN = "`watch()`", "`watch()`, once more"
ARMED, ATTACHED = "armed, nobody connected", "attached, running"
WATCHED = f"attached, {WATCHPOINTS} watchpoints"
COLUMNS = [
    Column("by the clock, % more", 2, "less"),
    Column("training thread, % more", 2, "less"),
    Column("median step, ms", 3, "less"),
    Column("steps timed"),
]


def deep() -> nn.Module:
    """Two tensors a layer."""
    layers: list[nn.Module] = [nn.Linear(256, 256) for _ in range(LAYERS - 1)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())], nn.Linear(256, 10))


DEEP = Kind("deep", "100 linear layers, 200 weights", deep, (64, 256), 10, 64)
LONG = Kind(
    "long", "transformer, 195 weights", lambda: Encoder(layers=BLOCKS), (16, 64), TOKENS, 16 * 64, tokens=True
)  # fmt: skip


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=ROUNDS, quick=QUICK_ROUNDS)
    with meeting_place(), Board(session.folder / "seen").need_netdebug() as board:
        running = cost(session, board, rounds)
        watching = {
            kind.title: cost_of_watchpoints(session, board, kind, rounds=max(rounds // 4, 1))
            for kind in (LONG, DEEP)
        }
        pauses, rate = in_the_page(session, board)
    promises = [
        Promise("MLP: attached to the debugger and running, a step takes longer by",
                slower(running[ATTACHED], running[ALONE]), ATTACHED_PERCENT, "%", True),
        Promise("MLP: armed, with nobody connected, a step takes longer by (promised: within the noise)",
                slower(running[ARMED], running[ALONE]),
                round(noise_of(running[AGAIN], running[ALONE]), 2), "%", True),
        *(Promise(f"{title}: {WATCHPOINTS} watchpoints make every step longer by",
                  slower(made[WATCHED], made[ATTACHED]), WATCHED_PERCENT, "%", True)
          for title, made in watching.items()),
        Promise("from the command to pause until that is on the screen, 95th percentile",
                1000 * Spread.of(pauses).p95, PAUSE_MS, "ms", True),
        Promise("a held key steps by layer", rate, STEPS_A_SECOND, "/s", False),
    ]  # fmt: skip
    tables = [
        table_of("The MLP with one thread", running, ALONE),
        *(table_of(f"{title}, with one thread", made, ATTACHED) for title, made in watching.items()),
        latency_table(pauses, rate),
    ]
    return Part("stepping", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


def cost(session: Session, board: Board, rounds: int) -> dict[str, Runner]:
    with (
        one_thread(),
        runners(session.folder / "mlp", KINDS[0], board, [ALONE, AGAIN, ARMED, ATTACHED]) as made,
    ):
        run_rounds(list(made.values()), session, rounds, title=f"{TITLE}, MLP")
        return made


def cost_of_watchpoints(session: Session, board: Board, kind: Kind, *, rounds: int) -> dict[str, Runner]:
    with one_thread(), runners(session.folder / kind.name, kind, board, [ATTACHED, WATCHED]) as made:
        run_rounds(list(made.values()), session, rounds, title=f"{TITLE}, watchpoints, {kind.title}")
        return made


@contextmanager
def runners(folder: Path, kind: Kind, board: Board, titles: Sequence[str]) -> Iterator[dict[str, Runner]]:
    """By their titles; those that are to be are attached."""
    with ExitStack() as stack:
        made = {}
        for number, title in enumerate(titles):
            training = Training(kind)
            monitor = nd.watch(
                training.model, training.optimizer, logdir=folder, run=f"{kind.name}{number}",
                debugger=None if title in (ALONE, AGAIN) else board.collector(), on_finding="ignore",
            )  # fmt: skip
            stack.callback(monitor.close)
            made[title] = Runner(title, training, monitor)
            if title in (ATTACHED, WATCHED):
                watchpoints = WATCHPOINTS if title == WATCHED else 0
                stack.enter_context(attached(board, made[title], watchpoints=watchpoints))
        yield made


@contextmanager
def attached(board: Board, runner: Runner, *, watchpoints: int) -> Iterator[None]:
    """Somebody attends this training until the end. Raises BoardError when it does not come."""
    client = HttpClient(HubAddress.of(board.url), label="bench", environ=os.environ)
    key = arrived(client, runner.monitor.run_dir.name)
    client.attend([key])
    is_over = threading.Event()

    def attend() -> None:
        while not is_over.wait(2.0):
            client.attend([key])

    thread = threading.Thread(target=attend, name="attendant", daemon=True)
    thread.start()
    try:
        with stepping(runner):
            for number in range(watchpoints):
                set_watchpoint(client, key, number, runner.training.model)
            wait_for(lambda: state_of(client, key)["is_attached"], "the training was not attached")
        yield
    finally:
        is_over.set()
        thread.join()
        client.attend([])


@contextmanager
def stepping(runner: Runner) -> Iterator[None]:
    """Calls are answered by a training that passes its places."""
    is_over = threading.Event()

    def train() -> None:
        while not is_over.is_set():
            runner.monitor.step(loss=runner.training.step())

    thread = threading.Thread(target=train, name="training", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def set_watchpoint(client: HttpClient, key: str, number: int, model: nn.Module) -> None:
    """By turns for weights and for gradients; those of either kind share out all that there are."""
    names = [name for name, _ in model.named_parameters()][number // 2 :: (WATCHPOINTS + 1) // 2]
    client.call(
        key, "set_watchpoint", kind="weight" if number % 2 else "gradient",
        tensors=f"^({'|'.join(map(re.escape, names))})$", statistic="abs_max", comparison=">", threshold=1e30,
    )  # fmt: skip


def state_of(client: HttpClient, key: str) -> dict[str, object]:
    return next((dict(each.state) for each in client.sessions() if each.key == key), {"is_attached": False})


def arrived(client: HttpClient, run: str) -> str:
    """The key of the training. Raises BoardError."""

    def keys() -> list[str]:
        return [each.key for each in client.sessions() if each.session["run"][-1] == run]

    wait_for(keys, f"TensorBoard has heard nothing of the debugger of {run}")
    return keys()[0]


def wait_for(condition: Callable[[], object], complaint: str) -> None:
    """Raises BoardError."""
    until = time.monotonic() + READY_SECS
    while not condition():
        if time.monotonic() > until:
            raise BoardError(complaint)
        time.sleep(0.05)


def table_of(title: str, running: dict[str, Runner], first: str) -> Table:
    rows = []
    for name, runner in running.items():
        compared: list[float | None] = [None, None]
        if name != first:
            compared = [slower(runner, running[first]), more_busy(runner, running[first])]
        values = [*compared, median(runner.passed) * 1e3, float(runner.training.steps)]
        rows.append(Row(name, values, is_ours=name not in (ALONE, AGAIN)))
    return Table(title, COLUMNS, rows)


def latency_table(pauses: Sequence[float], rate: float) -> Table:
    spread = Spread.of([1000 * each for each in pauses])
    columns = [
        Column("median, ms", 1, "less"), Column("95 %, ms", 1, "less"), Column("longest, ms", 1, "less"),
        Column("pauses"), Column("steps a second, held", 1, "more"),
    ]  # fmt: skip
    values: list[float | None] = [spread.median, spread.p95, spread.most, float(len(pauses)), rate]
    return Table("In the page", columns, [Row("a training of 100 steps a second", values, is_ours=True)])
