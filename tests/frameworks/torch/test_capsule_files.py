"""Capsules that somebody else wrote: each is read, or refused in one sentence; nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tb_netdebug.cli.capsule_text import contents
from tb_netdebug.cli.replaying import ReplayedModels, say
from tb_netdebug.frameworks.torch.numerics.capsule_file import CapsuleError, load_capsule
from tb_netdebug.frameworks.torch.numerics.capsule_weights import put_weights, weights_of
from tests.support.replayed_here import replay_here

MUTATIONS = int(os.environ.get("NETDEBUG_FUZZ", "300"))


def content(**other: Any) -> dict[str, Any]:
    """As small as a capsule can be."""
    model = nn.Linear(3, 2)
    call = {
        "model": "",
        "args": [torch.ones(1, 3)],
        "kwargs": {},
        "random": torch.get_rng_state(),
        "autocast": {},
        "changed_since": False,
        "complete": True,
    }
    return {
        "netdebug_capsule": 1,
        "step": 5,
        "reason": "it was asked for",
        "time": 1.7e9,
        "rank": 0,
        "versions": {"torch": "2"},
        "classes": {"": "Linear"},
        "evaluating": {"": []},
        "calls": [call],
        "models": {"": dict(model.state_dict())},
        "optimizers": [{"class": "SGD", "state": {}}],
        "left_out": [],
        **other,
    }


def itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def doubled(times: int) -> list[Any]:
    """A few bytes, two to the power of `times` values."""
    found: list[Any] = [1]
    for _ in range(times):
        found = [found, found]
    return found


def call_with(**other: Any) -> dict[str, Any]:
    return content(calls=[{**content()["calls"][0], **other}])


NOTHING = torch.zeros(())
# What is refused, and a word of the sentence.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a list that holds itself": (lambda: content(extra=itself()), "contain themselves"),
    "itself as an argument": (lambda: call_with(args=itself()), "contain themselves"),
    "nested deep": (lambda: content(extra=deep(300)), "nested too deeply"),
    "doubled forty times": (lambda: content(extra=doubled(40)), "more values"),
    "200 000 optimizers": (lambda: content(optimizers=[{}] * 200_000), "200000 optimizers"),
    "an expanded tensor": (lambda: call_with(args=[NOTHING.expand(1 << 40)]), "bigger than the file"),
    "many expanded ones": (lambda: content(extra=[NOTHING.expand(1 << 27)] * 9), "bigger than the file"),
    "a step without end": (lambda: content(step=10**300), "not a step number"),
    "a number of 2 000 bytes": (lambda: content(step=10**5000), "cannot be read as a capsule"),
    "a step that is none": (lambda: content(step=float("nan")), "'step' is missing"),
    "a step that is a flag": (lambda: content(step=True), "'step' is missing"),
    "a version that is a text": (lambda: content(netdebug_capsule="1"), "not a NetDebug capsule"),
    "calls of a number": (lambda: content(calls=[3]), "incomplete"),
    "names that are numbers": (lambda: call_with(kwargs={1: 2}), "incomplete"),
    "random numbers of a wrong kind": (lambda: call_with(random=torch.zeros(3)), "incomplete"),
    "random numbers on no device": (
        lambda: call_with(random=torch.zeros(5056, dtype=torch.uint8, device="meta")),
        "incomplete",
    ),
    "casts of a wrong type": (lambda: call_with(autocast={"cpu": 3}), "incomplete"),
    "weights that are a list": (lambda: content(models={"": [1]}), "'models' has the wrong type"),
    "weights without names": (lambda: content(models={"": {1: NOTHING}}), "'models' has the wrong type"),
    "modes that are a text": (lambda: content(evaluating={"": "all"}), "'evaluating' has the wrong type"),
    "modes that are numbers": (lambda: content(evaluating={"": [1]}), "'evaluating' has the wrong type"),
    "optimizers that are none": (lambda: content(optimizers=[1]), "'optimizers' has the wrong type"),
    "what was left out is no text": (lambda: content(left_out=[1]), "'left_out' has the wrong type"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_content_that_is_refused(kind: str, tmp_path: Path) -> None:
    """In one sentence."""
    made, text = REFUSED[kind]
    torch.save(made(), tmp_path / "capsule.pt")
    with pytest.raises(CapsuleError, match=text) as caught:
        load_capsule(tmp_path / "capsule.pt")
    assert 1 == len(str(caught.value).splitlines())


SHOWN: dict[str, Callable[[], dict[str, Any]]] = {
    "JSON nested deep": lambda: content(first_nonfinite="[" * 100_000 + "]" * 100_000),
    "JSON of other types": lambda: content(first_nonfinite='{"kind": [1], "what": 3, "where": {"a": 1}}'),
    "operations of other types": lambda: content(first_nonfinite='{"what": "loss", "operations": 7}'),
    "many operations": lambda: content(first_nonfinite=f'{{"what": "loss", "operations": {["a"] * 99999}}}'),
    "findings of other types": lambda: content(findings='[1, {"rule": [], "message": {}}, null]'),
    "findings that are a number": lambda: content(findings="3"),
    "an error of many lines": lambda: content(error="\n".join("x" * 1000 for _ in range(1000))),
    "a reason that is a tensor": lambda: content(reason=torch.zeros(1000, 1000)),
    "versions of other types": lambda: content(versions={1: [2], "a": {}}),
    "versions that are none": lambda: content(versions=7),
    "a time that is none": lambda: content(time=float("inf")),
    "a time that is a text": lambda: content(time="now"),
    "a number without end": lambda: call_with(args=[10**300]),
    "a long list": lambda: call_with(args=[list(range(100_000))] * 3),
    "100 000 arguments": lambda: call_with(args=[1] * 100_000),
    "10 000 calls": lambda: content(calls=[content()["calls"][0]] * 10_000),
    "10 000 sentences": lambda: content(left_out=["x" * 99] * 10_000),
    "a sparse tensor of lies": lambda: call_with(
        args=[torch.sparse_coo_tensor([[0], [0]], [1.0], (1 << 30, 1 << 30), check_invariants=False)]
    ),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_content_that_is_shown(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its texts and numbers are; in so many lines."""
    torch.save(SHOWN[kind](), tmp_path / "capsule.pt")
    assert 0 == replay_here([str(tmp_path / "capsule.pt")])
    shown = capsys.readouterr().out
    assert "To run the batch again" in shown
    assert len(shown) < 300_000


