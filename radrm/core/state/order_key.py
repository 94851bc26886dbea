"""The key of an order, made safe for a sorted queue: any two keys can be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radrm.core.records import Job
from radrm.core.state.isolation import (
    RULE_ERRORS,
    Isolation,
    RuleFailed,
    TooSlow,
    WrongAnswer,
    call_rule,
)


class SafeOrderKey:
    """Returns an order's key for a job.

    Jobs for which the order fails go behind all others, by submission.
    """

    def __init__(self, name: str, key: Callable[[Job], object], isolation: Isolation) -> None:
        self._name = name
        self._key = key
        self._isolation = isolation
        self._too_slow = False
        self.without: set[int] = set()
        """The jobs for which the order failed."""

    def __call__(self, job: Job) -> tuple[Any, ...]:
        if self._too_slow and self._isolation.rests("order", self._name):
            # Else each of 10,000 jobs would wait for it.
            return self._last(job)
        try:
            key = (0, _ranked(call_rule(self._key, job)))
        except (RuleFailed, *RULE_ERRORS) as error:
            meanwhile = "jobs without a key go last, by submission"
            cause = error.error if isinstance(error, RuleFailed) else error
            self._isolation.fail("order", self._name, cause, meanwhile)
            self._too_slow = isinstance(cause, TooSlow)
            return self._last(job)
        self.without.discard(job.id)
        return key

    def _last(self, job: Job) -> tuple[Any, ...]:
        """Return a key behind all others."""
        self.without.add(job.id)
        return (1, *job.place)


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
