"""Eight jobs, 1200 s apart, through a real daemon on simulated GPUs (section V-C).

First `radrm profile` measures each program on a V100, on two and on a T4. Then the jobs come with
`--gpus=1-2` and their due times, and `planner = "andreas"` chooses for each (n*, g*). The
prediction is the simulator's, before the run, with the published run times; the metered energy is
what the daemon has read of its GPUs. Servers' other parts are not metered, so both count GPUs only.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from radrm.client.text import FINAL
from radrm.config import Config
from radrm.lab.experiments.live.play import daemon_settings
from radrm.lab.experiments.live.record import Readings, measured, run_of
from radrm.lab.experiments.simulations.sources import LIFE, with_mix
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.run import DeviceRun, JobRun, Run
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.importers.andreas import Mix, published_mix
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.structs import replace
from radrm.wiring import make_costs
from tests.daemon.harness import DaemonHome

GPUS = "sim:3xV100-32GB,1xT4-16GB"
JOBS, APART_S = 8, 1200.0
SCALE = 20.0
PUBLISHED = 12.29
"""The published deviation, in per cent of the prediction."""
_PROBE_STEPS, _PAUSE_S = 600, 0.2


class Chosen(Struct, frozen=True):
    """What a job got at its first start (`2 x V100`), and its starts; how late it was: predicted,
    in the daemon."""

    name: str
    due_s: float
    predicted: tuple[str, int]
    got: tuple[str, int]
    late_s: tuple[float, float]


class Checked(Struct, frozen=True):
    """The choices, and predicted and metered cost of energy."""

    jobs: tuple[Chosen, ...]
    predicted: float
    metered: float
    load: float
    """The GPU time that a job needs on a V100, per time between two and GPU, in per cent."""

    @property
    def deviation(self) -> float:
        """The difference in per cent of the prediction."""
        return 100 * abs(self.predicted - self.metered) / self.predicted


def checked() -> Checked:
    """Run the jobs. It takes half an hour, most of it idle."""
    scenario = Scenario(
        parse(GPUS),
        with_mix(Config(planner=("andreas",), policy="exclusive")),
        known=Known(duration=0.0),
        life=replace(LIFE, checkpoint_s=0.0, restart_s=0.0),  # free moves, as published
    )
    costs = make_costs(scenario.config)
    jobs = [
        replace(
            job,
            submit_s=at * APART_S,
            due_s=at * APART_S + (job.due_s or 0.0) - job.submit_s,
        )
        for at, job in enumerate(published_mix(Mix(), costs.cost_per_hour).jobs[:JOBS])
    ]
    foreseen = simulate(jobs, scenario)
    live, late = _live(jobs, scenario)
    predicted, metered = metrics(foreseen), metrics(live)
    assert predicted.energy_j is not None and metered.energy_j is not None
    return Checked(
        tuple(
            Chosen(job.name, _due_in_s(job), ours, got, (_late_s(ran), late_s))
            for job, ran, ours, got, late_s in zip(
                jobs, foreseen.jobs, _placed(foreseen), _placed(live), late, strict=True
            )
        ),
        costs.energy_cost(predicted.energy_j, 0.0, predicted.makespan_s),
        costs.energy_cost(metered.energy_j, 0.0, metered.makespan_s),
        100 * fmean(job.duration_s for job in jobs) / APART_S / len(parse(GPUS)),
    )


def _due_in_s(job: TraceJob) -> float:
    return (job.due_s or 0.0) - job.submit_s


def _late_s(ran: JobRun) -> float:
    return max(0.0, (ran.ended_s or 0.0) - (ran.job.due_s or 0.0))


def _placed(run: Run) -> list[tuple[str, int]]:
    """Return the number and kind of GPUs of the first attempt of each job, and its attempts."""
    return [
        (_kinds(run.devices, job.attempts[0].devices), len(job.attempts))
        if job.attempts
        else ("", 0)
        for job in run.jobs
    ]


def _kinds(devices: Sequence[DeviceRun], places: Iterable[int]) -> str:
    found = Counter(devices[at].name.partition("-")[0] for at in places)
    return " + ".join(f"{count} x {kind}" for kind, count in sorted(found.items()))


def _script(job: TraceJob) -> str:
    """Return a job file that takes the job's published time on what it gets."""
    one, two, slow = (each.duration_s for each in job.profile)
    t4 = parse(GPUS)[-1].device.uuid
    return (
        f"#!/bin/bash\n#RAD --gpus=1-2 --checkpoint=signal\n# {job.name}\n"
        f"case $CUDA_VISIBLE_DEVICES in\n*,*) s={two} ;;\n*{t4}*) s={slow} ;;\n"
        f"*) s={one} ;;\nesac\n"
        f"exec radrm-simjob --gpu-memory {job.memory_mib:.0f} --smact {job.smact} --ramp 1 "
        "--gpus all --loss-k 3 --saves --seconds $s\n"
    )


def _live(jobs: Sequence[TraceJob], scenario: Scenario) -> tuple[Run, list[float]]:
    """Return the run of the daemon, and how late each job was."""
    # Run times come from profiles, which only a daemon that estimates learns from.
    settings = [each for each in daemon_settings(scenario) if not each.startswith("estimator=")]
    with tempfile.TemporaryDirectory(prefix="radrm-andreas-") as folder:
        home = DaemonHome(Path(folder), GPUS, SCALE)
        home.scripts, home.settings = True, settings
        try:
            home.start()
            for job in {job.name: job for job in jobs}.values():
                home.file(f"{job.name}.rad", _script(job))
                home.json("profile", f"{job.name}.rad", f"--probe-steps={_PROBE_STEPS}")
            return _played(home, jobs)
        finally:
            home.close()


def _played(home: DaemonHome, jobs: Sequence[TraceJob]) -> tuple[Run, list[float]]:
    readings, numbers = Readings(), list[str]()
    begin_s = float(home.ask("ping")["now"])
    while True:
        now_s = float(home.ask("ping")["now"])
        readings.add(now_s, home.ask("gpus"))
        if len(numbers) < len(jobs):
            job = jobs[len(numbers)]
            if now_s - begin_s >= job.submit_s:
                due = f"--due=+{_due_in_s(job):.0f}s"
                words = (f"{job.name}.rad", due, f"--weight={job.weight:g}")
                numbers.append(home.json("submit", *words)[0]["ticket"])
        elif all(each["state"] in FINAL for each in home.ask("status", jobs=numbers)):
            break
        time.sleep(_PAUSE_S)
    told = [home.ask("explain", jobs=[number]) for number in numbers]
    indices = {each["index"]: each["uuid"] for each in home.ask("gpus")}
    run = run_of(jobs, told, readings, indices)
    assert measured(run, readings).energy_j is not None, "the power of a GPU was not read"
    return run, [each["job"].get("late_s") or 0.0 for each in told]
