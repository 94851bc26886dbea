"""The GPU time that users have had lately."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Use:
    """Recent GPU time, and what is held now.

    `gpu_s` counts the seconds of each GPU. After `core.use_half_life_s` a second counts half.
    `gpus`: the GPUs that jobs hold now. A device counts 1; n jobs that share it have 1/n each.
    """

    gpu_s: float = 0.0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class UserUse:
    """The use by a user's jobs, and by those of the user's group (Unix; None if unknown)."""

    uid: int
    user: str
    own: Use = Use()
    group: str | None = None
    of_group: Use = Use()
    idle_s: float = inf
    """The seconds since the last start of one of the user's jobs on GPUs; infinity: none is known.
    """


@dataclass(frozen=True, slots=True)
class RecentUses:
    """The use of each user and of each group that has or had GPUs lately.

    A user may submit from several groups, so `users` have no `group`; `groups` are by name.
    """

    users: tuple[UserUse, ...] = ()
    groups: tuple[tuple[str, Use], ...] = ()
