"""A host that can be slow, and that fails."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar, cast

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job, Kept, RuleState
from radrm.structs import replace
from tests.world import World

T = TypeVar("T")
Stored = dict[tuple[str, object], "Job | Attempt | RuleState"]


class Host(World):
    """A host that can be slow: what it then does not do at once, later moves do."""

    launches = "work"
    """work | wait (nobody hears of them yet) | pass (the disk is full) | fail"""
    patient = False
    """A TERM is not obeyed at once."""

    def decide(self, event: ev.Event) -> Decision:
        self.scheduler.state.timers._most = 0  # unneeded timers go at once, as where there are many
        return super().decide(event)

    def _save(self, decision: Decision) -> None:
        super()._save(decision)
        for record in decision.changed:
            if isinstance(record, Job):
                self.durable["job", record.id] = record
            elif isinstance(record, Attempt):
                self.durable["attempt", record.serial] = record
            elif isinstance(record, RuleState):
                self.durable["rule", (record.kind, record.name)] = record

    @cached_property
    def durable(self) -> Stored:
        """What a store has that has lost every volatile record."""
        return {}

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Launch) and self.launches != "work":
            if self.launches != "wait":
                passing = self.launches == "pass"
                reason = "disk full" if passing else "no such user"
                self.step(
                    ev.ActionFailed(at=self.now, action=action, reason=reason, transient=passing)
                )
        elif isinstance(action, act.Terminate) and self.patient:
            pass
        elif isinstance(action, act.Kill):
            if self.scheduler.state.live_attempt(action.job_id, action.serial):
                self.end(action.job_id, signal=9)
        else:
            super()._do(action)

    def kept(self, lost: bool = False) -> Kept:
        """What a store would give to the next daemon. `lost`: without any volatile record."""

        def stored(kind: str, key: object, newest: T) -> T:
            return cast("T", self.durable[kind, key]) if lost else newest

        kept = super().kept()
        return replace(
            kept,
            jobs=[stored("job", job.id, job) for job in kept.jobs],
            attempts=[stored("attempt", a.serial, a) for a in kept.attempts],
            rule_states=[stored("rule", key, r) for key, r in self.rule_states.items()],
        )
