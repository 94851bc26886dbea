"""How tasks have ended: the main process decides, the launcher's word tells more."""

from __future__ import annotations

import pytest

from radrm.core.records import Attempt, Exit, Job, Task
from radrm.core.words import Resizing
from radrm.daemon.elastic import exits_of, host_oom_of
from radrm.host.attempts.evidence import Ended, TaskExit
from radrm.structs import replace
from tests.world import GIB, World, gpus

OK, FAILED, TERM = Exit(0), Exit(3), Exit(signal=15)


def attempt_of(tasks: int, resizing: Resizing = Resizing.LIVE) -> tuple[World, Job, Attempt]:
    world = World(gpus(1))
    job = world.submit(GIB, resizing=resizing)
    attempt = world.scheduler.state.attempts[job.id]
    return world, job, replace(attempt, tasks=tuple(Task(number=n) for n in range(tasks)))


def ended(world: World, main: Exit, *tasks: Exit, oom: int | None = None, mib: int = 64) -> Ended:
    told = tuple(TaskExit("main", n, each, n == oom) for n, each in enumerate(tasks))
    exceeded = mib if oom is not None else None
    return Ended(world.now, main, None, None, exceeded_mib=exceeded, tasks=told)


@pytest.mark.parametrize(
    ("main", "told", "exits"),
    [
        (OK, (), (OK, OK)),
        (OK, (OK, FAILED), (OK, OK)),  # the script went on after a program that failed
        (FAILED, (), (FAILED, FAILED)),
        (FAILED, (OK, OK), (FAILED, FAILED)),  # what came after the launcher failed
        (FAILED, (TERM, FAILED), (TERM, FAILED)),
        (FAILED, (FAILED,), (FAILED, Exit())),  # nobody knows how the other ended
        (FAILED, (FAILED, OK, FAILED), (FAILED, OK)),  # it tells of a task too many
        (TERM, (Exit(), Exit()), (TERM, TERM)),
    ],
)
def test_one_exit_for_each_task(
    main: Exit, told: tuple[Exit, ...], exits: tuple[Exit, ...]
) -> None:
    world, _, attempt = attempt_of(2)
    assert exits_of(attempt, ended(world, main, *told)) == exits


def test_the_role_of_a_task_that_died_at_the_limit_of_host_memory() -> None:
    world, job, attempt = attempt_of(2)
    roles = replace(attempt, tasks=(Task("worker", 0), Task("ps", 0)))
    told = (TaskExit("worker", 0, TERM), TaskExit("ps", 0, Exit(signal=9), True))
    end = Ended(world.now, FAILED, None, None, exceeded_mib=64, tasks=told)
    assert host_oom_of(job, roles, end) == "ps"
    assert host_oom_of(job, roles, replace(end, tasks=())) == "worker", (
        "the first one, without a word"
    )
    assert host_oom_of(job, attempt, end) == "main", "it has no such role"
    assert host_oom_of(job, roles, replace(end, exceeded_mib=None)) is None, "no limit was reached"


@pytest.mark.parametrize(("resizing", "role"), [(Resizing.LIVE, None), (Resizing.NONE, "main")])
def test_a_launcher_can_replace_a_task_that_died(resizing: Resizing, role: str | None) -> None:
    world, job, attempt = attempt_of(1, resizing)
    assert host_oom_of(job, attempt, ended(world, OK, OK, oom=0)) == role
