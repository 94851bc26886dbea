"""The simulator and the real daemon on software GPUs place the same jobs alike."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from radrm.config import Config
from radrm.simulator.engine import simulate
from radrm.simulator.job import TraceJob
from tests.daemon.harness import DaemonHome
from tests.simulator.through_daemon import same_scenario, through_daemon

GPUS = "sim:4xA100-40GB"
SCALE = 110.0
APART_S = 120.0

# Seventeen find room at once; the others wait for room, which comes more than a second apart in
# real time, so that the order of the ends does not depend on how fast processes start.
MEMORY_MIB = (
    *(9000, 8000, 9500, 7000, 8500, 7500, 9200, 8200, 6800, 7200, 8800, 7800, 7100, 6900),
    *(9100, 8100, 2100, 9700, 9600, 9000),
)
DURATION_S = (
    *(600, 220, 590, 590, 590, 400, 300, 590, 590, 600, 400, 590, 590, 590, 600, 590),
    *(590, 340, 200, 100),
)


def jobs() -> list[TraceJob]:
    return [
        TraceJob(0.0, f"job{at}", 2 if at == 5 else 1, float(duration_s), float(mib), 0.02)
        for at, (mib, duration_s) in enumerate(zip(MEMORY_MIB, DURATION_S, strict=True))
    ]


def test_the_same_placements_as_the_daemons(tmp_path: Path) -> None:
    run = simulate(jobs(), same_scenario(GPUS, Config()))
    late = sorted({each.started_s for found in run.jobs for each in found.attempts} - {0.0})
    assert len(late) >= 3
    # What ends after the last placement may end in any order.
    ends = {found.attempts[0].ended_s for found in run.jobs}
    times = [*late, min(end for end in ends if end > late[-1])]
    assert all(b - a >= APART_S for a, b in pairwise(times)), "too close to tell in scaled time"
    assert {end for end in ends if end <= late[-1]} == set(late)
    home = DaemonHome(tmp_path, GPUS, SCALE)
    try:
        home.start()
        seen = through_daemon(home, jobs(), to_the_end=False)
    finally:
        home.close()
    expected = [found.attempts[0].devices for found in run.jobs]
    assert [each.devices for each in seen] == expected
