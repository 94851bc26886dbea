"""What a slow planner's process knows is what a fast planner knows: each question, both answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from radrm.core.records import Device, Job
from radrm.core.rules import Order
from radrm.core.seen import StateData
from radrm.core.settings import CoreSettings
from radrm.core.snapshot import Snapshot
from radrm.core.view import View
from radrm.core.words import Collocation
from radrm.host.workers import LENGTH, packed
from radrm.orders import Fair, LatestStart
from radrm.policies.sharing import Magm
from tests.contract.lives.test_properties import Move, play
from tests.core.test_offers import SETTINGS, Mover, also_play, lives, servers
from tests.examples import some
from tests.world import GIB, World, default_planner, gpus

CACHES = {"kept_offers", "searches", "answers", "scratch", "moment"}
"""What a planner keeps, and a value that says only whether something has changed."""


def _ids(jobs: Any) -> list[int]:
    return [job.id for job in jobs]


def _each(ask: Callable[[View, Job], Any]) -> Callable[[View], Any]:
    """Ask about each job."""
    return lambda view: {job.id: ask(view, job) for job in view.jobs()}


def _there(ask: Callable[[View, str, Job], Any]) -> Callable[[View], Any]:
    """Ask about each job on each device."""
    uuids = [f"GPU-{index}" for index in (0, 1, 2, 9)]

    def every(view: View, job: Job) -> Any:
        known = {device.uuid for device in view.devices()}
        return [ask(view, uuid, job) for uuid in uuids if uuid in known]

    return _each(every)


def _roles(ask: Callable[[View, Job, Any], Any]) -> Callable[[View], Any]:
    return _each(lambda view, job: [ask(view, job, role) for role in job.spec.roles])


def _live(view: View) -> Iterator[Job]:
    return (job for job, _ in view.running())


def _alike(view: View) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for job in (*view.waiting(), *view.waiting(gpuless=True)):
        groups.setdefault(id(view.need_of(job)), []).append(job.id)
    return sorted(groups.values())


def _due(view: View) -> Any:
    found = view.by_due()
    return sorted(found.due), list(found.without_due)


OF_VIEW: dict[str, Callable[[View], Any]] = {
    "now": lambda view: view.now,
    "isolation": lambda view: (view.isolation.errors(view.now.boot_s), view.isolation.data()),
    "settings": lambda view: view.settings,
    "kept": lambda view: (view.kept("mover", 1), view.kept("strict", 1)),
    "remarks": _each(lambda view, job: view.remarks(job.id)),
    "head": lambda view: [(h := view.head(g)) and h.id for g in (False, True)],
    "any_waiting": lambda view: view.any_waiting,
    "few_waiting": lambda view: [
        None if (found := view.few_waiting(most)) is None else sorted(_ids(found))
        for most in (0, 2, 100)
    ],
    "waiting": lambda view: [_ids(view.waiting(gpuless)) for gpuless in (False, True)],
    "by_due": _due,
    "need_of": _alike,
    "running": lambda view: list(view.running()),
    "attempt": _each(lambda view, job: view.attempt(job.id)),
    "job": _each(lambda view, job: view.job(job.id)),
    "jobs": lambda view: sorted(view.jobs(), key=lambda job: job.id),
    "position": _each(lambda view, job: view.position(job)),
    "uses": lambda view: view.uses(),
    "devices": lambda view: view.devices(),
    "every_device": lambda view: view.every_device(),
    "loss": lambda view: [view.loss(d.uuid, mps) for d in view.devices() for mps in (False, True)],
    "warm_from_s": lambda view: [view.warm_from_s(d.uuid) for d in view.devices()],
    "is_on_trial": _there(lambda view, uuid, job: view.is_on_trial(job.id, uuid)),
    "tries_enough": _each(lambda view, job: view.tries_enough(job)),
    "reservations": lambda view: [view.reservations(d.uuid) for d in view.devices()],
    "latest_end_s": _each(lambda view, job: view.latest_end_s(job)),
    "earliest_s": _there(
        lambda view, uuid, job: [view.earliest_s(uuid, m, 50.0, job) for m in (None, 2 * GIB)]
    ),
    "every_reserved": lambda view: view.every_reserved(),
    "reserved_for_users": lambda view: list(view.reserved_for_users()),
    "first_of": lambda view: [(j := view.first_of(r)) and j.id for r in view.reserved_for_users()],
    "reservations_change_s": lambda view: list(view.reservations_change_s()),
    "free_from_s": _there(lambda view, uuid, job: view.free_from_s(job, uuid, view.now.boot_s)),
    "nodes": lambda view: view.nodes(),
    "launches_paused": lambda view: view.launches_paused,
    "leaving": lambda view: [view.leaving(j, a) for j, a in view.running()],
    "refuse_start": _each(lambda view, job: view.refuse_start(job)),
    "refuse_on_nodes": _each(lambda view, job: view.refuse_on_nodes(job)),
    "first_for_nodes": _each(lambda view, job: (f := view.first_for_nodes(job)) and f.id),
    "refuse_gpus": _each(lambda view, job: view.refuse_gpus(job, 2)),
    "spare_gpus": _each(lambda view, job: view.spare_gpus(job)),
    "precedes": lambda view: [
        view.precedes(job, live) for job in view.waiting() for live in _live(view)
    ],
    "suitable": _roles(lambda view, job, role: list(view.suitable(job, role))),
    "need_mib": _roles(lambda view, job, role: view.need_mib(job, role)),
    "next_by_turn": lambda view: [
        (j := view.next_by_turn(d.uuid)) and j.id for d in view.devices()
    ],
    "prefers": _each(lambda view, job: view.prefers(job)),
    "rank": _each(lambda view, job: [view.rank(job, d) for d in view.devices()]),
    "offers": _roles(lambda view, job, role: view.offers(job, role)),
    "offer": _there(
        lambda view, uuid, job: view.offer(job, job.spec.roles[0], uuid, Collocation.TIMESLICE)
    ),
}
"""Each question that a fast planner can ask."""

OF_SNAPSHOT: dict[str, Callable[[Snapshot], Any]] = {
    "version": lambda found: found.version,
    "jobs_version": lambda found: found.jobs_version,
    "now": lambda found: found.now,
    "settings": lambda found: found.settings,
    "for_users": lambda found: found.for_users,
    "job": lambda found: [found.job(job.id) for job in _sorted(found)],
    "jobs": lambda found: _sorted(found),
    "attempt": lambda found: [found.attempt(job.id) for job in _sorted(found)],
    "live_attempt": lambda found: [found.live_attempt(job.id, 1) for job in _sorted(found)],
    "running": lambda found: found.running,
    "trouble": lambda found: [found.trouble(attempt) for _, attempt in found.running],
    "used_now": lambda found: [found.used_now(attempt) for _, attempt in found.running],
    "waiting": lambda found: found.waiting,
    "lines": lambda found: found.lines,
    "first": lambda found: found.first(2),
    "aside": lambda found: found.aside,
    "position": lambda found: [found.position(job) for job in _sorted(found)],
    "head": lambda found: [found.head(job) for job in _sorted(found)],
    "uses": lambda found: found.uses,
    "devices": lambda found: found.devices,
    "nodes": lambda found: found.nodes,
    "device": lambda found: [found.device(each.device.uuid) for each in found.devices],
    "is_doubted": lambda found: [found.is_doubted(each.device.uuid) for each in found.devices],
}
"""Each question that a slow planner can ask beside `view`."""

SAME_IN_VIEW: dict[str, Callable[[View], Any]] = {
    **{name: OF_VIEW[name] for name in ("now", "settings", "uses", "jobs")},
    "running": lambda view: tuple(view.running()),
    "for_users": lambda view: view.every_reserved(),
    "devices": lambda view: view.every_device(),
    "nodes": lambda view: view.nodes(),
    "position": lambda view: [view.position(job) for job in OF_VIEW["jobs"](view)],
}
FROM_THESE = {
    **dict.fromkeys(("version", "jobs_version"), "a count of changes"),
    **dict.fromkeys(("job", "attempt", "live_attempt", "aside"), "jobs and running"),
    **dict.fromkeys(("lines", "waiting", "first", "head"), "jobs and position"),
    **dict.fromkeys(("used_now", "device", "trouble"), "devices"),
    "is_doubted": "the refusals of offers",
    **dict.fromkeys(("data", "of"), "no question"),
}
"""From what a view tells these follow."""


def _sorted(found: Snapshot) -> list[Job]:
    return sorted(found.jobs, key=lambda job: job.id)


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def elsewhere(snapshot: Snapshot, order: Order) -> Snapshot:
    """The snapshot that another process makes of what it is sent."""
    sent = packed(snapshot.data())[LENGTH:]
    return Snapshot.of(msgspec.msgpack.decode(sent, type=StateData), order)


def test_each_question_is_asked_here() -> None:
    made = {"kept_offers", "searches", "answers", "scratch"}  # attributes
    assert public(View) | made == OF_VIEW.keys() | CACHES
    assert public(Snapshot) == OF_SNAPSHOT.keys() | {"data", "of"}


def test_what_a_snapshot_tells_a_view_tells_too() -> None:
    assert public(Snapshot) == SAME_IN_VIEW.keys() | FROM_THESE.keys()


def compare(world: World) -> None:
    here, view = world.scheduler.snapshot, world.scheduler.view
    there = elsewhere(here, world.order)
    for name, question in OF_SNAPSHOT.items():
        assert question(there) == question(here), name
    for name, ask in SAME_IN_VIEW.items():
        assert ask(view) == OF_SNAPSHOT[name](here), name
    for name, ask in OF_VIEW.items():
        told = ask(view)
        assert ask(here.view) == told, name
        assert ask(there.view) == told, name


ORDERS = (Fair(), LatestStart())


@pytest.mark.parametrize("order", [None, *ORDERS], ids=["fifo", "fair", "latest-start"])
@settings(max_examples=some(15))
@given(servers, lives)
def test_both_know_the_same(
    order: Order | None, server: tuple[Device, ...], life: list[Move]
) -> None:
    mover = Mover()
    limited = replace(SETTINGS, user_gpus=3, user_running_jobs=3, idle_unmanaged_mib=GIB)
    planners = (default_planner(Magm()), mover)
    world = World(server, planners=planners, order=order, settings=limited)
    for move in life:
        play(world, move)
        also_play(world, mover, server, move)
    compare(world)


def test_of_jobs_without_gpus_too() -> None:
    world = World(gpus(1), settings=CoreSettings(gpuless_at_once=1))
    for count in (1, 0, 1, 0, 1, 0):
        world.submit(30 * GIB if count else None, gpus=count, cpus=1)
    compare(world)
