"""Reservations for later in the daemon: stored, shown, and kept when it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.core.settings import CoreSettings
from radrm.daemon.views.device_documents import device_documents
from radrm.daemon.views.explanations import explain
from radrm.host.storage.store import Store
from tests.contract.systems.backfill import Backfill
from tests.host.storage.stores import submission_of
from tests.world import EPOCH_S, GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)


@pytest.fixture
def world() -> World:
    """Job 1 runs for 600 s, and job 2 needs more than it leaves."""
    world = World(gpus(1), planners=(Backfill(),), settings=CORE)
    world.submit(20 * GIB, time_limit_s=600.0)
    world.submit(38 * GIB, time_limit_s=1000.0)
    return world


def test_they_are_shown(world: World, tmp_path: Path) -> None:
    later = {
        "kind": "backfill",
        "owner": "job 2",
        "job": 2,
        "planner": "easy",
        "index": 0,
        "reserved_mib": 38 * GIB,
        "start_at": EPOCH_S + 1600.0,
        "end_at": EPOCH_S + 2600.0,
    }
    (device,) = device_documents(world.scheduler.snapshot, world.now)
    running, shown = (each.document for each in device.reservations)
    assert (running["kind"], running["owner"], running["end_at"]) == ("running", "job 1", None)
    assert shown == later
    assert device.reserved_mib == device.free_mib == 20 * GIB, "it does not count today"
    store = Store(f"{tmp_path}/radrm.sqlite")
    waits, runs = (explain(world.scheduler, store, world.jobs[i], world.now) for i in (2, 1))
    assert waits.reservations == device.reservations[1:] and runs.reservations == ()


def test_they_are_stored(world: World, tmp_path: Path) -> None:
    store = Store(f"{tmp_path}/radrm.sqlite")
    store.save(world.decisions, [submission_of(world.jobs[i]) for i in (1, 2)])
    assert {r.key: r for r in store.kept().reservations} == world.stored
    assert len(world.stored) == 2
    world.cancel(2)
    store.save(world.decisions)
    assert [r.job_id for r in store.kept().reservations] == [1]
