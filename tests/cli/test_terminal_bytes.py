"""Hostile names in real recordings, and what all commands write of them, byte by byte.

None of it is obeyed by a terminal.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.cli import COMMANDS, main
from tb_netdebug.core.records.visible import UNPRINTABLE, json_text, visible
from tests.support.run_cases import RecordedRun
from tests.support.scripted_hub import ScriptedHub, serving
from tests.support.terminal import SEQUENCE, Terminal, environment

# Renames the window, hides text, moves the cursor, rings; C1, directions, separators, what cannot be seen.
HOSTILE = (
    "n\x1b]0;owned\x07\x1b[8m\x1b[2Jo\b\r\x7f\x85\x9b31m"
    "\u202em\u2066\u2028e\u2029\u200b\ufeff\u00ad\U000e0041"
)
NAMES = [
    HOSTILE,
    "<b>\x1b[1m",
    "\u202e\u05d0\u200f",
    "two\nlines\x0b\x0c\tand\x1c more",
    "\x90q\x9c\x98k\x9d0;owned\x9c",
    os.fsdecode(b"no text \x9b31m \xff"),
]
# What we write ourselves: colours and styles, an erased line, marks behind text from right to left.
# Lines of CSV end as its standard wants.
OURS = re.compile(rb"\r(?=\n)|\x1b\[(?:\d{1,3}(?:;\d{1,3})*)?m|\x1b\[2K|\xe2\x80\x8e")
TRAINING = """
import sys
import torch
from torch import nn
sys.argv[1:] = []
name = {name!r}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential()
        self.body.add_module(name, nn.Linear(4, 4))
        self.body.add_module("last", nn.Linear(4, 1))
    def forward(self, x):
        return torch.log(self.body(x))
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    loss = (model(torch.randn(8, 4)) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


def obeyed(written: bytes) -> list[str]:
    """The characters a terminal would obey, by their names and places; our own and line ends are none."""
    text = OURS.sub(b"", written).decode("utf-8", "surrogateescape")
    found = [each for each in text if unicodedata.category(each) in UNPRINTABLE and each != "\n"]
    return [f"{each!r} in {line!r}" for each in set(found) for line in text.splitlines() if each in line] or [
        repr(each) for each in found
    ]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[bytes]]:
    """A folder with a hostile name, and how `netdebug run` told of a training there with hostile layers."""
    folder = tmp_path_factory.mktemp("work") / NAMES[0].replace("/", "")
    folder.mkdir()
    script = folder / f"train{NAMES[1]}.py".replace("/", "")
    script.write_text(TRAINING.format(name=NAMES[0].replace(".", "")))
    command = [
        sys.executable,
        "-m",
        "tb_netdebug",
        "run",
        "--logdir",
        str(folder / "runs"),
        "--run",
        "a\x1b[5mb",
    ]
    ran = subprocess.run(
        [*command, "--every", "1", str(script)],
        env=environment(),
        cwd=sys.prefix,
        capture_output=True,
        check=False,
    )
    return folder, ran


@pytest.fixture(scope="module")
def logdir(training: tuple[Path, object]) -> Path:
    """Beside that training, runs with all of the names, one of which is damaged and one cannot be read."""
    runs = training[0] / "runs"
    for name in NAMES:
        run = RecordedRun(runs / f"run {name}")
        run.add(9, scalars=dict.fromkeys(NAMES[:-1], 1.0))
        run.add(3, scalars={"loss": float("nan")})
        run.close()
    with run.path.open("ab") as file:
        file.write(b"\x1b[31m" * 9)
    return runs


def written(
    capture: pytest.CaptureFixture[bytes], *words: str, code: int | None = None
) -> tuple[bytes, bytes]:
    """What a command writes to its two streams; there is something, and none of it is obeyed."""
    ended = main(list(words))
    sys.stdout.flush()
    out, err = capture.readouterr()
    assert code is None or code == ended, err
    assert out + err
    assert ([], []) == (obeyed(out), obeyed(err))
    return out, err


def test_the_watched_script_is_told_of_its_own_names(
    training: tuple[Path, subprocess.CompletedProcess[bytes]],
) -> None:
    """By `run`, while it trains and at its end: findings with layers, the folder, what to type."""
    _, ran = training
    assert 0 == ran.returncode, ran.stderr
    assert b"NetDebug" in ran.stderr
    assert b"]0;owned" in ran.stderr
    assert ([], []) == (obeyed(ran.stdout), obeyed(ran.stderr))


