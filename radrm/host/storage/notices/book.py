"""The table `notices`: what is to be sent, what could not be, and what must not be sent twice.

Theory of operation
-------------------
A notice is a row of the same transaction as the decision that caused it. So a kill loses none and
invents none. The row is `waiting` until it was sent. A kill between the sending and its mark in the
store makes the next daemon send it again: *at least once*.

A row that was sent is removed, except those that come only once for a job or an array (`sent`). A
row that was given up is kept as `failed`, to be shown, the last one of each job, event and target.
Retention removes all of them with their job.

An array has one notice of each event: its end, with the number of elements in each state; the first
failure; the first GPU out-of-memory; the first start.

A user has at most `per_hour` notices in an hour, counted since the daemon's start.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from radrm.config import NotifyConfig
from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job
from radrm.core.words import JobState
from radrm.errors import RadrmError, message_of, plain
from radrm.host.storage.database import DAMAGE, Database, encoded
from radrm.host.storage.notices.facts import Facts, facts_of, facts_of_array, occasions
from radrm.host.storage.submitted import Submissions
from radrm.jobfile.parsing import merged
from radrm.jobfile.sweeps import array_of
from radrm.jobfile.targets import Target, target_of

log = logging.getLogger("radrm")

HOUR_S = 3600.0
_MOST_WAITING = 5000
"""Rows of one look at what waits."""
_UNFINISHED = tuple(state.value for state in JobState if not state.final)
_WANTED = """
SELECT uid, gid,
    CASE WHEN json_valid(job_file) THEN json_extract(job_file, '$.raw.notify') END,
    CASE WHEN json_valid(options) THEN json_extract(options, '$.notify') END
FROM jobs JOIN submissions USING (ticket) LEFT JOIN edits ON edits.digest = jobs.edits
WHERE id = ?
"""
_ARRAY_LIVES = f"""
SELECT 1 FROM jobs WHERE array_id = ? AND state IN ({",".join("?" * len(_UNFINISHED))}) LIMIT 1
"""
_ONCE = frozenset({"start"})
_EACH = frozenset({"end", "held"})
"""Events that an array tells of each time; of others only the first."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that waits. It has been tried `tries` times; `gid` is the group of the job."""

    id: int
    job_id: int
    uid: int
    gid: int
    kind: str
    target: Target
    tries: int
    facts: Facts


@dataclass(frozen=True, slots=True)
class _Wanted:
    uid: int
    gid: int
    targets: tuple[Target, ...]