def test_control_characters_in_every_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are visible letters in names, too."""
    bad = "\x1b[2J\x9b1m\u202egone\x07"
    model = {f"w{bad}": torch.zeros(1)}
    call = {**content()["calls"][0], "model": bad, "kwargs": {bad: bad}, "args": [bad]}
    other = {"class": bad}
    text = f'{{"kind": "NaN{bad}", "where": "x", "class_name": "y"}}'.replace("\x1b", "\\u001b")
    made = content(
        reason=bad, versions={bad: bad}, calls=[call], models={bad: model}, optimizers=[other],
        left_out=[bad], first_nonfinite=text.replace("\x07", ""), error=bad,
    )  # fmt: skip
    torch.save(made, tmp_path / "capsule.pt")
    assert 0 == replay_here([str(tmp_path / "capsule.pt")])
    shown = capsys.readouterr().out
    assert [] == [sign for sign in "\x1b\x9b\u202e\x07" if sign in shown]
    assert "\\x1b[2J" in shown


def refused(path: str | Path) -> str:
    with pytest.raises(CapsuleError) as caught:
        load_capsule(path)
    assert 1 == len(str(caught.value).splitlines())
    return str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a device without end, a folder: none of them is opened."""
    os.mkfifo(tmp_path / "pipe.pt")
    for path in (tmp_path / "pipe.pt", Path("/dev/zero"), tmp_path):
        assert "not a regular file" in refused(path), path
    assert "there is no file" in refused(tmp_path / "nowhere.pt")


def rewritten(path: Path, **options: Any) -> Path:
    """The same parts in another archive."""
    target = path.with_name("other.pt")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", **options) as made:
        for each in source.infolist():
            made.writestr(each.filename, source.read(each.filename))
    return target


