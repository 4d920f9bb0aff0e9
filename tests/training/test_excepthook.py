"""`nd.install_excepthook`: tracebacks that say what the tensors in them held."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tb_netdebug as nd
from tb_netdebug.training import excepthook
from tests.support.loops import ROOT


def told_by(error: BaseException) -> str:
    """What the installed hook writes."""
    stream = io.StringIO()
    uninstall = nd.install_excepthook()
    with contextlib.redirect_stderr(stream):
        sys.excepthook(type(error), error, error.__traceback__)
    uninstall()
    return stream.getvalue()


def failing(**variables: Any) -> BaseException:
    """An error from a frame with these variables."""
    code = "def fail(" + ", ".join(variables) + "):\n    raise ValueError('mine')"
    scope: dict[str, Any] = {}
    exec(compile(code, "train.py", "exec"), scope)
    with pytest.raises(ValueError, match="mine") as raised:
        scope["fail"](**variables)
    return raised.value.with_traceback(raised.tb.tb_next)


def test_tensors_are_summarised() -> None:
    """Shape, range and what is not finite, below the traceback as it always is."""
    x = torch.tensor([[1.0, -2.0, float("nan")], [float("inf"), float("-inf"), 4.0]])
    shown = told_by(failing(x=x, count=torch.tensor(3), half=torch.ones(2).bfloat16(), name="x"))
    assert shown.index("ValueError: mine") < shown.index("Tensors in these frames (NetDebug):")
    assert "  train.py:2 in fail\n" in shown
    assert "x            float32 2×3  min -2, mean 1, max 4, 1 NaN, 1 Inf, 1 -Inf\n" in shown
    assert "count        int64 one value  min 3, mean 3, max 3\n" in shown
    assert "half         bfloat16 2  min 1, mean 1, max 1\n" in shown
    assert "name" not in shown.partition("NetDebug")[2]


def test_arrays_lists_and_dictionaries() -> None:
    """The first ones inside; a tensor with two names is read once."""
    x = torch.ones(3)
    parts = [torch.zeros(1), "text", torch.zeros(2)]
    shown = told_by(failing(x=x, again=x, parts=parts, batch={"a": np.arange(3)}))
    assert "again        the same as x" in shown
    assert "parts[0]     float32 1 " in shown
    assert "parts[2]     float32 2 " in shown
    assert "batch['a']   int64 3  min 0, mean 1, max 2" in shown


def test_what_cannot_be_read() -> None:
    """Of tensors elsewhere, and of types that nobody reads, the shape is told."""
    shown = told_by(failing(far=torch.empty(2, 3, device="meta"), none=torch.empty(0), text=np.array(["a"])))
    assert "far          float32 2×3 on meta\n" in shown
    assert "none         float32 0\n" in shown
    assert "text         <U1 1\n" in shown


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many tensors of a frame, so many frames, and so many values in all."""
    monkeypatch.setattr(excepthook, "MOST_VALUES", 100)
    many = {f"t{number:02}": torch.zeros(10) for number in range(20)}
    shown = told_by(failing(**many))
    assert "and more; only 16 are listed" in shown
    assert 10 == shown.count("min 0")
    assert 16 == shown.count("float32 10")


def test_a_deep_recursion() -> None:
    """The innermost frames are told."""
    code = "def down(x):\n    return down(x + 1)"
    scope: dict[str, Any] = {}
    exec(compile(code, "deep.py", "exec"), scope)
    with pytest.raises(RecursionError) as raised:
        scope["down"](torch.zeros(1))
    shown = told_by(raised.value)
    assert excepthook.MOST_FRAMES == shown.count("deep.py:2 in down\n")


def test_frames_of_packages_are_left_out() -> None:
    """torch's own variables help nobody."""
    with pytest.raises(RuntimeError) as raised:
        torch.nn.Linear(4, 4)(torch.ones(2, 3))
    shown = told_by(raised.value)
    assert "in forward" not in shown.partition("NetDebug")[2]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_who_stops_a_program_is_told_nothing(kind: type[BaseException]) -> None:
    """Only the traceback that there would be anyway."""
    error = failing(x=torch.ones(1))
    stopped = kind("stop").with_traceback(error.__traceback__)
    shown = told_by(stopped)
    assert "stop" in shown
    assert "NetDebug" not in shown


def test_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread's traceback is followed by its tensors."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    error = failing(x=torch.ones(3))

    def fail() -> None:
        raise error

    stream = io.StringIO()
    uninstall = nd.install_excepthook()
    with contextlib.redirect_stderr(stream):
        thread = threading.Thread(target=fail, name="mine")
        thread.start()
        thread.join()
    uninstall()
    assert threading.__excepthook__ is threading.excepthook
    assert "Exception in thread mine" in stream.getvalue()
    assert "x            float32 3 " in stream.getvalue()


def test_hooks_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook that was there is called, and one put over ours is not taken away."""
    called: list[str] = []
    monkeypatch.setattr(sys, "excepthook", lambda *_: called.append("before"))
    uninstall = nd.install_excepthook()
    assert uninstall == nd.install_excepthook()
    ours = sys.excepthook

    def theirs(*given: Any) -> None:
        called.append("after")
        ours(*given)

    sys.excepthook = theirs
    uninstall()
    assert theirs is sys.excepthook
    error = failing(x=torch.ones(1))
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        sys.excepthook(type(error), error, error.__traceback__)
    assert ["after", "before"] == called
    assert "" == stream.getvalue()


def test_everything_is_taken_back() -> None:
    """Hooks and faulthandler are what they were."""
    before = sys.excepthook, threading.excepthook, faulthandler.is_enabled()
    uninstall = nd.install_excepthook()
    assert sys.excepthook is not before[0]
    uninstall()
    uninstall()
    assert before == (sys.excepthook, threading.excepthook, faulthandler.is_enabled())


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    path = "" if sys.flags.isolated else str(ROOT)
    script = tmp_path / "program.py"
    script.write_text(code)
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program(tmp_path: Path) -> None:
    """Its traceback and its exit status are the ones it always had; NumPy alone is enough."""
    code = "import numpy as np, tb_netdebug as nd\nnd.install_excepthook()\nx = np.array([1.0, 5.0])\n1 / 0\n"
    ran = run(code, tmp_path)
    assert (1, "") == (ran.returncode, ran.stdout)
    traceback, _, tensors = ran.stderr.partition("\n\n")
    assert traceback.endswith("ZeroDivisionError: division by zero")
    assert "Tensors in these frames (NetDebug):\n  program.py:4 in <module>\n" in tensors
    assert "x            float64 2  min 1, mean 3, max 5" in tensors


def test_a_crash_in_native_code(tmp_path: Path) -> None:
    """faulthandler says where."""
    code = "import tb_netdebug as nd, faulthandler\nnd.install_excepthook()\nfaulthandler._sigsegv()\n"
    ran = run(code, tmp_path)
    assert ran.returncode < 0
    assert "Segmentation fault" in ran.stderr
    assert 'program.py", line 3 in <module>' in ran.stderr


def test_torch_is_not_imported_for_it(tmp_path: Path) -> None:
    """Neither to install it nor to tell of an error."""
    code = (
        "import atexit, sys, tb_netdebug as nd\nnd.install_excepthook()\n"
        "atexit.register(lambda: print('torch' in sys.modules))\nraise ValueError\n"
    )
    assert "False\n" == run(code, tmp_path).stdout
