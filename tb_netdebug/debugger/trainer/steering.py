"""The verbs that change something: where the run goes, and what stops it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tb_netdebug.debugger.protocol.presets import PRESETS
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.trainer.course import RunTarget
from tb_netdebug.debugger.workbench import WorkbenchError

if TYPE_CHECKING:
    from tb_netdebug.debugger.trainer.session import Session


class TooLateError(WorkbenchError):
    """The place that was asked for has been passed."""

    kind = "gone"


class Steering:
    """The verbs that steer; each is called with its checked arguments, on the training thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def verbs(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "pause": self._pause,
            "continue": self._continue,
            "step": self._step,
            "run_to": self._run_to,
            "detach": self._detach,
            "set_breakpoint": self._set_breakpoint,
            "remove_breakpoint": self._remove_breakpoint,
            "set_watchpoint": self._set_watchpoint,
            "remove_watchpoint": self._remove_watchpoint,
            "presets": lambda: [each.as_dict() for each in PRESETS],
            "recheck": self._recheck,
            "hits": self._hits,
            "clear_hits": self._clear_hits,
            "set_learning_rate": self._set_learning_rate,
            "snapshot": self._snapshot,
        }

    # ---- where the run goes ------------------------------------------------------------------------------

    def _pause(self, *, step: int | None, wait: float) -> Any:
        session = self._session
        if session.is_paused:
            return session.state()
        if step is None:
            session.course = RunTarget("now")
        elif step < session.step_of():
            raise TooLateError(f"Batch {step} is over: it is in batch {session.step_of()} by now.")
        else:
            session.course = RunTarget("step", step=step)
        return session.state()

    def _continue(self) -> Any:
        self._session.release(None)
        return self._session.state()

    def _step(self, *, by: str, count: int, match: str | None, wait: float) -> Any:
        if by not in self._session.bench.can:
            reasons = " ".join(self._session.bench.cannot)
            raise WorkbenchError(f"This run cannot be stepped by {by}. {reasons}".strip())
        pattern = NamePattern(match) if match else None
        self._session.release(RunTarget(by, count=max(count, 1), match=pattern))
        return self._session.state()

    def _run_to(self, *, step: int | None, layer: str | None, wait: float) -> Any:
        session = self._session
        if (step is None) == (layer is None):
            raise WorkbenchError("Run to where? Give either a batch or a layer.")
        if layer is not None:
            self._need_layers()
            session.release(RunTarget("layer-named", match=NamePattern(layer)))
        elif step is not None and step < session.step_of():
            raise TooLateError(f"Batch {step} is over: it is in batch {session.step_of()} by now.")
        else:
            session.release(RunTarget("step", step=step or 0))
        return session.state()

    def _need_layers(self) -> None:
        bench = self._session.bench
        if "layer" not in bench.can:
            raise WorkbenchError(f"This run cannot stop at layers. {' '.join(bench.cannot)}".strip())

    def _detach(self) -> Any:
        self._session.detach()
        return self._session.state()

    # ---- breakpoints and watchpoints ---------------------------------------------------------------------

    def _set_breakpoint(self, **wanted: Any) -> Any:
        if wanted["layer"] is not None:
            self._need_layers()
        made = self._session.breakpoints.set(wanted.pop("id"), **wanted)
        self._changed()
        return made.as_dict()

    def _remove_breakpoint(self, *, id: int) -> None:
        self._session.breakpoints.remove(id)
        self._changed()

    def _set_watchpoint(self, **wanted: Any) -> Any:
        made = self._session.watchpoints.set(wanted.pop("id"), **wanted)
        self._changed()
        return made.as_dict()

    def _remove_watchpoint(self, *, id: int) -> None:
        self._session.watchpoints.remove(id)
        self._changed()

    def _recheck(self) -> Any:
        session = self._session
        assert session.place is not None
        found = session.watchpoints.recheck(session.place, session.step_of(), session.bench)
        self._changed()
        return {"hits": len(found)}

    def _hits(self, *, since: int, most: int) -> Any:
        return self._session.watchpoints.hits(since, most=most)

    def _clear_hits(self) -> None:
        self._session.watchpoints.clear_hits()
        self._changed()

    # ---- other verbs -------------------------------------------------------------------------------------

    def _set_learning_rate(self, *, optimizer: int, group: int | None, value: float) -> Any:
        self._session.bench.set_learning_rate(optimizer, group, value)
        return self._session.refresh_rates()

    def _snapshot(self) -> Any:
        path = self._session.snapshot() if self._session.snapshot is not None else None
        if path is None:
            raise WorkbenchError(
                "No capsule could be written: see the terminal of the training, and capsules= of nd.watch."
            )
        return {"path": str(path)}

    def _changed(self) -> None:
        self._session.adjust()
        self._session.tell_state()
