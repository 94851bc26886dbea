"""Run times by kind and number of GPUs: what is known on one kind counts on the others."""

from __future__ import annotations

import pytest

from radrm.core.records import Attempt, Instant, Job, JobSpec, Placement, Profiled, Progress
from radrm.core.words import Collocation
from radrm.planners.durations import run_times
from radrm.structs import replace

BEGIN = Instant(1000.0, 1_700_000_000.0, "a")
KINDS = {0: "V100", 1: "T4", 2: "A100"}


def job_with(*known: tuple[str, float]) -> Job:
    profile = tuple(Profiled(kind, 1, duration_s) for kind, duration_s in known)
    spec = JobSpec(name="a", user="ann", uid=1000)
    return Job(id=1, ticket="T1", spec=spec, submitted=BEGIN, profile=profile)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (job_with(("V100", 400)), {0: 400, 1: 400, 2: 400}),
        (job_with(("V100", 400), ("T4", 1200)), {0: 400, 1: 1200, 2: 800}),
        (job_with(("H100", 100)), {0: 3600, 1: 3600, 2: 3600}),
        (job_with(), {0: 3600, 1: 3600, 2: 3600}),
    ],
)
def test_a_kind_without_a_profile_counts_as_like_those_with_one(
    job: Job, expected: dict[int, float]
) -> None:
    found = run_times(job, None, BEGIN, KINDS, None, 3600.0)
    assert found == {(kind, 1): seconds for kind, seconds in expected.items()}


def test_kinds_that_a_program_has_not_tried_look_better_where_it_is_to_learn() -> None:
    found = run_times(job_with(("V100", 400)), None, BEGIN, KINDS, None, 3600.0, hope=0.5)
    assert found == {(0, 1): 400.0, (1, 1): 200.0, (2, 1): 200.0}
    unknown = run_times(job_with(), None, BEGIN, KINDS, None, 3600.0, hope=0.5)
    assert set(unknown.values()) == {3600.0}, "on every kind alike"


def test_a_job_that_runs_on_a_kind_without_a_profile_has_its_own_pace_there() -> None:
    half = Progress(BEGIN.at(BEGIN.boot_s + 100.0), work_done=0.5)
    job = replace(job_with(("V100", 400)), progress=half)
    live = Attempt(1, 1, 1, Placement((), Collocation.EXCLUSIVE), BEGIN, BEGIN)
    found = run_times(job, live, half.at, KINDS, (1, 1), 3600.0)
    assert found == {(0, 1): 200.0, (1, 1): 100.0, (2, 1): 200.0}
