"""Eight jobs, 1200 s apart, through a real daemon on simulated GPUs (section V-C).

The prediction is the simulator's, before the run; the metered energy is what the daemon has read of
its GPUs. Servers' other parts are not metered, so both count GPUs only.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.config import Config
from radrm.lab.experiments.live.trace import play_private
from radrm.lab.experiments.simulations.sources import with_mix
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.traces.importers.andreas import Mix, published_mix
from radrm.structs import replace
from radrm.wiring import make_costs

GPUS = "sim:3xV100-32GB,1xT4"
JOBS, APART_S = 8, 1200.0
SCALE = 120.0
PUBLISHED = 12.29
"""The published deviation, in per cent of the prediction."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Predicted and metered cost of energy."""

    predicted: float
    metered: float
    late: float

    @property
    def deviation(self) -> float:
        """The difference in per cent of the prediction."""
        return 100 * abs(self.predicted - self.metered) / self.predicted


class _Quiet:
    def __call__(self, *_: object) -> None:
        """Nobody watches."""


def checked() -> Checked:
    """Run the jobs. It takes some three minutes."""
    config = with_mix(Config(policy="exclusive", order="due"))
    costs = make_costs(config)
    drawn = published_mix(Mix(), costs.cost_per_hour).jobs[:JOBS]
    jobs = tuple(
        replace(
            job,
            submit_s=at * APART_S,
            due_s=None if job.due_s is None else job.due_s - job.submit_s + at * APART_S,
            profile=(),
        )
        for at, job in enumerate(drawn)
    )
    choices = Choices(gpus=GPUS, order="due", planner="andreas", known=("duration",))
    variant = make_variant(config, config.policy, "oracle", choices)
    played = play_private(jobs, variant, GPUS, SCALE, _Quiet())
    foreseen, live = played.simulated.runs[0], played.live
    assert foreseen.energy_j is not None and live.energy_j is not None
    return Checked(
        costs.energy_cost(foreseen.energy_j, 0.0, foreseen.makespan_s),
        costs.energy_cost(live.energy_j, 0.0, live.makespan_s),
        live.late_fraction or 0.0,
    )
