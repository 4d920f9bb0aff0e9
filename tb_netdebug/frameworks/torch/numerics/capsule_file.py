"""Reads a capsule from a file that anybody may have written: it runs nothing and bounds everything."""

from __future__ import annotations

import json
import math
import stat
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tb_netdebug.frameworks.torch.numerics.capsule import VERSION
from tb_netdebug.frameworks.torch.numerics.search import first_line

PARTS = {"calls": list, "models": dict, "optimizers": list, "evaluating": dict, "left_out": list, "step": int}
TEXTS = ("first_nonfinite", "findings", "error")
CALL = {"model": str, "args": list, "kwargs": dict, "random": torch.Tensor, "autocast": dict}
# Bounds for files from anywhere. No capsule that `CapsuleWriter` makes comes near them.
MOST_BYTES = 16 << 30
MOST_ENTRIES = 200_000
MOST_PICKLE_BYTES = 64 << 20
MOST_TEXT = 16 << 20
MOST_DEPTH = 64
MOST_VALUES = 2_000_000
MOST_OPTIMIZERS = 1000
MOST_STEP = 1 << 62
# The bound on all tensors where they are larger than the file: an expanded tensor takes no room in it.
ROOM_BYTES = 1 << 30


# Values with nothing inside them.
ATOMS = (bool, int, float, str, bytes)


class CapsuleError(Exception):
    """A capsule that cannot be read or does not fit the model; the message says what to do."""


def load_capsule(path: str | Path) -> dict[str, Any]:
    """Return the content of a capsule without running any of it. Raises CapsuleError."""
    size = check_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged file makes torch warn as well
            content = torch.load(Path(path), map_location="cpu", weights_only=True)
        checked_content(content, path, size)
    except CapsuleError:
        raise
    except Exception as error:  # anything that a damaged or hostile file makes torch raise
        raise CapsuleError(
            f"{path} cannot be read as a capsule: it is damaged, or holds more than tensors and plain "
            f"values, which is never loaded ({why(error)})"
        ) from None
    return {**content, **{name: text_of(content, name) for name in TEXTS}}


def why(error: Exception) -> str:
    """Return the error in a few words.

    torch's own message advises to load the file in a way that runs its content, so it is never quoted.
    """
    return type(error).__name__ if "weights_only" in str(error) else first_line(error)


# ---- the file --------------------------------------------------------------------------------------------


def check_file(path: str | Path) -> int:
    """Return the size of a file that may be a capsule, reading only its zip directory."""
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise CapsuleError(f"{path} cannot be read as a capsule: it is not a regular file")
        if status.st_size > MOST_BYTES:
            raise CapsuleError(f"{path} cannot be read as a capsule: {status.st_size >> 30} GiB are too many")
        with zipfile.ZipFile(path) as archive:
            check_entries(archive.infolist(), path, status.st_size)
    except FileNotFoundError:
        raise CapsuleError(f"there is no file {path}; look in capsules/ of a run") from None
    except CapsuleError:
        raise
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise CapsuleError(
            f"{path} cannot be read as a capsule: it is damaged, or not a capsule ({first_line(error)})"
        ) from None
    return status.st_size


def check_entries(entries: list[zipfile.ZipInfo], path: str | Path, size: int) -> None:
    """Raise CapsuleError for a zip directory that torch.save would not write, such as a compressed one."""
    wrong = ""
    if len(entries) > MOST_ENTRIES:
        wrong = f"it has {len(entries)} parts"
    elif any(each.compress_type != zipfile.ZIP_STORED for each in entries):
        # torch.save never compresses, so a compressed file is meant to grow when it is read.
        wrong = "it is compressed, but capsules never are"
    elif sum(each.file_size for each in entries) > size:
        wrong = "its parts would be bigger than the file"
    elif any(each.file_size > MOST_PICKLE_BYTES for each in entries if each.filename.endswith(".pkl")):
        wrong = f"it describes more than {MOST_PICKLE_BYTES >> 20} MiB of values"
    if wrong:
        raise CapsuleError(f"{path} cannot be read as a capsule: {wrong}")


# ---- what is in it ---------------------------------------------------------------------------------------


