"""Volatile records in the store: they cost no transaction, and a kill loses nothing else."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job
from radrm.errors import StoreError
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.examples import some
from tests.host.storage.stores import submission_of
from tests.world import GIB, World, gpus


def running(store: Store) -> tuple[World, Job]:
    """A job that runs, saved."""
    world = World(gpus(1))
    job = world.submit(8 * GIB, smact=0.1)
    store.save(world.decisions, [submission_of(job)])
    return world, job


def since(world: World, before: int) -> list[Decision]:
    return world.decisions[before:]


def grow(world: World, job: Job) -> list[Decision]:
    """Its memory grows, and it reports progress: the decisions."""
    before = len(world.decisions)
    world.used[job.id] = world.used.get(job.id, 0) + GIB
    world.boot_s += 1.0
    world.read()
    world.report(job, step=world.boot_s)
    return since(world, before)


def transactions(store: Store) -> list[str]:
    """Notes each transaction of the store from now on."""
    found: list[str] = []
    store._db.connection.set_trace_callback(
        lambda query: found.append(query) if query == "COMMIT" else None
    )
    return found


def peak(store: Store) -> int | None:
    return next(iter(store.kept().attempts)).peak_mib


def test_figures_alone_cost_no_transaction_and_go_with_the_next(path: str) -> None:
    store = Store(path)
    world, job = running(store)
    noted = transactions(store)
    for _ in range(10):
        store.save(grow(world, job))
    assert noted == [] and peak(store) is None
    before = len(world.decisions)
    world.submit(GIB)
    store.save(since(world, before), [submission_of(j) for j in world.jobs.values() if j.id > 1])
    assert noted == ["COMMIT"] and peak(store) == 10 * GIB
    assert store.job(job.id) == world.jobs[job.id]


def test_all_that_wait_go_in_one_transaction_each_once(path: str) -> None:
    store = Store(path)
    world, job = running(store)
    for _ in range(3):
        store.save(grow(world, job))
    noted = transactions(store)
    store.save_volatile()
    store.save_volatile()
    assert noted == ["COMMIT"] and peak(store) == 3 * GIB


def test_an_end_is_not_undone_by_figures_from_before(path: str) -> None:
    store = Store(path)
    world, job = running(store)
    store.save(grow(world, job))
    before = len(world.decisions)
    world.end(job)
    store.save(since(world, before))
    store.save_volatile()
    assert list(store.kept().attempts) == [] == list(store.kept().jobs)
    assert store.last_attempt(world.jobs[job.id]) == world.attempts[job.id, 1]


def test_what_cannot_be_written_waits_on(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    world, job = running(store)
    store.save(grow(world, job))
    before = len(world.decisions)
    world.cancel(job)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    failing = since(world, before)
    with monkeypatch.context() as broken:
        broken.setattr(store, "_save_record", full)
        for write in (lambda: store.save(failing), store.save_volatile):
            with pytest.raises(StoreError):
                write()
    assert peak(store) is None
    store.save_volatile()
    assert peak(store) == GIB
    (attempt,) = store.kept().attempts
    assert attempt.stop is None, "the cancel is not saved, so neither is what follows it"


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "grow", "grow", "report", "time", "long", "end", "oom", "cancel", "requeue"]
        ),
        st.integers(0, 9),
    ),
    min_size=3,
    max_size=25,
)


@settings(max_examples=some(25), deadline=None)
@given(moves, st.data())
def test_a_kill_at_any_moment_costs_figures_only(
    life: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Batches of decisions of any length, some flushes in between, then a kill."""
    world = World(gpus(2))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as home:
        store = Store(os.path.join(home, "radrm.sqlite"))
        saved, submitted = 0, set[int]()
        for kind, pick in life:
            make(world, kind, pick)
            if data.draw(st.booleans()):
                new = [j for j in world.jobs.values() if j.id not in submitted]
                submitted |= {j.id for j in new}
                store.save(since(world, saved), map(submission_of, new))
                saved = len(world.decisions)
                if data.draw(st.booleans()):
                    store.save_volatile()
                check(store, world)
        store.close()
        again = Store(os.path.join(home, "radrm.sqlite"))
        if saved == len(world.decisions):
            check(again, world)
        again.close()


def make(world: World, kind: str, pick: int) -> None:
    live = [a.job_id for a in world.attempts.values() if a.ended is None]
    if kind == "submit":
        job = world.submit((2 + pick) * GIB, smact=0.1, requeue=True)
        world.used[job.id] = GIB
    elif kind in ("time", "long"):
        world.pass_time(1.0 if kind == "time" else 400.0)
    elif kind == "requeue" and (ended := [j for j in world.jobs.values() if j.state.final]):
        world.requeue(ended[pick % len(ended)])
    elif live:
        job_id = live[pick % len(live)]
        if kind == "grow":
            world.used[job_id] = world.used.get(job_id, 0) + GIB // 2
            world.boot_s += 1.0
            world.read()
        elif kind == "report":
            world.report(job_id, step=pick)
        elif kind == "cancel":
            world.cancel(job_id)
        elif kind in ("end", "oom"):
            world.end(job_id, int(kind == "oom"))


def check(store: Store, world: World) -> None:
    """The store has all that the scheduler knows, but for figures."""
    kept = store.kept()
    unfinished = [j for _, j in sorted(world.jobs.items()) if not j.state.final]
    live = sorted((a for a in world.attempts.values() if a.ended is None), key=lambda a: a.serial)
    assert list(map(_bare_job, kept.jobs)) == list(map(_bare_job, unfinished))
    assert list(map(_bare, kept.attempts)) == list(map(_bare, live))
    assert {(r.owner, r.device): r for r in kept.reservations} == world.reservations
    for attempt in world.attempts.values():
        if attempt.ended is not None:
            assert attempt in store.attempts(attempt.job_id), "an end has its last figures"


def _bare_job(job: Job) -> Job:
    return replace(job, progress=None)


def _bare(attempt: Attempt) -> Attempt:
    return replace(attempt, usage=(), reported=())
