"""`fresh.py DESCRIPTOR NAME SEED FOLDER`: a program of Keras in an interpreter of its own."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path


def start() -> None:
    os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from zoo.program import KERAS, all_programs
    from zoo.run import run

    descriptor, name, seed, folder = sys.argv[1:]
    (program,) = [each for each in all_programs(KERAS) if each.name == name]
    with Connection(int(descriptor), readable=False) as answer:
        answer.send(run(program, int(seed), Path(folder)))


if __name__ == "__main__":
    start()
