"""What the debugger needs of the workbench, so that the run can stop where it has to."""

from __future__ import annotations

from tb_netdebug.debugger.trainer.breakpoints import Breakpoints
from tb_netdebug.debugger.trainer.course import RunTarget
from tb_netdebug.debugger.trainer.watchpoints import Watchpoints
from tb_netdebug.debugger.workbench import Needs


def needs_of(
    course: RunTarget | None, points: Breakpoints, watchpoints: Watchpoints, *,
    is_paused: bool, is_slow: bool, followed: frozenset[str],
) -> Needs:  # fmt: skip
    """Return the needs of a run that is attended, or on its way to a target.

    `followed` are names of tensors whose values of the batch before are to be kept.
    """
    watches = watchpoints.needs
    is_watched_closely = is_paused or course is not None
    is_marked = not (points.is_empty and watchpoints.is_empty)
    return Needs(
        phases=is_watched_closely or is_marked or is_slow,
        layers=points.wants_layers or watches.layers or (course is not None and course.wants_layers),
        backward=points.wants_backward
        or watches.backward
        or (course is not None and (course.wants_backward or course.wants_layers)),
        ops=course is not None and course.wants_ops,
        keep=watches.keep or is_watched_closely,
        previous=watches.previous | followed,
    )
