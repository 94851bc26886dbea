"""The steps: name, part, limit, and what each settles. docs/lab/acceptance.md explains.

    python -m proofs.acceptance.plan NAME FOLDER

runs one step in this process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proofs.acceptance import daemon, first, guards, hardware, sharing, thesis
from proofs.acceptance.step import Step, perform
from proofs.acceptance.suites import pytest_step

PART_LIMIT_S = 570.0
"""A part as a whole: machines are lent for commands of ten minutes."""


@dataclass(frozen=True)
class Planned:
    """A step. `limit_s` is for the step with its programs; `settles` says what it is for."""

    name: str
    part: int
    limit_s: float
    settles: str
    run: Callable[[Step], str]


PLAN = (
    Planned("facts", 1, 100, "what machine this is; fixtures of nvidia-smi", first.facts),
    Planned("nvml-root", 1, 25, "structures and return codes of NVML", first.nvml_root),
    Planned("nvml-nobody", 1, 25, "whether GPM needs rights", first.nvml_nobody),
    Planned("doctor", 1, 45, "no failure but for what a container lacks", first.doctor),
    Planned("smi-streams", 1, 25, "nvidia-smi as a source of readings", first.smi_streams),
    Planned("real-gpu", 1, 40, "readings agree with nvidia-smi", pytest_step("test_real_gpu.py")),
    *(
        Planned(f"activity-{word}", 1, 58, settles, pytest_step("test_activity.py", word))
        for word, settles in (
            ("idle", "an idle GPU reads about 0"),
            ("fill", "matrix products read above 0.8"),
            ("half", "half of the time reads about a half"),
            ("few", "sixteen blocks read about 16 / SMs"),
        )
    ),
    *(
        Planned(f"jobs-{word}", 1, 59, settles, pytest_step("test_jobs.py", word))
        for word, settles in (
            ("measured", "memory by process, the size of a CUDA context"),
            ("known", "processes are attributed to their job"),
            ("two_jobs", "two time-sliced jobs share the GPU"),
            ("death", "a real out-of-memory death, and its recovery"),
        )
    ),
    Planned("race", 2, 55, "first clients without a server; memory under MPS", sharing.race),
    Planned("commands", 2, 45, "start_server first; two commands at once", sharing.commands),
    Planned("index", 2, 30, "CUDA_VISIBLE_DEVICES=0 for a client", sharing.index),
    Planned("caps", 2, 80, "what a cap binds, charges and says", sharing.caps),
    Planned("term", 2, 90, "cancelling clients whose kernels run", daemon.term),
    Planned("terminate", 2, 60, "terminate_client: time, and the others", sharing.terminate),
    Planned("users", 2, 80, "change of users, the option for several, quit", sharing.users),
    Planned("fault", 2, 60, "a fault, its bystanders, the server afterwards", sharing.fault),
    *(
        Planned(f"mps-{word}", 2, 59, settles, pytest_step("test_mps.py", word))
        for word, settles in (
            ("two_jobs", "two jobs are clients of one server"),
            ("cap", "a job's cap ends in a recovery"),
            ("time_sliced", "time-sliced jobs are no clients"),
        )
    ),
    Planned("fault-jobs", 3, 90, "bystanders of a fault run again", guards.fault_jobs),
    Planned("devices", 3, 60, "isolation of devices on NVIDIA's own nodes", guards.devices),
    Planned("driver-caps", 3, 60, "memory caps by the driver (R615)", guards.driver_caps),
    Planned("bench-timeslice", 3, 59, "bench, time-sliced", daemon.bench("timeslice")),
    Planned("bench-mps", 3, 59, "bench, under MPS", daemon.bench("mps")),
    Planned("restart", 3, 70, "kill -9 of the daemon under an MPS client", daemon.restart),
    Planned("near", 3, 40, "CPUs and GPUs near this one; its fabric", daemon.near),
    Planned(
        "second-light",
        3,
        160,
        "default rules put a light job beside another",
        pytest_step("test_jobs.py", "default_rules"),
    ),
    Planned("one-cpu", 4, 35, "CPUs near the GPU, told to one CPU", hardware.one_cpu),
    Planned("term-handler", 4, 55, "an MPS client that handles TERM saves", daemon.term_handler),
    Planned("bench-with", 4, 80, "bench of two different programs", daemon.bench_with),
    Planned("isolation-kill", 4, 45, "isolation outlives the daemon", guards.isolation_kill),
    Planned("cap-raise", 4, 60, "caps by the driver grow under a job", guards.cap_raise),
    Planned("mig", 4, 60, "MIG instances: readings, error codes, jobs", hardware.mig),
    Planned("several", 4, 80, "numbers, links and caps of several GPUs", hardware.several),
    Planned("containers", 4, 50, "a container as an MPS client", hardware.containers),
    Planned("metrics", 5, 130, "Figure 3.1 of the thesis", thesis.metrics),
    Planned("overhead", 5, 420, "Table 3.2 of the thesis", thesis.overhead),
    Planned("mixed", 6, 380, "Figures 4.12 and 4.13 of the thesis", thesis.mixed),
    Planned("labels", 6, 180, "whether GPUMemNet's labels are right", thesis.labels),
)
"""`clean` follows the steps of each part: main does it."""


def main(name: str, folder: str) -> None:
    """Run one step, and leave this process."""
    (planned,) = [each for each in PLAN if each.name == name]
    sys.exit(0 if perform(name, planned.run, Path(folder)) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
