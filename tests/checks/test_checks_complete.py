"""Every check has its rule, its paragraph, its sick script; and each script gets what it is made for."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tb_netdebug as nd
from tb_netdebug.checks.causes import EXPLAINS
from tb_netdebug.checks.rules import ALL
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tests.support.reading import complaints

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "demo/sick"
SLUGS = [rule.slug for rule in ALL]
# What the design names; there may be more.
DESIGNED = [
    "nonfinite-loss", "nonfinite-gradient", "nonfinite-weight", "nonfinite-activation", "nonfinite-input",
    "precision-headroom", "loss-scale-overflow", "exploding-gradients", "vanishing-gradients",
    "zero-gradients", "no-gradient", "grad-not-cleared", "unchanged-weights", "frozen-weights",
    "not-optimized", "update-ratio-high", "update-ratio-low", "weight-growth", "weight-collapse",
    "init-constant", "init-scale", "replica-divergence", "dead-units", "dead-layer", "saturated-units",
    "activation-scale", "constant-output", "loss-at-chance-start", "loss-at-chance", "not-learning",
    "diverging-loss", "loss-spike", "loss-oscillating", "loss-negative", "overfitting", "loss-plateau",
    "loss-input-softmaxed", "loss-input-logits", "loss-input-shape", "loss-input-range", "input-constant",
    "input-scale", "input-repeated-batch", "labels-single-class", "labels-imbalanced", "labels-sorted",
    "data-wait", "eval-mode-training", "train-mode-evaluating", "learning-rate-zero", "learning-rate-high",
    "memory-growth", "memory-pressure", "step-time-outlier", "straggler-rank", "stalled",
]  # fmt: skip
# They train for as long as one looks at them, as parts of `make demo`: so many batches are enough.
LIVE = {"learning_rate_high": 500, "vanishing_gradients": 300}


def test_all_designed_checks_exist_once() -> None:
    assert [] == sorted(set(DESIGNED) - set(SLUGS))
    assert len(SLUGS) == len(set(SLUGS))


@pytest.mark.parametrize("slug", SLUGS)
def test_each_check_has_its_paragraph(slug: str) -> None:
    """What it means, how it is decided with all of its thresholds, why it may be wrong, what to do."""
    text = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
    parts = re.split(r"^### `([\w-]+)`$", text, flags=re.MULTILINE)
    paragraphs = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert len(paragraphs[slug].split()) >= 40
    (rule,) = [rule for rule in ALL if rule.slug == slug]
    limits = list(getattr(rule.limits, "__dataclass_fields__", ()))
    assert [] == [name for name in limits if name not in paragraphs[slug]]


def test_causes_and_consequences_are_checks() -> None:
    named = {*EXPLAINS, *(slug for slugs in EXPLAINS.values() for slug in slugs)}
    assert [] == sorted(named - set(SLUGS))


def test_each_check_has_its_script() -> None:
    scripts = sorted(path.stem for path in SCRIPTS.glob("*.py"))
    assert sorted(slug.replace("-", "_") for slug in SLUGS) == scripts


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the trainers themselves found in each script; ranks are judged together, from their files."""
    folder = tmp_path_factory.mktemp("sick")
    scripts = [shlex.join([path.stem, *words_of(path)]) for path in sorted(SCRIPTS.glob("*.py"))]
    command = [sys.executable, str(ROOT / "tests/support/run_scripts.py"), str(folder), *scripts]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    failed = {
        each["script"]: (folder / each["script"] / "output").read_text(errors="replace")[-2000:]
        for each in ended
        if each["code"] != 0
    }
    assert {} == failed
    return {each["script"]: findings_below(folder / each["script"]) for each in ended}


def words_of(script: Path) -> list[str]:
    if script.stem not in LIVE:
        return [str(script)]
    return [str(ROOT / "tests/support/without_pauses.py"), str(LIVE[script.stem]), str(script)]


def findings_below(folder: Path) -> list[dict[str, Any]]:
    places = LogDir([("", str(folder))])
    places.refresh()
    listed: list[dict[str, Any]] = []
    for name in places.runs:
        run = places.open(name)
        run.refresh()
        details = run.details()
        listed += details["findings"]
        if len(details["ranks"]) > 1:
            listed += [each.as_dict() for one in nd.check(run.path).runs for each in one.findings]
    return listed


@pytest.mark.timeout(900)
@pytest.mark.parametrize("slug", SLUGS)
def test_each_script_gets_its_finding(found: dict[str, list[dict[str, Any]]], slug: str) -> None:
    told = {each["rule"]: each["severity"] for each in found[slug.replace("-", "_")]}
    assert told.get(slug) in ("warning", "error"), told


@pytest.mark.timeout(900)
def test_all_that_is_found_reads_well(found: dict[str, list[dict[str, Any]]]) -> None:
    """Also what is found beside that: 61 % with a space, "1 layer", a number in each, advice for each."""
    told = [each for findings in found.values() for each in findings]
    assert [] == [each for one in told for each in complaints(one["message"], one["advice"])]
