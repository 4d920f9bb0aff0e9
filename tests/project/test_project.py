"""How the package is built and set up: archive, wheel, pinned versions, the scripts behind make."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import tb_netdebug

ROOT = Path(__file__).resolve().parents[2]
BUILD_PYTHON = ROOT / ".venv-build/bin/python"
SHIPPED_FOLDERS = (
    "tb_netdebug",
    "tests",
    "tools",
    "requirements",
    "demo",
    "bench",
    "zoo",
    "docs",
    "frontend",
)
MADE_BY_TOOLS = re.compile(
    r"_pb2\.pyi?$|\.(so|pyc)$|node_modules/|^tb_netdebug/viewer/plugin/page/|^bench/work/|__pycache__/"
)


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What a command printed on both streams; it has to succeed."""
    ran = attempt(*command, env=env, cwd=cwd)
    assert 0 == ran.returncode, ran.stdout
    return ran.stdout


def attempt(
    *command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `make test` built its wheel from, or a new one where there is none."""
    made = sorted((ROOT / "build/dist").glob("*.tar.gz"))
    if os.environ.get("NETDEBUG_TEST_WHEEL") and made:
        return made[-1]
    assert BUILD_PYTHON.exists(), "the build tools are missing: run `make dev` or `make test` once"
    folder = tmp_path_factory.mktemp("sdist")
    run(BUILD_PYTHON, "-m", "build", "--no-isolation", "--sdist", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def wheel_without_compiler(source_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built where the compiler does not work."""
    folder = tmp_path_factory.mktemp("no-compiler")
    with tarfile.open(source_archive) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    source = next(folder.iterdir())
    pip = (BUILD_PYTHON, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source, env={"CC": "/bin/false"})
    return next(folder.glob("*.whl"))


def test_make_test_tests_the_installed_wheel() -> None:
    """Under `make test` the package comes from site-packages, so a file missing from the wheel is noticed."""
    place = Path(tb_netdebug.__file__).resolve()
    if os.environ.get("NETDEBUG_TEST_WHEEL"):
        assert "site-packages" in place.parts
        assert sys.flags.isolated
    else:
        assert place.name == "__init__.py"


def test_the_source_archive_carries_everything(source_archive: Path) -> None:
    """Whoever unpacks the archive has every file of the project, and of what tools made the page alone."""
    with tarfile.open(source_archive) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    files = [path for folder in SHIPPED_FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in ("Makefile", "LICENSE", "constraints.txt", ".ci/run", "CHANGELOG.md")]
    files += [ROOT / ".pre-commit-config.yaml"]
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    assert set() == {name for name in wanted if not MADE_BY_TOOLS.search(name)} - packed
    assert set() == {name for name in packed if MADE_BY_TOOLS.search(name)}


def test_the_installed_version_is_the_one_in_version_py() -> None:
    """The version is written once; the metadata of the installed package repeat it."""
    assert importlib.metadata.version("tb_netdebug") == tb_netdebug.__version__
    written = [name for name in ("setup.py", "pyproject.toml") if tb_netdebug.__version__ in read(name)]
    assert [] == written


def test_the_command_is_installed() -> None:
    """`netdebug` stands beside the Python that it was installed for."""
    command = Path(sys.executable).parent / "netdebug"
    assert f"netdebug {tb_netdebug.__version__}" == run(command, "--version").strip()


def test_a_wheel_built_without_a_compiler_has_no_machine_code(wheel_without_compiler: Path) -> None:
    """A compiler that fails costs the C modules, not the installation; the protobuf code is there."""
    with zipfile.ZipFile(wheel_without_compiler) as wheel:
        names = wheel.namelist()
    assert [] == [name for name in names if name.endswith((".so", ".pyd"))]
    assert "tb_netdebug/core/stats/twin.py" in names
    protos = [name for name in names if name.endswith(".proto")]
    assert [name.replace(".proto", "_pb2.py") for name in protos] == [
        n for n in names if n.endswith("_pb2.py")
    ]


def test_an_installation_without_a_compiler_works_and_says_so(
    wheel_without_compiler: Path, tmp_path: Path
) -> None:
    """The twin does the work, and `netdebug doctor` names what is missing and how to get it."""
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, "--target", site, wheel_without_compiler)
    env = {"PYTHONPATH": str(site), "NETDEBUG_KERNEL": ""}
    doctor = attempt(sys.executable, "-m", "tb_netdebug", "doctor", "--json", env=env, cwd=tmp_path)
    told = {f"{fact['topic']}/{fact['name']}": fact for fact in json.loads(doctor.stdout)["facts"]}
    assert 1 == doctor.returncode
    assert str(site) in told["machine/netdebug"]["value"]
    assert "problem" == told["kernel/in use"]["state"]
    assert "gcc" in told["kernel/in use"]["advice"]
    code = "from tb_netdebug.core.stats import kernel; print(len(kernel.summarize([(0, 0, 0)], 1)[0]))"
    assert "80" == run(sys.executable, "-c", code, env=env, cwd=tmp_path).strip()


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def package_names(requirements: str) -> set[str]:
    """The packages that a requirement file or a list of requirements names, in their canonical spelling."""
    lines = [line.strip() for line in requirements.splitlines()]
    found = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines if line and line[0] not in "#-"]
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


