"""The mounts of this process, and which of them can be the lower layer of an overlay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# These hold no files of the user: a write there is a message to the kernel.
SPECIAL = {
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "securityfs", "selinuxfs",
    "sysfs", "tracefs",
}  # fmt: skip
ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    path: str
    kind: str
    is_read_only: bool

    @property
    def is_special(self) -> bool:
        return self.kind in SPECIAL


def mounts() -> dict[str, Mount]:
    """Return the mounts by path; of several on the same path, the visible one."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields, _, rest = line.partition(" - ")
        words, kinds = fields.split(), rest.split()
        # Spaces and the like are octal escapes such as \040.
        path = ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4])
        is_read_only = "ro" in words[5].split(",") or "ro" in kinds[-1].split(",")
        found[path] = Mount(path, kinds[0], is_read_only)
    return found
