"""The published experiments, and the simulator's runs of them.

The published figures are those of the RAD-RM thesis, Tables 6.3 to 6.6 and the text beside
them. Total, waiting and execution times in minutes and SM activity were read from its plots
over time; its bars (Figures 6.5 to 6.12) have no numbers. The traces and the solo profile lie
outside the project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from radrm.config import Config, MpsConfig
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import Spread, metrics, over_seeds
from radrm.lab.simulator.scenario import Fidelity, Known, Scenario
from radrm.lab.simulator.traces.importers.aids import Aids, read_profile
from radrm.lab.simulator.traces.importers.forms import read_any
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.structs import replace
from radrm.wiring import table_of
from tests.paths import SHARED_DATA

SERVER = "sim:4xA100-40GB"
SPANNING = MpsConfig(enabled=True, spans=True)
"""One control daemon for all GPUs, as in the published runs: jobs on two GPUs are clients."""
TRACES = ("heavy60", "mix90")


@dataclass(frozen=True, slots=True)
class Row:
    """One published experiment. `change`: of the total time against exclusive, in %."""

    trace: str
    what: str
    policy: str
    estimator: str = "oracle"
    settings: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, float] = field(default_factory=dict)
    """The settings with which radrm's own loop is shown beside; the rest are its defaults."""
    core: Mapping[str, float] = field(default_factory=dict)
    """Settings of radrm's own core that are not its defaults."""
    known: Known | None = None
    mps: bool = True
    recovery: str = "exclusive"
    oom: int | None = None
    change: float | None = None
    energy_mj: float | None = None
    minutes: float | None = None
    wait_min: float | None = None
    exec_min: float | None = None
    smact: float | None = None
    plot: bool = False
    """`change`, and minutes and SM activity, are from plots: the text has no number."""


_ROOM = {"min_free_mib": 0, "margin_mib": 0}
"""Free memory of at least the estimate, as Table 6.4 says: no margin."""
_ORACLE = {"min_free_mib": 0, "margin_mib": 2048}
_BLIND = {"conditions": False}
_SOON = {"smact_warm_s": 10.0}
_EXACT = {"stretch": 1.0}


def _free(gib: int, smact: float = 0.8) -> dict[str, float]:
    """Conditions for jobs without an estimate: free memory and highest SMACT of the device."""
    return {"min_free_mib": 1024 * gib, "floor_mib": 0, "max_smact": smact}


ROWS = (
    Row(
        "heavy60",
        "Exclusive",
        "exclusive",
        oom=0,
        change=0.0,
        energy_mj=33.198,
        minutes=638.8,
        exec_min=37.1,
        smact=0.609,
        plot=True,
    ),
    Row("heavy60", "RR on streams", "rr", "none", mps=False, oom=9, energy_mj=34.745),
    Row("heavy60", "RR on MPS", "rr", "none", oom=6, energy_mj=29.601),
    Row("heavy60", "MAGM (2 GB, 80%)", "magm", "none", _free(2), oom=4, energy_mj=28.781),
    Row("heavy60", "LUG (2 GB, 80%)", "lug", "none", _free(2), oom=4),
    Row("heavy60", "MAGM + Horus (80%)", "magm", "horus", _ROOM, oom=2, energy_mj=29.042),
    Row("heavy60", "MAGM + FakeTensor (80%)", "magm", "faketensor", _ROOM, oom=3, energy_mj=30.306),
    Row(
        "heavy60",
        "MAGM + GPUMemNet (80%)",
        "magm",
        "gpumemnet",
        _ROOM,
        oom=1,
        change=-26.7,
        energy_mj=28.502,
        minutes=468.0,
        wait_min=119.3,
        exec_min=74.3,
        smact=0.853,
        plot=True,
    ),
    Row("mix90", "Exclusive", "exclusive", oom=0, change=0.0),
    Row("mix90", "Oracle worst fit", "magm", "oracle", _ORACLE, change=-30.13),
    Row(
        "mix90",
        "Oracle worst fit on streams",
        "magm",
        "oracle",
        {**_ORACLE, "timeslice_max_smact": 0.8},
        mps=False,
        change=0.0,
    ),
    Row("mix90", "Oracle first fit", "first-fit"),
    Row("mix90", "Oracle best fit", "best-fit"),
    Row("mix90", "Oracle least utilized", "lug", "oracle", _ORACLE),
    Row("mix90", "RR (no condition)", "rr", "none", oom=8),
    Row("mix90", "MAGM (no condition)", "magm", "none", _BLIND, _BLIND, oom=5),
    Row("mix90", "MAGM (80%)", "magm", "none", _free(0), oom=4),
    Row("mix90", "MAGM (80%, 2 GB)", "magm", "none", _free(2), oom=2),
    Row("mix90", "MAGM (80%, 5 GB)", "magm", "none", _free(5), oom=2),
    Row("mix90", "LUG (80%, 5 GB)", "lug", "none", _free(5), oom=2, change=-28.0),
    Row("mix90", "MAGM (75%, 5 GB)", "magm", "none", _free(5, 0.75), {"max_smact": 0.75}, oom=1),
    Row("mix90", "MAGM (85%, 5 GB)", "magm", "none", _free(5, 0.85), {"max_smact": 0.85}, oom=2),
    *(
        Row(
            "mix90",
            f"MAGM + {shown}{' (80%)' if limit < 1 else ''}",
            "magm",
            estimator,
            {**_ROOM, "max_smact": limit},
            {"max_smact": limit},
            oom=oom,
            change=change,
        )
        for shown, estimator, limit, oom, change in (
            ("Horus", "horus", 1.0, 1, None),
            ("FakeTensor", "faketensor", 1.0, 0, None),
            ("GPUMemNet", "gpumemnet", 1.0, 1, None),
            ("Horus", "horus", 0.8, 0, None),
            ("FakeTensor", "faketensor", 0.8, 0, None),
            ("GPUMemNet", "gpumemnet", 0.8, 0, -25.0),
        )
    ),
)

