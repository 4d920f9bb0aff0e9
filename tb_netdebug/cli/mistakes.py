"""The error that a subcommand raises for something the user can put right."""

from __future__ import annotations


class UserMistake(Exception):  # noqa: N818  # a mistake is what it is
    """Shown as one message without a stack trace; says what was seen and what to do next."""
