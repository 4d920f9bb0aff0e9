"""A folder that holds what was written instead of where it was written to, file by file.

`seen` says where a path is to be read, `written` where it is to be written. What was deleted has a mark, so
that all processes that share the folder agree.
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

# Devices and messages to the kernel; shared memory is files.
SPECIAL = ("/dev/", "/proc/", "/sys/")
NOT_SPECIAL = "/dev/shm/"
MOST_LINKS = 40


class Originals:
    """The functions of `os` as they are, whatever becomes of the module's."""

    def __init__(self) -> None:
        self.__dict__.update(vars(os))

    def __getattr__(self, name: str) -> Any:  # for type checkers: all of it is there
        raise AttributeError(name)


real = Originals()


class Copies:
    """Below `scratch`; nothing else is ever written."""

    def __init__(self, scratch: str) -> None:
        self.scratch = scratch
        self.tree = f"{scratch}/tree"
        self.marks = f"{scratch}/deleted"
        self.temporary = f"{scratch}/tmp"
        for each in (self.tree, self.marks, self.temporary):
            real.mkdir(each)

    # ---- where a path is ---------------------------------------------------------------------------------

    def folder(self) -> str:
        """The current one, as the script knows it."""
        place: str = real.getcwd()
        return self.own(place)

    def own(self, path: str) -> str:
        """The path that the script knows of one in the tree."""
        is_copy = path == self.tree or path.startswith(self.tree + "/")
        return (path[len(self.tree) :] or "/") if is_copy else path

    def is_ours(self, path: str) -> bool:
        """Whether it needs no copy: already there, or no file."""
        is_special = path.startswith(SPECIAL) and not path.startswith(NOT_SPECIAL)
        return is_special or path == self.scratch or path.startswith(self.scratch + "/")

    def absolute(self, path: Any, *, follow: bool = True) -> str:
        """Without links, the last part's only when asked for."""
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
        try:
            return os.fsdecode(real.readlink(self.real_place(path)))
        except OSError:
            return None

    def real_place(self, path: str) -> str:
        """Where the thing of this absolute path is now."""
        if self.is_ours(path):
            return path
        copy = self.tree + path
        return copy if self.is_deleted(path) or real_lexists(copy) else path

    def seen(self, path: Any, *, follow: bool = True) -> str:
        return self.real_place(self.absolute(path, follow=follow))

    def exists(self, path: str) -> bool:
        return real_lexists(self.real_place(path))

    # ---- marks of what was deleted -----------------------------------------------------------------------

    def mark_of(self, path: str) -> str:
        return f"{self.marks}/{hashlib.sha256(os.fsencode(path)).hexdigest()}"

    def is_deleted(self, path: str) -> bool:
        """Itself, or a folder that it was in and that is no more."""
        while len(path) > 1:
            if real_lexists(self.mark_of(path)):
                return True
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
        """Where it is to be written, with its content there if `keep`; `new`: it must not be there yet."""
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
        """As far as it is there; else the caller's call fails as it should."""
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
        """Something new is at this path: it is not deleted any more."""
        with suppress(OSError):
            real.unlink(self.mark_of(place))

    # ---- changes -----------------------------------------------------------------------------------------

    def names(self, path: str) -> list[str]:
        """Of what is in a folder, both from before and since."""
        place = self.absolute(path)
        if self.is_ours(place):
            return list(real.listdir(place))
        now = self.real_place(place)
        found = dict.fromkeys(real.listdir(now))
        if now != place and not self.is_deleted(place) and real_lexists(place):
            found |= dict.fromkeys(real.listdir(place))
        return [each for each in found if self.exists(os.path.join(place, each))]

    def remove(self, path: Any, action: Callable[[str], None]) -> None:
        """`action` deletes one thing, by its path."""
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
    real.chmod(copy, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
    real.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
