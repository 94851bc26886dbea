"""One launch of a job: its tasks, its usage, its end."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.placement import Placement
from radrm.core.records.time import Instant
from radrm.core.words import Outcome, StopReason


@dataclass(frozen=True, slots=True)
class Exit:
    """How a task's main process ended: `code` (0..255) or `signal`, or neither if unseen."""

    code: int | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def shell_code(self) -> int | None:
        """The exit code as a shell would give it: 128+n for a signal."""
        return 128 + self.signal if self.signal is not None else self.code


@dataclass(frozen=True, slots=True)
class Task:
    """One process tree of an attempt."""

    role: str = "main"
    number: int = 0
    exit: Exit | None = None


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Evidence that an attempt died of GPU out-of-memory.

    `requested_mib` is the request that failed, where the program named it.
    """

    signature: str
    requested_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt was seen to use on one device.

    `energy_j` is the device's energy, shared equally among the attempts on it. `shared`:
    another attempt was there at some time, so that `smact_mean` is not its own.
    `smact_count`: the readings that it is the mean of; 0 where that was not noted.
    """

    device: str
    peak_mib: int | None = None
    smact_mean: float | None = None
    energy_j: float | None = None
    shared: bool = False
    smact_count: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop under way: why, since when, and when TERM becomes KILL."""

    reason: StopReason
    asked: Instant
    kill_boot_s: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch of a job. `serial` is unique over all attempts ever made."""

    job_id: int
    number: int
    serial: int
    placement: Placement
    launched: Instant
    started: Instant | None = None
    ended: Instant | None = None
    tasks: tuple[Task, ...] = (Task(),)
    stop: Stop | None = None
    target: Placement | None = None
    """The placement that a resize under way leads to."""
    signalled: bool = False
    """True once it has had its signal before the time limit."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str | None = None
    usage: tuple[Usage, ...] = ()

    @property
    def used(self) -> dict[str, Usage]:
        """Its usage by device. Earlier releases stored a device twice: the last entry holds."""
        return {u.device: u for u in self.usage}

    @property
    def ran_s(self) -> float | None:
        """Seconds from its start to its end, by time since boot; None where that is not known."""
        return self.ended.since(self.started) if self.started and self.ended else None

    @property
    def peak_mib(self) -> int | None:
        """The highest peak on any one device (memory is counted per GPU)."""
        peaks = [u.peak_mib for u in self.used.values() if u.peak_mib is not None]
        return max(peaks) if peaks else None

    @property
    def energy_j(self) -> float | None:
        """What it used on all its devices together."""
        parts = [u.energy_j for u in self.used.values() if u.energy_j is not None]
        return sum(parts) if parts else None

    @property
    def smact_mean(self) -> float | None:
        """The mean over its devices, 0..1."""
        means = [u.smact_mean for u in self.used.values() if u.smact_mean is not None]
        return sum(means) / len(means) if means else None
