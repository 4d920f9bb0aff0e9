"""The page as it is built and shipped: small, hashed, and asking nobody but its own server."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tb_netdebug

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(tb_netdebug.__file__).parent / "viewer/plugin/page"
MOST_BYTES = 250 * 1024
# Names of XML vocabularies, which look like addresses and are never asked for.
VOCABULARIES = re.compile(r"https?://www\.w3\.org/(2000/svg|1999/xhtml|1998/Math/MathML|1999/xlink)")
HASHED = re.compile(r"[A-Za-z0-9_.-]+-[A-Za-z0-9_-]{8}\.(js|css|svg)")


@pytest.fixture(scope="module")
def page() -> dict[str, str]:
    """The built files by their path: those of the wheel, in a checkout built anew."""
    if not os.environ.get("NETDEBUG_TEST_WHEEL"):
        subprocess.run([sys.executable, ROOT / "tools/build_page.py", "checkout"], check=True, timeout=170)
    paths = [path for path in PAGE.rglob("*") if path.is_file()]
    return {path.relative_to(PAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_the_page_is_shipped(page: dict[str, str]) -> None:
    """The module that TensorBoard imports and the page itself have fixed names."""
    assert {"index.js", "index.html"} == {name for name in page if "/" not in name}
    assert re.search(r"export\s*\{\s*\w+ as render\s*\}", page["index.js"])


def test_the_bundle_is_small(page: dict[str, str]) -> None:
    """All files together, packed with gzip, stay below the promised size."""
    packed = sum(len(gzip.compress(text.encode(), mtime=0)) for text in page.values())
    assert packed <= MOST_BYTES


def test_all_files_but_the_entries_are_hashed(page: dict[str, str]) -> None:
    """A browser may keep them for ever: another content has another name."""
    names = [name for name in page if "/" in name]
    assert [] == [name for name in names if not HASHED.fullmatch(name.removeprefix("assets/"))]
    assert names


def test_nothing_names_another_host(page: dict[str, str]) -> None:
    """No address of a host, and no path from the root, which a path prefix would break."""
    found = {
        name: re.findall(r"(?:https?|wss?)://[^\"'`\s)]*", VOCABULARIES.sub("", text))
        for name, text in page.items()
    }
    assert {} == {name: addresses for name, addresses in found.items() if addresses}
    assert [] == re.findall(r"(?:src|href)=[\"']/", page["index.html"])
    assert [] == re.findall(
        r"url\(/|@import", "".join(text for name, text in page.items() if name.endswith(".css"))
    )


def test_nothing_needs_more_than_self(page: dict[str, str]) -> None:
    """No script or style in the HTML, no handlers in attributes, no code made from text."""
    assert [] == re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page["index.html"])
    scripts = {name: text for name, text in page.items() if name.endswith(".js")}
    made = {name: re.findall(r"\beval\(|\bFunction\(", text) for name, text in scripts.items()}
    assert {} == {name: found for name, found in made.items() if found}


def test_names_are_only_ever_text() -> None:
    """Our sources make no markup from strings: what a file of a logdir says is shown as it is."""
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser")
    sources = [path for path in (ROOT / "frontend/src").rglob("*.ts*") if ".test." not in path.name]
    assert [] == [path.name for path in sources if markup.search(path.read_text(encoding="utf-8"))]


def test_the_worker_is_a_file_of_its_own(page: dict[str, str]) -> None:
    """Neither a blob nor a data address: the content security policy allows workers from files only."""
    assert 1 == len([name for name in page if re.match(r"assets/live-worker-.*\.js", name)])
    scripts = "".join(text for name, text in page.items() if name.endswith(".js"))
    assert [] == re.findall(r"data:(?:text|application)/", scripts)


def test_without_node_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    """Where the page is neither built nor can be, the build names Node, its version and the other way."""
    told = tell(tmp_path, path="")
    assert 1 == told.returncode
    assert "Node.js >= 18" in told.stderr
    assert "there is no node here" in told.stderr
    assert 1 == len(told.stderr.strip().splitlines())


def test_an_old_node_is_named(tmp_path: Path) -> None:
    """A Node that is too old would fail in strange ways; its version is said instead."""
    node = tmp_path / "bin/node"
    node.parent.mkdir()
    node.write_text("#!/bin/sh\necho v16.20.2\n", encoding="utf-8")
    node.chmod(0o755)
    assert "version 16" in tell(tmp_path, path=str(node.parent)).stderr


def test_a_page_made_from_the_same_sources_needs_no_node(tmp_path: Path) -> None:
    """A source archive carries the page with a stamp; nothing is built where that fits."""
    copy(tmp_path)
    stamp = (
        "import runpy; tool = runpy.run_path('tools/build_page.py'); print(tool['digest'](tool['sources']()))"
    )
    made_from = subprocess.run(
        [sys.executable, "-c", stamp], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    dist = tmp_path / "frontend/dist"
    dist.mkdir()
    (dist / "index.js").write_text("export {};", encoding="utf-8")
    (dist / ".made-from").write_text(made_from.stdout.strip(), encoding="utf-8")
    assert 0 == tell(tmp_path, path="", step="checkout").returncode
    assert ["index.js"] == [path.name for path in (tmp_path / "tb_netdebug/viewer/plugin/page").iterdir()]
    (tmp_path / "frontend/src/main.tsx").write_text("changed", encoding="utf-8")
    assert 1 == tell(tmp_path, path="").returncode


def copy(folder: Path) -> None:
    """A project with as much of a page as the build looks at."""
    for name, text in {"frontend/src/main.tsx": "", "frontend/package-lock.json": "{}"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "tools").mkdir(exist_ok=True)
    tool = (ROOT / "tools/build_page.py").read_text(encoding="utf-8")
    (folder / "tools/build_page.py").write_text(tool, encoding="utf-8")


def tell(folder: Path, *, path: str, step: str = "check") -> subprocess.CompletedProcess[str]:
    """What the build says in a copy of the project where only `path` has programs."""
    if not (folder / "tools").exists():
        copy(folder)
    command = [sys.executable, "tools/build_page.py", step]
    return subprocess.run(
        command, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )
