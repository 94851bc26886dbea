"""What is simulated beside the jobs: the server, the configuration, the loop, the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from radrm.config import Config
from radrm.modelled.spec import ModelledDevice

Fidelity = Literal["radrm", "published"]
FIDELITIES: tuple[Fidelity, ...] = ("radrm", "published")

ORACLE = "oracle"
"""The estimator that says the trace's own memory and SM activity; `declared` is the same."""


@dataclass(frozen=True, slots=True)
class Life:
    """How an attempt begins, as on the published runs' A100s (about 30 s, 15 s, 20 s).

    `start_up_s` without load, then it computes; `ramp_s` later its memory is at its peak,
    `hold_s` later at its steady part of the peak. Before the peak it holds
    `first_mib`. Where a trace does not tell a job's steady memory it is drawn from
    `steady`, a range of parts of the peak; with `spread` 0 their middle is taken.

    `spread`: start-up, ramp and hold are drawn between 1 - spread and 1 + spread of these.
    `work_sd`: the work of each job, from run to run (standard deviation, a fraction of it).
    Both 0: every seed gives the same run, but for what estimators draw.
    """

    start_up_s: float = 30.0
    ramp_s: float = 15.0
    hold_s: float = 20.0
    first_mib: float = 1500.0
    steady: tuple[float, float] = (0.65, 0.98)
    spread: float = 0.2
    work_sd: float = 0.02


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of a trace but for its jobs.

    `devices`: from `radrm.modelled.spec.parse("sim:4xA100-40GB")`. `config` names policy,
    order, recovery and their settings, as the daemon's does. `fidelity`: radrm's own
    bookkeeping and loop, or those of the published prototype. `mps`: the server's GPUs are
    under MPS, of which every job is a client; else jobs that share take turns.

    `estimator`: `oracle` or `declared` (the trace's memory), `none`, a name in the jobs'
    `estimates`, `auto` (the daemon's own, over all of those), or one whose errors are on
    record (`radrm.estimators.errors_seen`): the ratio is drawn by the seed. `smact_known`:
    estimators tell a job's SM activity too.
    """

    devices: tuple[ModelledDevice, ...]
    config: Config = field(default_factory=Config)
    fidelity: Fidelity = "radrm"
    seed: int = 0
    mps: bool = True
    estimator: str = ORACLE
    smact_known: bool = False
    life: Life = Life()
