"""A host that can be slow, that fails, and that knows what a store would keep."""

from __future__ import annotations

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.adoption import Kept
from tests.world import World


class Host(World):
    """A host that can be slow: what it then does not do at once, later moves do."""

    launches = "work"
    """work | wait (nobody hears of them yet) | pass (the disk is full) | fail"""
    patient = False
    """A TERM is not obeyed at once."""

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Launch) and self.launches != "work":
            if self.launches != "wait":
                passing = self.launches == "pass"
                reason = "disk full" if passing else "no such user"
                self.step(
                    ev.ActionFailed(at=self.now, action=action, reason=reason, passing=passing)
                )
        elif isinstance(action, act.Terminate) and self.patient:
            pass
        elif isinstance(action, act.Kill):
            if self.scheduler.state.live_attempt(action.job_id, action.attempt):
                self.end(action.job_id, signal=9)
        else:
            super()._do(action)

    def kept(self) -> Kept:
        """What a store would give to the next daemon."""
        return Kept(
            jobs=[j for _, j in sorted(self.jobs.items()) if not j.state.final],
            attempts=[a for a in self.attempts.values() if a.ended is None],
            reservations=list(self.stored.values()),
            devices=list(self.statuses.values()),
            rule_states=list(self.rule_states.values()),
            next_serial=max((a.serial for a in self.attempts.values()), default=0) + 1,
        )
