"""The monitor, which `watch` returns: collects each step and hands it to the writer."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.core.eventlog.writer.event_writer import EventWriter
from tb_netdebug.core.machine.memory import MemorySampler
from tb_netdebug.core.records.run_info import decode_run_info, encode_run_info
from tb_netdebug.core.records.scalar_names import name_of_own
from tb_netdebug.core.records.step import Kind, Series, StepRecord
from tb_netdebug.core.records.verdict import BEFORE_FIRST_STEP, ENDED_WITH
from tb_netdebug.judging.online import Judge
from tb_netdebug.recording.adapter import MakeAdapter
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.first_step import FirstStep
from tb_netdebug.recording.governor import Governor
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.remote import error_that_ends, link_of, say
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training import exit_status
from tb_netdebug.training.console import ConsoleLine
from tb_netdebug.training.finished_steps import FinishedSteps
from tb_netdebug.training.flight_recorder import FlightRecorder
from tb_netdebug.training.step_costs import StepCosts

if TYPE_CHECKING:
    from tb_netdebug.training.debugging import Debugging
    from tb_netdebug.transport.link import Link

# Without every=…, samples go to the log at this average rate: 230 MB an hour at most.
LOG_BYTES_PER_SEC = 64 << 10
# So much is written at once, as at the start of a run, where most mistakes show.
LOG_BURST_BYTES = 16 << 20


class Monitor:
    """Records a run; made by `nd.watch`.

    `step` ends a batch and never waits for a device; `log`, `tensor` and `image` add to the present batch. It
    is also a context manager. After `close`, and in forked children, every method does nothing.
    """

    def __init__(
        self,
        make_adapter: MakeAdapter,
        settings: Settings,
        *,
        run_dir: Path,
        rank: int,
        is_users: bool = False,
    ) -> None:
        """Start recording. With `is_users` the user calls `step`; else a callback or `netdebug run` does."""
        self.run_dir = run_dir
        self._settings = settings
        self._guard = Guard(strict=settings.strict)
        self._collector = StepCollector(run_dir=run_dir)
        # Holds a reference to this monitor, even if nobody else does, until its first step or its end.
        self._collector.first_step = FirstStep(
            is_users=is_users, speaks=rank == 0, describe=self._describe_safely
        )
        self._debugging = self._make_debugging(rank) if settings.debugger else None
        self._judge = Judge(
            settings.checks,
            settings.on_finding,
            run_dir,
            sent_to=settings.remote if settings.is_spooled else None,
            pause=self._debugging.pause_for
            if self._debugging is not None and settings.on_finding == "pause"
            else None,
        )
        self._writer = EventWriter(
            run_dir, rank=rank, strict=settings.strict, judge=self._judge if rank == 0 else None
        )
        self._governor = Governor(period=settings.period, overhead=settings.overhead)
        flight = FlightRecorder(
            settings.flight_recorder,
            bytes_per_sec=None if settings.period else LOG_BYTES_PER_SEC,
            burst_bytes=LOG_BURST_BYTES,
        )
        console = ConsoleLine() if settings.console and rank == 0 else None
        self._finished = FinishedSteps(self._writer, flight, self._governor, self._collector, console)
        self._memory = MemorySampler() if settings.memory else None
        self._costs = StepCosts(
            self._governor,
            self._collector,
            self._writer,
            self._memory,
            wants_every_norm=console is not None,  # each of its lines shows the norm
        )
        self._series: dict[str, Series] = {}
        self._is_closed = False
        self._closing = threading.RLock()
        self._pid = os.getpid()
        self._adapter = make_adapter(self._collector, self._guard, settings)
        self._join_others(rank)
        self._link = self._link_of(rank)
        _made.add(self)
        self._start()

    # ---- called by users ---------------------------------------------------------------------------------

    def step(self, loss: Any = None, **scalars: Any) -> None:
        """End a batch. `loss` and further scalars may be numbers or tensors; none of them is waited for."""
        if not self._is_open():
            return
        self._costs.ending_began = now()
        self._collector.first_step = None
        number = self._collector.step
        try:
            self._end_step(loss, scalars)
        except Exception as error:
            self._guard.fault("ending the step", error)
            # The step ends all the same, so that the steps after it have the right numbers.
            if self._collector.step == number:
                self._collector.finish(time.time())
        was_sampled = self._collector.sampling
        self._costs.plan_next()
        if was_sampled or self._collector.sampling:
            self._prepare()
        if self._settings.strict:
            self._guard.raise_pending()
        self._judge.act()

    def log(self, **scalars: Any) -> None:
        """Add numbers to the present batch."""
        if self._is_open():
            for name, value in scalars.items():
                self._collector.later[name] = value

    def tensor(self, name: str, value: Any) -> None:
        """Record statistics and a histogram of any tensor or array, under `name`, at each call."""
        if not self._is_open():
            return
        started = now()
        try:
            taken = self._adapter.summary_of(value)
            if taken is not None:
                series = self._series.setdefault(name, Series(Kind.TENSOR, name))
                self._collector.sample(series, *taken)
            if self._debugging is not None:
                self._debugging.keep_user(name, value)
        except Exception as error:
            self._guard.fault(f"reading the tensor {name}", error)
        self._collector.charge(started)

    def image(self, name: str, array: Any) -> None:
        """Show a picture on TensorBoard's Images page.

        It has height × width, with 1, 3 or 4 channels first or last.
        """
        if not self._is_open():
            return
        started = now()
        try:
            self._writer.image(name, self._adapter.pixels_of(array), step=self._collector.step)
        except Exception as error:
            self._guard.fault(f"reading the image {name}", error)
        self._collector.charge(started)

    def capsule(self) -> Path | None:
        """Write the present step into a file for `netdebug replay`, and return its path.

        The capsule holds the batch, the weights, the optimizers and the random numbers; the run waits for it.
        Returns None if it is not possible, which is reported, or not wanted (`capsules=False`).
        """
        keep = self._collector.keep_capsule
        if not self._is_open() or keep is None:
            return None
        started = now()
        try:
            return keep("it was asked for", {"findings": [each.as_dict() for each in self.findings]})
        except Exception as error:
            self._guard.fault("writing a capsule", error)
            return None
        finally:
            self._collector.charge(started)

    def pause(self) -> None:
        """Pause the run here for its debugger (`debugger=` of `nd.watch`).

        It waits ten minutes for a client, and then as long as one attends.
        """
        if not self._is_open():
            return
        if self._debugging is None:
            self._guard.say("NetDebug: pause() needs nd.watch(..., debugger=True); the training goes on.")
            return
        self._debugging.pause()

    def shell(self) -> None:
        """Open an interpreter in this program's terminal; the run waits.

        It is IPython where that is installed, and has the variables of the calling line.
        """
        from tb_netdebug.training.debugging import shell

        caller = sys._getframe(1)
        started = now()
        shell({**caller.f_globals, **caller.f_locals})
        self._costs.held_up(now() - started)

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, causes before their consequences, the worst first.

        They are a quarter of a second old, and complete after `close`.
        """
        return list(self._judge.findings)

    @property
    def overhead(self) -> float:
        """The cost of watching so far, as a share of the run's own time."""
        return self._governor.share

    @property
    def path(self) -> Path | None:
        """The event file, as soon as there is one."""
        return self._writer.path

    def flush(self) -> bool:
        """Wait until everything so far is in the file; return whether it is."""
        return self._is_open() and self._writer.flush()

    def close(self) -> None:
        """Remove the hooks and write what is left.

        May be repeated, also from another thread, which waits for the first call: `findings` are complete
        afterwards.
        """
        self._close(is_failing=sys.exc_info()[0] is not None)

    def _close(self, *, is_failing: bool) -> None:
        """Close, and raise what was found unless the program already fails for another reason."""
        if self._pid != os.getpid():  # nobody in this process would release the lock
            return
        with self._closing:
            if not self._is_closed:
                self._end(is_failing=is_failing)

    def _end(self, *, is_failing: bool) -> None:
        self._is_closed = True
        self._collector.plan(sampling=False)
        first_step = self._collector.first_step
        if self._debugging is not None:
            self._debugging.close()
        try:
            self._adapter.close()
            self._finished.deliver(self._adapter.late(wait=True), wait=True)
            self._describe()
            self._put_rest()
        except Exception as error:
            self._guard.fault("closing", error)
        self._collector.release()
        self._debugging = None
        del self._adapter  # and with it the models: the monitor may be kept for its findings
        if self._memory is not None:
            self._memory.close()
        self._writer.close()
        if first_step is not None:
            first_step.close(error=error_that_ends())
        if self._link is not None:
            self._link.goodbye(error=error_that_ends())
        if self._settings.strict:
            self._guard.raise_pending()
        if not is_failing:
            self._judge.act()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(is_failing=kind is not None)

    # ---- a step ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._collector.plan(sampling=self._governor.first())
        if self._memory is not None:
            self._memory.start()
        self._describe()
        if self._settings.on_finding == "raise":
            exit_status.listen_to_exit()
        close_at_exit(self)  # after the writer's own: the last registered runs first
        self._prepare()
        if self._debugging is not None:
            self._open_debugging(self._debugging)

    def _link_of(self, rank: int) -> Link | None:
        """Return the link to a collector.

        It is made before anything registers to close recordings at exit.
        """
        try:
            return link_of(self._settings, self.run_dir, rank)
        except Exception as error:
            self._guard.fault("connecting to the collector", error)
            return None

    def _make_debugging(self, rank: int) -> Debugging:
        from tb_netdebug.training.debugging import Debugging

        collector = self._collector
        return Debugging(
            self._settings,
            self.run_dir,
            rank,
            self._guard,
            step_of=lambda: collector.step,
            resumed=lambda secs: self._costs.held_up(secs),
            snapshot=self.capsule,
        )

    def _open_debugging(self, debugging: Debugging) -> None:
        try:
            debugging.open(self._adapter, self._adapter.describe(), self._link)
        except Exception as error:
            self._guard.fault("opening the debugger", error)

    def _join_others(self, rank: int) -> None:
        """Join the other ranks of the run: what all agree on counts, and the first rank judges."""
        agreement, first = self._collector.agreement, self._collector.step
        if agreement is not None:
            governor = self._governor
            agreement.wanted = lambda: governor.wanted(first)
            agreement.heard = self._judge.hear if rank == 0 else None

    def _is_open(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def _end_step(self, loss: Any, scalars: dict[str, Any]) -> None:
        collector = self._collector
        if collector.later:
            scalars = {**collector.later, **scalars}
            collector.later.clear()
        is_late = self._adapter.end_step(loss, scalars)
        try:
            if self._debugging is not None:
                self._debugging.end_batch()
        except BaseException:  # Ctrl-C in a pause: the step is over, and recorded all the same
            try:
                self._finish_step(is_late=is_late)
            except Exception as error:
                self._guard.fault("ending the step", error)
            raise
        self._finish_step(is_late=is_late)

    def _finish_step(self, *, is_late: bool) -> None:
        collector = self._collector
        collector.scalars.update(collector.clock.finish())
        if self._memory is not None:
            readings = self._memory.latest()
            if readings:  # a new reading of the host's memory: time for the framework's own, too
                collector.scalars.update(readings)
                collector.scalars.update(self._adapter.memory())
        if collector.sampling:
            self._costs.note_sampling()
        self._describe_graph()
        record = collector.finish(time.time())
        if is_late or self._finished.in_flight:
            self._finished.in_flight.append(record)
            self._finished.deliver(self._adapter.late(wait=False), wait=False)
        else:
            self._finished.put(record)
        if record.step == 0 or record.step == 3:
            self._describe()

    def _describe_graph(self) -> None:
        """Put the graph before the first step, so that the rules know its layers."""
        graph = self._adapter.graph()
        if graph is not None:
            self._judge.describe(graph=graph)
            self._writer.graph(graph)

    def _put_rest(self) -> None:
        """Record what came after the last step, such as an evaluation's result, as part of that step."""
        collector = self._collector
        later, collector.later = collector.later, {}
        facts, collector.facts = collector.facts, []
        if (later or facts) and collector.step:
            # there is time to wait for a device now
            scalars = {name_of_own(name): number(value) for name, value in later.items()}
            self._writer.put(StepRecord(collector.step - 1, time.time(), scalars, [], facts))

    def _prepare(self) -> None:
        """Prepare the next step, which is charged for it."""
        started = now()
        try:
            self._adapter.prepare(sampling=self._collector.sampling)
        except Exception as error:
            self._guard.fault("preparing the next step", error)
        self._collector.charge(started)

    def _describe_safely(self) -> None:
        """Describe the run from within a hook on an optimizer, where nothing may be raised."""
        try:
            self._describe()
        except Exception as error:
            self._guard.fault("describing the run", error)

    def _describe(self) -> None:
        description = {**self._adapter.describe(), "settings": self._settings, "pid": self._pid}
        if self._memory is not None:
            description["memory"] = self._memory.describe()
        error = error_that_ends() if self._is_closed else ""
        if error:
            description[ENDED_WITH] = error
        if self._collector.first_step is not None:
            description[BEFORE_FIRST_STEP] = self._collector.first_step.facts(
                is_closed=self._is_closed, error=error
            )
        encoded = encode_run_info(description)
        self._judge.describe(info=decode_run_info(encoded))
        self._writer.run_info(encoded)


def number(value: Any) -> float:
    """Return the value of a number or of a tensor with one."""
    return float(value.detach() if hasattr(value, "detach") else value)


def close_at_exit(monitor: Monitor) -> None:
    """Close the monitor at exit, waiting for what a device still owes; does not keep it alive.

    What is raised here reaches no code of the user's, only the exit status.
    """
    reference = weakref.ref(monitor)

    def close() -> None:
        still = reference()
        if still is None:
            return
        raised = ""
        try:
            still.close()
        except FindingError as error:
            raised = str(error)
        if raised:  # outside of the handler, where an error does not end the program any more
            say(raised)
            exit_status.fail()

    atexit.register(close)


_made: weakref.WeakSet[Monitor] = weakref.WeakSet()


def open_monitors() -> list[Monitor]:
    """Return all monitors that are recording in this process."""
    return [each for each in list(_made) if each._is_open()]
