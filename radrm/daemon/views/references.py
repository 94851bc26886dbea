"""Which jobs a word means: an id, a ticket, an array, one of its elements, a name, a glob.

    12            job 12, or all elements of array 12
    12_3          element 3 of array 12
    01ARZ3ND...   the job or array that was submitted under this ticket
    resnet50      the jobs of this name
    sweep-*       the jobs whose names match

A name means the asker's own jobs before others', and unfinished ones; where none of them
has it, the latest that have ended. All names and globs of a request are looked for in one
pass over the jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.globs import MAX_PATTERN, Globs, is_glob
from radrm.errors import RadrmError, Refused
from radrm.host.storage.store import Store
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.values import shown

MAX_NAMED = 1000
MAX_FOUND = 200_000
"""Jobs that one request is about."""
_ROWS = 1000
"""Of the store, looked through at a time."""
_MAX_NAMES = 100_000
"""Names whose matches are remembered."""

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


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs that a word means, by their ids; none of them, and why."""

    word: str
    ids: Sequence[int]
    error: RadrmError | None = None


class References:
    """Looks up what is live in the scheduler's state, and what has ended in the store.

    `uid` is who asks: a name means his own jobs, and others' only where he has none; without
    `others` never. None: a name means everybody's.
    """

    def __init__(
        self, scheduler: Scheduler, store: Store, uid: int | None = None, others: bool = True
    ) -> None:
        self._jobs = scheduler.state.jobs
        self._store = store
        self._uid = uid
        self._others = others or uid is None

    def target(self, word: str) -> Target:
        """What an id, an element or a ticket means to one who is to follow it; of an array
        nothing is read but how many are where. Raises `Refused` for none."""
        job_id = self._first(word)
        job = self.current(job_id) if job_id is not None else None
        if job is None:
            raise _nobody(word)
        array = job.array
        if array is not None and (array.array_id == job.id and not _ELEMENT.fullmatch(word)):
            what = f"one of array {array.array_id} ({job.spec.name})"
            return Target(array.array_id, True, what, self._store.array_states(array.array_id))
        return Target(job.id, False, f"job {job.label} ({job.spec.name})", {job.state: 1})

    def _first(self, word: str) -> int | None:
        """The job of an id, element or ticket; the first of an array."""
        if is_ticket(word.upper()):
            taken = self._store.taken(word.upper())
            return taken.first_id if taken is not None else None
        if _NUMBER.fullmatch(word):
            return int(word)
        return next(iter(self._exact(word)), None)

    def find(self, words: Sequence[str]) -> Work[list[Found]]:
        """What each of these words means, in their order. Raises `UsageError` for too many
        globs, `Refused` for too many jobs."""
        pace = Pace()
        found: dict[str, Sequence[int]] = {}
        count = 0
        for word in dict.fromkeys(words):
            found[word] = self._exact(word)
            count += len(found[word])
            check_count(count)
            if pace.spent:
                yield from pace.rest()
        names = [word for word, ids in found.items() if not ids and len(word) <= MAX_PATTERN]
        known: Mapping[str, Sequence[int]] = {}
        if names:
            looking = _Looking(names)
            if self._uid is not None:
                yield from self._look(looking, self._uid, pace)
            if self._others:
                yield from self._look(looking, None, pace)
            known = looking.ids
            check_count(count + sum(map(len, known.values())))
            found |= known
        return [
            Found(word, ids, None if ids or word in known else _nobody(word))
            for word, ids in found.items()
        ]

    def one(self, word: str) -> Work[Job]:
        """The one job that a word means; of several that have ended under one name the latest.

        Raises `Refused` for an array, and for a name that several unfinished jobs have.
        """
        (found,) = yield from self.find([word])
        if found.error is not None:
            raise found.error
        last = self.current(found.ids[-1])
        if last is None:
            raise _nobody(word)
        if len(found.ids) > 1 and not (_is_name(word) and last.state.final):
            first = self.current(found.ids[0]) or last
            what = f"{_said(word)} is" if _is_name(word) else f"array {word} has"
            raise Refused(f"{what} {len(found.ids)} jobs; name one of them, as {first.label}")
        return last

    def current(self, job_id: int) -> Job | None:
        """A job as it is now."""
        return self._jobs.get(job_id) or self._store.job(job_id)

    def _exact(self, word: str) -> Sequence[int]:
        if _NUMBER.fullmatch(word):
            job = self.current(int(word))
            if job is not None and job.array is not None and job.array.array_id == job.id:
                return self._store.of_array(job.id)
            return [job.id] if job is not None else []
        if element := _ELEMENT.fullmatch(word):
            stored = self._store.element(int(element[1]), int(element[2]))
            return [stored] if stored is not None else []
        if is_ticket(word.upper()):
            return self._store.of_ticket(word.upper())
        return []

    # ------------------------------------------------------------- names

    def _look(self, looking: _Looking, uid: int | None, pace: Pace) -> Work[None]:
        """Find jobs for the names that have none yet, a user's or anybody's: unfinished ones,
        else such as have ended."""
        wanted = looking.wanted()
        for job in list(self._jobs.values()):
            if uid is None or job.spec.uid == uid:
                looking.take(job.id, job.spec.name, wanted)
            if pace.spent:
                yield from pace.rest()
        looking.settle(wanted)
        for number in looking.wanted() & looking.plain:
            looking.give(number, self._store.named(looking.words[number], uid, MAX_NAMED))
            if pace.spent:
                yield from pace.rest()
        yield from self._look_through_store(looking, uid, pace)

    def _look_through_store(self, looking: _Looking, uid: int | None, pace: Pace) -> Work[None]:
        before = 2**62
        wanted = looking.wanted() - looking.plain
        while wanted:
            rows = self._store.names_before(before, _ROWS)
            if not rows:
                break
            for job_id, name, owner in rows:
                if uid is None or owner == uid:
                    looking.take(job_id, name, wanted)
                if pace.spent:
                    yield from pace.rest()
            before = rows[-1][0]
            full = {n for n in wanted if len(looking.of[n]) >= MAX_NAMED}
            looking.settle(full)
            wanted -= full
        looking.settle(wanted)