def test_every_version_is_pinned() -> None:
    """Whatever tests, demo and benchmarks ask for, and the package itself, gets one version."""
    asked = "\n".join(read(f"requirements/{name}.txt") for name in ("test", "demo", "bench"))
    asked += "\n" + "\n".join(importlib.metadata.requires("tb_netdebug") or [])
    pinned = read("constraints.txt")
    assert "tensorflow-cpu" in package_names(pinned)
    # The same with CUDA, and a store that no test can reach.
    assert {"tensorflow", "gcsfs"} == package_names(asked) - package_names(pinned)
    lines = [line for line in pinned.splitlines() if line and not line.startswith("#")]
    assert [] == [line for line in lines if "==" not in line]


def test_every_package_of_the_page_is_pinned() -> None:
    """Each has one version, with the parts for every platform, and no registry but npm's own is named."""
    packages = json.loads(read("frontend/package-lock.json"))["packages"]
    package = json.loads(read("frontend/package.json"))
    asked = package["dependencies"] | package["devDependencies"]
    assert asked == {name: packages[f"node_modules/{name}"]["version"] for name in asked}
    # `npm ci` refuses a lock file that lacks the package of some platform.
    parts = {part for each in packages.values() for part in each.get("optionalDependencies", {})}
    assert "@biomejs/cli-win32-x64" in parts
    assert set() == parts - {place.rpartition("node_modules/")[2] for place in packages}
    origins = {each["resolved"] for each in packages.values() if "resolved" in each}
    assert set() == {origin for origin in origins if not origin.startswith("https://registry.npmjs.org/")}


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml", "setup.py", "Makefile"])
def test_no_file_names_a_package_index(name: str) -> None:
    """Where packages come from is a setting of the machine."""
    assert None is re.search(r"index-url|find-links|trusted-host|pypi\.|download\.", read(name))


LEFTOVERS = """
import subprocess, threading
def test_thread():
    threading.Thread(target=threading.Event().wait, args=(3,), name="netdebug-forgotten").start()
def test_process():
    subprocess.Popen(["sleep", "3"])
def test_tidy():
    thread = threading.Thread(target=print, name="netdebug-tidy")
    thread.start()
    thread.join()
"""


def test_what_a_test_leaves_running_fails_it(tmp_path: Path) -> None:
    """A forgotten thread or process is an error of its own test, and a tidy test passes."""
    fixtures = read("tests/conftest.py").replace("GRACE_SECS = 5.0", "GRACE_SECS = 0.1")
    fixtures = fixtures.replace('pytest_plugins = ["tests.support.browser"]', "")
    (tmp_path / "conftest.py").write_text(fixtures, encoding="utf-8")
    (tmp_path / "test_leftovers.py").write_text(LEFTOVERS, encoding="utf-8")
    ran = attempt(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)
    assert "3 passed, 2 errors" in ran.stdout
    assert "netdebug-forgotten" in ran.stdout
    assert "sleep 3" in ran.stdout


def test_a_failed_step_shows_its_end_and_names_its_log(tmp_path: Path) -> None:
    """The last twenty lines are on the screen, all of them in the file, and the exit code is passed on."""
    log = tmp_path / "logs/step.log"
    step = attempt(ROOT / "tools/step", "Counting", log, "sh", "-c", "seq 100; exit 7")
    assert 7 == step.returncode
    assert "80" not in step.stdout.split()
    assert {"81", "100", str(log)} <= set(step.stdout.split())
    assert "100" == log.read_text(encoding="utf-8").split()[-1]


def test_a_step_that_works_takes_one_line(tmp_path: Path) -> None:
    """What a command prints stays in the log as long as all goes well."""
    assert 1 == len(run(ROOT / "tools/step", "Counting", tmp_path / "log", "seq", "100").splitlines())


def test_an_unusable_python_is_refused_by_name() -> None:
    """Whoever names a Python that does not start is told which one."""
    search = attempt(ROOT / "tools/find_python", env={"PYTHON": "/bin/false"})
    assert 1 == search.returncode
    assert "PYTHON=/bin/false" in search.stdout


def test_without_any_python_the_way_to_one_is_told(tmp_path: Path) -> None:
    """An old machine gets a sentence, not a stack trace."""
    search = attempt("/bin/sh", ROOT / "tools/find_python", env={"PATH": str(tmp_path), "PYTHON": ""})
    assert 1 == search.returncode
    assert "No Python 3.10 or newer was found" in search.stdout


def test_a_missing_compiler_is_told_before_anything_is_built() -> None:
    """The check looks at the compiler that the build would take."""
    check = attempt(ROOT / "tools/check_compiler", sys.executable, env={"CC": "/bin/false"})
    assert 1 == check.returncode
    assert "No C compiler" in check.stdout


def test_a_commit_is_checked_as_make_checks_it() -> None:
    """The hooks of pre-commit run the commands of `make lint` and `make page`, all of them and no others."""
    recipes = re.findall(r"^(?:lint|page):.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    made = " ".join(recipes).replace("$(RUN)", ".venv/bin/python")
    checks = re.findall(r"(?:\.venv/bin/python -m|npm --prefix) [^;\n]+", made)
    assert 5 == len(checks)
    assert checks == re.findall(r"^ +entry: (.+)$", read(".pre-commit-config.yaml"), re.MULTILINE)


def test_make_alone_lists_the_targets() -> None:
    """Nothing happens by surprise: the first target is the help."""
    listed = {line.split()[0] for line in run("make", "--no-print-directory").splitlines()[1:]}
    assert {"test", "demo", "bench", "dev", "lint", "clean", "help"} <= listed
