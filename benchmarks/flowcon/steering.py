"""One run of FlowCon over many jobs: how long a step takes in which it sets their shares."""

from __future__ import annotations

from time import perf_counter

from benchmarks.table import Row, median_ms
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import HostUse, Node
from radrm.core.settings import CoreSettings
from radrm.published.flowcon import FlowCon
from tests.world import World, default_planner, gpus

LIMIT_MS = 5.0


class _TimedWorld(World):
    """Measures the steps in which only time passes."""

    took: tuple[float, ...] = ()

    def decide(self, event: ev.Event) -> Decision:
        began = perf_counter()
        decision = super().decide(event)
        if isinstance(event, ev.Tick):
            self.took += (perf_counter() - began,)
        return decision


def measure(jobs: int = 100, runs: int = 15) -> list[Row]:
    """Return the median time of a run after new reports of all jobs."""
    rule = FlowCon()
    world = _TimedWorld(
        gpus(1),
        planners=(default_planner(), rule),
        node=Node(cpus=64.0),
        settings=CoreSettings(gpuless_at_once=jobs),
    )
    started = [world.submit(gpus=0) for _ in range(jobs)]
    for run in range(1, runs + 1):
        world.boot_s += rule.interval_s - 0.1
        for number, job in enumerate(started, 1):
            attempt = world.live(job)
            assert attempt is not None
            use = HostUse(at=world.now, cpu_s=5.0 * run)
            world.decide(ev.HostUsed(at=world.now, uses=((job.id, attempt.serial, use),)))
            world.report(job, loss=1 / (1 + run * number), work_done=run / runs)
        world.pass_time(0.2, read=False)
    return [Row("flowcon: a run", median_ms(world.took), LIMIT_MS, "ms", f"{jobs} jobs")]
