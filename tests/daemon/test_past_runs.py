"""Past runs of ended attempts: durations by time since boot, each device's usage once."""

from __future__ import annotations

import pytest

from radrm.core.records import Attempt, Chip, Instant, Job, Progress, Usage
from radrm.core.words import Outcome
from radrm.daemon.past_runs import runs_of
from radrm.daemon.views.documents import JobDocuments
from radrm.daemon.views.explanations import explain
from radrm.estimators.interface import PastRun
from radrm.host.processes.controllers import Controllers
from radrm.host.storage.runs import Run, brief_mark, past_run
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.world import EPOCH_S, GIB, World, gpus


def ended(world: World, job: Job, **changes: object) -> PastRun | None:
    """What an attempt teaches that has just ended, its record changed so."""
    decision = next(d for d in reversed(world.decisions) if ended_in(d.changed))
    changed = tuple(
        replace(r, **changes) if isinstance(r, Attempt) and r.ended else r for r in decision.changed
    )
    runs = list(runs_of(replace(decision, changed=changed), world.scheduler.snapshot))
    assert all(run.uid == job.spec.uid for run in runs)
    if not runs:
        return None
    (attempt,) = [r for r in changed if isinstance(r, Attempt) and r.ended]
    return past_run(runs[0].device_kind, runs[0].said, attempt)


def ended_in(changed: tuple[object, ...]) -> bool:
    return any(isinstance(r, Attempt) and r.ended is not None for r in changed)


def worked(code: int | None = 0, seconds: float = 100.0) -> tuple[World, Job]:
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.3)
    world.used[job.id] = 4 * GIB
    world.pass_time(seconds)
    world.end(job, code)
    return world, job


def test_a_run_is_what_was_seen() -> None:
    run = ended(*worked())
    assert (run.peak_mib, run.smact, run.duration_s) == (4 * GIB, pytest.approx(0.3), 100.0)
    assert run.alone and run.device_kind == "A100-40GB"


def test_a_run_notes_how_fast_its_gpu_is_and_what_was_predicted_for_it() -> None:
    world = World(gpus(1, name="H200", sms=200, sm_mhz=1000))
    job = world.submit(8 * GIB, smact=0.6)
    state, known = world.scheduler.state, Chip("A100", 100_000.0)
    estimates = tuple(replace(e, chip=known) for e in job.estimates)
    state.put_job(replace(state.jobs[job.id], estimates=estimates))
    world.used[job.id] = 4 * GIB
    world.pass_time(100.0)
    world.end(job, 0)
    run = ended(world, job)
    assert (run.sm_rate, run.told_smact) == (200_000.0, {"test": pytest.approx(0.3)})


START = Instant(1000.0, EPOCH_S + 1000, "a")
DURATIONS = [
    (Instant(1100.0, EPOCH_S + 1100, "a"), 100.0),
    (Instant(1100.0, EPOCH_S + 1100 - 3400, "a"), 100.0),  # the date was set back
    (Instant(50.0, EPOCH_S + 1100, "b"), None),  # the server was restarted
]


@pytest.mark.parametrize("end, seconds", DURATIONS)
def test_a_duration_does_not_depend_on_the_date(end: Instant, seconds: float | None) -> None:
    run = ended(*worked(), started=START, ended=end)
    assert run.duration_s == seconds, "its peak was seen all the same"


@pytest.mark.parametrize("ran_s, learned", [(299.0, False), (301.0, True), (None, False)])
def test_one_that_was_stopped_teaches_once_it_has_run_for_long(
    ran_s: float | None, learned: bool
) -> None:
    end = replace(START, boot_s=START.boot_s + (ran_s or 9999), boot="a" if ran_s else "b")
    world, job = worked(code=3)
    run = ended(world, job, outcome=Outcome.TIMEOUT, started=START, ended=end)
    assert (run is not None) is learned
    assert run is None or run.duration_s is None


def test_usage_that_was_stored_twice_is_learned_once() -> None:
    twice = (Usage("GPU-0", 10, 0.2, 50.0), Usage("GPU-0", 20, 0.4, 80.0))
    run = ended(*worked(), usage=twice)
    assert (run.peak_mib, run.smact) == (20, 0.4)


# ------------------------------------------------------------------ what is shown


@pytest.fixture
def store(tmp_path: object) -> Store:
    return Store(f"{tmp_path}/radrm.sqlite")


