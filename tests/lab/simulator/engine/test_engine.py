"""The engine: what must hold of every run, and runs worked out by hand."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from math import isclose
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.config import NO_LIMITS, Config
from radrm.core.words import Collocation, Outcome
from radrm.errors import BadConfig, UsageError
from radrm.interference.model import Demand, running_speeds, speeds
from radrm.interference.model import Load as JobLoad
from radrm.lab.simulator import estimates
from radrm.lab.simulator.courses import course_of
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import DeviceRun, Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.servers import simulate_servers
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.world import World
from radrm.simulated.spec import parse, watts
from radrm.structs import replace
from tests.examples import some
from tests.lab.simulator.traces import PLAIN, POLICIES, drawn, job, scenario, traces

FIDELITIES = ("radrm", "published")
EXACT = {"stretch": 1.0}
"""What is estimated is reserved, no more."""


def energy_j(device: DeviceRun, until_s: float) -> float:
    ends = [*(step.at_s for step in device.steps[1:]), until_s]
    return sum(s.power_w * (end - s.at_s) for s, end in zip(device.steps, ends, strict=True))


# ------------------------------------------------------------------ what always holds


def check(run: Run, jobs: list[TraceJob], setting: Scenario) -> None:
    assert [found.job for found in run.jobs] == jobs
    for found in run.jobs:
        ends = [attempt.outcome for attempt in found.attempts]
        if found.ended_s is None:
            assert found.reason
            assert Outcome.COMPLETED not in ends
            continue
        # Died until it completed, once; one attempt after the other; never before it came.
        assert ends == [Outcome.OOM] * (len(ends) - 1) + [Outcome.COMPLETED]
        times = [found.job.submit_s]
        for attempt in found.attempts:
            times += [attempt.started_s, attempt.ended_s]
            assert len(set(attempt.devices)) == found.job.gpus
        assert times == sorted(times)
        assert found.ended_s == found.attempts[-1].ended_s <= run.ended_s
    for device, simulated in zip(run.devices, setting.devices, strict=True):
        assert all(a.at_s < b.at_s for a, b in pairwise(device.steps))
        for step in device.steps:
            assert -1e-6 <= step.memory_mib <= simulated.device.capacity_mib + 1e-6
            assert 0 <= step.smact <= 1
            drawn_w = watts(step.smact, simulated.idle_w, simulated.peak_w)
            assert isclose(step.power_w, drawn_w)
        last = device.steps[-1]
        assert (last.memory_mib, last.smact) == (simulated.unmanaged_mib, 0.0)
    assert run.oom_count == sum(
        attempt.outcome is Outcome.OOM for found in run.jobs for attempt in found.attempts
    )
    assert len(run.decisions) == sum(len(found.attempts) for found in run.jobs)


@settings(max_examples=some(60))
@given(
    jobs=traces(),
    policy=st.sampled_from(POLICIES),
    fidelity=st.sampled_from(FIDELITIES),
    estimator=st.sampled_from(("oracle", "none", "off")),
    mps=st.booleans(),
    seed=st.integers(0, 3),
)
def test_no_job_is_lost_and_no_device_overfull(
    jobs: list[TraceJob], policy: str, fidelity: str, estimator: str, mps: bool, seed: int
) -> None:
    setting = scenario(
        policy, fidelity=fidelity, estimator=estimator, mps=mps, seed=seed, life=Scenario(()).life
    )
    run = simulate(jobs, setting)
    check(run, jobs, setting)
    assert simulate(jobs, setting) == run


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_seed_is_another_run_and_changes_no_policys_luck(fidelity: str) -> None:
    jobs = drawn(1, 12)
    free = Scenario(()).life
    one = scenario(fidelity=fidelity, life=free, seed=1)
    runs = [simulate(jobs, replace(one, seed=seed)) for seed in (1, 2)]
    assert runs[0].ended_s != runs[1].ended_s
    exclusive = simulate(jobs, replace(one, config=Config(policy="exclusive")))
    # Alone on its devices a job takes what it was drawn to take, whatever else was decided.
    alone = {j.job.name: j.attempts[-1].solo_s for j in exclusive.jobs}
    for found in runs[0].jobs:
        assert isclose(found.attempts[-1].solo_s, alone[found.job.name])


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_alone_on_a_device_a_job_takes_its_time(fidelity: str) -> None:
    jobs = drawn(2, 12)
    run = simulate(jobs, scenario("exclusive", fidelity=fidelity))
    for found in run.jobs:
        (attempt,) = found.attempts
        assert attempt.ended_s - attempt.started_s == pytest.approx(found.job.duration_s)
        assert attempt.solo_s == pytest.approx(found.job.duration_s - 30)


def test_the_order_of_the_lines_changes_nothing() -> None:
    jobs = drawn(3, 10)
    mixed = list(jobs)
    Random(3).shuffle(mixed)
    run, other = simulate(jobs, scenario()), simulate(mixed, scenario())
    assert sorted(run.jobs, key=lambda j: j.job.name) == sorted(
        other.jobs, key=lambda j: j.job.name
    )
    names = [(jobs[at].name, devices) for at, devices in run.decisions]
    assert names == [(mixed[at].name, devices) for at, devices in other.decisions]


@settings(max_examples=some(40))
@given(seed=st.integers(0, 10**6), count=st.integers(1, 7))
def test_speeds_are_those_of_the_model(seed: int, count: int) -> None:
    """The world looks at few devices; `running_speeds` looks at all of them each time."""
    rng = Random(seed)
    world = World(parse("sim:4xA100-40GB"))
    lived = {}
    for number in range(count):
        places = tuple(rng.sample(range(4), rng.choice((1, 1, 2, 3))))
        found = job(memory_mib=100, smact=rng.choice((0.0, 0.2, 0.6, 0.9)), batch_size=32)
        course = course_of(found, 0.0, 15, 20, 50, 0.9, 1.0, 30)
        lived[number] = world.launch(
            number, replace(course, work_s=1e9), places, Collocation.MPS, mps=rng.random() < 0.8
        )
    while (next_s := world.next_s) is not None and next_s < 1e6:
        world.advance()
    if count > 2:
        world.end(lived.pop(rng.randrange(count)))
    expected = running_speeds(
        {
            key: JobLoad(a.course.demand, tuple(str(at) for at in a.devices), a.mps)
            for key, a in lived.items()
        }
    )
    assert {key: a.speed for key, a in lived.items()} == pytest.approx(expected)


# ------------------------------------------------------------------ worked out by hand


def test_two_jobs_share_a_gpu_by_the_model() -> None:
    jobs = [job(0, 330, smact=0.8), job(0, 330, smact=0.7)]
    setting = scenario("rr", "sim:1xA100-40GB", settings={"conditions": True, "max_smact": 1.0})
    run = simulate(jobs, setting)
    # The second comes once there are sixty readings of the first, which then computes.
    first, second = (found.attempts[0] for found in run.jobs)
    assert (first.started_s, second.started_s) == (0, 60)
    # Alone for 60 s of the 300, then by halves of what the GPU delivers, then alone again.
    both = speeds([Demand(0.8, 1.53), Demand(0.7, 1.53)], mps=True)
    together_s = (300 - 60) / both[0]
    assert first.ended_s == pytest.approx(30 + 60 + together_s)
    assert second.ended_s == pytest.approx(first.ended_s + 300 - together_s * both[1])


def test_memory_lives_as_on_the_published_runs() -> None:
    run = simulate([job(0, 330, 20000, steady_mib=15000)], scenario("exclusive"))
    seen = [(step.at_s, step.memory_mib) for step in run.devices[0].steps]
    assert seen == [(0, 1500), (30, 1500), (45, 20000), (65, 15000), (330, 0)]


def test_a_new_job_without_room_dies_and_is_run_again_on_an_idle_gpu() -> None:
    jobs = [job(0, 1030, 30000, name="first"), job(100, 330, 20000, name="second")]
    setting = scenario("rr", "sim:1xA100-40GB", estimator="none")
    run = simulate(jobs, setting)
    died, again = run.jobs[1].attempts
    assert (died.outcome, died.started_s, died.ended_s) == (Outcome.OOM, 100, 100 + 45)
    assert again.collocation == "mps", "others could join it later"
    assert again.started_s == run.jobs[0].ended_s
    assert run.oom_count == 1
    assert len(run.jobs[0].attempts) == 1


def test_a_reservation_is_a_clients_cap() -> None:
    jobs = [job(0, 330, 20000, estimates={"short": 12000})]
    run = simulate(jobs, scenario(estimator="short", core=EXACT))
    died, again = run.jobs[0].attempts
    assert (died.outcome, died.reserved_mib) == (Outcome.OOM, 12000)
    assert again.outcome is Outcome.COMPLETED
    turns = simulate(jobs, scenario(estimator="short", mps=False))
    assert [attempt.outcome for attempt in turns.jobs[0].attempts] == [Outcome.COMPLETED]
    stretched = simulate(jobs, scenario(estimator="short")).jobs[0].attempts
    assert [attempt.outcome for attempt in stretched] == [Outcome.COMPLETED]
    declared = [replace(jobs[0], declared=True)]
    (wish,) = simulate(declared, scenario(estimator="short")).jobs[0].attempts
    assert (wish.outcome, wish.reserved_mib) == (Outcome.COMPLETED, 13800)


def test_time_slices_are_slower_than_mps() -> None:
    jobs = [job(0, 330, smact=0.6), job(0, 330, smact=0.6)]
    setting = scenario("first-fit", "sim:1xA100-40GB")
    with_mps = simulate(jobs, setting)
    without = simulate(jobs, replace(setting, mps=False))
    assert {a.collocation for j in with_mps.jobs for a in j.attempts} == {"mps"}
    assert {a.collocation for j in without.jobs for a in j.attempts} == {"timeslice"}
    assert without.ended_s > with_mps.ended_s


def test_mig_instances_take_one_job_each_and_are_slower() -> None:
    jobs = [job(0, 330, 4000, smact=0.6) for _ in range(3)]
    run = simulate(jobs, scenario("magm", "sim:1xA100-40GB:3g.20gb+2g.10gb"))
    assert {a.collocation for found in run.jobs for a in found.attempts} == {"mig"}
    on = {found.attempts[0].devices: found.attempts[0] for found in run.jobs[:2]}
    assert on[(0,)].ended_s == pytest.approx(30 + 300 * 0.6 / (3 / 7))
    assert on[(1,)].ended_s == pytest.approx(30 + 300 * 0.6 / (2 / 7))
    assert run.jobs[2].attempts[0].started_s == on[(0,)].ended_s


def test_what_fits_nowhere_is_refused_with_the_reason() -> None:
    jobs = [job(0, gpus=3, name="wide"), job(0, memory_mib=45000, name="big"), job(0)]
    for fidelity in FIDELITIES:
        run = simulate(jobs, scenario(fidelity=fidelity))
        assert [bool(found.attempts) for found in run.jobs] == [False, False, True]
        assert "3 GPUs" in (run.jobs[0].reason or "")
        assert "on each of 1 GPU(s)" in (run.jobs[1].reason or "")


def test_who_would_wait_for_ever_is_told_why() -> None:
    run = simulate([job(0)], scenario("exclusive", "sim:1xA100-40GB,unmanaged@0=8000"))
    assert "it would wait forever: its memory is" in (run.jobs[0].reason or "")


def test_the_published_loop_gives_up_where_the_prototype_never_would() -> None:
    jobs = [job(0, memory_mib=30000), job(0, memory_mib=35000)]
    run = simulate(jobs, scenario(spec="sim:1xT4-16GB,1xA100-40GB", fidelity="published"))
    assert run.jobs[0].reason == "it ran out of GPU memory 20 times"
    taken = simulate(jobs, scenario(spec="sim:1xA100-40GB,unmanaged@0=8000", fidelity="published"))
    assert taken.jobs[0].ended_s is not None
    assert "the largest here have 32536 MiB free" in (taken.jobs[1].reason or "")


def test_a_job_longer_or_shorter_than_its_start_up() -> None:
    jobs = [job(0, duration_s) for duration_s in (1, 20, 40, 1e6)]
    run = simulate(jobs, scenario("exclusive", "sim:4xA100-40GB"))
    spans = [found.attempts[0].ended_s for found in run.jobs]
    assert spans == pytest.approx([1, 20, 40, 1e6])
    for device in run.devices:
        assert max(step.memory_mib for step in device.steps) == 8000


def test_no_jobs() -> None:
    for fidelity in FIDELITIES:
        run = simulate([], scenario(fidelity=fidelity))
        assert (run.jobs, run.ended_s, run.oom_count) == ((), 0.0, 0)


def test_energy_is_the_integral_of_the_watts() -> None:
    run = simulate([job(0, 330, smact=0.52)], scenario("exclusive", "sim:1xA100-40GB"))
    assert energy_j(run.devices[0], run.ended_s) == pytest.approx(30 * 58 + 300 * 216)


def test_drawn_errors_are_those_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "ERRORS_SEEN", {"guess": (0.5, 1.0, 1.25)})
    seen = {
        simulate([job(0, 330, 10000)], scenario(estimator="guess", seed=seed, core=EXACT))
        .jobs[0]
        .attempts[0]
        .reserved_mib
        for seed in range(20)
    }
    assert seen == {20000, 10000, 8000}
    # What the trace tells is not drawn, nor what it leaves out.
    told = [job(0, 330, 10000, estimates={"guess": 9000}), job(0, 330, 10000)]
    run = simulate(told, scenario("first-fit", estimator="guess", core=EXACT))
    assert [found.attempts[0].reserved_mib for found in run.jobs] == [9000, 5120]


def test_what_cannot_be_simulated() -> None:
    with pytest.raises(UsageError, match="no estimates of 'oracel'; there are: auto, declared, "):
        simulate([job()], scenario(estimator="oracel"))
    told = [job(estimates={"horus": 9000})]
    with pytest.raises(UsageError, match="published loop has no estimator auto"):
        simulate(told, scenario(estimator="auto", fidelity="published"))
    with pytest.raises(UsageError, match="is not one of radrm, published"):
        simulate([job()], scenario(fidelity="exact"))
    with pytest.raises(BadConfig, match="did you mean magm"):
        simulate([job()], Scenario(parse("sim:1xA100-40GB"), Config(policy="mgm")))


# ------------------------------------------------------------------ jobs that wait for others


def test_a_job_comes_after_those_it_names_in_whatever_order_they_are_given() -> None:
    jobs = [
        job(50, 330, name="last", line=3, after=(1, 2, 99)),
        job(0, 330, name="first", line=1),
        job(10, 630, name="second", line=2, after=(3,)),  # who comes later is not waited for
    ]
    run = simulate(jobs, scenario(spec="sim:4xA100-40GB"))
    started = {found.job.name: found.attempts[0].started_s for found in run.jobs}
    assert started == {"first": 0, "second": 10, "last": run.jobs[2].ended_s}


def test_who_comes_after_a_job_that_fits_nowhere_is_not_kept_for_ever() -> None:
    jobs = [job(0, 330, 90000, line=1), job(0, 330, line=2, after=(1,))]
    run = simulate(jobs, scenario())
    assert run.jobs[0].ended_s is None
    assert run.jobs[1].ended_s == 330


def test_an_array_keeps_its_limit() -> None:
    jobs = [job(0, 330, line=n, array="sweep", at_once=2) for n in range(1, 6)]
    run = simulate(jobs, scenario(spec="sim:8xA100-40GB"))
    assert [found.attempts[0].started_s for found in run.jobs] == [0, 0, 330, 330, 660]
    with pytest.raises(UsageError, match="no --after and no array limits"):
        simulate(jobs, scenario(spec="sim:8xA100-40GB", fidelity="published"))


# ------------------------------------------------------------------ many servers


def test_servers_alike_share_out_the_jobs() -> None:
    jobs = drawn(4, 30)
    setting = scenario(life=PLAIN)
    run = simulate_servers(jobs, setting, 3)
    assert [found.job for found in run.jobs] == jobs
    assert all(found.ended_s is not None for found in run.jobs)
    assert len(run.devices) == 6
    for found in run.jobs:
        assert len({at // 2 for a in found.attempts for at in a.devices}) == 1
    assert {at // 2 for found in run.jobs for at in found.attempts[0].devices} == {0, 1, 2}
    started = [run.jobs[at].attempts[0].started_s for at, _ in run.decisions]
    assert started == sorted(started)
    assert simulate_servers(jobs, setting, 1) == simulate(jobs, setting)


def test_the_limits_of_a_configuration_hold_for_the_users_of_a_trace() -> None:
    config = Config(
        policy="exclusive", limits=dataclasses.replace(NO_LIMITS, running_jobs=1, gpus=2)
    )
    jobs = [job(user=user, name=f"{user}{at}") for at in range(2) for user in ("ada", "bob")]
    jobs.append(job(gpus=3, user="cleo", name="large"))
    found = simulate(jobs, replace(scenario(spec="sim:4xA100-40GB"), config=config)).jobs
    ends = {each.job.name: each.attempts[0].started_s for each in found if each.attempts}
    assert ends.keys() == {"ada0", "ada1", "bob0", "bob1"}, "one asks for more than the limit"
    assert ends["ada0"] == ends["bob0"] and ends["ada1"] == ends["bob1"] > ends["ada0"] + 300
