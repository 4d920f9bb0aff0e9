"""What may import what: the folders are stages, and data flows one way."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tb_netdebug

PACKAGE = Path(tb_netdebug.__file__).parent
KERAS = PACKAGE / "frameworks/keras"
BACKENDS = KERAS / "backends"
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "tensorboard", "grpc"}
STARTING_THINGS = {"threading", "socket", "subprocess", "multiprocessing", "asyncio", "concurrent"}
# What the modules of a room may import of the package, lazily or not; each room knows those above it alone,
# and all know the version. A module belongs to the room with the longest name that fits, or is one by itself.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "core.stats": set(),
    "core.records": {"core.stats"},
    "core.machine": set(),
    "core.eventlog": {"core", "core.stats", "core.records"},
    "checks": {"core.stats", "core.records"},
    "checks.wording": {"core.records", "checks"},
    "checks.evidence": {"core.records", "checks", "checks.wording"},
    "checks.rules": {"core.stats", "core.records", "checks", "checks.wording", "checks.evidence"},
    "checks.engine": {"core.stats", "core.records", "checks", "checks.wording", "checks.rules"},
    "checks.finding_error": {"checks", "checks.wording"},
    "transport": {"core.records", "core.machine", "core.eventlog"},
    "debugger": {"core.stats"},
    "debugger.tensors": {"core.stats", "core.records", "debugger"},
    "debugger.protocol": {"core.records", "debugger", "debugger.tensors"},
    "debugger.trainer": {"core", "core.stats", "debugger", "debugger.tensors", "debugger.protocol"},
    "debugger.hub": {"core.records", "debugger", "debugger.protocol", "debugger.trainer"},
    "debugger.client": {"core.records", "transport", "debugger.protocol", "debugger.hub"},
    "recording": {
        "core", "core.stats", "core.records", "core.machine", "core.eventlog", "checks", "checks.wording",
        "transport", "debugger",
    },
    "frameworks": set(),
    "frameworks.torch": {
        "core", "core.stats", "core.records", "core.machine", "checks", "checks.finding_error", "debugger",
        "debugger.trainer", "recording",
    },
    "frameworks.keras": {
        "core.stats", "core.records", "core.machine", "checks", "checks.finding_error", "debugger",
        "debugger.tensors", "recording", "frameworks.torch",
    },
    "judging": {
        "core.stats", "core.records", "core.eventlog", "checks", "checks.wording", "checks.evidence",
        "checks.engine", "checks.finding_error",
    },
    "training": {
        "core", "core.stats", "core.records", "core.machine", "core.eventlog", "checks", "checks.wording",
        "checks.finding_error", "transport", "debugger", "debugger.tensors", "debugger.trainer", "recording",
        "frameworks.torch", "judging",
    },
    "integrations": {
        "core.eventlog", "checks", "checks.wording", "checks.rules", "checks.finding_error", "recording",
        "frameworks.torch", "frameworks.keras", "judging", "training",
    },
    "experiments": {"core", "recording", "frameworks.torch", "training", "integrations"},
    "viewer": {"core.records", "core.eventlog", "transport", "debugger.protocol", "debugger.hub", "judging"},
    "cli": {
        "core", "core.stats", "core.records", "core.machine", "core.eventlog", "checks", "checks.wording",
        "checks.rules", "checks.engine", "transport", "debugger.protocol", "debugger.client", "recording",
        "frameworks.torch", "judging", "training", "experiments",
    },
}  # fmt: skip
# The package itself, and `python -m tb_netdebug`: names of what users type, imported when they are used.
DOORS = {"tb_netdebug.__init__", "tb_netdebug.__main__", "tb_netdebug.version"}
ROOM_NAMES = list(ROOMS)
FORBIDDEN = {
    "core.stats": FRAMEWORKS | STARTING_THINGS,
    "core.records": FRAMEWORKS | STARTING_THINGS,
    "core.eventlog": FRAMEWORKS,
    "checks": FRAMEWORKS | STARTING_THINGS,
    "debugger": FRAMEWORKS,
    "recording": FRAMEWORKS,
    "judging": FRAMEWORKS | STARTING_THINGS,
    "viewer": FRAMEWORKS - {"tensorboard"},
}
# All of ours that is loaded while TensorBoard starts; the rest waits for the first request.
OURS_AT_START = {
    "tb_netdebug",
    "tb_netdebug.core",
    "tb_netdebug.core.start_folder",
    "tb_netdebug.version",
    "tb_netdebug.viewer",
    "tb_netdebug.viewer.plugin",
    "tb_netdebug.viewer.plugin.loader",
    "tb_netdebug.viewer.plugin.tab",
}
# Where the pure folders read a file after all: which OpenMP runtime this process has loaded.
READ_ON_PURPOSE = {("core/stats/kernel.py", "open")}
HARMLESS_ORIGINS = {"from __future__", "from typing"}
READING_AND_WRITING = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "tofile"}


def modules(folder: str = "") -> list[Path]:
    return sorted(path for path in (PACKAGE / folder).rglob("*.py") if "_pb2" not in path.name)


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere, with its full dotted name."""
    package = ["tb_netdebug", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def roots(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def offenders(folder: str, names: set[str]) -> list[str]:
    return [
        f"{path.relative_to(PACKAGE)} imports {', '.join(found)}"
        for path in modules(folder)
        if (found := sorted(roots(path) & names))
    ]


def test_importing_the_package_imports_nothing_heavy(run_python: Callable[..., str]) -> None:
    """`import tb_netdebug` costs no framework, whatever is installed."""
    code = f"import sys, tb_netdebug; print(*(name for name in {sorted(FRAMEWORKS)} if name in sys.modules))"
    assert "" == run_python(code).strip()


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_a_stage_imports_only_what_its_task_needs(folder: str) -> None:
    """No stage knows a framework, and the pure ones start nothing and talk to nobody."""
    assert [] == offenders(folder.replace(".", "/"), FORBIDDEN[folder])


def room_of(module: str) -> str | None:
    """Return the room of a module by its full name."""
    inner = module.removeprefix("tb_netdebug.")
    return max((each for each in ROOMS if f"{inner}.".startswith(f"{each}.")), key=len, default=None)


def name_of(path: Path) -> str:
    return ".".join(("tb_netdebug", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_every_module_has_a_room() -> None:
    """A new folder needs a line in the table, and a line needs a folder."""
    names = {name_of(path) for path in modules()}
    assert DOORS == {each for each in names if room_of(each) is None}
    assert set(ROOMS) == {room_of(each) for each in names} - {None}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_only_those_above_it(room: str) -> None:
    """So there is no cycle between packages."""
    assert set() == ROOMS[room] - set(ROOM_NAMES[: ROOM_NAMES.index(room)])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_line_says(room: str) -> None:
    """Nothing else, lazily or not, nor for types alone."""
    allowed = {room, *ROOMS[room]}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules(room.split(".")[0])
        if room_of(name_of(path)) == room
        for name in imported(path)
        if name.startswith("tb_netdebug.")
        and not name.startswith("tb_netdebug.version")
        and (target := room_of(name)) is not None
        and target not in allowed
    ]
    assert [] == wrong


@pytest.mark.parametrize("folder", ["core/stats", "core/records", "checks"])
def test_the_pure_folders_touch_no_file(folder: str) -> None:
    """Numbers, records and rules do no input and output."""
    wrong = [
        f"{name}:{node.lineno} calls {called}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (called := getattr(node.func, "id", getattr(node.func, "attr", ""))) in READING_AND_WRITING
        and ((name := path.relative_to(PACKAGE).as_posix()), called) not in READ_ON_PURPOSE
    ]
    assert [] == wrong


def test_only_the_torch_modules_import_torch() -> None:
    """torch is known to `frameworks/torch/`, to Keras on torch and to the integrations, to nobody else."""
    wrong = [
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if "torch" in roots(path)
        and path.relative_to(PACKAGE).parts[0] != "integrations"
        and not path.is_relative_to(PACKAGE / "frameworks/torch")
        and not path.name.endswith("on_torch.py")
    ]
    assert [] == wrong


def test_only_the_keras_modules_import_keras() -> None:
    """Keras is known to `frameworks/keras/` and the integrations, to nobody else;
    TensorFlow not to Keras's other backends, and JAX to them alone."""
    wrong = [
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if (used := roots(path) & {"tensorflow", "keras", "jax"})
        and not (path.relative_to(PACKAGE).parts[0] == "integrations" and "jax" not in used)
        and not (path.is_relative_to(KERAS) and not path.is_relative_to(BACKENDS) and "jax" not in used)
        and not (path.is_relative_to(BACKENDS) and "tensorflow" not in used)
    ]
    assert [] == wrong


def test_only_the_stream_imports_grpc() -> None:
    """A gRPC thread in a training process kills forked workers, so nobody else may import it."""
    wrong = [path for path in modules() if "grpc" in roots(path) and path.parent != PACKAGE / "transport"]
    assert [] == wrong


def test_the_writer_runs_without_frameworks(run_python: Callable[..., str]) -> None:
    """Importing every module of writer, reader, records and stats loads no framework."""
    names = [
        name_of(path)
        for folder in ("core/stats", "core/records", "core/eventlog")
        for path in modules(folder)
        if path.stem != "__init__"
    ]
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        f"print(*(name for name in {sorted(FRAMEWORKS)} if name in sys.modules))"
    )
    assert "" == run_python(code).strip()


def test_tensorboard_imports_next_to_nothing_at_its_start(run_python: Callable[..., str]) -> None:
    """The entry point loads what TensorBoard has loaded anyway and a few small modules, the tab included."""
    code = (
        "import sys\nfrom tensorboard import default\nfrom tensorboard.plugins import base_plugin\n"
        "before = set(sys.modules)\nfrom tb_netdebug.viewer.plugin.loader import NetDebugLoader\n"
        "plugin = NetDebugLoader().load(base_plugin.TBContext())\n"
        "plugin.get_plugin_apps(), plugin.is_active()\n"
        "plugin.frontend_metadata(), plugin.data_plugin_names()\n"
        "print(plugin.plugin_name, *sorted(set(sys.modules) - before))"
    )
    name, *modules = run_python(code).split()
    assert "netdebug" == name
    assert set() == set(modules) - OURS_AT_START


def test_the_entry_point_imports_nothing_that_can_fail() -> None:
    """An error while it is imported would keep TensorBoard from starting: the standard library, and the base
    class that TensorBoard itself has loaded."""
    tree = ast.parse((PACKAGE / "viewer/plugin/loader.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert {"import logging", "from tensorboard.plugins import base_plugin"} == {
        text
        for node in imports
        if (text := ast.unparse(node)).partition(" import ")[0] not in HARMLESS_ORIGINS
    }


def test_the_plugin_works_without_frameworks(run_python: Callable[..., str]) -> None:
    """TensorBoard is often installed beside neither torch nor TensorFlow."""
    names = [name_of(path) for path in modules("viewer") if path.stem != "__init__"]
    code = (
        "import importlib, sys\n"
        "for name in ('torch', 'tensorflow', 'keras', 'grpc'): sys.modules[name] = None\n"
        f"for name in {names}: importlib.import_module(name)\nprint('fine')"
    )
    assert "fine" == run_python(code).strip()


def test_one_module_makes_json_for_the_page() -> None:
    """NaN and infinities are handled in one place; the stand-in needs to work without it."""
    makers = [
        path.name
        for path in modules("viewer/plugin")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("dumps", "JSONEncoder", "jsonify")
    ]
    assert {"stand_in.py", "wire.py"} == set(makers)


def test_exported_names_are_sorted_and_importable() -> None:
    """`__all__` is in order, holds no name twice, and each name is really there."""
    exported: list[str] = list(getattr(tb_netdebug, "__all__", ()))
    assert sorted(set(exported)) == exported
    module = importlib.import_module("tb_netdebug")
    assert [] == [name for name in exported if not hasattr(module, name)]
