"""A training of Keras on TensorFlow under the debugger's own session: pauses, steps, watchpoints, tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tb_netdebug as nd
from tb_netdebug.debugger.client.client import ClientError
from tb_netdebug.debugger.client.local_client import KEY, LocalClient
from tb_netdebug.debugger.trainer.session import Session
from tests.support.keras_runs import X, Y, dense
from tests.support.streamed import wait_for

L = keras.layers


class Debugged(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Trains on a thread of its own until it is told to stop."""

    def __init__(self, logdir: Path, **options: Any) -> None:
        super().__init__()
        self.client = LocalClient()
        self.ours = nd.KerasCallback(logdir, run="run", strict=True, on_finding="ignore")
        self.session = Session(
            {"run": ["run"]}, send=self.client.take, step_of=lambda: self.step, notice=lambda _: None,
            resumed=lambda _: None, clock=lambda: 0.0,  # however slow the machine is, nobody has left
        )  # fmt: skip
        self.client.listen(self.session.receive)
        self.step = 0
        self.is_enough = False
        layers = L.Input((16,)), L.Dense(8, activation="relu", name="first"), L.Dense(3, name="last")
        self.network = dense(*layers, optimizer=keras.optimizers.SGD(0.01), **options)
        self.thread = threading.Thread(target=self._train, name="training")

    def on_train_begin(self, logs: Any = None) -> None:
        adapter: Any = self.ours.monitor._adapter  # type: ignore[union-attr]
        self.session.open(adapter.workbench(self.session))
        self.session.connected()
        original = adapter.end_step

        def end_step(loss: Any, scalars: Any) -> bool:
            is_late: bool = original(loss, scalars)
            if self.session.is_alert:
                self.session.end_batch()
            self.step += 1
            self.model.stop_training = self.is_enough
            return is_late

        adapter.end_step = end_step

    def ask(self, verb: str, **arguments: Any) -> Any:
        return self.client.call(KEY, verb, **arguments)

    def where(self, verb: str, **arguments: Any) -> tuple[str, str | None, str]:
        """Where it stands after that."""
        place = self.ask(verb, **arguments, wait=30.0)["place"]
        return place["phase"], place["module"], place["edge"]

    def _train(self) -> None:
        self.network.fit(X, Y, epochs=10**6, verbose=0, callbacks=[self.ours, self])


@contextmanager
def debugged(logdir: Path, **options: Any) -> Iterator[Debugged]:
    rig = Debugged(logdir, **options)
    rig.thread.start()
    try:
        wait_for(lambda: rig.step > 2)
        rig.client.attend([KEY])
        yield rig
    finally:
        rig.is_enough = True
        rig.session.close()
        rig.thread.join(60)
        assert not rig.thread.is_alive()


def test_a_graph_stops_between_batches(tmp_path: Path) -> None:
    """What its step has computed is there, gradients too; a watchpoint stops it by itself."""
    with debugged(tmp_path) as rig:
        assert ("end", None, "before") == rig.where("pause")
        step = rig.step
        assert ("end", None, "before") == rig.where("step", by="batch")
        assert step + 1 == rig.step
        with pytest.raises(ClientError, match="run_eagerly=True"):
            rig.ask("step", by="layer")
        kinds = {each["kind"] for each in rig.ask("tensors")}
        assert {"batch", "output", "label", "loss", "gradient", "weight", "update"} <= kinds
        assert [32, 3] == rig.ask("tensor", name="output:last")["shape"]
        moved = rig.ask("evaluate", text="norm(`update:last.kernel`) / norm(`gradient:last.kernel`)")
        assert 0.01 == pytest.approx(moved["statistics"]["max"], rel=1e-4)
        assert 0.5 == rig.ask("set_learning_rate", optimizer=0, value=0.5)[0]["value"]
        small = {"kind": "gradient", "tensors": r"last\.bias", "statistic": "norm", "threshold": 0.0}
        rig.ask("set_watchpoint", **small, comparison=">")
        rig.ask("continue")
        wait_for(lambda: rig.client.sessions()[0].is_paused)
        (hit, *_) = rig.ask("hits")
        assert ("gradient:last.bias", "end") == (hit["tensor"], hit["place"]["phase"])


def test_an_eager_training_stops_at_layers(tmp_path: Path) -> None:
    """Inside of a batch, at the layer that was asked for, and then one by one."""
    with debugged(tmp_path, run_eagerly=True) as rig:
        assert ("forward", "last", "before") == rig.where("run_to", layer="^last$")
        hidden = rig.ask("tensor", name="input:last")
        assert [32, 8] == hidden["shape"]
        assert 0.0 == hidden["statistics"]["min"]
        with pytest.raises(ClientError, match="not available here"):
            rig.ask("tensor", name="output:last")
        assert ("backward", None, "before") == rig.where("step", by="layer")
        assert ("optimizer", None, "before") == rig.where("step", by="optimizer")
        assert not np.any(rig.ask("tensor", name="update:last.bias")["cells"]["values"])
        assert ("end", None, "before") == rig.where("step", by="batch")
        assert np.any(rig.ask("tensor", name="update:last.bias")["cells"]["values"])
        rig.ask("detach")
        step = rig.step
        wait_for(lambda: rig.step > step + 3)
