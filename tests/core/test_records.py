"""What records say of themselves, derived from their fields: a table of values each."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core.records import (
    Attempt,
    Checkpoint,
    Chip,
    Device,
    Instant,
    JobSpec,
    JobWarning,
    Needs,
    OuterJob,
    Placement,
    Progress,
    Role,
    Usage,
)
from radrm.core.words import CheckpointKind, Collocation
from radrm.structs import replace

THEN = Instant(100.0, 5000.0)
ATTEMPT = Attempt(1, 1, 1, Placement((), Collocation.TIMESLICE), THEN)


def used(**by_device: dict[str, Any]) -> Attempt:
    usage = tuple(Usage(device, **fields) for device, fields in by_device.items())
    return replace(ATTEMPT, usage=usage)


def test_a_warning_tells_when_something_follows() -> None:
    warned = JobWarning("idle", "it is idle", THEN, "it is cancelled", 60.0)
    assert warned.acts == Instant(160.0, 5060.0)
    assert replace(warned, in_s=0.0).acts == THEN
    assert replace(warned, in_s=None).acts is None


@pytest.mark.parametrize(
    ("attempt", "peak", "energy", "mean", "alone", "slowed"),
    [
        (ATTEMPT, None, None, None, None, False),
        (used(a={}, b={}), None, None, None, None, False),
        (
            used(a={"peak_mib": 5, "energy_j": 2.0, "smact_mean": 0.25, "alone_smact": 0.5}),
            *(5, 2.0, 0.25, 0.5, False),
        ),
        (
            used(
                a={"peak_mib": 5, "energy_j": 2.0, "smact_mean": 0.25, "alone_smact": 0.5},
                b={"peak_mib": 7, "energy_j": 3.0, "smact_mean": 0.75, "alone_smact": 1.0},
                c={},
            ),
            *(7, 5.0, 0.5, 0.75, False),
        ),
        (
            used(a={"smact_mean": 0.0, "alone_smact": 0.0, "peak_mib": 0, "energy_j": 0.0}),
            *(0, 0.0, 0.0, 0.0, False),
        ),
        (used(a={"shared": True, "alone_smact": 0.5}), None, None, None, 0.5, False),
        (used(a={"shared": True, "alone_smact": 0.5}, b={}), None, None, None, None, True),
    ],
)
def test_an_attempts_use_of_all_its_devices(
    attempt: Attempt, peak: Any, energy: Any, mean: Any, alone: Any, slowed: bool
) -> None:
    assert (attempt.peak_mib, attempt.energy_j, attempt.smact_mean) == (peak, energy, mean)
    assert (attempt.alone_smact, attempt.slowed) == (alone, slowed)


def test_how_long_an_attempt_ran_and_what_was_done_before() -> None:
    ran = replace(ATTEMPT, started=THEN, ended=Instant(130.0, 5030.0))
    assert ran.ran_s == 30.0
    assert ATTEMPT.ran_s is replace(ran, started=None).ran_s is replace(ran, ended=None).ran_s
    assert ATTEMPT.ran_s is None and ATTEMPT.work_begun == 0.0
    assert replace(ATTEMPT, number=2).work_begun is None
    began = Progress(at=THEN, work_done=0.25)
    assert replace(ATTEMPT, number=2, began=began).work_begun == 0.25


OUTER = OuterJob("slurm", "c1", "4711", 0, pid=7, start_ticks=8, boot_id="b")


def test_a_job_of_slurm_keeps_its_number_when_it_is_run_again() -> None:
    assert OUTER.name == "slurm:c1:4711.0" and OUTER.label == "Slurm job 4711"
    assert OUTER.step == (7, 8, "b")
    assert OUTER.is_run_of(replace(OUTER, restart=1, pid=9))
    for changes in ({"engine": "other"}, {"cluster": "c2"}, {"id": "4712"}):
        assert not OUTER.is_run_of(replace(OUTER, **changes))


@pytest.mark.parametrize(
    ("kind", "signal", "number"),
    [
        (CheckpointKind.SIGNAL, None, 10),
        (CheckpointKind.EXIT, None, 15),
        (CheckpointKind.SIGNAL, 12, 12),
        (CheckpointKind.EXIT, 12, 12),
    ],
)
def test_the_signal_that_asks_for_a_checkpoint(
    kind: CheckpointKind, signal: int | None, number: int
) -> None:
    assert Checkpoint(kind, signal=signal).number == number


def spec(*roles: Role, **fields: Any) -> JobSpec:
    return JobSpec("a", "ann", 1000, roles or (Role(),), **fields)


PAIR = Role("pair", 2, 4, 2, Needs(gpus=3, cpus=1.5, memory_mib=100))
ONE = Role("one", needs=Needs(gpus=0, cpus=4.0))


@pytest.mark.parametrize(
    ("asked", "gpus", "most", "cpus", "memory", "elastic"),
    [
        (spec(), 1, 1, None, None, False),
        (spec(PAIR), 6, 12, 3.0, 200, True),
        (spec(ONE, PAIR), 6, 12, 7.0, 200, True),
        (spec(ONE), 0, 0, 4.0, None, False),
        (spec(replace(ONE, needs=Needs(0, cpus=1.0, cpus_max=2.0))), 0, 0, 1.0, None, True),
        (spec(ONE, memory_range_mib=(50, 70)), 0, 0, 4.0, 50, False),
        (spec(PAIR, memory_range_mib=(50, 70)), 6, 12, 3.0, 50, True),
    ],
)
def test_what_a_job_asks_for_at_its_smallest_size(
    asked: JobSpec, gpus: int, most: int, cpus: Any, memory: Any, elastic: bool
) -> None:
    assert (asked.gpus, asked.gpus_max) == (gpus, most)
    assert (asked.cpus, asked.memory_mib, asked.elastic) == (cpus, memory, elastic)


def test_a_role_allows_its_range_in_steps() -> None:
    assert [count for count in range(7) if PAIR.allows(count)] == [2, 4]
    assert [count for count in range(3) if ONE.allows(count)] == [1]


def test_limits_and_types_of_gpu() -> None:
    assert not spec().limits_gpu_memory
    assert spec(ONE, replace(PAIR, needs=Needs(gpu_memory_max_mib=9))).limits_gpu_memory
    assert spec(gpu_types=("a6000", "a100")).gpu_types_text == "a6000 or a100"


def test_a_chip_is_known_with_the_number_and_the_clock_of_its_sms() -> None:
    device = Device("GPU-0", 0, "A100", 40960, sms=108, sm_mhz=1410)
    assert device.chip == Chip("A100", 152280.0)
    assert replace(device, sms=0).chip is None and replace(device, sm_mhz=0).chip is None
