"""The first answer of several estimators, corrected by what earlier runs showed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from radrm.core.records import DECLARED, Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description, Estimator
from radrm.estimators.learning.learned import learned_for
from radrm.estimators.learning.ratios import bounded
from radrm.structs import replace

Complain = Callable[[str, Exception], None]
"""Takes the name of an estimator that failed, and its error."""


def ignore(name: str, error: Exception) -> None:
    """Drop the error."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Asks its `routes`, best first. The first answer for each quantity counts.

    A memory figure is corrected by the size of the CUDA context on this machine and by the
    estimator's past errors; they give its upper bound, too. A declared figure is not
    corrected. SM activity and duration are corrected by past ratios; of a declared one only the
    upper bound is. The figures of later routes are kept behind the first, so that radrm learns
    their errors as well. `complain` gets the error of an estimator that fails; it counts as
    no answer. Raises ValueError for a `quantile` outside 0..1.
    """

    routes: Sequence[Estimator] = ()
    quantile: float = 0.95
    """The upper bound of a memory estimate: this quantile (0 to 1) of the estimator's past ratios
    of measured to estimated memory.

    A site that would rather lose jobs than memory, or memory than jobs."""
    also: tuple[str, ...] = ()
    """More estimators to ask, best first: after `declared` and `history`, before all others.

    A site with an estimator of its own."""
    complain: Complain = ignore
    name: str = "auto"

    def __post_init__(self) -> None:
        if not 0.0 <= self.quantile <= 1.0:
            raise ValueError(f"quantile = {self.quantile} is not between 0 and 1")

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        estimates: list[Estimate] = []
        for route in self.routes:
            try:
                answers = route.estimate(job)
            except Exception as error:  # an estimator of a third party can raise anything
                self.complain(route.name, error)
                continue
            estimates += [self._bounded(job, answer) for answer in answers]
        return _with_guesses_of_first(estimates)

    def _bounded(self, job: Description, estimate: Estimate) -> Estimate:
        if estimate.quantity is not Quantity.MEMORY:
            return bounded(estimate, job, self.quantile)
        if estimate.source == DECLARED:
            return estimate
        seen, context = learned_for(estimate, job)
        here = max(estimate.value + context.shift_mib, 1.0)
        value, upper = seen.value(here), seen.upper(here, self.quantile)
        own_upper = value + max(estimate.upper - estimate.value, 0.0)
        guesses = estimate.guesses + ((context.why,) if context.why else ())
        return replace(
            estimate, value=value, upper=max(upper, own_upper), raw=estimate.value, guesses=guesses
        )


def _with_guesses_of_first(estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Keep only the guesses of the first figure of memory, and of SM activity: every job's record
    stores them."""
    first = next((e for e in estimates if e.quantity is Quantity.MEMORY), None)
    kept = (first, next((e for e in estimates if e.quantity is Quantity.SMACT), None))
    return tuple(e if e in kept or not e.guesses else replace(e, guesses=()) for e in estimates)