class Notices:
    """Used by the store's one thread. `tick`: a monotonic clock, in real seconds."""

    def __init__(self, database: Database, tick: Callable[[], float] = time.monotonic) -> None:
        self.site = NotifyConfig()
        self.new = True
        """True if rows may wait of which `waiting` has not told yet; the reader sets it back."""
        self.given_up = 0
        """Notices that could not be sent, since the daemon's start."""
        self._db = database
        self._submissions = Submissions(database)
        self._tick = tick
        self._made: dict[int, deque[float]] = {}
        """When the notices of the last hour were made, by user."""
        self._told: dict[int, float] = {}
        """When the log was last told that a user has reached the limit."""

    # ------------------------------------------------------------- writing, in a transaction

    def note(self, decisions: Iterable[Decision]) -> None:
        """Add the notices that these decisions cause. Their records are in the store already."""
        seen: set[tuple[int, str]] = set()
        """What this transaction has found of an array, by its id."""
        for decision in decisions:
            for job_id, event, job, attempt, text in occasions(decision):
                try:
                    wanted = self._wanted(job_id)
                    record = (job or self._job(job_id)) if wanted.targets else None
                    if record is not None:
                        self._note(record, event, attempt, text, wanted, seen)
                except (*DAMAGE, RadrmError) as error:  # no notice may keep a decision from disk
                    why = plain(f"{type(error).__name__}: {message_of(error)}"[:200])
                    log.error("no notice of job %d (%s): %s", job_id, event, why)

    def _note(
        self,
        job: Job,
        event: str,
        attempt: Attempt | None,
        text: str | None,
        wanted: _Wanted,
        seen: set[tuple[int, str]],
    ) -> None:
        subject, failed = job.id, job.state is not JobState.COMPLETED
        kind, events, facts = event, {event}, facts_of(job, event, attempt, text)
        if job.array is not None:
            subject = job.array.array_id
            if event == "held":  # any element stands for its array
                facts = {**facts, "job": str(subject), "state": None}
        if event == "end":
            events = {"end", "fail"} if failed else {"end"}
            if job.array is not None:
                if (subject, "over") in seen:
                    return
                if (subject, "lives") not in seen and self._is_over(job):
                    seen.add((subject, "over"))
                    facts = facts_of_array(job, self._states(subject))
                    events = {"end"} if set(facts["states"]) == {"COMPLETED"} else {"end", "fail"}
                elif failed and (subject, "fail") not in seen:
                    seen |= {(subject, "lives"), (subject, "fail")}
                    kind, events, facts = "fail", {"fail"}, {**facts, "event": "fail"}
                else:
                    seen.add((subject, "lives"))
                    return
        once = kind in _ONCE or (job.array is not None and kind not in _EACH)
        for target in wanted.targets:
            if events.isdisjoint(target.events) or (once and self._has(subject, kind, target)):
                continue
            self._insert(subject, kind, target, wanted, {**facts, "once": once})

    def _insert(
        self, subject: int, kind: str, target: Target, wanted: _Wanted, facts: Facts
    ) -> None:
        error = None
        if target.kind not in self.site.kinds:
            error = f"{target.kind} is not among the targets of this site (notify.kinds)"
        elif not self._has_room(wanted.uid):
            error = f"the limit of {self.site.per_hour} notices in an hour is reached"
        state = "waiting" if error is None else "failed"
        if error is not None:
            self._remove_failed(subject, kind, target)
        row = (subject, wanted.uid, kind, _text(target), state, 0, error)
        document = encoded({**facts, "gid": wanted.gid})
        self._db.execute(
            "INSERT INTO notices (job_id, uid, kind, target, state, tries, error, document) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, document),
        )
        self.new = self.new or error is None

    def _has_room(self, uid: int) -> bool:
        """Count a notice of a user. False, and a line in the log, if there are too many."""
        now_s, most = self._tick(), self.site.per_hour
        made = self._made.setdefault(uid, deque())
        while made and made[0] <= now_s - HOUR_S:
            made.popleft()
        if len(made) < most:
            made.append(now_s)
            return True
        if self._told.get(uid, float("-inf")) <= now_s - HOUR_S:
            self._told[uid] = now_s
            log.warning(
                "user %d has had %d notices in an hour, the most: the others are not sent",
                uid,
                most,
            )
        return False

    # ------------------------------------------------------------- asking

    def _wanted(self, job_id: int) -> _Wanted:
        """Return who is told of a job: as submitted and edited since, or as the site says."""
        row = self._db.execute(_WANTED, (job_id,)).fetchone()
        if row is None:
            return _Wanted(0, 0, ())
        uid, gid, submitted, edited = row
        try:
            low = {} if submitted is None else {"notify": json.loads(submitted)}
            high = {} if edited is None else {"notify": json.loads(edited)}
            found = merged(low, high).get("notify")
            words = list(self.site.default) if not isinstance(found, list) else found
            while "none" in words:  # it drops what came before
                del words[: words.index("none") + 1]
            targets = tuple(map(target_of, words))
        except DAMAGE:
            targets = ()
        return _Wanted(uid, gid, targets)

    def _job(self, job_id: int) -> Job | None:
        found = self._db.records(Job, "SELECT record FROM jobs WHERE id = ?", job_id)
        return found[0] if found else None

    def _is_over(self, element: Job) -> bool:
        """Return whether all elements of an array have been taken in and have ended."""
        array_id = element.array.array_id if element.array is not None else element.id
        if self._db.execute(_ARRAY_LIVES, (array_id, *_UNFINISHED)).fetchone() is not None:
            return False
        query = "SELECT count(*) FROM jobs WHERE array_id = ?"
        (count,) = self._db.execute(query, (array_id,)).fetchone()
        whole = array_of(self._submissions.of_job(element.id).job_file())
        return whole is None or count >= len(whole.indices)

    def _states(self, array_id: int) -> dict[JobState, int]:
        query = "SELECT state, count(*) FROM jobs WHERE array_id = ? GROUP BY state"
        return {JobState(state): n for state, n in self._db.execute(query, (array_id,))}

    def _has(self, subject: int, kind: str, target: Target) -> bool:
        query = "SELECT 1 FROM notices WHERE job_id = ? AND kind = ? AND target = ?"
        return self._db.execute(query, (subject, kind, _text(target))).fetchone() is not None

    def waiting(self, skip: Callable[[int, int], bool], most: int) -> list[Notice]:
        """Return the oldest notices to send, at most one of each user, without those of which
        `skip(id, uid)` is true."""
        query = "SELECT id, uid FROM notices WHERE state = 'waiting' ORDER BY id LIMIT ?"
        chosen: dict[int, int] = {}
        for notice_id, uid in self._db.execute(query, (_MOST_WAITING,)):
            if len(chosen) >= most:
                break
            if uid not in chosen and not skip(notice_id, uid):
                chosen[uid] = notice_id
        return [found for each in chosen.values() if (found := self._read(each)) is not None]

    def _read(self, notice_id: int) -> Notice | None:
        """Return a row; a damaged one is removed."""
        query = "SELECT job_id, uid, kind, target, tries, document FROM notices WHERE id = ?"
        job_id, uid, kind, target, tries, document = self._db.execute(
            query, (notice_id,)
        ).fetchone()
        try:
            facts = json.loads(document)
            gid = facts.pop("gid")
            return Notice(notice_id, job_id, uid, gid, kind, _target(target), tries, facts)
        except DAMAGE as error:
            log.error("notice %d cannot be read, and is removed: %s", notice_id, error)
            with self._db.writing("notices"):
                self._db.execute("DELETE FROM notices WHERE id = ?", (notice_id,))
            return None

    def problems(self, job_id: int, array_id: int | None) -> list[dict[str, Any]]:
        """Return the notices of a job, and of its array, that could not be sent so far."""
        query = (
            "SELECT kind, target, state, tries, error FROM notices "
            "WHERE job_id IN (?, ?) AND error IS NOT NULL ORDER BY id LIMIT 100"
        )
        rows = self._db.execute(query, (job_id, array_id if array_id is not None else job_id))
        return [
            {
                "event": kind,
                "target": _target(target).place,
                "tries": tries,
                "error": error,
                "given_up": state == "failed",
            }
            for kind, target, state, tries, error in rows
        ]

    # ------------------------------------------------------------- what became of them

    def sent(self, notice: Notice) -> None:
        """Note that a notice was sent. Raises `StoreError`."""
        with self._db.not_synced(), self._db.writing("notices"):
            if notice.facts.get("once"):
                query = "UPDATE notices SET state = 'sent', error = NULL WHERE id = ?"
            else:
                query = "DELETE FROM notices WHERE id = ?"
            self._db.execute(query, (notice.id,))
            self._remove_failed(notice.job_id, notice.kind, notice.target)

    def failed(self, notice: Notice, error: str, for_good: bool) -> None:
        """Note that a notice could not be sent. Raises `StoreError`."""
        with self._db.not_synced(), self._db.writing("notices"):
            if for_good:
                self._remove_failed(notice.job_id, notice.kind, notice.target)
            self._db.execute(
                "UPDATE notices SET state = ?, tries = tries + 1, error = ? WHERE id = ?",
                ("failed" if for_good else "waiting", error, notice.id),
            )
        self.given_up += for_good

    def _remove_failed(self, job_id: int, kind: str, target: Target) -> None:
        self._db.execute(
            "DELETE FROM notices WHERE job_id = ? AND kind = ? AND target = ? AND state = 'failed'",
            (job_id, kind, _text(target)),
        )


def _text(target: Target) -> str:
    return f"{target.kind} {target.address}"


def _target(text: str) -> Target:
    kind, _, address = text.partition(" ")
    return Target(kind, address, ())