def test_a_script_that_watches_itself_is_told_the_same(tmp_path: Path) -> None:
    """By `nd.watch`, of its findings and of where to see them, and by the recorder in a warning."""
    name = HOSTILE.replace(".", "")
    watched = TRAINING.format(name=name).replace(
        "for step in",
        f"import tb_netdebug as nd\nmonitor = nd.watch(model, optimizer, logdir={name!r})\nfor step in",
    )
    warned = (
        "from tb_netdebug.core.eventlog.writer.located_warnings import UserLine\n"
        "UserLine.current().warn(name)\n"
    )
    script = tmp_path / "train.py"
    script.write_text(f"{watched}    monitor.step(loss=loss)\nmonitor.close()\n{warned}")
    ran = subprocess.run(
        [sys.executable, str(script)], env=environment(), cwd=tmp_path, capture_output=True, check=False
    )
    assert 0 == ran.returncode, ran.stderr
    assert b"WARNING" in ran.stderr or b"ERROR" in ran.stderr
    assert b"tensorboard --logdir" in ran.stderr
    assert b"WriterWarning: n\\x1b]0;owned" in ran.stderr
    assert ([], []) == (obeyed(ran.stdout), obeyed(ran.stderr))


@pytest.mark.parametrize("more", [(), ("--all",), ("--fail-on", "warning")])
def test_check(logdir: Path, capfdbinary: pytest.CaptureFixture[bytes], more: tuple[str, ...]) -> None:
    """Runs, layers and complaints are there to be read."""
    out, _ = written(capfdbinary, "check", str(logdir), *more)
    assert b"owned" in out


def test_check_for_programs(logdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """JSON is ASCII, and its names are those that were recorded."""
    out, _ = written(capfdbinary, "check", str(logdir), "--json")
    assert out.isascii()
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out)
    told = json.loads(out)
    assert str(logdir) == told["logdir"]
    assert {f"run {name}" for name in NAMES[:-1]} <= {run["run"] for run in told["runs"]}
    found = [each for run in told["runs"] for finding in run["findings"] for each in finding["where"]]
    assert any(HOSTILE in name for name in found)


@pytest.mark.parametrize("table", ["scalars", "tensors"])
def test_export_to_standard_output(
    logdir: Path, capfdbinary: pytest.CaptureFixture[bytes], table: str
) -> None:
    """A table all the same."""
    out, err = written(capfdbinary, "export", str(logdir), "--csv", "--table", table, "-o", "-", code=0)
    rows = list(csv.reader(io.StringIO(out.decode())))
    assert {len(rows[0])} == {len(row) for row in rows}
    assert b"]0;owned" in out
    assert b"damaged" in err


