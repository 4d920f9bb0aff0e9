"""Connects the adapter with the other processes: the first one records sharded tensors as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import count

from tb_netdebug.core.records.step import Sample, Series
from tb_netdebug.frameworks.torch.parameters import WatchedParameter
from tb_netdebug.frameworks.torch.ranks.exchange import NEVER, Exchange, Late, PendingSamples
from tb_netdebug.frameworks.torch.ranks.placement import is_part, speaks
from tb_netdebug.frameworks.torch.ranks.rank_messages import squares
from tb_netdebug.recording import processes
from tb_netdebug.recording.agreement import Agreement
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.refusals import Refusals

_watched_before: dict[str, count[int]] = {}


class Merging:
    """Sends samples of sharded tensors to be merged; does nothing in a run of one process.

    The samples of parts are taken out of the step and come back merged, by `through`. All processes but the
    first keep their own part as well: each file describes what its process holds.
    """

    def __init__(
        self, collector: StepCollector, refusals: Refusals, watched: Iterable[WatchedParameter]
    ) -> None:
        self._collector = collector
        self._refusals = refusals
        self._parts: dict[Series, bool] = {}
        self._exchange: Exchange | None = None
        self._late: list[Late] = []
        self._is_late = False
        self._last = -1
        here, store = processes.this_one(), processes.store()
        self.processes = here[1] if here is not None else 1
        self._rank = here[0] if here is not None else 0
        if here is not None and store is not None:
            collector.agreement = Agreement()
            self._exchange = Exchange(store, name_of(watched), *here, collector.agreement)
            self._exchange.start()

    @property
    def parts(self) -> int:
        """The number of parameters that are sharded."""
        return len({series.name for series in self._parts})

    def follow(self, watched: Iterable[WatchedParameter]) -> None:
        """Set the parameters that are watched by now."""
        if self._exchange is None:
            return
        self._parts = {
            series: speaks(each.tensor)
            for each in watched
            if is_part(each.tensor)
            for series in (each.weight, each.gradient, each.update)
        }

    def end_step(self, *, is_late: bool) -> bool:
        """Offer the step's samples before it is finished. Return whether samples of it come later.

        `is_late`: samples of this step are still to come from a device as well.
        """
        exchange, collector = self._exchange, self._collector
        if exchange is None:
            return is_late
        self._last = collector.step
        if is_late:
            return True
        if collector.sampling:
            mine = self._offer(collector.step, list(collector.samples.values()))
            if len(mine) < len(collector.samples):
                collector.samples = {id(sample.series): sample for sample in mine}
                self._is_late = True
        exchange.passed(collector.step)
        return self._is_late

    def through(self, arrived: list[Late], *, wait: bool) -> list[Late]:
        """Return what arrived from devices and from the other processes, by rising steps.

        Everything behind a step that is still being exchanged waits for it.
        """
        exchange = self._exchange
        if exchange is None:
            return arrived
        for step, scalars, samples in arrived:
            self._late.append((step, scalars, self._offer(step, samples)))
            exchange.passed(step)
        if wait:
            exchange.finish()
        self._late += exchange.take()
        if not self._late and not self._is_late:
            return []
        before = exchange.oldest
        ready = sorted((each for each in self._late if each[0] < before), key=lambda each: each[0])
        self._late = [each for each in self._late if each[0] >= before]
        if self._is_late:  # all on the host: the steps in between are complete
            ready.append((min(before - 1, self._last), {}, []))
            self._is_late = before < NEVER
        return ready

    def _offer(self, step: int, samples: list[Sample]) -> list[Sample]:
        """Offer samples and return those that are not held back for the others."""
        assert self._exchange is not None
        parts = [sample for sample in samples if sample.series in self._parts]
        given = {each.series: each.summary for each in parts if self._parts[each.series]}
        kept = [sample for sample in samples if sample.series not in self._parts]
        held = PendingSamples(
            given, [] if self._rank else parts, squares({each.series: each.summary for each in kept})
        )
        is_held = self._exchange.offer(step, held)
        if parts and not is_held and self._exchange.complaint:
            why = f"{self._exchange.complaint}; each process records its own part"
            self._refusals.refuse("the whole of a sharded tensor", why)
        return kept if is_held and held.samples else samples


def name_of(watched: Iterable[WatchedParameter]) -> str:
    """Return a name that all processes watching this model agree on; the next such model gets another."""
    names = blake2b("\n".join(sorted(each.name for each in watched)).encode(), digest_size=8).hexdigest()
    return f"{names}/{next(_watched_before.setdefault(names, count()))}"
