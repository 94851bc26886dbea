"""When a running job is expected to end, and what is predicted of it."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.records import Estimate, Job, Progress
from radrm.core.remaining import PROGRESS_MARGIN
from radrm.core.words import Quantity
from radrm.daemon.views.documents import JobDocuments
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.documents import whole
from tests.world import GIB, World, gpus


@pytest.fixture
def store(tmp_path: object) -> Store:
    return Store(f"{tmp_path}/radrm.sqlite")


def shown(world: World, store: Store, job: Job) -> dict[str, object]:
    found = JobDocuments(world.scheduler, store).job(world.jobs[job.id], world.now, None)
    return whole(found.document)


def left(world: World, store: Store, job: Job) -> tuple[float, float] | None:
    """The seconds until the expected end, and until the latest."""
    document = shown(world, store, job)
    at, latest = document["expected_end_at"], document["latest_end_at"]
    if not isinstance(at, float) or not isinstance(latest, float):
        return None
    return at - world.now.wall_s, latest - world.now.wall_s


def predicted(world: World, duration_s: float, upper_s: float, **spec: object) -> Job:
    job = world.submit(8 * GIB, estimating=True, **spec)
    estimates = (
        Estimate(Quantity.MEMORY, 8 * GIB, 8 * GIB, "test"),
        Estimate(Quantity.SMACT, 0.4, 0.5, "history"),
        Estimate(Quantity.DURATION, duration_s, upper_s, "history, shared runs"),
    )
    world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=estimates))
    return world.jobs[job.id]


def test_predictions_are_shown_with_bound_and_source(store: Store) -> None:
    world = World(gpus(1))
    document = shown(world, store, predicted(world, 100.0, 150.0))
    assert [document[f"estimate_{key}"] for key in ("smact", "smact_upper", "smact_source")] == [
        0.4, 0.5, "history",
    ]  # fmt: skip
    keys = ("duration_s", "duration_upper_s", "duration_source")
    assert [document[f"estimate_{key}"] for key in keys] == [100.0, 150.0, "history, shared runs"]
    plain = shown(world, store, world.submit(GIB))
    assert plain["estimate_smact"] is plain["estimate_duration_source"] is None


def test_a_duration_gives_the_end_and_a_limit_bounds_it(store: Store) -> None:
    world = World(gpus(2))
    job = predicted(world, 100.0, 150.0, time_limit_s=120.0)
    free = predicted(world, 100.0, 150.0)
    for _ in range(60):
        world.pass_time(1.0)
    assert left(world, store, job) == pytest.approx((40.0, 60.0), abs=2)
    assert left(world, store, free) == pytest.approx((40.0, 90.0), abs=2)
    world.pass_time(60.0)
    assert left(world, store, free) == pytest.approx((12.0, 30.0), abs=2), "late"
    world.pass_time(60.0)
    assert left(world, store, free) is None, "the prediction was wrong"


def test_an_old_report_gives_the_end_that_it_gave_when_it_came(store: Store) -> None:
    """A job that reports once per epoch does not end later with every second of silence."""
    world = World(gpus(1))
    job = world.submit(8 * GIB)
    world.pass_time(100.0)
    world.report(job, work_done=0.25)
    assert left(world, store, job) == pytest.approx((300.0, 375.0), abs=2)
    world.pass_time(200.0)
    assert left(world, store, job) == pytest.approx((100.0, 175.0), abs=2)
    world.pass_time(150.0)
    assert left(world, store, job) == pytest.approx((0.0, 25.0), abs=2), "late"
    world.pass_time(50.0)
    assert left(world, store, job) is None, "it has become slower, and nobody knows how slow"


def test_neighbours_delay_the_end(store: Store) -> None:
    world = World(gpus(1))
    world.smact["GPU-0"] = 0.1
    jobs = [predicted(world, 1000.0, 1200.0)]
    world.pass_time(1.0)
    alone = left(world, store, jobs[0])
    assert alone == pytest.approx((999.0, 1199.0), abs=1)
    for _ in range(2):
        job = predicted(world, 1000.0, 1200.0)
        world.pass_time(1.0)
        jobs.append(job)
    shared = left(world, store, jobs[0])
    assert world.where(jobs[-1]) and shared is not None and alone is not None
    assert shared[0] > alone[0] and shared[1] > alone[1]


def test_beside_the_same_neighbours_the_end_stays(store: Store) -> None:
    world = World(gpus(1))
    world.smact["GPU-0"] = 0.1
    jobs = [predicted(world, 1000.0, 1200.0)]
    world.pass_time(1.0)
    for _ in range(2):
        jobs.append(predicted(world, 1000.0, 1200.0))
        world.pass_time(1.0)
    first = left(world, store, jobs[0])
    for _ in range(40):
        world.pass_time(10.0)
    second = left(world, store, jobs[0])
    assert first is not None and second is not None and first[0] > 1050
    assert second[0] + 400.0 == pytest.approx(first[0], abs=30.0)


def test_progress_beats_a_predicted_duration(store: Store) -> None:
    world = World(gpus(1))
    job = predicted(world, 1000.0, 1200.0)
    world.pass_time(100.0)
    world.report(job, work_done=0.25)
    assert left(world, store, job) == pytest.approx((300.0, 300.0 * PROGRESS_MARGIN), abs=3)
    world.report(job, work_done=0.001)
    assert left(world, store, job)[0] > 800, "too early to tell"


def test_nothing_is_expected_of_what_is_unknown(store: Store) -> None:
    world = World(gpus(1))
    job = world.submit(8 * GIB)
    world.pass_time(10.0)
    assert left(world, store, job) is None
    waiting = replace(predicted(world, 100.0, 150.0), id=99)
    world.jobs[99] = waiting
    assert left(world, store, waiting) is None


def resumed(world: World, job: Job, **saved: float) -> None:
    """Save, stop the job, and let it go on in its next attempt."""
    attempt = world.live(job)
    assert attempt is not None
    progress = Progress(at=world.now, **saved) if saved else None
    about = {"at": world.now, "job_id": job.id, "serial": attempt.serial, "happened": world.now}
    world.step(ev.CheckpointTaken(**about, progress=progress))
    world.end(job, lost="gone")
    world.pass_time(100.0)
    assert world.live(job).number == 2


def test_a_resumed_attempt_has_the_speed_of_what_it_did_itself(store: Store) -> None:
    world = World(gpus(1))
    job = world.submit(8 * GIB, requeue=True)
    world.pass_time(1000.0)
    world.report(job, work_done=0.5)
    resumed(world, job, work_done=0.5)
    begun = world.live(job)
    assert begun.started is not None
    assert left(world, store, job) is None, "it has not reported in this attempt"
    world.boot_s = begun.started.boot_s + 100.0
    world.report(job, work_done=0.505)
    assert left(world, store, job) is None, "too early to tell"
    world.report(job, work_done=0.6)
    assert left(world, store, job) == pytest.approx((400.0, 500.0), abs=1)
    world.report(job, work_done=0.4)
    assert left(world, store, job) is None, "it did not go on from what it had saved"


def test_a_later_attempt_that_began_anew_and_saves_is_no_resumed_one(store: Store) -> None:
    world = World(gpus(1))
    job = world.submit(8 * GIB, requeue=True)
    world.pass_time(10.0)
    world.end(job, lost="gone")
    world.pass_time(100.0)
    begun = world.live(job)
    assert begun.number == 2 and begun.started is not None
    world.boot_s = begun.started.boot_s + 100.0
    saved = Progress(at=world.now, work_done=0.25)
    world.report(job, work_done=0.25)
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=begun.serial, progress=saved))
    assert left(world, store, job) == pytest.approx((300.0, 375.0), abs=1)


def test_after_a_save_that_did_not_say_how_far_nothing_is_expected(store: Store) -> None:
    world = World(gpus(1))
    job = predicted(world, 1000.0, 1200.0, requeue=True)
    world.pass_time(100.0)
    resumed(world, job)
    begun = world.live(job)
    assert begun.began is not None and begun.work_begun is None
    world.pass_time(100.0)
    world.report(job, work_done=0.6)
    assert left(world, store, job) is None


def test_a_resumed_attempt_needs_the_rest_of_its_duration(store: Store) -> None:
    world = World(gpus(1))
    job = predicted(world, 1000.0, 1200.0, requeue=True)
    world.pass_time(600.0)
    resumed(world, job, work_done=0.6)
    begun = world.live(job)
    world.boot_s = begun.started.boot_s + 100.0
    assert left(world, store, job) == pytest.approx((300.0, 380.0), abs=5)
    saved = Progress(at=world.now, work_done=0.7)
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=begun.serial, progress=saved))
    assert left(world, store, job) == pytest.approx((300.0, 380.0), abs=5), "a save changes nothing"
