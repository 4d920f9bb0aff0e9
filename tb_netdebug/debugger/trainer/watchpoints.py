"""Watchpoints: conditions on tensors at which a run stops by itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from tb_netdebug.debugger.place import AFTER, BACKWARD, BEFORE, END, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.protocol.choices import WATCHED
from tb_netdebug.debugger.protocol.presets import advice_for
from tb_netdebug.debugger.protocol.statements import HitJson, WatchpointJson
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.tensors.statistics import CHANGE, NONFINITE
from tb_netdebug.debugger.trainer.hits import MOST_HITS, Hit, HitList
from tb_netdebug.debugger.trainer.watch_plan import (
    MOST_PAIRS,
    SCALAR,
    Condition,
    Mask,
    Measurement,
    Plan,
    Truths,
)
from tb_netdebug.debugger.workbench import KINDS, NOTHING, Needs, Workbench, WorkbenchError

MOST_WATCHPOINTS = 100
# Names are listed again after this many steps, or when one of them is gone.
STEPS_BETWEEN_NAMES = 8
STEPS_BETWEEN_LAYER_NAMES = 64  # each layer searches all names within reach
RARE = {"user", SCALAR}  # a program may give them in a few steps only: their names are listed each time
# A place may be passed several times in a batch, as with two optimizers, and has other tensors each time.
MOST_TURNS = 8
MOST_PLANS = 20_000
CROWDED_OUT = f"Together, the watchpoints would read more than {MOST_PAIRS} tensors; some are left out."

# The kinds that are complete at a place, for its layer alone if it has one. Kinds that were not checked by
# the end of a batch are checked there, as far as they are still within reach.
_COMPLETE: dict[tuple[str, str, bool], tuple[str, ...]] = {
    (FORWARD, BEFORE, False): ("batch",),
    (FORWARD, AFTER, True): ("input", "output"),
    (BACKWARD, BEFORE, False): ("label", "loss"),
    (BACKWARD, BEFORE, True): ("output_gradient",),
    (BACKWARD, AFTER, True): ("gradient",),
    (OPTIMIZER, BEFORE, False): ("gradient",),
    (OPTIMIZER, AFTER, False): ("weight", "update", "state"),
}


@dataclass(slots=True)
class Watchpoint:
    """A watchpoint, as set by the verb `set_watchpoint`; the comparison "is" has no threshold."""

    id: int
    condition: Condition
    comparison: str
    threshold: float | None
    is_on: bool
    preset: str | None
    advice: str
    hits: int = field(default=0, compare=False)
    complaint: str | None = None

    def as_dict(self) -> WatchpointJson:
        return {
            "id": self.id,
            "kind": self.condition.kind,
            "tensors": self.condition.tensors.text,
            "statistic": self.condition.statistic,
            "comparison": self.comparison,
            "threshold": self.threshold,
            "is_on": self.is_on,
            "advice": self.advice,
            "preset": self.preset,
            "hits": self.hits,
            "complaint": self.complaint,
        }


def complete_at(place: Place) -> tuple[str, ...]:
    """Return the kinds of tensors that have their values from here on, of `place.module` if there is one."""
    if place.op is not None:
        return ()
    return _COMPLETE.get((place.phase, place.edge, place.module is not None), ())


class Watchpoints:
    """All watchpoints of a run, by number, and their hits.

    A watchpoint hits a tensor when its condition becomes true, and again only after it was false: a run that
    is told to go on does not stop for the same thing in each step.
    """

    def __init__(self) -> None:
        self._hits = HitList()
        self._all: dict[int, Watchpoint] = {}
        self._by_key: dict[int, Watchpoint] = {}  # those that are on
        self._last_id = self._last_key = 0
        self._truths = Truths()
        self._plans: dict[tuple[tuple[str, ...], str | None, int], tuple[int, Plan]] = {}
        self._turns: Counter[tuple[str, ...]] = Counter()  # how often a place was passed in this step
        self._wanted: tuple[str, ...] = ()
        self._examples: dict[str, str] = {}  # for each kind that was within reach, a name
        self._matched: set[int] = set()
        self._step: int | None = None
        self._first_step = 0  # the first step that was checked since the last edit
        self._looked_at: set[str] = set()  # kinds, in this step
        self._previous: frozenset[str] = frozenset()
        self._has_learned = True
        self._needs = NOTHING

    # ---- set by the client --------------------------------------------------------------------------------

    def set(
        self,
        id: int | None = None,
        *,
        kind: str,
        tensors: str = "",
        statistic: str,
        comparison: str,
        threshold: float | None = None,
        is_on: bool = True,
        preset: str | None = None,
    ) -> Watchpoint:
        """Add a watchpoint, or replace the one with this number; raise WorkbenchError."""
        before = self._known(id) if id is not None else None
        _refuse_nonsense(kind, statistic, comparison, threshold)
        if before is None and len(self._all) >= MOST_WATCHPOINTS:
            raise WorkbenchError(f"There are {MOST_WATCHPOINTS} watchpoints: remove one first.")
        self._last_key += 1
        sign = -1.0 if comparison == "<" else 1.0
        bound = 0.0 if threshold is None else float(threshold)
        condition = Condition(self._last_key, kind, NamePattern(tensors), statistic, sign, bound)
        advice = advice_for(kind, statistic, comparison, preset)
        made = Watchpoint(
            self._next_id(before), condition, comparison, threshold, is_on, preset, advice,
            before.hits if before else 0,
        )  # fmt: skip
        self._all[made.id] = made
        self._edited()
        return made

    def remove(self, id: int) -> None:
        """Remove a watchpoint; raise WorkbenchError if there is none."""
        del self._all[self._known(id).id]
        self._edited()

    def as_list(self) -> list[WatchpointJson]:
        return [each.as_dict() for each in list(self._all.values())]

    @property
    def is_empty(self) -> bool:
        """Whether none of them is on."""
        return not self._by_key

    @property
    def needs(self) -> Needs:
        """The needs that watchpoints have of the workbench.

        It is the same object as long as nothing has changed; names are added when they are first seen.
        """
        return self._needs

    @property
    def count(self) -> int:
        """The number of all hits so far."""
        return self._hits.count

    def hits(self, since: int = 0, *, most: int = MOST_HITS) -> list[HitJson]:
        """Return the hits after this number, in the order of execution."""
        return self._hits.since(since, most)

    def clear_hits(self) -> None:
        self._hits.clear()

    # ---- while the run goes on ----------------------------------------------------------------------------

    def check(self, place: Place, step: int, workbench: Workbench) -> list[Hit]:
        """Return the new hits, in the order of execution; called at each place that is passed."""
        if not self._by_key:
            return []
        if step != self._step:
            self._step, self._looked_at, self._turns = step, set(), Counter()
        if not self._has_learned:
            self._first_step = step
            self.learn(workbench)
        kinds = self._due(place)
        hits = []
        if kinds:
            # Until a gradient is whole, before the optimizer, it may still grow: a false condition is not
            # final.
            is_final = place.phase != BACKWARD or "gradient" not in kinds
            module = place.module if place.phase != END else None
            hits = self._look(self._plan(kinds, module, step, workbench), place, step, workbench, is_final)
            self._looked_at.update(kinds if is_final else ())
        if place.phase == END:
            self._complain()
        return hits

    def recheck(self, place: Place, step: int, workbench: Workbench) -> list[Hit]:
        """Check everything within reach now; return all hits, also those that were true before."""
        plan = Plan(_names(self._wanted, None, workbench), self._conditions(self._wanted), self._truths)
        self._note(plan, self._wanted, workbench)
        self._truths.held[plan.slots] = False
        hits = self._look(plan, place, step, workbench, is_final=True)
        self._complain()
        return hits

    def learn(self, workbench: Workbench) -> None:
        """Determine which tensors need the values of the step before, as far as they have names already."""
        self._has_learned = True
        conditions = [each.condition for each in self._by_key.values()]
        kinds = {one.kind for one in conditions if one.statistic == CHANGE}
        kinds |= {"weight" for one in conditions if one.kind == "update"}
        names = _names([kind for kind in KINDS if kind in kinds], None, workbench)
        self._remember({name for name in names if self._compares(name)})

    def _compares(self, name: str) -> bool:
        """Return whether a watchpoint needs the tensor's last values; for an update, those of its weight."""
        update = name.replace("weight:", "update:", 1) if name.startswith("weight:") else name
        return any(
            (one.statistic == CHANGE and one.finds(name)) or (one.kind == "update" and one.finds(update))
            for one in (each.condition for each in self._by_key.values())
        )

    def _due(self, place: Place) -> tuple[str, ...]:
        if place.phase == END and place.op is None:
            return tuple(kind for kind in self._wanted if kind not in self._looked_at)
        return tuple(kind for kind in complete_at(place) if kind in self._wanted)

    def _look(self, plan: Plan, place: Place, step: int, workbench: Workbench, is_final: bool) -> list[Hit]:
        if not plan.pairs:
            return []
        reading = plan.read(workbench)
        held = self._truths.held[plan.slots]
        new = reading.holds & ~held
        fallen = held & reading.is_there & ~reading.holds
        self._truths.held[plan.slots[new]] = True
        if is_final:
            self._truths.held[plan.slots[fallen]] = False
        if plan.changing:
            self._doubt_changes(plan, reading, step)
        return self._hit(plan, reading, new, place, step)

    def _hit(self, plan: Plan, reading: Measurement, new: Mask, place: Place, step: int) -> list[Hit]:
        hits = []
        for pair in np.flatnonzero(new):
            condition, name = plan.pairs[pair]
            owner = self._by_key[condition.key]
            owner.hits += 1
            hit = Hit(
                step, place, owner.id, name, condition.kind, condition.statistic, owner.comparison,
                owner.threshold, float(reading.values[pair]), owner.advice,
            )  # fmt: skip
            hits.append(self._hits.add(hit))
        return hits

    # ---- names --------------------------------------------------------------------------------------------

    def _plan(self, kinds: tuple[str, ...], module: str | None, step: int, workbench: Workbench) -> Plan:
        if module is None:
            self._turns[kinds] += 1
        key = kinds, module, min(self._turns[kinds], MOST_TURNS)
        since, plan = self._plans.get(key, (0, None))
        most = STEPS_BETWEEN_NAMES if module is None else STEPS_BETWEEN_LAYER_NAMES
        if plan and not plan.is_stale and RARE.isdisjoint(kinds) and abs(step - since) < most:
            return plan
        names = _names(kinds, module, workbench)
        if plan is None or plan.names != names:
            plan = Plan(names, self._conditions(kinds), self._truths)
            self._note(plan, kinds, workbench)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[key] = step, plan
        return plan

    def _note(self, plan: Plan, kinds: tuple[str, ...], workbench: Workbench) -> None:
        for key in {condition.key for condition, _ in plan.pairs} - self._matched:
            self._matched.add(key)
            self._by_key[key].complaint = None
        for kind in kinds:
            if kind not in self._examples and (names := _names((kind,), None, workbench)):
                self._examples[kind] = names[0]
        for key in plan.crowded_out:
            self._by_key[key].complaint = CROWDED_OUT
        self._remember(plan.changing)

    def _remember(self, names: Collection[str]) -> None:
        if not self._previous.issuperset(names):
            self._previous |= frozenset(names)
            self._needs = self._needs_now()

    def _conditions(self, kinds: Sequence[str]) -> list[Condition]:
        return [each.condition for each in self._by_key.values() if each.condition.kind in kinds]

    # ---- complaints ---------------------------------------------------------------------------------------

    def _complain(self) -> None:
        """Set the complaints, at the end of a batch, when every name has been seen once."""
        if len(self._matched) == len(self._by_key):
            return
        for key, each in self._by_key.items():
            one = each.condition
            if key in self._matched:
                continue
            example = self._examples.get(one.kind)
            each.complaint = (
                f"No {one.kind} has been seen yet."
                if example is None
                else f"{one.tensors.text!r} matches no {one.kind}; one of the names is {example}."
            )

    def _doubt_changes(self, plan: Plan, reading: Measurement, step: int) -> None:
        """Complain about missing previous values; from the second step on they have to be known."""
        missing = plan.change_pairs[~reading.is_there[plan.change_pairs]]
        for pair in missing[:MOST_WATCHPOINTS] if step > self._first_step + 1 else ():
            condition, name = plan.pairs[pair]
            self._by_key[condition.key].complaint = f"The previous step's values of {name} are not kept."

    # ---- edits --------------------------------------------------------------------------------------------

    def _edited(self) -> None:
        self._by_key = {each.condition.key: each for each in self._all.values() if each.is_on}
        kinds = {each.condition.kind for each in self._by_key.values()}
        self._wanted = tuple(kind for kind in WATCHED if kind in kinds)
        self._truths.keep(self._by_key.keys())
        self._plans.clear()
        self._matched &= self._by_key.keys()
        self._previous = frozenset(name for name in self._previous if self._compares(name))
        self._has_learned = False
        self._needs = self._needs_now()

    def _needs_now(self) -> Needs:
        return Needs(
            phases=bool(self._by_key),
            layers="input" in self._wanted or "output" in self._wanted,
            backward="output_gradient" in self._wanted,
            # Labels and user tensors are not looked for unless they are kept.
            keep="user" in self._wanted or "label" in self._wanted,
            previous=self._previous,
        )

    def _known(self, id: int) -> Watchpoint:
        if id not in self._all:
            raise WorkbenchError(f"There is no watchpoint {id}.")
        return self._all[id]

    def _next_id(self, before: Watchpoint | None) -> int:
        if before is not None:
            return before.id
        self._last_id += 1
        return self._last_id


def _names(kinds: Sequence[str], module: str | None, workbench: Workbench) -> tuple[str, ...]:
    """Return the names of these kinds, in the order of execution."""
    names = [
        entry.name
        for kind in kinds
        if kind != SCALAR
        for entry in workbench.entries(kind)
        if module is None or entry.module == module
    ]
    if SCALAR in kinds:
        names += [f"{SCALAR}:{name}" for name in workbench.scalars()]
    return tuple(names)


def _refuse_nonsense(kind: str, statistic: str, comparison: str, threshold: float | None) -> None:
    if statistic == CHANGE and kind in (SCALAR, "update"):
        raise WorkbenchError(f"The previous step of {kind} is not kept, so its change cannot be watched.")
    if (statistic == NONFINITE) != (comparison == "is"):
        raise WorkbenchError(f"{NONFINITE!r} takes the comparison 'is'; all other statistics take > or <.")
    if comparison == "is" and threshold is not None:
        raise WorkbenchError(f"{NONFINITE!r} takes no threshold: a single such value is a hit.")
    if comparison != "is" and (threshold is None or not math.isfinite(threshold)):
        raise WorkbenchError("The threshold must be a number, neither NaN nor infinite.")
