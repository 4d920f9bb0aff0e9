"""Kills trainers, agents, collectors and TensorBoards at random instants, and knows what is missing then.

Every trainer writes steps as fast as it likes. What its file holds when it is gone is the truth: the copy at
the collector has to be that, byte for byte, and at every moment before a front part of it. In the end a
TensorBoard shows all of it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.transport.identity import derived
from tests.support.collector_process import CollectorProcess
from tests.support.disorder import check_disorder
from tests.support.streamed import Home, StreamedTrainer, wait_for
from tests.support.tensorboard_process import TensorBoard

AT_ONCE = 2
# Who collects is a collector by itself or a TensorBoard, and after each of its ends the one or the other.
VICTIMS = {"agent": 3, "trainer": 3, "who collects": 3, "all of them": 1}


class Storm:
    """`blow` for a while, then `settle`. `kills` counts the victims."""

    def __init__(self, home: Home, folder: Path, seed: int, tell: Callable[[str], object] = bool) -> None:
        self.kills: Counter[str] = Counter()
        self.steps = self.bytes = self.runs = self.disturbed = 0
        self._home = home
        self._random = random.Random(seed)
        self._tell = tell
        self._here, self._kept, self._there = folder / "here", folder / "kept", folder / "there"
        self._disorder = folder / "disorder"
        self._collecting: CollectorProcess | TensorBoard = CollectorProcess(self._there)
        self._address = self._collecting.address
        self._trainers: list[StreamedTrainer] = []
        self._started = 0

    def __enter__(self) -> Storm:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._trainers, self._collecting]:
            process.kill()

    # ---- the weather -------------------------------------------------------------------------------------

    def blow(self, secs: float, most_kills: int = 1_000_000) -> None:
        until = time.monotonic() + secs
        while time.monotonic() < until and self.kills.total() < most_kills:
            while len(self._trainers) < AT_ONCE:
                self._start_trainer()
            self._pause(1.0)
            (victim,) = self._random.choices(list(VICTIMS), list(VICTIMS.values()))
            self._kill(victim)
            self.check()

    def _kill(self, victim: str) -> None:
        if victim in ("agent", "all of them"):
            self._kill_agent()
        if victim in ("trainer", "all of them"):
            self._kill_trainer()
        if victim in ("who collects", "all of them"):
            self._kill_who_collects()
            self._pause(0.5)
            self._collect(self._random.choice(["collector", "TensorBoard"]))

    def _kill_agent(self) -> None:
        for pid in self._home.agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills["agent"] += 1

    def _kill_trainer(self) -> None:
        trainer = self._trainers.pop(self._random.randrange(len(self._trainers)))
        self._keep(trainer.run_dir)  # when it is gone, the agent takes away what was delivered
        trainer.kill()
        self._keep(trainer.run_dir)  # a file that was made in that moment
        self.kills["trainer"] += 1

    def _kill_who_collects(self) -> None:
        self._collecting.kill()
        self.kills["TensorBoard" if isinstance(self._collecting, TensorBoard) else "collector"] += 1

    def _collect(self, by: str) -> None:
        """Where the one before has ended: with the same folder, at the same port."""
        if by == "collector":
            self._collecting = CollectorProcess(self._there, at=self._address)
        else:
            flags = ("--logdir", str(self._there), "--netdebug_listen", self._address)
            self._collecting = TensorBoard(*flags, env=self._home.env)
            self._collecting.wait_for_log("takes the records of trainings at")

    def _start_trainer(self) -> None:
        name = f"run{self._started}"
        self._started += 1
        run_dir = self._here / name
        is_spool = self._random.random() < 0.5
        trainer = StreamedTrainer(
            self._home, self._address, run_dir, run=(name,), is_spool=is_spool, identity=derived(name)
        )
        trainer.do("flow")
        self._trainers.append(trainer)

    def _pause(self, most_secs: float) -> None:
        time.sleep(self._random.uniform(0.0, most_secs))

    # ---- the truth ---------------------------------------------------------------------------------------

    def _keep(self, run_dir: Path) -> None:
        """Another name for each file: what is only waiting to be sent is deleted when it was."""
        for path in run_dir.glob("events.*"):
            kept = self._kept / run_dir.name / path.name
            kept.parent.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                os.link(path, kept)

    def check(self) -> None:
        """Of no file is there anything that it does not hold itself."""
        copies = list(self._there.glob("*/events.*"))  # before: a file that is new is soon there, too
        for trainer in self._trainers:
            self._keep(trainer.run_dir)
        for copy in copies:
            original = self._kept / copy.relative_to(self._there)
            there = copy.read_bytes()
            assert original.exists(), f"nobody wrote {copy}"
            assert original.read_bytes().startswith(there), f"{copy} is not the front of its original"

    def settle(self) -> None:
        """Calm: what still runs comes to its end, somebody collects, and everything arrives."""
        for trainer in self._trainers:
            self._keep(trainer.run_dir)
            trainer.close()
        with StreamedTrainer(
            self._home, self._address, self._here / "last", run=("last",), identity=derived("last")
        ) as last:
            last.put(1)  # its agent looks after what is left of others
            self._keep(last.run_dir)
            last.close()
        wait_for(lambda: not self._home.notes(), secs=120.0)
        self.check()
        if not isinstance(self._collecting, TensorBoard):
            self._collecting.kill()
            self._collect("TensorBoard")
        for original in sorted(self._kept.glob("*/*")):
            self._compare(original)

    def _compare(self, original: Path) -> None:
        relative = original.relative_to(self._kept)
        data = original.read_bytes()
        assert data == (self._there / relative).read_bytes(), f"{relative} is not whole"
        run = read_run(original.parent)
        found = read_run(self._there / relative.parent)
        assert run.main.steps.tolist() == found.main.steps.tolist() == list(range(len(found.main.steps)))
        assert len(found.main.steps) == self._shown_steps(relative.parent.name)
        self.steps += len(found.main.steps)
        self.bytes += len(data)
        self.runs += 1
        self._disturb(self._there / relative)

    def _disturb(self, arrived: Path) -> None:
        """All of it is read when its records have changed places, and with forged ones between them."""
        if arrived.suffix == ".netdebug" and len(list(arrived.parent.glob("*.netdebug"))) == 1:
            self._disorder.mkdir(exist_ok=True)
            self.disturbed += check_disorder(arrived, self._disorder / str(self.runs), self._random)

    def _shown_steps(self, name: str) -> int:
        assert isinstance(self._collecting, TensorBoard)
        return int(self._collecting.json("run", run=name)["steps"])
