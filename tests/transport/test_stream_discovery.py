"""How trainers find the collector of their own user on the same machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tb_netdebug.transport import discovery

SECRET = "s3cret-" * 5


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "netdebug"


def test_a_collector_is_found(runtime: Path) -> None:
    """By its port, by its own user, as long as its process lives."""
    path = discovery.publish(6007, SECRET, "/logs", tls="ab")
    assert (0o700, 0o600) == (runtime.stat().st_mode & 0o777, path.stat().st_mode & 0o777)
    found = discovery.find(6007)
    assert found is not None
    assert (6007, SECRET, os.getpid(), "/logs", "ab") == (
        found.port,
        found.token,
        found.pid,
        found.logdir,
        found.tls,
    )
    assert SECRET not in repr(found)
    assert discovery.find(6008) is None
    discovery.withdraw(path)
    assert discovery.find(6007) is None


def test_collectors_that_are_gone(runtime: Path) -> None:
    """Their files are removed, also when another process has got their number."""
    path = discovery.publish(6007, SECRET, "/logs")
    told = json.loads(path.read_text())
    for change in ({"pid": 2**22 - 1}, {"started": told["started"] - 100}):
        path.touch(0o600)
        path.write_text(json.dumps({**told, **change}))
        assert discovery.find(6007) is None
        assert not path.exists()


def test_files_that_are_not_ours(runtime: Path, tmp_path: Path) -> None:
    """Links, files that others can read, and nonsense count for nothing."""
    path = discovery.publish(6007, SECRET, "/logs")
    content = path.read_text()
    path.chmod(0o644)
    assert discovery.find(6007) is None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert discovery.find(6007) is None
    path.unlink()
    for nonsense in ("", "[]", "{}", content[:-10], content.replace("6007", '"x"'), "[" * 100_000, "\0"):
        path.touch(0o600)
        path.write_text(nonsense)
        assert discovery.find(6007) is None


def test_a_folder_that_others_could_write_to(runtime: Path) -> None:
    """No token is put there."""
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    with pytest.raises(OSError, match="open to other users"):
        discovery.publish(6007, SECRET, "/logs")
    runtime.rmdir()
    runtime.symlink_to(runtime.parent)
    with pytest.raises(OSError, match="not a folder"):
        discovery.publish(6007, SECRET, "/logs")
    assert [] == list(runtime.parent.rglob("*.json"))