def test_what_is_shown_of_a_live_job_is_up_to_date(store: Store) -> None:
    world = World(gpus(2))
    job = world.submit(8 * GIB, gpus=2)
    world.used[job.id] = 4 * GIB
    world.pass_time(1.0)
    world.pass_time(20.0)
    assert world.attempts[job.id, 1].energy_j == 2 * 100.0, "as stored"
    shown = JobDocuments(world.scheduler, store).job(job, world.now, None)
    assert (shown.energy_j, shown.peak_mib) == (2 * 2100.0, 4 * GIB)
    (attempt,) = explain(
        JobDocuments(world.scheduler, store), world.jobs[job.id], world.now
    ).attempts
    assert (attempt.energy_j, attempt.ran_s) == (2 * 2100.0, 21.0)


@pytest.mark.parametrize(
    ("cpus", "host_mib", "why"),
    [
        (None, None, None),
        (2.0, None, "CPUs are booked, not enforced: c"),
        (None, 64, "host memory is booked, not enforced: m"),
        (2.0, 64, "CPUs and host memory are booked, not enforced: c; m"),
    ],
)
def test_a_job_says_why_what_it_asked_for_is_no_limit(
    store: Store, cpus: float | None, host_mib: int | None, why: str | None
) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, cpus=cpus, host_mib=host_mib)
    nowhere = Controllers(reasons=(("cpu", "c"), ("memory", "m")))
    shown = explain(JobDocuments(world.scheduler, store, nowhere), job, world.now).job
    assert (shown.cpus, shown.memory_mib) == (cpus, host_mib)
    assert shown.not_enforced == why
    found = Controllers("/c", "/m")
    enforced = explain(JobDocuments(world.scheduler, store, found), job, world.now).job
    assert enforced.not_enforced is None


SPANS = [  # submitted, started, ended, now; waited, ran
    (START, None, None, (1060.0, "a"), 60.0, None),
    (START, (1010.0, "a"), None, (1060.0, "a"), 10.0, 50.0),
    (START, (1010.0, "a"), (1030.0, "a"), (9999.0, "b"), 10.0, 20.0),
    (START, (5.0, "b"), None, (65.0, "b"), None, 60.0),
    (START, (1010.0, "a"), (65.0, "b"), (70.0, "b"), 10.0, None),
    (START, None, (1020.0, "a"), (1060.0, "a"), 20.0, None),
]


@pytest.mark.parametrize("submitted, started, end, now, waited_s, ran_s", SPANS)
def test_spans_are_shown_as_time_since_boot_knows_them(
    store: Store,
    submitted: Instant,
    started: tuple[float, str] | None,
    end: tuple[float, str] | None,
    now: tuple[float, str],
    waited_s: float | None,
    ran_s: float | None,
) -> None:
    def at(moment: tuple[float, str] | None) -> Instant | None:
        return Instant(moment[0], EPOCH_S - 3600, moment[1]) if moment else None  # set back

    world = World(gpus(1))
    job = replace(world.submit(GIB), submitted=submitted, started=at(started), ended=at(end))
    present = at(now)
    assert present is not None
    shown = JobDocuments(world.scheduler, store).job(job, present, None)
    assert (shown.waited_s, shown.ran_s) == (waited_s, ran_s)


# ------------------------------------------------------------------ shared runs


def test_a_shared_run_teaches_what_it_would_have_shown_alone() -> None:
    """Two jobs fill a GPU: each was slower than alone, and the GPU's activity is not its own."""
    world = World(gpus(1))
    world.smact["GPU-0"] = 0.5
    first = world.submit(8 * GIB, smact=0.5)
    for _ in range(60):
        world.pass_time(1.0)
    second = world.submit(8 * GIB, smact=0.3)
    world.used = {first.id: GIB, second.id: GIB}
    world.smact["GPU-0"] = 0.65
    for _ in range(300):
        world.pass_time(1.0)
    world.end(second)
    run = ended(world, second)
    assert not run.alone and not run.smact_alone
    assert run.smact == pytest.approx(0.3, abs=0.15) and run.smact < (run.smact_most or 0)
    assert 150 < run.duration_s < 299
    assert (run.told_smact, run.told_duration) == ({"test": 0.3}, {})
    world.end(first)
    run = ended(world, first)
    assert run.smact_alone and run.smact == pytest.approx(0.5, rel=0.02)
    assert 210 < run.duration_s < 360


def test_a_stopped_run_teaches_a_least_duration() -> None:
    world, job = worked(code=3, seconds=400.0)
    run = ended(world, job, outcome=Outcome.TIMEOUT)
    assert (run.duration_s, run.least_s) == (None, 400.0)
    failed = ended(world, job, outcome=Outcome.FAILED)
    assert (failed.duration_s, failed.least_s) == (None, None)


