"""Makes Python's own file functions work on copies, in this process and those that it forks.

Native code is not affected; the holds that use this (`landlock.py`, `refusal.py`) have to restrict it.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from functools import partial, wraps
from typing import Any

from tb_netdebug.experiments.rehearsal.copies import Copies, real
from tb_netdebug.training.zero_code.first_import import when_imported

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Functions for which there is no copy to work on.
REFUSED = ("mkfifo", "mknod", "setxattr", "removexattr", "chroot", "lchown", "chflags", "lchflags")
# Modules that hold a reference to `open` under a name of their own.
KEPT = (("bz2", "_builtin_open"), ("tarfile", "bltn_open"), ("tokenize", "_builtin_open"))
# Functions that pass a path to native code, by the module whose import is awaited: (attribute, position of
# the path, its keyword, whether the path is written).
NATIVE = {
    "torch": [("save", 1, "f", True)],
    "safetensors.torch": [("save_file", 1, "filename", True), ("load_file", 0, "filename", False)],
    "safetensors.numpy": [("save_file", 1, "filename", True), ("load_file", 0, "filename", False)],
    "sqlite3": [("connect", 0, "database", True)],
}


def redirect(copies: Copies) -> None:
    """Redirect the file functions until the end of the process."""
    files = Files(copies)
    builtins.open = io.open = files.open
    for name in Files.NAMES:
        setattr(os, name, getattr(files, name))
    vars(os)["open"] = files.open_descriptor
    for module, name in KEPT:
        if module in sys.modules:
            setattr(sys.modules[module], name, files.open)
    for name in REFUSED:
        if hasattr(os, name):
            setattr(os, name, partial(refuse, f"os.{name}"))
    # rmtree must use paths: calls relative to a descriptor bypass us.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # private
    tempfile.tempdir = os.environ["TMPDIR"] = copies.temporary
    for module, functions in NATIVE.items():
        when_imported(module, partial(map_paths, copies, module, functions))
    when_imported("h5py", partial(map_h5py, copies))


def refuse(what: str, *_: Any, **__: Any) -> Any:
    """Raise PermissionError for an operation that cannot be redirected."""
    raise PermissionError(errno.EPERM, f"NetDebug does not let the script call {what} here")


class Files:
    """The replacements of `open` and of the functions of `os` that take paths."""

    NAMES = (
        "access", "chdir", "chmod", "chown", "getcwd", "getcwdb", "link", "listdir", "lstat", "mkdir",
        "readlink", "remove", "rename", "replace", "rmdir", "scandir", "stat", "statvfs", "symlink",
        "truncate", "unlink", "utime",
    )  # fmt: skip

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._open = builtins.open

    # ---- opening -----------------------------------------------------------------------------------------

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Replace the built-in `open`."""
        # An opener calls os.open, which is redirected itself.
        if isinstance(file, int) or "opener" in kwargs:
            return self._open(file, mode, *args, **kwargs)
        if not set(mode) & set("wax+"):
            return self._open(self._copies.seen(file), mode, *args, **kwargs)
        place = self._copies.absolute(file)
        target = self._copies.written(file, keep="w" not in mode, new="x" in mode)
        # The mark of deletion goes after the open has succeeded.
        opened = self._open(target, mode, *args, **kwargs)
        self._copies.made(place)
        return opened

    def open_descriptor(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Replace `os.open`."""
        path = at(path, dir_fd)
        if not flags & WRITING or flags & os.O_DIRECTORY:
            return int(real.open(self._copies.seen(path), flags, mode))
        is_new = flags & os.O_EXCL and flags & os.O_CREAT
        place = self._copies.absolute(path)
        target = self._copies.written(path, keep=not flags & os.O_TRUNC, new=bool(is_new))
        descriptor = int(real.open(target, flags, mode))
        self._copies.made(place)
        return descriptor

    # ---- reading -----------------------------------------------------------------------------------------

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Any:
        if isinstance(path, int):
            return real.stat(path)
        place = self._copies.seen(at(path, dir_fd), follow=follow_symlinks)
        return named(path, real.stat, place, follow_symlinks=follow_symlinks)

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> Any:
        return self.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def statvfs(self, path: Any) -> Any:
        return real.statvfs(path if isinstance(path, int) else self._copies.seen(path))

    def access(self, path: Any, mode: int, *, dir_fd: int | None = None, **kwargs: Any) -> Any:
        return real.access(self._copies.seen(at(path, dir_fd)), mode, **kwargs)

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> Any:
        found = named(path, real.readlink, self._copies.seen(at(path, dir_fd), follow=False))
        return os.fsencode(found) if isinstance(path, bytes) else found

    def listdir(self, path: Any = ".") -> Any:
        if isinstance(path, int):
            path = at(".", path)
        names = named(path, self._copies.names, path)
        return [os.fsencode(each) for each in names] if isinstance(path, bytes) else names

    def scandir(self, path: Any = ".") -> Any:
        return Entries(self, path)

    def chdir(self, path: Any) -> None:
        named(path, real.chdir, at(".", path) if isinstance(path, int) else self._copies.seen(path))

    def getcwd(self) -> str:
        return self._copies.folder()

    def getcwdb(self) -> bytes:
        return os.fsencode(self._copies.folder())

    # ---- writing -----------------------------------------------------------------------------------------

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        path = at(path, dir_fd)
        target = self._copies.written(path, follow=False, new=True)
        named(path, real.mkdir, target, mode)

    def symlink(self, src: Any, dst: Any, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        dst = at(dst, dir_fd)
        real.symlink(src, self._copies.written(dst, follow=False, new=True))
        self._copies.made(self._copies.absolute(dst, follow=False))

    def link(self, src: Any, dst: Any, **_: Any) -> None:
        target = self._copies.written(dst, follow=False, new=True)
        real.link(self._copies.written(src, follow=False), target)
        self._copies.made(self._copies.absolute(dst, follow=False))

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        path = at(path, dir_fd)
        place = self._copies.seen(path, follow=False)
        if stat.S_ISDIR(named(path, real.lstat, place).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        self._copies.remove(path, real.unlink)

    unlink = remove

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        path = at(path, dir_fd)
        if named(path, self._copies.names, path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fspath(path))
        self._copies.remove(path, real.rmdir)

    def rename(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        src, dst = at(src, src_dir_fd), at(dst, dst_dir_fd)
        source = self._copies.absolute(src, follow=False)
        status = named(src, real.lstat, self._copies.real_place(source))
        if stat.S_ISDIR(status.st_mode):
            for name in self.listdir(source):
                self._bring(os.path.join(source, name))
        copy = self._copies.written(src, follow=False)
        named(dst, real.rename, copy, self._copies.written(dst, keep=False, follow=False))
        self._copies.made(self._copies.absolute(dst, follow=False))
        self._copies.mark(source)

    replace = rename

    def _bring(self, place: str) -> None:
        """Copy everything in a folder, since a renamed folder moves as a whole."""
        copy = self._copies.written(place, follow=False)
        if os.path.isdir(copy) and not os.path.islink(copy):
            for name in self.listdir(place):
                self._bring(os.path.join(place, name))

    def truncate(self, path: Any, length: int) -> None:
        real.truncate(path if isinstance(path, int) else self._copies.written(path), length)

    def chmod(self, path: Any, mode: int, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        real.chmod(path if isinstance(path, int) else self._changed(path, dir_fd), mode, **kwargs)

    def chown(self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        real.chown(path if isinstance(path, int) else self._changed(path, dir_fd), uid, gid, **kwargs)

    def utime(self, path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> None:
        real.utime(path if isinstance(path, int) else self._changed(path, dir_fd), *args, **kwargs)

    def _changed(self, path: Any, dir_fd: int | None) -> str:
        """Return the copy of a path whose mode, owner or times are about to change."""
        path = at(path, dir_fd)
        named(path, real.lstat, self._copies.seen(path))
        return self._copies.written(path)


class Entries:
    """The replacement for the iterator of os.scandir."""

    def __init__(self, files: Files, path: Any) -> None:
        self._names = iter(files.listdir(path))
        self._files = files
        self._path = "." if isinstance(path, int) else path

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FolderEntry]:
        return self

    def __next__(self) -> FolderEntry:
        return FolderEntry(self._files, os.path.join(os.fspath(self._path), next(self._names)))

    def close(self) -> None:
        self._names = iter(())


class FolderEntry:
    """The replacement for os.DirEntry; it caches nothing."""

    def __init__(self, files: Files, path: Any) -> None:
        self._files = files
        self.path = path
        self.name = os.path.basename(path)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        return self._files.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return int(self.stat(follow_symlinks=False).st_ino)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        return False

    def _is(self, kind: Any, follow_symlinks: bool) -> bool:
        try:
            return bool(kind(self.stat(follow_symlinks=follow_symlinks).st_mode))
        except OSError:
            return False


def at(path: Any, dir_fd: int | None) -> Any:
    """Return a path relative to an open folder as a path with the name of that folder."""
    if dir_fd is None or os.path.isabs(path):
        return path
    return os.path.join(os.fsdecode(real.readlink(f"/proc/self/fd/{dir_fd}")), os.fsdecode(path))


def named(path: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the function; an OSError names the path that the script has given, not that of the copy."""
    try:
        return function(*args, **kwargs)
    except OSError as error:
        if error.filename is not None and not isinstance(path, int):
            error.filename = os.fspath(path)
        raise


# ---- libraries that open files natively ------------------------------------------------------------------


def map_paths(copies: Copies, module: str, functions: list[tuple[str, int, str, bool]]) -> None:
    """Wrap the native functions of a module that was just imported."""
    for name, place, keyword, is_written in functions:
        function = getattr(sys.modules[module], name)
        setattr(sys.modules[module], name, mapped(copies, function, place, keyword, is_written))


def mapped(copies: Copies, function: Any, place: int, keyword: str, is_written: bool) -> Any:
    """Return the function with its path argument replaced by that of the copy."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get(keyword, args[place] if len(args) > place else None)
        if isinstance(given, str | bytes | os.PathLike) and os.fspath(given) not in ("", ":memory:"):
            found = place_for(copies, given, is_written)
            if keyword in kwargs:
                kwargs[keyword] = found
            else:
                args = (*args[:place], found, *args[place + 1 :])
        return function(*args, **kwargs)

    return call


def place_for(copies: Copies, path: Any, is_written: bool) -> str:
    if not is_written:
        return copies.seen(path)
    found = copies.written(path)
    copies.made(copies.absolute(path))
    return found


def map_h5py(copies: Copies) -> None:
    file_class = sys.modules["h5py"].File
    begin = file_class.__init__

    @wraps(begin)
    def init(file: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
        if isinstance(name, str | bytes | os.PathLike):
            name = place_for(copies, name, mode != "r")
        begin(file, name, mode, *args, **kwargs)

    file_class.__init__ = init
