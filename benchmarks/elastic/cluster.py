"""Jobs that share a cluster of NEARCHUS' paper, first come, first served (sections IV and V).

A loop of one minute: jobs end, waiting ones start as soon as the first layout of their way is free
(nobody passes the head of the queue), then each running job may change. A change costs `Costs` of
standing still, for all ways alike: in the paper containers restart (V-C), in a time that is not
published. Jobs do not slow one another down on the network (assumed).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.elastic.models import Cluster, Network
from benchmarks.elastic.search import Seen, Way, rates
from benchmarks.elastic.training_cluster import ClusterModel
from radrm.published.servers.layout import Layout

TICK_S = 60.0
NOISE = 0.01
"""The coefficient of variation of a sample (assumed)."""
LONGEST_S = 1000 * 3600.0


@dataclass(frozen=True, slots=True)
class Costs:
    """How long a job stands still when it starts or its tasks change, and when only CPUs change."""

    tasks_s: float = 60.0
    cpus_s: float = 60.0


RESTARTS = Costs()
"""A minute for every change (assumed)."""
IN_PLACE = Costs(cpus_s=0.0)
"""CPUs change while a job works, as radrm does it."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job: when it comes (s), what it trains, for how many steps, with at most so many CPUs."""

    at_s: float
    network: Network
    steps: float
    budget: float


@dataclass(slots=True)
class Played:
    """What became of a job. Seconds; `speeds` are its layouts' steps per second, in order."""

    job: TrainingJob
    begun_s: float = 0.0
    ended_s: float = 0.0
    layouts: list[Layout] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    @property
    def queued_s(self) -> float:
        return self.begun_s - self.job.at_s

    @property
    def completion_s(self) -> float:
        return self.ended_s - self.job.at_s


@dataclass(slots=True, eq=False)
class _Running:
    played: Played
    model: ClusterModel
    way: Way
    layout: Layout
    left: float
    changed_s: float
    ready_s: float
    speeds: list[float] = field(default_factory=list)
    uses: list[float] = field(default_factory=list)
    networks: list[list[float]] = field(default_factory=list)


Ways = Callable[[Cluster, ClusterModel], Way]


def play(
    cluster: Cluster,
    jobs: Sequence[TrainingJob],
    ways: Ways,
    seed: int,
    costs: Costs = RESTARTS,
) -> list[Played]:
    """Return what becomes of jobs (by time of coming) if `ways` makes the way of each."""
    return _Loop(cluster, ways, random.Random(seed), costs).run(jobs)


class _Loop:
    def __init__(self, cluster: Cluster, ways: Ways, lots: random.Random, costs: Costs) -> None:
        self._costs = costs
        self._cluster = cluster
        self._ways = ways
        self._lots = lots
        self._now_s = 0.0
        self._running: list[_Running] = []

    @property
    def _free(self) -> float:
        return self._cluster.cpus - sum(each.layout.total for each in self._running)

    def run(self, jobs: Sequence[TrainingJob]) -> list[Played]:
        played = [Played(job) for job in jobs]
        waiting = list(played)
        while (waiting or self._running) and self._now_s < LONGEST_S:
            while waiting and waiting[0].job.at_s <= self._now_s and self._start(waiting[0]):
                del waiting[0]
            queued = bool(waiting) and waiting[0].job.at_s <= self._now_s
            for each in self._running:
                self._change(each, 0.0 if queued else max(0.0, self._free))
            self._work()
            self._now_s += TICK_S
        assert not waiting, "every job has started"
        return played

    def _start(self, played: Played) -> bool:
        job = played.job
        model = self._cluster.model(job.network)
        way = self._ways(self._cluster, model)
        layout = way.start(job.budget)
        if layout.total > self._free + 1e-6:
            return False
        now_s = self._now_s
        played.begun_s = now_s
        running = _Running(
            played, model, way, layout, job.steps, now_s, now_s + self._costs.tasks_s
        )
        self._running.append(running)
        self._note(running)
        return True

    def _note(self, running: _Running) -> None:
        running.played.layouts.append(running.layout)
        found = rates(self._cluster, running.model, running.layout)
        running.played.speeds.append(found.steps_s)
        running.networks = [[] for _ in running.layout.servers]
        running.speeds, running.uses = [], []

    def _change(self, running: _Running, free: float) -> None:
        if not running.speeds:
            return
        found = rates(self._cluster, running.model, running.layout)
        servers = len(running.layout.servers)
        seen = Seen(
            self._now_s,
            running.changed_s,
            running.layout,
            running.played.job.budget,
            free,
            Layout(found.cpus[:servers], found.cpus[servers:]),
            running.speeds,
            running.uses,
            running.networks,
        )
        layout = running.way.change(seen)
        if layout is None:
            return
        same = layout.counts == running.layout.counts
        running.layout, running.changed_s = layout, self._now_s
        running.ready_s = self._now_s + (self._costs.cpus_s if same else self._costs.tasks_s)
        self._note(running)

    def _work(self) -> None:
        """Let everybody work for a tick, and measure."""
        for each in list(self._running):
            found = rates(self._cluster, each.model, each.layout)
            begin_s = max(self._now_s, each.ready_s)
            lasts_s = self._now_s + TICK_S - begin_s
            if lasts_s <= 0:
                continue
            needs_s = each.left / found.steps_s
            if needs_s <= lasts_s:
                each.played.ended_s = begin_s + needs_s
                self._running.remove(each)
                continue
            each.left -= found.steps_s * lasts_s
            each.speeds.append(self._noisy(found.steps_s))
            each.uses.append(self._noisy(sum(found.cpus)))
            for samples, network in zip(each.networks, found.network, strict=False):
                samples.extend(self._noisy(network) for _ in range(6))

    def _noisy(self, value: float) -> float:
        return value * self._lots.gauss(1.0, NOISE)
