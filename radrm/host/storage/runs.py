"""Past runs: the attempts that have shown what their jobs need, for the estimators.

What an attempt used (peak memory, SM activity, energy, time) is stored in one place, the
attempt's own record (`Attempt.usage`). A run names such an attempt by its serial and adds what
the attempt does not know: the fingerprint of what ran, the kind of GPU, what the
estimators had said. `PastRun` is put together from both when it is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from radrm.core.records import Attempt
from radrm.core.words import Outcome
from radrm.estimators.interface import PastRun
from radrm.estimators.learning.contention import Alone
from radrm.host.storage.database import DAMAGE, Database, encoded

MOST_CONTEXTS = 500
"""So many of the latest measurements are looked at: a user could make any number."""
MOST_NAMED = 100
"""So many of the latest jobs of one name are looked at."""
_CONTEXT = "context "


@dataclass(frozen=True, slots=True)
class Said:
    """What was said before the attempt: the estimators' figures by name (MiB, SM activity 0..1,
    seconds), the version of the GPUs' driver, and the CUDA that the program was built with.

    `shown`: the attempt as if alone on its GPUs; None in runs of earlier releases. `resumed`: it
    continued from a checkpoint, so its duration is not the job's.
    """

    told: dict[str, float] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None
    told_smact: dict[str, float] = field(default_factory=dict)
    told_duration: dict[str, float] = field(default_factory=dict)
    shown: Alone | None = None
    length: str | None = None
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Attempt `serial` of `uid` has shown what its job needs, on one kind of GPU."""

    serial: int
    uid: int
    fingerprint: str | None
    device_kind: str
    said: Said


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

    def named(self, name: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's jobs of this name, the latest first.

        Only the latest jobs of this name are looked at, whoever submitted them.
        """
        latest = "SELECT id FROM jobs WHERE name = ? ORDER BY id DESC LIMIT ?"
        condition = f"attempts.job_id IN ({latest}) AND runs.uid = ?"
        return self._read(condition, name, MOST_NAMED, uid, limit)

    def recent(self, device_kind: str | None, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of all users, on GPUs of one kind (None: of any), the latest first.

        Runs that measured a CUDA context are left out: no job is like them.
        """
        jobs = f"coalesce(substr(fingerprint, 1, {len(_CONTEXT)}), '') != '{_CONTEXT}'"
        if device_kind is None:
            return self._read(jobs, limit)
        return self._read(f"device_kind = ? AND {jobs}", device_kind, limit)

    def contexts(self, device_kind: str, driver: str, uid: int) -> dict[str, float]:
        """What a CUDA context was measured to take on such GPUs under this driver, in MiB, by
        the version of CUDA: the user's own latest measurement, else the others' middle one."""
        first = context_mark(driver, "")
        rows = self._db.execute(
            "SELECT fingerprint, uid, attempts.record FROM runs JOIN attempts USING (serial) "
            "WHERE fingerprint >= ? AND fingerprint < ? AND device_kind = ? "
            "ORDER BY serial DESC LIMIT ?",
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

    def _read(self, condition: str, *arguments: Any) -> tuple[PastRun, ...]:
        """Without those that cannot be read: a job can be estimated without them."""
        query = (
            "SELECT device_kind, runs.record, attempts.record FROM runs "
            f"JOIN attempts USING (serial) WHERE {condition} ORDER BY serial DESC LIMIT ?"
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
    """A run and its attempt, put together; None for an attempt whose peak was not seen."""
    if attempt.peak_mib is None:
        return None
    shared = any(usage.shared for usage in attempt.used.values())
    found = said.shown
    if found is None:
        # Releases before 0.2 did not correct shared runs.
        found = Alone() if shared else Alone(attempt.smact_mean, seconds=attempt.ran_s)
    whole = None if said.resumed else found.seconds
    return PastRun(
        peak_mib=attempt.peak_mib,
        device_kind=device_kind,
        smact=found.smact,
        smact_most=found.smact_most,
        smact_alone=found.measured,
        alone=not shared,
        duration_s=whole if attempt.outcome is Outcome.COMPLETED else None,
        least_s=whole if attempt.outcome in _STOPPED else None,
        told=said.told,
        told_smact=said.told_smact,
        told_duration=said.told_duration,
        driver=said.driver,
        cuda=said.cuda,
        length=said.length,
    )


_STOPPED = (Outcome.TIMEOUT, Outcome.PREEMPTED, Outcome.CANCELLED)
"""The work of such an attempt was not done."""


def context_mark(driver: str, cuda: str) -> str:
    """The fingerprint of the runs that measured a CUDA context: no job's own looks like it."""
    return f"{_CONTEXT}{driver} {cuda}"