def test_archives_that_grow(tmp_path: Path) -> None:
    """Compressed, overlapping, sparse, too big to describe: their directory is enough to refuse them."""
    torch.save(content(extra=torch.zeros(1 << 20)), tmp_path / "big.pt")
    assert "compressed" in refused(rewritten(tmp_path / "big.pt", compression=zipfile.ZIP_DEFLATED))
    with (tmp_path / "hole.pt").open("wb") as file:
        file.truncate(1 << 35)
    assert "32 GiB" in refused(tmp_path / "hole.pt")
    with zipfile.ZipFile(tmp_path / "many.pt", "w") as made:
        for number in range(20):
            made.writestr(f"a/data/{number}", b"0" * 100_000)
        for each in made.filelist[1:]:
            each.header_offset = made.filelist[0].header_offset
        made.filelist[0].file_size = 1 << 40
    assert "bigger than the file" in refused(tmp_path / "many.pt")
    with zipfile.ZipFile(tmp_path / "words.pt", "w") as made:
        made.writestr("a/data.pkl", b"0" * (65 << 20))
    assert "64 MiB" in refused(tmp_path / "words.pt")


class Hostile:
    """Runs code when it is unpickled without care."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, ("was-run",)


def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what a pickle asks for, nor a script that a capsule names."""
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("import os\nos.mkdir('was-run')\n")
    torch.save(content(calls=Hostile()), "hostile.pt")
    Path("pickle.pt").write_bytes(pickle.dumps(Hostile()))
    buffer = io.BytesIO()
    torch.save(content(), buffer, _use_new_zipfile_serialization=False)
    Path("legacy.pt").write_bytes(buffer.getvalue())
    for name in ("hostile.pt", "pickle.pt", "legacy.pt"):
        told = refused(name)
        assert "cannot be read as a capsule" in told
        assert "False" not in told  # as torch advises
    evil = str(tmp_path / "evil.py")
    names = ("script", "program", "path", "argv", "model", "loss", "error")
    torch.save(content(**dict.fromkeys(names, evil)), "named.pt")
    assert 0 == replay_here(["named.pt"])
    assert not Path("was-run").exists()


def test_mutations_of_a_capsule(tmp_path: Path) -> None:
    """Bytes that were changed, left out, doubled: it is read or refused, and what is read can be shown."""
    whole = tmp_path / "whole.pt"
    torch.save(content(first_nonfinite='{"kind": "NaN", "what": "output"}'), whole)
    original = whole.read_bytes()
    target = tmp_path / "changed.pt"
    generator = random.Random(14)
    read = 0
    told: list[str] = []
    codes: set[int] = set()
    for _ in range(MUTATIONS):
        target.write_bytes(mutated(bytearray(original), generator))
        try:
            loaded = load_capsule(target)
        except CapsuleError as error:
            told.append(str(error))
            continue
        read += 1
        with torch.no_grad():
            try:
                codes.add(ReplayedModels("changed.pt", loaded, nn.Linear(3, 2), None, backward=False).show())
            except CapsuleError as error:
                told.append(str(error))
    assert 0 < read < MUTATIONS
    assert all(told)
    assert {0} <= codes <= {0, 1, 2}


WEIRD: tuple[Any, ...] = (
    None, True, -1, 10**300, float("nan"), "", "x" * 5000, "\x1b[2J", b"bytes", [], {}, (), [[]], {"": {}},
    {1: 2},
    {"a"}, torch.zeros(0), torch.full((2,), float("inf")), torch.zeros(2, 3, dtype=torch.int64),
    torch.zeros(1, dtype=torch.complex64), torch.zeros(2, device="meta"), torch.float32, torch.Size([3]),
    '{"what": 1, "kind": {}, "operations": [[]]}', "[" * 5000,
)  # fmt: skip
TEXTS = {"first_nonfinite": '{"kind": "NaN", "what": "output"}', "findings": "[{}]", "error": '"E: x"'}


