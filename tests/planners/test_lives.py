"""SpeCon in random lives: reports, saves that come, fail or never come, ends and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Checkpoint, Job
from radrm.core.words import ActionKind, CheckpointKind, ReservationKind
from radrm.published.specon import SpeCon
from tests.examples import some
from tests.planners.farm import POLICY, specon
from tests.world import GIB, World, default_planner, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL, cost_s=0.5)


@dataclass(frozen=True)
class Move:
    """One thing that happens, to the job that `pick` selects."""

    kind: str
    pick: int = 0
    loss: float = 1.0


class Saving(World):
    """Its jobs save when a move says so; it counts who was given a target."""

    def __init__(self, rule: SpeCon) -> None:
        self.targets: Counter[int] = Counter()
        super().__init__(gpus(3, total_mib=80 * GIB), planners=(default_planner(POLICY), rule))

    def _do(self, action: act.Action) -> None:
        if not isinstance(action, act.TakeCheckpoint):
            super()._do(action)

    def _save(self, decision: Decision) -> None:
        before = dict(self.jobs)
        super()._save(decision)
        for job_id, job in self.jobs.items():
            was = before.get(job_id)
            self.targets[job_id] += job.target is not None and (was is None or was.target is None)

    def notes(self) -> dict[str, Any]:
        kept = self.rule_states.get(("planner", "specon"))
        return {} if kept is None else kept.state["jobs"]

    def asked(self) -> list[Job]:
        live = [self.live(job_id) for job_id in self.jobs]
        return [self.jobs[a.job_id] for a in live if a and a.asked(ActionKind.CHECKPOINT)]


def play(world: Saving, move: Move) -> None:
    live = [job_id for job_id in sorted(world.jobs) if world.live(job_id)]
    asked = world.asked()
    if move.kind == "submit":
        kinds = {0: Checkpoint()}
        world.submit(4 * GIB, smact=0.9, checkpoint=kinds.get(move.pick % 5, CAN_SAVE))
    elif move.kind == "converge":
        for loss in (1.0, move.loss, move.loss * 0.9999, move.loss * 0.99985):
            world.boot_s += 29.0
            for job_id in live:
                if world.live(job_id) and (job_id + move.pick) % 3:
                    world.report(job_id, loss=loss, work_done=0.1)
            world.pass_time(1.0)
    elif move.kind in ("saved", "failed") and asked:
        job = asked[move.pick % len(asked)]
        attempt = world.live(job)
        event = ev.CheckpointTaken(
            at=world.now, job_id=job.id, serial=attempt.serial, progress=job.progress
        )
        pending = attempt.asked(ActionKind.CHECKPOINT)
        action = act.TakeCheckpoint(
            job_id=job.id, serial=attempt.serial, due_boot_s=pending.due_boot_s
        )
        failed = ev.ActionFailed(at=world.now, action=action, reason="no answer")
        world.step(event if move.kind == "saved" else failed)
    elif move.kind in ("end", "lost", "cancel") and live:
        job_id = live[move.pick % len(live)]
        if move.kind == "cancel":
            world.cancel(job_id)
        else:
            world.end(job_id, lost="gone" if move.kind == "lost" else None)
    elif move.kind == "restart":
        world.restart()
    elif move.kind == "reboot":
        world.boot_s = 10.0
        world.restart()
    elif move.kind == "time":
        world.pass_time(20.0 * (1 + move.pick))


def moves_of(note: dict[str, Any]) -> int:
    return bool(note.get("moved")) + bool(note.get("rebalanced"))


def check(world: Saving, rule: SpeCon) -> None:
    for (owner, uuid), reservation in world.reservations.items():
        if reservation.kind is ReservationKind.MIGRATION:
            job = world.jobs[int(owner.removeprefix("job:"))]
            assert job.target is not None, "a reservation for a job that does not come"
            assert uuid in job.target.devices
    for job_id, job in world.jobs.items():
        if job.target is not None:
            kept = [r for r in world.stored.values() if r.job_id == job_id]
            assert any(r.kind is ReservationKind.MIGRATION for r in kept)
    notes = world.notes()
    for job_id, count in world.targets.items():
        if count:
            assert world.jobs[job_id].spec.checkpoint.kind is not CheckpointKind.NONE
        note = notes.get(str(job_id))
        if note is not None:
            assert count <= moves_of(note), "moved twice by one algorithm"
            if rule.measure == "relative":
                assert count == moves_of(note)
        assert count <= 2
    assert len(notes) <= len(world.jobs)


moves = st.lists(
    st.one_of(
        st.builds(Move, kind=st.just("submit"), pick=st.integers(0, 9)),
        st.builds(
            Move,
            kind=st.just("converge"),
            pick=st.integers(0, 2),
            loss=st.sampled_from([0.5, 0.999, 0.9999]),
        ),
        st.builds(
            Move,
            kind=st.sampled_from(
                ["saved", "saved", "failed", "end", "lost", "cancel", "restart", "reboot", "time"]
            ),
            pick=st.integers(0, 40),
        ),
    ),
    min_size=4,
    max_size=30,
)


@settings(max_examples=some(60), deadline=None)
@given(st.sampled_from(["relative", "paper"]), st.integers(2, 9), moves)
def test_whatever_happens(measure: str, jobs: int, life: list[Move]) -> None:
    rule = specon(measure, min_gain=0.01, interval_s=30.0)
    world = Saving(rule)
    for _ in range(jobs):
        world.submit(4 * GIB, smact=0.9, checkpoint=CAN_SAVE)
    for move in life:
        play(world, move)
        check(world, rule)
    assert not [line for decision in world.decisions for line in decision.log_lines]
