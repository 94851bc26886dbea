"""Reservations for later in the daemon: stored, shown, and kept when it is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radrm.core.settings import CoreSettings
from radrm.daemon.views.device_documents import device_documents
from radrm.daemon.views.explanations import explain
from radrm.host.storage.store import Store
from tests.contract.systems.backfill import Backfill
from tests.daemon.harness import DaemonHome, simjob
from tests.host.storage.stores import submission_of
from tests.waiting import wait_until
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


@pytest.mark.nightly
def test_a_killed_daemon_keeps_them(home: DaemonHome) -> None:
    about = home.folder / "packages" / "toys-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    toy = "tests.contract.systems.backfill:Backfill"
    (about / "entry_points.txt").write_text(f"[radrm.planners]\neasy = {toy}\n")
    home.environment["PYTHONPATH"] += f":{about.parent}"
    home.settings = ["planner=easy", "core.smact_warm_s=0"]
    home.gpus = "sim:1xA100-40GB"
    home.start()

    def planned() -> list[dict[str, Any]]:
        (device,) = json.loads(home.radrm("gpus", "--json").stdout)
        return [each for each in device["reservations"] if each["kind"] == "backfill"]

    first = home.submit(
        "--gpu-memory=20G", "--smact=0.1", "--time=90000", "--", *simjob(19, 0.1, 80000)
    )
    wait_until(lambda: home.job(first)["state"] == "RUNNING", "the first job to run")
    head = home.submit("--gpu-memory=38G", "--smact=0.1", "--time=6000", "--", "true")
    wait_until(planned, "a reservation")
    (before,) = planned()
    assert before["job"] == head
    home.kill()
    home.start()
    wait_until(planned, "the reservation")
    (after,) = planned()
    assert (after["job"], after["reserved_mib"]) == (before["job"], before["reserved_mib"])
    assert abs(after["start_at"] - before["start_at"]) < 5
    short = home.submit("--gpu-memory=4G", "--smact=0.1", "--time=6000", "--", "true")
    assert home.wait_end(short)["state"] == "COMPLETED", "it passes the head"
    long = home.submit("--gpu-memory=4G", "--smact=0.1", "--", "true")
    why = json.loads(home.radrm("explain", str(long), "--json").stdout)
    assert f"reserved for job {head} " in why["devices"][0]["message"]
    home.radrm("cancel", str(head))
    assert home.wait_end(long)["state"] == "COMPLETED", "nothing is reserved any more"
    home.radrm("cancel", str(first))
