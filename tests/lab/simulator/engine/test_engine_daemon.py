"""The simulator and the real daemon on simulated GPUs place the same jobs alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace
from tests.daemon.harness import DaemonHome
from tests.lab.simulator.engine.through_daemon import devices_of, same_scenario, submitted
from tests.waiting import wait_until

GPUS = "sim:4xA100-40GB"
SCALE = 20.0

# Seventeen find room at once; the others wait for room.
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


@pytest.mark.nightly
def test_the_same_placements_as_the_daemons(tmp_path: Path) -> None:
    """Before the daemon the jobs would go on for ever: they are ended by hand, in the order in
    which the simulated ones end, so that no fast or slow machine changes what is compared."""
    run = simulate(jobs(), same_scenario(GPUS, Config()))
    started = [found.attempts[0].started_s for found in run.jobs]
    late = sorted(set(started) - {0.0})
    assert len(late) >= 3
    ends = sorted((found.attempts[0].ended_s, at) for at, found in enumerate(run.jobs))
    to_end = [(end_s, at) for end_s, at in ends if end_s <= late[-1]]
    assert [end_s for end_s, _ in to_end] == late, "each end lets somebody begin"
    home = DaemonHome(tmp_path, GPUS, SCALE)
    try:
        home.start()
        ids = submitted(home, [replace(job, duration_s=1e6) for job in jobs()])

        def have_begun(now_s: float) -> None:
            begun = sum(start_s <= now_s for start_s in started)
            wait_until(lambda: sum(map(bool, devices_of(home, ids))) >= begun, f"{begun} to begin")

        have_begun(0.0)
        for end_s, at in to_end:
            home.ask("cancel", jobs=[str(ids[at])])
            have_begun(end_s)
        seen = devices_of(home, ids)
    finally:
        home.close()
    assert seen == [found.attempts[0].devices for found in run.jobs]
