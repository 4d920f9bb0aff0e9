"""The oldest TensorBoard, NumPy and protobuf that setup.py allows show what the newest ones recorded."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.writer import EventWriter
from tests.support.record_cases import training
from tests.support.tensorboard_process import ROOT, TensorBoard

OLDEST = ROOT / "requirements/oldest.txt"
STEPS = 6
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the oldest versions; the wheel that is tested goes into it, too."""
    folder = tmp_path_factory.mktemp("oldest")
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    wheels = sorted((ROOT / "build/dist").glob("*.whl")) if os.environ.get("NETDEBUG_TEST_WHEEL") else []
    installed = subprocess.run(
        [python, *PIP, "-r", OLDEST, *wheels], capture_output=True, text=True, check=False
    )
    assert 0 == installed.returncode, installed.stderr
    return python


def test_the_page_works_with_the_oldest_versions(old_python: Path, logdir: Path) -> None:
    """TensorBoard starts with our tab in it, and runs, details, columns and the stream are there."""
    writer = EventWriter(logdir / "net")
    for record in training(STEPS)[0]:
        writer.put(record)
    writer.close()
    with TensorBoard("--logdir", str(logdir), python=old_python) as board:
        assert board.json("/data/plugins_listing")["netdebug"]["enabled"]
        assert ["net"] == [row["name"] for row in board.json("runs")["runs"]]
        assert STEPS == board.json("run", run="net")["steps"]
        heat = {"what": "heat", "run": "net", "kind": "weight", "statistic": "norm"}
        body = board.get("columns", q=[heat, {"what": "scalars", "run": "net", "names": ["loss"]}]).body
        assert b"encoder.layers.0.linear.weight" in body
        assert b"error" not in body
        with board.stream() as stream:
            assert "hello" == stream.next().name


def test_the_oldest_versions_are_those_of_the_package() -> None:
    """What setup.py promises is what was tested, but where old releases have no wheels for a new Python."""
    tested = dict(
        re.findall(r"^([\w-]+)==([\d.]+)(?:; python_version < .*)?$", OLDEST.read_text(), re.MULTILINE)
    )
    promised = {
        found[1]: found[2]
        for requirement in importlib.metadata.requires("tb_netdebug") or []
        if "extra" not in requirement
        and (found := re.match(r"([\w-]+).*?>=([\d.]+)(?!.*python_version (?:==|>))", requirement))
    }
    for name in tested.keys() & promised.keys():
        assert tested[name].startswith(promised[name].rstrip("0").rstrip("."))
    assert {"tensorboard", "numpy", "protobuf", "zstandard", "psutil", "google-crc32c"} <= tested.keys()


def test_this_environment_has_the_newest() -> None:
    """All other tests run with the versions of constraints.txt, the newest that were tried."""
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert pinned["tensorboard"] == importlib.metadata.version("tensorboard")
    assert sys.version_info >= (3, 10)
