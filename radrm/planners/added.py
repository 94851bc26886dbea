"""The planners that run because of a table of their own, behind the configured ones."""

from __future__ import annotations

from collections.abc import Iterator

from radrm.config import Config
from radrm.core.rules import Planner, Policy
from radrm.deadlines.costs import Zone
from radrm.errors import BadConfig
from radrm.planners.idle import NOTIFY, OFF, Idle
from radrm.planners.slots import Slots


def added(config: Config, policy: Policy, zone: Zone, sessions: bool) -> Iterator[Planner]:
    """Yield these planners. `sessions`: jobs may be sessions of users, as in a daemon.

    Raises `BadConfig` for settings that contradict one another."""
    if config.slots.length_s > 0:
        # Behind those that start jobs: a job that still waits then could not start.
        yield _slots(config, policy, zone)
    its, off = config.idle, config.idle.action == OFF
    if sessions or not off:
        yield Idle(
            NOTIFY if off else its.action,
            *(its.smact_below, its.for_s, its.warmup_s, its.warn_s, its.interactive_for_s),
            only_sessions=off,
        )


def _slots(config: Config, policy: Policy, zone: Zone) -> Slots:
    length_s, warn_s = config.slots.length_s, config.slots.warn_s
    if warn_s >= length_s:
        raise BadConfig(
            f"slots.warn_s = {warn_s:g} is not less than slots.length_s = {length_s:g}; "
            f"write [slots] warn_s = {length_s / 10:g}"
        )
    return Slots(policy, length_s, warn_s, zone)
