"""Writes constraints.txt: every package that tests, demo and benchmarks pull in, with one version.

`python tools/constraints.py PYTHON OLDER_PYTHON...` asks pip to resolve requirements/constraints.in and the
package itself, without installing anything. The first Python's versions are the rule; where an older Python
cannot have them, a line of its own with a marker follows.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They belong to the machine's build of torch (CUDA, ROCm, CPU), not to this project.
OF_THE_PLATFORM = re.compile(r"^(nvidia-(?!ml-py)|cuda-|triton$|pytorch-triton)")
HEADER = "# Made by `make constraints` from requirements/constraints.in; change that file, not this one.\n"


def main(pythons: list[str]) -> None:
    resolved = [resolve(python) for python in pythons]
    lines = list(pin_lines(resolved[0], resolved[1:]))
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    sys.stderr.write(f"constraints.txt: {len(lines)} lines\n")


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """The Python's version ("3.10") and the version of every package that it would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--dry-run"]
        sources = ["--requirement", str(ROOT / "requirements/constraints.in"), str(ROOT)]
        subprocess.run([*pip, "--ignore-installed", "--report", str(report), *sources], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))
    metadata = [item["metadata"] for item in found["install"]]
    versions = {canonical(each["name"]): str(each["version"]).partition("+")[0] for each in metadata}
    kept = {name: version for name, version in versions.items() if not OF_THE_PLATFORM.match(name)}
    kept.pop("tb-netdebug")
    return ".".join(found["environment"]["python_version"].split(".")[:2]), kept


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pin_lines(newest: tuple[str, dict[str, str]], older: list[tuple[str, dict[str, str]]]) -> list[str]:
    """One line a package, with markers only where an older Python needs another version."""
    python, rule = newest
    lines = []
    for name in sorted({*rule, *(name for _, versions in older for name in versions)}):
        exceptions = {
            minor: versions[name]
            for minor, versions in older
            if name in versions and versions[name] != rule.get(name)
        }
        marker = f'; python_version >= "{python}"' if exceptions else ""
        lines += [f"{name}=={rule[name]}{marker}"] if name in rule else []
        lines += [f'{name}=={version}; python_version == "{minor}"' for minor, version in exceptions.items()]
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
