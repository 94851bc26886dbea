"""The table `notices`: what is to be sent, what could not be, and what must not be sent twice.

Theory of operation
-------------------
A notice is a row of the same transaction as the decision that caused it. So a kill loses none and
invents none. The row is `waiting` until it was sent. A kill between the sending and its mark in the
store makes the next daemon send it again: *at least once*.

A row that was sent is removed, except those that come only once for a job or an array (`sent`). A
row that was given up is kept as `failed`, to be shown, until another of its job, event and target.
Retention removes all of them with their job.

An array has one notice of each event: its end, with the number of elements in each state; the first
failure; the first GPU out-of-memory; the first start.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from radrm.config import NotifyConfig
from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job
from radrm.core.words import JobState, Outcome
from radrm.errors import RadrmError, message_of, plain
from radrm.host.storage.database import DAMAGE, Database, encoded
from radrm.host.storage.submitted import Submissions
from radrm.jobfile.parsing import merged
from radrm.jobfile.sweeps import array_of
from radrm.jobfile.targets import Target, target_of

log = logging.getLogger("radrm")

Facts = dict[str, Any]
HOUR_S = 3600.0
_MOST_WAITING = 5000
"""Rows of one look at what waits."""
_LONGEST = 500
"""Characters of a text."""
_WANTED = """
SELECT jobs.uid, gid,
    CASE WHEN json_valid(job_file) THEN json_extract(job_file, '$.raw.notify') END,
    CASE WHEN json_valid(options) THEN json_extract(options, '$.notify') END
FROM jobs JOIN submissions USING (ticket) LEFT JOIN edits ON edits.digest = jobs.edits
WHERE id = ?
"""
_EACH = frozenset({"end", "held"})
"""Events that an array tells of each time; of others only the first."""
_OF_ONE = (
    *("params", "exit_code", "reason", "started_at", "waited_s", "ran_s", "attempts", "peak_mib"),
    "oom_count",
)
"""The facts of an element that are none of its array's."""


