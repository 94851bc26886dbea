"""Read the progress of a program, steps and their times, from the lines of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from radrm.errors import UsageError
from radrm.progress_lines import Lines
from radrm.progress_lines import compiled as compiled_pattern


@dataclass(frozen=True, slots=True)
class Point:
    """The number of steps that a program had done at a time (seconds)."""

    at_s: float
    step: float


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern of a line that reports progress. Raises `UsageError`."""
    try:
        return compiled_pattern(pattern)
    except ValueError as error:
        raise UsageError(f"--step-pattern {pattern!r}: {error}") from None


class Steps:
    """Reads one log as it grows. A line is timed when it is seen, not when it was written.

    The number of the step is the group `step` of the pattern, else its first group. Without a
    group each matching line is one step. A number that decreases (a counter that restarts with
    each epoch) is added to the last number before.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._lines = Lines()
        self._base = 0.0
        self._last = 0.0
        self.points: list[Point] = []

    def feed(self, data: bytes, now_s: float) -> None:
        """Read new text of the log, seen at this time."""
        for line in self._lines.feed(data):
            found = self._pattern.search(line)
            number = self._number(found) if found else None
            if number is not None:
                self.points.append(Point(now_s, number))

    def _number(self, found: re.Match[str]) -> float | None:
        if not self._pattern.groups:
            self._last += 1
            return self._last
        try:
            shown = float(found["step"] if "step" in self._pattern.groupindex else found[1])
        except (TypeError, ValueError):  # the group did not match, or is no number
            return None
        if shown < self._last:
            self._base += self._last
        self._last = shown
        return self._base + shown


def rate(points: Iterable[Point], since_s: float, until_s: float) -> float | None:
    """Steps per second between the first and the last report in a span of time.

    None if the span has fewer than two reports with different times and steps. The start-up of a
    program does not count, because it comes before the first report.
    """
    inside = [point for point in points if since_s <= point.at_s <= until_s]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    if last.at_s <= first.at_s or last.step <= first.step:
        return None
    return (last.step - first.step) / (last.at_s - first.at_s)
