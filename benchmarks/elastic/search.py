"""Ways to find a job's layout on a cluster of NEARCHUS' paper while it runs.

A way sees what a real one would: after each interval the speed and the use of the tasks. It answers
with another layout, or None. The time that a change costs is the loop's (`cluster`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Protocol

from benchmarks.elastic.models import Cluster, even, without_network
from benchmarks.elastic.training_cluster import ClusterModel
from radrm.published import nearchus
from radrm.published.servers.layout import Layout
from radrm.simulated.training import Rates

NODE_CPUS = 5.0
"""CPUs of a task of Optimus and of the exhaustive search (V)."""
START = (1, 2)
"""Parameter servers and workers at the start, with `START_CPUS` together (V-A)."""
START_CPUS = 15.0
OPTIMUS_S = 600.0
"""Optimus adds a task each ten minutes (III-A)."""
FRUITLESS = 3
"""Changes without gain after which NEARCHUS returns to the best layout and stays (ours)."""
GAIN = 1.01
"""Speed in parts of the best that is a gain: more than the noise of five samples (assumed)."""
SAMPLES = 5
"""Minutes until a changed job is stable (IV: five samples; 5 to 8 minutes)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a way sees of its job: now, and since its last change. `free`: CPUs to be had.

    `speeds` and `uses` have a sample a minute, `networks` one per server six times a minute.
    """

    now_s: float
    changed_s: float
    layout: Layout
    budget: float
    free: float
    used: Layout
    speeds: Sequence[float]
    uses: Sequence[float]
    networks: Sequence[Sequence[float]]


class Way(Protocol):
    """A way to find a layout, with what it remembers of one job."""

    def start(self, budget: float) -> Layout:
        """Return the layout with which the job starts. It waits for so many CPUs."""
        ...

    def change(self, seen: Seen) -> Layout | None:
        """Return another layout, or None."""
        ...


@dataclass(slots=True)
class Nearchus:
    """NEARCHUS' section IV, by the planner's own functions, with its published thresholds."""

    best: tuple[float, Layout] | None = None
    without_gain: int = 0
    judged_s: float | None = None
    """When the layout that has been judged last was made."""

    def start(self, budget: float) -> Layout:
        return nearchus.first_layout(min(START_CPUS, budget))

    def change(self, seen: Seen) -> Layout | None:
        if self.without_gain >= FRUITLESS:
            return None
        if not (nearchus.is_stable(seen.speeds) and nearchus.is_stable(seen.uses)):
            return None
        if self.judged_s != seen.changed_s:
            self.judged_s = seen.changed_s
            self._judge(seen)
            if self.without_gain >= FRUITLESS and self.best is not None:
                return self.best[1]
        return self._next(seen)

    def _judge(self, seen: Seen) -> None:
        speed = sum(seen.speeds[-SAMPLES:]) / SAMPLES
        if self.best is None or speed > GAIN * self.best[0]:
            self.best, self.without_gain = (speed, seen.layout), 0
        else:
            self.without_gain += 1

    def _next(self, seen: Seen) -> Layout | None:
        layout = seen.layout
        given = (*layout.servers, *layout.workers)
        used = (*seen.used.servers, *seen.used.workers)
        room = min(seen.free, seen.budget - layout.total)
        adjusted = nearchus.reassigned(layout, seen.used)
        if adjusted.differs(layout, 0.02):
            return adjusted
        if nearchus.efficiency(used, given) >= 0.95:
            return nearchus.scaled_up(layout, 0.5, room) if room > 0.01 else None
        if any(nearchus.is_network_bound(each) for each in seen.networks):
            return nearchus.with_server(layout)
        return nearchus.with_worker(layout)


@dataclass(slots=True)
class NearchusByLot(Nearchus):
    """The control: it is shown uses of CPUs and of the network that are drawn, not measured."""

    rng: Random = field(default_factory=lambda: Random("lot"))

    def _next(self, seen: Seen) -> Layout | None:
        draw = self.rng.random
        used = Layout(
            tuple(draw() * cpus for cpus in seen.layout.servers),
            tuple(draw() * cpus for cpus in seen.layout.workers),
        )
        networks = [[draw() for _ in each] for each in seen.networks]
        return super(NearchusByLot, self)._next(replace(seen, used=used, networks=networks))


@dataclass(slots=True)
class Optimus:
    """Optimus: each ten minutes the task more that its model of the job's speed likes best.

    `believed` is that model. The published one is fitted to small layouts and misses the network
    (III-C); with the job's own model it misses nothing.
    """

    cluster: Cluster
    believed: ClusterModel

    def start(self, budget: float) -> Layout:
        return even(*START, NODE_CPUS)

    def change(self, seen: Seen) -> Layout | None:
        if seen.now_s - seen.changed_s < OPTIMUS_S or seen.free < NODE_CPUS:
            return None
        if seen.layout.total + NODE_CPUS > seen.budget:
            return None
        n_ps, n_wk = seen.layout.counts
        wider = [even(n_ps, n_wk + 1), even(n_ps + 1, n_wk)]
        best = max(wider, key=self._speed)
        return best if self._speed(best) > self._speed(seen.layout) else None

    def _speed(self, layout: Layout) -> float:
        return rates(self.cluster, self.believed, layout).steps_s


@dataclass(slots=True)
class Fixed:
    """The best layout of tasks with 5 CPUs for the whole budget, found by trying all (FA-BF)."""

    cluster: Cluster
    model: ClusterModel
    layout: Layout | None = field(default=None)

    def start(self, budget: float) -> Layout:
        return best_fixed(self.cluster, self.model, budget)

    def change(self, seen: Seen) -> Layout | None:
        return None


@cache
def best_fixed(cluster: Cluster, model: ClusterModel, budget: float) -> Layout:
    """Return the fastest layout of tasks with 5 CPUs each within a budget."""
    nodes = int(budget // NODE_CPUS)
    layouts = (even(ps, nodes - ps) for ps in range(1, nodes))
    return max(layouts, key=lambda each: rates(cluster, model, each).steps_s)


def knowing(cluster: Cluster, model: ClusterModel) -> Optimus:
    """Return Optimus with the network in its model."""
    return Optimus(cluster, model)


def blind(cluster: Cluster, model: ClusterModel) -> Optimus:
    """Return Optimus without it."""
    return Optimus(cluster, without_network(model))


@cache
def rates(cluster: Cluster, model: ClusterModel, layout: Layout) -> Rates:
    """Return the steady state of a job's layout on its cluster."""
    return model.rates(cluster.tasks(layout))
