"""Jobs that pass a head: who may, until when, and what the head is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Instant, Job, Node
from radrm.core.rules import Policy
from radrm.core.settings import CoreSettings
from radrm.core.words import JobState
from radrm.planners.backfill import Backfill
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.policies.sharing import Magm
from tests.examples import some
from tests.world import GIB, World, gpus

EXACT = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stretch=1.0)


def world(count: int = 2, policy: Policy | None = None, mps: bool = True, **changes: Any) -> World:
    rule = Backfill(policy or Exclusive(), Exclusive(), **changes)
    return World(gpus(count, mps=mps, mps_spans=mps), planners=(rule,), settings=EXACT)


def blocked(here: World, length_s: float | None = 1000.0) -> tuple[Job, Job]:
    """A job on one of two GPUs, and one behind that waits for both."""
    running = here.submit(GIB, duration_s=length_s)
    head = here.submit(GIB, gpus=2, duration_s=100.0)
    assert here.state(head) is JobState.PENDING
    return running, head


def passes(here: World, length_s: float | None, **spec: Any) -> bool:
    return bool(here.where(here.submit(GIB, duration_s=length_s, **spec)))


def reasons(here: World, job: Job) -> list[str]:
    found = here.scheduler.why_waiting(job.id, here.now)
    return [each.message for each in found if each.rule in ("order", "backfill")]


def notes(here: World) -> dict[str, Any]:
    kept = here.rule_states.get(("planner", "backfill"))
    found = {} if kept is None or kept.state is None else kept.state
    return dict(found.get("passed jobs", {}))


# ------------------------------------------------------------------ who may pass


@pytest.mark.parametrize(
    ("length_s", "passed"), [(900.0, True), (2800.0, True), (2801.0, False), (None, False)]
)
def test_a_job_passes_if_it_delays_the_head_by_half_an_hour_at_most(
    length_s: float | None, passed: bool
) -> None:
    here = world()
    blocked(here)
    assert passes(here, length_s) is passed


def test_the_delays_of_several_jobs_add_up() -> None:
    here = world(3)
    for _ in range(2):
        here.submit(GIB, duration_s=1000.0)
    head = here.submit(GIB, gpus=3, duration_s=100.0)
    assert passes(here, 2000.0)
    here.pass_time(1000.0)
    here.end(1)
    here.read()
    assert not passes(here, 1801.0), "the head could have started 1000 s after its submission"
    assert passes(here, 1800.0)
    assert here.state(head) is JobState.PENDING


@pytest.mark.parametrize("boot", [False, True], ids=["", "after a restart"])
def test_where_nothing_is_known_jobs_pass_for_half_an_hour(boot: bool) -> None:
    here = world()
    _, head = blocked(here, None)
    here.pass_time(5000.0)
    first = here.submit(GIB)
    assert here.where(first), "it has waited long, but no job has passed it"
    here.pass_time(1799.0)
    here.end(first)
    here.read()
    if boot:
        here.restart()
        here.read()
    assert passes(here, None)
    here.end(4)
    here.pass_time(1.0)
    assert not passes(here, None)
    here.end(1)
    here.read()
    assert here.where(head)


def test_a_clock_that_is_set_back_lengthens_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    blocked(here, None)
    first = here.submit(GIB)
    assert here.where(first)
    year_s = 365 * 86400.0
    now = World.now.fget
    assert now is not None
    back = property(lambda w: Instant(now(w).boot_s, now(w).wall_s - year_s))
    monkeypatch.setattr(World, "now", back)
    here.pass_time(10.0)
    here.end(first)
    here.read()
    last = here.submit(GIB)
    assert here.where(last), "half an hour from now, as at first"
    assert all(until_s - here.now.wall_s <= 1800 for _, until_s, _ in notes(here).values())


def test_a_lower_priority_may_use_a_gap_and_delays_no_job() -> None:
    here = world()
    here.submit(GIB, duration_s=1000.0)
    here.submit(GIB, gpus=2, duration_s=100.0, priority=5)
    assert not passes(here, 1001.0)
    assert passes(here, 1000.0)


def test_where_nothing_is_known_a_lower_priority_waits() -> None:
    here = world()
    here.submit(GIB)
    head = here.submit(GIB, gpus=2, priority=5)
    behind = here.submit(GIB)
    assert not here.where(behind)
    assert f"job {head.id} has a higher priority" in reasons(here, behind)[-1]


def test_time_limits_count_as_durations() -> None:
    here = world()
    here.submit(GIB, time_limit_s=1000)
    here.submit(GIB, gpus=2)
    assert not passes(here, None, time_limit_s=2801)
    assert passes(here, None, time_limit_s=2800)


def test_a_job_that_lasts_longer_than_predicted_delays_nobody_for_ever() -> None:
    here = world()
    blocked(here, 1000.0)
    assert passes(here, 900.0)
    here.pass_time(3000.0)
    here.end(3)
    here.read()
    assert not passes(here, 10.0), "the head should have started 200 s ago"


def test_the_head_starts_first_and_its_note_ends_with_its_attempt() -> None:
    here = world()
    running, head = blocked(here)
    short = here.submit(GIB, duration_s=900.0)
    assert list(notes(here)) == [str(head.id)]
    here.end(short)
    here.end(running)
    here.read()
    assert here.where(head)
    here.end(head, 1)
    here.read()
    here.requeue(head)
    here.read()
    assert here.where(head)
    here.submit(GIB, duration_s=10.0)
    other = here.submit(GIB, gpus=2, duration_s=100.0)
    assert here.state(other) is JobState.PENDING


def test_a_policy_that_looks_at_readings_is_foreseen_too() -> None:
    here = world(1, Magm())
    here.smact["GPU-0"] = 0.5
    here.submit(20 * GIB, smact=0.5, duration_s=1000.0)
    here.read()
    head = here.submit(25 * GIB, smact=0.5, duration_s=100.0)
    behind = here.submit(5 * GIB, smact=0.1, duration_s=9000.0)
    assert here.where(behind), "there is room for the head beside it"
    ((since_s, until_s, _),) = notes(here).values()
    assert until_s - since_s == 2800.0
    assert here.state(head) is JobState.PENDING


def cpus(here: World, count: float, **spec: Any) -> Job:
    """A job without a GPU that books CPUs."""
    return here.submit(gpus=0, cpus=count, **spec)


def test_jobs_without_gpus_pass_for_half_an_hour() -> None:
    here = world()
    here.see_nodes(Node("local", 8.0, 1000))
    running = cpus(here, 6.0)
    head = cpus(here, 4.0)
    assert here.live(cpus(here, 1.0))
    here.pass_time(1800.0)
    assert not here.live(cpus(here, 1.0))
    here.end(running)
    assert here.live(head)


def test_cpus_of_a_job_that_passes_are_free_again_in_time() -> None:
    """The head waits for GPUs only, and the CPUs are enough for one of the two."""
    here = world()
    here.see_nodes(Node("local", 8.0, 1000))
    here.submit(GIB, duration_s=1000.0)
    here.submit(GIB, gpus=2, cpus=5.0, duration_s=100.0)
    assert not passes(here, 2801.0, cpus=5.0)
    assert passes(here, 2800.0, cpus=5.0)


@dataclass(frozen=True)
class Raising(Packing):
    """A policy that raises for devices that only a forecast shows."""

    def refuse(self, ask: Any, offer: Any) -> Any:
        if ask.gpus == 2 and len(offer.occupants) == 1:
            raise OSError("no such thing")
        return Packing.refuse(self, ask, offer)


def test_a_policy_that_cannot_foresee_leaves_the_bound_in_time() -> None:
    here = world(policy=Raising())
    here.smact = {"GPU-0": 0.9, "GPU-1": 0.9}
    for _ in range(4):
        here.read()
        here.submit(GIB, smact=0.5, duration_s=1000.0)
    head = here.submit(GIB, gpus=2, smact=0.7, duration_s=10.0)
    assert passes(here, 90_000.0, smact=0.1)
    ((since_s, until_s, _),) = notes(here).values()
    assert until_s - since_s == 1800.0
    assert here.state(head) is JobState.PENDING
    assert here.scheduler.state.isolation.errors(here.boot_s) == ()


def test_depth_limits_the_work() -> None:
    here = world(depth=2)
    blocked(here)
    assert not passes(here, 5000.0)
    assert not passes(here, 10.0), "it is the third in the line"


# ------------------------------------------------------------------ what is told


def test_explain_tells_both_times() -> None:
    here = world()
    _, head = blocked(here)
    long = here.submit(GIB, duration_s=4000.0)
    assert reasons(here, head) == []
    first = f"job {head.id} (job2) is served first and cannot start yet"
    wait = f"job {head.id} could start in 16m40s, with this job in 1h06m; it must start in 46m40s"
    assert reasons(here, long) == [first, wait]
    numbers = [
        (each.needed, each.available)
        for job in (long, here.submit(GIB))
        for each in here.scheduler.why_waiting(job.id, here.now)
        if each.rule == "backfill"
    ]
    assert numbers == [(4000.0, 2800.0), (None, 2800.0)], "JSON has no infinity"
    assert passes(here, 900.0)
    here.pass_time(60.0)
    passed = f"other jobs may start before job {head.id} for 45m40s more"
    assert reasons(here, head) == [passed]
    here.pass_time(3000.0)
    here.end(5)
    here.read()
    over = f"no job may start before job {head.id} any more: it was passed"
    assert reasons(here, head) == [over]
    assert reasons(here, long) == [first, over]


# ------------------------------------------------------------------ what always holds

jobs = st.lists(
    st.tuples(
        st.integers(1, 3),  # GPUs
        st.integers(1, 4000),  # duration
        st.integers(0, 1500),  # seconds since the job before
        st.integers(1, 30),  # memory, GiB
    ),
    min_size=3,
    max_size=10,
)


def idle_world(policy: Policy, mps: bool = True) -> World:
    """A world in which jobs show the SM activity that is predicted for them: none.

    With wrong predictions a policy that looks at SM activity may refuse a head that the forecast
    expects. Then it starts later, but no job passes it for longer.
    """
    here = world(3, policy, mps)
    here.smact = dict.fromkeys((device.uuid for device in here.devices), 0.0)
    return here


@settings(max_examples=some(60), deadline=None)
@given(
    submitted=jobs,
    policy=st.sampled_from([Exclusive(), Packing()]),
    known=st.booleans(),
    restarts=st.sets(st.integers(0, 15), max_size=2),
)
def test_no_job_is_passed_beyond_its_bound(
    submitted: list[tuple[int, int, int, int]],
    policy: Policy,
    known: bool,
    restarts: set[int],
) -> None:
    """With exact durations a passed job starts in time; without, none passes it for longer."""
    here = idle_world(policy)
    length: dict[int, float] = {}
    first_s: dict[int, float] = {}
    until: dict[int, float] = {}
    arrivals = []
    at_s = here.boot_s
    for count, seconds, gap_s, memory in submitted:
        at_s += gap_s
        arrivals.append((at_s, count, float(seconds), memory))

    def check() -> None:
        """Every start since the last check, while an earlier job waits, is a passing."""
        waiting = [j for j in here.jobs.values() if j.state is JobState.PENDING]
        for job_id, (_, until_s, _) in notes(here).items():
            until.setdefault(int(job_id), until_s)
            assert until[int(job_id)] == pytest.approx(until_s), "a bound does not move"
        for job in here.jobs.values():
            live = here.live(job)
            if live is None or job.id in started:
                continue
            started[job.id] = live.launched
            head = min((w.id for w in waiting), default=job.id)
            if head < job.id:
                first = first_s.setdefault(head, here.boot_s)
                assert known or here.boot_s < first + 1800
            if job.id in until and known:
                assert live.launched.wall_s <= until[job.id] + 1

    started: dict[int, Instant] = {}
    for number in range(40):
        ends = {i: started[i].boot_s + length[i] for i in started if here.live(i)}
        next_s = min([*ends.values(), *(a[0] for a in arrivals)], default=None)
        if next_s is None:
            break
        here.pass_time(next_s - here.boot_s, read=False)
        if number in restarts:
            here.restart()
        here.read()
        for job_id in [i for i, end_s in ends.items() if end_s <= here.boot_s]:
            here.end(job_id)
        here.read()
        check()
        while arrivals and arrivals[0][0] <= here.boot_s:
            _, count, seconds, memory = arrivals.pop(0)
            job = here.submit(
                memory * GIB, gpus=count, smact=0.0, duration_s=seconds if known else None
            )
            length[job.id] = seconds
            check()
    assert not arrivals
    assert all(job.state is JobState.COMPLETED for job in here.jobs.values())


Submitted = tuple[tuple[int, float, int], ...]


@pytest.mark.parametrize(
    ("mps", "submitted"),
    [
        (True, ((1, 1.0, 8), (3, 1803.0, 18), (3, 1.0, 13), (1, 1803.0, 1))),
        (False, ((1, 1.0, 27), (1, 1803.0, 1), (3, 1.0, 12), (2, 1803.0, 1))),
    ],
)
def test_a_head_that_shares_starts_in_time(mps: bool, submitted: Submitted) -> None:
    """GPUs, seconds, GiB. Job 3 starts when job 1 ends, beside the others."""
    here = idle_world(Packing(), mps)
    for count, length_s, gib in submitted:
        here.submit(gib * GIB, gpus=count, smact=0.0, duration_s=length_s)
    here.pass_time(1.0)
    here.end(1)
    here.read()
    ((_, until_s, _),) = notes(here).values()
    here.pass_time(1802.0)
    for job_id in (2, 4):
        here.end(job_id)
    here.read()
    assert here.live(3).launched.wall_s <= until_s + 1
