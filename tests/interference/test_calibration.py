"""The calibration: its parts on made-up runs, and how well the published run comes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.simulation import calibration
from benchmarks.simulation.calibration import (
    LIMITS,
    Observed,
    fit,
    log_errors,
    long_enough,
    observed,
    placed,
    replay,
    search,
    shipped,
    typical,
    using,
)
from benchmarks.simulation.power import error_of, fitted_power, points_of, through, two_lines
from radrm.interference.model import Demand, delivered, joint_speed
from radrm.simulated.spec import watts
from radrm.structs import replace
from tests.lab.simulator.traces import job
from tests.paths import SHARED_DATA

OTHER = {**shipped(), "ceiling": 0.8, "joint": 1.0, "vgg": 5.0}


def run(family: str, devices: str, start_s: float, work_s: float = 3000) -> Observed:
    made = replace(job(smact=0.7), family=family, batch_size=32)
    return Observed(made, tuple(devices), start_s, start_s + work_s, work_s)


def as_modelled(jobs: list[Observed]) -> list[Observed]:
    """The same jobs, with the ends that the model gives them with other constants."""
    ends = replay(jobs, OTHER)
    return [dataclasses.replace(each, end_s=end) for each, end in zip(jobs, ends, strict=True)]


JOBS = [
    run("vgg", "0", 0),
    run("cnn", "0", 100),
    run("cnn", "01", 200),
    run("vgg", "1", 300),
    run("cnn", "1", 9000),
]


# ------------------------------------------------------------------ the constants


def test_a_job_alone_ends_after_its_work() -> None:
    assert replay([run("cnn", "0", 50), run("vgg", "1", 0, 10)], shipped()) == [3050, 10]


def test_the_model_has_other_constants_for_a_while() -> None:
    before = delivered(9), joint_speed([0.5, 0.9])
    with pytest.raises(KeyError), using(OTHER):
        assert delivered(9) == pytest.approx(0.8)
        assert joint_speed([0.5, 0.9]) == pytest.approx(0.45)
        raise KeyError
    assert (delivered(9), joint_speed([0.5, 0.9])) == before


def test_weights_are_constants_too() -> None:
    assert run("vgg", "0", 0).demand(OTHER) == Demand(0.7, 5.0)
    assert run("cnn", "0", 0).demand({**OTHER, "batch 64": 2.0}) == Demand(0.7, 1.0)


def test_a_search_ends_at_the_lowest_point_within_the_limits() -> None:
    limits = {"x": (0.1, 10.0), "y": (0.1, 2.0)}

    def cost(at: calibration.Constants) -> float:
        return (at["x"] - 3) ** 2 + (at["y"] - 5) ** 2 + (at["x"] - 3) * (at["y"] - 5) / 2

    found = search(cost, {"x": 1.0, "y": 1.0}, limits)
    assert found["y"] == 2.0
    assert found["x"] == pytest.approx(3.75, rel=0.01)


def test_a_fit_finds_the_ends_that_other_constants_gave() -> None:
    jobs = as_modelled(JOBS)
    assert typical(log_errors(jobs, shipped())) > 0.05
    found = fit(jobs, range(len(jobs)))
    assert typical(log_errors(jobs, found)) < 0.01
    assert all(low <= found[name] <= high for name, (low, high) in LIMITS.items())


def test_short_jobs_are_no_part_of_the_fit() -> None:
    assert long_enough([run("vgg", "0", 0, 300), run("vgg", "0", 0, 3000)]) == [1]


# ------------------------------------------------------------------ power, placements


def test_two_lines_are_found_again() -> None:
    points = [(x / 10, through(0.5, 200, 280)(x / 10), float(x)) for x in range(1, 11)]
    assert two_lines(points, 0.5) == pytest.approx((200, 280))
    assert fitted_power(points) == pytest.approx((0.5, 200, 280))
    assert error_of(points, lambda x: through(0.5, 200, 280)(x) + 3) == pytest.approx((3, 3))


def test_a_placement_beside_a_busy_job_is_counted() -> None:
    heavy = dataclasses.replace(run("vgg", "0", 0), job=replace(JOBS[0].job, smact=0.9))
    found = placed([heavy, run("cnn", "0", 20), run("cnn", "0", 200), run("cnn", "1", 300)])
    # The second and third join the first; only the third after 90 busy seconds.
    assert (found.joins, found.above) == (2, 1)
    assert 0 < found.smact < 1 and found.energy_mj > 0


# ------------------------------------------------------------------ the published runs


def test_without_data_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["calibration", "--data", str(tmp_path)])
    assert calibration.main() == 0
    assert "has no measured/" in capsys.readouterr().out


needs_data = pytest.mark.skipif(
    not (SHARED_DATA / "measured").is_dir(), reason="the published data are not here"
)


@needs_data
def test_the_published_run_comes_out() -> None:
    """Jobs start when and where they did; their ends are left to the model."""
    jobs = observed()
    ends = replay(jobs, shipped())
    assert fmean(abs(end / job.end_s - 1) for job, end in zip(jobs, ends, strict=True)) < 0.05
    errors = log_errors(jobs, shipped())
    assert typical([errors[at] for at in long_enough(jobs)]) == pytest.approx(0.12, abs=0.01)


@needs_data
def test_the_power_curve_is_the_fitted_one() -> None:
    knee, at_knee_w, at_one_w = fitted_power(points_of())
    assert [watts(knee), watts(1)] == pytest.approx([at_knee_w, at_one_w], abs=1)


@needs_data
def test_energy_and_activity_of_the_published_placements() -> None:
    found = placed(observed())
    assert found.smact == pytest.approx(0.853, rel=0.02)
    assert found.energy_mj == pytest.approx(28.502, rel=0.01)
    assert found.execution_min == pytest.approx(found.published_min, rel=0.04)
