"""Jobs, their runs and their attempts in small pieces, with only the facts that sums need.

Ended jobs come in the order of their ends, which is nearly that of their rows in the file: so few
pages are read twice. A piece is one query, so that the daemon's loop can do something else in
between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from radrm.core.records import Instant
from radrm.core.words import Collocation, JobState, Outcome
from radrm.host.storage.database import DAMAGE, Database

AT_ONCE = 100
"""Jobs of one piece: about 1 ms."""
ROWS_AT_ONCE = 200

_T = TypeVar("_T")
_A = TypeVar("_A", bound="PastAttempt")

_NEXT = f"""
SELECT ended_s, id, CAST(record AS BLOB) FROM jobs
    WHERE final AND (ended_s, id) > (?, ?) AND ended_s < ? ORDER BY ended_s, id LIMIT {AT_ONCE}
"""

_NEWEST = """
SELECT id, state, name FROM jobs WHERE final AND uid = ?1
    AND ended_s >= ?2 ORDER BY ended_s DESC, id DESC LIMIT ?3
"""


class Ended(NamedTuple):
    """A row about a job that has ended, without its record."""

    id: int
    state: str
    name: str


class PastSpec(msgspec.Struct, frozen=True):
    """Whose job it was."""

    name: str
    user: str
    group: str | None = None


class PastJob(msgspec.Struct, frozen=True):
    """A run of a job; `started` is its first start, `attempts` the number of its last attempt.

    A job whose user has it run again after its end has several runs (`Job.run`).
    """

    id: int
    spec: PastSpec
    submitted: Instant
    state: JobState
    started: Instant | None = None
    ended: Instant | None = None
    run: int = 1
    rerun: Instant | None = None
    attempts: int = 0

    @property
    def queued(self) -> Instant:
        """When the run was asked for."""
        return self.rerun or self.submitted

    @property
    def waited_s(self) -> float | None:
        """Seconds until the start; None for a run that never started, and across a reboot."""
        return None if self.started is None else self.started.since(self.queued)


class _Share(msgspec.Struct, frozen=True):
    device: str | None
    reserved_mib: int = 0


class _Placement(msgspec.Struct, frozen=True):
    shares: tuple[_Share, ...]
    collocation: Collocation = Collocation.EXCLUSIVE


class PastAttempt(msgspec.Struct, frozen=True):
    """An attempt. Of one whose size was changed, the placement is the last one."""

    job_id: int
    serial: int
    placement: _Placement
    launched: Instant
    ended: Instant | None = None
    outcome: Outcome | None = None
    number: int = 0

    @property
    def devices(self) -> tuple[str, ...]:
        """Its devices, each once."""
        if len(self.placement.shares) == 1:  # of nearly all attempts
            device = self.placement.shares[0].device
            return () if device is None else (device,)
        return tuple(dict.fromkeys(s.device for s in self.placement.shares if s.device is not None))

    def stay(self, now: Instant) -> tuple[float, float]:
        """Return when it held its devices, in epoch seconds; until now if it is live.

        Its length is measured by time since boot where that is known, so that a clock that was
        set does not change it.
        """
        end = self.ended or now
        lasting_s = end.since(self.launched)
        if lasting_s is None:
            lasting_s = end.wall_s - self.launched.wall_s
        return end.wall_s - max(0.0, lasting_s), end.wall_s


class PastUse(msgspec.Struct, frozen=True):
    """What an attempt was measured to use on one device, as in `Usage`."""

    device: str
    peak_mib: int | None = None
    smact_mean: float | None = None
    shared: bool = False


class UsedAttempt(PastAttempt, frozen=True):
    """An attempt with what it used."""

    usage: tuple[PastUse, ...] = ()

    @property
    def peak_mib(self) -> int | None:
        """The peak of its fullest device."""
        return max((u.peak_mib for u in self.usage if u.peak_mib is not None), default=None)

    def reserved_mib(self, device: str) -> int | None:
        """MiB that were reserved on a device at last; None: the whole device."""
        if self.placement.collocation.whole_device:
            return None
        return sum(s.reserved_mib for s in self.placement.shares if s.device == device)


_JOB = msgspec.json.Decoder(PastJob)
_ATTEMPT = msgspec.json.Decoder(PastAttempt)
_USED = msgspec.json.Decoder(UsedAttempt)


class EndedJobs:
    """Reads of the tables `jobs` and `attempts`. A record that is damaged raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def between(self, begin_s: float, end_s: float) -> Iterator[list[PastJob]]:
        """Yield the jobs that ended in this time (epoch seconds), oldest first.

        Each piece is read when it is asked for.
        """
        place = begin_s, -1
        while rows := self._db.execute(_NEXT, (*place, end_s)).fetchall():
            place = rows[-1][:2]
            yield [self._read(_JOB, data, "a job") for _, _, data in rows]

    def earlier(self, job_ids: Sequence[int]) -> Iterator[list[PastJob]]:
        """Yield the earlier runs of these jobs, by job, the first one first."""
        for some in self._by_job("ended_runs", "run", job_ids):
            yield [self._read(_JOB, data, "a run") for _, _, data in some]

    def newest(self, uid: int, begin_s: float, most: int) -> list[Ended]:
        """At most this many jobs of a user that have ended since (epoch seconds), newest first."""
        return [Ended(*row) for row in self._db.execute(_NEWEST, (uid, begin_s, most))]

    def attempts(self, job_ids: Sequence[int]) -> Iterator[list[PastAttempt]]:
        """Yield the attempts of these jobs that were really made, by job, oldest first."""
        return self._attempts(job_ids, _ATTEMPT)

    def used(self, job_ids: Sequence[int]) -> Iterator[list[UsedAttempt]]:
        """Yield the same with what the attempts used."""
        return self._attempts(job_ids, _USED)

    def _attempts(
        self, job_ids: Sequence[int], decoder: msgspec.json.Decoder[_A]
    ) -> Iterator[list[_A]]:
        for some in self._by_job("attempts", "serial", job_ids):
            found = [self._read(decoder, data, "an attempt") for _, _, data in some]
            # A launch that never began has an end, and no outcome.
            yield [each for each in found if each.outcome is not None or each.ended is None]

    def _by_job(
        self, table: str, number: str, job_ids: Sequence[int]
    ) -> Iterator[list[tuple[int, int, bytes]]]:
        """Yield the rows of a table for these jobs: job, number and record."""
        given = ",".join("?" * len(job_ids))
        query = (
            f"SELECT job_id, {number}, CAST(record AS BLOB) FROM {table} "
            f"WHERE job_id IN ({given}) AND (job_id, {number}) > (?, ?) "
            f"ORDER BY job_id, {number} LIMIT ?"
        )
        place = (-1, -1)
        while rows := self._db.execute(query, (*job_ids, *place, ROWS_AT_ONCE)).fetchall():
            place = rows[-1][:2]
            yield rows
            if len(rows) < ROWS_AT_ONCE:
                return

    def _read(self, decoder: msgspec.json.Decoder[_T], data: bytes, what: str) -> _T:
        try:
            return decoder.decode(data)
        except DAMAGE as error:
            raise self._db.damaged(f"the record of {what}", error) from None
