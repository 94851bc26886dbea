"""The daemon's estimator `auto` in the simulator.

Only its input is simulated: its routes are the trace's columns, its past runs those of the
simulated run. The route `history` is missing, since no column says that two jobs are equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from radrm.config import Config
from radrm.core.records import Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.estimators.interface import Description, Estimator, PastRun
from radrm.estimators.learning.learned import MOST_RUNS
from radrm.simulated.spec import SimulatedDevice
from radrm.simulator.estimates import AUTO, figure_mib
from radrm.simulator.traces.job import TraceJob
from radrm.wiring import AUTO_CHAIN, make_auto

_ROUTES = tuple(name for name in AUTO_CHAIN if name not in ("declared", "history"))


class AutoEstimates:
    """The estimator `auto` for one run. It corrects estimates by the runs that have ended.

    Raises `UsageError` if no job has an estimate of any route.
    """

    def __init__(
        self, config: Config, devices: Sequence[SimulatedDevice], jobs: Sequence[TraceJob]
    ) -> None:
        known = {name for job in jobs for name in job.estimates}
        routes = [name for name in _ROUTES if name in known]
        if not routes:
            raise UsageError(
                f"the trace has no estimates for {AUTO} ({', '.join(_ROUTES)}); add a column "
                f"such as {_ROUTES[0]}_mib, or choose an estimator whose errors can be drawn"
            )
        self._auto: Estimator = make_auto(config, [_Column(name) for name in routes])
        self._kinds = [simulated.device.name for simulated in devices]
        self._runs: deque[PastRun] = deque(maxlen=MOST_RUNS)

    def estimate(self, job: TraceJob, spec: JobSpec) -> tuple[Estimate, ...]:
        """Return the estimates of a job that is submitted now, the best first."""
        kinds = set(self._kinds)
        return self._auto.estimate(
            Description(
                spec=spec,
                published=_figures(job),
                device_kind=kinds.pop() if len(kinds) == 1 else None,
                recent_runs=tuple(self._runs),
            )
        )

    def add_run(self, job: TraceJob, devices: Sequence[int], peak_mib: float) -> None:
        """Learn from a run that completed on these devices with this peak.

        Runs on several kinds of GPU do not count: their peak belongs to no single kind.
        """
        kinds = {self._kinds[at] for at in devices}
        if len(kinds) == 1:
            self._runs.appendleft(PastRun(ceil(peak_mib), kinds.pop(), told=_figures(job)))


def _figures(job: TraceJob) -> dict[str, float]:
    figures = {name: figure_mib(job, name) for name in job.estimates}
    return {name: mib for name, mib in figures.items() if mib is not None}


@dataclass(slots=True)
class _Column:
    """An estimator whose figures are a column of the trace."""

    name: str

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        mib = job.published.get(self.name)
        return () if mib is None else (Estimate(Quantity.MEMORY, mib, ceil(mib), self.name),)
