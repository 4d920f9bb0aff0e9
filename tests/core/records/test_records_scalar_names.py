"""The registry of scalar names: all that is recorded stands in it, and it stands in the documents."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.scalar_names import REGISTRY, declared, name_of_own, name_of_rate, of_loss
from tests.support.recorded import Recorded

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(nd.__file__).parent
# A text that begins like the name of a scalar.
LIKE_A_NAME = re.compile(r'^"(probe|lr|scalar|time|monitor|ranks)/')


def test_a_run_records_what_is_declared_alone(logdir: Path) -> None:
    """Also evaluations, an own scalar, clipping, a loader and embeddings."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randint(0, 9, (64, 2)), torch.randint(0, 3, (64,)))
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        for epoch in range(2):
            for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                monitor.step(loss=loss, epoch=epoch)
            with torch.no_grad():
                nn.functional.cross_entropy(model.eval()(data.tensors[0]), data.tensors[1])
            model.train()
    names = set(Recorded.of(logdir / "run").scalars)
    assert {"loss", "lr/0", "scalar/epoch", "time/step", "probe/loss/0/baseline"} <= names
    assert [] == sorted(name for name in names if declared(name) is None)


@pytest.mark.parametrize("name", ["probe/new", "loss2", "lr/", "times/step", ""])
def test_other_names_are_unknown(name: str) -> None:
    assert declared(name) is None


def test_a_name_of_its_own_goes_before_its_family() -> None:
    """`scalar/eval_loss` is recorded by NetDebug, though it looks like one of the program's own."""
    known = {name: declared(name) for name in ("scalar/eval_loss", name_of_own("epoch"), name_of_rate(3))}
    assert ["scalar/eval_loss", "scalar/{name}", "lr/{group}"] == [
        each.name for each in known.values() if each
    ]
    family = declared(of_loss(0, "top_share"))
    assert family is not None
    assert "probe/loss/{call}/{statistic}" == family.name


def test_names_are_declared_once() -> None:
    names = [each.name for each in REGISTRY]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("folder", ["checks", "frameworks", "recording", "judging", "training"])
def test_nobody_spells_a_name_out(folder: str) -> None:
    """What mypy sees it can prove; a text it cannot."""
    spelled = [
        f"{path.relative_to(PACKAGE)}:{token.start[0]}: {token.string}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        if token.type == tokenize.STRING and LIKE_A_NAME.search(token.string)
    ]
    assert [] == spelled


def test_the_document_lists_them_all() -> None:
    """Whoever exports a run, or opens it with other tools, learns what the columns hold."""
    text = (ROOT / "docs/scalars.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]*?) ?\| ([^|]+) \|$", text, re.MULTILINE)
    assert [(each.name, each.unit, each.meaning) for each in REGISTRY] == rows
