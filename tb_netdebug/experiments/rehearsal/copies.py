"""A shadow of the file system: a folder that receives, file by file, what was to be written elsewhere.

`Copies.seen` returns where to read a path, `Copies.written` where to write it. A deleted file has a mark, so
that all processes that share the folder agree. `redirection.py` calls this for Python's file functions.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tb_netdebug.experiments.rehearsal.changes import FileChange

# Devices and kernel interfaces are not copied; shared memory below /dev/shm is ordinary files.
SPECIAL = ("/dev/", "/proc/", "/sys/")
NOT_SPECIAL = "/dev/shm/"
# The limit of Linux for symbolic links in one lookup.
MOST_LINKS = 40


class Originals:
    """The original functions of `os`, unaffected by the redirection of the module."""

    def __init__(self) -> None:
        self.__dict__.update(vars(os))

    def __getattr__(self, name: str) -> Any:  # only for type checkers: every name is in __dict__
        raise AttributeError(name)


real = Originals()


class Copies:
    """The shadow tree below `scratch`; nothing outside of it is ever written."""

    def __init__(self, scratch: str) -> None:
        self.scratch = scratch
        self.tree = f"{scratch}/tree"
        self.marks = f"{scratch}/deleted"
        self.temporary = f"{scratch}/tmp"
        for each in (self.tree, self.marks, self.temporary):
            real.mkdir(each)

    # ---- paths -------------------------------------------------------------------------------------------

    def folder(self) -> str:
        """Return the current directory as the script knows it."""
        place: str = real.getcwd()
        return self.own(place)

    def own(self, path: str) -> str:
        """Return the path that the script knows for a path in the shadow tree."""
        is_copy = path == self.tree or path.startswith(self.tree + "/")
        return (path[len(self.tree) :] or "/") if is_copy else path

    def is_ours(self, path: str) -> bool:
        """Return whether a path needs no copy: it is in `scratch` already, or is no ordinary file."""
        is_special = path.startswith(SPECIAL) and not path.startswith(NOT_SPECIAL)
        return is_special or path == self.scratch or path.startswith(self.scratch + "/")

    def absolute(self, path: Any, *, follow: bool = True) -> str:
        """Return the absolute path with symbolic links resolved; the last part only with `follow`."""
        # os.path.realpath would see the real file system; links may exist in the shadow tree only.
        text = os.path.normpath(os.path.join(self.folder(), os.fsdecode(path)))
        text = self.own(text)
        head, last = os.path.split(text)
        links = 0
        done = "/"
        parts = [each for each in head.split("/") if each] + ([last] if last else [])
        while parts:
            part = parts.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                done = os.path.dirname(done)
                continue
            place = os.path.join(done, part)
            target = self.link(place) if (parts or follow) and not self.is_ours(place) else None
            if target is None:
                done = place
                continue
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
            parts = [*target.split("/"), *parts]
            done = "/" if target.startswith("/") else done
        return done

    def link(self, path: str) -> str | None:
        """Return the target of a symbolic link, or None for anything else."""
        try:
            return os.fsdecode(real.readlink(self.real_place(path)))
        except OSError:
            return None

    def real_place(self, path: str) -> str:
        """Return where the file of this absolute path is now."""
        if self.is_ours(path):
            return path
        copy = self.tree + path
        return copy if self.is_deleted(path) or real_lexists(copy) else path

    def seen(self, path: Any, *, follow: bool = True) -> str:
        """Return the path from which to read `path`."""
        return self.real_place(self.absolute(path, follow=follow))

    def exists(self, path: str) -> bool:
        return real_lexists(self.real_place(path))

    # ---- marks of deletion -------------------------------------------------------------------------------

    def mark_of(self, path: str) -> str:
        """Return the file that marks a path as deleted."""
        return f"{self.marks}/{hashlib.sha256(os.fsencode(path)).hexdigest()}"

    def is_deleted(self, path: str) -> bool:
        """Return whether the path was deleted, by itself or with a folder above it."""
        while len(path) > 1:
            if real_lexists(self.mark_of(path)):
                return True
            # The folder was made again after its deletion.
            if real_lexists(self.tree + path):
                return False
            path = os.path.dirname(path)
        return False

    def mark(self, path: str) -> None:
        if real_lexists(path):
            descriptor = real.open(self.mark_of(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            real.write(descriptor, os.fsencode(path))
            real.close(descriptor)

    # ---- copies ------------------------------------------------------------------------------------------

    def written(self, path: Any, *, keep: bool = True, follow: bool = True, new: bool = False) -> str:
        """Return where to write `path`, after copying the file there.

        With `keep` the content is copied as well. With `new` the path must not exist yet.
        """
        place = self.absolute(path, follow=follow)
        if self.is_ours(place):
            return place
        now = self.real_place(place)
        if new and real_lexists(now):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        copy = self.tree + place
        self._make_folder_of(place)
        if now == place and real_lexists(place):
            self._check_may_write(place)
            self._copy(place, copy, keep=keep)
        return copy

    def _check_may_write(self, place: str) -> None:
        if not os.path.islink(place) and not real.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)

    def _make_folder_of(self, place: str) -> None:
        """Create the parent folder in the shadow tree if it exists for the script.

        If it does not, the call of the script fails as it should.
        """
        folder = os.path.dirname(place)
        if not real_lexists(self.tree + folder) and self.exists(folder):
            self._make_folder_of(folder)
            real.mkdir(self.tree + folder)
            with suppress(OSError):
                copy_status(folder, self.tree + folder)

    def _copy(self, place: str, copy: str, *, keep: bool) -> None:
        status = real.lstat(place)
        if stat.S_ISLNK(status.st_mode):
            real.symlink(real.readlink(place), copy)
        elif stat.S_ISDIR(status.st_mode):
            if not real_lexists(copy):
                real.mkdir(copy)
                copy_status(place, copy)
        elif stat.S_ISREG(status.st_mode):
            copy_bytes(place, copy, keep=keep)
            copy_status(place, copy)

    def made(self, place: str) -> None:
        """Remove the mark of deletion: something new is at this path."""
        with suppress(OSError):
            real.unlink(self.mark_of(place))

    # ---- changes -----------------------------------------------------------------------------------------

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, from before and since."""
        place = self.absolute(path)
        if self.is_ours(place):
            return list(real.listdir(place))
        now = self.real_place(place)
        found = dict.fromkeys(real.listdir(now))
        # The folder has a copy: the names from before are still in the original.
        if now != place and not self.is_deleted(place) and real_lexists(place):
            found |= dict.fromkeys(real.listdir(place))
        return [each for each in found if self.exists(os.path.join(place, each))]

    def remove(self, path: Any, action: Callable[[str], None]) -> None:
        """Delete a path for the script; `action` deletes one real path."""
        place = self.absolute(path, follow=False)
        if self.is_ours(place):
            action(place)
            return
        now = self.real_place(place)
        if now != place or not real_lexists(place):
            action(now)
        elif not real.access(os.path.dirname(place), os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        self.mark(place)

    def changes(self) -> Iterator[FileChange]:
        """Yield what was written and deleted."""
        for folder, _, names in os.walk(self.tree):
            for name in sorted(names):
                yield FileChange(self.own(os.path.join(folder, name)))
        for name in real.listdir(self.marks):
            with open(os.path.join(self.marks, name), "rb") as file:
                path = os.fsdecode(file.read())
            if not real_lexists(self.tree + path):
                yield FileChange(path, is_deleted=True)


def real_lexists(path: str) -> bool:
    try:
        real.lstat(path)
    except (OSError, ValueError):
        return False
    return True


def copy_bytes(place: str, copy: str, *, keep: bool) -> None:
    target = real.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if keep:
            source = real.open(place, os.O_RDONLY)
            try:
                while chunk := real.read(source, 1 << 20):
                    real.write(target, chunk)
            finally:
                real.close(source)
    finally:
        real.close(target)


def copy_status(place: str, copy: str) -> None:
    status = real.stat(place)
    # The copy of a read-only file stays writable for us.
    real.chmod(copy, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
    real.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
