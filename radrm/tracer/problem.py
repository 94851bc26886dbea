"""What stops a trace, in one line."""

from __future__ import annotations

_LONGEST = 400


class Problem(Exception):
    """The thing, the cause and the next step, in one line, for the user."""


def in_one_line(error: object) -> str:
    """An error's text without line ends and without its tail."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    return " ".join(text.split())[:_LONGEST]
