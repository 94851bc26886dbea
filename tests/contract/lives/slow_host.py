"""A host that can be slow, and that fails."""

from __future__ import annotations

from radrm.core import actions as act
from radrm.core import events as ev
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
            if self.scheduler.state.live_attempt(action.job_id, action.serial):
                self.end(action.job_id, signal=9)
        else:
            super()._do(action)
