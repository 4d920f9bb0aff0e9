"""A step that went wrong is made once more, with every operation checked, and nothing is changed by it.

A graph whose operations are all looked at is computed in another way, to other last bits. So the training
runs on the ordinary one, and this one comes in only afterwards: variables are put back to what they were, the
same batch is run, and they are put to what the training has made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.keras.calls import heard, listening
from tb_netdebug.capture.keras.following import Following
from tb_netdebug.capture.keras.layers import Network
from tb_netdebug.capture.keras.operations import Followed
from tb_netdebug.capture.keras.tap import Tap
from tb_netdebug.capture.keras.tensors import dense, tensors_in
from tb_netdebug.capture.keras.values import array_of
from tb_netdebug.capture.keras.version import Shown, Version

# Who does these does something outside of TensorFlow, which cannot be undone.
OUTWARD = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "CollectiveReduceV2", "WriteFile"})

State = list[tuple[Any, Any]]


class Again:
    """`run` in place of a version's own call, and `explained` when its step has gone wrong."""

    def __init__(
        self, model: Any, network: Network, guard: Guard, refuse: Callable[[str, str], None]
    ) -> None:
        self._model = model
        self._network = network
        self._guard = guard
        self._refuse = refuse
        self._handles: dict[int, list[tuple[Any, Any]]] = {}
        self._data: Any = None
        self._before: State = []
        self._checked: dict[str, tuple[Following, Tap]] = {}
        self._magnified = Version(model, self._checked_step, is_eager=False)

    def run(self, version: Version, iterator: Any) -> tuple[Any, Shown]:
        """The batch and the state before it are kept; TensorFlow copies what it is about to change."""
        if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            data = iterator.get_next()
        else:
            data = next(iter(iterator))
        handles = self._handles.get(id(version))
        if handles is None:
            handles = self._handles[id(version)] = self._variables_of(version, data)
        self._data, self._before = data, state_of(handles)
        return version.run(data)

    def explained(self) -> Followed | None:
        """Of the step that has just run; None when there is nothing to make it from again."""
        data, before = self._data, self._before
        self._data, self._before = None, []
        if not before:
            return None
        after = state_of([(handle, value.dtype) for handle, value in before])
        try:
            put(before)
            _, shown = self._magnified.run(data)
        except Exception as error:
            self._guard.fault("making a step once more", error)
            return None
        finally:
            put(after)
        for number, rows in shown.items():
            following, tap = self._checked[number]
            for each in rows:
                following.found(array_of(each))
            return following.blamed(tap)
        return None

    # ---- parts -------------------------------------------------------------------------------------------

    def _checked_step(self, number: str, data: Any) -> tuple[Any, Shown]:
        tap = Tap(self._network, self._guard, wants_layers=False)
        following = Following(self._network, self._guard)
        with listening(tap), listening(following), heard(self._model, tap.computed), following:
            self._model.train_step(data)
        self._checked[number] = following, tap
        return {}, {number: following.checks([dense(each) for _, each in tensors_in(data)])}

    def _variables_of(self, version: Version, data: Any) -> list[tuple[Any, Any]]:
        """Handle and type of every variable that the step reads or changes."""
        concrete = version.concrete(data)
        graph = concrete.graph.as_graph_def()
        nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
        outward = sorted({node.op for node in nodes} & OUTWARD)
        if outward:
            self._refuse(
                "the operation that makes a NaN",
                f"the step cannot be made twice ({', '.join(outward)}); the layer is named",
            )
            return []
        found = []
        for handle in concrete.captured_inputs:
            told = getattr(handle, "_handle_data", None)
            if handle.dtype == tf.resource and told is not None and told.is_set and told.shape_and_type:
                found.append((handle, tf.as_dtype(told.shape_and_type[0].dtype)))
        return found


def state_of(handles: list[tuple[Any, Any]]) -> State:
    return [(handle, tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)) for handle, dtype in handles]


def put(state: State) -> None:
    for handle, value in state:
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)
