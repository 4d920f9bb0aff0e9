"""The level `overlay`: all file systems as overlays in namespaces; the process writes into memory.

Each tree below `/` becomes an overlay of itself. What is written goes to a tmpfs, which is gone with the last
process that sees it. A directory with other mounts below it cannot be the lower layer of an overlay (the
kernel locks them in a user namespace), so it is rebuilt entry by entry.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from tb_netdebug.experiments.rehearsal import syscalls
from tb_netdebug.experiments.rehearsal.changes import FileChange
from tb_netdebug.experiments.rehearsal.confinement_levels import ConfinementUnavailableError
from tb_netdebug.experiments.rehearsal.mounts import Mount, mounts

MOST_COPIED_BYTES = 1 << 20
# Each entry of a rebuilt directory costs a copy or a mount.
MOST_ENTRIES = 5000
# The mount option for overlays that use extended attributes writable by root only.
AS_ROOT = "redirect_dir=on"
# Capabilities that could undo the mounts, or write past them to a disk or to memory.
TAKEN = (syscalls.CAP_SYS_ADMIN, syscalls.CAP_MKNOD, syscalls.CAP_SYS_RAWIO)
# System V shared memory and message queues are not files: CLONE_NEWIPC gives the held process its own.
NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC


class Overlay:
    """A hold by overlays. Create it in a process with one thread, which sees the overlays from then on.

    `scratch` is an empty folder.
    """

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._root = f"{scratch}/root"
        self._mounts = mounts()
        self._trees: list[str] = []
        self._rebuilt: set[str] = set()
        self._own: dict[str, tuple[int, int]] = {}
        self.read_only: list[str] = []
        self._options = ""
        place = os.getcwd()
        try:
            enter_namespaces()
            self._build(place)
            self._move_in(place)
        except OSError as error:
            raise ConfinementUnavailableError(error.strerror or str(error)) from None

    def begin(self) -> None:
        """Close the way to the files below the view, and drop the capabilities that could undo it."""
        os.close(self._fd)
        taken = sum(1 << number for number in TAKEN)
        # Root keeps what its programs may need; other users had no capability before the namespace.
        syscalls.drop_capabilities(0 if os.getuid() else ~taken & (1 << 64) - 1)
        # An overlay in a user namespace cannot rename directories of the lower layer.
        if self._options != AS_ROOT:
            rename_by_copying()

    def notes(self) -> list[str]:
        return []

    def changes(self) -> Iterator[FileChange]:
        """Yield the files in the upper layers and the differences in rebuilt directories."""
        base = f"/proc/self/fd/{self._fd}"
        for number, tree in enumerate(self._trees):
            yield from changes_in(f"{base}/upper/{number}", tree)
        yield from self._changes_between(f"{base}/root", "")

    # ---- the new root ------------------------------------------------------------------------------------

    def _build(self, place: str) -> None:
        # The upper layer must not lie inside its own lower layer, so it gets a file system of its own.
        syscalls.mount("netdebug", self._scratch, "tmpfs", options="mode=755")
        for name in ("root", "upper", "work"):
            os.mkdir(f"{self._scratch}/{name}")
        # Keeps the upper layers reachable for the keeper after pivot_root; the held process closes it.
        self._fd = os.open(self._scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._options = working_options(self._scratch)
        syscalls.mount(self._root, self._root, flags=syscalls.MS_BIND)
        self._split("/", place)

    def _split(self, path: str, place: str) -> None:
        """Rebuild a directory that has mounts somewhere below it."""
        self._rebuilt.add(path)
        with suppress(PermissionError):  # an unreadable directory stays empty
            names = os.listdir(path)
            if len(names) > MOST_ENTRIES:
                raise OSError(f"{path} holds mounts and {len(names)} entries")
            for name in names:
                self._put(os.path.join(path, name), place)

    def _put(self, path: str, place: str) -> None:
        """Put one entry of a rebuilt directory into the new root."""
        mount = self._mounts.get(path)
        target = self._root + path
        try:
            status = os.lstat(path)
        except OSError:  # such as a FUSE mount of another user; the script could not see it, either
            return
        if path == self._scratch:
            return
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(path), target)
            self._note(path)
        elif not stat.S_ISDIR(status.st_mode):
            self._put_file(path, status)
        elif mount is not None and (mount.is_special or mount.is_read_only):
            self._put_as_it_is(path, status, mount, place)
        elif any(self._below(path)):
            self._make(path, status)
            self._split(path, place)
        else:
            self._make(path, status)
            self._put_overlay(path, place)

    def _below(self, path: str) -> Iterator[Mount]:
        inside = path.rstrip("/") + "/"
        for other in self._mounts.values():
            if other.path.startswith(inside) and other.path != self._scratch:
                yield other

    def _make(self, path: str, status: os.stat_result) -> None:
        target = self._root + path
        os.mkdir(target)
        take_over(path, target, status)
        self._note(path)

    def _put_overlay(self, path: str, place: str) -> None:
        number = len(self._trees)
        upper, work = (f"{self._scratch}/{name}/{number}" for name in ("upper", "work"))
        status = os.stat(path)
        os.mkdir(upper)
        os.mkdir(work)
        take_over(path, upper, status)
        try:
            mount_overlay(path, upper, work, self._root + path, self._options)
        except OSError:
            if is_within(place, path):
                raise
            self._put_read_only(path)  # such as on a file system that cannot be a lower layer
        self._trees.append(path)

    def _put_read_only(self, path: str) -> None:
        bind(path, self._root + path)
        syscalls.make_read_only(self._root + path, recursive=True)
        self.read_only.append(path)

    def _put_as_it_is(self, path: str, status: os.stat_result, mount: Mount, place: str) -> None:
        """Bind a special or read-only mount; what configures the machine becomes read-only."""
        target = self._root + path
        os.mkdir(target)
        self._note(path)
        bind(path, target)
        if mount.kind == "proc":
            bind(f"{target}/sys", f"{target}/sys")
            syscalls.make_read_only(f"{target}/sys", recursive=True)
        elif mount.kind != "devpts":
            syscalls.make_read_only(target, recursive=False)
        for each in self._below(path):
            if each.kind == "sysfs" or each.kind.startswith("cgroup"):
                syscalls.make_read_only(self._root + each.path, recursive=False)
            elif not (each.is_special or each.is_read_only):
                if any(self._below(each.path)):
                    syscalls.make_read_only(self._root + each.path, recursive=False)
                    self.read_only += [] if each.path.startswith("/sys/") else [each.path]
                else:
                    self._put_overlay(each.path, place)  # such as /dev/shm

    def _put_file(self, path: str, status: os.stat_result) -> None:
        """Copy a small file; bind a bigger one read-only, and devices as they are."""
        target = self._root + path
        if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_COPIED_BYTES and path not in self._mounts:
            with suppress(PermissionError):
                shutil.copy2(path, target)
                with suppress(OSError):
                    os.chown(target, status.st_uid, status.st_gid)
        else:
            Path(target).touch()
            bind(path, target)
            if stat.S_ISREG(status.st_mode):
                syscalls.make_read_only(target, recursive=False)
        self._note(path)

    def _note(self, path: str) -> None:
        """Remember time and size of a rebuilt entry, to detect changes later."""
        with suppress(OSError):
            status = os.lstat(self._root + path)
            self._own[path] = (status.st_mtime_ns, status.st_size)

    def _move_in(self, place: str) -> None:
        """Make the new root the root of this process and detach the old one."""
        old = ".netdebug-old-root"
        os.mkdir(f"{self._root}/{old}")
        os.chdir(self._root)
        syscalls.pivot_root(".", old)
        os.chdir("/")
        syscalls.unmount(f"/{old}")
        os.rmdir(f"/{old}")
        os.chdir(place)

    def _changes_between(self, base: str, inside: str) -> Iterator[FileChange]:
        """Yield the changes in rebuilt directories."""
        with os.scandir(base + inside) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                path = f"{inside}/{entry.name}"
                status = entry.stat(follow_symlinks=False)
                is_directory = stat.S_ISDIR(status.st_mode)
                if path not in self._own:
                    yield from [FileChange(path)] if not is_directory else changes_in(base + path, path)
                elif not is_directory and self._own[path] != (status.st_mtime_ns, status.st_size):
                    yield FileChange(path)
                elif is_directory and path in self._rebuilt:
                    yield from self._changes_between(base, path)
        for path in self._own:
            if os.path.dirname(path).rstrip("/") == inside and not os.path.lexists(base + path):
                yield FileChange(path, is_deleted=True)


# ---- namespaces and mounts ------------------------------------------------------------------------------


def enter_namespaces() -> None:
    """Enter the namespaces. Root needs no user namespace; others get one that maps their own user only."""
    user, group = os.geteuid(), os.getegid()
    try:
        if user:
            raise PermissionError
        syscalls.unshare(NAMESPACES)
    except OSError:
        syscalls.unshare(syscalls.CLONE_NEWUSER | NAMESPACES)
        # The kernel accepts a gid_map of an unprivileged process only after this.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    # Private, so that our mounts do not propagate to the machine.
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def take_over(path: str, target: str, status: os.stat_result) -> None:
    """Copy owner and mode of a directory.

    The owner cannot always be set, so what the user could not write before becomes read-only.
    """
    with suppress(OSError):
        os.chown(target, status.st_uid, status.st_gid)
    mode = stat.S_IMODE(status.st_mode)
    os.chmod(target, mode if os.access(path, os.W_OK) else mode & ~0o222)


def bind(source: str, target: str) -> None:
    syscalls.mount(source, target, flags=syscalls.MS_BIND | syscalls.MS_REC)


def mount_overlay(lower: str, upper: str, work: str, target: str, options: str) -> None:
    folders = {"lowerdir": lower, "upperdir": upper, "workdir": work}
    layers = ",".join(f"{name}={escaped(path)}" for name, path in folders.items())
    syscalls.mount("overlay", target, "overlay", options=f"{layers},{options}")


def escaped(path: str) -> str:
    """Return a path escaped for the option string of an overlay mount."""
    for sign in "\\:,":
        path = path.replace(sign, f"\\{sign}")
    return path


def working_options(scratch: str) -> str:
    """Return the mount options with which directories can be deleted and made again. Raise OSError.

    On old kernels a tmpfs cannot record that in a user namespace. Directories cannot be renamed in one.
    """
    reason = OSError("no overlay can be mounted")
    for number, options in enumerate((AS_ROOT, "userxattr")):
        try:
            try_out(f"{scratch}/try{number}", options)
        except OSError as error:
            reason = error
        else:
            return options
    raise reason


def try_out(folder: str, options: str) -> None:
    """Mount a small overlay and use it as scripts do. Raise OSError."""
    lower, upper, work, merged = (f"{folder}/{name}" for name in ("lower", "upper", "work", "merged"))
    for each in (f"{lower}/one", f"{lower}/two", upper, work, merged):
        os.makedirs(each)
    Path(f"{lower}/one/file").touch()
    mount_overlay(lower, upper, work, merged, options)
    try:
        shutil.rmtree(f"{merged}/one")
        os.mkdir(f"{merged}/one")
        if os.listdir(f"{merged}/one"):
            raise OSError("an overlay does not forget what was deleted in it")
        if options == AS_ROOT:
            os.rename(f"{merged}/two", f"{merged}/three")
    finally:
        syscalls.unmount(merged)


def rename_by_copying() -> None:
    """Make os.rename and os.replace copy directories of the lower layer, as `mv` does.

    The kernel reports them to be on another device (EXDEV).
    """

    def renaming(real: Callable[..., None]) -> Callable[..., None]:
        @wraps(real)
        def rename(src: Any, dst: Any, **kwargs: Any) -> None:
            try:
                real(src, dst, **kwargs)
            except OSError as error:
                if error.errno != errno.EXDEV or kwargs or not os.path.isdir(src) or os.path.islink(src):
                    raise
                shutil.copytree(src, dst, symlinks=True)
                shutil.rmtree(src)

        return rename

    os.rename, os.replace = renaming(os.rename), renaming(os.replace)


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def changes_in(upper: str, tree: str) -> Iterator[FileChange]:
    """Yield what the upper layer of an overlay on `tree` contains."""
    if not os.path.isdir(upper):
        return
    for entry in sorted(os.scandir(upper), key=lambda each: each.name):
        path = f"{tree}/{entry.name}"
        status = entry.stat(follow_symlinks=False)
        # A character device 0/0 is a whiteout: overlayfs marks deleted files with it.
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield FileChange(path, is_deleted=True)
        elif stat.S_ISDIR(status.st_mode):
            if is_renamed(entry.path):
                yield FileChange(path)
            yield from changes_in(entry.path, path)
        else:
            yield FileChange(path)


def is_renamed(directory: str) -> bool:
    """Return whether a directory was renamed; its content is then still in the lower layer."""
    try:
        return bool(os.getxattr(directory, "trusted.overlay.redirect"))
    except OSError:
        return False
