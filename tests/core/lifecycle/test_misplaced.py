"""Jobs that use GPUs which they were not given: warnings, cancellation, and memory counted."""

from __future__ import annotations

import pytest

from radrm.core.decision import Warned
from radrm.core.lifecycle.misplaced import CONTEXT_MIB, OVER_AFTER_S, STOPPED_AFTER_S, TOLD_AFTER_S
from radrm.core.records import AttemptMemory, Job, Reading
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, DeviceKind, JobState, Outcome
from radrm.daemon.past_runs import runs_of
from radrm.daemon.views.device_documents import device_documents
from radrm.daemon.views.verdict import verdict
from radrm.structs import replace
from tests.world import GIB, World, gpus

STEP_S = 2.0


class Site(World):
    """Jobs whose processes are on other GPUs, too: `astray` has their MiB by job and device."""

    def __init__(self, cancels: bool = False, count: int = 3) -> None:
        self.astray: dict[tuple[int, str], int | None] = {}
        settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stops_misplaced=cancels)
        super().__init__(gpus(count), settings=settings)

    def _reading(self, uuid: str) -> Reading:
        found = super()._reading(uuid)
        if found.error is not None or found.attempts is None:
            return found
        more = tuple(
            AttemptMemory(job_id, attempt.serial, mib)
            for (job_id, device), mib in self.astray.items()
            if device == uuid and (attempt := self.live(job_id)) is not None
        )
        used = (found.used_mib or 0) + sum(each.used_mib or 0 for each in more)
        return replace(found, attempts=found.attempts + more, used_mib=used)

    def live_on(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.pass_time(STEP_S)
        assert not self.scheduler.errors(self.now)

    def astray_job(self, mib: int | None, device: str = "GPU-0") -> Job:
        job = self.submit(8 * GIB, source="declared", collocation=Collocation.EXCLUSIVE)
        self.astray[job.id, device] = mib
        return job

    @property
    def warned(self) -> list[Warned]:
        return [each for decision in self.decisions for each in decision.warned]

    def texts(self, job: Job) -> list[str]:
        attempt = self.live(job)
        return [] if attempt is None else [each.text for each in attempt.warnings]


def owner_of_gpu_0(site: Site) -> Job:
    owner = site.submit(8 * GIB, collocation=Collocation.EXCLUSIVE)
    site.used[owner.id] = 4 * GIB
    assert site.where(owner) == ("GPU-0",)
    return owner


def test_its_user_is_told_once_and_the_gpu_says_whose_memory_it_is() -> None:
    site = Site()
    owner = owner_of_gpu_0(site)
    job = site.astray_job(15 * GIB)
    site.live_on(TOLD_AFTER_S)
    assert not site.warned, "a task may be leaving"
    site.live_on(200)
    (warned,) = site.warned
    assert (warned.job_id, warned.kind) == (job.id, "misplaced")
    assert warned.text.startswith("it uses GPU 0, and was given GPU 1;")
    assert site.texts(job) == [warned.text]
    assert site.state(job) is JobState.RUNNING
    gpu = device_documents(site.scheduler.snapshot, site.now)[0]
    assert (gpu.used_mib, gpu.unmanaged_mib) == (19 * GIB, 0), "each MiB is counted once"
    assert [(use.job, use.used_mib) for use in gpu.misplaced] == [(str(job.id), 15 * GIB)]
    attempt, theirs = site.live(job), site.live(owner)
    assert attempt.peak_mib == 0 and attempt.misplaced
    assert theirs.peak_mib == 4 * GIB


def test_its_memory_is_not_free_for_others() -> None:
    site = Site()
    owner_of_gpu_0(site)
    site.astray_job(30 * GIB, "GPU-2")
    site.live_on(4)
    ledger = site.scheduler.state.ledgers["GPU-2"]
    assert ledger.free_now_mib == ledger.device.capacity_mib - 30 * GIB
    assert (ledger.in_use() or "").startswith("job 2 uses 30.0G of it, and does not hold it")


@pytest.mark.parametrize(
    ("mib", "stopped"), [(15 * GIB, True), (CONTEXT_MIB, False), (600, False), (None, False)]
)
def test_a_site_may_cancel_it_after_a_warning(mib: int | None, stopped: bool) -> None:
    """A CUDA context, and memory that nobody knows, stop no job."""
    site = Site(cancels=True)
    owner_of_gpu_0(site)
    job = site.astray_job(mib)
    site.live_on(TOLD_AFTER_S + STEP_S)
    assert len(site.warned) == 1 and site.state(job) is JobState.RUNNING
    site.live_on(STOPPED_AFTER_S)
    found = site.jobs[job.id]
    if stopped:
        assert (found.state, found.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
        assert found.reason == "it used 15.0G of GPU 0, and was given GPU 1 (gpus.misplaced)"
    else:
        assert found.state is JobState.RUNNING
    assert len(site.warned) == 1


def test_a_job_that_leaves_in_time_is_not_stopped_and_one_that_grows_is_told_again() -> None:
    site = Site(cancels=True)
    owner_of_gpu_0(site)
    job = site.astray_job(15 * GIB)
    site.live_on(TOLD_AFTER_S + 20)
    site.astray[job.id, "GPU-0"] = 500
    site.live_on(STOPPED_AFTER_S + OVER_AFTER_S)
    assert site.state(job) is JobState.RUNNING and len(site.warned) == 1
    site.astray[job.id, "GPU-0"] = 5 * GIB
    site.live_on(STEP_S)
    assert len(site.warned) == 2
    site.live_on(STOPPED_AFTER_S)
    assert site.state(job) is JobState.CANCELLED


def test_what_is_over_stays_on_record_and_teaches_nothing() -> None:
    site = Site()
    owner_of_gpu_0(site)
    job = site.astray_job(15 * GIB)
    site.used[job.id] = 6 * GIB
    site.live_on(40)
    del site.astray[job.id, "GPU-0"]
    site.live_on(OVER_AFTER_S)
    (text,) = site.texts(job)
    assert text.startswith("it used GPU 0 for ") and len(site.warned) == 1
    snapshot = site.scheduler.snapshot
    assert not device_documents(snapshot, site.now)[0].misplaced
    site.live_on(400)
    site.end(job)
    attempt = max((a for a in site.attempts.values() if a.job_id == job.id), key=lambda a: a.number)
    assert attempt.peak_mib == 6 * GIB and attempt.misplaced
    ended = [run for d in site.decisions for run in runs_of(d, site.scheduler.snapshot)]
    assert attempt.serial not in {run.serial for run in ended}
    (line,) = verdict(site.jobs[job.id], [attempt], GIB)
    assert "GPU 0" in line


def test_a_restart_tells_nobody_again_and_keeps_the_time_of_the_warning() -> None:
    site = Site(cancels=True)
    owner_of_gpu_0(site)
    job = site.astray_job(15 * GIB)
    site.live_on(TOLD_AFTER_S + 20)
    site.decisions.clear()
    site.restart()
    site.live_on(STOPPED_AFTER_S - 20 - TOLD_AFTER_S)
    assert site.state(job) is JobState.RUNNING
    site.live_on(TOLD_AFTER_S + 2 * STEP_S)
    assert site.state(job) is JobState.CANCELLED and not site.warned


def test_a_gpu_that_cannot_be_read_ends_no_use() -> None:
    site = Site()
    owner_of_gpu_0(site)
    job = site.astray_job(15 * GIB)
    site.live_on(20)
    site.broken["GPU-0"] = "lost"
    site.live_on(3 * OVER_AFTER_S)
    del site.broken["GPU-0"]
    site.live_on(10)
    assert site.texts(job)[0].startswith("it uses GPU 0") and len(site.warned) == 1


def test_a_job_without_gpus_is_told_to_ask_for_one() -> None:
    site = Site()
    job = site.submit(gpus=0)
    site.astray[job.id, "GPU-2"] = 900
    site.live_on(20)
    assert site.texts(job) == ["it uses GPU 2, and was given none; ask for one: --gpus=1"]


def test_an_instance_whose_processes_have_no_known_memory_proves_nothing() -> None:
    """Some drivers list a GPU's processes for each of its instances."""
    site = Site()
    site.devices = tuple(replace(d, kind=DeviceKind.MIG, profile="1g.5gb") for d in site.devices)
    for device in site.devices:
        site.scheduler.state.ledgers[device.uuid].see(device)
    job = site.submit(GIB)
    (own,) = site.where(job)
    other = next(d.uuid for d in site.devices if d.uuid != own)
    site.astray[job.id, other] = None
    site.live_on(60)
    assert not site.warned
    site.astray[job.id, other] = 700
    site.live_on(20)
    assert len(site.warned) == 1
