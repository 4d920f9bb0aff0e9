"""Copies, pickles and files of a watched model of Keras hold nothing of ours; a closed monitor lets it go."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tb_netdebug as nd
from tests.support.keras_runs import X, Y, dense

L = keras.layers
ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
OPTIONS: dict[str, Any] = {"run": "run", "on_finding": "ignore", "strict": True, "every": 2}
CHECKS = ("sampled", "layers", "ops")
# Of each backend one of them, as each takes as long as a backend; `make matrix` has all.
SOME = {"tensorflow": ["ops"], "torch": ["sampled"], "jax": ["layers"]}


def run_on(backend: str, script: str, *words: str) -> None:
    """Run a script in a process of its own, as backends are chosen once for a process."""
    environment = {
        **os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests/support" / script), *words],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_copies_hold_nothing_of_ours(backend: str, tmp_path: Path) -> None:
    """While it is watched and after; they can be read where NetDebug cannot be imported."""
    checks = CHECKS if os.environ.get("NETDEBUG_TEST_WHOLE") else SOME[backend]
    run_on(backend, "keras_copied.py", str(tmp_path), *checks)
    during, after = json.loads((tmp_path / "without.json").read_text())
    for check in checks:
        for expected, found in zip(
            (during, after), json.loads((tmp_path / f"{check}.json").read_text()), strict=True
        ):
            assert expected.keys() == found.keys()
            assert [] == [part for part, value in expected.items() if value != found[part]], check
    files = [each for each in (tmp_path / "files").rglob("*") if each.is_file()]
    assert len(files) >= 8 * 2 * (1 + len(checks))
    assert [] == [each for each in files if b"netdebug" in each.read_bytes().lower()]
    run_on(backend, "keras_loaded.py", str(tmp_path / "files"))


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("way", ["callback", "watch"])
def test_a_closed_monitor_lets_its_model_go(way: str, eager: bool, tmp_path: Path) -> None:
    """The monitor or the callback lives on, its model does not."""
    model = dense(L.Dense(8, activation="relu"), L.Dense(3), run_eagerly=eager)
    model.train_on_batch(X[:8], Y[:8])
    if way == "callback":
        kept: Any = nd.KerasCallback(tmp_path, **OPTIONS)
        model.fit(X[:64], Y[:64], verbose=0, callbacks=[kept])
        kept.set_model(None)  # Keras's own attribute
        kept.params = None
    else:
        kept = nd.watch(model, logdir=tmp_path, **OPTIONS)
        for _ in range(4):
            model.train_on_batch(X[:32], Y[:32])
            kept.step()
        kept.close()
    gone = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert gone() is None
    assert np.isfinite(len(kept.findings))
