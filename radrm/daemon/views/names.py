"""Names and globs, looked up for one request in one pass over the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.globs import Globs, is_glob
from radrm.host.storage.store import Store

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
        self._by_name = {self.words[n]: n for n in self.plain}
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
        self._known[name] = numbers
        return numbers

    def give(self, number: int, ids: Sequence[int]) -> None:
        """Record these jobs for a word, if there are any."""
        if ids:
            self.ids[self.words[number]] = ids

    def settle(self, numbers: set[int]) -> None:
        """Record for these words the jobs that `take` has noted."""
        for number in numbers & self._seen:
            self.ids[self.words[number]] = sorted(self.of[number])

    def look_through(self, store: Store, uid: int | None, pace: Pace) -> Work[None]:
        """Find ended jobs for the words that have no job: jobs of a user, or of all users."""
        for number in self.wanted() & self.plain:
            self.give(number, store.named(self.words[number], uid, MAX_NAMED))
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
            full = {n for n in wanted if len(self.of[n]) >= MAX_NAMED}
            self.settle(full)
            wanted -= full
        self.settle(wanted)
