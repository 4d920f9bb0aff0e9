"""A training elsewhere, through the collector in TensorBoard: seen while it goes on, and how it ended."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tb_netdebug.cli import main
from tb_netdebug.transport.credentials import fingerprint_of
from tests.support.browser import Chromium
from tests.support.faults import FaultyDisk
from tests.support.streamed import Home, StreamedTrainer, contents, wait_for
from tests.support.tensorboard_process import EventStream, TensorBoard

NAME = "far/one"


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as made:
        yield made


@pytest.fixture
def board(home: Home, logdir: Path) -> Iterator[TensorBoard]:
    """Listens on loopback, for trainers of its user."""
    with TensorBoard("--logdir", str(logdir), "--netdebug_listen", ":0", env=home.env) as started:
        yield started


def address(board: TensorBoard) -> str:
    return board.wait_for_log(r"takes the records of trainings at (\S+)")[1]


def row(stream: EventStream, **wanted: object) -> dict[str, Any]:
    """The state of the run, once it is as wanted."""
    while True:
        told: dict[str, Any] = stream.until("run").data
        if told["run"] == NAME and all(told[name] == value for name, value in wanted.items()):
            return told


def test_a_training_elsewhere_is_seen_until_its_end(
    home: Home, board: TensorBoard, logdir: Path, tmp_path: Path
) -> None:
    """Every step as it is recorded; then that it was killed; and its files are those of the trainer."""
    with StreamedTrainer(home, address(board), tmp_path / "mine", run=NAME.split("/")) as trainer:
        with board.stream() as stream:
            trainer.put(5)
            trainer.wait_until_joined()
            assert "live" == row(stream, last_step=4)["state"]
            trainer.put(3)
            assert row(stream, last_step=7)["ending"] is None
            assert {"address": address(board), "trouble": None, "trainers": 1} == board.json("runs")[
                "collector"
            ]
            trainer.process.send_signal(signal.SIGKILL)
            ended = row(stream, state="ended")["ending"]
        assert (False, signal.SIGKILL, 0) == (ended["well"], ended["signal"], ended["rank"])
        assert [1] == [each["processes"] for each in board.json("run", run=NAME)["processes"]]
        wait_for(lambda: contents(tmp_path / "mine") == contents(logdir / "far/one"))
        wait_for(lambda: 0 == board.json("runs")["collector"]["trainers"])


def test_a_full_disk_is_told_on_the_page(home: Home, logdir: Path, tmp_path: Path) -> None:
    """With the time, because it may be over when somebody reads it; then everything arrives."""
    disk = FaultyDisk(tmp_path, marker="far/one")
    flags = ("--logdir", str(logdir), "--netdebug_listen", ":0")
    with (
        TensorBoard(*flags, env={**home.env, **disk.env}) as board,
        StreamedTrainer(home, address(board), tmp_path / "mine", run=NAME.split("/")) as trainer,
    ):
        disk.fail(errno.ENOSPC)
        trainer.put(5)
        wait_for(lambda: board.json("runs")["complaints"])
        (complaint,) = board.json("runs")["complaints"]
        assert re.fullmatch(r"\d\d:\d\d: far/one/.* cannot be written: No space left on device\.", complaint)
        disk.order("ok")
        trainer.close()
        wait_for(lambda: contents(tmp_path / "mine") == contents(logdir / "far/one"))


def test_from_another_machine(home: Home, logdir: Path, tmp_path: Path) -> None:
    """By TLS, as docs/remote.md has it: a certificate known by its fingerprint, and a token from a file."""
    keys = tmp_path / "keys"
    assert 0 == main(["token", "--tls", "--output", str(keys)])
    secret = {"NETDEBUG_TOKEN": "", "NETDEBUG_TOKEN_FILE": str(keys / "token")}
    pins = [fingerprint_of((keys / "cert.pem").read_bytes()), "ab" * 32]
    flags = ["--logdir", str(logdir), "--netdebug_listen", "0.0.0.0:0"]
    for flag, name in (("token_file", "token"), ("tls_cert", "cert.pem"), ("tls_key", "key.pem")):
        flags += [f"--netdebug_{flag}", str(keys / name)]
    with TensorBoard(*flags) as board:
        there = f"127.0.0.1:{address(board).rpartition(':')[2]}"
        right, wrong = (
            StreamedTrainer(
                home, there, tmp_path / name, run=[name], env={**secret, "NETDEBUG_TLS_FINGERPRINT": pin}
            )
            for name, pin in zip(("right", "wrong"), pins, strict=True)
        )
        with right, wrong:
            for trainer in (right, wrong):
                trainer.put(5)
            wait_for(wrong.notices)
            assert "somebody else answers in its place" in wrong.notices()[0]
            assert [] == right.close()
    assert contents(tmp_path / "right") == contents(logdir / "right")
    assert not (logdir / "wrong").exists()


def test_the_page_draws_what_comes_from_elsewhere(
    chromium: Chromium, home: Home, board: TensorBoard, tmp_path: Path
) -> None:
    """And says in words how it ended, without being loaded again."""
    with StreamedTrainer(home, address(board), tmp_path / "mine", run=NAME.split("/")) as trainer:
        trainer.put(5)
        trainer.wait_until_joined()
        with chromium.look(board, alone=True) as page:
            page.wait_drawn(NAME, last=4)
            trainer.put(5)
            page.wait_drawn(NAME, last=9)
            trainer.process.send_signal(signal.SIGKILL)
            state = page.tab.get_by_role("region", name="Run state")
            expect(state).to_contain_text("Ended: killed by signal 9")