@pytest.mark.parametrize(
    ("begun", "seconds"), [(0.5, 20.0), (0.75, 40.0), (0.9, None), (1.0, None), (None, None)]
)
def test_a_run_from_a_checkpoint_teaches_the_duration_of_all_the_work(
    begun: float | None, seconds: float | None
) -> None:
    """Of a small part it would teach little more than how long a start takes."""
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.3)
    world.used[job.id] = GIB
    world.pass_time(10.0)
    world.requeue(job)
    world.used[job.id] = GIB
    world.pass_time(10.0)
    world.end(job)
    assert ended(world, job).duration_s is not None, "it began again"
    decision = next(d for d in reversed(world.decisions) if ended_in(d.changed))
    changed = tuple(
        replace(r, began=Progress(at=world.now, work_done=begun)) if isinstance(r, Attempt) else r
        for r in decision.changed
    )
    (run,) = runs_of(replace(decision, changed=changed), world.scheduler.snapshot)
    (attempt,) = [r for r in changed if isinstance(r, Attempt) and r.ended]
    found = past_run(run.device_kind, run.said, attempt)
    assert run.said.resumed and found is not None
    assert found.duration_s == (None if seconds is None else pytest.approx(seconds))


def test_the_length_of_a_training_is_stored_apart() -> None:
    mark = "0" * 32
    for fingerprint, kept in ((mark, (mark, None)), (f"{mark}+0123abcd", (mark, "0123abcd"))):
        world, job = worked()
        decision = next(d for d in reversed(world.decisions) if ended_in(d.changed))
        marked = replace(world.jobs[job.id], fingerprint=fingerprint)
        changed = (*(r for r in decision.changed if not isinstance(r, Job)), marked)
        (run,) = runs_of(replace(decision, changed=changed), world.scheduler.snapshot)
        assert (run.fingerprint, run.said.length) == kept


def reported(code: int | None, *reports: tuple[float, float]) -> tuple[World, Job, Run | None]:
    """A job alone on its GPU that reports at these seconds, and what its end teaches."""
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.3)
    world.used[job.id] = 4 * GIB
    for seconds, done in reports:
        world.pass_time(seconds)
        world.report(job, work_done=done)
    if code is None:
        world.cancel(job)
    else:
        world.end(job, code)
    decision = next(d for d in reversed(world.decisions) if ended_in(d.changed))
    marked = replace(world.jobs[job.id], fingerprint="f" * 32)
    changed = (*(r for r in decision.changed if not isinstance(r, Job)), marked)
    runs = runs_of(replace(decision, changed=changed), world.scheduler.snapshot)
    return world, job, next(runs, None)


def test_one_that_was_stopped_early_teaches_only_its_pace() -> None:
    world, job, run = reported(None, (30.0, 0.01), (20.0, 0.02))
    assert run.fingerprint == brief_mark("f" * 32)
    found = past_run(run.device_kind, run.said, world.attempts[job.id, 1])
    assert found.duration_s == pytest.approx(2000 + 30 - 20)
    assert found.alone and found.gpus == 1


@pytest.mark.parametrize("reports", [(), ((30.0, 0.01),), ((30.0, 0.01), (20.0, 0.01))])
def test_without_two_reports_it_teaches_nothing(reports: tuple[tuple[float, float], ...]) -> None:
    assert reported(None, *reports)[2] is None


def test_a_run_that_completed_teaches_its_own_duration() -> None:
    world, job, run = reported(0, (30.0, 0.01), (20.0, 0.02))
    assert run.fingerprint == "f" * 32
    assert past_run(run.device_kind, run.said, world.attempts[job.id, 1]).duration_s == 50.0


def test_a_prediction_is_shown_for_each_kind_of_gpu(store: Store) -> None:
    fast, slow = gpus(1, name="H200", sms=200, sm_mhz=1000), gpus(2, sms=100, sm_mhz=1000)
    world = World((*fast, replace(slow[1], name="A100"), replace(slow[1], uuid="u", name="T4")))
    job = world.submit(8 * GIB, smact=0.6)
    state = world.scheduler.state
    about = tuple(replace(e, chip=Chip("A100", 100_000.0)) for e in job.estimates)
    state.put_job(replace(state.jobs[job.id], estimates=about))
    found = JobDocuments(world.scheduler, store).job(state.jobs[job.id], world.now)
    assert (found.estimate_smact, found.estimate_smact_on) == (0.6, "A100")
    (there,) = found.estimate_smact_scaled
    assert there.document == {"gpu": "H200", "smact": pytest.approx(0.3), "smact_upper": 0.6}
    plain = world.submit(8 * GIB, smact=0.6)
    found = JobDocuments(world.scheduler, store).job(state.jobs[plain.id], world.now)
    assert (found.estimate_smact_on, found.estimate_smact_scaled) == (None, ())
