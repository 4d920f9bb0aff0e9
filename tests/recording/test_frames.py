"""Whose line is told: the user's, whatever of ours or of a framework lies between."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug
from tb_netdebug.frameworks.torch.frames import user_frame
from tb_netdebug.frameworks.torch.numerics.operations import site
from tb_netdebug.frameworks.torch.taps import listen
from tb_netdebug.integrations.torch_scripts.names import user_place
from tb_netdebug.recording import frames
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tests.support.loops import mlp
from tests.support.probed import probed, sgd

HERE = Path(__file__).name
PACKAGE = str(Path(tb_netdebug.__file__).parent)


OURS = f"{PACKAGE}/cli/run.py"


def through(file: str, action: Callable[[], Any], *, depth: int = 1) -> Any:
    """What `action` gives when it is called through so many frames of this file."""
    source = "def call(depth):\n    return call(depth - 1) if depth > 1 else action()\n"
    scope: dict[str, Any] = {"action": action}
    exec(compile(source, file, "exec"), scope)
    return scope["call"](depth)


def test_our_code_is_the_whole_package() -> None:
    """Not only a part of it, and nothing beside it that is named alike."""
    assert f"{PACKAGE}/" == frames.OURS
    assert frames.is_ours(compile("", f"{PACKAGE}/cli/run.py", "exec"))
    assert not frames.is_ours(compile("", f"{PACKAGE}_demo/train.py", "exec"))


def test_the_code_of_a_function_that_is_listened_to_is_ours() -> None:
    """Although it says that it comes from where the function does."""
    assert not frames.is_ours(functional.cross_entropy.__code__)
    handle = listen(functional.cross_entropy)
    try:
        assert frames.is_ours(functional.cross_entropy.__code__)
    finally:
        handle.close()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/someone/train.py", False),
        ("<stdin>", False),
        ("<string>", False),
        ("<ipython-input-3-4f2a>", False),
        ("<eval_with_key>.7", True),
        ("<frozen runpy>", True),
        (f"{PACKAGE}/training/monitor.py", True),
        ("/lib/framework/nn/functional.py", True),
    ],
)
def test_what_is_foreign(file: str, expected: bool) -> None:
    """Ours, the folders that are given, and what a program has made up; what a person has typed is not."""
    assert expected == frames.is_foreign(compile("", file, "exec"), ("/lib/framework/",))


@pytest.mark.parametrize(("file", "expected"), [("/home/someone/train.py", "call"), (OURS, "through")])
def test_the_nearest_frame_of_the_user_is_found(file: str, expected: str) -> None:
    """The one asked about, or the first beyond those of ours."""
    found = frames.user_frame(through(file, sys._getframe))
    assert found is not None
    assert expected == found.f_code.co_name


def test_the_outermost_frame_has_nobody_beyond_it() -> None:
    """As on a thread of ours."""
    assert None is frames.user_frame(None)


@pytest.mark.parametrize(("depth", "is_found"), [(frames.MOST_FRAMES - 1, True), (frames.MOST_FRAMES, False)])
def test_the_search_ends(depth: int, is_found: bool) -> None:
    """So far away nobody's line would tell anything."""
    assert is_found == (frames.user_frame(through(OURS, sys._getframe, depth=depth)) is not None)


def test_frames_of_torch_are_passed() -> None:
    """Modules and containers of torch lie between the hook and the line that has called them."""
    seen: list[FrameType | None] = []
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda *_: seen.append(user_frame(sys._getframe(1))))
    nn.Sequential(nn.Sequential(layer))(torch.ones(1))
    assert [sys._getframe()] == seen


def test_all_who_tell_lines_pass_our_own() -> None:
    """Where an optimizer was made, and where an operation ran."""
    line = inspect.getsourcelines(through)[1] + 5
    assert (__file__, line) == through(OURS, user_place)
    assert f"{HERE}:{line}" == through(OURS, site)


def test_a_loss_that_a_file_of_ours_calls_is_told_with_the_users_line(logdir: Path) -> None:
    """The way goes through `training/zero_code/`, which is ours as all of the package is."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = sgd(model)
    ours = ZeroCode(Settings())

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        output, target = model(torch.randn(8, 6)), torch.zeros(8, dtype=torch.long)
        ours.attempt("training", partial(functional.cross_entropy, output, target))
        loss = output.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    ((_, told),) = probed(logdir, model, optimizer, body).facts["loss-call"]
    line = inspect.getsourcelines(body)[1] + 3
    assert f"{HERE}:{line}" == told["site"]
