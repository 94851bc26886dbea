"""The GPU time that users have had lately."""

from __future__ import annotations

from dataclasses import dataclass


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