def test_wrong_types_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any value of a capsule exchanged for any other one: it is refused, or shown and run."""
    target = tmp_path / "changed.pt"
    generator = random.Random(5)
    codes: set[int] = set()
    refusals = 0
    for _ in range(MUTATIONS):
        made = content(**TEXTS)
        for _ in range(generator.randrange(1, 3)):
            exchange(made, generator)
        torch.save(made, target)
        try:
            loaded = load_capsule(target)
            say(contents(str(target), loaded))
            codes.add(ReplayedModels(str(target), loaded, nn.Linear(3, 2), None, backward=True).show())
        except CapsuleError as error:
            refusals += 1
            assert_one_line(str(error))
    assert {0, 2} <= codes <= {0, 1, 2}
    assert refusals > 0
    assert "\x1b" not in capsys.readouterr().out


def exchange(made: dict[str, Any], generator: random.Random) -> None:
    """One value, at any depth; keys stay."""
    place: Any = made
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = generator.choice(keys)
        inside = place[key]
        if not isinstance(inside, dict | list) or not inside or generator.random() < 0.3:
            place[key] = generator.choice(WEIRD)
            return
        place = inside


def assert_one_line(sentence: str) -> None:
    assert 1 == len(sentence.splitlines())


def mutated(data: bytearray, generator: random.Random) -> bytes:
    kind = generator.randrange(5)
    place = generator.randrange(len(data))
    length = generator.randrange(1, 64)
    if kind == 0:
        return bytes(data[:place])
    if kind == 1:
        del data[place : place + length]
    elif kind == 2:
        data[place:place] = data[place : place + length]
    else:
        for _ in range(generator.randrange(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
    return bytes(data)


# ---- weights ---------------------------------------------------------------------------------------------


class Guarded(nn.Module):
    """Its hooks and its own state must not be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(3)
        self.twin = self.inner
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self._register_load_state_dict_pre_hook(self._refuse)

    def _refuse(self, *_: Any) -> None:
        raise AssertionError("a hook of the model was run")

    def get_extra_state(self) -> Any:
        raise AssertionError("the model was asked for its state")


def test_weights_are_put_in_by_name() -> None:
    """Under the names of state_dict, without the model's own code; shared ones under each name."""
    plain = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    plain[1].weight = plain[0].bias
    assert list(plain.state_dict()) == list(weights_of(plain))
    model = Guarded()
    names = {f"{part}.{name}" for part in ("inner", "twin") for name in nn.BatchNorm1d(3).state_dict()}
    assert names == set(weights_of(model))
    state = {name: torch.full_like(each, 3) for name, each in weights_of(model).items()}
    assert [] == put_weights(state, model, version=2)
    assert 3 == model.inner.running_mean[0] == model.inner.weight[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"weight": torch.zeros(2, 3)}, "do not fit a Linear: it has no bias"),
        (
            {"weight": torch.zeros(2, 3), "bias": torch.zeros(2), "more": torch.zeros(1)},
            "the model has no more",
        ),
        (
            {"weight": torch.zeros(3, 3), "bias": torch.zeros(2)},
            r"of other shapes: weight is \[3, 3\] in the capsule and \[2, 3\] in the model",
        ),
    ],
)
def test_weights_that_do_not_fit(state: dict[str, Any], text: str) -> None:
    """The sentence says which, and nothing is changed."""
    model = nn.Linear(3, 2)
    before = model.weight.clone()
    with pytest.raises(CapsuleError, match=text):
        put_weights(state, model, version=2)
    assert torch.equal(before, model.weight)


def test_a_weight_that_the_capsule_could_not_hold() -> None:
    """It stays, and that is said."""
    model = nn.Linear(3, 2)
    (note,) = put_weights({"weight": torch.zeros(2, 3), "bias": None}, model, version=2)
    assert "does not hold bias" in note


class Renaming(nn.Linear):
    """Has saved its weights under other names."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}kernel"] = self.weight.detach()
        destination[f"{prefix}offset"] = self.bias.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *_: Any) -> None:
        with torch.no_grad():
            self.weight.copy_(state_dict[f"{prefix}kernel"])
            self.bias.copy_(state_dict[f"{prefix}offset"])


def test_capsules_of_version_1() -> None:
    """What a model has saved under names of its own goes back the same way; in newer ones it is an error."""
    state = Renaming(3, 2).state_dict()
    model = Renaming(3, 2)
    put_weights(state, model, version=1)
    assert torch.equal(state["kernel"], model.weight)
    with pytest.raises(CapsuleError, match="it has no weight"):
        put_weights(state, model, version=2)
