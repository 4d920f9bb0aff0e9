"""Why a stored payload cannot be read."""

from __future__ import annotations


class UnsupportedVersion(ValueError):  # noqa: N818 - it says what is wrong as it is
    """Written by a newer NetDebug than this one."""

    def __init__(self, what: str, version: int, known: int) -> None:
        super().__init__(
            f"This {what} has format version {version}, and this NetDebug knows versions up to {known}: "
            "upgrade tb_netdebug to read it."
        )
        self.version = version


class DamagedBlock(ValueError):  # noqa: N818 - likewise
    """Bytes that no NetDebug wrote, or that were changed since."""


def require(condition: object, complaint: str) -> None:
    """Raise DamagedBlock unless the condition holds."""
    if not condition:
        raise DamagedBlock(complaint)
