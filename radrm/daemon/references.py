"""Which jobs a word means: an id, a ticket, an array, one of its elements, a name, a glob.

    12            job 12, or all elements of array 12
    12_3          element 3 of array 12
    01ARZ3ND...   the job or array that was submitted under this ticket
    resnet50      the jobs of this name
    sweep-*       the jobs whose names match

A name means the asker's own jobs before others', and unfinished ones; where none of them
has it, the latest that have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.errors import Refused
from radrm.host.store import Store
from radrm.host.tickets import is_ticket
from radrm.option_values import shown

MAX_PATTERN = 256
MAX_NAMED = 1000

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PLAIN = re.compile(r"[\w.*?-]{1,60}")
_ELEMENT = re.compile(r"([0-9]{1,18})_([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """What a dependency is on: a job, or an array by its id; how many of its jobs are where."""

    job_id: int
    array: bool
    what: str
    states: Mapping[JobState, int]


class References:
    """Looks up what is live in the scheduler's state, and what has ended in the store.

    `uid` is who asks: a name means his own jobs, and others' only where he has none.
    """

    def __init__(self, scheduler: Scheduler, store: Store, uid: int | None = None) -> None:
        self._jobs = scheduler.state.jobs
        self._store = store
        self._uid = uid

    def target(self, word: str) -> Target:
        """What an id, an element or a ticket means to one who is to follow it; of an array
        nothing is read but how many are where. Raises `Refused` for none."""
        job = self._first(word)
        if job is None:
            raise Refused(f"there is no job {_said(word)}; `radrm status --all` lists them")
        array = job.array
        if array is not None and (array.array_id == job.id and not _ELEMENT.fullmatch(word)):
            what = f"one of array {array.array_id} ({job.spec.name})"
            return Target(array.array_id, True, what, self._store.array_states(array.array_id))
        return Target(job.id, False, f"job {job.label} ({job.spec.name})", {job.state: 1})

    def _first(self, word: str) -> Job | None:
        """The job of an id, element or ticket; the first of an array."""
        if is_ticket(word.upper()):
            taken = self._store.taken(word.upper())
            return self._current(taken.first_id) if taken is not None else None
        if _NUMBER.fullmatch(word):
            return self._current(int(word))
        return next(iter(self._exact(word)), None)

    def find(self, word: str, mine: Callable[[Job], bool] = lambda job: True) -> list[Job]:
        """By anything. A name or glob means only jobs that are `mine`. Raises `Refused`."""
        found = self._exact(word) or self._own(word, mine) or self._named(word, mine)
        if not found:
            raise Refused(f"there is no job {_said(word)}; `radrm status --all` lists them")
        return found

    def one(self, word: str) -> Job:
        """The one job that a word means; of several that have ended under one name the latest.

        Raises `Refused` for an array, and for a name that several unfinished jobs have.
        """
        found = self.find(word)
        if len(found) > 1 and not (_is_name(word) and found[-1].state.final):
            what = f"{_said(word)} is" if _is_name(word) else f"array {word} has"
            raise Refused(f"{what} {len(found)} jobs; name one of them, as {found[0].label}")
        return found[-1]

    def _exact(self, word: str) -> list[Job]:
        if _NUMBER.fullmatch(word):
            job = self._current(int(word))
            if job is not None and job.array is not None and job.array.array_id == job.id:
                return self._currents(self._store.of_array(job.id))
            return [job] if job is not None else []
        if element := _ELEMENT.fullmatch(word):
            stored = self._store.element(int(element[1]), int(element[2]))
            return self._currents([stored] if stored else [])
        if is_ticket(word.upper()):
            return self._currents(self._store.of_ticket(word.upper()))
        return []

    def _own(self, word: str, mine: Callable[[Job], bool]) -> list[Job]:
        if self._uid is None:
            return []
        return self._named(word, lambda job: job.spec.uid == self._uid and mine(job))

    def _named(self, word: str, mine: Callable[[Job], bool]) -> list[Job]:
        if len(word) > MAX_PATTERN:
            return []
        matches = re.compile(translate(word)).match
        live = [j for j in self._jobs.values() if matches(j.spec.name) and mine(j)]
        if live:
            return sorted(live, key=lambda job: job.id)
        return [j for j in self._store.named(word, MAX_NAMED) if mine(j)]

    def _current(self, job_id: int) -> Job | None:
        return self._jobs.get(job_id) or self._store.job(job_id)

    def _currents(self, stored: list[Job]) -> list[Job]:
        return [self._jobs.get(job.id, job) for job in stored]


def _said(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shown(word)


def _is_name(word: str) -> bool:
    return not (_NUMBER.fullmatch(word) or _ELEMENT.fullmatch(word) or is_ticket(word.upper()))
