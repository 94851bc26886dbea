"""The record of a simulated run: every attempt, and every device over time."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from radrm.core.records import LOCAL_NODE
from radrm.core.words import Outcome
from radrm.lab.simulator.traces.job import TraceJob


class AttemptRun(Struct, frozen=True):
    """One attempt. Times are seconds since the beginning of the trace.

    `devices` are positions in `Run.devices`. `solo_s` is the work done: the seconds that it
    would take alone on the server, by `duration_s`. It went on from `begun_s` of work that earlier
    attempts had saved. `sizes`: the devices that it had from each time on, if they changed;
    `devices` are the last ones.
    """

    started_s: float
    ended_s: float
    devices: tuple[int, ...]
    outcome: Outcome
    collocation: str
    reserved_mib: int = 0
    solo_s: float = 0.0
    begun_s: float = 0.0
    sizes: tuple[tuple[float, tuple[int, ...]], ...] = ()

    def held(self) -> Iterator[tuple[float, float, tuple[int, ...]]]:
        """Yield the devices that it had, from when until when."""
        begins = self.sizes or ((self.started_s, self.devices),)
        ends = [at_s for at_s, _ in begins[1:]] + [self.ended_s]
        for (from_s, devices), until_s in zip(begins, ends, strict=True):
            yield from_s, until_s, devices


class JobRun(Struct, frozen=True):
    """A job and its attempts. `ended_s` is None if it did not complete; `reason` says why.

    Of a job with parameter servers, `attempts` has its time from first start to end, `resizes`
    counts the changes of its tasks, and `cpu_s` is the CPU time that it used and that it had.
    """

    job: TraceJob
    attempts: tuple[AttemptRun, ...] = ()
    ended_s: float | None = None
    reason: str | None = None
    resizes: int = 0
    cpu_s: tuple[float, float] | None = None


class DeviceStep(Struct, frozen=True):
    """A device's memory, SM activity and power from `at_s` to the next step."""

    at_s: float
    memory_mib: float
    smact: float
    power_w: float


class DeviceRun(Struct, frozen=True):
    """One device over the whole run. The steps are in order; the first is at 0."""

    name: str
    total_mib: int
    steps: tuple[DeviceStep, ...]
    node: str = LOCAL_NODE


class Run(Struct, frozen=True):
    """One run with one seed. `ended_s` is the end of the last job.

    `decisions` has every placement in order: the job's position in the trace, and its devices.
    """

    jobs: tuple[JobRun, ...]
    devices: tuple[DeviceRun, ...]
    ended_s: float
    oom_count: int
    decisions: tuple[tuple[int, tuple[int, ...]], ...] = ()
