"""What probes of a job show, and where they may run."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.errors import UsageError
from radrm.lab.experiments.profiling import (
    Point,
    configurations,
    figures,
    has_enough,
    unavailable,
)

FIRST = Point(100.0, 10.0, 1000.0, 0.01)
LAST = Point(120.0, 50.0, 1000.0, 0.05)


@pytest.mark.parametrize(
    ("points", "total", "step_s", "whole_s", "missing"),
    [
        ((FIRST, LAST), None, 0.5, 500.0, None),
        ((FIRST, LAST), 7.0, 0.5, 500.0, None),  # what it reports counts
        ((Point(100, 10), Point(120, 50)), None, 0.5, None, "add --steps"),
        ((Point(100, 10), Point(120, 50)), 7.0, 0.5, 3.5, None),
        ((Point(100, work_done=0.1), Point(120, work_done=0.2)), None, None, 200.0, None),
        ((FIRST, Point(103, 50, 1000.0, 0.05)), None, None, None, "--probe-steps"),
        ((FIRST, Point(120, 10, 1000.0, 0.01)), None, None, None, "--probe-steps"),
        ((FIRST,), None, None, None, "reported no steps"),
        ((), None, None, None, "reported no steps"),
    ],
)
def test_the_figures_of_a_probe(
    points: tuple[Point, ...],
    total: float | None,
    step_s: float | None,
    whole_s: float | None,
    missing: str | None,
) -> None:
    found = figures("V100", 1, points, total, None)
    assert (found.step_s, found.whole_s) == (pytest.approx(step_s), pytest.approx(whole_s))
    assert found.why is missing is None or missing in (found.why or "")


def test_a_probe_that_was_stopped_keeps_its_figures_and_says_why() -> None:
    found = figures("V100", 2, (FIRST, LAST), None, "it was stopped: job 3 waits")
    assert found.document == {
        "kind": "V100",
        "gpus": 2,
        "step_s": 0.5,
        "total": 1000.0,
        "whole_s": 500.0,
        "why": "it was stopped: job 3 waits",
    }


@pytest.mark.parametrize(
    ("points", "steps", "enough"),
    [
        ((FIRST, LAST), 40, True),
        ((FIRST, LAST), 41, False),
        ((FIRST, Point(104, 50)), 40, False),  # too short a time
        ((FIRST,), 1, False),
        ((Point(100), Point(120)), 1, False),
        ((Point(100), Point(110), Point(120)), 99, True),  # without steps
    ],
)
def test_a_probe_ends_when_it_has_done_its_steps(
    points: tuple[Point, ...], steps: int, enough: bool
) -> None:
    assert has_enough(points, steps) is enough


def device(name: str, **changes: Any) -> dict[str, Any]:
    known = {"kind": "gpu", "state": "idle", "reason": None, "reservations": []}
    return {"name": name, **known, **changes}


SERVER = [*(device("NVIDIA A100-SXM4-40GB") for _ in range(5)), device("Tesla T4")]
A100, T4 = "NVIDIA A100-SXM4-40GB", "Tesla T4"


def test_each_kind_is_probed_with_doubling_numbers_unless_told_otherwise() -> None:
    assert configurations(SERVER, (), ()) == [(A100, 1), (A100, 2), (A100, 4), (T4, 1)]
    assert configurations(SERVER, ("a100",), (3,)) == [(A100, 3)]
    assert configurations(SERVER, (), (2, 8)) == [(A100, 2)]
    with pytest.raises(UsageError, match="--gpu-type h100: there is NVIDIA A100"):
        configurations(SERVER, ("h100",), ())
    with pytest.raises(UsageError, match="--gpus 6: there are 5 GPUs of one kind"):
        configurations(SERVER, (), (6,))
    with pytest.raises(UsageError, match="there is no GPU here"):
        configurations([device("a", kind="mig")], ("a",), ())


def waiting(**changes: Any) -> dict[str, Any]:
    known = {"label": "7", "position": 1, "gpus": 1, "held": False, "after": [], "gpu_types": []}
    return {**known, **changes}


@pytest.mark.parametrize(
    "job",
    [
        waiting(held=True),
        waiting(gpus=0),
        waiting(position=None),
        waiting(after=[{"job": "3"}]),
        waiting(gpu_types=["t4"]),
    ],
)
def test_gpus_that_no_job_waits_for_are_probed(job: dict[str, Any]) -> None:
    assert unavailable(SERVER, [job], A100, 5) is None


def test_gpus_that_others_hold_or_wait_for_are_left_to_them() -> None:
    assert "job 7 waits" in (unavailable(SERVER, [waiting(gpu_types=["a100"])], A100, 1) or "")
    for changed in ({"state": "busy"}, {"reason": "drained"}, {"reservations": [{}]}):
        devices = [*SERVER[1:], device(A100, **changed)]
        assert unavailable(devices, [], A100, 4) is None
        assert unavailable(devices, [], A100, 5) == "4 of 5 are free; try again later"
