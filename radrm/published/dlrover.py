"""DLRover: the size of a job with parameter servers follows from what one worker uses.

Theory of operation
-------------------
Wang et al., sections 4.1 to 4.3. A job starts with one worker and a few servers, each with the most
CPUs of a task (`most_cpus`, C_max). After `sample_steps` steps or `sample_s` seconds it is known
what they use, and the plan for the job's quota of CPUs follows. First the servers are
scaled; then a worker is measured anew, and the workers are scaled. From then on:

- A *hot* server uses more than `hot` of its CPUs. It gets what it needs for these workers.
- A *slow* server is not hot. Its CPU time per step has grown by `slow_factor`, and that of the
  others has not. It is moved to the node with the most free CPUs (5.4). The paper does not say how
  such a server is found.
- If all servers together are not hot, there are more workers, up to `worker_limit`. Those beyond
  the quota have the CPU weight `spare_weight`, and are the first to go when a waiting job, or
  another job within its quota, wants their CPUs.

A job whose fingerprint is known starts with what the last such job had (4.3). One that was planned
for less than its quota, because the rest was taken, is planned anew when 1.25 times as much is
free. A hot server gets its CPUs in place; the paper starts another one, because those of a pod were
fixed. Jobs on GPUs keep their size: the formulas count CPUs.

Not here: memory (the core doubles it, or the number of servers, after a death), shards of slow
workers (5.2, `radrun`).

What a restart sees, what may interleave: `servers/steering.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from msgspec import Struct, field

from radrm.published.servers.layout import (
    SERVER,
    WORKER,
    Layout,
    Span,
    Wish,
    free_cpus,
    lacking_cpus,
    layout_of,
    nodes_of,
    numbers_of,
    span_of,
)
from radrm.published.servers.notes import Memory, Note, Rates, as_lists, from_lists
from radrm.published.servers.steering import Look, Steering, check_range
from radrm.rules import Attempt, Job, View, fixed

# ------------------------------------------------------------------
# The formulas of DLRover's sections 4.1 and 4.2. Pure arithmetic, all amounts in CPUs.
#
# `w` is what one worker uses, `s` what all servers together use for one worker (the paper's w-hat
# and s-hat).
#
# Rounding: the paper gives none. These are the ones with which table 1 follows from its own samples
# (2.5 and 5.7 for Wide & Deep, 19.4 and 3.1 for xDeepFM, 200 CPUs: 24 x 3 + 8 x 16 and 8 x 20 +
# 2 x 16). N_w is rounded down after equation 10 with the CPUs that were used; a worker then gets
# whole CPUs, rounded up; and equation 11 counts these, with whole servers, rounded down.


_ROUNDING = 1e-9


class Plan(Struct, frozen=True):
    """`workers` of `worker_cpus` each, and `servers` of `server_cpus` each."""

    workers: int
    worker_cpus: float
    servers: int
    server_cpus: float

    @property
    def total(self) -> float:
        """The CPUs of all tasks together."""
        return self.workers * self.worker_cpus + self.servers * self.server_cpus


def plan_from(w: float, s: float, quota: float, ps_cpus: float = 16.0) -> Plan:
    """Return the plan of a sampled job (equations 10 and 11).

    `w`, `s`: CPUs that one worker, and all servers for it, have used (above 0). `quota`: the CPUs
    that the job may have (C_total). `ps_cpus`: the CPUs of a server; a job that needs fewer has one
    server with what is left.

    Equation 10 counts what a worker uses, but it gets whole CPUs. Where those would leave the
    servers less than one server, and less than these workers need, there are fewer workers. Where
    the quota does not even suffice for one, that one gets what the servers leave.
    """
    each = whole(w)
    workers = max(1, floor(quota / (w + s) + _ROUNDING))
    while workers > 1 and workers * each + min(ps_cpus, max(1.0, workers * s)) > quota + _ROUNDING:
        workers -= 1
    if workers == 1:
        each = min(each, max(1.0, floor(quota - min(ps_cpus, max(1.0, s)))))
    left = quota - workers * each
    servers = max(1, floor(left / ps_cpus + _ROUNDING))
    return Plan(workers, each, servers, min(ps_cpus, max(left, 1.0)))


def workers_beside(w: float, s: float, quota: float, servers_cpus: float) -> int:
    """Return the workers of a job whose servers have these CPUs together: at least 1.

    The second half of the stage *optimize*: the servers have been scaled, and `w` is measured
    anew. Its text has N_w = s_total / s, which gives 22 and 10 for the 24 and 8 of Table 1;
    equation 10 gives those.
    """
    by_need = floor(quota / (w + s) + _ROUNDING)
    by_room = floor((quota - servers_cpus) / whole(w) + _ROUNDING)
    return max(1, min(by_need, by_room))


def more_workers(workers: int, used: float, servers_cpus: float, limit: int) -> int:
    """Return the number of workers that make full use of servers with idle CPUs (*adjust*).

    `used`: the CPUs that all servers use with these `workers`. So s = used / workers, and the
    number is min(servers_cpus / s, limit), never fewer than there are. It is rounded up: xDeepFM
    uses 27.4 of 32 CPUs with 8 workers (9.3), and the paper adds two.
    """
    if used <= 0:
        return workers
    wanted = ceil(servers_cpus / (used / workers) - _ROUNDING)
    return max(workers, min(wanted, limit))


def hot_cpus(hot: float, used: float, s: float, workers: int, most: float = 32.0) -> float:
    """Return the CPUs of a server that replaces a hot one (*adjust*), rounded up.

    `hot`: what the hot server uses; `used`: what all servers use; `s`: what all servers used for
    one worker. `most`: the most CPUs of one task (C_max).
    """
    if used <= 0:
        return most
    return min(whole(hot / used * s * workers), most)


def whole(cpus: float) -> float:
    """Return at least one whole CPU, rounded up."""
    return float(max(1, ceil(cpus - _ROUNDING)))


# ------------------------------------------------------------------
# Which of DLRover's formulas is due for a job, and the layout that it gives within its limits.
#
# The stages of section 4.2, in their order:
#
#     SAMPLE    one worker and a few servers, with the most CPUs of a task: what do they use?
#     SERVERS   the servers are scaled (equation 11); the workers stay
#     WORKERS   the CPUs of a worker are measured anew, and the workers are scaled
#     ADJUST    hot, slow and idle servers, until the job ends


SAMPLE, SERVERS, WORKERS, ADJUST = "sampling", "scaling servers", "scaling workers", "adjusting"
_AFTER = {SERVERS: WORKERS, WORKERS: ADJUST}


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
    count = workers_beside(w, s, quota, servers)
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


_LOOK_S = 10.0
_GROWN = 1.25
"""A job is planned anew when it could have so many times the CPUs of its plan."""
_LEAST_USE = 0.01


@dataclass(frozen=True, slots=True)
class DLRover(Steering):
    """Start all jobs, and plan those with parameter servers by what a sample of them uses."""

    quota: float = 200.0
    """The CPUs that a job may have (1 to 1e6); beyond it, workers of low priority.

    A site that gives a job fewer CPUs than the paper's cluster."""
    ps_cpus: float = fixed(16.0)
    """The CPUs of a parameter server in a plan (1 to 1024)."""
    most_cpus: float = fixed(32.0)
    """The most CPUs of one task (1 to 1024)."""
    first_servers: int = fixed(1)
    """The parameter servers of a sample (1 to 100)."""
    sample_steps: int = fixed(100)
    """A sample ends after so many steps (1 to 1e6), or after `sample_s`."""
    sample_s: float = fixed(60.0)
    """A sample ends after so many seconds (1 to 86400), or after `sample_steps`."""
    interval_s: float = 60.0
    """The least seconds between two changes of a job (1 to 86400).

    A site whose steps are long: a change must be measured before the next."""
    hot: float = fixed(0.9)
    """A parameter server that uses more of its CPUs than this part is hot (0.1 to 1)."""
    slow_factor: float = fixed(1.5)
    """A parameter server that needs so many times its CPU time per step is moved (1 to 100)."""
    worker_limit: int = fixed(100)
    """The most workers of a job whose servers are idle (1 to 10000)."""
    spare_weight: float = fixed(0.1)
    """The CPU weight of workers beyond the quota (0.01 to 1)."""
    name: str = "dlrover"

    def __post_init__(self) -> None:
        check_range(self, "quota", 1, 1e6)
        check_range(self, "interval_s", 1, 86400)

    @property
    def look_s(self) -> float:
        return min(_LOOK_S, self.sample_s)

    def new_note(self, **kept: Any) -> JobNote:
        return JobNote(**kept)

    # ------------------------------------------------------------- starts

    def first(self, job: Job, span: Span, room: float, past: Mapping[str, Any]) -> Sequence[Layout]:
        sample = sampling(span, self.most_cpus, self.first_servers)
        found = [sample, shrunk(sample, span, room)]
        known = past.get(_key(job))
        if known is None:
            return found
        before = from_lists(known["layout"])
        servers, workers = span.servers, span.workers
        again = Layout(
            tuple(
                servers.cpus(max(before.servers)) for _ in range(servers.count(len(before.servers)))
            ),
            tuple(
                workers.cpus(max(before.workers)) for _ in range(workers.count(len(before.workers)))
            ),
        )
        return [again, *found] if again.total <= self._most(span) else found

    def _most(self, span: Span) -> float:
        """Return the CPUs that a job may have by its quota and its job file."""
        return min(self.quota, span.most_cpus)

    # ------------------------------------------------------------- stages

    def wish(self, look: Look, note: JobNote) -> Wish | None:
        rates = look.meter.rates(look.job, look.attempt)
        if rates is None:
            return None
        if rates.steps <= 0 or note.idle:
            # The tasks are being initialised: nothing is known of a step until there is one.
            note.idle = rates.steps <= 0
            look.meter.begin(look.job, look.attempt, 0.0)
            return None
        if rates.steps < self.sample_steps and rates.seconds < self.sample_s:
            return None
        if note.changes and look.now_s - note.changed_s < self.interval_s:
            return None
        layout, nodes = self._staged(look, note, rates)
        if layout is None:
            look.meter.begin(look.job, look.attempt, 0.0)
            return None
        return Wish(layout, self._weights(layout, look.span), nodes)

    def _staged(
        self, look: Look, note: JobNote, rates: Rates
    ) -> tuple[Layout | None, Mapping[tuple[str, int], str]]:
        """Return the layout that the job's stage asks for; None: what it has. And its moves."""
        has, span, quota = look.has, look.span, self._quota(look)
        if note.stage == SAMPLE:
            layout = self._sampled(look, note, rates)
            if layout is not None:
                return layout, {}
            note.stage = SERVERS
        assert note.w is not None and note.s is not None
        if note.stage == ADJUST and quota >= _GROWN * note.quota:
            note.stage = SERVERS
        plan = plan_from(note.w, note.s, quota, min(self.ps_cpus, span.servers.most_cpus))
        scaled, enough = planned(has, plan, span, quota, note.fixed)
        if note.stage == SERVERS:
            note.quota = quota
            if scaled.differs(has, 0.0):
                return scaled, {}
            note.stage = WORKERS
        if note.stage == WORKERS:
            w = max(_LEAST_USE, sum(rates.used.workers) / len(has.workers))
            note.stage = ADJUST
            layout = with_planned_workers(has, w, note.s, span, quota, enough)
            if layout.differs(has, 0.0):
                note.stage = WORKERS
                return layout, {}
        return self._adjusted(look, note, rates)

    def _sampled(self, look: Look, note: JobNote, rates: Rates) -> Layout | None:
        """Note what a sample has shown; return the layout of another one if a server was hot."""
        known = look.memory.past.get(_key(look.job))
        if known is not None:
            note.w, note.s = known["w"], known["s"]
            return None
        has = look.has
        more = with_more_for_hot(has, rates, look.span, self.hot, self.most_cpus)
        if more.differs(has, 0.0) and more.total - has.total <= look.room:
            return more
        workers = len(has.workers)
        note.w = max(_LEAST_USE, sum(rates.used.workers) / workers)
        note.s = max(_LEAST_USE, sum(rates.used.servers) / workers)
        return None

    def _adjusted(
        self, look: Look, note: JobNote, rates: Rates
    ) -> tuple[Layout | None, Mapping[tuple[str, int], str]]:
        """Return the layout that fixes what is wrong with the servers; None: nothing is."""
        has, span = look.has, look.span
        assert note.w is not None and note.s is not None
        look.memory.learn(_key(look.job), {"w": note.w, "s": note.s, "layout": as_lists(has)})
        hot = hot_servers(rates.used.servers, has.servers, self.hot)
        if hot:
            layout = with_hot_replaced(has, rates, hot, note.s, span, self.most_cpus)
            if layout.differs(has, 0.0) and look.room > 0:
                return layout, {}
        moves = self._moves(look, note, rates, hot)
        if moves:
            return has, moves
        if sum(rates.used.servers) < self.hot * sum(has.servers):
            room = look.room if not self._short(look.memory, look.view) else 0.0
            layout = with_more_workers(has, rates, span, self.worker_limit, room)
            if layout.differs(has, 0.0):
                return layout, {}
        return None, {}

    def _moves(
        self, look: Look, note: JobNote, rates: Rates, hot: Sequence[int]
    ) -> Mapping[tuple[str, int], str]:
        """Return where a slow server goes; empty if none is slow, or there is no better place."""
        if rates.speed <= 0:
            return {}
        now = [used / rates.speed for used in rates.used.servers]
        slow = slow_server(now, note.step_cpu_s, self.slow_factor)
        least = note.step_cpu_s if len(note.step_cpu_s) == len(now) else now
        note.step_cpu_s = [min(pair) for pair in zip(now, least, strict=True)]
        if slow is None or slow in hot:
            return {}
        placement = look.attempt.placement
        here = nodes_of(placement)[SERVER, numbers_of(placement, SERVER)[slow]]
        cpus = look.has.servers[slow]
        others = [
            (-(use.cpus_free or 0.0), use.node.name)
            for use in look.view.nodes()
            if use.node.name != here and (use.cpus_free or 0.0) >= cpus
        ]
        return {(SERVER, slow): min(others)[1]} if others else {}

    # ------------------------------------------------------------- the quota

    def _quota(self, look: Look) -> float:
        """Return the CPUs that a job can have now within its quota."""
        return max(min(self._most(look.span), look.has.total + look.room), 1.0)

    def _weights(self, layout: Layout, span: Span) -> Mapping[tuple[str, int], float]:
        first = spare_from(layout, self._most(span))
        return {(WORKER, n): self.spare_weight for n in range(first, len(layout.workers))}

    def _short(self, memory: Memory, view: View) -> float:
        """Return the CPUs that jobs lack that were planned for less than their quota."""
        lacks = 0.0
        for job, attempt in view.running():
            note, span = memory.notes.get(job.id), span_of(job)
            if span is None or not isinstance(note, JobNote) or note.quota <= 0:
                continue
            has = layout_of(attempt.placement).total
            if self._most(span) >= _GROWN * note.quota:
                lacks += max(0.0, self._most(span) - has)
        return lacks

    def give_back(
        self, view: View, memory: Memory, jobs: Sequence[tuple[Job, Attempt]]
    ) -> Iterator[tuple[Job, Attempt, Wish]]:
        """Yield the youngest jobs with workers beyond their quota, while CPUs are wanted.

        For a waiting job they go only if it can start then.
        """
        wanted = lacking_cpus(view)
        waits = wanted > 0
        if not waits:
            wanted = self._short(memory, view) - free_cpus(view)
        spare: list[tuple[Job, Attempt, int]] = []
        for job, attempt in sorted(jobs, key=lambda each: -each[1].serial):
            note, span = memory.notes[job.id], span_of(job)
            if note.asked is not None:  # what it gives back already
                wanted -= from_lists(note.layout).total - from_lists(note.asked).total
            elif span is not None:
                first = spare_from(layout_of(attempt.placement), self._most(span))
                spare.append((job, attempt, span.workers.count(max(first, 1))))
        most = sum(sum(layout_of(a.placement).workers[first:]) for _, a, first in spare)
        if waits and most < wanted:
            return
        for job, attempt, first in spare:
            has, span = layout_of(attempt.placement), span_of(job)
            assert span is not None
            keep, freed = len(has.workers), 0.0
            while keep > first and freed < wanted - 0.001:
                keep -= 1
                freed += has.workers[keep]
            layout = has.with_workers(has.workers[: span.workers.count(keep)])
            if layout.differs(has, 0.0):
                wanted -= has.total - layout.total
                yield job, attempt, Wish(layout, self._weights(layout, span))


def _key(job: Job) -> str:
    """Return under which name a job's plan is kept."""
    return job.fingerprint or f"job {job.id}"