def checked_content(content: Any, path: str | Path, size: int) -> None:
    """Raise CapsuleError for content that is no capsule, or not a usable one."""
    version = content.get("netdebug_capsule") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise CapsuleError(f"{path} is not a NetDebug capsule")
    if version > VERSION:
        raise CapsuleError(f"{path} was written by a newer NetDebug; upgrade tb_netdebug to read it")
    for name, kind in PARTS.items():
        # To isinstance, a bool is an int as well.
        if not isinstance(content.get(name), kind) or isinstance(content[name], bool):
            raise CapsuleError(f"{path} is damaged: its {name!r} is missing or has the wrong type")
    wrong = next(faults(content, size), None)
    if wrong is not None:
        raise CapsuleError(f"{path} is damaged: {wrong}")


def faults(content: dict[str, Any], size: int) -> Iterator[str]:
    """Yield what is wrong with the values of a capsule."""
    if not -MOST_STEP <= content["step"] <= MOST_STEP:
        yield "its step is not a step number"
    if len(content["optimizers"]) > MOST_OPTIMIZERS:
        yield f"it names {len(content['optimizers'])} optimizers"
    if wrong := measured(content, max(ROOM_BYTES, 64 * size)):
        yield wrong
    for name, kinds in {"models": dict, "evaluating": list}.items():
        if not all(isinstance(key, str) and isinstance(each, kinds) for key, each in content[name].items()):
            yield f"its {name!r} has the wrong type"
    if not all(isinstance(place, str) for each in content["evaluating"].values() for place in each):
        yield "its 'evaluating' has the wrong type"
    for state in content["models"].values():
        if not all(isinstance(name, str) for name in state):
            yield "its 'models' has the wrong type"
    if not all(isinstance(each, dict) for each in content["optimizers"]):
        yield "its 'optimizers' has the wrong type"
    if not all(isinstance(each, str) for each in content["left_out"]):
        yield "its 'left_out' has the wrong type"
    if not all(is_call(each) for each in content["calls"]):
        yield "a call of the model is incomplete"


def is_call(call: Any) -> bool:
    if not isinstance(call, dict) or any(not isinstance(call.get(key), kind) for key, kind in CALL.items()):
        return False
    names = (*call["kwargs"], *call["autocast"], *call["autocast"].values())
    random = call["random"]
    return (
        all(isinstance(each, str) for each in names)
        and random.dtype is torch.uint8
        and random.device.type == "cpu"
        and random.layout is torch.strided
        and random.shape == torch.get_rng_state().shape
    )


def measured(content: dict[str, Any], most_bytes: int) -> str:
    """Return what is wrong with the sizes; empty when nothing is.

    A shared value counts as often as it is referred to.
    """
    waiting: list[tuple[Any, int]] = [(content, 0)]
    values_left, bytes_left = MOST_VALUES, most_bytes
    while waiting:
        value, depth = waiting.pop()
        values_left -= 1
        if depth > MOST_DEPTH:
            return "its values are nested too deeply, or contain themselves"
        if isinstance(value, torch.Tensor):
            bytes_left -= bytes_when_used(value)
        inside: Any = ()
        if isinstance(value, dict):
            inside = (*value, *value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inside = value
        # Count before queueing, so that the queue stays bounded, too.
        if len(inside) > values_left or values_left < 0:
            return "it holds more values than a capsule may have"
        if bytes_left < 0:
            return "its tensors would be bigger than the file says"
        waiting += [(each, depth + 1) for each in inside if not isinstance(each, ATOMS)]
        values_left -= len(inside)
    return ""


def bytes_when_used(tensor: torch.Tensor) -> int:
    """Return the bytes of the tensor's values, however little room they take in the file."""
    parts = [tensor]
    if tensor.layout is torch.sparse_coo:
        parts = [tensor._values(), tensor._indices()]
    elif tensor.layout is not torch.strided:
        parts = [tensor.values()]
    return sum(math.prod(part.shape) * part.element_size() for part in parts)


def stored_bytes(value: Any) -> int:
    """Return the bytes of all tensors inside a value that has been checked."""
    if isinstance(value, torch.Tensor):
        return bytes_when_used(value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return sum(map(stored_bytes, inside))


def text_of(content: dict[str, Any], name: str) -> Any:
    """Return the content of a JSON text; None when it is missing, broken or too long."""
    text = content.get(name)
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
