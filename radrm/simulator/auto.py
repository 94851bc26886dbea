"""What `auto` says of a trace's jobs: its routes are the trace's columns, its past is the run's.

The daemon's own estimator decides; only what it is told is modelled. `history`, its first
route, has no part: no column of a trace says that two jobs are the very same thing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from radrm.config import Config
from radrm.core.records import Estimate, JobSpec
from radrm.core.rules import Description, Estimator, PastRun
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.estimators.learned import MOST_RUNS
from radrm.modelled.spec import ModelledDevice
from radrm.simulator.estimates import AUTO, told_mib
from radrm.simulator.job import TraceJob
from radrm.wiring import AUTO_CHAIN, make_auto

_ROUTES = tuple(name for name in AUTO_CHAIN if name not in ("declared", "history"))


class AutoTelling:
    """`auto` over one run: corrects a job's estimates by the runs that have ended before.

    Raises `UsageError` if no job has an estimate of any of its routes.
    """

    def __init__(
        self, config: Config, devices: Sequence[ModelledDevice], jobs: Sequence[TraceJob]
    ) -> None:
        known = {name for job in jobs for name in job.estimates}
        routes = [name for name in _ROUTES if name in known]
        if not routes:
            raise UsageError(
                f"the trace has no estimates for {AUTO} ({', '.join(_ROUTES)}): add a column "
                f"such as {_ROUTES[0]}_mib, or name an estimator whose errors are to be drawn"
            )
        self._auto: Estimator = make_auto(config, [_Column(name) for name in routes])
        self._kinds = [modelled.device.name for modelled in devices]
        self._runs: deque[PastRun] = deque(maxlen=MOST_RUNS)

    def tell(self, job: TraceJob, spec: JobSpec) -> tuple[Estimate, ...]:
        """What is believed of a job that is submitted now; the first is the best."""
        kinds = set(self._kinds)
        return self._auto.estimate(
            Description(
                spec=spec,
                published=_figures(job),
                device_kind=kinds.pop() if len(kinds) == 1 else None,
                recent_runs=tuple(self._runs),
            )
        )

    def ran(self, job: TraceJob, devices: Sequence[int], peak_mib: float) -> None:
        """A run has ended well on these devices, and has shown its peak."""
        kinds = {self._kinds[at] for at in devices}
        if len(kinds) == 1:
            self._runs.appendleft(PastRun(ceil(peak_mib), kinds.pop(), told=_figures(job)))


def _figures(job: TraceJob) -> dict[str, float]:
    told = {name: told_mib(job, name) for name in job.estimates}
    return {name: mib for name, mib in told.items() if mib is not None}


@dataclass(slots=True)
class _Column:
    """An estimator whose figures stand in the trace."""

    name: str

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        mib = job.published.get(self.name)
        return () if mib is None else (Estimate(Quantity.MEMORY, mib, ceil(mib), self.name),)
