"""Where the user's program is, with its variables: nothing of theirs is run for it, and no secret is told."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import tb_netdebug
from tb_netdebug.debugger.trainer import variables
from tb_netdebug.debugger.trainer.stack import MOST_FILES, MOST_FRAMES, Sources, line_of, stack_of
from tb_netdebug.debugger.trainer.variables import MOST_LETTERS, MOST_VARIABLES, NOT_SHOWN, Variables
from tb_netdebug.debugger.workbench import WorkbenchError

OURS = f"{Path(tb_netdebug.__file__).parent}/training/hooks.py"
LIBRARY = np.__file__


def told(**values: Any) -> dict[str, str]:
    return {each["name"]: each["text"] for each in Variables().of(values)}


def frame_in(file: str, within: FrameType | None = None, **values: Any) -> FrameType:
    """A frame of a function in a file of this name, with these variables; it is kept from ending."""
    code = f"def train({', '.join(values)}):\n    return (yield frame())\n"
    scope: dict[str, Any] = {"frame": lambda: sys._getframe(1)}
    exec(compile(code, file, "exec"), scope)
    running = scope["train"](**values)
    frame: FrameType = next(running)
    scope["kept"] = running
    return frame


def call_through(files: list[str]) -> list[dict[str, Any]]:
    """The stack as it is below a function of each of these files, the first of which calls the second."""
    action = lambda: stack_of(sys._getframe(1))  # noqa: E731
    for file in reversed(files):
        scope: dict[str, Any] = {"inner": action}
        exec(compile("def call():\n    answer = 42\n    return inner()\n", file, "exec"), scope)
        action = scope["call"]
    return action()


# ---- frames -----------------------------------------------------------------------------------------------


def test_frames_from_the_innermost_outwards() -> None:
    """Without ours; of libraries the place alone."""
    found = call_through(["train.py", LIBRARY, OURS, "model.py"])
    inner = [(each["file"], each["line"], each["function"], each["is_user"]) for each in found[:3]]
    assert [
        ("model.py", 3, "call", True),
        (LIBRARY, 3, "call", False),
        ("train.py", 3, "call", True),
    ] == inner
    assert [{"name": "answer", "type": "int", "text": "42"}] == found[0]["locals"]
    assert [] == found[1]["locals"]
    assert OURS not in {each["file"] for each in found}


def test_deep_stacks_are_cut() -> None:
    """The innermost frames are those to look at."""
    found = call_through([f"{number}.py" for number in range(100)])
    assert (MOST_FRAMES, "99.py") == (len(found), found[0]["file"])


def test_the_line_of_the_user() -> None:
    """The nearest one, past ours and past libraries; where there is none, the library's own."""
    frame = frame_in("train.py")
    assert ("train.py", 2, "train") == line_of(frame)
    here = sys._getframe()
    assert (__file__, here.f_lineno, here.f_code.co_name) == line_of(here)
    assert (None, 0, "") == line_of(frame_in(OURS))
    assert (LIBRARY, 2, "train") == line_of(frame_in(LIBRARY))


def test_the_body_of_a_class_is_not_asked() -> None:
    """Its variables may be a mapping that runs code of the user."""

    class Loud(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError

    class Meta(type):
        @classmethod
        def __prepare__(cls, *_: Any, **__: Any) -> Any:
            return Loud()

    class Body(metaclass=Meta):
        stack = stack_of(sys._getframe())

    assert [] == Body.stack[0]["locals"]


# ---- variables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, "3"),
        (2.5, "2.5"),
        (None, "None"),
        (True, "True"),
        (1j, "1j"),
        ("adam", "'adam'"),
        ("x" * 100, f"'{'x' * 80}' and 20 more"),
        (b"abc", "3 bytes"),
        (1 << 2000, "a whole number of 2001 bits"),
        ([1, [2, (3,)]], "[1, [2, (3)]]"),
        ([[[[1]]]], "[[[[…]]]]"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, … 92 more]"),
        ({"lr": 0.1, "layers": [1]}, "{'lr': 0.1, 'layers': [1]}"),
        (set(), "{}"),
        (torch.tensor([[1.0, 3.0]]), "float32 1×2  min 1, mean 2, max 3"),
        (torch.ones(2).bfloat16(), "bfloat16 2  min 1, mean 1, max 1"),
        (torch.arange(6).reshape(2, 3).T[1:], "int64 2×2  min 1, mean 3, max 5"),
        (torch.tensor(3), "int64 one value  min 3, mean 3, max 3"),
        (torch.nn.Parameter(torch.tensor([1.0, float("nan")])), "float32 2  min 1, mean 1, max 1, 1 NaN"),
        (torch.ones(2, 3, device="meta"), "float32 2×3 on meta"),
        (torch.eye(2).to_sparse(), "float32 2×2"),
        (torch.empty(0, 3), "float32 0×3"),
        (torch.tensor([3 + 4j]), "complex64 1  min 5, mean 5, max 5"),
        (torch.tensor([1 - 2j]).conj().imag, "float32 1"),
        (np.arange(3), "int64 3  min 0, mean 1, max 2"),
        (np.array(["a"]), "<U1 1"),
        (np.arange(6.0)[::-2], "float64 3  min 1, mean 3, max 5"),
        ([torch.zeros(1)], "[float32 1  min 0, mean 0, max 0]"),
    ],
)
def test_values(value: Any, expected: str) -> None:
    """Plain ones as they are written, tensors in numbers, containers as far as a line goes."""
    assert {"value": expected} == told(value=value)


