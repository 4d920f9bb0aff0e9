"""The error that a subcommand raises for something the user can correct."""

from __future__ import annotations


class UserMistake(Exception):  # noqa: N818  # a mistake is what it is
    """Printed as one message without a traceback; it says what was seen and what to do next."""
