"""DLRover: the size of a job with parameter servers follows from what one worker uses.

Theory of operation
-------------------
Wang et al., sections 4.1 to 4.3. A job starts with one worker and a few servers, each with the most
CPUs of a task (`most_cpus`, C_max). After `sample_steps` steps or `sample_s` seconds it is known
what they use, and the plan for the job's quota of CPUs follows (`plans`). First the servers are
scaled; then a worker is measured anew, and the workers are scaled. From then on (`stages`):

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
from typing import Any

from radrm.core.records import Attempt, Job
from radrm.core.settings import fixed
from radrm.core.view import View
from radrm.planners.dlrover.plans import plan_from
from radrm.planners.dlrover.stages import (
    ADJUST,
    SAMPLE,
    SERVERS,
    WORKERS,
    JobNote,
    hot_servers,
    planned,
    sampling,
    shrunk,
    slow_server,
    spare_from,
    with_hot_replaced,
    with_more_for_hot,
    with_more_workers,
    with_planned_workers,
)
from radrm.planners.servers.layout import SERVER, WORKER, Layout, numbers_of
from radrm.planners.servers.metering import Rates
from radrm.planners.servers.notes import Memory, as_lists, from_lists
from radrm.planners.servers.placing import (
    Span,
    Wish,
    free_cpus,
    lacking_cpus,
    layout_of,
    nodes_of,
    span_of,
)
from radrm.planners.servers.settings import check_range
from radrm.planners.servers.steering import Look, Steering

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
