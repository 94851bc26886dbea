"""A daemon's past as a trace: corrected durations, unknown activity, what is left out."""

from __future__ import annotations

import pytest

from radrm.config import Config
from radrm.core.records import (
    MEASURED,
    ArrayElement,
    Dependency,
    Estimate,
    Instant,
    Needs,
    Role,
)
from radrm.core.words import Condition, JobState, Outcome, Quantity
from radrm.lab.simulator.engine import simulate, tasks_of
from radrm.lab.simulator.scenario import Known, Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.past import RECORDED, Past, replayed
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.lab.simulator.pasts import BEGIN, as_past, at, attempt, past, used
from tests.lab.simulator.traces import scenario


def test_a_job_alone_is_what_it_was() -> None:
    told = (Estimate(Quantity.MEMORY, 5000, 6000, "horus"),)
    one = past(1, 10, attempt(1, 30, 10_030, used()), estimates=told)
    found = replayed([one], BEGIN)
    (job,) = found.jobs
    assert (job.submit_s, job.duration_s, job.memory_mib) == (0, 10_000, 4000)
    assert job.smact == pytest.approx(0.5, abs=0.005)
    assert job.estimates == {RECORDED: 6000} and job.user == "ada"
    assert (found.alone, found.unknown, found.shared, found.slow_down.best) == (1, 0, 0, 1.0)
    assert (found.jct_s, found.wait_s) == (10_020, 20)
    declared = past(1, 10, *one.attempts, estimates=(replace(told[0], source="declared"),))
    (again,) = replayed([declared], BEGIN).jobs
    assert (job.declared, again.declared) == (False, True)


def test_neighbours_are_taken_out_only_while_they_were_there() -> None:
    def both(smact: float) -> list[Past]:
        told = (Estimate(Quantity.SMACT, smact, smact, "declared"),)
        usage = used(smact=None, shared=True)
        return [
            past(1, 0, attempt(1, 0, 300, usage), estimates=told),
            past(2, 0, attempt(2, 100, 200, usage), estimates=told),
        ]

    light, heavy = replayed(both(0.2), BEGIN), replayed(both(0.9), BEGIN)
    assert light.jobs[0].duration_s == pytest.approx(299, abs=1)
    # Beside an equal it got about half of the GPU for 70 of its 300 seconds: the other one
    # takes 30 to start.
    assert heavy.jobs[0].duration_s == pytest.approx(230 + 0.472 / 0.9 * 70, abs=1)
    assert heavy.jobs[1].duration_s == pytest.approx(30 + 0.472 / 0.9 * 70, abs=1)
    assert heavy.shared == 2 and heavy.slow_down.best > 1.2 > light.slow_down.best


def test_activity_comes_from_the_same_job_alone_from_shared_readings_or_from_a_guess() -> None:
    shared = used(smact=0.7, shared=True)
    unread = used("b", smact=None, shared=True)
    days = [
        past(1, 0, attempt(1, 0, 9000, used(smact=0.3)), name="again"),
        past(2, 9500, attempt(2, 9500, 19500, shared), name="again"),
        past(3, 9500, attempt(3, 9500, 19500, shared), name="never alone"),
        past(4, 9500, attempt(4, 9500, 19500, unread), name="never read"),
    ]
    found = replayed(days, BEGIN, draws=8)
    assert (found.alone, found.told, found.solved, found.guessed) == (2, 0, 1, 1)
    again, alone, solved, guessed = ([draw[n].smact for draw in found.draws] for n in (0, 1, 2, 3))
    assert again == alone == [pytest.approx(0.3, abs=0.05)] * 8
    # Of the 0.7 that both showed, 0.3 are the other's.
    assert found.jobs[2].smact == pytest.approx(0.41, abs=0.05)
    assert max(solved) - min(solved) < 0.2 < max(guessed) - min(guessed)
    assert 0.05 < found.unsure < 0.5
    assert replayed(days, BEGIN, draws=8) == found != replayed(days, BEGIN, draws=8, seed=1)


