"""With `profile`, a job whose program has not run on a kind of GPU is placed there."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Job, JobSpec, Profiled
from radrm.published.andreas import Andreas
from radrm.structs import replace
from tests.world import GIB, World, gpus

NAMES = ("Tesla V100", "Tesla T4")


def where(fingerprint: str | None, **rule: Any) -> str:
    """The kind of GPU on which a job starts that is known on V100s only."""
    devices = gpus(2, 16 * GIB)
    mixed = tuple(replace(d, name=name) for d, name in zip(devices, NAMES, strict=True))
    world = World(mixed, planners=(Andreas(max_iterations=60, gpu_watts=100.0, **rule),))
    spec = JobSpec(name="a", user="ann", uid=1000, due_s=world.now.wall_s + 5000)
    known = (Profiled("Tesla V100", 1, 1000.0),)
    job = Job(1, "T1", spec, world.now, profile=known, fingerprint=fingerprint)
    world.step(ev.JobSubmitted(at=world.now, job=job))
    for _ in range(3):
        world.pass_time(1.0)
    (device,) = world.where(1)
    return next(each.name for each in mixed if each.uuid == device)


@pytest.mark.parametrize("seed", range(5))
def test_a_kind_on_which_the_program_has_not_run_is_tried(seed: int) -> None:
    assert where("x", profile=True, method="greedy", seed=seed) == "Tesla T4"


def test_nothing_is_tried_where_no_run_teaches() -> None:
    assert where(None, profile=True, method="greedy") == where("x", method="greedy")
    assert where("x", method="greedy") == "Tesla V100"
