"""How many bytes one fully sampled step takes in the file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bench.models import KINDS, Kind, Training
from bench.peers import NetDebugEverything, TensorBoardHistograms
from bench.progress import Session
from bench.recorded import check_every, columns_of, tags
from bench.results import Column, Part, Promise, Row, Table

TITLE = "Bytes a step"
METHOD = (
    "One training, watched by both: NetDebug with `every=1` and otherwise as it comes (with the scalars "
    "and histograms that it repeats for TensorBoard's own pages), `SummaryWriter.add_histogram` of the "
    "same weights, gradients, updates and activations in every tenth step. The sizes are those of the "
    "files, with everything in them, divided by the number of sampled steps. Both files are read back: "
    "they have to hold the same tensors, NetDebug's in every step (and inputs and labels besides)."
)
TIMES_FEWER = 30.0
PEER_EVERY = 10
# What goes into the model and the loss; NetDebug's file has that besides.
OF_BATCHES = ("tensor/input/", "tensor/label/")


class DifferentTensorsError(RuntimeError):
    """The two files are not about the same tensors, so their sizes say nothing."""


def measure(session: Session) -> Part:
    began = time.monotonic()
    steps = 40 if session.is_quick else 200
    promises, rows = [], []
    for kind in KINDS:
        ours, peer, tensors = bytes_per_step(kind, session, steps)
        rows.append(Row(kind.title, [float(tensors), ours, peer, peer / ours], is_ours=True))
        text = f"{kind.title}: bytes a fully sampled step are fewer than those of `SummaryWriter` by"
        promises.append(Promise(text, peer / ours, TIMES_FEWER, "×", False))
    columns = [
        Column("tensors a step"),
        Column("NetDebug, bytes", 0, "less"),
        Column("`SummaryWriter`, bytes", 0, "more"),
        Column("× fewer", 1, "more"),
    ]
    table = Table(f"{steps} steps, of which `SummaryWriter` sees {steps // PEER_EVERY}", columns, rows)
    return Part("log_bytes", TITLE, METHOD, 1, time.monotonic() - began, promises, [table])


def bytes_per_step(kind: Kind, session: Session, steps: int) -> tuple[float, float, int]:
    """Of NetDebug and of its peer, and how many tensors both have of a step."""
    folder = session.folder / "log_bytes" / kind.name
    with watched(kind, folder) as (training, ours, peer):
        for number in range(steps):
            session.progress.show(f"{TITLE}, {kind.title}: step {number} of {steps}")
            step(training, ours, peer, is_peer_on=number % PEER_EVERY == 0)
    tensors = check_same_tensors(folder, steps, peer.tags)
    own_size, peer_size = size_of(folder / "netdebug"), size_of(folder / "tensorboard")
    return own_size / steps, peer_size / len(range(0, steps, PEER_EVERY)), tensors


@contextmanager
def watched(kind: Kind, folder: Path) -> Iterator[tuple[Training, NetDebugEverything, TensorBoardHistograms]]:
    training = Training(kind)
    ours = NetDebugEverything(training, folder / "netdebug")
    peer = TensorBoardHistograms(training, folder / "tensorboard")
    try:
        yield training, ours, peer
    finally:
        ours.close()
        peer.close()


def step(
    training: Training, ours: NetDebugEverything, peer: TensorBoardHistograms, *, is_peer_on: bool
) -> None:
    peer.is_on = is_peer_on
    named = dict(training.model.named_parameters()) if is_peer_on else {}
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    loss = training.step()
    if is_peer_on:
        peer.after(loss)
    for name, parameter in named.items():
        with torch.no_grad():
            peer.add(f"update/{name}", parameter - before[name], training.steps - 1)
    ours.after(loss)


def check_same_tensors(folder: Path, steps: int, peers: set[str]) -> int:
    """Raises DifferentTensorsError or NotRecordedError; the number of tensors."""
    columns = columns_of(folder / "netdebug" / "run", steps)
    check_every(columns, steps)
    ours = {tag for tag in tags(columns) if not tag.startswith(OF_BATCHES)}
    if ours != peers:
        raise DifferentTensorsError(f"only one of the two has {', '.join(sorted(ours ^ peers))}")
    return len(ours)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
