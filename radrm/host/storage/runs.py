"""Past runs: the attempts that have shown what their jobs need, for the estimators.

What an attempt used (peak memory, SM activity, energy, time) is stored in one place, the
attempt's own record (`Attempt.usage`). A run names such an attempt by its serial and adds what
the attempt does not know: the fingerprint of what ran, the kind of GPU, what the
estimators had said. `PastRun` is put together from both when it is read. The attempts of jobs that
retention has removed are in the table `learned`, with the job's name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import msgspec
from msgspec import field

from radrm.core.records import Attempt
from radrm.core.words import Outcome
from radrm.estimators.interface import PastRun
from radrm.estimators.learning.contention import Alone
from radrm.estimators.learning.profile import paced_s
from radrm.host.storage.database import DAMAGE, Database, encoded
from radrm.structs import Stored

MOST_CONTEXTS = 500
"""So many of the latest measurements are looked at: a user could make any number."""
MOST_NAMED = 100
"""So many of the latest jobs of one name are looked at."""
_CONTEXT = "context "
_BRIEF = "brief "
"""Marks a run that shows only its pace: it was stopped before its peak was seen."""
LEAST_PART = 0.2
"""The least part of a job's work in an attempt that shows how long all of it takes."""


class Said(Stored):
    """What was said before the attempt: the estimators' figures by name (MiB, SM activity 0..1,
    seconds), the version of the GPUs' driver, the CUDA that the program was built with, and the
    kind of model.

    `shown`: the attempt as if alone on its GPUs. `resumed`: it
    continued from a checkpoint, so it did only a part of the job's work. `sm_rate`: that of its
    kind of GPU (`Chip`); None: unknown.
    """

    told: dict[str, float] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None
    told_smact: dict[str, float] = field(default_factory=dict)
    told_duration: dict[str, float] = field(default_factory=dict)
    shown: Alone = Alone()
    length: str | None = None
    resumed: bool = False
    sm_rate: float | None = None
    family: str | None = None


class _Told(msgspec.Struct, frozen=True):
    told: dict[str, float] = {}


class Run(Stored):
    """Attempt `serial` of `uid` has shown what its job needs, on one kind of GPU."""

    serial: int
    uid: int
    fingerprint: str | None
    device_kind: str
    said: Said


_OF_JOBS = " AND ".join(
    f"coalesce(substr(fingerprint, 1, {len(mark)}), '') != '{mark}'" for mark in (_CONTEXT, _BRIEF)
)
"""The condition of runs that show the memory of jobs."""


# The column and the join for the attempts of runs: those of present jobs, of removed ones, all.
_PRESENT = "attempts.record", "JOIN attempts USING (serial)"
_REMOVED = "learned.record", "JOIN learned USING (serial)"
_ALL = (
    "coalesce(attempts.record, learned.record)",
    "LEFT JOIN attempts USING (serial) LEFT JOIN learned USING (serial)",
)


