"""The training processes that an agent looks after."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tb_netdebug.transport.notes import Note
from tb_netdebug.transport.replica import Replica
from tb_netdebug.transport.trainee import Trainee


class Roster:
    """The trainees of one agent, shared by its main loop and its uplink.

    `news` is set when there is something to send or to decide. `logdir_there` is the folder that the
    collector writes to, when the collector is on this machine.
    """

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.logdir_there: Path | None = None
        self._trainees: dict[int, Trainee] = {}
        # Which trainee sends a file: several recordings of one process may lie in one folder.
        self._taken: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._trainees)

    @property
    def has_records(self) -> bool:
        """Whether any trainee has files to replicate."""
        return not all(trainee.join.records_stay for trainee in self._trainees.values())

    def all(self) -> list[Trainee]:
        return list(self._trainees.values())

    def trainee(self, number: int) -> Trainee | None:
        return self._trainees.get(number)

    def replica(self, number: int) -> Replica | None:
        for trainee in self._trainees.values():
            for replica in trainee.replicas.values():
                if replica.number == number:
                    return replica
        return None

    def of_note(self, note: Note) -> Trainee | None:
        for trainee in self.all():
            if trainee.note is not None and trainee.note.path == note.path:
                return trainee
        return None

    def add(self, trainee: Trainee) -> None:
        self._trainees[trainee.number] = trainee
        self.news.set()

    def is_at_home(self, trainee: Trainee) -> bool:
        """Return whether a run is written into the collector's own folder, so that nothing has to be sent."""
        there = self.logdir_there
        return there is not None and trainee.run_dir.resolve().is_relative_to(there)

    def look(self, now: float) -> None:
        """Check all files and processes for changes."""
        for trainee in self.all():
            if trainee.look(now, self._taken):
                self.news.set()
            if trainee.join.records_stay and trainee.has_left and not trainee.is_begun:
                self.finish(trainee)  # no collector knows of it, so there is no Leave to send

    def finish(self, trainee: Trainee) -> None:
        """Drop a trainee whose files the collector has completely.

        Its files stay marked as taken, so that a later recording of the same process does not offer them
        again.
        """
        del self._trainees[trainee.number]
        trainee.finish()

    def forget_stream(self) -> None:
        for trainee in self.all():
            trainee.forget_stream()

    @property
    def safe_bytes(self) -> int:
        return sum(each.safe for trainee in self.all() for each in trainee.replicas.values())

    @property
    def unsettled_bytes(self) -> int:
        return sum(each.unsettled for trainee in self.all() for each in trainee.replicas.values())

    def close(self) -> None:
        for trainee in self.all():
            trainee.close()
