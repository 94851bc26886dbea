"""Waiting for a condition, without a sleep of a fixed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0
"""Only a broken program reaches this deadline."""


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], str] = "the condition",
    patience_s: float = PATIENCE_S,
) -> T:
    """The first true value of `condition`. `what` is said, or called, only if there is none."""
    deadline = time.monotonic() + patience_s
    pause = 0.005
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"waited in vain for {text}")
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)


def wait_text(path: Path) -> str:
    """What a program writes to a file, once it is there and ends with a whole line.

    A file that exists may be empty still, or hold the first half of its text.
    """

    def whole() -> str:
        text = path.read_text() if path.exists() else ""
        return text if text.endswith("\n") else ""

    return wait_until(whole, str(path))
