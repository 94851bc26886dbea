"""What a waiting job's user can type so that it starts now.

Theory of operation
-------------------
A command is named only if it helps this job: an edit that changes nothing costs trust. So nothing
is concluded from what a reason says. Each edit is tried: the job's record as the edit would make
it is shown to the planners, by the same question that explains a job (`Scheduler.would_start`). The
rules of the reasons only choose what to try. Of memory and SM activity the most is named that
would start, in steps that people type.

It is tried only for the first job of a line, and for one that no GPU in service can take: others
wait for the jobs before them, whatever they ask for. The second may start if its user holds the
first. A job without a time or job to wait for (`--begin`, `--after`) may still wait for GPUs.

Many reasons have no way out: another job is on the GPU, a limit of the user, a drained GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import floor
from time import thread_time
from typing import Any

from radrm.core.constraints.nodes import CPUS, MEMORY
from radrm.core.records import DECLARED, Estimate, Instant, Job, JobSpec, Refusal
from radrm.core.scheduler import Scheduler
from radrm.core.units import parse_mib
from radrm.core.words import Collocation, Quantity, Resizing
from radrm.structs import replace

MOST = 2
"""Commands that are named."""
_LEAST_PART = 0.25
"""Less memory than this part of what it asks for does not help a job: it would die of it."""
_MOST_S = 0.25
"""CPU time after which nothing more is tried: with many GPUs, or a slow rule of others, each try
takes long, and other clients wait."""
_LOAD = frozenset({"demand", "gain", "smact", "slowdown"})
_ROOM = frozenset({"memory", "capacity", "reservation", "not idle", "service"})


def way_out(
    scheduler: Scheduler, job: Job, refusals: Sequence[Refusal], now: Instant
) -> tuple[str, ...]:
    """Return commands of which each lets a waiting job start; empty: none is known.

    `refusals`: why it waits.
    """
    if job.held or not job.state.waiting:
        return ()
    if job.after:
        return (_edit(job, "--after=none"),)
    if job.awaits_begin:
        return (_edit(job, "--begin=none"),)
    found: list[str] = []
    for command in _Ways(scheduler, job, refusals, now).commands():
        found.append(command)
        if len(found) == MOST:
            break
    return tuple(found)


def _edit(job: Job, option: str) -> str:
    return f"radrm edit {job.label} {option}"


class _Ways:
    """What is tried for one job. Each method tries one kind of change."""

    def __init__(
        self, scheduler: Scheduler, job: Job, refusals: Sequence[Refusal], now: Instant
    ) -> None:
        self._scheduler, self._job, self._now = scheduler, job, now
        self._rules = {each.rule for each in refusals}
        self._refusals = refusals
        snapshot = scheduler.snapshot
        self._first = snapshot.head(job)
        """The first job of its line; None if it is in none."""
        self._until_s = thread_time() + _MOST_S
        self._one = len(job.spec.roles) == 1 and job.spec.resizing is Resizing.NONE

    def commands(self) -> Iterator[str]:
        job = self._job
        if job.pause is not None and self._starts(replace(job, pause=None)):
            yield f"radrm release {job.label}"
        first = self._first
        if first is not None and first.id != job.id:
            second = self._scheduler.snapshot.position(job) == 1
            if second and first.spec.uid == job.spec.uid and self._starts(job, alone=True):
                yield f"radrm hold {first.label}"
            return
        if job.pause is not None:
            return
        for option in self._options():
            yield _edit(job, option)
        yield from self._cancel()

    def _options(self) -> Iterator[str]:
        spec, rules = self._job.spec, self._rules
        if rules & _ROOM:
            yield from self._memory()
        if rules & _LOAD:
            yield from self._smact()
        if rules & (_ROOM | _LOAD):
            yield from self._changed("--max-slowdown=none", max_slowdown=None)
        if spec.collocation is Collocation.EXCLUSIVE:
            yield from self._changed("--collocation=timeslice", collocation=Collocation.TIMESLICE)
        if spec.collocation is Collocation.MPS:
            yield from self._changed("--collocation=auto", collocation=Collocation.AUTO)
        yield from self._changed("--gpu-type=any", gpu_types=())
        yield from self._sm_share()
        yield from self._on_nodes()
        yield from self._shorter()
        yield from self._fewer()

    # ------------------------------------------------------------- trying

    def _starts(self, job: Job, alone: bool = False) -> bool:
        if thread_time() > self._until_s:
            return False
        return self._scheduler.would_start(job, self._now, alone or self._first is None)

    def _changed(self, option: str, **changes: Any) -> Iterator[str]:
        """Try another value of the spec."""
        spec = replace(self._job.spec, **changes)
        if spec != self._job.spec and self._starts(replace(self._job, spec=spec)):
            yield option

    def _most(self, least: int, most: int, make: Callable[[int], Job]) -> int | None:
        """Return the largest number from `least` to `most` with which it starts; None for none."""
        if most < least or not self._starts(make(least)):
            return None
        while least < most:
            middle = (least + most + 1) // 2
            if self._starts(make(middle)):
                least = middle
            else:
                most = middle - 1
        return least

    def _needing(self, **needs: Any) -> JobSpec:
        """The spec with other needs of its only kind of task."""
        role = self._job.spec.roles[0]
        role = replace(role, needs=replace(role.needs, **needs))
        return replace(self._job.spec, roles=(role,))

    def _declaring(self, quantity: Quantity, value: float, spec: JobSpec) -> Job:
        """The job as if its user had declared a quantity."""
        others = (each for each in self._job.estimates if each.quantity is not quantity)
        said = Estimate(quantity=quantity, value=value, upper=value, source=DECLARED)
        return replace(self._job, spec=spec, estimates=(said, *others))

    # ------------------------------------------------------------- what is tried

    def _memory(self) -> Iterator[str]:
        """Less memory: tenths of GiB."""
        job, devices = self._job, self._scheduler.snapshot.devices
        largest = max((each.device.capacity_mib for each in devices), default=0)
        if not self._one or not job.spec.gpus or not largest:
            return
        most = largest if job.need_mib is None else min(largest, job.need_mib)

        def make(tenths: int) -> Job:
            mib = parse_mib(f"{tenths / 10:.1f}G")
            spec = self._needing(gpu_memory_mib=mib, gpu_memory_max_mib=None)
            return self._declaring(Quantity.MEMORY, mib, spec)

        part = 0.0 if job.need_mib is None else _LEAST_PART
        least = max(5, floor(part * most / 102.4) + 1)
        found = self._most(least, floor((most - 1) / 102.4), make)
        if found is not None:
            yield f"--gpu-memory={found / 10:.1f}G"

    def _smact(self) -> Iterator[str]:
        """Less SM activity, in tenths, where its user has not said how much it has."""
        job = self._job
        said = job.estimate(Quantity.SMACT)
        if said is not None and said.source == DECLARED:
            return
        for tenths in range(9, 0, -1):  # less is not always better: it also gains less
            if self._starts(self._declaring(Quantity.SMACT, tenths / 10, job.spec)):
                yield f"--smact={tenths / 10:.1f}"
                return

    def _sm_share(self) -> Iterator[str]:
        left = max((r.available or 0 for r in self._refusals if r.rule == "sm-share"), default=0.0)
        percent = floor(left * 100 + 1e-6)
        if percent:
            yield from self._changed(f"--sm-share={percent}", sm_share=percent / 100)

    def _on_nodes(self) -> Iterator[str]:
        """Fewer CPUs, less host memory: what is free, for a job of one task."""
        if not self._one or self._job.spec.roles[0].count_min != 1:
            return
        for each in self._refusals:
            if each.device is not None or not each.available:
                continue
            if each.rule == CPUS and each.available >= 1:
                cpus = floor(each.available)
                yield from self._roles(f"--cpus={cpus}", self._needing(cpus=float(cpus)))
            elif each.rule == MEMORY and self._job.spec.memory_range_mib is None:
                tenths = floor(each.available / 102.4)
                size = f"{tenths / 10:.1f}G"
                if tenths:
                    spec = self._needing(memory_mib=parse_mib(size))
                    yield from self._roles(f"--memory={size}", spec)

    def _roles(self, option: str, spec: JobSpec) -> Iterator[str]:
        yield from self._changed(option, roles=spec.roles)

    def _shorter(self) -> Iterator[str]:
        """A time limit that ends before a reservation begins, unless it needs more time."""
        ends = [each.within_s for each in self._refusals if each.within_s is not None]
        minutes = floor(max(ends, default=0.0) / 60 - 1)
        needs_s = self._job.predicted(Quantity.DURATION) or 0.0
        if minutes >= 1 and needs_s <= minutes * 60:
            yield from self._changed(f"--time={minutes}m", time_limit_s=minutes * 60.0)

    def _fewer(self) -> Iterator[str]:
        """Fewer GPUs."""
        gpus = self._job.spec.gpus
        if not self._one or self._job.spec.roles[0].count_min != 1 or "limits.gpus" in self._rules:
            return

        def make(fewer: int) -> Job:
            return replace(self._job, spec=self._needing(gpus=fewer))

        found = self._most(1, gpus - 1, make)
        if found is not None:
            yield f"--gpus={found}"

    def _cancel(self) -> Iterator[str]:
        """The end of a job of the same user with a lower priority, for a job on one GPU."""
        job, snapshot = self._job, self._scheduler.snapshot
        lower: dict[int, Job] = {}
        for each in self._refusals if job.gpus == 1 else ():
            found = snapshot.device(each.device) if each.device is not None else None
            for holder_id in found.occupants if found is not None else ():
                holder = snapshot.job(holder_id)
                mine = holder is not None and holder.spec.uid == job.spec.uid
                if found is None or holder is None or not mine:
                    continue
                kept = [r.mib for r in found.reservations if r.job_id == holder_id]
                mib = sum(found.device.capacity_mib if m is None else m for m in kept)
                alone = len(found.occupants) == 1 and not found.unmanaged_mib
                room = each.rule == "memory" and (each.available or 0) + mib >= (each.needed or mib)
                idle = each.rule in ("not idle", "taken") and alone
                if holder.spec.priority < job.spec.priority and (room or idle):
                    lower[holder_id] = holder
        if lower:
            first = min(lower.values(), key=lambda each: (each.spec.priority, -each.id))
            yield f"radrm cancel {first.label}"
