"""Builds the page that TensorBoard shows: `python tools/build_page.py [check | modules | dist | checkout]`.

check     says what is missing to get the page here, and exits with 1 if something is
modules   installs what package-lock.json lists, unless that was done
dist      builds frontend/dist, unless it was made from these very sources (the default)
checkout  puts it where a checkout's TensorBoard looks for it, too

`setup.py` uses the functions. A source archive carries frontend/dist, so installing from one needs no Node.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRONTEND = ROOT / "frontend"
DIST = FRONTEND / "dist"
PLACE = "tb_netdebug/viewer/plugin/page"
OLDEST_NODE = 18
NOT_SOURCES = {"node_modules", "dist"}
# What a folder was made from; never part of a wheel.
STAMP = ".made-from"
MISSING = (
    "The page of NetDebug is built with Node.js >= {oldest}, and {found}: install it (https://nodejs.org, or "
    "apt install nodejs npm) and try again, or install NetDebug from a wheel or source archive, which carry "
    "the page."
)


class BuildError(Exception):
    """A sentence for whoever wants the page and cannot have it."""


def build_dist() -> Path:
    """The folder with the built page, made anew when its sources have changed; raises BuildError."""
    wanted = digest(sources())
    if stamp_of(DIST) != wanted:
        install_modules()
        shutil.rmtree(DIST, ignore_errors=True)
        npm("run", "--silent", "build")
        (DIST / STAMP).write_text(wanted, encoding="utf-8")
    return DIST


def copy_page(target: Path) -> None:
    """Puts the built page below `target`, the root of a wheel or of a checkout."""
    place = target / PLACE
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(build_dist(), place, ignore=shutil.ignore_patterns(STAMP))


def install_modules() -> None:
    """What the build needs, as package-lock.json lists it."""
    check_node()
    wanted = digest([FRONTEND / "package-lock.json"])
    modules = FRONTEND / "node_modules"
    if stamp_of(modules) != wanted:
        npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        (modules / STAMP).write_text(wanted, encoding="utf-8")


def check() -> None:
    """Raises BuildError when the page is not built and cannot be."""
    if stamp_of(DIST) != digest(sources()):
        check_node()


def check_node() -> None:
    found = node_version()
    if found is None:
        raise BuildError(MISSING.format(oldest=OLDEST_NODE, found="there is no node here"))
    if found < OLDEST_NODE:
        raise BuildError(MISSING.format(oldest=OLDEST_NODE, found=f"the one here is version {found}"))
    if shutil.which("npm") is None:
        raise BuildError(MISSING.format(oldest=OLDEST_NODE, found="its npm is not here"))


def node_version() -> int | None:
    node = shutil.which("node")
    if node is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.match(r"v(\d+)\.", told)
    return int(number[1]) if number else None


def npm(*words: str) -> None:
    # By its full name, because on Windows npm is a script that is only found so.
    command = [shutil.which("npm") or "npm", *words]
    if subprocess.run(command, cwd=FRONTEND, check=False).returncode != 0:
        raise BuildError(f"`npm {' '.join(words)}` failed in {FRONTEND}; its message stands above.")


def sources() -> Iterator[Path]:
    """All that the built page depends on."""
    for path in sorted(FRONTEND.rglob("*")):
        inside = path.relative_to(FRONTEND).parts
        ours = not NOT_SOURCES & set(inside) and not path.name.startswith(".")
        if ours and path.is_file() and ".test." not in path.name and path.suffix != ".md":
            yield path


def digest(paths: Iterator[Path] | list[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        total.update(f"{path.relative_to(FRONTEND).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


def stamp_of(folder: Path) -> str | None:
    try:
        return (folder / STAMP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def main(words: list[str]) -> None:
    commands: dict[str, Callable[[], object]] = {
        "check": check,
        "modules": install_modules,
        "dist": build_dist,
        "checkout": lambda: copy_page(ROOT),
    }
    try:
        commands[words[0] if words else "dist"]()
    except BuildError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(sys.argv[1:])
