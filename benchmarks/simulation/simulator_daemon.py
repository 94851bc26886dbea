"""Twenty jobs through the daemon on simulated GPUs, time scaled, and through the simulator.

`python -m benchmarks.simulation.simulator --daemon` shows the completion times side by side, in
two minutes. The time scale multiplies what the daemon takes to start processes: half a second is
eight of the jobs' time, in which their GPUs look idle. So the limit of SM activity is one that
these jobs do not come near. At the default for time-slices (50 %) that half second sometimes
decides which job starts, and from there on the two runs differ.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.table import Row
from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.traces.job import TraceJob
from tests.daemon.harness import DaemonHome
from tests.lab.simulator.engine.through_daemon import same_scenario, through_daemon

GPUS = "sim:4xA100-40GB"
SCALE = 16.0
LIMIT = 0.10
MOST_SMACT = 0.8


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    daemon_s: float
    simulator_s: float
    same_devices: bool

    @property
    def off(self) -> float:
        return abs(self.daemon_s / self.simulator_s - 1)


def jobs(seed: int = 1) -> list[TraceJob]:
    """Twenty that load their GPUs: neighbours slow them down."""
    rng = random.Random(seed)
    return [
        TraceJob(
            submit_s=0.0,
            name=f"job{number}",
            gpus=rng.choice((1, 1, 1, 1, 2)),
            duration_s=float(rng.randrange(100, 400)),
            memory_mib=float(rng.randrange(3000, 16000)),
            smact=rng.choice((0.15, 0.3, 0.4, 0.6)),
        )
        for number in range(20)
    ]


def pairs() -> list[Pair]:
    trace = jobs()
    config = Config(policies={"sharing": {"timeslice_max_smact": MOST_SMACT}})
    run = simulate(trace, same_scenario(GPUS, config))
    with tempfile.TemporaryDirectory(prefix="radrm-bench-") as folder:
        home = DaemonHome(Path(folder), GPUS, SCALE)
        try:
            home.settings = [f"policies.sharing.timeslice_max_smact={MOST_SMACT}"]
            home.start()
            seen = through_daemon(home, trace)
        finally:
            home.close()
    return [
        Pair(
            name=found.job.name,
            daemon_s=real.ended_s or 0.0,
            simulator_s=found.ended_s or 0.0,
            same_devices=found.attempts[-1].devices == real.devices,
        )
        for found, real in zip(run.jobs, seen, strict=True)
    ]


def compare() -> list[Row]:
    found = pairs()
    for pair in found:
        where = "" if pair.same_devices else "  other devices"
        print(
            f"{pair.name:6} daemon {pair.daemon_s:7.1f} s  simulator {pair.simulator_s:7.1f} s"
            f"  {pair.daemon_s / pair.simulator_s - 1:+.1%}{where}"
        )
    alike = sum(pair.same_devices for pair in found)
    total = max(p.daemon_s for p in found) / max(p.simulator_s for p in found) - 1
    detail = f"{alike} of {len(found)} on the same devices; total time {total:+.1%}"
    return [
        Row(
            "completion times, daemon and simulator", fmean(p.off for p in found), LIMIT, "", detail
        )
    ]
