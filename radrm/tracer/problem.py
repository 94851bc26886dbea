"""The error that ends a trace, in one line."""

from __future__ import annotations

_LONGEST = 400


class Problem(Exception):
    """An error for the user: the thing, the cause and the next step, in one line."""


def in_one_line(error: object) -> str:
    """Return an error's text in one line, shortened."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    return " ".join(text.split())[:_LONGEST]
