"""Loads what `keras_copied.py` has left, where NetDebug cannot be imported: python keras_loaded.py FOLDER."""

from __future__ import annotations

import importlib.abc
import pickle
import sys
from pathlib import Path
from typing import Any


class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "tb_netdebug":
            raise ImportError("it is not installed here")


sys.meta_path.insert(0, NotInstalled())

import keras  # noqa: E402
import numpy as np  # noqa: E402

GIVEN = np.ones((2, 16), "float32")


def answers(folder: Path) -> set[bytes]:
    """Return what its models answer; all of them are the same model."""
    models = [keras.models.load_model(folder / name) for name in ("model.keras", "model.h5")]
    models += [pickle.loads((folder / name).read_bytes()) for name in ("pickled", "copied")]
    weighed = keras.models.clone_model(models[0])
    weighed.load_weights(folder / "model.weights.h5")
    return {each.predict(GIVEN, verbose=0).tobytes() for each in [*models, weighed, *of_torch(folder)]}


def of_torch(folder: Path) -> list[Any]:
    if not (folder / "module.pt").exists():
        return []
    import torch

    assert torch.load(folder / "state.pt", weights_only=True)
    return [torch.load(folder / "module.pt", weights_only=False)]


def exported(folder: Path) -> bytes:
    """Return what the exported function answers, which need not be the same to the last bit."""
    if (folder / "exported.pt2").exists():
        import torch

        program = torch.export.load(folder / "exported.pt2").module()
        return bytes(program(torch.from_numpy(GIVEN[:1])).detach().numpy().tobytes())
    import tensorflow as tf

    loaded = tf.saved_model.load(folder / "exported")
    return bytes(loaded.serve(GIVEN).numpy().tobytes())


def main(root: Path) -> None:
    found: dict[str, set[bytes]] = {}
    for each in sorted(root.iterdir()):
        moment = each.name.rpartition("-")[2]
        found.setdefault(moment, set()).update(answers(each))
        found.setdefault(f"{moment} exported", set()).add(exported(each))
    assert [1, 1, 1, 1] == [len(each) for each in found.values()], found
    assert not [name for name in sys.modules if name.startswith("tb_netdebug")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
