"""Prints where the code grows: lines a folder, files over 400 lines, functions over 50. It never fails."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tb_netdebug", "frontend", "tests", "demo", "bench", "zoo", "tools")
SUFFIXES = {".py", ".c", ".h", ".ts", ".tsx", ".css", ".proto"}
NOT_OURS = {"node_modules", "dist", "build", "__pycache__", "work"}
LONG_FILE = 400
LONG_FUNCTION = 50


def main() -> None:
    sizes = {path: len(text.splitlines()) for path, text in sources()}
    folders: dict[str, list[int]] = defaultdict(list)
    for path, lines in sizes.items():
        folders[folder_of(path)].append(lines)
    print(f"size: {sum(sizes.values())} lines in {len(sizes)} files")
    for folder, files in sorted(folders.items()):
        print(f"  {folder:<24}{sum(files):>7} lines in {len(files):>3} files, the longest {max(files):>4}")
    report("files over 400 lines", [(n, name(path)) for path, n in sizes.items() if n > LONG_FILE])
    report("functions over 50 lines", [row for path in sizes for row in long_functions(path)])


def sources() -> Iterator[tuple[Path, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            generated = "_pb2" in path.name or NOT_OURS & set(path.relative_to(ROOT).parts)
            if path.suffix in SUFFIXES and path.is_file() and not generated:
                yield path, path.read_text(encoding="utf-8")


def folder_of(path: Path) -> str:
    """At most two levels deep: `tb_netdebug/core/stats/native` counts as `tb_netdebug/core/stats`."""
    return "/".join(path.relative_to(ROOT).parent.parts[:2])


def long_functions(path: Path) -> Iterator[tuple[int, str]]:
    functions = {".py": python_functions, ".c": c_functions}.get(path.suffix)
    for title, first, last in functions(path.read_text(encoding="utf-8")) if functions else ():
        if last - first >= LONG_FUNCTION:
            yield last - first + 1, f"{name(path)}:{first} {title}"


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def c_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Good enough for our layout: the name stands at the margin, and so does the closing brace."""
    title, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if opening := re.match(r"\w[\w\s*]*?(\w+)\(", line):
            title, first = opening[1], number
        elif line == "}" and title:
            yield title, first, number
            title = ""


def report(title: str, rows: list[tuple[int, str]]) -> None:
    print(f"  {title}: {len(rows) or 'none'}")
    for lines, where in sorted(rows, reverse=True):
        print(f"    {lines:>5}  {where}")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    main()
