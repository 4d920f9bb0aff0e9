"""Makes `zoo` importable without the checkout on the path, where it would hide the wheel."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_zoo() -> None:
    place = ROOT / "zoo"
    spec = importlib.util.spec_from_file_location(
        "zoo", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    assert spec is not None
    sys.modules.setdefault("zoo", importlib.util.module_from_spec(spec))