def test_within_a_transformation_of_functions() -> None:
    """There is no memory behind such a tensor; its shape is known."""
    found = []
    torch.func.vmap(lambda x: found.append(told(x=x)) or x)(torch.ones(2, 3))
    assert [{"x": "float32 3"}] == found


class Loud:
    """An object of the user's of which everything runs code of theirs."""

    def _refuse(self, *_: Any) -> Any:
        raise AssertionError("code of the user was run")

    __repr__ = __str__ = __len__ = __iter__ = __getattr__ = __eq__ = __bool__ = _refuse  # type: ignore[assignment]
    __hash__ = object.__hash__
    __class__ = property(_refuse)  # type: ignore[assignment]


class LoudMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(f"code of the user was run for {name}")

    __eq__ = __hash__ = __getattribute__  # type: ignore[assignment]


class LoudClass(metaclass=LoudMeta):
    pass


class LoudList(list[int]):
    __len__ = __iter__ = __repr__ = Loud._refuse  # type: ignore[assignment]


class LoudInteger(int):
    __repr__ = bit_length = Loud._refuse  # type: ignore[assignment]


class LoudTensor(torch.Tensor):
    shape = property(Loud._refuse)  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise AssertionError("code of the user was run")


def test_no_code_of_the_user_is_run() -> None:
    """Of objects the name of their class is told, also within containers and as keys."""
    tensor = torch.Tensor._make_subclass(LoudTensor, torch.ones(2))
    found = told(
        a=Loud(), b=LoudClass(), c=LoudList([1]), d=LoudInteger(3), e=[Loud()], f={Loud(): Loud()}, g=tensor
    )
    assert {
        "a": "<Loud>", "b": "<LoudClass>", "c": "<LoudList>", "d": "<LoudInteger>", "e": "[<Loud>]",
        "f": "{<Loud>: <Loud>}", "g": "<LoudTensor>",
    } == found  # fmt: skip


@pytest.mark.parametrize(
    "name", ["password", "db_passwd", "API_KEY", "hf_token", "secret", "key", "credentials"]
)
def test_private_variables(name: str) -> None:
    """Names that sound private are told without a value, also as keys; a tensor is no secret."""
    assert {name: NOT_SHOWN} == told(**{name: "hunter2"})
    assert {"config": f"{{{name!r}: (not shown)}}"} == told(config={name: ["hunter2"]})
    assert "float32 2" in told(**{name: torch.ones(2)})[name]


@pytest.mark.parametrize("name", ["lr", "epoch", "passes", "monkey", "batch_size", "keyboard", "author"])
def test_other_variables_are_no_secrets(name: str) -> None:
    """Usual names of a training."""
    assert {name: "3"} == told(**{name: 3})


def test_a_file_holds_more_than_data() -> None:
    """Modules, functions and classes of a frame are left out, and so is what Python puts there."""
    assert {"lr": "0.1"} == told(np=np, told=told, Path=int, __name__="x", lr=0.1, append=[].append)


def test_variables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In number, in length and in values that are read."""
    assert MOST_VARIABLES == len(told(**{f"v{number}": number for number in range(200)}))
    deep = {"a" * 50: ["b" * 70] * 8, "c" * 50: ["d" * 70] * 8}
    assert MOST_LETTERS == len(told(deep=deep)["deep"])
    monkeypatch.setattr(variables, "MOST_VALUES", 10)
    assert {"a": "float32 8  min 1, mean 1, max 1", "b": "float32 8"} == told(
        a=torch.ones(8), b=torch.ones(8)
    )


# ---- sources ----------------------------------------------------------------------------------------------


def test_sources_of_named_files(tmp_path: Path) -> None:
    """Only those that a stack has named, exactly so."""
    path = tmp_path / "train.py"
    path.write_text("a = 1\nb = 2\n")
    sources = Sources()
    sources.name([None, str(path)])
    assert {"file": str(path), "first_line": 1, "lines": ["a = 1", "b = 2"]} == sources.read(str(path))
    for other in ("/etc/passwd", f"{tmp_path}/./train.py", f"{path}\0", "train.py", ""):
        with pytest.raises(WorkbenchError, match="belongs to no frame"):
            sources.read(other)


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    """Code that has no file."""
    sources = Sources()
    sources.name(["<string>", f"{tmp_path}/gone.py"])
    for file in ("<string>", f"{tmp_path}/gone.py"):
        with pytest.raises(WorkbenchError, match="cannot be read"):
            sources.read(file)


def test_sources_are_bounded(tmp_path: Path) -> None:
    """In lines and letters, and in how many files are named."""
    path = tmp_path / "long.py"
    path.write_text(("x" * 1000 + "\n") * 10_000)
    sources = Sources()
    sources.name([str(path)])
    lines = sources.read(str(path))["lines"]
    assert 400 == len(lines[0])
    assert 500_000 <= sum(map(len, lines)) <= 500_400
    sources.name(f"{number}.py" for number in range(MOST_FILES))
    with pytest.raises(WorkbenchError, match="belongs to no frame"):
        sources.read(str(path))
