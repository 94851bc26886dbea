"""The run time on each kind and number of GPUs, from reports and from whole runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    Attempt,
    Instant,
    JobSpec,
    Needs,
    Placement,
    Profiled,
    Progress,
    Role,
    Usage,
)
from radrm.core.words import Collocation, Quantity
from radrm.estimators.history import History
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.profile import paced_s, profile_of
from radrm.structs import replace

BEGIN = Instant(1000.0, 1_700_000_000.0, "a")


def at(seconds: float) -> Instant:
    return BEGIN.at(BEGIN.boot_s + seconds)


def attempt(*reports: tuple[float, float | None], begun: float = 0.0) -> Attempt:
    return Attempt(
        *(1, 1, 1, Placement((), Collocation.MPS), BEGIN.at(990.0), BEGIN),
        usage=(Usage("GPU-0", 1),),
        reported=tuple(Progress(at(seconds), work_done=done) for seconds, done in reports),
        began=Progress(BEGIN, work_done=begun),
    )


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        (attempt((10, 0.1), (40, 0.4)), 100),  # no start-up
        (attempt((30, 0.1), (60, 0.4)), 120),  # 20 s of start-up
        (attempt((30, 0.6), (60, 0.9), begun=0.5), 120),
        (attempt((1, 0.1), (31, 0.4)), 100),  # faster at first
        (attempt((10, 0.1), (14, 0.4)), None),  # too short
        (attempt((10, 0.4), (40, 0.4)), None),
        (attempt((10, 0.4), (40, 0.1)), None),
        (attempt((10, None), (40, 0.1)), None),  # steps without their total
        (attempt((10, 0.1)), None),
        (attempt(), None),
        (replace(attempt((10, 0.1), (40, 0.4)), started=None), 100),
        (replace(attempt((10, 0.1), (40, 0.4)), usage=(Usage("GPU-0", 1, shared=True),)), None),
    ],
)
def test_the_pace_of_a_run(record: Attempt, seconds: float | None) -> None:
    assert paced_s(record) == (None if seconds is None else pytest.approx(seconds))


@given(st.floats(20, 1e6), st.floats(0, 100), st.floats(0.01, 0.4), st.floats(0.5, 1.0))
def test_a_steady_job_is_known_from_any_two_reports(
    work_s: float, start_s: float, first: float, last: float
) -> None:
    record = attempt((start_s + first * work_s, first), (start_s + last * work_s, last))
    found = paced_s(record)
    assert found is None or found == pytest.approx(start_s + work_s, rel=1e-3)
    assert found is not None or (last - first) * work_s < 5.1


def run(
    kind: str, gpus: int, seconds: float | None, alone: bool = True, length: str = ""
) -> PastRun:
    return PastRun(1, kind, alone=alone, duration_s=seconds, gpus=gpus, length=length or None)


def test_a_profile_has_the_median_of_each_kind_and_number() -> None:
    runs = [
        *(run("V100", 1, seconds) for seconds in (40.0, 50.0, 600.0)),
        *(run("V100", 2, 30.0), run("T4", 1, 90.0), run("T4", 1, None)),
        *(run("T4", 1, 900.0, alone=False), run("T4", 1, 900.0, length="other")),
    ]
    expected = (Profiled("T4", 1, 90.0), Profiled("V100", 1, 50.0), Profiled("V100", 2, 30.0))
    assert profile_of(runs, None) == expected
    assert profile_of(runs, "other") == (Profiled("T4", 1, 900.0),)
    assert profile_of([], None) == ()
    many = [run("T4", 1, 10.0)] * 10 + [run("T4", 1, 99.0)] * 20
    assert profile_of(many, None) == (Profiled("T4", 1, 10.0),), "the latest"


PROFILE = (Profiled("T4", 1, 90.0), Profiled("T4", 2, 60.0), Profiled("V100", 1, 30.0))


@pytest.mark.parametrize(
    ("kind", "gpus", "seconds"),
    [("T4", 1, 90.0), ("T4", 2, 60.0), (None, 1, 60.0), ("A100", 1, None), ("V100", 2, None)],
)
def test_a_profile_predicts_the_duration(
    kind: str | None, gpus: int, seconds: float | None
) -> None:
    spec = JobSpec(name="a", user="ann", uid=1000, roles=(Role(needs=Needs(gpus=gpus)),))
    found = History().estimate(Description(spec, device_kind=kind, profile=PROFILE))
    assert [(e.quantity, e.value, e.source) for e in found] == (
        [] if seconds is None else [(Quantity.DURATION, seconds, "profile")]
    )


def test_whole_runs_alone_are_better_than_a_profile() -> None:
    spec = JobSpec(name="a", user="ann", uid=1000)
    whole = (run("T4", 1, 80.0),)
    found = History().estimate(
        Description(spec, device_kind="T4", same_runs=whole, profile=PROFILE)
    )
    assert [(e.value, e.source) for e in found if e.quantity is Quantity.DURATION] == [
        (80.0, "history")
    ]
