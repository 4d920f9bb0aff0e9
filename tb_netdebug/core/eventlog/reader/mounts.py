"""Tells a local file system from a shared one, to which other machines may write without notice here.

Called by `follower.py`, which polls a shared file system more slowly and without inotify.
"""

from __future__ import annotations

from pathlib import Path

_SHARED = {
    "9p", "afs", "beegfs", "beegfs_nodev", "ceph", "cifs", "coda", "drvfs", "fhgfs", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2", "smb3",
    "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
}  # fmt: skip
_MOUNTS = Path("/proc/self/mounts")


def is_shared(path: str, *, mounts: Path = _MOUNTS) -> bool:
    """Return whether `path` lies on a network or virtual file system that other machines may write to.

    The type of the file system decides. Where the system has no table of mounts, the answer is False.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    kind, longest = "", -1
    for line in lines:
        words = line.split(" ")
        if len(words) < 3:
            continue
        folder = _unescaped(words[1]).rstrip("/")
        # Later mounts hide earlier ones at the same place.
        if (path == folder or path.startswith(f"{folder}/")) and len(folder) >= longest:
            kind, longest = words[2], len(folder)
    # sshfs, s3fs, gcsfuse and others appear as "fuse.NAME".
    return kind in _SHARED or kind.startswith("fuse.")


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
