"""The documents keep up with the code that they speak of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
# A path in backquotes or in a link: has a slash, or an ending that only a file has.
PATH = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*/?)`|\]\((?!https?:)([^)#]+)\)")
FILE = re.compile(r"\.(py|pyi|c|h|md|toml|txt|in|proto|ts|tsx|css|json)$|^Makefile$|^LICENSE$")
MADE_LATER = re.compile(r"^netdebug\.toml$|^(build|runs|\.venv|\.venv-build|node_modules)(/|$)|_pb2\.py$")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named_paths(document: str) -> set[str]:
    """The paths that a document names, from the root or from inside the package."""
    found = {quoted or linked for quoted, linked in PATH.findall(read(document))}
    paths = {name for name in found if "/" in name or FILE.search(name)}
    return {name for name in paths if not MADE_LATER.search(name)}


def exists(name: str) -> bool:
    places = (ROOT, ROOT / "tb_netdebug")
    return any(any(place.glob(name)) if "*" in name else (place / name).exists() for place in places)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_is_there(document: str) -> None:
    """A map with places that are gone leads astray."""
    assert [] == sorted(name for name in named_paths(document) if not exists(name))


def test_the_map_names_every_folder_of_the_package() -> None:
    """Whoever looks for a folder's task finds it in ARCHITECTURE.md."""
    text = read("ARCHITECTURE.md")
    folders = sorted(path.parent.name for path in (ROOT / "tb_netdebug").glob("*/__init__.py"))
    assert [] == [name for name in folders if f"`{name}/" not in text]


def test_the_map_stays_short() -> None:
    """Three pages are read, ten are not."""
    assert len(read("ARCHITECTURE.md").split()) <= 2400


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_command_in_the_documents_exists(document: str) -> None:
    """`make x` in a document is a target of the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    told = set(re.findall(r"(?:`|^ {4}|^)make (\w+)", read(document), re.MULTILINE))
    assert set() == told - targets


def test_the_python_of_the_readme_compiles() -> None:
    """What a reader copies is at least Python."""
    blocks = re.findall(r"^```python\n(.*?)^```", read("README.md"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec")


def test_the_first_lines_of_the_readme_fit_on_a_screen() -> None:
    """What it is, the code and the commands come before everything else."""
    top = read("README.md").partition("\n## ")[0]
    assert len(top.splitlines()) <= 40
    assert "nd.watch(" in top
    assert "tensorboard --logdir" in top


def test_the_changelog_has_room_for_the_next_change() -> None:
    """Unreleased stands on top, and its sections are of the known kinds."""
    headings = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    kinds = set(re.findall(r"^### (.+)$", read("CHANGELOG.md"), re.MULTILINE))
    assert "Unreleased" == headings[0]
    assert kinds <= {"Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"}
