"""ANDREAS: due times, weights and energy decide which jobs run, and jobs that can save give way.

Theory of operation
-------------------
Filippini et al., *ANDREAS*, arXiv 2105.05080, section IV. Whenever a job comes or ends, and every
`period_s`, all jobs are planned anew, also those that run: `capacity` has the problem and the
optimizer. What the paper leaves open is decided there: `capacity/randomized.py`.

What the paper does not have:
- Only jobs that can save their work are stopped or moved. A job with only `--requeue` runs on.
- A plan is carried out in several calls (`capacity/carrying.py`). Meanwhile it stays, unless
  something new happens: a job comes, ends or is edited, or a GPU comes or goes.
- A job without a due time counts as due `default_due_s` after its submission. So its pressure
  grows, and it starts in the end. While heavier jobs come, that is when it is as many times later
  than they are as they are heavier: nothing else bounds its wait.
- Priorities come before pressure, and jobs of the recovery queue before all others.
- `profile`: no node is set apart to measure run times. The runs themselves show them
  (`Job.profile`), and kinds that are not known yet are tried first.
- GPUs that a job avoids, or does not prefer, come after the others, whatever they cost.

`method` has the baselines of section V, as the authors' program has them: jobs in the order of
submission, due time or weight; each gets the configuration that is the cheapest in time, else the
fastest, and keeps it until it ends. There each job also gets a server alone (`whole_servers`).

It runs outside of `step`, so it answers with a `PlanReady`. Chance comes from the seed and the
number of plans made, which are in the state: the same state gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from radrm.published.capacity.carrying import SOON_S, Carrying, settle
from radrm.published.capacity.memory import Memory
from radrm.published.capacity.problem import Allocation, Problem, construct, without_chance
from radrm.published.capacity.situation import Assumptions, Situation, digest
from radrm.rules import (
    Costs,
    Exclusive,
    Job,
    Plan,
    Refusal,
    View,
    find_placement,
    fixed,
    show_seconds,
)
from radrm.rules import events as ev

_RANDOM, _GREEDY = "randomized", "greedy"
_BASELINES = ("fifo", "edf", "ps")
_METHODS = (_RANDOM, _GREEDY, *_BASELINES)
_UNREAD_S = 5.0
"""When to look again while a device has not been read and jobs wait."""

_OCCASIONS: frozenset[type[ev.Event]] = frozenset(
    {
        ev.JobSubmitted,
        ev.EstimateReady,
        ev.CancelRequested,
        ev.HoldRequested,
        ev.RequeueRequested,
        ev.EditRequested,
        ev.DrainRequested,
        ev.DevicesSeen,
        ev.NodesSeen,
        ev.AttemptEnded,
        ev.LaunchVoided,
        ev.CheckpointTaken,
        ev.AttemptsAdopted,
        ev.ActionFailed,
    }
)


@dataclass(frozen=True, slots=True)
class Andreas:
    """Plan all jobs anew at each change, by what lateness and energy cost."""

    costs: Costs = field(default_factory=Costs)
    max_iterations: int = 1000
    """Plans to construct in each call (1 to 100000); the cheapest is carried out.

    A site with a long queue, which wants plans sooner or better (the paper: 1000)."""
    rho: float = 100.0
    """How much the lateness of a job that must wait counts more than that of one that runs.

    A site where waiting costs less, or more, than the paper says."""
    period_s: float = 300.0
    """Plan anew at the latest after this time (at least 1).

    A site with long jobs, which need no new plan so often (H in the paper)."""
    seed: int = fixed(0)
    """Where chance begins. The same seed gives the same plans."""
    variant: str = "text"
    """`text`: the paper. `code`: what the authors' program does differently.

    A site that compares with the published figures, which the program made."""
    method: str = fixed(_RANDOM)
    """`randomized`; `greedy`: without chance; `fifo`, `edf` or `ps`: a baseline of the paper."""
    whole_servers: bool = fixed(False)
    """Give each job a server alone, as the baselines of the authors' program do."""
    gpu_watts: float = fixed(300.0)
    """The power of a GPU in use, where `energy.node_watts` does not have its type."""
    unknown_duration_s: float = fixed(3600.0)
    """The run time to assume for a job of which nothing is known."""
    profile: bool = False
    """Prefer the kinds of GPU on which a job's program has not run yet, until its reports show how
    fast it is there.

    A site with several kinds of GPUs whose users measure no program (`radrm profile`)."""
    default_due_s: float = fixed(604_800.0)
    """A job without a due time counts as due this long after its submission."""
    name: str = "andreas"
    version: int = 1
    starts_jobs: bool = True
    listens: frozenset[type[ev.Event]] = _OCCASIONS

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            known = ", ".join(_METHODS)
            raise ValueError(f"method = {self.method!r} is none of {known}")
        if not 1 <= self.max_iterations <= 100_000:
            raise ValueError(f"max_iterations = {self.max_iterations} is not in 1..100000")
        if not self.period_s >= 1:
            raise ValueError(f"period_s = {self.period_s:g} is not at least 1 (second)")
        if self.method == _RANDOM and find_spec("numpy") is None:
            from radrm.extras import command  # as rarely as numpy is missing

            raise ValueError(f"needs numpy; install it: {command('andreas')}")

    def get_ready(self) -> None:
        """Import numpy."""
        if self.method == _RANDOM:
            import_module("radrm.published.capacity.randomized")

    def think(self, view: View, state: Any) -> Plan:
        now = view.now
        memory = Memory.of(state, self.seed, now)
        memory.tidy({job.id for job in view.jobs()}, now.boot_s)
        situation = Situation(view, self._assumptions(), memory)
        seen = digest(view, situation.seen, memory)
        age_s = None if memory.made is None else now.since(memory.made)
        if age_s is None or seen != memory.seen or age_s >= self.period_s - 0.001:
            plan = self._plan(view, situation.problem, memory.calls)
            memory.plan = settle(view, situation, plan, self.variant == "code", self.whole_servers)
            memory.made, memory.seen, memory.calls = now, seen, memory.calls + 1
        carrying = Carrying(view, situation, memory, self.period_s)
        proposals = tuple(carrying.proposals())
        wake_at = self._wake_at(view, situation, memory, carrying.again_s)
        return Plan(proposals, memory.plain(), wake_at)

    def _assumptions(self) -> Assumptions:
        return Assumptions(
            costs=self.costs,
            gpu_watts=self.gpu_watts,
            unknown_duration_s=self.unknown_duration_s,
            default_due_s=self.default_due_s,
            rho=self.rho,
            moves=self.method not in _BASELINES,
            profile=self.profile,
        )

    def _plan(self, view: View, problem: Problem, calls: int) -> Allocation:
        """Return the plan of one call of the optimizer."""
        if not problem.works or not problem.servers:
            return {}
        if self.method in _BASELINES:
            order = self._order(view, problem)
            ranked = [work.ranked for work in problem.works]
            return construct(problem, order, ranked.__getitem__, self.whole_servers)
        if self.method == _GREEDY:
            return without_chance(problem, self.whole_servers)
        return _randomized(problem, self.max_iterations, (self.seed, calls), self.variant == "code")

    def _order(self, view: View, problem: Problem) -> list[int]:
        """Return the order of a baseline."""
        works = problem.works

        def key(number: int) -> tuple[float, ...]:
            work = works[number]
            job = view.job(work.job_id)
            assert job is not None  # the problem is made of this view
            first = {"fifo": 0.0, "edf": work.due_s, "ps": -work.rate}[self.method]
            return (-work.priority, first, *job.place, work.job_id)

        return sorted(range(len(works)), key=key)

    def _wake_at(
        self, view: View, situation: Situation, memory: Memory, again_s: float | None
    ) -> float | None:
        now_s = view.now.boot_s
        if again_s is not None:
            return now_s + again_s
        if not view.any_waiting and not any(view.running()):
            return None
        unread = any(
            not each.vanished and not each.occupants and each.unreadable(now_s) is not None
            for each in situation.seen.values()
        )
        if unread and view.any_waiting:
            return now_s + _UNREAD_S
        made_s = now_s if memory.made is None else memory.made.boot_s
        return max(now_s + SOON_S, made_s + self.period_s)

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        found = find_placement(view, job, Exclusive())
        refusals = found.refusals if found.placement is None else ()
        why = self._why(view, job) if job.spec.gpus else None
        return refusals if why is None else (Refusal("plan", why), *refusals)

    def keeps_order(self, view: View) -> bool:
        """Pressure decides, not the order."""
        return False

    def _why(self, view: View, job: Job) -> str | None:
        """Return what the present plan has for a waiting job; None if there is no plan yet."""
        kept = view.kept(self.name, self.version)
        if not isinstance(kept, dict) or kept.get("made") is None:
            return None
        memory = Memory.of(kept, self.seed, view.now)
        if job.id in memory.resting:
            left = show_seconds(max(0.0, memory.resting[job.id] - view.now.boot_s))
            return f"it could not start on the GPUs of its plan; it is planned again in {left}"
        if job.id in memory.plan:
            indices = {device.uuid: device.index for device in view.devices()}
            gpus = ", ".join(str(indices.get(uuid, uuid)) for uuid in memory.plan[job.id])
            return f"it is planned on GPU {gpus}, and starts when the jobs there have left"
        return "postponed: the cheapest plan found runs other jobs now"


def _randomized(problem: Problem, iterations: int, key: tuple[int, int], code: bool) -> Allocation:
    # numpy is an extra, and its import is slow: only a planner that thinks needs it.
    from radrm.published.capacity.randomized import Chance, construct_many

    return construct_many(problem, iterations, Chance(*key), code).plan()
