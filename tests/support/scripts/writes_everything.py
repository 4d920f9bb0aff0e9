"""Changes files in every way that a script has, reads back what it did, and prints what went well."""

import bz2
import glob
import json
import mmap
import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

place = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path.cwd()
outside = json.loads(os.environ["OUTSIDE"])  # more files that are not there yet


def new_file():
    (place / "new.txt").write_text("new")
    assert (place / "new.txt").read_text() == "new"
    assert "new.txt" in os.listdir(place)


def other_mounts():
    for name in outside:
        with open(name, "w") as file:
            file.write("there")
        assert open(name).read() == "there"


def relative():
    with open("relative.txt", "x") as file:
        file.write("r")
    assert os.path.exists(place / "relative.txt")
    try:
        open("relative.txt", "x")
    except FileExistsError:
        return
    raise AssertionError


def append():
    with open(place / "log.txt", "a") as file:
        file.write("more\n")
    assert (place / "log.txt").read_text() == "begin\nmore\n"


def through_a_link():
    (place / "link/inside.txt").write_text("through")
    assert (place / "folder/inside.txt").read_text() == "through"
    (place / "filelink").write_text("changed")
    assert (place / "linked.txt").read_text() == "changed"
    assert (place / "filelink").is_symlink()


def mapped():
    with open(place / "mapped.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:4] = b"MMAP"
    assert (place / "mapped.bin").read_bytes().startswith(b"MMAP0")


def truncated():
    os.truncate(place / "cut.txt", 2)
    assert (place / "cut.txt").read_text() == "to"
    with open(place / "cut2.txt", "r+") as file:
        file.truncate(1)
    assert os.stat(place / "cut2.txt").st_size == 1


def by_descriptor():
    folder = os.open(place / "folder", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("fd.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder)
    os.write(file, b"fd")
    os.close(file)
    os.rename("fd.txt", "fd2.txt", src_dir_fd=folder, dst_dir_fd=folder)
    os.unlink("a.txt", dir_fd=folder)
    os.close(folder)
    os.close(os.open(place / "keyword.txt", os.O_WRONLY | os.O_CREAT, mode=0o600))
    assert os.stat(place / "keyword.txt").st_mode & 0o777 == 0o600
    assert (place / "folder/fd2.txt").read_text() == "fd"
    assert not (place / "folder/fd.txt").exists()
    assert not (place / "folder/a.txt").exists()


def status():
    os.chmod(place / "mode.txt", 0o600)
    os.utime(place / "mode.txt", (1, 1))
    assert os.stat(place / "mode.txt").st_mode & 0o777 == 0o600
    assert os.stat(place / "mode.txt").st_mtime == 1


def remove():
    os.remove(place / "gone.txt")
    assert not (place / "gone.txt").exists()
    assert "gone.txt" not in os.listdir(place)
    try:
        open(place / "gone.txt")
    except FileNotFoundError:
        return
    raise AssertionError


def archives():
    with bz2.open(place / "packed.bz2", "wt") as file:
        file.write("packed")
    assert bz2.open(place / "packed.bz2", "rt").read() == "packed"
    with tarfile.open(place / "packed.tar", "w") as archive:
        archive.add(place / "log.txt", "log.txt")
    assert tarfile.open(place / "packed.tar").getnames() == ["log.txt"]


def tree():
    shutil.rmtree(place / "old")
    assert not os.path.exists(place / "old/deep/b.txt")
    os.makedirs(place / "old/deep")
    assert os.listdir(place / "old/deep") == []


def rename():
    os.rename(place / "before.txt", place / "after.txt")
    assert (place / "after.txt").read_text() == "renamed"
    assert not (place / "before.txt").exists()
    os.rename(place / "dir", place / "dir2")
    assert (place / "dir2/sub/c.txt").read_text() == "c"
    assert not (place / "dir").exists()
    (place / "tmpname").write_text("atomic")
    os.replace(place / "tmpname", place / "replaced.txt")
    assert (place / "replaced.txt").read_text() == "atomic"


def links():
    os.symlink("log.txt", place / "symbolic")
    assert os.readlink(place / "symbolic") == "log.txt"
    os.link(place / "mapped.bin", place / "hard")
    assert (place / "hard").exists()


def copies():
    shutil.copytree(place / "tree", place / "tree2")
    shutil.move(place / "tree2/d.txt", place / "moved.txt")
    assert (place / "moved.txt").read_text() == "d"
    assert sorted(os.path.basename(each) for each in glob.glob(f"{place}/tree2/*")) == ["e.txt"]
    assert {name for _, _, names in os.walk(place / "tree2") for name in names} == {"e.txt"}


def temporary():
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w+", dir=folder) as file:
        file.write("t")
    assert not os.path.exists(folder)


def child():
    process = multiprocessing.get_context("fork").Process(target=new_file)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert (place / "new.txt").read_text() == "new"


def database():
    for _ in range(2):
        with sqlite3.connect(place / "data.db") as connection:
            connection.execute("insert into t values (1)")
        connection.close()
    connection = sqlite3.connect(place / "data.db")
    assert connection.execute("select count(*) from t").fetchone() == (3,)
    connection.close()


def program():
    command = "echo sub > sub.txt && cat sub.txt && rm byprogram.txt && test ! -e byprogram.txt"
    assert (
        subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, check=True).stdout == b"sub\n"
    )
    assert (place / "sub.txt").read_text() == "sub\n"


def torch_file():
    import torch

    torch.save({"a": torch.ones(3)}, place / "ckpt.pt")
    assert torch.load(place / "ckpt.pt")["a"].sum() == 3
    torch.save({"a": torch.ones(3)}, str(place / "kept.pt"))
    assert torch.load(place / "kept.pt")["a"].sum() == 3


def hdf5():
    import h5py

    with h5py.File(place / "old.h5", "a") as file:
        file["more"] = [1.0, 2.0]
    with h5py.File(place / "old.h5", "r") as file:
        assert sorted(file) == ["more", "x"]
    with h5py.File(place / "new.h5", "w") as file:
        file["y"] = [3]


def tensors():
    import torch
    from safetensors.torch import load_file, save_file

    save_file({"a": torch.ones(2)}, place / "model.safetensors")
    assert load_file(place / "model.safetensors")["a"].sum() == 2


went_well = []
for work in (
    new_file, other_mounts, relative, append, through_a_link, mapped, truncated, by_descriptor, status,
    remove, archives, tree, rename, links, copies, temporary, child, database, program, torch_file, hdf5,
    tensors,
):  # fmt: skip
    try:
        work()
        went_well.append(work.__name__)
    except Exception as error:
        print(work.__name__, type(error).__name__, error, file=sys.stderr)
print(json.dumps(went_well), flush=True)
