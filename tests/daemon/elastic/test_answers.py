"""What the daemon makes of answers to a resize, in process: also of those that do not come."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.lifecycle.launching import start
from radrm.core.proposals import ResizeTo
from radrm.core.records import AttemptMemory, Job, Placement, Reading, Share
from radrm.core.words import Collocation, Resizing
from radrm.daemon.elastic import RELEASE_S, Resizes
from radrm.errors import Refused
from radrm.structs import replace
from tests.core.placements import Passive, propose
from tests.world import GIB, World, gpus

Done = list[dict[str, Any]]


class Folder:
    """The folder of attempts: it keeps each request until the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[Sequence[str]], Callable[[Done | None], None]]] = []
        self.there = True

    def exists(self, serial: int) -> bool:
        return self.there

    def act(
        self, serial: int, steps: Sequence[Sequence[str]], then: Callable[[Done | None], None]
    ) -> None:
        if steps[0][0] != "drop":
            self.asked.append((steps, then))

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The kinds and names of the steps of the last request."""
        return [(step[0], step[1]) for step in self.asked[-1][0]]


class Place:
    """A job on one GPU that is to have two, or the other way round, and what the daemon sees."""

    def __init__(self, before: int, after: int) -> None:
        self.world = World(gpus(2), planners=(Passive(),))
        job = self.world.submit(GIB, gpus=1, resizing=Resizing.LIVE)
        self.folder = Folder()
        self.launcher = Mock()
        clock = SimpleNamespace(
            now=lambda: self.world.now, scale=1.0, real_s=float, real_boot_s=float
        )
        self.launcher.group_of.return_value = "the group"
        self.isolation = Mock()
        site = SimpleNamespace(
            elastic=self.folder, mps=None, grace_s=30.0, isolation=self.isolation
        )
        site.cpu_bind = "socket"
        store = Mock()
        submission = store.submissions.of_job.return_value
        submission.envelope.environment = {}
        submission.job_file.return_value.options.cpu_bind = None
        parts: Any = SimpleNamespace(
            scheduler=self.world.scheduler,
            devices=SimpleNamespace(clock=clock),
            records=SimpleNamespace(store=store),
            attempts=SimpleNamespace(launcher=self.launcher, site=site),
        )
        self.parts = parts
        self.resizes = Resizes(parts, Mock(), Mock())
        self.job = self._on(job, before)
        self.action = self._asked(after)
        patch.object(self.resizes, "_text", return_value="the placement").start()

    def _on(self, job: Job, count: int) -> Job:
        role = replace(job.spec.roles[0], count_max=2)
        state = self.world.scheduler.state
        job = replace(job, spec=replace(job.spec, roles=(role,)))
        state.put_job(job)
        shares = tuple(Share(f"GPU-{n}", GIB, task=n) for n in range(count))
        start(state, job, Placement(shares, Collocation.TIMESLICE))
        self.world.step(ev.AttemptStarted(at=self.world.now, job_id=job.id, serial=1))
        return self.world.jobs[job.id]

    def _asked(self, count: int) -> act.Resize:
        attempt = self.world.live(self.job)
        assert attempt is not None
        self.world.obey = False
        shares = tuple(Share(f"GPU-{n}", GIB, task=n) for n in range(count))
        target = replace(attempt.placement, shares=shares)
        assert propose(self.world, ResizeTo(job_id=self.job.id, placement=target)) is None
        return next(a for a in reversed(self.world.actions) if isinstance(a, act.Resize))

    def restart(self) -> None:
        """Another daemon is asked for the same, some time later."""
        self.world.boot_s += 10.0
        self.resizes = Resizes(self.parts, Mock(), Mock())
        patch.object(self.resizes, "_text", return_value="the placement").start()

    @property
    def opens(self) -> list[list[str]]:
        """The devices that the attempt could open, after each change."""
        calls = self.isolation.change.call_args_list
        return [[device.uuid for device in call.args[1]] for call in calls]

    def answer(self, *done: dict[str, Any]) -> list[ev.Event]:
        """Answer the last request; no argument: it came to nothing."""
        _, then = self.folder.asked[-1]
        then(list(done) if done else None)
        return self.resizes.events()

    def read(self, uuid: str, held: bool = False, error: str | None = None) -> list[ev.Event]:
        """A later reading of a GPU."""
        self.world.boot_s += 1.0
        its = (AttemptMemory(self.job.id, 1, 100),) if held else ()
        reading = Reading(uuid, self.world.now, used_mib=0, smact=0.0, attempts=its, error=error)
        self.world.step(ev.ReadingsTaken(at=self.world.now, readings=(reading,)))
        return self.resizes.events()

    def later(self, seconds: float) -> list[ev.Event]:
        self.world.boot_s += seconds
        return self.resizes.events()


def resized(place: Place, **fields: Any) -> dict[str, Any]:
    generation = place.action.generation
    tasks = [["main", share.task] for share in place.action.target.shares]
    known = {"version": 1, "generation": generation, "tasks": tasks, **fields}
    return {"text": json.dumps(known)}


NOTHING: dict[str, Any] = {"text": None}
WRITTEN: dict[str, Any] = {"new": True}
PLACED = [("keep", "placement-2.json"), ("read", "resized-2.json")]
WITHDRAWN = [("keep", "begun-2"), ("read", "begun-2"), ("read", "resized-2.json")]


@pytest.fixture
def grows() -> Place:
    place = Place(1, 2)
    place.resizes.begin(place.action)
    return place


@pytest.fixture
def shrinks() -> Place:
    place = Place(2, 1)
    place.resizes.begin(place.action)
    return place


def test_the_placement_is_written_once_and_the_answer_looked_for(grows: Place) -> None:
    assert grows.folder.steps == PLACED
    assert grows.answer(WRITTEN, NOTHING) == []
    assert grows.resizes.due_s == grows.world.now.boot_s + 1.0
    assert grows.later(0.5) == [] and len(grows.folder.asked) == 1
    grows.later(0.5)
    assert grows.folder.steps == PLACED[1:]
    grows.answer(NOTHING)
    grows.resizes.look_soon([1, 7])
    grows.later(0.0)
    assert len(grows.folder.asked) == 3, "it says that it has answered"
    (event,) = grows.answer(resized(grows))
    assert isinstance(event, ev.Resized)
    assert (event.target, event.generation) == (grows.action.target, 2)


def test_the_cpus_are_those_near_the_new_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(32)))
    place = Place(1, 2)
    world = place.world
    cpus = {"GPU-0": "0-7", "GPU-1": "8-15"}
    seen = tuple(replace(d, socket_cpus=cpus.get(d.uuid)) for d in world.devices)
    world.step(ev.DevicesSeen(at=world.now, devices=seen))
    place.resizes.begin(place.action)
    (event,) = place.answer(WRITTEN, resized(place))
    assert isinstance(event, ev.Resized) and event.cpu_list == "0-15"
    world.step(event)
    assert world.live(place.job).cpu_list == "0-15"


def test_the_limits_are_those_of_the_larger_size_meanwhile() -> None:
    place = Place(1, 2)
    place.resizes.begin(place.action)
    assert place.launcher.set_shares.call_args.args == (1, None, None)
    place.launcher.set_shares.side_effect = Refused("no group")
    (event,) = place.answer(WRITTEN, resized(place))
    assert isinstance(event, ev.Resized), "a server that limits nothing"


def test_the_job_can_open_old_and_new_gpus_meanwhile() -> None:
    place = Place(2, 1)
    place.resizes.begin(place.action)
    place.answer(WRITTEN, resized(place))
    assert place.opens == [["GPU-0", "GPU-1"]], "it may still be there"
    (event,) = place.read("GPU-1")
    assert isinstance(event, ev.Resized)
    assert place.opens[1:] == [["GPU-0"]]


def test_a_resize_that_fails_leaves_the_gpus_before(grows: Place) -> None:
    grows.answer(WRITTEN, resized(grows, failed="no port"))
    (event,) = grows.read("GPU-1")
    assert isinstance(event, ev.ActionFailed)
    assert grows.opens == [["GPU-0", "GPU-1"], ["GPU-0"]]


def test_a_gpu_that_the_job_could_not_open_is_refused() -> None:
    place = Place(1, 2)
    place.isolation.change.side_effect = Refused("no device files of GPU 1")
    with pytest.raises(Refused, match="no device files"):
        place.resizes.begin(place.action)
    assert place.resizes.due_s is None and not place.folder.asked


def test_what_comes_to_nothing_is_tried_again(grows: Place) -> None:
    assert grows.answer() == []
    grows.later(1.0)
    assert grows.folder.steps == PLACED


def test_the_same_action_begins_nothing_twice(grows: Place) -> None:
    grows.resizes.begin(grows.action)
    assert len(grows.folder.asked) == 1
    grows.answer({"new": False}, NOTHING)
    assert grows.later(1.0) == [] and grows.folder.steps == PLACED[1:]


def test_a_folder_that_takes_no_placement_is_withdrawn(grows: Place) -> None:
    grows.answer({"error": "No space left on device"}, NOTHING)
    assert grows.folder.steps == WITHDRAWN, "it may have the name all the same"
    grows.answer(WRITTEN, {"text": '{"version": 1, "by": "radrm"}'}, NOTHING)
    (event,) = grows.read("GPU-1")
    assert isinstance(event, ev.ActionFailed) and not event.stops
    assert event.reason == "its folder takes no placement: No space left on device"


@pytest.mark.parametrize("begun", ["", "{", '{"by": "radrun"}', "[1]", None])
def test_what_has_begun_is_not_withdrawn(grows: Place, begun: str | None) -> None:
    grows.answer(WRITTEN, NOTHING)
    grows.resizes.begin(replace(grows.action, withdrawn=True))
    assert grows.folder.steps == WITHDRAWN
    assert grows.answer({"new": False}, {"text": begun}, NOTHING) == []
    grows.later(1.0)
    assert grows.folder.steps == PLACED[1:]
    (event,) = grows.answer(resized(grows))
    assert isinstance(event, ev.Resized)


def test_a_daemon_that_was_killed_while_it_withdrew_has_withdrawn(grows: Place) -> None:
    later = Place(1, 2)
    later.resizes.begin(replace(later.action, withdrawn=True))
    assert later.folder.steps == WITHDRAWN, "no placement is written now"
    later.answer({"new": False}, {"text": '{"version": 1, "by": "radrm"}'}, NOTHING)
    (event,) = later.read("GPU-1")
    assert isinstance(event, ev.ActionFailed)


def test_an_answer_that_cannot_be_read(shrinks: Place) -> None:
    shrinks.answer(WRITTEN, {"error": "resized-2.json is not a file"})
    assert shrinks.folder.steps == WITHDRAWN
    (event,) = shrinks.answer({"new": False}, NOTHING, {"error": "resized-2.json is not a file"})
    assert isinstance(event, ev.ActionFailed)
    assert event.reason == "radrun's answer cannot be read: resized-2.json is not a file"


def test_a_job_that_has_ended_is_forgotten(grows: Place) -> None:
    grows.world.end(grows.job)
    assert grows.answer(WRITTEN, resized(grows)) == []
    assert grows.resizes.due_s is None


def test_a_job_of_another_launcher_is_refused() -> None:
    place = Place(1, 2)
    spec = replace(place.job.spec, resizing=Resizing.RESTART)
    place.world.scheduler.state.put_job(replace(place.world.jobs[place.job.id], spec=spec))
    with pytest.raises(Refused, match="its launcher is not radrun"):
        place.resizes.begin(place.action)


def test_a_job_whose_folder_is_gone_keeps_its_tasks() -> None:
    place = Place(1, 2)
    place.folder.there = False
    with pytest.raises(Refused, match="was removed, so its tasks cannot change"):
        place.resizes.begin(place.action)


@pytest.mark.parametrize("how", ["restart", "withdrawn", "pending"])
def test_one_that_may_have_begun_and_cannot_be_followed_is_stopped(how: str) -> None:
    place = Place(1, 2)
    if how == "pending":
        place.resizes.begin(place.action)
    elif how == "restart":
        place.restart()
    place.folder.there = False
    event = place.resizes.begin(replace(place.action, withdrawn=how != "restart"))
    assert isinstance(event, ev.ActionFailed) and event.stops


def test_one_of_an_earlier_daemon_that_cannot_go_on_is_withdrawn() -> None:
    """That daemon may have told radrun of it, so the tasks may have changed."""
    place = Place(1, 2)
    place.restart()
    place.isolation.change.side_effect = Refused("no device files of GPU 1")
    assert place.resizes.begin(place.action) is None
    assert place.folder.steps == WITHDRAWN
    (event,) = place.answer({"new": False}, {"text": "{}"}, resized(place))
    assert isinstance(event, ev.Resized), "radrun has begun, and says so"


# ------------------------------------------------------------------ what is believed


def test_a_gpu_is_free_when_a_later_reading_shows_nothing_of_the_job(shrinks: Place) -> None:
    assert shrinks.answer(WRITTEN, resized(shrinks)) == []
    assert shrinks.read("GPU-1", held=True) == []
    assert shrinks.read("GPU-1", error="no answer") == []
    (event,) = shrinks.read("GPU-1")
    assert isinstance(event, ev.Resized)
    assert shrinks.later(1.0) == []


def test_a_job_that_stays_is_stopped(shrinks: Place) -> None:
    shrinks.answer(WRITTEN, resized(shrinks))
    shrinks.read("GPU-1", held=True)
    (event,) = shrinks.later(RELEASE_S)
    assert isinstance(event, ev.ActionFailed) and event.stops
    assert event.reason == "it has processes on GPU-1, 5 s after it gave that GPU back"


def test_a_job_that_stays_after_a_failure_is_stopped(grows: Place) -> None:
    failed = {"text": json.dumps({"version": 1, "generation": 2, "failed": "no room"})}
    grows.answer(WRITTEN, failed)
    grows.read("GPU-1", held=True)
    (event,) = grows.later(RELEASE_S)
    assert isinstance(event, ev.ActionFailed) and event.stops


def test_a_gpu_that_is_not_read_takes_no_job_so_the_claim_counts(shrinks: Place) -> None:
    shrinks.answer(WRITTEN, resized(shrinks))
    assert shrinks.read("GPU-1", error="no answer") == []
    (event,) = shrinks.later(RELEASE_S)
    assert isinstance(event, ev.Resized)


def test_after_a_failure_the_new_gpu_has_to_be_free(grows: Place) -> None:
    failed = {"text": json.dumps({"version": 1, "generation": 2, "failed": "no room"})}
    assert grows.answer(WRITTEN, failed) == []
    assert grows.read("GPU-1", held=True) == []
    (event,) = grows.read("GPU-1")
    assert isinstance(event, ev.ActionFailed) and not event.stops
    assert event.reason == "radrun: no room"
