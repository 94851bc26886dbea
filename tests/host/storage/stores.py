"""A world whose decisions are saved, and what goes into a store beside them."""

from __future__ import annotations

from radrm.core import events as ev
from radrm.core.records import (
    ArrayElement,
    Attempt,
    Instant,
    Job,
    JobSpec,
    OutOfMemory,
    Placement,
    Usage,
)
from radrm.core.words import Collocation, Outcome
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus


def submission_of(job: Job, **changes: object) -> Submission:
    return Submission(uid=1000, gid=1000, envelope=envelope(ticket=job.ticket, **changes))


def saved_world(store: Store) -> World:
    """A world whose every decision has gone through the store."""
    world = World(gpus(2))
    first = world.submit(30_000, smact=0.4, checkpoint=replace(JobSpec("", "", 0).checkpoint))
    world.submit(30_000, gpus=2)
    world.end(first, 1, oom=OutOfMemory("test", 2000))
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    submissions = [submission_of(job) for job in world.jobs.values()]
    store.save(world.decisions, submissions)
    return world


def ended_attempt(serial: int, peak_mib: int, job_id: int = 1) -> Attempt:
    """An attempt that ran for 60 s alone on its device."""
    start = Instant(100.0, 100.0, "boot")
    return Attempt(
        job_id=job_id, number=serial, serial=serial, placement=Placement((), Collocation.EXCLUSIVE),
        launched=start, started=start, ended=Instant(160.0, 160.0, "boot"),
        outcome=Outcome.COMPLETED, usage=(Usage("GPU-0", peak_mib, 0.5),),
    )  # fmt: skip


def sweep(store: Store, count: int) -> list[int]:
    """The ids of an array's elements."""
    world = World(gpus(1))
    job = world.submit(1000)
    ids = list(range(5, 5 + count))
    elements = tuple(replace(job, id=i, array=ArrayElement(5, i)) for i in ids)
    sent = submission_of(job, options={"time": "60"})
    store.save([replace(world.decisions[-2], changed=elements)], [sent])
    return ids
