"""Whom the limits of `[limits]` hold for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from msgspec import Struct

from radrm.config.shapes import Config, LimitsConfig

NO_LIMITS = LimitsConfig(
    queued_jobs=0,
    running_jobs=0,
    gpus=0,
    reserved_gpu_hours=0.0,
    array_size=0,
    environment_kib=0,
    priority_max=1000,
    spool_files=0,
    spool_mib=0,
    connections=0,
    requests_per_s=0.0,
)


class UserLimits(Struct, frozen=True):
    """The limits of each user. `shared`: of a daemon of the whole server; else nobody has any."""

    limits: LimitsConfig
    exempt: frozenset[int] = frozenset()
    shared: bool = True

    def of(self, uid: int) -> LimitsConfig:
        """Return a user's limits; `NO_LIMITS` for one without."""
        return self.limits if self.shared and uid not in self.exempt else NO_LIMITS


NOBODY = UserLimits(NO_LIMITS, shared=False)
"""No user has a limit."""


def limits_of(config: Config, system: bool, uid: int) -> UserLimits:
    """Return the limits that a daemon of this user applies. `system`: that of the whole server."""
    return UserLimits(config.limits if system else NO_LIMITS, frozenset({0, uid}), system)


def spool_room(limits: UserLimits) -> Callable[[int], tuple[int, int]]:
    """Return what gives the files and the bytes that a user may have in the spool; 0: any."""

    def room(uid: int) -> tuple[int, int]:
        mine = limits.of(uid)
        return mine.spool_files, mine.spool_mib << 20

    return room


def with_limits(config: Config, limits: UserLimits) -> Config:
    """Return a configuration with the limits that hold."""
    return replace(config, limits=limits.limits)
