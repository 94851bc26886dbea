"""Reads the fields of a worker's message. A worker is the user's program: nothing is trusted."""

from __future__ import annotations

from typing import Any

from radrm.radrun.shards.book import LARGEST, BookError
from radrm.radrun.shards.positions import Ranges

LONGEST_NAME = 200
MOST_NAMES = 8000
"""Modules that a worker names, at most."""

Message = dict[str, Any]


def whole(message: Message, key: str) -> int:
    """Return a whole number from 0."""
    value = message.get(key)
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise BookError(f"the message has no number '{key}'")
    return value


def name(message: Message, key: str) -> str:
    """Return a short text."""
    value = message.get(key)
    if type(value) is not str or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise BookError(
            f"'{key}' must be a printable text of at most {LONGEST_NAME} characters,"
            f" not {str(value)[:40]!r}"
        )
    return value


def number(message: Message, key: str) -> float | None:
    """Return a finite number, or None."""
    value = message.get(key)
    if not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        return None
    return float(value)


def reads(message: Message) -> dict[str, Ranges]:
    """Return what a step has consumed, by dataset."""
    found = message.get("read", {})
    if not isinstance(found, dict):
        raise BookError("the message's 'read' is no object")
    for dataset, ranges in found.items():
        name({"read": dataset}, "read")
        if not isinstance(ranges, list) or not all(_is_range(each) for each in ranges):
            raise BookError("the message's 'read' has no ranges")
    return found


def modules(message: Message) -> list[str]:
    """Return the modules that the worker has loaded."""
    found = message.get("modules")
    if not isinstance(found, list):
        return []
    return [each for each in found[:MOST_NAMES] if type(each) is str and each.isprintable()]


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    first, last = value
    return type(first) is type(last) is int and 0 <= first < last <= LARGEST
