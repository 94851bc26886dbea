"""How long something that failed waits before it is tried again: longer each time, up to a limit.

For rules that raise and for proposals that come to nothing: kept in memory, since a new
start tries everything anew. A job's own pause stands in its record (`records.Pause`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

SHORTEST_S = 1.0
"""No setting makes a pause shorter: what fails at once would fail without end in one moment."""
_MOST_DOUBLINGS = 60

K = TypeVar("K", bound=Hashable)


def growing_s(first_s: float, times: int, most_s: float) -> float:
    """Seconds to wait after `times` (from 1 on) failures in a row: doubles from `first_s`."""
    doubled = first_s * 2.0 ** min(times - 1, _MOST_DOUBLINGS)
    return max(SHORTEST_S, min(doubled, most_s))


@dataclass(frozen=True, slots=True)
class Failed:
    """Something has failed `times` in a row, last for the reason `why`; a pause until then."""

    times: int
    since_s: float
    until_s: float
    why: str


class Pauses(Generic[K]):
    """What has failed, by key. A failure is forgotten after twice its pause without another."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._failed: dict[K, Failed] = {}
        self._many = 256

    def fail(self, key: K, now_s: float, why: str) -> Failed:
        """Note a failure; how long it means to wait is in what is returned."""
        before = self._failed.get(key)
        times = before.times + 1 if before is not None and not self._stale(before, now_s) else 1
        until_s = now_s + growing_s(self._first_s, times, self._most_s)
        found = self._failed[key] = Failed(times, now_s, until_s, why)
        if len(self._failed) > self._many:
            self._failed = {k: f for k, f in self._failed.items() if not self._stale(f, now_s)}
            self._many = 256 + 2 * len(self._failed)
        return found

    def pausing(self, key: K, now_s: float) -> Failed | None:
        """The failure for which `key` has to wait at this moment."""
        found = self._failed.get(key)
        return found if found is not None and now_s < found.until_s else None

    def last(self, key: K) -> Failed | None:
        """The last failure, whether its pause is over or not."""
        return self._failed.get(key)

    def forget(self, key: K) -> None:
        """It has worked."""
        self._failed.pop(key, None)

    def all(self) -> Iterator[tuple[K, Failed]]:
        yield from self._failed.items()

    @staticmethod
    def _stale(failed: Failed, now_s: float) -> bool:
        return now_s > failed.until_s + (failed.until_s - failed.since_s)


class Proposals:
    """Proposals whose action failed, by job and kind: each kind of a job has its own pause.

    One that is carried out again and again in a moment fails, too.
    """

    MOST_AT_ONCE = 8
    """So often within a second is one kind of proposal carried out for one job."""
    LONGEST_S = 60.0

    def __init__(self) -> None:
        self._pauses: Pauses[tuple[int, str]] = Pauses(SHORTEST_S, self.LONGEST_S)
        self._done: dict[int, dict[str, tuple[float, int]]] = {}
        self._kinds: dict[int, set[str]] = {}

    def fail(self, job_id: int, kind: str, now_s: float, why: str) -> Failed:
        """Note that one failed; when the next may be made is in what is returned."""
        self._kinds.setdefault(job_id, set()).add(kind)
        return self._pauses.fail((job_id, kind), now_s, why)

    def pausing(self, job_id: int, kind: str, now_s: float) -> Failed | None:
        return self._pauses.pausing((job_id, kind), now_s)

    def too_many(self, job_id: int, kind: str, now_s: float) -> bool:
        """Count one that may be carried out; True where it is one too many in this second."""
        of_job = self._done.setdefault(job_id, {})
        since_s, count = of_job.get(kind, (now_s, 0))
        if not since_s <= now_s < since_s + SHORTEST_S:
            since_s, count = now_s, 0
        of_job[kind] = since_s, count + 1
        return count >= self.MOST_AT_ONCE

    def forget(self, job_id: int, kind: str) -> None:
        """One of this kind has worked."""
        self._pauses.forget((job_id, kind))

    def forget_failures(self, job_id: int) -> None:
        """The job is another now: what failed may work."""
        for kind in self._kinds.pop(job_id, ()):
            self._pauses.forget((job_id, kind))

    def forget_job(self, job_id: int) -> None:
        """It has ended."""
        self.forget_failures(job_id)
        self._done.pop(job_id, None)