@dataclass(slots=True)
class _Looking:
    """Names that jobs are looked for. A job goes to the first of those that it matches: a
    request that names it twice means it once."""

    words: Sequence[str]
    ids: dict[str, Sequence[int]] = field(default_factory=dict)
    of: list[list[int]] = field(init=False)
    plain: set[int] = field(init=False)
    _seen: set[int] = field(default_factory=set)
    _by_name: dict[str, int] = field(init=False)
    _globs: Globs = field(init=False)
    _numbers: list[int] = field(init=False)
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = [n for n, word in enumerate(self.words) if is_glob(word)]
        self.plain = set(range(len(self.words))) - set(self._numbers)
        self._by_name = {self.words[n]: n for n in self.plain}
        self._globs = Globs([self.words[n] for n in self._numbers])
        self.of = [[] for _ in self.words]

    def wanted(self) -> set[int]:
        """The numbers of the names for which nothing was found yet."""
        return {n for n, word in enumerate(self.words) if word not in self.ids}

    def take(self, job_id: int, name: str, wanted: set[int]) -> None:
        """Note a job under the first of the wanted names that it matches."""
        numbers = self._known.get(name)
        if numbers is None:
            numbers = self._matching(name)
        taken = False
        for number in numbers:
            if number in wanted:
                self._seen.add(number)
                if not taken:
                    self.of[number].append(job_id)
                taken = True

    def _matching(self, name: str) -> tuple[int, ...]:
        if len(self._known) >= _MAX_NAMES:
            self._known.clear()
        plain = self._by_name.get(name)
        numbers: tuple[int, ...] = () if plain is None else (plain,)
        if self._numbers:
            numbers += tuple(self._numbers[i] for i in self._globs.matching(name))
        self._known[name] = numbers
        return numbers

    def give(self, number: int, ids: Sequence[int]) -> None:
        if ids:
            self.ids[self.words[number]] = ids

    def settle(self, numbers: set[int]) -> None:
        """What was noted for these names is what they mean."""
        for number in numbers & self._seen:
            self.ids[self.words[number]] = sorted(self.of[number])


def check_count(count: int) -> None:
    """Raise `Refused` for more jobs than a request can be about."""
    if count > MAX_FOUND:
        raise Refused(
            f"these are {count} jobs or more, and one request is about {MAX_FOUND} at the most; "
            "name fewer at a time"
        )


def _nobody(word: str) -> Refused:
    return Refused(f"there is no job {_said(word)}; `radrm status --all` lists them")


def _said(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shown(word)


def _is_name(word: str) -> bool:
    return not (_NUMBER.fullmatch(word) or _ELEMENT.fullmatch(word) or is_ticket(word.upper()))
