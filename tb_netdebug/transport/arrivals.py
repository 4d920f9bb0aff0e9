"""The trainers and files that one stream has announced.

All counts are bounded. The agent chooses the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.received_files import LandedFile


class Violation(Exception):  # noqa: N818  # the peer's error, not ours
    """A message that no agent of ours would send; the stream ends with this sentence.

    With `for_now` the agent did nothing wrong and may try again.
    """

    def __init__(self, sentence: str, *, for_now: bool = False) -> None:
        super().__init__(sentence)
        self.for_now = for_now


@dataclass(frozen=True, slots=True)
class Totals:
    """How much has arrived: the number of training processes, and the bytes of their files."""

    trainers: int = 0
    bytes: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.trainers + other.trainers, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class TrainerView:
    """A training process that some agent speaks for, as the rest of the program sees it.

    `key` identifies it as long as the agent's stream lasts.
    """

    key: str
    number: int
    run: tuple[str, ...]
    rank: int
    host: str
    pid: int
    agent: str
    takes_control: bool
    received_bytes: int


@dataclass(slots=True)
class Arrival:
    """A training process of this stream.

    `asked` is the run name that it came with, empty once refused; `run` is the run's name here, None until it
    has one.
    """

    number: int
    key: str
    rank: int
    pid: int
    takes_control: bool
    identity: str = ""
    resumes: bool = False
    asked: tuple[str, ...] = ()
    run: tuple[str, ...] | None = None
    files: set[int] = field(default_factory=set)
    received_bytes: int = 0
    control: bytearray = field(default_factory=bytearray)


class StreamArrivals:
    """The table of a stream's trainers and files, by number.

    It changes on the collector's loop alone; `views` may be called from any thread.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._trainers: dict[int, Arrival] = {}
        # None marks a refused file: chunks of it may still arrive.
        self._files: dict[int, LandedFile | None] = {}
        self._owners: dict[int, Arrival] = {}
        self._control_bytes = 0

    # ---- trainers

    def add(self, arrival: Arrival) -> None:
        """Add a trainer. Raise Violation."""
        if not arrival.number or arrival.number in self._trainers:
            raise Violation(f"Trainer {arrival.number} cannot be added.")
        if len(self._trainers) >= self._limits.trainers:
            raise Violation(f"A stream has at most {self._limits.trainers} trainers.")
        self._trainers[arrival.number] = arrival

    def of_trainer(self, number: int) -> Arrival:
        """Return the trainer of this number. Raise Violation."""
        arrival = self._trainers.get(number)
        if arrival is None:
            raise Violation(f"There is no trainer {number}.")
        return arrival

    def remove(self, arrival: Arrival) -> list[LandedFile]:
        """Remove a trainer and return its open files, which the caller has to close."""
        del self._trainers[arrival.number]
        self._control_bytes -= len(arrival.control)
        files = [self._files.pop(number) for number in arrival.files]
        for number in arrival.files:
            del self._owners[number]
        return [file for file in files if file is not None]

    def control(self, arrival: Arrival, data: bytes, *, is_last: bool) -> bytes | None:
        """Return the whole message once its last piece has arrived, else None. Raise Violation."""
        self._control_bytes += len(data)
        if self._control_bytes > self._limits.control_bytes:
            raise Violation(f"At most {self._limits.control_bytes} bytes for the debugger wait in a stream.")
        arrival.control += data
        if not is_last:
            return None
        whole = bytes(arrival.control)
        arrival.control.clear()
        self._control_bytes -= len(whole)
        return whole

    # ---- files

    def offer(self, arrival: Arrival, number: int) -> LandedFile | None:
        """Reserve the number for a file of this trainer, and return the file that was open under it, if any.

        Raise Violation.
        """
        owner = self._owners.setdefault(number, arrival)
        if not number or owner is not arrival:
            raise Violation(f"File {number} cannot be offered for trainer {arrival.number}.")
        arrival.files.add(number)
        if len(arrival.files) > self._limits.files:
            raise Violation(f"A trainer has at most {self._limits.files} files.")
        before, self._files[number] = self._files.get(number), None
        return before

    def open(self, number: int, file: LandedFile) -> None:
        self._files[number] = file

    def file(self, number: int) -> LandedFile | None:
        """Return the file of this number; None when it was refused. Raise Violation for an unknown number."""
        try:
            return self._files[number]
        except KeyError:
            raise Violation(f"There is no file {number}.") from None

    def is_open(self, number: int, file: LandedFile) -> bool:
        return self._files.get(number) is file

    def note(self, number: int, size: int) -> None:
        self._owners[number].received_bytes += size

    def refuse(self, number: int) -> None:
        """Mark a file as refused, so that later chunks of it are ignored."""
        self._files[number] = None

    def all_files(self) -> list[LandedFile]:
        return [file for file in self._files.values() if file is not None]

    def views(self, agent: str, host: str) -> list[TrainerView]:
        return [
            TrainerView(
                each.key,
                each.number,
                each.run,
                each.rank,
                host,
                each.pid,
                agent,
                each.takes_control,
                each.received_bytes,
            )
            for each in [*self._trainers.values()]
            if each.run is not None
        ]
