"""What a job asks for."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.words import CheckpointKind, Collocation


@dataclass(frozen=True, slots=True)
class Needs:
    """What one task of a role needs. `gpu_memory_mib` is per GPU and as declared."""

    gpus: int = 1
    gpu_memory_mib: int | None = None
    smact: float | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of task of a job, and how many of it may run (`count_min..count_max`)."""

    name: str = "main"
    count_min: int = 1
    count_max: int = 1
    step: int = 1
    needs: Needs = Needs()

    def allows(self, count: int) -> bool:
        inside = self.count_min <= count <= self.count_max
        return inside and (count - self.count_min) % self.step == 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a job can do about its own state, and what that costs in seconds."""

    kind: CheckpointKind = CheckpointKind.NONE
    cost_s: float | None = None


@dataclass(frozen=True, slots=True)
class EarlySignal:
    """A signal that a job gets `lead_s` before its time limit."""

    number: int
    lead_s: float


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the submitter asked for; it never changes by itself (`edit` replaces it)."""

    name: str
    user: str
    uid: int
    roles: tuple[Role, ...] = (Role(),)
    collocation: Collocation = Collocation.AUTO
    time_limit_s: float | None = None
    priority: int = 0
    weight: float = 1.0
    due_s: float | None = None
    """Wall-clock due time."""
    checkpoint: Checkpoint = Checkpoint()
    retries: int = 0
    requeue: bool = False
    signal: EarlySignal | None = None
    comment: str | None = None

    @property
    def gpus(self) -> int:
        """GPUs at the smallest size that may run."""
        return sum(role.count_min * role.needs.gpus for role in self.roles)
