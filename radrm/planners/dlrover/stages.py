"""Which of DLRover's formulas is due for a job, and the layout that it gives within its limits.

The stages of section 4.2, in their order:

    SAMPLE    one worker and a few servers, with the most CPUs of a task: what do they use?
    SERVERS   the servers are scaled (equation 11); the workers stay
    WORKERS   the CPUs of a worker are measured anew, and the workers are scaled
    ADJUST    hot, slow and idle servers, until the job ends
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.core.records import Attempt
from radrm.planners.dlrover.plans import Plan, hot_cpus, more_workers, whole
from radrm.planners.dlrover.plans import workers_beside as count_workers
from radrm.planners.servers.layout import Layout
from radrm.planners.servers.metering import Rates
from radrm.planners.servers.notes import Note
from radrm.planners.servers.placing import Span

SAMPLE, SERVERS, WORKERS, ADJUST = "sampling", "scaling servers", "scaling workers", "adjusting"
_AFTER = {SERVERS: WORKERS, WORKERS: ADJUST}


@dataclass(slots=True)
class JobNote(Note):
    """What is known of a job: `stage`, and what its sample has shown (`w`, `s`, in CPUs).

    `quota`: the CPUs for which it was planned. `step_cpu_s`: the least CPU seconds per step that
    each server needed with this layout. `idle`: it had made no step when it reported last.
    """

    stage: str = SAMPLE
    w: float | None = None
    s: float | None = None
    quota: float = 0.0
    idle: bool = False
    step_cpu_s: list[float] = field(default_factory=list)

    def begin(self, attempt: Attempt) -> None:
        Note.begin(self, attempt)
        self.stage = SAMPLE if self.w is None else SERVERS

    def seen(self, layout: Layout, now_s: float) -> None:
        Note.seen(self, layout, now_s)
        self.step_cpu_s = []

    def settled(self, done: bool) -> None:
        # Servers that cannot be changed do not keep the workers from being scaled.
        if done or (self.fixed and self.stage == SERVERS):
            self.stage = _AFTER.get(self.stage, self.stage)

    @property
    def word(self) -> str:
        return self.stage


def sampling(span: Span, most: float, servers: int) -> Layout:
    """Return the layout of a sample: one worker and a few servers, each with C_max (`most`)."""
    return Layout(
        (span.servers.cpus(most),) * span.servers.count(servers),
        (span.workers.cpus(most),) * span.workers.count(1),
    )


def shrunk(layout: Layout, span: Span, room: float) -> Layout:
    """Return a layout whose tasks have so much less that all fit in `room` CPUs, if they can."""
    if layout.total <= room:
        return layout
    part = room / layout.total
    return Layout(
        tuple(span.servers.cpus(each * part) for each in layout.servers),
        tuple(span.workers.cpus(each * part) for each in layout.workers),
    )


def with_more_for_hot(has: Layout, rates: Rates, span: Span, high: float, most: float) -> Layout:
    """Return a sampled layout in which each server above `high` has twice its CPUs.

    The paper gives it more, and does not say how much.
    """
    pairs = zip(has.servers, rates.used.servers, strict=True)
    return has.with_servers(
        [
            max(given, span.servers.cpus(min(2 * given, most))) if used > high * given else given
            for given, used in pairs
        ]
    )


def planned(has: Layout, plan: Plan, span: Span, quota: float, fixed: bool) -> tuple[Layout, bool]:
    """Return the layout of the stage SERVERS, and whether it has all servers that are planned.

    The workers stay as they are; if the quota does not suffice beside them, they have the CPUs of
    the plan, and are as few as the plan has.
    """
    count = len(has.servers) if fixed else span.servers.count(plan.servers)
    total = plan.servers * plan.server_cpus
    servers = (span.servers.cpus(total / count),) * count
    found = has.with_servers(servers)
    if found.total > quota:
        each = span.workers.cpus(plan.worker_cpus)
        workers = span.workers.count(min(len(has.workers), plan.workers))
        found = found.with_workers((each,) * workers)
    return found, sum(servers) >= total - 0.01


def with_planned_workers(
    has: Layout, w: float, s: float, span: Span, quota: float, enough: bool
) -> Layout:
    """Return the layout of the stage WORKERS. `w`: what a worker uses beside these servers.

    `enough`: the servers are as planned; else the workers are as many as these servers can serve.
    """
    servers = sum(has.servers)
    count = count_workers(w, s, quota, servers)
    if not enough:
        count = min(count, max(1, int(servers / s + 1e-9)))
    each = span.workers.cpus(whole(w))
    fitting = max(1, int((quota - servers) / each + 1e-9))
    return has.with_workers((each,) * span.workers.count(min(count, fitting)))


def hot_servers(used: Sequence[float], given: Sequence[float], high: float) -> list[int]:
    """Return the numbers of the servers that use more than `high` of their CPUs, unlike others.

    If all do, the load is even, and there are enough workers: more CPUs for all servers, then more
    workers, and so on, would take all CPUs of the node.
    """
    hot = [at for at, (u, a) in enumerate(zip(used, given, strict=True)) if u > high * a]
    return hot if len(hot) < len(given) else []


def with_hot_replaced(
    has: Layout, rates: Rates, hot: Sequence[int], s: float, span: Span, most: float
) -> Layout:
    """Return the layout with the CPUs of its hot servers; none gets fewer than it has."""
    used, workers = rates.used.servers, len(has.workers)
    total = sum(used)
    servers = list(has.servers)
    for at in hot:
        wanted = span.servers.cpus(hot_cpus(used[at], total, s, workers, most))
        servers[at] = max(servers[at], wanted)
    return has.with_servers(servers)


def with_more_workers(has: Layout, rates: Rates, span: Span, limit: int, room: float) -> Layout:
    """Return the layout with the workers that make full use of idle servers, as far as there is
    room for them."""
    count = len(has.workers)
    each = span.workers.cpus(whole(sum(rates.used.workers) / count))
    wanted = more_workers(count, sum(rates.used.servers), sum(has.servers), limit)
    fitting = count + max(0, int(room / each + 1e-9)) if room < float("inf") else wanted
    wanted = span.workers.count(min(wanted, fitting))
    more = max(0, wanted - count)
    return has.with_workers((*has.workers, *(each,) * more))


def slow_server(step_cpu_s: Sequence[float], least: Sequence[float], factor: float) -> int | None:
    """Return the server that needs `factor` times the CPU time per step that it needed before.

    None if there is none, or if most do: then the steps have changed, not a server.
    """
    if len(least) != len(step_cpu_s) or len(least) < 2:
        return None
    slower = [now / was if was > 0 else 1.0 for now, was in zip(step_cpu_s, least, strict=True)]
    middle = sorted(slower)[(len(slower) - 1) // 2]
    worst = max(range(len(slower)), key=slower.__getitem__)
    return worst if slower[worst] >= factor * max(1.0, middle) else None


def spare_from(layout: Layout, quota: float) -> int:
    """Return the number of the first worker that is beyond the quota."""
    left = quota - sum(layout.servers)
    for number, each in enumerate(layout.workers):
        left -= each
        if left < -0.001 and number > 0:
            return number
    return len(layout.workers)