BY_LOT = "by lot"
"""The estimator of the control."""

OWN_ROWS = tuple(
    row
    for trace in TRACES
    for row in (
        Row(trace, "`auto` (GPUMemNet, Horus)", "magm", "auto"),
        Row(trace, "`none`, `core.smact_warm_s = 10`", "magm", "none", core=_SOON),
        Row(trace, "Horus, `core.stretch = 1`", "magm", "horus", core=_EXACT),
        Row(trace, "needs known", "magm"),
        Row(trace, "needs and SM activity known", "magm", known=Known(smact=0.0)),
        Row(trace, "needs known, time-slicing", "magm", mps=False),
        Row(
            trace,
            "needs known, time-slicing to 80%",
            "magm",
            own={"timeslice_max_smact": 0.8},
            mps=False,
        ),
    )
)
"""What radrm's own loop does with MAGM by default, by what is known of the jobs, and what it would
do without three of its defaults. Without estimates: the rows of MAGM at 80 % above."""


RECOVERIES = ("exclusive", "own-device")
RECOVERY_ROWS = tuple(
    Row(trace, what, policy, estimator, recovery=recovery)
    for trace in TRACES
    for what, policy, estimator in (
        ("`magm`, FakeTensor", "magm", "faketensor"),
        ("`rr`, `none`", "rr", "none"),
    )
    for recovery in RECOVERIES
)
"""Where jobs die: what becomes of the rest under each recovery, in radrm's own loop."""


# ------------------------------------------------------------------ measuring


def published_trace(name: str, data: Path = SHARED_DATA) -> tuple[TraceJob, ...]:
    """One of the thesis's traces, joined with what its jobs show alone on an A100."""
    profile = data / "measured" / "measured_solo_profile_a100.csv"
    with profile.open(encoding="utf-8") as lines:
        aids = Aids(profile=read_profile(lines, str(profile)))
    path = data / "traces" / f"{name}.csv"
    with path.open(encoding="utf-8") as lines:
        return read_any(lines, str(path), "published", aids).jobs


PESSIMISTIC = 1.0
"""The loss of the time-sliced rows: they were made for this model of the runs on streams. Lucid's
pairs, and so the shipped figure, are far milder."""


def scenario(row: Row, fidelity: Fidelity, seed: int, loss: float = PESSIMISTIC) -> Scenario:
    settings = row.settings if fidelity == "published" else row.own
    config = Config(
        policy=row.policy,
        policies={table_of("policies", row.policy): settings} if settings else {},
        core=row.core,
        recovery=row.recovery,
        mps=SPANNING,
    )
    return Scenario(
        devices=parse(SERVER),
        config=config,
        fidelity=fidelity,
        seed=seed,
        mps=row.mps,
        loss=None if row.mps else loss,
        estimator=row.estimator,
        known=row.known or Known(),
    )


def measure(
    row: Row, fidelity: Fidelity, seeds: int, data: Path = SHARED_DATA
) -> dict[str, Spread]:
    """The row's figures over this number of seeds."""
    jobs = published_trace(row.trace, data)
    runs = (
        (jobs if row.estimator != BY_LOT else by_lot(jobs, seed), seed) for seed in range(seeds)
    )
    return over_seeds([metrics(simulate(each, scenario(row, fidelity, s))) for each, s in runs])


def by_lot(jobs: Sequence[TraceJob], seed: int) -> tuple[TraceJob, ...]:
    """Return the jobs with the estimates of GPUMemNet dealt out by lot: the control."""
    figures = [job.estimates["gpumemnet"] for job in jobs]
    Random(f"lot {seed}").shuffle(figures)
    return tuple(
        replace(job, estimates={**job.estimates, BY_LOT: figure})
        for job, figure in zip(jobs, figures, strict=True)
    )


def known(of: Mapping[str, Spread], name: str) -> float:
    mean = of[name].mean
    assert mean is not None, f"{name} is not known"
    return mean
