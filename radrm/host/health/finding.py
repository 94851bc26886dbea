"""What a check comes back with; running checks that may break or hang."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How bad it is. FAIL: radrm cannot do its work so; WARN: not all of it, or not for long."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what was found, and what to do about it."""

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


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its name. `limit_s` is how long it may take: a driver that is stuck or a
    file server that is gone must not take the other checks along."""

    name: str
    look: Callable[[], Finding]
    limit_s: float = 10.0


def run_checks(checks: Iterable[Check]) -> Iterator[Finding]:
    """The findings, one by one. A check that breaks or hangs is a warning about itself."""
    for check in checks:
        yield _run(check)


def _run(check: Check) -> Finding:
    found: list[Finding] = []

    def look() -> None:
        try:
            found.append(check.look())
        except Exception as error:
            cause = f"this could not be checked: {type(error).__name__}: {error}"
            found.append(warn(check.name, cause, "look at it by hand"))

    thread = threading.Thread(target=look, name=check.name, daemon=True)
    thread.start()
    thread.join(check.limit_s)
    if found:
        return found[0]
    late = f"this could not be checked: no answer within {check.limit_s:.0f} s"
    return warn(check.name, late, "look at what it waits for: dmesg, a file server, nvidia-smi")
