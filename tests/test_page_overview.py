"""The Overview in a real browser, inside of a real TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import DESK, PHONE, Chromium
from tests.support.recordings import STEPS, diverge, train
from tests.support.tensorboard_process import TensorBoard


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """Serves a healthy run and one that blew up."""
    logdir = tmp_path_factory.mktemp("logs")
    train(logdir, "healthy")
    diverge(logdir, "blown-up")
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_loss_is_drawn(chromium: Chromium, board: TensorBoard, size: tuple[int, int], dark: bool) -> None:
    """Up to the last step, in both themes, on a desk and on a phone, and nothing sticks out."""
    with chromium.look(board, size=size, dark=dark, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        assert 0 == page.overflow
        page.picture(f"overview-{size[0]}-{'dark' if dark else 'light'}")