class Notice(Struct, frozen=True):
    """A notice that waits. It has been tried `tries` times; `gid` is the group of the job."""

    id: int
    job_id: int
    uid: int
    gid: int
    kind: str
    target: Target
    tries: int
    facts: Facts


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
        self._hour = 0
        self._made: Counter[int] = Counter()
        """The notices of each user in this hour since the daemon's start."""

    # ------------------------------------------------------------- writing, in a transaction

    def note(self, decisions: Iterable[Decision]) -> None:
        """Add the notices that these decisions cause. Their records are in the store already."""
        seen: set[tuple[int, str]] = set()
        """What this transaction has found of an array, by its id."""
        for decision in decisions:
            for job_id, event, job, attempt, text in _occasions(decision):
                try:
                    uid, gid, targets = self._wanted(job_id)
                    if not targets:
                        continue
                    query = "SELECT record FROM jobs WHERE id = ?"
                    for each in [job] if job else self._db.records(Job, query, job_id):
                        facts = {**facts_of(each, event, attempt, text), "gid": gid}
                        self._note(each, facts, uid, targets, seen)
                except (*DAMAGE, RadrmError) as error:  # no notice may keep a decision from disk
                    why = plain(f"{type(error).__name__}: {message_of(error)}"[:200])
                    log.error("no notice of job %d (%s): %s", job_id, event, why)

    def _note(
        self,
        job: Job,
        facts: Facts,
        uid: int,
        targets: tuple[Target, ...],
        seen: set[tuple[int, str]],
    ) -> None:
        subject, kind, failed = job.id, facts["event"], job.state is not JobState.COMPLETED
        if job.array is not None:
            subject = job.array.array_id
            if kind == "held":  # any element stands for its array
                facts = {**facts, "job": str(subject), "state": None}
            elif kind == "end" and (subject, "over") in seen:
                return
            elif kind == "end" and (subject, "lives") not in seen and self._is_over(job):
                seen.add((subject, "over"))
                facts = {**facts, **_facts_of_array(subject, self._states(subject))}
                failed = set(facts["states"]) != {"COMPLETED"}
            elif kind == "end":
                seen.add((subject, "lives"))
                if not failed or (subject, "fail") in seen:
                    return
                seen.add((subject, "fail"))
                kind, facts = "fail", {**facts, "event": "fail"}
        events = {kind, "fail"} if kind == "end" and failed else {kind}
        once = kind == "start" or (job.array is not None and kind not in _EACH)
        for target in targets:
            if events.isdisjoint(target.events) or (once and self._has(subject, kind, target)):
                continue
            self._insert(subject, kind, target, uid, {**facts, "once": once})

    def _insert(self, subject: int, kind: str, target: Target, uid: int, facts: Facts) -> None:
        error = None
        if target.kind not in self.site.kinds:
            error = f"{target.kind} is not among the targets of this site (notify.kinds)"
        elif not self._has_room(uid):
            error = f"the limit of {self.site.per_hour} notices in an hour is reached"
        key = (subject, kind, _text(target))
        self._db.execute(
            "DELETE FROM notices WHERE job_id = ? AND kind = ? AND target = ? AND state = 'failed'",
            key,
        )
        self._db.execute(
            "INSERT INTO notices (job_id, kind, target, uid, state, tries, error, document) "
            "VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
            (*key, uid, "failed" if error else "waiting", error, encoded(facts)),
        )
        self.new = self.new or error is None

    def _has_room(self, uid: int) -> bool:
        """Count a notice of a user. False if there are too many in this hour."""
        hour = int(self._tick() // HOUR_S)
        if hour != self._hour:
            self._hour, self._made = hour, Counter()
        self._made[uid] += 1
        return self._made[uid] <= self.site.per_hour

    # ------------------------------------------------------------- asking

    def _wanted(self, job_id: int) -> tuple[int, int, tuple[Target, ...]]:
        """Return a job's user, group and targets: as submitted and edited since, or the site's."""
        row = self._db.execute(_WANTED, (job_id,)).fetchone()
        if row is None:
            return 0, 0, ()
        uid, gid, submitted, edited = row
        try:
            low = {} if submitted is None else {"notify": json.loads(submitted)}
            high = {} if edited is None else {"notify": json.loads(edited)}
            found = merged(low, high).get("notify")
            words = list(self.site.default) if not isinstance(found, list) else found
            while "none" in words:  # it drops what came before
                del words[: words.index("none") + 1]
            return uid, gid, tuple(map(target_of, words))
        except DAMAGE:
            return uid, gid, ()

    def _is_over(self, element: Job) -> bool:
        """Return whether all elements of an array have been taken in and have ended."""
        array_id = element.array.array_id if element.array is not None else element.id
        states = self._states(array_id)
        if any(not state.final for state in states):
            return False
        whole = array_of(self._submissions.of_job(element.id).job_file())
        return whole is None or sum(states.values()) >= len(whole.indices)

    def _states(self, array_id: int) -> dict[JobState, int]:
        query = "SELECT state, count(*) FROM jobs WHERE array_id = ? GROUP BY state"
        return {JobState(state): n for state, n in self._db.execute(query, (array_id,))}

    def _has(self, subject: int, kind: str, target: Target) -> bool:
        query = "SELECT 1 FROM notices WHERE job_id = ? AND kind = ? AND target = ?"
        return self._db.execute(query, (subject, kind, _text(target))).fetchone() is not None

    def waiting(self, skip: Callable[[int, int], bool], most: int) -> list[Notice]:
        """Return the oldest notices to send, at most one of each user, without those of which
        `skip(id, uid)` is true. A damaged row is removed."""
        query = "SELECT id, uid FROM notices WHERE state = 'waiting' ORDER BY id LIMIT ?"
        chosen: dict[int, int] = {}
        for notice_id, uid in self._db.execute(query, (_MOST_WAITING,)):
            if len(chosen) < most and uid not in chosen and not skip(notice_id, uid):
                chosen[uid] = notice_id
        found = []
        query = "SELECT job_id, uid, kind, target, tries, document FROM notices WHERE id = ?"
        for each in chosen.values():
            job_id, uid, kind, target, tries, document = self._db.execute(query, (each,)).fetchone()
            try:
                facts = json.loads(document)
                gid = facts.pop("gid")
                found.append(Notice(each, job_id, uid, gid, kind, _target(target), tries, facts))
            except DAMAGE as error:
                log.error("notice %d cannot be read, and is removed: %s", each, error)
                with self._db.writing("notices"):
                    self._db.execute("DELETE FROM notices WHERE id = ?", (each,))
        return found

    def problems(self, job_id: int, array_id: int | None) -> list[dict[str, Any]]:
        """Return the notices of a job, and of its array, that could not be sent so far."""
        query = (
            "SELECT kind, target, state, tries, error FROM notices "
            "WHERE job_id IN (?, ?) AND error IS NOT NULL ORDER BY id LIMIT 100"
        )
        names = ("event", "target", "given_up", "tries", "error")
        rows = self._db.execute(query, (job_id, array_id if array_id is not None else job_id))
        found = [dict(zip(names, row, strict=True)) for row in rows]
        for each in found:
            each["target"] = _target(each["target"]).place
            each["given_up"] = each["given_up"] == "failed"
        return found

    # ------------------------------------------------------------- what became of them

    def tried(self, notice: Notice, error: str | None, for_good: bool = True) -> None:
        """Note that a notice was sent (`error` None), or could not be. Raises `StoreError`."""
        once = notice.facts.get("once")
        state = "waiting" if not for_good else "sent" if error is None else "failed"
        with self._db.not_synced(), self._db.writing("notices"):
            if error is None and not once:
                self._db.execute("DELETE FROM notices WHERE id = ?", (notice.id,))
            else:
                query = "UPDATE notices SET state = ?, tries = tries + 1, error = ? WHERE id = ?"
                self._db.execute(query, (state, error, notice.id))
        self.given_up += state == "failed"


def _text(target: Target) -> str:
    return f"{target.kind} {target.address}"


def _target(text: str) -> Target:
    kind, _, address = text.partition(" ")
    return Target(kind, address, ())


# ------------------------------------------------------------------ what a notice says


def facts_of(
    job: Job, event: str, attempt: Attempt | None = None, text: str | None = None
) -> Facts:
    """Return the facts about a job: plain JSON, of its own user's data only. `attempt`: its last
    one, if known; `text`: a warning. Times are epoch seconds; what is unknown is None."""
    reason = job.reason if job.state.final else None
    if event == "oom" and attempt is not None:
        reason = attempt.reason
    return {
        "event": event,
        "id": job.id,
        "job": job.label,
        "name": job.spec.name,
        "user": job.spec.user,
        "comment": _short(job.spec.comment),
        "params": dict(job.array.params) if job.array is not None and job.array.params else None,
        "state": job.state.value,
        "exit_code": job.exit_code,
        "reason": _short(reason),
        "text": _short(text),
        "submitted_at": job.submitted.wall_s,
        "started_at": job.started.wall_s if job.started else None,
        "ended_at": job.ended.wall_s if job.ended else None,
        "waited_s": job.started.since(job.queued) if job.started else None,
        "ran_s": job.ended.since(job.started) if job.started and job.ended else None,
        "attempts": job.attempts,
        "oom_count": job.oom_count,
        "gpus": job.gpus,
        "peak_mib": attempt.peak_mib if attempt is not None else None,
        "states": None,
    }


def _facts_of_array(array_id: int, states: dict[JobState, int]) -> Facts:
    """Return what replaces facts of its last element when an array has ended."""
    worst = (JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED, JobState.COMPLETED)
    return {
        **dict.fromkeys(_OF_ONE),
        "job": str(array_id),
        "state": next(state for state in worst if states.get(state)).value,
        "states": {state.value: number for state, number in states.items()},
    }


def _occasions(
    decision: Decision,
) -> Iterator[tuple[int, str, Job | None, Attempt | None, str | None]]:
    """Yield what a decision has to tell of, in order: a job's id, the event, the job's record if
    the decision has it, its attempt, and the text of a warning.

    `start` stands for any durable change of a running job, so the first of them counts.
    """
    attempts = {each.job_id: each for each in decision.changed if isinstance(each, Attempt)}
    jobs = {each.id: each for each in decision.changed if isinstance(each, Job)}
    for attempt in attempts.values():
        if attempt.ended is not None and attempt.outcome is Outcome.OOM:
            yield attempt.job_id, "oom", jobs.get(attempt.job_id), attempt, None
    for job in jobs.values():
        if job.state.final or job.state is JobState.RUNNING:
            yield job.id, "end" if job.state.final else "start", job, attempts.get(job.id), None
    for each in decision.warned:
        yield each.job_id, each.kind, jobs.get(each.job_id), None, each.text


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_LONGEST]
