"""Copies, pickles and files of a model of Keras, made in the middle of a run and after it.

KERAS_BACKEND=torch python keras_copied.py FOLDER CHECK_NUMERICS...
"""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import re
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

L = keras.layers
BACKEND = keras.backend.backend()
WITHOUT = "without"
OPTIONS: dict[str, Any] = {"run": "run", "on_finding": "ignore", "strict": True, "every": 2}
X = np.random.default_rng(0).normal(size=(256, 16)).astype("float32")
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def model_of() -> Any:
    """With a rate of zero the copies of both moments answer alike, but for the batch normalisation."""
    keras.backend.clear_session()  # names begin anew
    keras.utils.set_random_seed(3)
    layers = (L.Dense(8, activation="tanh"), L.BatchNormalization(), L.Dropout(0.2), L.Dense(3))
    model = keras.Sequential([L.Input((16,)), *layers])
    model.compile(keras.optimizers.SGD(0.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Copier(keras.callbacks.Callback):  # type: ignore[misc]
    """Makes every kind of copy in the middle of a run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.made: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 4:
            self.made = copies(self.model, self.folder)


def copies(model: Any, folder: Path) -> dict[str, Any]:
    """Return what must be the same with and without NetDebug; leave the files in the folder."""
    folder.mkdir(parents=True)
    model.save(folder / "model.keras")
    model.save(folder / "model.h5")
    model.save_weights(folder / "model.weights.h5")
    copied, shallow, cloned = copy.deepcopy(model), copy.copy(model), keras.models.clone_model(model)
    (folder / "pickled").write_bytes(pickle.dumps(model))
    (folder / "copied").write_bytes(pickle.dumps(copied))
    for each in (copied, shallow, cloned, *copied.layers, *cloned.layers):
        assert [] == ours_in(each)
    return {
        "of the backend": OF_BACKEND[BACKEND](model, folder),
        "keras": in_zip((folder / "model.keras").read_bytes()),
        "h5": (folder / "model.h5").read_bytes().hex(),
        "weights": (folder / "model.weights.h5").read_bytes().hex(),
        "config": json.dumps([model.get_config(), model.get_compile_config()], default=str),
        "json": model.to_json(),
        "attributes": [sorted(vars(each)) for each in (copied, shallow, cloned)],
        "files": sorted(str(each.relative_to(folder)) for each in folder.rglob("*")),
    }


def of_tensorflow(model: Any, folder: Path) -> Any:
    import tensorflow as tf

    model.export(folder / "exported", verbose=False)
    tf.train.Checkpoint(model=model).write(str(folder / "checkpoint"))
    return [(name, shape) for name, shape in tf.train.list_variables(str(folder / "checkpoint"))]


def of_torch(model: Any, folder: Path) -> Any:
    """A model is a module of torch there, too."""
    import torch

    model.export(folder / "exported.pt2", format="torch", verbose=False)
    torch.save(model, folder / "module.pt")
    torch.save(model.state_dict(), folder / "state.pt")
    hooks = [
        (name, sorted(key for key, value in vars(each).items() if "hook" in key and value))
        for name, each in model.named_modules()
    ]
    given = torch.from_numpy(X[:2])
    run: Any = torch.compile(model, backend="eager", fullgraph=True)
    compiled = run(given).detach().numpy().tobytes().hex()
    exported = torch.export.export(model, (given,), strict=True).graph_module.code
    traced = str(torch.jit.trace(model, given).code)
    return [list(model.state_dict()), hooks, compiled, exported, traced]


def of_jax(model: Any, folder: Path) -> Any:
    model.export(folder / "exported", verbose=False)
    return [str(each.path) for each in model.variables]


OF_BACKEND = {"tensorflow": of_tensorflow, "torch": of_torch, "jax": of_jax}


def in_zip(data: bytes) -> dict[str, str]:
    """The parts, but for the time at which it was saved."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    told = json.loads(parts.pop("metadata.json"))
    del told["date_saved"]
    config = parts.pop("config.json").decode()
    return {**{name: part.hex() for name, part in parts.items()}, "metadata": str(told), "config": config}


def without_addresses(text: str) -> str:
    """Keras tells shared objects apart by where they lie in memory."""
    return re.sub(r'\\*"shared_object_id\\*": \d+', "", text)


def ours_in(root: Any) -> list[Any]:
    """Return the objects of ours that it leads to, also in closures, but not through classes and modules."""
    seen, waiting, found = {id(root)}, [root], []
    while waiting:
        for each in referents(waiting.pop()):
            if id(each) in seen or isinstance(each, type | types.ModuleType):
                continue
            seen.add(id(each))
            module = each.__module__ if isinstance(each, types.FunctionType) else type(each).__module__
            if str(module).startswith("tb_netdebug"):
                found.append(each)
            else:
                waiting.append(each)
    return found


def referents(each: Any) -> Iterator[Any]:
    """Of a function, what it encloses: its globals lead everywhere."""
    if isinstance(each, types.FunctionType):
        return iter((each.__closure__, each.__defaults__, each.__kwdefaults__, each.__dict__))
    return iter(gc.get_referents(each))


def made(folder: Path, check: str) -> str:
    """Return what is to be the same, as JSON; every kind of copy in the folder."""
    model, copier = model_of(), Copier(folder / "files" / f"{check}-during")
    callbacks: list[Any] = [copier]
    if check != WITHOUT:
        import tb_netdebug as nd

        callbacks.append(nd.KerasCallback(folder / "logs" / check, check_numerics=check, **OPTIONS))
    model.fit(X, Y, batch_size=32, verbose=0, callbacks=callbacks)
    if check != WITHOUT:
        callbacks[-1].close()
        assert any((folder / "logs" / check).rglob("events.*"))
    after = copies(model, folder / "files" / f"{check}-after")
    return without_addresses(json.dumps([copier.made, after], default=str))


def main(folder: Path, checks: list[str]) -> None:
    """The one without NetDebug comes first, while it is not even imported."""
    for check in (WITHOUT, *checks):
        (folder / f"{check}.json").write_text(made(folder, check))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
