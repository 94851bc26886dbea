"""Growing pauses after failures of rules, launches and proposals, and what the core has refused.

They are kept in memory only: after a restart everything is tried at once. A job's own pause
is in its record (`records.Pause`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from radrm.core.proposals import NAMES, Proposal, Start
from radrm.core.records import Refusal
from radrm.core.units import show_seconds
from radrm.structs import replace

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


class Failed(Struct, frozen=True):
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


class Refused(Struct, frozen=True):
    """The proposals of one kind of one planner for one job, which the core refuses."""

    planner: str
    kind: type[Proposal]
    job_id: int
    since_s: float
    last_s: float
    """Boot-time seconds of the first and the last of them."""
    why: Refusal

    def message(self, now_s: float) -> str:
        """Return, for users, what was proposed and why it is refused."""
        ago = show_seconds(max(0.0, now_s - self.last_s))
        what = f"planner {self.planner} proposed a {NAMES[self.kind]} {ago} ago"
        return f"{what}, which was refused: {self.why.message} ({self.why.rule})"


class RefusedProposals:
    """The last refusal of each kind of proposal of each planner for each job.

    A refusal *stands* while it is repeated: until its planner has answered again more than `GAP_S`
    later, and has not repeated it. The doctor tells only of those that stand. After that, the
    planner may have changed its mind, so it explains a job's waiting only where nothing else does.

    One is forgotten when such a proposal is carried out, when the job starts, and when it ends.
    """

    MOST = 10_000
    """Beyond that the oldest job is forgotten."""
    LASTING_S = 10.0
    """Shorter than this it may be that another planner was first."""
    GAP_S = 60.0
    """For so long a planner may leave out a proposal, as after a failure of it."""

    def __init__(self) -> None:
        self._of_job: dict[int, dict[tuple[str, type[Proposal]], Refused]] = {}
        self.answered_s: dict[str, float] = {}
        """By planner: when it has last proposed all that it wants, in boot-time seconds."""

    def note(self, planner: str, proposal: Proposal, why: Refusal, now_s: float) -> None:
        job_id, kind = proposal.job_id, type(proposal)
        of_job = self._of_job.setdefault(job_id, {})
        before = of_job.get((planner, kind))
        repeated = before is not None and now_s - before.last_s <= self.GAP_S
        since_s = before.since_s if before is not None and repeated else now_s
        of_job[planner, kind] = Refused(planner, kind, job_id, since_s, now_s, why)
        if len(self._of_job) > self.MOST:
            del self._of_job[next(iter(self._of_job))]

    def forget(self, planner: str, proposal: Proposal) -> None:
        """Forget such proposals: one is carried out. A start is anybody's."""
        of_job = self._of_job.get(proposal.job_id)
        if of_job is None:
            return
        if isinstance(proposal, Start):
            self._of_job.pop(proposal.job_id)
            return
        of_job.pop((planner, type(proposal)), None)
        if not of_job:
            del self._of_job[proposal.job_id]

    def forget_job(self, job_id: int) -> None:
        self._of_job.pop(job_id, None)

    def of(self, job_id: int, now_s: float, stands: bool = True) -> tuple[Refusal, ...]:
        """Return what was refused for a job and stands, or what does not, as reasons."""
        of_job = self._of_job.get(job_id)
        if of_job is None:
            return ()
        found = [each for each in of_job.values() if self._stands(each) is stands]
        return tuple(
            replace(
                each.why,
                rule="refused",
                message=each.message(now_s),
                device=None,
                planner=None,
                unit=each.why.measured_in,
            )
            for each in found
        )

    def lasting(self, now_s: float) -> list[Refused]:
        """Return the last one for each planner, kind and rule that is refused for long, and stands.

        It counts if it is repeated, or if it is a start and its planner has not answered since: so
        the job waits because of it.
        """
        found: dict[tuple[str, type[Proposal], str], Refused] = {}
        for of_job in self._of_job.values():
            for each in of_job.values():
                waits = each.kind is Start and self._after_s(each) <= 0
                for_s = (now_s if waits else each.last_s) - each.since_s
                if not each.why.timely and for_s >= self.LASTING_S and self._stands(each):
                    found[each.planner, each.kind, each.why.rule] = each
        return list(found.values())

    def _stands(self, refused: Refused) -> bool:
        return self._after_s(refused) <= self.GAP_S

    def _after_s(self, refused: Refused) -> float:
        """Return how long after a refusal its planner has last answered, without repeating it."""
        return self.answered_s.get(refused.planner, refused.last_s) - refused.last_s


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
        self.refused = RefusedProposals()

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
        self.forget_failures(job_id)
        self._done.pop(job_id, None)
        self.refused.forget_job(job_id)
