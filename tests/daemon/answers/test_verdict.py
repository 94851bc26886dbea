"""What a job that has ended should have asked for."""

from __future__ import annotations

import pytest

from radrm.core.records import (
    DECLARED,
    Attempt,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Placement,
    Share,
    Usage,
)
from radrm.core.words import Collocation, JobState, Outcome, Quantity
from radrm.daemon.views.verdict import verdict
from radrm.structs import replace

GIB = 1024


def job(asked: int | None = None, limit_s: float | None = None, **changes: object) -> Job:
    spec = JobSpec(name="train", user="ann", uid=1000, time_limit_s=limit_s)
    estimates = (Estimate(Quantity.MEMORY, asked, asked, DECLARED),) if asked else ()
    state = changes.pop("state", JobState.COMPLETED)
    made = Job(1, "T", spec, Instant(0.0, 0.0), state=state, estimates=estimates)
    return replace(made, **changes)


def attempt(
    *usage: Usage, ran_s: float = 600.0, reserved: int | None = None, oom: bool = False
) -> Attempt:
    shares = tuple(Share(each.device, reserved) for each in usage)
    return Attempt(
        job_id=1,
        number=1,
        serial=1,
        placement=Placement(shares, Collocation.TIMESLICE),
        launched=Instant(0.0, 0.0),
        started=Instant(0.0, 0.0),
        ended=Instant(ran_s, ran_s),
        outcome=Outcome.OOM if oom else Outcome.COMPLETED,
        usage=usage,
    )


def used(peak: int | None, device: str = "G0", smact: float | None = None, n: int = 0) -> Usage:
    return Usage(device, peak_mib=peak, alone_smact=smact, alone_count=n)


PEAK = 5018  # 4.9 GiB
DIED = attempt(used(3 * GIB), reserved=4 * GIB, oom=True)
OK = attempt(used(PEAK))
BY_TOTAL = replace(attempt(used(500), reserved=8 * GIB, oom=True), fraction="--part")
TABLE = [
    (job(12 * GIB), [OK], ["asked 12.0G, peak 4.9G: try --gpu-memory=6G (peak and headroom)"]),
    (job(7 * GIB), [OK], []),  # less than a fifth is left over
    (job(6 * GIB), [OK], []),
    (job(), [OK], []),  # nothing was declared
    (
        job(4 * GIB),
        [attempt(used(24 * GIB))],
        ["asked 4.0G, more was used: peak 24.0G: try --gpu-memory=25G (peak and headroom)"],
    ),
    (
        job(4 * GIB),
        [attempt(used(4 * GIB + 100))],
        [],
    ),
    (
        job(4 * GIB, oom_count=1),
        [DIED, attempt(used(24 * GIB), reserved=40 * GIB)],
        [
            "out of memory with 4.0G reserved, peak 24.0G: try --gpu-memory=25G "
            "(peak and headroom)",
        ],
    ),
    (
        job(oom_count=1),
        [DIED, attempt(used(39 * GIB))],
        ["out of memory with 4.0G reserved, peak 39.0G: try --gpu-memory=39G (peak and headroom)"],
    ),
    (job(oom_count=1), [DIED, attempt(used(2 * GIB))], []),  # a neighbour's growth
    (
        job(state=JobState.FAILED, oom_count=1),
        [DIED],
        ["4.0G per GPU was not enough: use a smaller batch, or ask for more memory"],
    ),
    (
        job(state=JobState.FAILED, oom_count=1, memory_floor_mib=41 * GIB),
        [DIED],
        ["it needs 41.0G, the largest GPU has 39.9G: use a smaller batch"],
    ),
    (
        job(8 * GIB, oom_count=1),
        [BY_TOTAL, attempt(used(36 * GIB))],
        ["it takes a part of the GPU's 39.9G, and may have 8.0G: set --part to 0.19 or less"],
    ),
    (
        job(8 * GIB, state=JobState.FAILED, oom_count=1),
        [BY_TOTAL],
        ["it takes a part of the GPU's 39.9G, and may have 8.0G: set --part to 0.19 or less"],
    ),
    (
        job(state=JobState.FAILED, oom_count=1),
        [BY_TOTAL, replace(attempt(used(500), reserved=40 * GIB, oom=True), fraction="--part")],
        ["it needs more than 40.0G, the largest GPU has 39.9G: use a smaller batch"],
    ),
    (job(12 * GIB, state=JobState.FAILED), [OK], []),
    (job(12 * GIB, state=JobState.CANCELLED), [OK], []),
    (job(12 * GIB, state=JobState.RUNNING), [OK], []),
    (job(12 * GIB), [], []),
    (job(12 * GIB), [attempt(used(None))], []),
    (
        job(),
        [attempt(used(0))],
        ["it used no GPU memory: without a GPU (--gpus=0) it starts sooner"],
    ),
    (job(), [attempt(used(0), ran_s=59.0)], []),
    (job(), [attempt(used(PEAK), used(0, "G1"))], ["it used 1 of its 2 GPUs: try --gpus=1"]),
    (
        job(),
        [attempt(used(PEAK, smact=0.04, n=20))],
        ["SM activity 4% while alone: does it wait for the CPU, or for data?"],
    ),
    (job(), [attempt(used(PEAK, smact=0.04, n=19))], []),
    (job(), [attempt(used(PEAK, smact=0.10, n=99))], []),
    (job(), [attempt(used(PEAK, smact=0.01, n=99), used(PEAK, "G1"))], []),
    (
        job(limit_s=14_400.0),
        [attempt(used(PEAK), ran_s=720.0)],
        ["asked 4h00m, ran 12m00s: a shorter --time can start sooner"],
    ),
    (job(limit_s=14_400.0), [attempt(used(PEAK), ran_s=4801.0)], []),
    (job(limit_s=660.0), [attempt(used(PEAK), ran_s=61.0)], []),
    (job(limit_s=14_400.0, used_s=100.0), [attempt(used(PEAK), ran_s=720.0)], []),
    (
        job(12 * GIB, limit_s=14_400.0),
        [attempt(used(PEAK, smact=0.04, n=20), ran_s=720.0)],
        [
            "asked 12.0G, peak 4.9G: try --gpu-memory=6G (peak and headroom)",
            "SM activity 4% while alone: does it wait for the CPU, or for data?",
        ],
    ),
]


@pytest.mark.parametrize(("ended", "attempts", "lines"), TABLE, ids=map(str, range(len(TABLE))))
def test_the_verdict(ended: Job, attempts: list[Attempt], lines: list[str]) -> None:
    assert list(verdict(ended, attempts, GIB, 40 * GIB - 100)) == lines
