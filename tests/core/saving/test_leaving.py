"""What follows the end of a job that was asked to save: a table of request, proof and exit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core.proposals import Migrate, Preempt, Proposal, TakeCheckpointNow
from radrm.core.records import Checkpoint, Exit, Progress
from radrm.core.words import CheckpointKind, JobState, Outcome
from tests.core.placements import CORE, on
from tests.core.saving.server import (
    BAD,
    BY_TERM,
    BY_USR1,
    CRASHED,
    DONE,
    EXIT,
    FAILED,
    KILLED,
    LEFT,
    LOST,
    OK,
    OOM,
    PATIENCE_S,
    SHELL_BY_TERM,
    SIGNAL,
    UNKNOWN,
    ask,
    end,
    save,
    saving,
)
from tests.world import GIB, World, gpus


@dataclass(frozen=True)
class End:
    """What was known when a job of this kind ended, and the state and outcome that follow."""

    kind: CheckpointKind
    how: Exit
    outcome: Outcome
    asked: bool = True
    reported: float | None = None
    proven: float | None = None
    file: bool = False
    answered: bool = False
    lost: bool = False
    oom: bool = False
    later_s: float = 5.0
    """Seconds from the request and the last report to the end."""


ENDS = {
    "exit: nobody asked": End(EXIT, OK, DONE, asked=False),
    "exit: nobody asked, died of TERM": End(EXIT, BY_TERM, FAILED, asked=False),
    "exit: left": End(EXIT, OK, LEFT),
    "exit: left, with a file": End(EXIT, OK, LEFT, file=True),
    "exit: died of TERM": End(EXIT, BY_TERM, LEFT),
    "exit: a shell says so": End(EXIT, SHELL_BY_TERM, LEFT),
    "exit: at any later time": End(EXIT, OK, LEFT, later_s=10 * PATIENCE_S),
    "exit: half done": End(EXIT, OK, LEFT, reported=0.5),
    "exit: all done": End(EXIT, OK, DONE, reported=1.0),
    "exit: all done, by the file": End(EXIT, OK, DONE, proven=1.0),
    "exit: nearly done": End(EXIT, OK, LEFT, reported=0.9999),
    "exit: all done, but died of TERM": End(EXIT, BY_TERM, LEFT, reported=1.0),
    "exit: an error": End(EXIT, BAD, FAILED),
    "exit: an error, saved": End(EXIT, BAD, LEFT, proven=0.5),
    "exit: an error, and a report of a save": End(EXIT, BAD, LEFT, answered=True),
    "exit: an error, all done and saved": End(EXIT, BAD, LEFT, reported=1.0, proven=1.0),
    "exit: an error, and a newer file": End(EXIT, BAD, FAILED, file=True),
    "exit: an error, saved, much later": End(EXIT, BAD, FAILED, proven=0.5, later_s=PATIENCE_S + 1),
    "exit: an error, saved, nobody asked": End(EXIT, BAD, FAILED, asked=False, proven=0.5),
    "exit: killed, saved": End(EXIT, KILLED, LEFT, proven=0.5),
    "exit: killed": End(EXIT, KILLED, FAILED, file=True),
    "exit: crashed, saved": End(EXIT, CRASHED, LEFT, proven=0.5),
    "exit: out of memory, saved": End(EXIT, BAD, LEFT, proven=0.5, oom=True),
    "exit: out of memory": End(EXIT, BAD, Outcome.OOM, oom=True),
    "exit: lost, saved": End(EXIT, UNKNOWN, LEFT, proven=0.5, lost=True),
    "exit: lost": End(EXIT, UNKNOWN, LOST, lost=True),
    "signal: lost, saved": End(SIGNAL, UNKNOWN, LOST, proven=0.5, lost=True),
    "signal: out of memory, saved": End(SIGNAL, BAD, Outcome.OOM, proven=0.5, oom=True),
    "signal: killed, saved": End(SIGNAL, KILLED, FAILED, proven=0.5),
    "signal: nobody asked": End(SIGNAL, OK, DONE, asked=False, reported=0.5),
    "signal: nothing known": End(SIGNAL, OK, DONE),
    "signal: all done": End(SIGNAL, OK, DONE, reported=1.0, file=True),
    "signal: half done": End(SIGNAL, OK, LEFT, reported=0.5),
    "signal: half done, answered": End(SIGNAL, OK, LEFT, reported=0.5, answered=True),
    "signal: half done, much later": End(SIGNAL, OK, DONE, reported=0.5, later_s=PATIENCE_S + 1),
    "signal: the last report is a little old": End(SIGNAL, OK, DONE, reported=0.999),
    "signal: saved": End(SIGNAL, OK, LEFT, proven=0.5),
    "signal: saved, by a file": End(SIGNAL, OK, LEFT, file=True),
    "signal: answered, and went on": End(SIGNAL, OK, DONE, answered=True),
    "signal: killed by it": End(SIGNAL, BY_USR1, LEFT),
    "signal: killed by another": End(SIGNAL, BY_TERM, FAILED),
    "signal: an error": End(SIGNAL, BAD, FAILED, proven=0.5),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=list(ENDS))
def test_an_end_after_a_request_to_save(case: End) -> None:
    world, job = saving(case.kind)
    if case.asked:
        ask(world)
    if case.answered:
        save(world, job, None)
    if case.reported is not None:
        world.report(job, work_done=case.reported)
    proven = Progress(world.now, work_done=case.proven) if case.proven is not None else None
    world.pass_time(case.later_s)
    said: dict[str, object] = {"lost": "its runner was killed"} if case.lost else {}
    if case.oom:
        said["oom"] = OOM
    job = end(world, job, case.how, saved=proven, saved_since_asked=case.file, **said)
    attempt = world.attempts[1, 1]
    states = {
        DONE: JobState.COMPLETED,
        FAILED: JobState.FAILED,
        LOST: JobState.FAILED,
        LEFT: JobState.LAUNCHING,
        Outcome.OOM: JobState.LAUNCHING,
    }
    assert (attempt.outcome, job.state) == (case.outcome, states[case.outcome])
    if proven is not None:
        assert (job.saved, job.saved_at) == (proven, proven.at)
    if case.outcome is LEFT:
        assert job.progress == job.saved and attempt.reason
        assert (job.saved_at is not None) is bool(case.proven or case.file or case.answered)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "proposal",
    [
        TakeCheckpointNow(job_id=1),
        Preempt(job_id=1),
        Preempt(job_id=1, behind=True),
        Migrate(job_id=1, placement=on("GPU-1")),
    ],
)
def test_whoever_asked_a_save_counts_more_than_the_exit(proposal: Proposal, restart: bool) -> None:
    """`torchrun` ends with 1 when it is asked to end."""
    world, job = saving(EXIT)
    ask(world, proposal)
    world.pass_time(5.0)
    saved = Progress(world.now, work_done=0.5)
    if restart:
        world.restart()
    job = end(world, job, BAD, saved=saved, saved_since_asked=True)
    assert (world.attempts[1, 1].outcome, job.saved) == (LEFT, saved)
    assert not job.state.final and job.retries_used == 0
    goes_to = ("GPU-1",) if isinstance(proposal, Migrate) else ("GPU-0",)
    assert world.where(1) == goes_to


@pytest.mark.parametrize(
    ("spec", "saved", "goes_on"),
    [
        ({"retries": 2}, True, True),
        ({"retries": 2}, False, True),
        ({"retries": 0}, True, False),
        ({"retries": 2, "retry_on": ((1, 1),)}, True, True),  # a loss has no exit code
        ({"retries": 2, "checkpoint": Checkpoint()}, True, True),  # it saves, if nobody asks
        ({"retries": 2, "checkpoint": Checkpoint()}, False, False),
        ({"requeue": True}, False, True),
    ],
)
def test_a_lost_job_that_can_go_on_uses_a_retry(
    spec: dict[str, Any], saved: bool, goes_on: bool
) -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(GIB, **{"checkpoint": Checkpoint(SIGNAL), **spec})
    world.obey = False
    world.pass_time(3600.0)
    proven = Progress(world.now, work_done=0.5) if saved else None
    job = end(world, job, UNKNOWN, lost="its runner was killed", saved=proven)
    assert world.attempts[1, 1].outcome is LOST
    assert job.state.final is not goes_on and job.saved == proven
    uses = goes_on and not job.spec.requeue
    assert job.retries_used == uses and (job.pause is not None) is uses
