"""Orders, which sort the waiting jobs, and their answers, safe for a sorted queue."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple, Protocol

from radrm.core.records import Instant, Job, UserUse
from radrm.core.state.isolation import (
    RULE_ERRORS,
    Isolation,
    RuleFailed,
    TooSlow,
    WrongAnswer,
    call_rule,
)

NO_TURN = (-inf, 1.0)
"""The answer of `Order.turn` that leaves keys as they are."""


class Order(Protocol):
    """Sorts the waiting jobs, after recovery queue and priority.

    A class that inherits from this one needs only `name` and `key`: the other methods then say
    that users do not matter, that a job's key never changes and that no bound is known.
    """

    @property
    def name(self) -> str: ...

    def key(self, job: Job, now: Instant) -> tuple[Any, ...]:
        """Return a job's key: the smallest is next. It holds numbers, texts, None and tuples.

        It is asked again when the job's record changes, and at `changes_s`.
        """
        ...

    def rank(self, use: UserUse) -> tuple[Any, ...]:
        """Return the rank of a user: all jobs of the smallest one are next, sorted by `key`.

        Only jobs of the same queue and priority are compared. It is asked at each step in which
        the queue is read, for users with waiting jobs.
        """
        return ()

    def turn(self, use: UserUse) -> tuple[float, float]:
        """Return `(least, factor)`: how the keys of a user's jobs compare with those of others.

        Between users of the same rank, a key counts as `(max(key[0], least), key[1] * factor)`.
        If the first of the user's jobs is below `least`, the others count as no smaller than it,
        so the order of one user's jobs stays. `factor` is above zero. It is asked when `rank` is.
        """
        return NO_TURN

    def changes_s(self, job: Job, now: Instant) -> float | None:
        """Return the boot-time second at which the key of a waiting job changes; None: never.

        The core asks for the key again then, but at most once a second for each job.
        """
        return None

    def bound(self, job: Job, now: Instant) -> str | None:
        """Return, for users, which later jobs may still pass a waiting job; None: no bound."""
        return None


_LEAST_S = 1.0
"""The least time between two keys of a job, so that no order keeps `step` busy."""
_LONGEST = 300
"""The longest text of an order, in characters."""


class Rank(NamedTuple):
    """What an order says of a user: the rank, and how keys compare with those of others."""

    rank: tuple[Any, ...]
    least: float = NO_TURN[0]
    factor: float = NO_TURN[1]


class SafeOrder:
    """Asks an order about jobs at the time of the current step.

    Jobs for which the order fails go behind all others, by submission.
    """

    def __init__(self, order: Order, isolation: Isolation, now: Callable[[], Instant]) -> None:
        self._order = order
        self._name = order.name
        self._isolation = isolation
        self._now = now
        self._too_slow = False
        self.without: set[int] = set()
        """The jobs for which the order failed."""

    def key(self, job: Job) -> tuple[Any, ...]:
        if self._skipped():
            return self._last(job)
        try:
            key = (0, _ranked(call_rule(self._order.key, job, self._now())))
        except (RuleFailed, *RULE_ERRORS) as error:
            self._fail(error)
            return self._last(job)
        self.without.discard(job.id)
        return key

    def changes_s(self, job: Job) -> float | None:
        """Return the boot-time second at which the key must be asked for again; None: never."""
        if job.id in self.without:
            return None  # it gets a key when the order's rest ends
        now = self._now()
        try:
            found = call_rule(self._order.changes_s, job, now)
            if found is None:
                return None
            if not isinstance(found, (int, float)) or not isfinite(found):
                raise WrongAnswer(f"its changes_s is {found!r}, not a time")
        except (RuleFailed, *RULE_ERRORS) as error:
            self._fail(error)
            return None
        return max(float(found), now.boot_s + _LEAST_S)

    @property
    def ranks(self) -> bool:
        """Whether the order ranks users, or lets them take turns."""
        kind = type(self._order)
        return any(
            getattr(kind, name, None) is not getattr(Order, name) for name in ("rank", "turn")
        )

    def rank(self, use: UserUse) -> Rank:
        """Return a user's rank. Users for whom the order fails go behind all others."""
        if self._skipped():
            return Rank((1,))
        try:
            rank = 0, _ranked(call_rule(self._order.rank, use))
            return Rank(rank, *_turn(call_rule(self._order.turn, use)))
        except (RuleFailed, *RULE_ERRORS) as error:
            self._fail(error, "users without a rank go last")
            return Rank((1,))

    def bound(self, job: Job) -> str | None:
        """Return, for users, which later jobs may still pass a job; None if that is unknown."""
        if job.id in self.without or self._skipped():
            return None
        try:
            found = call_rule(self._order.bound, job, self._now())
            if found is not None and not isinstance(found, str):
                raise WrongAnswer(f"its bound is a {type(found).__name__}, not a text")
        except (RuleFailed, *RULE_ERRORS) as error:
            self._fail(error)
            return None
        return None if found is None else " ".join(str.__str__(found).split())[:_LONGEST]

    def _skipped(self) -> bool:
        """Return whether the order took too long and rests: else each job would wait for it."""
        return self._too_slow and self._isolation.rests("order", self._name)

    def _fail(
        self, error: BaseException, meanwhile: str = "jobs without a key go last, by submission"
    ) -> None:
        cause = error.error if isinstance(error, RuleFailed) else error
        self._isolation.fail("order", self._name, cause, meanwhile)
        self._too_slow = isinstance(cause, TooSlow)

    def _last(self, job: Job) -> tuple[Any, ...]:
        """Return a key behind all others."""
        self.without.add(job.id)
        return (1, *job.place)


def _turn(found: object) -> tuple[float, float]:
    """Return what an order answers for `turn`. Raises `WrongAnswer`."""
    if isinstance(found, tuple) and len(found) == 2:
        least, factor = found
        if all(isinstance(each, (int, float)) for each in found) and least < inf > factor > 0:
            return float(least), float(factor)
    raise WrongAnswer(f"its turn is {found!r}, not (least, factor above 0)")


def _ranked(key: object) -> tuple[Any, ...]:
    """Return a key that can be compared with any other. Raises `WrongAnswer`."""
    if not isinstance(key, tuple):
        raise WrongAnswer(f"its key is of type {type(key).__name__}, not a tuple")
    return tuple(_rank(part) for part in key)


def _rank(part: object) -> tuple[Any, ...]:
    """Return a part with the rank of its type: None, numbers, texts, tuples, in this order.

    Python does not compare values of different types. A subclass could define its own
    comparison, so the plain value is taken.
    """
    if part is None:
        return (0,)
    if isinstance(part, (int, float)):
        if part != part:
            raise WrongAnswer("its key holds NaN, which cannot be sorted")
        return 1, float(part) if isinstance(part, float) else int(part)
    if isinstance(part, str):
        return 2, str.__str__(part)
    if isinstance(part, tuple):
        return 3, _ranked(part)
    raise WrongAnswer(f"its key holds a {type(part).__name__}, not numbers and texts")
