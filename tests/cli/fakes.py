"""Documents as the daemon gives them, and a client that answers from a script."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

from radrm.cli.show.styled import draw

if TYPE_CHECKING:
    from radrm.cli.show.styled import Part

Document = dict[str, Any]

NOW = 1_800_000_000.0
ESC = "\x1b[31m\x1b]0;owned\x07\u202e"
"""What a hostile user writes into names and reasons."""


def job(number: int = 5, state: str = "PENDING", **changed: Any) -> Document:
    """A job's document."""
    started = state not in ("PENDING", "CANCELLED")
    ended = state in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")
    document: Document = {
        "id": number,
        "ticket": f"01ARZ3NDEKTSV4RRFFQ69G5F{number % 100:02}",
        "name": "resnet50",
        "user": "ada",
        "state": state,
        "outcome": None,
        "queue": None if ended else "main",
        "position": None,
        "devices": ["GPU-a"] if started else [],
        "collocation": "mps" if started else None,
        "run": 1,
        "attempts": 1 if started else 0,
        "exit_code": 0 if state == "COMPLETED" else None,
        "reason": None,
        "submitted_at": NOW - 100,
        "started_at": NOW - 60 if started else None,
        "ended_at": NOW - 10 if ended else None,
        "waited_s": 40.0 if started else 90.0 if ended else 100.0,
        **({"ran_s": 50.0 if ended else 60.0} if started else {}),
        "gpus": 1,
        "estimate_mib": 6144,
        "estimate_source": "declared",
        "reserved_mib": None,
        "peak_mib": None,
        "energy_j": None,
        "oom_count": 0,
        "priority": 0,
        "label": str(number),
    }
    return document | changed


def gpu(index: int = 0, **changed: Any) -> Document:
    """A device's document."""
    document: Document = {
        "uuid": f"GPU-{'abcdefghijklmnop'[index]}",
        "index": index,
        "name": "A100-40GB",
        "kind": "gpu",
        "node": "here",
        "total_mib": 40960,
        "used_mib": 10240,
        "free_mib": 30720,
        "reserved_mib": 10240,
        "unmanaged_mib": 0,
        "smact": 0.5,
        "smact_source": "sim",
        "power_w": 200.0,
        "jobs": [1, 2],
        "state": "busy",
        "profile": None,
        "parent": None,
        "reason": None,
    }
    return document | changed


def page(jobs: list[Document], total: int | None = None, **counts: int) -> Document:
    """An answer of `page`."""
    return {
        "jobs": jobs,
        "total": len(jobs) if total is None else total,
        "counts": counts or {"PENDING": len(jobs)},
        "now": NOW,
        "devices": {"GPU-a": 0, "GPU-b": 1},
    }


def shown(
    thing: RenderableType | Sequence[Part], width: int = 80, terminal: bool = True
) -> list[str]:
    """The lines that a console of this width prints, colours left out; in a pipe they must be
    the same with and without rich."""
    parts: Sequence[Any] = thing if isinstance(thing, list) else [thing]
    console = Console(
        file=io.StringIO(),
        width=width if terminal else 4096,
        force_terminal=terminal,
        color_system=None,
        highlight=False,
    )
    for part in parts:
        draw(console, part)
    text: str = console.file.getvalue()
    if not terminal:
        assert "".join(f"{line}\n" for part in parts for line in part.plain_lines()) == text
    return text.splitlines()


class Script:
    """A client: each op has a list of answers, the last of them repeated.

    An answer that is an exception is raised; one that can be called is given the words. All jobs
    fit on the first page of `status`, and all logs are the user's.
    """

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Document]] = []

    def ask(self, op: str, **words: Any) -> Any:
        self.asked.append((op, words))
        left = self.answers[op]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        answer = answer(words) if callable(answer) else answer
        if op == "status" and "after" in words:
            return {"jobs": answer, "next": None}
        return {"uid": os.getuid(), **answer} if op == "logs" else answer

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ops(self) -> list[str]:
        return [op for op, _ in self.asked]


class Pauses:
    """Stands for `pause`: counts, and lets something happen at the n-th one.

    More than `most` of them are a loop that does not end: the test fails.
    """

    def __init__(self, *happenings: Callable[[], object], most: int = 100) -> None:
        self.happenings = list(happenings)
        self.seconds: list[float] = []
        self.most = most

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) > self.most:
            raise AssertionError("this waits for ever")
        if self.happenings:
            self.happenings.pop(0)()
