"""Files that peers write: names are checked, links lead nowhere, and every byte is there once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.writer.event_file import file_name
from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.places import Destination, RefusedFile, place_of, run_of
from tb_netdebug.transport.received_files import MOST_SET_ASIDE, LandedFile, ReceivedFiles
from tests.support.stream_peer import MAIN_NAME

SIDE_NAME = "rank3.1700000000.host.1.0000.netdebug"
PLACE = Destination(("run",), MAIN_NAME)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What nobody may change: a folder with a file, beside the root."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / MAIN_NAME).write_bytes(b"precious")
    return folder


def landed(root: Path, place: Destination = PLACE) -> LandedFile:
    return ReceivedFiles(root).open(place)


def refused(root: Path, place: Destination = PLACE) -> str:
    with pytest.raises(RefusedFile) as caught:
        landed(root, place)
    return str(caught.value)


# ---- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [("a",), ("2026-11-19", "lr=0.1"), ("x" * 200,), ("é" * 100,), ("...",), ("a b",), ("-rf",), ("~",)],
)
def test_names_of_runs(run: tuple[str, ...]) -> None:
    """What a folder may be called, a run may."""
    assert run == run_of(run, Limits())


@pytest.mark.parametrize(
    "run",
    [
        (), ("",), (".",), ("..",), ("a", ".."), ("a", "", "b"), ("/etc",), ("a/b",), ("a\\b",), ("a\0",),
        ("a\nb",), ("\x1b[31m",), ("a\x7f",), ("a\u2028",), ("\x85",), ("x" * 201,), ("é" * 101,),
        ("a",) * 17,
    ],
)  # fmt: skip
def test_names_that_no_run_has(run: tuple[str, ...]) -> None:
    """Nothing that leaves the root, hides in a terminal or is longer than a disk takes."""
    with pytest.raises(RefusedFile) as caught:
        run_of(run, Limits())
    assert not caught.value.for_now


def test_the_names_that_writers_make() -> None:
    """Each in its own folder, and in that one alone."""
    for rank, is_aside in ((0, False), (3, True), (9999, True)):
        name = file_name(rank)
        assert name == place_of(("run",), name, in_side_folder=is_aside).name
        with pytest.raises(RefusedFile):
            place_of(("run",), name, in_side_folder=not is_aside)
    assert ("run", "plugins", "netdebug") == place_of(("run",), SIDE_NAME, in_side_folder=True).folders
    place_of(("run",), SIDE_NAME.replace("rank", "agent"), in_side_folder=True)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "events.out.tfevents.netdebug", "../" + MAIN_NAME, MAIN_NAME + "\n", MAIN_NAME + "/x",
        MAIN_NAME.replace(".netdebug", ""), MAIN_NAME.replace("host", "a/b"), MAIN_NAME.replace("host", ".."),
        MAIN_NAME.replace("host", "h" * 65), MAIN_NAME.replace("1700000000", "١٧٠٠٠٠٠٠٠٠"), ".bashrc",
        "events.out.tfevents.1700000000.host", "x" * 10_000,
    ],
)  # fmt: skip
def test_names_that_no_writer_makes(name: str) -> None:
    """Only files of ours come into a logdir, never somebody's configuration."""
    for is_aside in (False, True):
        with pytest.raises(RefusedFile):
            place_of(("run",), name, in_side_folder=is_aside)


@given(st.lists(st.text(max_size=300), max_size=20), st.text(max_size=100))
def test_no_text_is_a_way_out(run: list[str], name: str) -> None:
    """Whatever comes is refused, or stays below the root."""
    try:
        place = place_of(run_of(run, Limits()), name, in_side_folder=False)
    except RefusedFile:
        return
    joined = os.path.normpath(os.path.join("/root", *place.folders, place.name))  # noqa: PTH118
    assert joined.startswith("/root/")
    assert joined.count("/") == len(place.folders) + 2


# ---- links -----------------------------------------------------------------------------------------------


def test_a_link_in_the_place_of_a_run(root: Path, outside: Path) -> None:
    """A folder elsewhere is not written to, and not even a file is made there."""
    root.mkdir()
    (root / "run").symlink_to(outside)
    assert "is a link" in refused(root)
    (root / "deep").mkdir()
    (root / "deep/plugins").symlink_to(outside)
    assert "is a link" in refused(root, Destination(("deep", "plugins", "netdebug"), SIDE_NAME))
    assert [MAIN_NAME] == [path.name for path in outside.iterdir()]
    assert b"precious" == (outside / MAIN_NAME).read_bytes()