class PastRuns:
    """The table `runs`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def insert(self, runs: Iterable[Run]) -> None:
        """Store runs, each once, in a transaction with their attempts."""
        self._db.execute_many(
            "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
            [(r.serial, r.uid, r.fingerprint, r.device_kind, encoded(r.said)) for r in runs],
        )

    def same(self, fingerprint: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's very same thing, the latest first."""
        return self._read("fingerprint = ? AND uid = ?", fingerprint, uid, limit)

    def brief(self, fingerprint: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's very same thing that show only their pace.

        The latest is first. Their memory and SM activity do not count.
        """
        return self._read("fingerprint = ? AND uid = ?", brief_mark(fingerprint), uid, limit)

    def of_program(
        self, fingerprint: str | None, uid: int, limit: int
    ) -> tuple[tuple[PastRun, ...], tuple[PastRun, ...]]:
        """`same` and `brief`; none without a fingerprint."""
        if fingerprint is None:
            return (), ()
        return self.same(fingerprint, uid, limit), self.brief(fingerprint, uid, limit)

    def named(self, name: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's jobs of this name, the latest first.

        Only the latest jobs of this name are looked at, whoever submitted them.
        """
        latest = "SELECT id FROM jobs WHERE name = ? ORDER BY id DESC LIMIT ?"
        condition = f"attempts.job_id IN ({latest}) AND runs.uid = ? AND {_OF_JOBS}"
        found = self._read(condition, name, MOST_NAMED, uid, limit, attempts=_PRESENT)
        if len(found) < limit:  # those of removed jobs
            condition = f"name = ? AND runs.uid = ? AND {_OF_JOBS}"
            found += self._read(condition, name, uid, limit - len(found), attempts=_REMOVED)
        return found

    def recent(self, device_kind: str | None, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of all users, on GPUs of one kind (None: of any), the latest first.

        Runs that measured a CUDA context are left out: no job is like them.
        """
        if device_kind is None:
            return self._read(_OF_JOBS, limit)
        return self._read(f"device_kind = ? AND {_OF_JOBS}", device_kind, limit)

    def own(self, device_kind: str | None, uid: int, limit: int) -> tuple[PastRun, ...]:
        """Those of a user among the `limit` latest runs of all users."""
        kind = "" if device_kind is None else "device_kind = ? AND "
        latest = f"SELECT serial FROM runs WHERE {kind}{_OF_JOBS} ORDER BY serial DESC LIMIT ?"
        given = () if device_kind is None else (device_kind,)
        return self._read(f"runs.serial IN ({latest}) AND runs.uid = ?", *given, limit, uid, limit)

    def contexts(self, device_kind: str, driver: str, uid: int) -> dict[str, float]:
        """What a CUDA context was measured to take on such GPUs under this driver, in MiB, by
        the version of CUDA: the user's own latest measurement, else the others' middle one."""
        first = context_mark(driver, "")
        rows = self._db.execute(
            f"SELECT fingerprint, uid, {_ALL[0]} FROM runs {_ALL[1]} "
            "WHERE fingerprint >= ? AND fingerprint < ? AND device_kind = ? "
            "ORDER BY runs.serial DESC LIMIT ?",
            (first, first[:-1] + chr(ord(first[-1]) + 1), device_kind, MOST_CONTEXTS),
        )
        found: dict[str, dict[int, int]] = {}
        for mark, whose, text in rows:
            with contextlib.suppress(*DAMAGE):
                peak_mib = msgspec.json.decode(text, type=Attempt).peak_mib
                if peak_mib is not None:
                    found.setdefault(mark.removeprefix(first), {}).setdefault(whose, peak_mib)
        return {
            cuda: float(by_user.get(uid, median(by_user.values())))
            for cuda, by_user in found.items()
        }

    def told(self, serials: Sequence[int]) -> list[tuple[int, dict[str, float]]]:
        """What the estimators had said (MiB) of these attempts, as far as they have shown what
        their jobs need."""
        given = ",".join("?" * len(serials))
        query = f"SELECT serial, record FROM runs WHERE serial IN ({given}) AND {_OF_JOBS}"
        found = []
        for serial, said in self._db.execute(query, tuple(serials)):
            with contextlib.suppress(*DAMAGE):
                found.append((serial, msgspec.json.decode(said, type=_Told).told))
        return found

    def _read(
        self, condition: str, *arguments: Any, attempts: tuple[str, str] = _ALL
    ) -> tuple[PastRun, ...]:
        """Without those that cannot be read: a job can be estimated without them."""
        query = (
            f"SELECT device_kind, runs.record, {attempts[0]} FROM runs {attempts[1]} "
            f"WHERE {condition} ORDER BY runs.serial DESC LIMIT ?"
        )
        runs = []
        for device_kind, said, attempt in self._db.execute(query, arguments):
            with contextlib.suppress(*DAMAGE):
                found = past_run(
                    device_kind,
                    msgspec.json.decode(said, type=Said),
                    msgspec.json.decode(attempt, type=Attempt),
                )
                runs += [found] if found is not None else []
        return tuple(runs)


def past_run(device_kind: str, said: Said, attempt: Attempt) -> PastRun | None:
    """A run and its attempt, put together; None for an attempt whose peak was not seen and that
    shows no pace."""
    resized = attempt.generation > 1
    pace_s = None if resized else paced_s(attempt)
    if attempt.peak_mib is None and pace_s is None:
        return None
    shared = any(usage.shared for usage in attempt.used.values())
    found = said.shown
    part = _part(said, attempt)
    duration_s, most_s = pace_s, pace_s
    if found.seconds is not None and part is not None and not resized:
        duration_s = found.seconds / part
        most_s = None if found.seconds_most is None else found.seconds_most / part
    stopped = attempt.outcome in _STOPPED and not resized
    return PastRun(
        peak_mib=attempt.peak_mib or 0,
        device_kind=device_kind,
        smact=found.smact,
        smact_most=found.smact_most,
        smact_alone=found.measured,
        alone=not shared,
        duration_s=duration_s,
        duration_most_s=most_s,
        least_s=None if said.resumed or not stopped else found.seconds,
        told=said.told,
        told_smact=said.told_smact,
        told_duration=said.told_duration,
        driver=said.driver,
        cuda=said.cuda,
        length=said.length,
        sm_rate=said.sm_rate,
        family=said.family,
        gpus=max(1, len(attempt.placement.devices if resized else attempt.used)),
    )


def _part(said: Said, attempt: Attempt) -> float | None:
    """The part of its job's work that an attempt did until the end; None if it is too small, or
    not known."""
    if attempt.outcome is not Outcome.COMPLETED:
        return None
    begun = attempt.work_begun if said.resumed else 0.0
    return 1.0 - begun if begun is not None and 1.0 - begun >= LEAST_PART else None


_STOPPED = (Outcome.TIMEOUT, Outcome.PREEMPTED, Outcome.CANCELLED)
"""The work of such an attempt was not done."""


def brief_mark(fingerprint: str) -> str:
    """The fingerprint of the runs that show only the pace of this program."""
    return f"{_BRIEF}{fingerprint}"


def program_of(mark: str | None) -> str | None:
    """The fingerprint of the program of a run, whatever the run shows."""
    return None if mark is None else mark.removeprefix(_BRIEF)


def context_mark(driver: str, cuda: str) -> str:
    """The fingerprint of the runs that measured a CUDA context: no job's own looks like it."""
    return f"{_CONTEXT}{driver} {cuda}"
