"""Growing pauses after failures of rules, launches and proposals.

They are kept in memory only: after a restart everything is tried at once. A job's own pause
is in its record (`records.Pause`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

SHORTEST_S = 1.0
"""The shortest pause under any setting. Without it, a failure could repeat without end."""
_MOST_DOUBLINGS = 60

K = TypeVar("K", bound=Hashable)


def growing_s(first_s: float, times: int, most_s: float) -> float:
    """Return the pause in seconds after `times` (from 1) failures in a row.

    It doubles from `first_s` up to `most_s`.
    """
    doubled = first_s * 2.0 ** min(times - 1, _MOST_DOUBLINGS)
    return max(SHORTEST_S, min(doubled, most_s))


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure, the last of `times` in a row, with its reason and its pause."""

    times: int
    since_s: float
    until_s: float
    why: str


class Pauses(Generic[K]):
    """Failures by key. A failure is forgotten after twice its pause without another one."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._failed: dict[K, Failed] = {}
        self._many = 256

    def fail(self, key: K, now_s: float, why: str) -> Failed:
        """Note a failure. Returns it with its pause."""
        before = self._failed.get(key)
        times = before.times + 1 if before is not None and not self._stale(before, now_s) else 1
        until_s = now_s + growing_s(self._first_s, times, self._most_s)
        found = self._failed[key] = Failed(times, now_s, until_s, why)
        if len(self._failed) > self._many:
            # Drop forgotten failures when the number has doubled, so that memory stays bounded.
            self._failed = {k: f for k, f in self._failed.items() if not self._stale(f, now_s)}
            self._many = 256 + 2 * len(self._failed)
        return found

    def pausing(self, key: K, now_s: float) -> Failed | None:
        """Return the failure whose pause is not over; None if there is none."""
        found = self._failed.get(key)
        return found if found is not None and now_s < found.until_s else None

    def last(self, key: K) -> Failed | None:
        """Return the last failure, also after its pause; None if there is none."""
        return self._failed.get(key)

    def forget(self, key: K) -> None:
        """Forget the failures of a key: it works now."""
        self._failed.pop(key, None)

    def recall(self, key: K, failed: Failed) -> None:
        """Take over a failure as it is."""
        self._failed[key] = failed

    def all(self) -> Iterator[tuple[K, Failed]]:
        """Yield all failures that are not forgotten, with their keys."""
        yield from self._failed.items()

    @staticmethod
    def _stale(failed: Failed, now_s: float) -> bool:
        return now_s > failed.until_s + (failed.until_s - failed.since_s)


class Proposals:
    """Failures of proposals. Each job and kind of proposal has its own pause.

    A proposal that is carried out more than `MOST_AT_ONCE` times in a second fails, too.
    """

    MOST_AT_ONCE = 8
    """How many proposals of one kind are carried out for one job within a second."""
    LONGEST_S = 60.0

    def __init__(self) -> None:
        self._pauses: Pauses[tuple[int, str]] = Pauses(SHORTEST_S, self.LONGEST_S)
        self._done: dict[int, dict[str, tuple[float, int]]] = {}
        self._kinds: dict[int, set[str]] = {}

    def fail(self, job_id: int, kind: str, now_s: float, why: str) -> Failed:
        """Note that a proposal failed. Returns the failure with its pause."""
        self._kinds.setdefault(job_id, set()).add(kind)
        return self._pauses.fail((job_id, kind), now_s, why)

    def pausing(self, job_id: int, kind: str, now_s: float) -> Failed | None:
        """Return the failure whose pause is not over; None if there is none."""
        return self._pauses.pausing((job_id, kind), now_s)

    def too_many(self, job_id: int, kind: str, now_s: float) -> bool:
        """Count a proposal. Returns whether it is one too many within a second."""
        of_job = self._done.setdefault(job_id, {})
        since_s, count = of_job.get(kind, (now_s, 0))
        if not since_s <= now_s < since_s + SHORTEST_S:
            since_s, count = now_s, 0
        of_job[kind] = since_s, count + 1
        return count >= self.MOST_AT_ONCE

    def forget(self, job_id: int, kind: str) -> None:
        """Forget the failures of a kind: it works now."""
        self._pauses.forget((job_id, kind))

    def forget_failures(self, job_id: int) -> None:
        """Forget a job's failures: the job has changed."""
        for kind in self._kinds.pop(job_id, ()):
            self._pauses.forget((job_id, kind))

    def forget_job(self, job_id: int) -> None:
        """Forget a job that has ended."""
        self.forget_failures(job_id)
        self._done.pop(job_id, None)
