"""The reader's error for users."""

from __future__ import annotations


class ReaderError(Exception):
    """Something cannot be shown; the message is a sentence for the user."""
