"""GPUs with jobs that were put there by name, and whose categories a test writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from radrm.core import actions as act
from radrm.core.records import Checkpoint, Job
from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.core.words import CheckpointKind
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.published.convergence import Note
from radrm.published.specon import SpeCon
from radrm.structs import replace
from tests.world import GIB, World, default_planner, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL, cost_s=5.0)


@dataclass(frozen=True, slots=True)
class Commented(Magm):
    """Puts a job where its comment says."""

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        named = [offer for offer in eligible if offer.device.uuid == ask.job.spec.comment]
        return (named or eligible)[: ask.gpus], state


POLICY = Commented(max_smact=1.0, timeslice_max_smact=1.0, min_free_mib=0, margin_mib=0)
PC, WC, CC = "progressing", "watching", "converged"


def specon(measure: str = "paper", policy: Any = POLICY, **settings: Any) -> SpeCon:
    return SpeCon(policy, Exclusive(), measure=measure, **settings)


class Farm(World):
    """GPUs with jobs, each of which can save its work."""

    def __init__(self, rule: SpeCon, *there: Sequence[str], kinds: Sequence[str] = ()) -> None:
        """`there` has the categories of the jobs of each GPU."""
        devices = gpus(len(there), total_mib=80 * GIB)
        devices = tuple(replace(d, name=k) for d, k in zip(devices, kinds, strict=False)) or devices
        super().__init__(devices, planners=(default_planner(POLICY), rule))
        self.rule = rule
        self.on: list[list[Job]] = []
        for index, categories in enumerate(there):
            self.on.append([self.put(index) for _ in categories])
        self.converge(
            {
                job.id: category
                for jobs, categories in zip(self.on, there, strict=True)
                for job, category in zip(jobs, categories, strict=True)
            }
        )

    def put(self, index: int, **changed: Any) -> Job:
        wants = {"checkpoint": CAN_SAVE, "smact": 0.9, **changed}
        job = self.submit(2 * GIB, comment=f"GPU-{index}", **wants)
        self.pass_time(0.01)
        assert self.where(job) == (f"GPU-{index}",)
        return job

    def converge(self, categories: dict[int, str]) -> None:
        """Restart with these categories in the rule's state, as if the losses had said so."""
        kept = self.rule_states["planner", "specon"]
        for at, (job_id, category) in enumerate(categories.items()):
            attempt = self.live(job_id)
            kept.state["jobs"].setdefault(str(job_id), plain_note(attempt.serial)).update(
                category=category, since=at + 1, loss=1.0, gain=0.005, high=11.0, fall=10.0
            )
            kept.state["count"] = max(kept.state["count"], at + 1)
        self.restart()

    def interval(self, losses: dict[int, float] | None = None, done: float = 0.5) -> None:
        """Pass one interval; at its end these jobs have reported these losses."""
        self.boot_s += self.rule.interval_s - 1.0
        for job_id, loss in (losses or {}).items():
            self.report(job_id, loss=loss, work_done=done)
        self.pass_time(1.0)

    def note(self, job: Job) -> dict[str, Any]:
        kept = self.rule_states["planner", "specon"].state["jobs"][str(job.id)]
        note = Note(**kept)
        return asdict(note)

    def count(self, index: int) -> int:
        return sum(self.where(job_id) == (f"GPU-{index}",) for job_id in self.jobs)

    @property
    def moves(self) -> list[int]:
        return [a.job_id for a in self.actions if isinstance(a, act.TakeCheckpoint)]


def plain_note(serial: int) -> dict[str, Any]:
    return Note(serial).plain()
