"""Which jobs a word means: an id, a ticket, an array, one of its elements, a name, a glob.

    12            job 12, or all elements of array 12
    12_3          element 3 of array 12
    01ARZ3ND...   the job or array that was submitted under this ticket
    resnet50      the jobs of this name
    sweep-*       the jobs whose names match

A name means unfinished jobs; where none of them has it, the latest that have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.errors import Refused
from radrm.host.store import Store
from radrm.host.tickets import is_ticket
from radrm.option_values import shown

MAX_PATTERN = 256
MAX_NAMED = 1000

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PLAIN = re.compile(r"[\w.*?-]{1,60}")
_ELEMENT = re.compile(r"([0-9]{1,18})_([0-9]{1,9})", re.ASCII)


class References:
    """Looks up what is live in the scheduler's state, and what has ended in the store."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._jobs = scheduler.state.jobs
        self._store = store

    def exact(self, word: str) -> list[Job]:
        """By id, element or ticket; all elements of an array. Raises `Refused` for none."""
        found = self._exact(word)
        if not found:
            raise Refused(f"there is no job {_said(word)}; `radrm status --all` lists them")
        return found

    def find(self, word: str, mine: Callable[[Job], bool] = lambda job: True) -> list[Job]:
        """By anything. A name or glob means only jobs that are `mine`. Raises `Refused`."""
        found = self._exact(word) or self._named(word, mine)
        if not found:
            raise Refused(f"there is no job {_said(word)}; `radrm status --all` lists them")
        return found

    def one(self, word: str) -> Job:
        """The one job that a word means; of several with one name the latest."""
        found = self.find(word)
        array = found[0].array
        if len(found) > 1 and array is not None and not _is_name(word):
            raise Refused(
                f"{word} is an array of {len(found)}; name one element, as {array.array_id}_"
                f"{array.index}"
            )
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
