"""Read the configuration again, and apply what can be applied while the daemon runs.

Theory of operation. The file is read and checked as at a start, with the same `--set`. A mistake
changes nothing. What only a start reads keeps its value, and is named. If the scheduler uses a
changed setting, it begins anew from the store, as after a restart: by the same events and with the
same result, but the attempts need not be examined. So running jobs run on, and readings are taken
again. It happens in the loop's thread between two rounds, and never while a decision is unsaved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radrm.config import Config, UserLimits
from radrm.core.rules import Rules, is_slow
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.daemon.reload.changes import Change, applicable, changes
from radrm.daemon.views.expected import Foresight
from radrm.deadlines.costs import Costs
from radrm.errors import RadrmError, Refused
from radrm.host.storage.retention.sweep import Retention

log = logging.getLogger("radrm")


@dataclass(frozen=True, slots=True)
class Makers:
    """What `main` makes of a configuration, at the start and again. All raise `BadConfig`."""

    read: Callable[[], Config]
    rules: Callable[[Config], tuple[Rules, Costs]]
    core: Callable[[Config], CoreSettings]
    foresight: Callable[[Rules, Costs], Foresight]


class Reloads(Protocol):
    """What a reload uses of the loop, which imports this file's users."""

    scheduler: Scheduler

    def renew(
        self, rules: Rules, core: CoreSettings, costs: Costs, foresight: Foresight
    ) -> None: ...


class Reloading:
    """Used by the loop's thread. `config`: the one in force. `applied` is called with a new one."""

    def __init__(
        self,
        config: Config,
        makers: Makers,
        users: UserLimits,
        retention: Retention,
        applied: Callable[[Config], None],
    ) -> None:
        self._config = config
        self._makers = makers
        self._users = users
        self._retention = retention
        self._applied = applied

    def reload(self, loop: Reloads) -> tuple[Change, ...]:
        """Apply the configuration as it is now. Returns what has changed.

        Raises `RadrmError` for one that cannot be used; then nothing has changed.
        """
        before, wanted = self._config, self._makers.read()
        found = changes(before, wanted)
        after = applicable(before, wanted)
        # All that can fail comes first.
        (old, _), (rules, costs) = (self._makers.rules(each) for each in (before, after))
        core = self._makers.core(after)
        of_scheduler = any(each.of_scheduler and not each.at_start for each in found)
        slow = [p.name for p in (*old.planners, *rules.planners) if is_slow(p)]
        if of_scheduler and slow:
            raise Refused(
                f"the planner {slow[0]} has a process of its own, which reads its settings at the "
                "daemon's start; restart the daemon (jobs run on)"
            )
        if of_scheduler:
            loop.renew(rules, core, costs, self._makers.foresight(rules, costs))
        if self._users.shared:
            self._users.limits = after.limits
        self._retention.set(after.retention)
        self._applied(after)
        self._config = after
        return found

    def reload_and_log(self, loop: Reloads) -> tuple[Change, ...]:
        """The same, and log a line for each setting, or one on what is wrong."""
        try:
            found = self.reload(loop)
        except RadrmError as error:
            log.error("the configuration is not reloaded, nothing has changed: %s", error)
            raise
        log.info("the configuration was read again; settings that have changed: %d", len(found))
        for each in found:
            (log.warning if each.at_start else log.info)("%s", each)
        return found
