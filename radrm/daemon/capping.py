"""Memory caps by the driver: set before a job begins, raised while it runs, checked at adoption.

The driver may take its time, or hang. So its calls run in the thread of `MemoryCaps`; the runner of
a new attempt waits at a gate, for a limited time; and what came of a call returns as an event.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Attempt
from radrm.core.scheduler import Scheduler
from radrm.core.words import Collocation
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.plan import LaunchPlan
from radrm.host.clock import Clock
from radrm.host.gpus.memory_caps import MemoryCaps
from radrm.structs import replace

log = logging.getLogger("radrm")

_NO_GROUP = "it has no control group of version 2 now"


class Capping:
    """Used by the loop's thread. `post` takes events from any thread."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        launcher: Launcher,
        caps: MemoryCaps | None,
        post: Callable[[ev.Event], None],
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._launcher = launcher
        self._caps = caps
        self._post = post

    def with_caps(self, plan: LaunchPlan, action: act.Launch) -> LaunchPlan:
        """Return the plan of a launch, by which the job begins when its caps are set."""
        caps = self._caps
        if caps is None or not action.caps:
            return plan
        if plan.step is not None:
            self._refuse(action, "its processes are in Slurm's control group")
            return plan

        def prepare(group: str) -> int:
            if plan.prepare is not None:
                plan.prepare(group)
            gate, opens = os.pipe()

            def then(why: str | None) -> None:  # from another thread
                if why is not None:
                    self._refuse(action, why)
                with contextlib.suppress(OSError):  # the runner has waited long enough, or died
                    os.write(opens, b"\n")
                os.close(opens)

            caps.set(group, action.caps, then)
            return gate

        return replace(plan, prepare=prepare)

    def raise_caps(self, action: act.RaiseCaps) -> None:
        """Have the driver raise the caps of a running attempt."""
        group = self._launcher.group_of(action.serial)

        def then(why: str | None) -> None:
            now, job_id = self._clock.now(), action.job_id
            if why is not None:
                self._post(ev.ActionFailed(at=now, action=action, reason=why, transient=True))
                return
            caps = action.caps
            self._post(ev.CapsRaised(at=now, job_id=job_id, serial=action.serial, caps=caps))

        if self._caps is None or group is None:
            then(_NO_GROUP)
        else:
            self._caps.set(group, action.caps, then)

    def restore(self) -> None:
        """Check the caps of the attempts that this daemon has adopted, and set those that lack.

        A daemon that sets no caps leaves them as they are: their groups have them.
        """
        if self._caps is None or self._caps.reason is not None:
            return
        for _, attempt in self._scheduler.snapshot.running:
            group = self._launcher.group_of(attempt.serial)
            if not attempt.caps or attempt.placement.collocation is Collocation.MPS:
                continue
            if group is None:
                self._refuse(attempt, _NO_GROUP)
                continue
            self._caps.restore(group, attempt.caps, self._refuser(attempt))

    def _refuser(self, about: Attempt) -> Callable[[str | None], None]:
        return lambda why: None if why is None else self._refuse(about, why)

    def _refuse(self, about: act.Launch | Attempt, why: str) -> None:
        """Tell the core that no cap of an attempt is enforced."""
        log.warning("job %d: the driver does not cap its memory: %s", about.job_id, why)
        now = self._clock.now()
        self._post(ev.CapsRefused(at=now, job_id=about.job_id, serial=about.serial, reason=why))
