"""Adds to a traceback what the tensors in it held: shape, range, NaN and infinities."""

from __future__ import annotations

import faulthandler
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from types import FrameType, TracebackType
from typing import Any

from tb_netdebug.core.records.visible import visible
from tb_netdebug.core.user_code import foreign_folders
from tb_netdebug.debugger.tensors import tensor_text
from tb_netdebug.debugger.tensors.tensor_text import head_of, is_tensor

# The innermost frames matter, and one line each is enough for a person.
MOST_FRAMES = 8
MOST_TENSORS = 16
MOST_CONTAINED = 4
# No more values than these are read while a program ends.
MOST_VALUES = 1 << 26

_installed: ExceptHook | None = None


def install_excepthook() -> Callable[[], None]:
    """List the tensors in the frames of an uncaught error, below its traceback.

    Only frames of your own files count, and only tensors in host memory are read: others are described by
    their shape, since a broken device may not answer. Also switches on `faulthandler`, so that a crash in
    native code leaves a traceback (from Python 3.14 on with the native stack). Returns a function that undoes
    everything.
    """
    global _installed
    if _installed is None:
        _installed = ExceptHook()
    return _installed.uninstall


class ExceptHook:
    """The installed hooks. They first call the hooks that were there before, as Python would."""

    def __init__(self) -> None:
        self._before = sys.excepthook
        self._before_in_thread = threading.excepthook
        self._own, self._own_in_thread = self._hook, self._hook_in_thread
        self._has_enabled_faulthandler = enable_faulthandler()
        sys.excepthook = self._own
        threading.excepthook = self._own_in_thread

    def uninstall(self) -> None:
        """Restore the earlier hooks. May be repeated; a hook that was put over this one stays."""
        global _installed
        if _installed is not self:
            return
        _installed = None
        if sys.excepthook is self._own:
            sys.excepthook = self._before
        if threading.excepthook is self._own_in_thread:
            threading.excepthook = self._before_in_thread
        if self._has_enabled_faulthandler:
            faulthandler.disable()

    def _hook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._before(kind, error, trace)
        self._tell(error, trace)

    def _hook_in_thread(self, told: Any) -> None:
        self._before_in_thread(told)
        self._tell(told.exc_value, told.exc_traceback)

    def _tell(self, error: BaseException | None, trace: TracebackType | None) -> None:
        if _installed is not self or not isinstance(error, Exception) or sys.stderr is None:
            return
        try:
            lines = list(lines_of(trace))
            if lines:
                told = ["", "Tensors in these frames (NetDebug):", *map(visible, lines), ""]
                sys.stderr.write("\n".join(told))
                sys.stderr.flush()
        except Exception as failure:  # an error about an error would hide it
            why = visible(f"{type(failure).__name__}: {failure}")
            sys.stderr.write(f"NetDebug could not summarize the tensors: {why}\n")


def enable_faulthandler() -> bool:
    """Enable `faulthandler`; return whether it was off before."""
    if faulthandler.is_enabled():
        return False
    options: dict[str, Any] = {"c_stack": True} if hasattr(faulthandler, "dump_c_stack") else {}
    for stream in (sys.stderr, sys.__stderr__):
        if stream is None:
            continue  # a program without a console
        try:
            faulthandler.enable(stream, **options)
        except (AttributeError, ValueError, OSError, RuntimeError, io.UnsupportedOperation):
            continue  # not a real file, as in a notebook
        return True
    return False


# ---- frames -----------------------------------------------------------------------------------------------


def lines_of(trace: TracebackType | None) -> Iterator[str]:
    """Yield the place of each user frame that holds tensors, and below it one line per tensor."""
    reader = TensorLines()
    for frame, line in user_frames(trace):
        path, function = os.path.basename(frame.f_code.co_filename), frame.f_code.co_name  # noqa: PTH119
        told = list(islice(reader.of(frame.f_locals, function), MOST_TENSORS + 1))
        if not told:
            continue
        yield f"  {path}:{line} in {function}"
        yield from told[:MOST_TENSORS]
        if len(told) > MOST_TENSORS:
            yield f"    … and more; only {MOST_TENSORS} are listed"


def user_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the innermost user frames, outermost first; those of Python and of packages are left out."""
    found = []
    foreign = foreign_folders()
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(foreign) and not path.startswith("<frozen"):
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found[-MOST_FRAMES:]


# ---- tensors ----------------------------------------------------------------------------------------------


class TensorLines:
    """Text for the tensors and arrays among variables; each one is described once."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, str]] = {}
        self._values = 0

    def of(self, variables: dict[str, Any], function: str) -> Iterator[str]:
        for name, value in list(variables.items()):
            for place, tensor in islice(tensors_of(value), MOST_CONTAINED):
                full = f"{name}{place}"
                known = self._seen.setdefault(id(tensor), (full, function))
                if known[0] is full:  # setdefault kept this very text, so the tensor is new
                    told = self._summary(tensor)
                else:
                    told = f"the same as {known[0]}" + ("" if known[1] == function else f" in {known[1]}")
                yield f"    {full:<12} {told}"

    def _summary(self, tensor: Any) -> str:
        text = head_of(tensor)
        count = 1
        for length in tensor.shape:
            count *= length
        self._values += count
        if str(getattr(tensor, "device", "cpu")) != "cpu" or self._values > MOST_VALUES or not count:
            return text
        return f"{text}  {numbers_of(tensor)}".rstrip()


def tensors_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a tensor or array itself, or the first ones in a list, tuple or dictionary."""
    if is_tensor(value):
        yield "", value
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", each) for place, each in enumerate(value[:64]) if is_tensor(each))
    elif isinstance(value, dict):
        parts = islice(value.items(), 64)
        yield from ((f"[{str(key)[:40]!r}]", each) for key, each in parts if is_tensor(each))


def numbers_of(tensor: Any) -> str:
    """Return range, mean and non-finite counts; empty for what cannot be read."""
    from tb_netdebug.core.stats.packed import Summary

    packed = packed_of(tensor)
    if packed is None:
        return ""
    return tensor_text.numbers_of(Summary.unpack(packed))


def packed_of(tensor: Any) -> bytes | None:
    torch = sys.modules.get("torch")
    if torch is None:  # a NumPy array, in a program without torch
        return packed_array(tensor)
    from tb_netdebug.frameworks.torch.exceptions import packed_tensor

    return packed_tensor(tensor)


def packed_array(array: Any) -> bytes | None:
    import numpy as np

    from tb_netdebug.core.stats import kernel
    from tb_netdebug.core.stats.dtypes import DType

    if array.dtype.kind not in "fiub":
        return None
    array = np.ascontiguousarray(array, np.float64)
    return kernel.summarize([(array.ctypes.data, array.size, DType.FLOAT64)], 1)[0]
