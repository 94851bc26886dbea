"""A daemon's past as a trace: corrected durations, unknown activity, what is left out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from radrm.config import Config
from radrm.core.records import (
    ArrayElement,
    Dependency,
    Estimate,
    Instant,
    Usage,
)
from radrm.core.words import Collocation, Condition, JobState, Outcome, Quantity
from radrm.simulated.spec import parse
from radrm.simulator.engine import simulate
from radrm.simulator.run import Run
from radrm.simulator.scenario import Life, Scenario
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.past import RECORDED, Past, assumptions, replayed
from tests.simulator.pasts import BEGIN, MIDDLE, at, attempt, past, used


def test_a_job_alone_is_what_it_was() -> None:
    told = (Estimate(Quantity.MEMORY, 5000, 6000, "horus"),)
    one = past(1, 10, attempt(1, 30, 130, used()), estimates=told)
    found = replayed([one], MIDDLE, BEGIN)
    (job,) = found.jobs
    assert (job.submit_s, job.duration_s, job.memory_mib, job.smact) == (0, 100, 4000, 0.5)
    assert job.estimates == {RECORDED: 6000} and job.user == "ada"
    assert (found.assumed, found.shared, found.slow_down) == (0, 0, 1.0)
    assert (found.jct_s, found.wait_s) == (120, 20)
    assert len(assumptions([one])) == 1
    declared = past(1, 10, *one.attempts, estimates=(replace(told[0], source="declared"),))
    (again,) = replayed([declared], MIDDLE, BEGIN).jobs
    assert (job.declared, again.declared) == (False, True)


def test_neighbours_are_taken_out_only_while_they_were_there() -> None:
    def both(smact: float) -> list[Past]:
        told = (Estimate(Quantity.SMACT, smact, smact, "declared"),)
        usage = used(smact=None, shared=True)
        return [
            past(1, 0, attempt(1, 0, 300, usage), estimates=told),
            past(2, 0, attempt(2, 100, 200, usage), estimates=told),
        ]

    light, heavy = replayed(both(0.2), MIDDLE, BEGIN), replayed(both(0.9), MIDDLE, BEGIN)
    assert light.jobs[0].duration_s == pytest.approx(299, abs=1)
    # Beside an equal it got about half of the GPU for 70 of its 300 seconds: the other one
    # takes 30 to start.
    assert heavy.jobs[0].duration_s == pytest.approx(230 + 0.472 / 0.9 * 70, abs=1)
    assert heavy.jobs[1].duration_s == pytest.approx(30 + 0.472 / 0.9 * 70, abs=1)
    assert heavy.shared == 2 and heavy.slow_down > 1.2 > light.slow_down


def test_unknown_activity_is_known_from_the_same_alone_or_assumed_and_counted() -> None:
    shared = used(smact=0.8, shared=True)
    unread = used("b", smact=None, shared=True)
    days = [
        past(1, 0, attempt(1, 0, 100, used(smact=0.3)), name="again"),
        past(2, 200, attempt(2, 200, 300, shared), name="again"),
        past(3, 200, attempt(3, 200, 300, shared), name="never alone"),
        past(4, 200, attempt(4, 200, 300, unread), name="never read"),
    ]
    low, middle, high = assumptions(days)
    found = [replayed(days, each, BEGIN) for each in (low, middle, high)]
    assert [each.assumed for each in found] == [2, 2, 2]
    assert [each.jobs[1].smact for each in found] == [0.3] * 3
    # An equal part of what two showed is the least.
    assert found[0].jobs[2].smact == pytest.approx(0.4)
    assert found[0].jobs[2].smact < found[1].jobs[2].smact < found[2].jobs[2].smact <= 1
    assert [each.jobs[3].smact for each in found] == [low.smact, middle.smact, high.smact]


def test_deaths_are_no_work_and_retries_are() -> None:
    died = attempt(1, 0, 50, used(), outcome=Outcome.OOM)
    failed = attempt(1, 60, 80, used(), outcome=Outcome.FAILED)
    whole = attempt(1, 100, 200, used(mib=9000))
    (job,) = replayed([past(1, 0, died, failed, whole)], MIDDLE, BEGIN).jobs
    assert job.duration_s == 120 and job.memory_mib == 9000


def test_what_is_left_out_is_said() -> None:
    never = replace(past(5, 0).job, state=JobState.CANCELLED, ended=at(5))
    days = [
        past(1, 0, attempt(1, 0, 100, used())),
        past(2, 0, attempt(2, 0, None, used("b"), outcome=None), state=JobState.RUNNING),
        past(3, 0, attempt(3, 0, 100), gpus=0),
        past(4, 0, attempt(4, 0, 100, used("c", mib=None))),
        Past(never),
    ]
    found = replayed(days, MIDDLE, BEGIN + 500)
    assert len(found.jobs) == 1
    assert found.left_out == {
        "not ended yet": 1,
        "without a GPU": 1,
        "no memory was seen": 1,
        "never ran": 1,
    }
    assert replayed([], MIDDLE, BEGIN).jobs == ()


def test_what_jobs_had_to_follow_and_their_arrays_are_known_again() -> None:
    first = past(1, 0, attempt(1, 0, 100, used()))
    unseen = past(2, 0, attempt(2, 0, 100, used(mib=None)))
    elements = [past(3 + n, 10, attempt(3 + n, 100, 200, used())) for n in range(2)]
    last = past(5, 20, attempt(5, 200, 300, used()))

    def about(it: Past, **fields: object) -> Past:
        return replace(it, job=replace(it.job, **fields))  # type: ignore[arg-type]

    ok, array = Dependency(1, Condition.OK), Dependency(3, Condition.ANY, array=True)
    elements = [
        about(each, array=ArrayElement(3, n, 1), followed=(ok, Dependency(2, Condition.FAILED)))
        for n, each in enumerate(elements)
    ]
    jobs = replayed([first, unseen, *elements, about(last, followed=(array,))], MIDDLE, BEGIN).jobs
    assert [found.line for found in jobs] == [1, 3, 4, 5]
    assert [found.after for found in jobs] == [(), (1, 2), (1, 2), ()]
    assert [found.after_arrays for found in jobs] == [(), (), (), ("3",)]
    assert [(found.array, found.at_once) for found in jobs][1:] == [
        ("3", 1),
        ("3", 1),
        (None, None),
    ]
    run = simulate(jobs, Scenario(parse("sim:4xA100-40GB")))
    start = [found.attempts[0].started_s for found in run.jobs]
    end = [found.ended_s for found in run.jobs]
    assert start[1] == end[0] and start[2] == end[1] and start[3] == end[2]


def as_past(run: Run) -> list[Past]:
    """What a daemon would have kept of a run, whose jobs tell their SM activity."""
    found = []
    for number, each in enumerate(run.jobs, 1):
        attempts = tuple(
            attempt(
                number,
                a.started_s,
                a.ended_s,
                *(Usage(f"gpu-{d}", math.ceil(each.job.memory_mib)) for d in a.devices),
                outcome=a.outcome,
                mode=Collocation(a.collocation),
            )
            for a in each.attempts
        )
        told = (Estimate(Quantity.SMACT, each.job.smact, each.job.smact, "declared"),)
        found.append(past(number, each.job.submit_s, *attempts, estimates=told, name=each.job.name))
    return found


@pytest.mark.parametrize("mps", [True, False])
def test_a_simulated_past_gives_its_trace_again(mps: bool) -> None:
    jobs = [
        TraceJob(20.0 * i, f"j{i}", 1 + (i == 4), 600 + 70 * (i % 7), 5000, 0.2 + 0.1 * (i % 6))
        for i in range(24)
    ]
    life = Life(spread=0, work_sd=0)
    run = simulate(
        jobs, Scenario(parse("sim:2xA100-40GB"), Config(policy="lug"), mps=mps, life=life)
    )
    found = replayed(as_past(run), MIDDLE, BEGIN)
    assert found.shared > 15 and found.slow_down > 1.2
    for was, now in zip(jobs, found.jobs, strict=True):
        assert (now.name, now.gpus, now.smact) == (was.name, was.gpus, was.smact)
        assert now.duration_s == pytest.approx(was.duration_s, rel=0.01)


def test_a_clock_that_was_set_changes_no_past() -> None:
    """Two jobs one after another on a GPU; between them the date was set back by an hour."""

    def told(seconds: float, set_back_s: float) -> Instant:
        return Instant(seconds, BEGIN + seconds - set_back_s, "boot")

    def one(job_id: int, begin_s: float, end_s: float, before_s: float, after_s: float) -> Past:
        made = past(job_id, begin_s, attempt(job_id, begin_s, end_s, used(smact=0.9)))
        begin, end = told(begin_s, before_s), told(end_s, after_s)
        (ran,) = made.attempts
        job = replace(made.job, submitted=begin, started=begin, ended=end)
        return Past(job, (replace(ran, started=begin, ended=end),))

    straight = [one(1, 0, 100, 0, 0), one(2, 200, 500, 0, 0)]
    set_back = [one(1, 0, 100, 0, 3600), one(2, 200, 500, 3600, 3600)]
    plain, found = (replayed(each, MIDDLE, BEGIN) for each in (straight, set_back))
    assert found == plain
    assert [job.duration_s for job in found.jobs] == [100, 300]
    assert (found.shared, found.jct_s, found.wait_s) == (0, 200, 0)
