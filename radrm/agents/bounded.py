"""Plain, short texts and few rows, because an agent reads all that it gets.

Names, comments and logs are texts of other people. They may try to look like instructions, or hide
some in characters that nobody sees. So control, format and unassigned characters are replaced, and
variation selectors too: they are invisible, and can carry any text.

The tools of one agent run in threads, and a `Client` carries one request at a time. A connection
that lasts only for a call lets the daemon be restarted between two calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from radrm.client.connection import Client
from radrm.errors import plain

MOST_BYTES = 48 * 1024
"""Bytes of the rows of one answer, as JSON."""
MOST_ROWS = 100
MOST_NAME = 128
MOST_TEXT = 500
MOST_LOG_BYTES = 16 * 1024
MOST_LOG_LINES = 400
MOST_LINE = 1000
"""Characters of one line of a log."""

Row = TypeVar("Row", bound=BaseModel)


def text(value: object, most: int = MOST_TEXT) -> str:
    """Return untrusted text in one line of at most `most` characters, without invisible ones."""
    shown = str(value)
    cut = shown[:most]
    cut = "".join("\ufffd" if _is_selector(c) else c for c in plain(cut))
    return cut if len(shown) <= most else f"{cut[: most - 3]}..."


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0e" or "\U000e0100" <= character <= "\U000e01ef"


def name(value: object) -> str:
    """Return a name as `text`, at most `MOST_NAME` characters long."""
    return text(value, MOST_NAME)


def maybe(value: object, most: int = MOST_TEXT) -> str | None:
    """Return `text`, or None for None and for the empty text."""
    return None if value is None or value == "" else text(value, most)


def texts(values: Iterable[object] | None, most: int = 20) -> list[str]:
    """Return the first texts; the last one says how many are left out."""
    found = list(values or ())
    shown = [text(each) for each in found[:most]]
    return shown if len(found) <= most else [*shown, f"... {len(found) - most} more"]


def cleaned(value: Any) -> Any:
    """A part of a document with plain, short texts and short lists."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {name(key): cleaned(each) for key, each in list(value.items())[:50]}
    if isinstance(value, (list, tuple)):
        return [cleaned(each) for each in value[:50]]
    return value


def fitting(rows: Iterable[Row], most_bytes: int = MOST_BYTES) -> list[Row]:
    """Return the first rows that fit into an answer, at least one."""
    kept: list[Row] = []
    for row in rows:
        most_bytes -= len(row.model_dump_json())
        if most_bytes < 0 and kept:
            break
        kept.append(row)
    return kept


def last_that_fit(lines: Sequence[str], most_bytes: int = MOST_LOG_BYTES) -> list[str]:
    """Return the last lines of a log that fit, each shortened."""
    kept: list[str] = []
    for line in reversed(lines):
        shown = text(line, MOST_LINE)
        most_bytes -= len(shown.encode()) + 1
        if most_bytes < 0:
            break
        kept.append(shown)
    return kept[::-1]


def moment(epoch_s: float | None) -> str | None:
    """Return a time as ISO 8601 in this machine's zone; None for an unknown one."""
    if epoch_s is None or not 0 <= epoch_s < 250_000_000_000:
        return None
    return datetime.fromtimestamp(epoch_s).astimezone().isoformat(timespec="seconds")


_AT_ONCE = 2
_turn = threading.BoundedSemaphore(_AT_ONCE)


@contextmanager
def daemon() -> Iterator[Client]:
    """A client that is connected. Raises `Unreachable` where no daemon answers."""
    with _turn, Client() as client:
        client.connect()
        yield client
