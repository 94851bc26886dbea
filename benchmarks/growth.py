"""How costs grow with jobs, users and devices: function calls of decisions, and a long past.

    python -m benchmarks.growth        # the second section of docs/lab/speed.md

Calls are the same on every machine; the times of the past are CPU time.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import markdown
from benchmarks.events import measure, shipped
from benchmarks.past import scale

_EVENTS = ("a submission", "a round of readings", "an end and the next start", "a cancel")
_WAITING = (1_000, 10_000, 100_000)
_USERS = (2, 10, 50)
_DEVICES = (4, 16, 64)
_ENDED = (1_000, 10_000, 100_000)


def table() -> str:
    """Measure, and return the section of the page."""
    return "\n".join(
        [
            "Function calls of one decision:",
            "",
            *_calls("jobs waiting", _WAITING, measure),
            "",
            "The same under the shipped rules with MPS, 200 jobs waiting, on 4 GPUs, of 8 users:",
            "",
            *_calls("users", _USERS, lambda users: shipped(200, users)),
            "",
            *_calls("GPUs", _DEVICES, lambda devices: shipped(200, 8, devices)),
            "",
            "A daemon with jobs that have ended; CPU seconds of daemon and command:",
            "",
            *_past(),
        ]
    )


def _calls(
    what: str, numbers: tuple[int, ...], count: Callable[[int], dict[str, int]]
) -> list[str]:
    found = [count(number) for number in numbers]
    return _lines(what, numbers, [(e, [f"{by[e]:,}" for by in found]) for e in _EVENTS])


def _past() -> list[str]:
    found = [scale.measure(number) for number in _ENDED]
    rows = [
        (of[0].what, [f"{each.measured:.3g} {each.unit}" for each in of])
        for of in zip(*found, strict=True)
    ]
    return _lines("jobs ended", _ENDED, rows)


def _lines(what: str, numbers: tuple[int, ...], rows: list[tuple[str, list[str]]]) -> list[str]:
    heads = (what, *(f"{number:,}" for number in numbers))
    return markdown.table(heads, ((name, *cells) for name, cells in rows), range(1, 99))


if __name__ == "__main__":
    print(table())
