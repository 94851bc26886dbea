"""The result of a check; runs checks that may fail or hang.

Each check runs in a thread of its own, with a time limit. A thread that hangs (in a driver, on a
file server) is left behind and ends with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from msgspec import Struct


class Level(str, Enum):
    """FAIL: radrm cannot work. WARN: it works with restrictions, or will soon fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """One line: the name of the check, what it found, and what to do about it."""

    check: str
    level: Level
    finding: str
    next_step: str | None = None


def ok(check: str, finding: str) -> Finding:
    return Finding(check, Level.OK, finding)


def warn(check: str, finding: str, next_step: str) -> Finding:
    return Finding(check, Level.WARN, finding, next_step)


def fail(check: str, finding: str, next_step: str) -> Finding:
    return Finding(check, Level.FAIL, finding, next_step)


class Check(Struct, frozen=True):
    """A check and its name. `limit_s` is its time limit in seconds: a stuck driver or a missing
    file server must not stop the other checks."""

    name: str
    look: Callable[[], Finding]
    limit_s: float = 10.0


def run_checks(checks: Iterable[Check]) -> Iterator[Finding]:
    """The findings, one by one. A check that fails or hangs gives a warning."""
    yield from map(_run, checks)


def _run(check: Check) -> Finding:
    found: list[Finding] = []

    def look() -> None:
        try:
            found.append(check.look())
        except Exception as error:
            cause = f"this could not be checked: {type(error).__name__}: {error}"
            found.append(warn(check.name, cause, "check it by hand"))

    thread = threading.Thread(target=look, name=check.name, daemon=True)
    thread.start()
    thread.join(check.limit_s)
    if found:
        return found[0]
    late = f"this could not be checked: no answer within {check.limit_s:.0f} s"
    return warn(check.name, late, "see what it waits for: dmesg, a file server, nvidia-smi")
