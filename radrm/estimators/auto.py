"""The best estimate there is: each route is asked, the first that answers is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from radrm.core.records import DECLARED, Estimate
from radrm.core.rules import Description, Estimator
from radrm.core.words import Quantity
from radrm.estimators.learned import learned_for

Complain = Callable[[str, Exception], None]
"""Takes the name of an estimator that broke, and its error."""


def ignore(name: str, error: Exception) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Auto:
    """The routes, best first. For each quantity the first that tells it is believed.

    What an estimator says of memory is corrected by what the CUDA context takes on this machine
    and by what its past errors say: a shift, and as upper bound the `quantile` (0..1) of its
    ratios of measured to estimated. A declared figure is nobody's estimate and stays as it is.
    The figures of the routes behind the first follow it, so that their errors, too, are
    learned from.
    An estimator that breaks is told to `complain` and counts as silent. Raises ValueError for
    a `quantile` beyond 0..1.
    """

    routes: Sequence[Estimator] = ()
    quantile: float = 0.95
    complain: Complain = ignore
    name: str = "auto"

    def __post_init__(self) -> None:
        if not 0.0 <= self.quantile <= 1.0:
            raise ValueError(f"quantile = {self.quantile} is not between 0 and 1")

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        told: list[Estimate] = []
        for route in self.routes:
            try:
                answers = route.estimate(job)
            except Exception as error:  # a third party's may raise anything
                self.complain(route.name, error)
                continue
            told += [self._bounded(job, answer) for answer in answers]
        return _with_guesses_of_one(told)

    def _bounded(self, job: Description, told: Estimate) -> Estimate:
        if told.quantity is not Quantity.MEMORY or told.source == DECLARED:
            return told
        seen, context = learned_for(told, job)
        here = max(told.value + context.shift_mib, 1.0)
        value, upper = seen.value(here), seen.upper(here, self.quantile)
        own_upper = value + max(told.upper - told.value, 0.0)
        guesses = told.guesses + ((context.why,) if context.why else ())
        return replace(
            told, value=value, upper=max(upper, own_upper), raw=told.value, guesses=guesses
        )


def _with_guesses_of_one(told: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Only what the believed figure takes for granted: a record is kept of every job."""
    believed = next((e for e in told if e.quantity is Quantity.MEMORY), None)
    return tuple(e if e is believed or not e.guesses else replace(e, guesses=()) for e in told)
