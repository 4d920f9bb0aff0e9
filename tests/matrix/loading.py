"""Reads files of `torch.save` where NetDebug cannot be imported: `loading.py FOLDER`, the answers as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.modules["tb_netdebug"] = None  # type: ignore[assignment]
sys.path.append(str(Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from tests.matrix import copied_models  # noqa: E402, F401


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    answers = {
        str(path.relative_to(folder)): answer(path) for path in sorted(folder.rglob("*.pt")) if path.is_file()
    }
    (folder / "answers.json").write_text(json.dumps(answers))


def answer(path: Path) -> str:
    """What was read, scripted where that is possible; or what was raised."""
    try:
        found: Any = torch.load(path, weights_only=False)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"[:300]
    if not isinstance(found, torch.nn.Module):
        return type(found).__name__
    try:
        return f"{type(found).__name__} {torch.jit.script(found.eval()).code}"  # type: ignore[attr-defined]
    except Exception as error:
        return f"{type(found).__name__}, not scripted: {type(error).__name__}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
