"""Kinds that write, read, rename and delete files in their forward pass."""

from __future__ import annotations

import csv
import logging
import shelve
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.matrix.subjects import Net, drift, kind


@kind
class FileAppended(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        with Path("log.txt").open("a") as file:
            file.write(f"{float(hidden.detach().sum())}\n")
        return hidden

    def outside(self) -> Any:
        return Path("log.txt").read_text()


@kind
class FileKeptOpen(Net):
    def __init__(self) -> None:
        super().__init__()
        Path("numbers.txt").write_text("".join(f"{number}\n" for number in range(99)))
        self.file = Path("numbers.txt").open()  # noqa: SIM115

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, float(self.file.readline()))

    def outside(self) -> Any:
        return self.file.tell()


@kind
class FileRenamed(Net):
    def __init__(self) -> None:
        super().__init__()
        Path("state-0").write_text("0")

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        (path,) = Path().glob("state-*")
        number = int(path.name.partition("-")[2]) + 1
        path.rename(f"state-{number}")
        return drift(hidden, number)


@kind
class FileDeleted(Net):
    """Uses up a file that the loop has made for this step."""

    def feed(self, step: int) -> None:
        Path("ticket").write_text(str(step))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        number = float(Path("ticket").read_text())
        Path("ticket").unlink()
        return drift(hidden, number)


@kind
class FolderOfSamples(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        folder = Path("samples")
        folder.mkdir(exist_ok=True)
        number = len(list(folder.iterdir()))
        np.save(folder / f"{number:03}.npy", hidden.detach().numpy())
        return drift(hidden, number)


@kind
class SavedWeights(Net):
    """Writes its own weights in the forward pass, and counts the files."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        torch.save(dict(self.named_parameters()), f"weights-{self.calls}.pt")
        return hidden

    def outside(self) -> Any:
        return self.calls


@kind
class Sqlite(Net):
    def __init__(self) -> None:
        super().__init__()
        self.table = sqlite3.connect("calls.db", isolation_level=None)
        self.table.execute("create table calls (number integer primary key, size real)")

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        size = float(hidden.detach().abs().sum())
        self.table.execute("insert into calls (size) values (?)", (size,))
        (count,) = self.table.execute("select count(*) from calls").fetchone()
        return drift(hidden, count)

    def outside(self) -> Any:
        return self.table.execute("select * from calls").fetchall()


@kind
class OpenTransaction(Net):
    """Begins a transaction in each pass, and the loop ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = sqlite3.connect("calls.db", isolation_level=None)
        self.table.execute("create table calls (number integer primary key)")

    def feed(self, step: int) -> None:
        if self.table.in_transaction:
            self.table.execute("commit")

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.table.execute("begin immediate")
        self.table.execute("insert into calls default values")
        return hidden

    def end(self) -> None:
        self.feed(0)

    def outside(self) -> Any:
        return self.table.execute("select * from calls").fetchall()


@kind
class Shelf(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        with shelve.open("shelf") as shelf:
            shelf[str(len(shelf))] = len(shelf)
            return drift(hidden, len(shelf))


@kind
class LoggedForward(Net):
    def __init__(self) -> None:
        super().__init__()
        self.log = logging.getLogger("matrix")
        self.log.setLevel(logging.INFO)
        self.log.addHandler(logging.FileHandler("forward.log"))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.log.info("forward %s", tuple(hidden.shape))
        return hidden


@kind
class CsvRows(Net):
    def __init__(self) -> None:
        super().__init__()
        self.file = Path("rows.csv").open("w", newline="")  # noqa: SIM115
        self.rows = csv.writer(self.file)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.rows.writerow([self.calls, *hidden.shape])
        return hidden

    def outside(self) -> Any:
        self.file.flush()
        return self.calls, self.file.tell()


@kind
class PrintsForward(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        print("forward", tuple(hidden.shape))  # noqa: T201
        return hidden
