"""Why something cannot be shown."""

from __future__ import annotations


class ReaderError(Exception):
    """A sentence for the user."""