def test_an_estimate_tells_the_activity_as_far_as_its_upper_bound_says() -> None:
    def one(upper: float) -> Past:
        told = (Estimate(Quantity.SMACT, 0.8, upper, "history"),)
        return past(1, 0, attempt(1, 0, 500, used(smact=None, shared=True)), estimates=told)

    sure, unsure = (replayed([one(upper)], BEGIN, draws=20) for upper in (0.8, 1.3))
    assert (sure.told, sure.unknown) == (1, 0)
    assert sure.jobs[0].smact == pytest.approx(0.8, abs=0.03)
    assert sure.unsure is not None and unsure.unsure is not None
    assert sure.unsure < 0.1 < unsure.unsure


def test_rules_know_what_was_predicted_at_that_time_and_nothing_later() -> None:
    told = (
        Estimate(Quantity.MEMORY, 9000, 9500, "history"),
        Estimate(Quantity.SMACT, 0.9, 0.9, MEASURED),
        Estimate(Quantity.SMACT, 0.4, 0.5, "history"),
        Estimate(Quantity.DURATION, 500, 600, "declared"),
    )
    (job,) = replayed([past(1, 0, attempt(1, 0, 660, used()), estimates=told)], BEGIN).jobs
    assert job.predicted == told[2:]
    (task,) = tasks_of([job], scenario(estimator="recorded"))
    assert task.estimates[1:] == told[2:]
    known = scenario(estimator="recorded", known=Known(duration=0.0))
    (task,) = tasks_of([job], known)
    assert [e.source for e in task.estimates[1:]] == ["trace file", "history"]


def test_deaths_are_no_work_and_retries_are() -> None:
    died = attempt(1, 0, 50, used(), outcome=Outcome.OOM)
    failed = attempt(1, 60, 80, used(), outcome=Outcome.FAILED)
    whole = attempt(1, 100, 200, used(mib=9000))
    (job,) = replayed([past(1, 0, died, failed, whole)], BEGIN).jobs
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
    found = replayed(days, BEGIN + 500)
    assert len(found.jobs) == 1
    assert found.left_out == {
        "not ended yet": 1,
        "without a GPU": 1,
        "no memory was seen": 1,
        "never ran": 1,
    }
    assert replayed([], BEGIN).jobs == ()


def test_what_jobs_had_to_follow_and_their_arrays_are_known_again() -> None:
    first = past(1, 0, attempt(1, 0, 100, used()))
    unseen = past(2, 0, attempt(2, 0, 100, used(mib=None)))
    elements = [past(3 + n, 10, attempt(3 + n, 100, 200, used())) for n in range(2)]
    last = past(5, 20, attempt(5, 200, 300, used()))

    def about(it: Past, **fields: object) -> Past:
        return replace(it, job=replace(it.job, **fields))

    ok, array = Dependency(1, Condition.OK), Dependency(3, Condition.ANY, array=True)
    elements = [
        about(each, array=ArrayElement(3, n, 1), followed=(ok, Dependency(2, Condition.FAILED)))
        for n, each in enumerate(elements)
    ]
    jobs = replayed([first, unseen, *elements, about(last, followed=(array,))], BEGIN).jobs
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
    found = replayed(as_past(run, told=True), BEGIN)
    assert found.shared > 15 and found.slow_down.best > 1.2
    for was, now in zip(jobs, found.jobs, strict=True):
        assert (now.name, now.gpus) == (was.name, was.gpus)
        assert now.smact == pytest.approx(was.smact, abs=0.03)
        assert now.duration_s == pytest.approx(was.duration_s, rel=0.05)


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
    plain, found = (replayed(each, BEGIN) for each in (straight, set_back))
    assert found == plain
    assert [job.duration_s for job in found.jobs] == [100, 300]
    assert (found.shared, found.jct_s, found.wait_s) == (0, 200, 0)


def test_a_job_that_changed_its_size_keeps_the_last_one() -> None:
    roles = (Role(count_min=1, count_max=4, needs=Needs(gpus=1)),)
    small, large = attempt(1, 0, 100, used("a")), attempt(1, 130, 230, used("a"), used("b"))
    found = past(1, 0, small, large)
    found = replace(found, job=replace(found.job, spec=replace(found.job.spec, roles=roles)))
    (job,) = replayed([found], BEGIN).jobs
    assert (job.gpus, job.gpus_max, job.duration_s) == (2, None, 200)
