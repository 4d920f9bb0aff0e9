"""Choose which tensors of a step are read, and return what was read to the record of its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tb_netdebug.core.machine.free_memory import copies_limit
from tb_netdebug.core.records.step import Fact, Sample
from tb_netdebug.frameworks.keras.coverage import is_trainable
from tb_netdebug.frameworks.keras.job_queue import JobQueue
from tb_netdebug.frameworks.keras.layers import Network, native
from tb_netdebug.frameworks.keras.step_summarizer import StepSample, StepSummarizer
from tb_netdebug.frameworks.keras.tap import StepTap
from tb_netdebug.frameworks.keras.traced import Shown
from tb_netdebug.frameworks.keras.variables import held, moved, value_of
from tb_netdebug.frameworks.keras.weights import Held, KerasWeights
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings


class SampleReader:
    """Hands steps that need reading to the job queue. All its methods are called on the training thread."""

    # TensorFlow's threads spin between two steps; a second thread of ours would wait for them for long.
    threads = 1

    def __init__(
        self,
        collector: StepCollector,
        network: Network,
        guard: Guard,
        settings: Settings,
        refuse: Callable[[str, str], None],
        *,
        waits: bool,
    ) -> None:
        self._waits = waits
        self._collector = collector
        self._network = network
        self._settings = settings
        self._refuse = refuse
        self._desk = JobQueue(guard)
        self._looks = StepSummarizer(settings, refuse, self.threads)
        if settings.weights or settings.updates:
            self._looks.use(self._make_weights)
        self._kept_for = -1
        self._follows = False
        self._seen_rest: set[int] = set()
        self._open: list[int] = []
        self._facts: dict[int, list[Fact]] = {}
        self._charged_secs = 0.0
        self._kind: tuple[int, ...] = ()
        self._size = 0

    # ---- a step ------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep the current weights before a sampled step; do nothing if the last step was sampled, too."""
        step = self._collector.step
        if self._settings.updates and self._kept_for != step:
            self._kept_for = step
            weights = held(moved(self._network))
            self._desk.put(step, lambda: self._looks.keep(step, weights))

    def add_run(
        self,
        look: StepSample,
        tap: StepTap,
        shown: Callable[[], Shown],
        *,
        is_bad: bool,
        weights: Held | None = None,
    ) -> None:
        """Add what a run has shown to the step's sample, if anything will read it."""
        look.is_bad = look.is_bad or is_bad
        if look.sampling or look.probing or is_bad:
            look.runs.append((tap, shown()))
        elif self._follows or self._waits:
            # Keep what a later sample may need, of what the step has in memory anyway.
            look.runs.append((tap, {name: shown().get(name, []) for name in ("inputs", "labels", "flags")}))
        if look.sampling:
            look.weights = weights or []

    def add_weights(self, look: StepSample) -> None:
        """Add the weights after a sampled step that has moved them; add frozen ones once."""
        if not (self._settings.weights or self._settings.updates):
            return
        look.weights = look.weights or held(moved(self._network))
        # The weights after this step are those before the next one, which then need not be kept again.
        self._kept_for = look.step + 1
        resting = [
            each
            for each in self._network.weights.values()
            if id(each) not in self._seen_rest and not is_trainable(each)
        ]
        if resting and self._settings.weights:
            self._seen_rest.update(map(id, resting))
            look.resting = [(each.weight, value_of(native(each.variable))) for each in resting]

    def put(self, look: StepSample) -> bool:
        """Queue the finished step; return whether its record must wait for this reading or an earlier one."""
        self._follows = self._settings.batches and look.probing
        if look.has_work:
            kind = look.kind()
            # Adding up sizes takes time, and steps of one kind keep about as many bytes.
            if kind != self._kind:
                self._kind, self._size = kind, size_of(look)
            look.scalars = dict(self._collector.scalars)
            self._facts[look.step] = self._collector.facts  # the very list that the step's record will hold
            self._desk.put(look.step, lambda: self._looks.take(look), size=self._size)
        elif not self._open:
            return False
        self._open.append(look.step)
        return True

    def late(self, *, wait: bool) -> list[tuple[int, dict[str, float], list[Sample]]]:
        """Return what has been read since the last call, by step; also steps that turned out to be complete.

        A step that had nothing to read is complete once all steps before it are. With `wait`, block until the
        queue is empty.
        """
        if wait:
            self._desk.wait()
        oldest = self._desk.oldest  # ask before taking what is finished: it may finish in between
        found = []
        for done in self._desk.finished():
            self._facts.pop(done.step, []).extend(done.facts)
            found.append((done.step, done.scalars, done.samples))
        newest = found[-1][0] if found else -1
        ready = [step for step in self._open if step <= newest or oldest is None or step < oldest]
        self._open = self._open[len(ready) :]
        if ready and ready[-1] > newest:
            found.append((ready[-1], {}, []))
        cost = self._desk.cost_secs
        self._collector.spent_secs += cost - self._charged_secs
        self._charged_secs = cost
        return found

    def close(self) -> None:
        """Finish what was begun."""
        self._desk.close()

    # ---- parts -------------------------------------------------------------------------------------------

    def _make_weights(self, collector: StepCollector) -> KerasWeights:
        return KerasWeights(
            collector,
            self._refuse,
            weights=self._settings.weights,
            updates=self._settings.updates,
            most_bytes=copies_limit(),
            threads=self.threads,
        )


def size_of(look: StepSample) -> int:
    """Return how many bytes the queue keeps in memory for a step."""
    shown = [each for _, parts in look.runs for tensors in parts.values() for each in tensors]
    tensors = [*shown, *(tensor for _, tensor in look.weights)]
    return sum(each.shape.num_elements() * each.dtype.size for each in tensors if is_ordinary(each))


def is_ordinary(tensor: Any) -> bool:
    return isinstance(tensor, tf.Tensor) and tensor.dtype not in (tf.string, tf.variant, tf.resource)
