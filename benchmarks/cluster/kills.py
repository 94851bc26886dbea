"""A thousand jobs on three nodes while radrm's daemons and Slurm's controller die at random.

Each job writes a line as its first instruction, so a job that never ran or ran twice is seen. Its
exit code is compared with what Slurm and the node's daemon have recorded.

radrm's daemons end by `kill -9`. slurmctld ends by TERM: it saves its state each five seconds only.
Killed, it would forget the ends of jobs and show them as RUNNING, with or without radrm.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cluster.place import codes_of_radrm, codes_of_slurm, through_radrm
from benchmarks.table import Row
from tests.slurm.cluster import Cluster
from tests.waiting import PATIENCE_S

CODES = 7
"""Element N exits with N modulo this."""

AT_ONCE = 12
"""Elements that Slurm runs at the same time: steps start and end all the time."""

MOST_PAUSE_S = 4.0
"""Between two ends: up to this, at random."""

MOST_AWAY_S = 1.0
"""What was ended stays away for up to this, at random."""


@dataclass(frozen=True)
class Ended:
    """What came of the jobs of a run, by the number of the element."""

    starts: Counter[int]
    """First instructions."""
    slurm: dict[int, int | None]
    """Exit codes that Slurm's completion log has, of the last run."""
    radrm: dict[int, int | None]
    """Exit codes that the nodes' daemons have, of the last run."""
    seconds: float
    killed: Counter[str]

    def rows(self, jobs: int) -> list[Row]:
        """What must not be: jobs that did not run once, and exit codes that are not the job's."""
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.killed.items()))
        detail = f"{jobs} jobs in {self.seconds:.0f} s; ended: {kills}"
        kinds = {
            "jobs that never ran": sum(not self.starts[n] for n in range(jobs)),
            "jobs that ran more than once": sum(self.starts[n] > 1 for n in range(jobs)),
            "exit codes that Slurm has wrong": _wrong(self.slurm, jobs),
            "exit codes that radrm has wrong": _wrong(self.radrm, jobs),
        }
        return [Row(what, count, 0, "jobs", detail) for what, count in kinds.items()]


def _wrong(codes: Mapping[int, int | None], jobs: int) -> int:
    """The number of elements whose exit code is missing or not their own."""
    return sum(codes.get(number) != number % CODES for number in range(jobs))


def measure(
    cluster: Cluster,
    jobs: int = 1000,
    seed: int = 1,
    most_pause_s: float = MOST_PAUSE_S,
    most_ends: int | None = None,
) -> list[Row]:
    """Run them all on a cluster whose daemons are its own to end."""
    return run(cluster, jobs, random.Random(seed), most_pause_s, most_ends).rows(jobs)


def run(
    cluster: Cluster,
    jobs: int,
    drawn: random.Random,
    most_pause_s: float,
    most_ends: int | None = None,
) -> Ended:
    """Submit an array, and end daemons until the array has ended, at most so many times."""
    starts = cluster.work / "starts"
    element = 'echo "$SLURM_JOB_ID $SLURM_ARRAY_TASK_ID"'
    text = through_radrm(
        f"{element} >>{starts}\nexit $((SLURM_ARRAY_TASK_ID % {CODES}))", "--gpu-memory=2G"
    )
    begun = time.monotonic()
    words = f"--array=0-{jobs - 1}%{AT_ONCE}", "--gres=gpumem:2048"
    array = cluster.sbatch(text, *words, f"--output={cluster.work}/%A_%a.out")
    killed: Counter[str] = Counter()
    while not _all_ended(cluster, array):
        assert time.monotonic() < begun + PATIENCE_S + jobs, cluster.query("squeue")
        time.sleep(drawn.uniform(0.0, most_pause_s))
        if killed.total() == most_ends:
            continue
        victim = drawn.choice((*cluster.nodes, "slurmctld"))
        _end(cluster, victim, drawn.uniform(0.0, MOST_AWAY_S))
        killed["slurmctld" if victim == "slurmctld" else "radrm daemon"] += 1
    seconds = time.monotonic() - begun
    lines = [line.split() for line in starts.read_text().splitlines()]
    numbers = {job: int(number) for job, number in lines}
    counted = Counter(int(number) for _, number in lines)
    for number in range(jobs):
        log = cluster.work / f"{array}_{number}.out"
        if counted[number] != 1:
            print(f"element {number}:", log.read_text() if log.exists() else "no log", flush=True)
    return Ended(
        counted,
        {numbers[job]: code for job, code in codes_of_slurm(cluster).items() if job in numbers},
        {numbers[job]: code for job, code in codes_of_radrm(cluster).items() if job in numbers},
        seconds,
        killed,
    )


def _end(cluster: Cluster, victim: str, away_s: float) -> None:
    if victim == "slurmctld":
        cluster.stop_slurmctld()
        time.sleep(away_s)
        cluster.start_slurmctld()
    else:
        cluster.daemons[victim].kill()
        time.sleep(away_s)
        cluster.daemons[victim].start()


def _all_ended(cluster: Cluster, array: int) -> bool:
    """Whether no element is left in Slurm's queue. A controller that is away is asked again."""
    asked = cluster.run("squeue", "--noheader", f"--jobs={array}", "--format=%A")
    return asked.returncode == 0 and not asked.stdout.strip()
