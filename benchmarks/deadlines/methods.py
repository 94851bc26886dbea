"""The ways to schedule that are compared, on the jobs and servers of the published simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from radrm.config import Config
from radrm.lab.experiments.simulations.sources import LIFE, with_mix
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.importers.andreas import Mix
from radrm.simulated.spec import parse_servers
from radrm.structs import replace

RESTART_S = 60.0
"""What saving and starting again take, each, where moves are not free."""


@dataclass(frozen=True, slots=True)
class Method:
    """A planner with its settings and an order. `move_s`: what saving takes, and starting again.

    `error`: that of the run times that are known (`Known.duration`).
    """

    name: str
    planner: str
    order: str = "fifo"
    settings: tuple[tuple[str, Any], ...] = ()
    move_s: float = RESTART_S
    error: float = 0.0

    def config(self) -> Config:
        """Return the configuration, with the published price and power."""
        planners = {self.planner: dict(self.settings)} if self.settings else {}
        plain = Config(
            policy="exclusive", order=self.order, planner=(self.planner,), planners=planners
        )
        return with_mix(plain)

    def scenario(self, mix: Mix) -> Scenario:
        """Return the scenario of a setting: each run lasts exactly as long as published."""
        life = replace(LIFE, checkpoint_s=self.move_s, restart_s=self.move_s)
        return Scenario(
            devices=parse_servers(mix.spec),
            config=self.config(),
            seed=mix.seed,
            known=Known(duration=self.error),
            life=life,
        )


def _baselines(what: str, **settings: Any) -> tuple[Method, ...]:
    return tuple(
        Method(f"{name}{what}", "andreas", settings=(("method", name.lower()), *settings.items()))
        for name in ("FIFO", "EDF", "PS")
    )


PROGRAM = _baselines(", servers whole", whole_servers=True)
"""The baselines as the authors' program has them: each job has a server alone."""
BASELINES = _baselines("")
"""The baselines as the text has them: jobs share servers, and never change."""
OWN = tuple(
    Method(f"strict, {order}", "strict", order=order) for order in ("fifo", "due", "weight")
)
FREE = Method("andreas, free moves", "andreas", move_s=0.0)
BY_LOT = Method("andreas, free moves, run times by lot", "andreas", move_s=0.0, error=2.0)
"""The control: run times that are wrong by a factor of 7 up or down, in the standard deviation."""
CODE = Method(
    "andreas, free moves, variant code", "andreas", settings=(("variant", "code"),), move_s=0.0
)
ANDREAS = Method("andreas", "andreas")
DEADLINE = Method("deadline", "deadline")
EDF = OWN[1]
