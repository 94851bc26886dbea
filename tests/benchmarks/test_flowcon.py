"""FlowCon: the letter beside a program that shares no code with it, and its control."""

from __future__ import annotations

import pytest

from benchmarks.flowcon.independent import completion_s
from benchmarks.flowcon.jobs import compare, drawn, five, three
from benchmarks.flowcon.rows import LETTER, last_apart


@pytest.mark.parametrize(("alpha", "interval_s"), [(0.05, 30.0), (0.10, 30.0), (0.10, 20.0)])
def test_the_letter_is_within_the_spread_of_the_independent_model(
    alpha: float, interval_s: float
) -> None:
    least, most = last_apart(alpha, interval_s)
    settings = {"alpha": alpha, "interval_s": interval_s, **LETTER}
    assert least <= compare({0: three()}, settings).last <= most


def test_equal_shares_end_as_the_thesis_says() -> None:
    works = [(job.submit_s, job.duration_s, job.loss_k or 0.0, 1.0) for job in three()]
    assert completion_s(works, None, 20.0) == pytest.approx([394.0, 240.5, 84.7], abs=0.5)


def test_the_five_jobs_end_under_equal_sharing_as_the_thesis_says() -> None:
    jobs = five(3)
    works = [(j.submit_s, j.duration_s * j.cpus, 5.0, j.cpus) for j in jobs if j.cpus is not None]
    took_s = completion_s(works, None, 20.0)
    ends = [job.submit_s + each for job, each in zip(jobs, took_s, strict=True)]
    assert took_s[3:] == pytest.approx([422.5, 489.4], abs=1.0)
    assert ends[:3] == pytest.approx([730.0, 730.0, 650.0], abs=1.0)


def test_four_of_the_five_jobs_end_sooner() -> None:
    settings = {"alpha": 0.03, "interval_s": 30.0, **LETTER}
    assert compare({3: five(3)}, settings).sooner == 4


def test_drawn_growth_helps_the_last_job_less() -> None:
    traces = {seed: three() for seed in range(2)}
    settings = {"alpha": 0.05, "interval_s": 30.0, **LETTER}
    assert compare(traces, settings).last < compare(traces, settings, lot=True).last - 5


def test_a_job_uses_the_part_of_a_cpu_that_is_published() -> None:
    (lstm,) = [job for job in drawn(5, 730.0, 0) if job.name == "LSTM-CFC"]
    assert lstm.cpus == 0.19
