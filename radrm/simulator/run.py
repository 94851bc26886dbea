"""What a simulated run was: every attempt, and every device over time."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.words import Outcome
from radrm.simulator.job import TraceJob


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """One attempt. `devices` are positions in `Run.devices`; times are seconds from the
    beginning of the trace; `solo_s` is the work done, in seconds alone on the server."""

    started_s: float
    ended_s: float
    devices: tuple[int, ...]
    outcome: Outcome
    collocation: str
    reserved_mib: int = 0
    solo_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job's way. `ended_s` None: it never ended well (`reason` says why)."""

    job: TraceJob
    attempts: tuple[AttemptRun, ...] = ()
    ended_s: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """What a device shows from `at_s` until the next step."""

    at_s: float
    memory_mib: float
    smact: float
    power_w: float


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """One device over the whole run; steps are in order, the first at 0."""

    name: str
    total_mib: int
    steps: tuple[DeviceStep, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run with one seed. `ended_s`: when the last job had ended. `decisions`: the
    (job's position in the trace, devices) of every placement, in order."""

    jobs: tuple[JobRun, ...]
    devices: tuple[DeviceRun, ...]
    ended_s: float
    oom_count: int
    decisions: tuple[tuple[int, tuple[int, ...]], ...] = ()
