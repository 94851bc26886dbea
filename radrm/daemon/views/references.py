"""Which jobs a word means: an id, a ticket, an array, one of its elements, a name, a glob.

References.

    12            job 12, or all elements of array 12
    12_3          element 3 of array 12
    12-20, 12,14  the jobs of these ids, unless a job has this name
    12_[0-8:2,9]  elements of array 12, as `radrm status` shows those that are alike
    01ARZ3ND...   the job or array that was submitted under this ticket
    resnet50      the jobs of this name
    sweep-*       the jobs whose names match, or are this very word
    @, @~1        the client's latest submission, the one before

A name means the client's own jobs before those of others, and unfinished jobs before those
that have ended, unless the request asks for ended jobs, too. All names and globs of a request are
looked up in one pass over the jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import chain

from msgspec import Struct

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import MAX_FINISHED
from radrm.errors import RadrmError, Refused, UsageError
from radrm.host.storage.store import Store
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.relations import ONLY_IDS, AfterOption
from radrm.jobfile.values import shown

MAX_PATTERN = 256
MAX_GLOBS = 100


def is_glob(word: str) -> bool:
    """Whether a word may mean several names."""
    return any(character in word for character in "*?[")


class Globs:
    """The patterns of one request, as of the shell: `*`, `?`, `[abc]`, `[!abc]`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises `UsageError` for more patterns than a request may have."""
        if len(patterns) > MAX_GLOBS:
            raise UsageError(
                f"the request has {len(patterns)} globs, and {MAX_GLOBS} is the most; "
                "ask in several requests"
            )
        if any(len(pattern) > MAX_PATTERN for pattern in patterns):
            raise UsageError(f"a glob is longer than {MAX_PATTERN} characters; write a shorter one")
        # Python's translation never looks back before a star, so no pattern can make a match slow.
        self._matches = [re.compile(translate(pattern)).match for pattern in patterns]

    def matching(self, name: str) -> tuple[int, ...]:
        """The numbers of the patterns that match the whole name, in their order."""
        return tuple(number for number, match in enumerate(self._matches) if match(name))


MAX_NAMED = 1000
"""Most ended jobs, the latest, that a name or glob means if no unfinished job matches."""
_ROWS = 1000
"""Rows of the store that are read at once."""
_MAX_KNOWN = 100_000
"""Names of jobs whose matching words are cached."""


@dataclass(slots=True)
class Names:
    """The names and globs of one request, each known by its number in `words`.

    A job counts for the first word that matches it: a request that names a job twice means it
    once.
    """

    words: Sequence[str]
    ids: dict[str, Sequence[int]] = field(default_factory=dict)
    """The jobs of each word that means any."""
    of: list[list[int]] = field(init=False)
    plain: set[int] = field(init=False)
    """The numbers of the words that are no globs."""
    _seen: set[int] = field(default_factory=set)
    _by_name: dict[str, int] = field(init=False)
    _globs: Globs = field(init=False)
    _numbers: list[int] = field(init=False)
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = [n for n, word in enumerate(self.words) if is_glob(word)]
        self.plain = set(range(len(self.words))) - set(self._numbers)
        self._by_name = {word: n for n, word in enumerate(self.words)}
        self._globs = Globs([self.words[n] for n in self._numbers])
        self.of = [[] for _ in self.words]

    def wanted(self) -> set[int]:
        """The numbers of the words that have no job yet."""
        return {n for n, word in enumerate(self.words) if word not in self.ids}

    def take(self, job_id: int, name: str, wanted: set[int]) -> None:
        """Note a job under the first of the wanted words that matches it."""
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
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        plain = self._by_name.get(name)
        numbers: tuple[int, ...] = () if plain is None else (plain,)
        if self._numbers:
            numbers += tuple(self._numbers[i] for i in self._globs.matching(name))
        numbers = self._known[name] = tuple(dict.fromkeys(numbers))
        return numbers

    def give(self, number: int, ids: Sequence[int]) -> None:
        """Record these jobs for a word, if there are any."""
        if ids:
            self.ids[self.words[number]] = ids

    def settle(self, numbers: set[int]) -> None:
        """Record for these words the jobs that `take` has noted."""
        for number in numbers & self._seen:
            self.ids[self.words[number]] = sorted(self.of[number])

    def look_through(
        self, store: Store, uid: int | None, pace: Pace, most: int = MAX_NAMED
    ) -> Work[None]:
        """Find stored jobs, the latest `most`, for the words that have no job: jobs of a user, or
        of all users."""
        for number in self.wanted() & self.plain:
            self.give(number, store.named(self.words[number], uid, most))
            if pace.spent:
                yield from pace.rest()
        before = 2**62
        wanted = self.wanted() - self.plain
        while wanted:
            rows = store.names_before(before, _ROWS)
            if not rows:
                break
            for job_id, name, owner in rows:
                if uid is None or owner == uid:
                    self.take(job_id, name, wanted)
                if pace.spent:
                    yield from pace.rest()
            before = rows[-1][0]
            full = {n for n in wanted if len(self.of[n]) >= most}
            self.settle(full)
            wanted -= full
        self.settle(wanted)


_OWNERS = 500
MAX_FOUND = 200_000
"""Jobs that one request may be about."""

_MOST_LOOKED = 100_000
"""Jobs among which `@` looks for those of the client."""
MOST_FOLLOWED = 1000
"""Jobs and arrays that one job can follow by names."""
_LATEST = re.compile(r"@(?:~([0-9]{1,4}))?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PLAIN = re.compile(r"[\w.*?-]{1,60}")
_ELEMENT = re.compile(r"([0-9]{1,18})_([0-9]{1,9})", re.ASCII)
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?", re.ASCII)
_LIST = re.compile(r"(?:[0-9]{1,18}(?:-[0-9]{1,18})?)(?:,[0-9]{1,18}(?:-[0-9]{1,18})?){0,99}", re.A)
MAX_SPAN = 10_000
"""Ids in ranges that are looked at for a word."""
_ELEMENTS = re.compile(
    rf"([0-9]{{1,18}})_\[({_SPAN.pattern}(?:,{_SPAN.pattern}){{0,99}})\]", re.ASCII
)


class Target(Struct, frozen=True):
    """The target of a dependency: a job, or an array by its id. `states` counts its jobs."""

    job_id: int
    array: bool
    what: str
    states: Mapping[JobState, int]


class Found(Struct, frozen=True):
    """The ids of the jobs that a word means, as their name or a glob; if it means none, the
    reason."""

    word: str
    ids: Sequence[int]
    error: RadrmError | None = None
    by_name: bool = False


class Removed(Refused):
    """The job that a word means has ended, and its record is no longer there."""


class References:
    """Looks up unfinished jobs in the scheduler, and jobs that have ended in the store.

    `uid` is the client: a name means the client's own jobs. If there are none and `others` is
    set, it means those of other users. `uid` None: a name means the jobs of all users. `me` is the
    client for `@`, which root has, too. `ended`: a name means also ended jobs where unfinished ones
    have it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        uid: int | None = None,
        others: bool = True,
        me: int | None = None,
        ended: bool = False,
    ) -> None:
        self._scheduler = scheduler
        self._store = store
        self._uid = uid
        self._me = uid if me is None else me
        self._others = others or uid is None
        self._ended = ended

    def target(self, word: str) -> Target:
        """The target of a dependency on this id, element or ticket. For an array, only counts
        are read. Raises `Refused` if it means no job."""
        if _is_name(word):
            raise Refused(ONLY_IDS)
        job_id = self._first(word)
        job = self.current(job_id) if job_id is not None else None
        if job is None:
            raise self._no_job(word)
        array = job.array
        if array is not None and (array.array_id == job.id and not _ELEMENT.fullmatch(word)):
            if self._store.rows.was_removed(array.array_id):  # some elements are gone already
                raise self._no_job(word)
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

    def followed(self, wanted: Sequence[AfterOption]) -> Work[list[str]]:
        """The values of `--after` with an id or ticket in place of each other word.

        A name or pattern means all unfinished jobs that have it, and an array as a whole; a name
        that only ended jobs have means the latest. Raises `Refused` for a word that means none.
        """
        values: dict[str, None] = {}
        for each in wanted:
            ids = [each.job]
            if each.looked_up:
                (found,) = yield from self.find([each.job])
                ids = yield from self._followed(found)
            values |= dict.fromkeys(f"{job}:{each.condition}" for job in ids)
        if len(values) > MOST_FOLLOWED:
            raise Refused(f"--after means {len(values)} jobs, and {MOST_FOLLOWED} is the most")
        return list(values)

    def _followed(self, found: Found) -> Work[list[str]]:
        """The ids of the jobs and arrays that a job follows after this word."""
        if found.error is not None:
            raise Refused(f"--after={found.word}: {found.error}")
        if _ELEMENTS.fullmatch(found.word):
            raise Refused(f"--after={found.word}: write an --after for each element, as 12_3")
        open_jobs: dict[str, None] = {}
        last, pace = None, Pace()
        for job_id in found.ids:
            job = self.current(job_id)
            if job is not None:
                whole = str(job.id if job.array is None else job.array.array_id)
                last = job if last is None or job.id > last.id else last
                if not job.state.final:
                    open_jobs[whole] = None
            if pace.spent:
                yield from pace.rest()
        if last is None or (not open_jobs and is_glob(found.word)):
            what = f"--after={found.word}: no unfinished job has such a name"
            raise Refused(f"{what}; name one that has ended by its id")
        return list(open_jobs) or [str(last.id if last.array is None else last.array.array_id)]

    def find(self, words: Sequence[str]) -> Work[list[Found]]:
        """What each of these words means, in their order. Raises `UsageError` for too many
        globs, `Refused` for too many jobs."""
        pace = Pace()
        found: dict[str, Sequence[int]] = {}
        count = 0
        for word in dict.fromkeys(words):
            latest = _LATEST.fullmatch(word)
            if latest:
                found[word] = yield from self._latest(int(latest[1] or 0), pace)
            else:
                found[word] = self._exact(word)
            count += len(found[word])
            check_count(count)
            if pace.spent:
                yield from pace.rest()
        wanted = [
            word
            for word, ids in found.items()
            if not ids and len(word) <= MAX_PATTERN and not _LATEST.fullmatch(word)
        ]
        known: dict[str, Sequence[int]] = {}
        by_name: set[str] = set()
        if wanted:
            names = Names(wanted)
            if self._uid is not None:
                yield from self._look_up(names, self._uid, pace)
            if self._others:
                yield from self._look_up(names, None, pace)
            known = names.ids
            by_name = set(known)
            for word in names.words:
                if word not in known and (ids := (yield from self._listed(word, pace))):
                    known[word] = ids
            check_count(count + sum(map(len, known.values())))
            found |= known
        return [
            Found(word, ids, None if ids or word in known else self._no_job(word), word in by_name)
            for word, ids in found.items()
        ]

    def one(self, word: str) -> Work[Job]:
        """The one job that a word means. If only ended jobs have this name, the latest.

        Raises `Refused` for an array, also by its name, and for a name of several unfinished jobs.
        """
        (found,) = yield from self.find([word])
        if found.error is not None:
            raise found.error
        last = self.current(found.ids[-1])
        if last is None:
            raise self._no_job(word)
        named = _is_name(word) and not _LATEST.fullmatch(word)
        ids, array = found.ids, last.array
        if named and last.state.final:
            ids = [last.id] if array is None else self._store.of_array(array.array_id)
            named = False
        if len(ids) > 1:
            first = self.current(ids[0]) or last
            what = f"{_quoted(word)} is" if named else f"array {word} has"
            raise Refused(f"{what} {len(ids)} jobs; name one of them, as {first.label}")
        return last

    def current(self, job_id: int) -> Job | None:
        """A job as it is now; None if there is no job with this id."""
        return self._scheduler.snapshot.job(job_id) or self._store.job(job_id)

    def _no_job(self, word: str) -> Refused:
        """The error for a word that means no job; it says so if the job was there."""
        if _LATEST.fullmatch(word):
            return Refused(f"you have no job that {word} could mean; see radrm status --all")
        number = _ELEMENT.fullmatch(word) or _NUMBER.fullmatch(word)
        rows = self._store.rows
        if number is not None and rows.was_removed(int(number.group().partition("_")[0])):
            return Removed(
                f"job {word} has ended, and its record was removed ([retention] keeps: "
                f"{rows.kept_for}); its logs are where it wrote them"
            )
        nobody = "there is" if self._others or not _is_name(word) else "you have"
        return Refused(f"{nobody} no job {_quoted(word)}; `radrm status --all` lists them")

    def _exact(self, word: str) -> Sequence[int]:
        """The jobs of an id, element or ticket; empty for a name."""
        if _NUMBER.fullmatch(word):
            job = self.current(int(word))
            if job is not None and job.array is not None and job.array.array_id == job.id:
                return self._store.of_array(job.id)
            return [job.id] if job is not None else []
        if element := _ELEMENT.fullmatch(word):
            stored = self._store.element(int(element[1]), int(element[2]))
            return [stored] if stored is not None else []
        if several := _ELEMENTS.fullmatch(word):
            array = int(several[1])
            spans = [_SPAN.fullmatch(each) for each in several[2].split(",")]
            ids = (
                self._store.elements(
                    array, int(each[1]), int(each[2] or each[1]), int(each[3] or 1)
                )
                for each in spans
                if each is not None
            )
            return list(dict.fromkeys(chain.from_iterable(ids)))
        if is_ticket(word.upper()):
            return self._store.of_ticket(word.upper())
        return []

    def _listed(self, word: str, pace: Pace) -> Work[Sequence[int]]:
        """The jobs of a list of ids and ranges of ids; none for other words."""
        if not _LIST.fullmatch(word):
            return []
        found: dict[int, None] = {}
        left = MAX_SPAN
        for first, last in (each.partition("-")[::2] for each in word.split(",")):
            if not last:
                found |= dict.fromkeys(self._exact(first))
                continue
            span = range(int(first), int(last) + 1)[:left]
            left -= len(span)
            for job_id in span:
                if self.current(job_id) is not None:
                    found[job_id] = None
                if pace.spent:
                    yield from pace.rest()
        return list(found)

    def _latest(self, back: int, pace: Pace) -> Work[Sequence[int]]:
        """The jobs of the client's latest submission but `back`; none if there is none."""
        seen: dict[int, None] = {}
        before, looked = 2**62, 0
        while looked < _MOST_LOOKED:
            rows = self._store.owners_before(before, _OWNERS)
            for job_id, array_id, owner in rows:
                if owner == self._me:
                    seen[job_id if array_id is None else array_id] = None
                if len(seen) > back:
                    latest = next(reversed(seen))
                    return [latest] if array_id is None else self._store.of_array(latest)
            if len(rows) < _OWNERS:
                break
            before, looked = rows[-1][0], looked + len(rows)
            if pace.spent:
                yield from pace.rest()
        return []

    def _look_up(self, names: Names, uid: int | None, pace: Pace) -> Work[None]:
        """Find jobs for the names that have none: jobs of a user, or of all users. Unfinished
        jobs come before ended ones, or with them (`ended`)."""
        wanted = names.wanted()
        for job in self._scheduler.snapshot.jobs:
            if uid is None or job.spec.uid == uid:
                names.take(job.id, job.spec.name, wanted)
            if pace.spent:
                yield from pace.rest()
        if self._ended:  # the store has the latest unfinished ones, too
            stored = Names([names.words[number] for number in sorted(wanted)])
            yield from stored.look_through(self._store, uid, pace, MAX_FINISHED)
            for number in wanted:
                known = stored.ids.get(names.words[number], ())
                names.give(number, sorted({*names.of[number], *known}))
        else:
            names.settle(wanted)
            yield from names.look_through(self._store, uid, pace)


def check_count(count: int) -> None:
    """Raise `Refused` for more jobs than a request can be about."""
    if count > MAX_FOUND:
        raise Refused(
            f"the request is about {count} jobs or more, and {MAX_FOUND} is the most; "
            "name fewer at a time"
        )


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shown(word)


def _is_name(word: str) -> bool:
    return not (_NUMBER.fullmatch(word) or _ELEMENT.fullmatch(word) or is_ticket(word.upper()))
