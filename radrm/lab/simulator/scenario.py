"""The settings of a run: the server, the configuration, the loop, the seed."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from radrm.config import Config
from radrm.simulated.spec import SimulatedDevice

Fidelity = Literal["radrm", "published"]
FIDELITIES: tuple[Fidelity, ...] = ("radrm", "published")

ORACLE = "oracle"
"""The estimator that knows the trace's memory; `declared` is the same."""
AUTO = "auto"
"""The daemon's own estimator: the trace's columns and the history of the run."""
SHIPPED = Config()
"""The configuration as installed."""


class Life(Struct, frozen=True):
    """How an attempt begins. The defaults fit the published runs on A100s.

    - `start_up_s`: it does not compute; it holds `first_mib` until its peak.
    - `ramp_s` after that its memory reaches the peak, `hold_s` later its steady size.
    - `steps_s` after the peak it has done its first steps, and says so. After its end: it never
      does. Assumed: a job of PyTorch reaches its peak within them.
    - `steady`: the range of steady memory as parts of the peak, for a job whose trace does
      not give it. The value is drawn; with `spread` 0 it is the middle.
    - `spread`: start-up, ramp and hold are drawn between 1 - spread and 1 + spread of these.
    - `work_sd`: the standard deviation of a job's work from run to run, as a fraction.
    - `checkpoint_s`: a job stands still so long to save its state, if its trace does not say.
    - `restart_s`: the start-up of an attempt that goes on from saved work; it replaces the other.
      With both 0 a job moves for free.
    - `standby_s`: a job that gets another size works on for so long, until its new workers have
      begun; then it stands still for `resize_s`. `restarts`: it saves, stops and starts again
      instead, as under a launcher other than `radrun`. Both figures are assumed.

    If `spread` and `work_sd` are 0, seeds change only the estimates that are drawn.
    """

    start_up_s: float = 30.0
    ramp_s: float = 15.0
    hold_s: float = 20.0
    first_mib: float = 1500.0
    steady: tuple[float, float] = (0.65, 0.98)
    spread: float = 0.2
    work_sd: float = 0.02
    checkpoint_s: float = 60.0
    restart_s: float = 60.0
    standby_s: float = 30.0
    resize_s: float = 5.0
    restarts: bool = False
    steps_s: float = 10.0


class Known(Struct, frozen=True):
    """The quantities of every job that are known, each with the error of its figure.

    An error is the standard deviation of the figure's logarithm (0.3: some 30 %); 0: exact. None:
    unknown, or for `memory` what `Scenario.estimator` says. The seed draws the figures.

    `declared`: the memory that submitters declare (`--gpu-memory=SIZE`), whatever the estimator is.
    """

    memory: float | None = None
    smact: float | None = None
    duration: float | None = None
    declared: float | None = None


class Scenario(Struct, frozen=True):
    """The settings of one run of a trace.

    - `devices`: from `radrm.simulated.spec.parse("sim:4xA100-40GB")`.
    - `config`: policy, order, recovery and their settings, as in the daemon's configuration.
    - `fidelity`: radrm's own loop, or the loop of the published prototype.
    - `mps`: the GPUs are under MPS, with the configuration's `mps.spans` and
      `mps.multiuser`; without it jobs that share a GPU are time-sliced.
    - `estimator`: `oracle` or `declared` (the trace's memory), `none`, a name in the jobs'
      `estimates`, or `auto` (the daemon's own, over all of these). For a name with known
      errors (`radrm.estimators.learning.learned`) the seed draws a ratio.
    - `known`: what else is known of each job.
    - `loss`: how much time-slicing costs in the simulated world, from 0 (nearly as in the pairs
      that Lucid measured) to 1 (pessimistic, after the thesis); None: as radrm's rules believe.
    - `smact_read`: whether the GPUs' SM activity can be read.
    - `cpus`: the CPUs that jobs share; None: each job gets those that it can use. With
      `cpus_per_device` each device has as many of its own: it stands for a server.
    """

    devices: tuple[SimulatedDevice, ...]
    config: Config = field(default_factory=Config)
    fidelity: Fidelity = "radrm"
    seed: int = 0
    mps: bool = True
    loss: float | None = None
    estimator: str = ORACLE
    known: Known = Known()
    life: Life = Life()
    smact_read: bool = True
    cpus: float | None = None
    cpus_per_device: bool = False


def as_configured(
    devices: tuple[SimulatedDevice, ...], config: Config = SHIPPED, **changes: Any
) -> Scenario:
    """Return the scenario of a server with this configuration, where nobody declares anything.

    MPS and its scope are as configured, and the estimator is `auto`: all that is known of a job
    is what earlier runs of the same user and name have shown. `changes`: other fields.

    With the configuration as installed this is the setting `shipped`, the reference of all figures.
    """
    fields: dict[str, Any] = {"mps": bool(config.mps.enabled), "estimator": AUTO, **changes}
    return Scenario(devices, config, **fields)