@pytest.mark.parametrize("kind", ["link", "hard link", "dangling link", "folder", "pipe"])
def test_something_else_in_the_place_of_the_file(root: Path, outside: Path, kind: str) -> None:
    """Only an ordinary file that has no other name is appended to; nobody waits at a pipe."""
    (root / "run").mkdir(parents=True)
    path = root / "run" / MAIN_NAME
    if kind == "link":
        path.symlink_to(outside / MAIN_NAME)
    elif kind == "hard link":
        path.hardlink_to(outside / MAIN_NAME)
    elif kind == "dangling link":
        path.symlink_to(outside / "new")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert MAIN_NAME in refused(root)
    assert [MAIN_NAME] == [path.name for path in outside.iterdir()]
    assert b"precious" == (outside / MAIN_NAME).read_bytes()


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    """It is the user's own choice, made here and not by a peer."""
    (tmp_path / "disk").mkdir()
    root.symlink_to(tmp_path / "disk")
    landed(root).close()
    assert (tmp_path / "disk/run" / MAIN_NAME).is_file()


# ---- bytes -----------------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 220), st.integers(0, 220)), max_size=30))
def test_every_byte_once(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, cuts: list[tuple[int, int]]
) -> None:
    """In whatever pieces it comes, twice or with gaps: the file is always the front of what was sent."""
    file = landed(tmp_path_factory.mktemp("landing"))
    have = 0
    for offset, size in cuts:
        piece = whole[offset : offset + size]
        try:
            file.append(offset, piece)
        except RefusedFile:
            assert offset > have
        else:
            assert offset <= have
            have = max(have, offset + len(piece))
        assert have == file.sync()
    assert (have, google_crc32c.value(whole[:have])) == file.tail_checksum(have, 1000)
    file.close()


def test_going_on_after_an_end(root: Path) -> None:
    """Whoever opens the file again sees what is there, and adds to it."""
    first = landed(root)
    first.append(0, b"one")
    first.close()
    second = landed(root)
    assert (3, google_crc32c.value(b"one")) == second.tail_checksum(second.sync(), 1 << 20)
    assert (2, google_crc32c.value(b"ne")) == second.tail_checksum(3, 2)
    second.append(3, b"two")
    second.close()
    assert b"onetwo" == (root / "run" / MAIN_NAME).read_bytes()


def test_the_logdir_of_the_trainer_itself(root: Path) -> None:
    """Where collector and trainer share a folder, the trainer's file is acknowledged, never written to."""
    file = landed(root)
    path = root / "run" / MAIN_NAME
    with path.open("ab", buffering=0) as own:
        for piece in (b"one", b"two", b"three"):
            before = path.stat().st_size
            own.write(piece)
            file.append(before, piece)
    assert (11, b"onetwothree") == (file.sync(), path.read_bytes())
    file.close()


def test_one_sender_for_a_file(root: Path) -> None:
    """Who comes second is told to try later; the first one's end makes room."""
    first = landed(root)
    assert "Another agent" in refused(root)
    first.close()
    landed(root).close()


def test_a_damaged_copy_is_set_aside(root: Path) -> None:
    """To begin anew deletes nothing, leaves no name that a reader would take for a run, and has an end."""
    for number in range(MOST_SET_ASIDE):
        file = ReceivedFiles(root).open(PLACE, restart=number > 0)
        file.append(0, f"copy {number}".encode())
        file.close()
    ReceivedFiles(root).open(PLACE, restart=True).close()
    with pytest.raises(RefusedFile, match="the limit"):
        ReceivedFiles(root).open(PLACE, restart=True)
    aside = sorted(path for path in (root / "run").iterdir() if path.name != MAIN_NAME)
    assert [f"copy {number}".encode() for number in range(MOST_SET_ASIDE)] == [x.read_bytes() for x in aside]
    assert not [path for path in aside if "tfevents" in path.name or path.name.endswith(".netdebug")]


def test_a_file_that_was_deleted(root: Path) -> None:
    """It is not written to for nobody: the agent is told, and sends all of it again."""
    file = landed(root)
    file.append(0, b"one")
    (root / "run" / MAIN_NAME).unlink()
    with pytest.raises(RefusedFile, match="deleted") as caught:
        file.sync()
    assert caught.value.for_now
    file.close()


def test_closing_while_others_append(root: Path) -> None:
    """No byte ever reaches another file that has got the same descriptor since."""
    for number in range(20):
        file = landed(root, Destination((f"run{number}",), MAIN_NAME))
        thread = threading.Thread(target=append_until_closed, args=(file,))
        thread.start()
        file.sync()
        file.close()
        others = [landed(root, Destination((f"other{number}", str(each)), MAIN_NAME)) for each in range(3)]
        thread.join()
        for other in others:
            assert 0 == other.sync()
            other.close()


def append_until_closed(file: LandedFile) -> None:
    at = 0
    while True:
        try:
            file.append(at, b"x")
        except RefusedFile:
            return
        at += 1