def test_export_into_files(logdir: Path, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """They keep what was recorded."""
    _, err = written(capfdbinary, "export", str(logdir), "--csv", "-o", str(tmp_path / "csv"), code=0)
    assert b"damaged" in err
    files = [*(tmp_path / "csv").rglob("scalars.csv")]
    assert len(NAMES) + 1 == len(files)
    assert any(HOSTILE.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize("name", [*NAMES, "no such run \x1b[7m"])
def test_watch(logdir: Path, capfdbinary: pytest.CaptureFixture[bytes], name: str) -> None:
    """Each of the runs, and the list of those that there are."""
    out, err = written(capfdbinary, "watch", str(logdir), "--once", "--run", f"run {name}")
    assert b"owned" in out + err


def test_replay(training: tuple[Path, object], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A capsule of that training, in a folder of that name."""
    (capsule,) = training[0].rglob("capsules/*.pt")
    out, _ = written(capfdbinary, "replay", str(capsule), code=0)
    assert b"]0;owned" in out


def test_doctor(training: tuple[Path, object], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """It names the folder that it was asked about."""
    for more in ((), ("--json",)):
        out, _ = written(capfdbinary, "doctor", "--logdir", str(training[0] / HOSTILE), *more)
        assert b"owned" in out


def test_token(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """It says what to type, with the place of its files."""
    for more in ((), ("--tls",)):
        out, _ = written(capfdbinary, "token", "-o", str(tmp_path / HOSTILE), *more, code=0)
        assert b"owned" in out


def test_collect(training: tuple[Path, object], tmp_path: Path) -> None:
    """Its greeting and its end."""
    command = [sys.executable, "-m", "tb_netdebug", "collect", "--logdir", str(training[0]), "--listen", ":0"]
    with subprocess.Popen(
        command, env=environment(XDG_RUNTIME_DIR=str(tmp_path)), cwd=sys.prefix,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        greeting = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert b"owned" in greeting
    assert ([], []) == (obeyed(greeting + out), obeyed(err))


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--all"],
        ["export", "--csv", "-o", "-"],
        ["watch"],
        ["watch", "--once"],
        ["doctor", "--logdir"],
    ],
    ids=" ".join,
)
def test_in_a_terminal(logdir: Path, words: list[str]) -> None:
    """With colours, lines that are written again and a whole screen; nothing of it comes from names."""
    command = [sys.executable, "-m", "tb_netdebug", *words, str(logdir)]
    with Terminal(command, {}) as terminal:
        if words == ["watch"]:
            terminal.wait_for("owned")
            terminal.press("q")
        terminal.end()
    # A long name is wrapped wherever its column ends.
    assert "owned" in "".join(SEQUENCE.sub("", terminal.output.decode()).split())
    for sequence in (b"\x1b]", b"\x1b[8m", b"\x1b[5m", b"\x07", b"\x08", b"\x7f"):
        assert sequence not in terminal.output
    assert [] == obeyed(SEQUENCE.sub("", terminal.output.decode()).replace("\r", "").encode())


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    """A training whose every text is hostile."""
    made = ScriptedHub()
    made.session = {**made.session, "run": ["night", HOSTILE], "program": HOSTILE, "host": HOSTILE}
    reason = {"kind": "asked", "text": HOSTILE, "id": None}
    place = {
        **made.state["place"],
        "module": HOSTILE,
        "class_name": HOSTILE,
        "file": HOSTILE,
        "function": HOSTILE,
    }
    made.state = {**made.state, "reason": reason, "place": place, "note": HOSTILE}
    made.holder = {"client": "b" * 32, "label": HOSTILE}
    with serving(made) as serve:
        yield serve


@pytest.mark.parametrize(
    "command", ["where", "modules", "sessions", "stack", HOSTILE, f"tensor {HOSTILE}", "help"]
)
def test_debug(hub: ScriptedHub, capfdbinary: pytest.CaptureFixture[bytes], command: str) -> None:
    """What the training says of itself, and what the person types."""
    written(capfdbinary, "debug", hub.address, "-c", command)


MISTAKES = [
    ["{}"], ["check", "{}"], ["check", "{}", "--set", "{}"], ["check", "--fail-on", "{}"],
    ["check", "a", "b{}"], ["check", "--config", "{}", "x"], ["check", "--off", "{}", "."], ["check", "--{}"],
    ["export", "{}", "--csv"], ["export", ".", "--csv", "--table", "{}"], ["watch", "{}"],
    ["watch", ".", "--layers", "{}"], ["debug", "{}"], ["debug", "--rank", "{}"], ["replay", "{}"],
    ["collect", "--listen", "{}"], ["collect", "--logdir", "{}", "--token-file", "{}"],
    ["collect", "--tls-cert", "{}", "--tls-key", "{}"], ["token", "{}"], ["token", "-o", __file__ + "/{}"],
    ["doctor", "{}"],
]  # fmt: skip
OF_RUN = [
    ["run", "{}"], ["run", "-m", "{}"], ["run", "--every", "{}", "x"], ["run", "--include", "({}", "x"],
    ["run", "--set", "{}", "x"], ["run", "--on-finding", "{}"], ["run", "--remote", "{}", "x"],
]  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:  # fmt: skip
    """Of every command, with the wrong argument quoted."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        ended = main([word.format(name) for word in words])
        out, err = capfdbinary.readouterr()
        assert (0, b"") != (ended, err)
        assert ([], []) == (obeyed(out), obeyed(err))


@pytest.mark.parametrize("words", OF_RUN, ids=" ".join)
def test_mistakes_of_run(tmp_path: Path, words: list[str]) -> None:
    """In a process of its own, in which it stays to the end."""
    name = "".join(each.replace(".", "") for each in NAMES)
    command = [sys.executable, "-m", "tb_netdebug", *(word.format(name) for word in words)]
    ran = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode != 0
    assert ran.stderr
    assert ([], []) == (obeyed(ran.stdout), obeyed(ran.stderr))


def test_every_command_was_walked() -> None:
    """One that is new has to come here, too."""
    assert set(COMMANDS) == {words[0] for words in (*MISTAKES, *OF_RUN)} - {"{}"}


def test_every_character_that_is_obeyed_is_made_visible() -> None:
    """In each plane of Unicode, and what is left can be read back."""
    characters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in UNPRINTABLE]
    told = visible("".join(characters[:5000]) + "\x7f\u202e\U000e0041\ud89b")
    assert told.isprintable()
    assert told.isascii()
    for text in NAMES:
        assert visible(visible(text)) == visible(text)
        assert text == json.loads(json_text(text))
        assert json_text(text).isprintable()
