"""The errors of reading a stored payload, raised by every decoder of this folder."""

from __future__ import annotations


class UnsupportedVersion(ValueError):  # noqa: N818 - it says what is wrong as it is
    """A payload written by a newer NetDebug than this one."""

    def __init__(self, what: str, version: int, known: int) -> None:
        super().__init__(
            f"This {what} has format version {version}, and this NetDebug knows versions up to {known}: "
            "upgrade tb_netdebug to read it."
        )
        self.version = version


class DamagedBlock(ValueError):  # noqa: N818 - likewise
    """A payload that NetDebug did not write, or that was changed since."""


def require(condition: object, complaint: str) -> None:
    """Raise DamagedBlock unless the condition holds."""
    if not condition:
        raise DamagedBlock(complaint)
