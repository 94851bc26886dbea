"""Why a job waits, in one sentence with cause and numbers; and who holds what of a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radrm.core import events as ev
from radrm.core.records import (
    AttemptMemory,
    Dependency,
    DeviceProcess,
    Job,
    Node,
    OutOfMemory,
    Reading,
    Refusal,
)
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, Condition
from radrm.daemon.views.waiting_reasons import as_sentence, of_device, sentence
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)
ALONE = {"collocation": Collocation.EXCLUSIVE}


def said(world: World, job: Job) -> str | None:
    reasons = world.scheduler.why_waiting(job.id, world.now)
    return sentence(world.scheduler.snapshot, world.jobs[job.id], reasons)


def waits(world: World) -> Job:
    return world.submit(20 * GIB, source="declared", smact=0.1)


def full(world: World) -> Job:
    for _ in range(2):
        world.submit(30 * GIB, smact=0.1, user="bob", uid=1001)
    return waits(world)


def wants_idle(world: World) -> Job:
    for device in ("GPU-0", "GPU-1"):
        world.submit(GIB, smact=0.1, prefer_gpus=(device,))
    return world.submit(GIB, **ALONE)


def two_on_one(world: World) -> Job:
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    for _ in range(2):
        world.submit(GIB, smact=0.1)
    return world.submit(GIB, **ALONE)


def both_taken(world: World) -> Job:
    world.submit(GIB, gpus=2, **ALONE)
    return world.submit(GIB)


def one_drained(world: World) -> Job:
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    world.submit(30 * GIB, smact=0.1)
    return waits(world)


def two_gpus(world: World) -> Job:
    world.submit(30 * GIB, smact=0.1)
    return world.submit(20 * GIB, smact=0.1, gpus=2)


def busy(world: World) -> Job:
    for _ in range(2):
        world.submit(GIB, smact=0.9)
    return world.submit(GIB, source="declared", smact=0.9)


def assumed(world: World) -> Job:
    for _ in range(2):
        world.submit(GIB, smact=0.9)
    return world.submit(GIB)


def held(world: World) -> Job:
    job = full(world)
    world.hold(job)
    return job


def follows(world: World) -> Job:
    first = world.submit(GIB)
    return world.submit(GIB, after=(Dependency(first.id, Condition.OK),))


def cpus(world: World) -> Job:
    world.submit(GIB, smact=0.1, cpus=6.0)
    return world.submit(GIB, smact=0.1, cpus=4.0)


ROOM = "No GPU has room now: needs 23.0G (20.0G and a margin), at most 10.0G is free."


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (full, ROOM),
        (wants_idle, "Waits for an idle GPU (job 1 is on GPU 0, job 2 is on GPU 1)."),
        (two_on_one, "Waits for an idle GPU (jobs 1, 2 are on GPU 0; GPU 1: drained: fan)."),
        (both_taken, "All GPUs are taken (job 1 has GPU 0, 1 to itself)."),
        (
            one_drained,
            "No GPU can take it now: GPU 0: needs 23.0G (20.0G and a margin), 10.0G is free; "
            "GPU 1: drained: fan.",
        ),
        (
            two_gpus,
            "Needs 2 GPUs, 1 can take it now (GPU 0: needs 22.0G (20.0G and a margin), 10.0G is "
            "free).",
        ),
        (busy, "All GPUs are too busy: needs SM activity of 0.90, at most 0.70 is left."),
        (
            assumed,
            "All GPUs are too busy: one more job would cost the others more than it gains.",
        ),
        (held, "It is held until it is released (radrm release 3)."),
        (follows, "Starts after job 1 (job1) has completed; it is RUNNING."),
        (cpus, "Needs 4 CPUs, 2 free (job 1 books 6)."),
    ],
)
def test_one_sentence_names_the_cause(make: Callable[[World], Job], text: str) -> None:
    world = World(gpus(2), settings=CORE, policy=Packing(), node=Node(cpus=8.0))
    job = make(world)
    assert world.jobs[job.id].state.waiting
    assert said(world, job) == text


def test_a_job_that_ran_out_of_memory_says_what_it_waits_for() -> None:
    world = World(gpus(1), settings=CORE)
    first, second, died = (world.submit(GIB, smact=0.1) for _ in range(3))
    world.end(died, 1, oom=OutOfMemory("test", GIB))
    world.pass_time(30)
    assert said(world, died) == (
        f"Ran out of GPU memory; waits for an idle GPU (jobs {first.id}, {second.id} are on GPU 0)."
    )


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        ("job 4 is next", "Job 4 is next."),
        ("limits.gpus: none", "limits.gpus: none."),
        ("it is so!", "It is so!"),
        ("GPU 0: x", "GPU 0: x."),
        ("", ""),
    ],
)
def test_a_clause_as_a_sentence(clause: str, text: str) -> None:
    assert as_sentence(clause) == text


def test_a_gpus_line_names_all_who_hold_what_is_missing() -> None:
    world = World(gpus(1), settings=CORE)
    world.submit(10 * GIB, smact=0.1, user="anna")
    world.unmanaged["GPU-0"] = 22 * GIB
    world.pass_time(10)
    job = waits(world)
    snapshot = world.scheduler.snapshot
    (device,) = snapshot.devices
    assert device.reading is not None
    processes = (
        DeviceProcess(4242, 20 * GIB, "bob", "/usr/bin/python train.py"),
        DeviceProcess(7, 2 * GIB),
        DeviceProcess(8, 5, "gdm", "Xorg"),
    )
    stray = AttemptMemory(job.id, 1, 512)
    attempts = (*(device.reading.attempts or ()), stray)
    reading: Reading = replace(device.reading, processes=processes, attempts=attempts)
    seen = replace(device, reading=reading)
    no = Refusal("memory", "", "GPU-0", 25.0 * GIB, 7.0 * GIB)
    assert of_device(snapshot, seen, no) == (
        "7.0G free, job 1 (anna) reserves 10.0G, unmanaged process 4242 (bob, python) uses 20.0G, "
        "unmanaged process 7 2.0G, and 1 more"
    )
    unread = replace(device, reading=None)
    assert of_device(snapshot, unread, no).endswith(", unmanaged processes use 22.0G")
    shared = replace(no, rule="demand", message="needs more")
    assert of_device(snapshot, seen, shared) == "needs more; beside job 1 (anna)"
