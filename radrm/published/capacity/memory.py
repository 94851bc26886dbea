"""What the planner keeps between two calls: the plan that is being carried out, and its chance.

A plan needs several calls: jobs save and stop first, then others start. All times are boot-time
seconds. After a reboot, and with another seed, only the seed's own count of calls goes on or begins
anew; the plan is made again.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from radrm.rules import Instant, moment, plain_moment


class Memory(Struct):
    """The planner's state. `calls`: the plans made with this seed."""

    seed: int
    calls: int = 0
    made: Instant | None = None
    """When the plan was made; None without a plan."""
    seen: str = ""
    """What the plan follows from, as a digest."""
    plan: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The devices of each job that is to run."""
    asked: dict[int, tuple[int, float, int, int]] = field(default_factory=dict)
    """The jobs to stop: attempt, its last request to save before, requests that failed, calls."""
    kept: dict[int, tuple[int, float]] = field(default_factory=dict)
    """The attempts that did not stop; they are left alone until then."""
    tried: dict[int, float] = field(default_factory=dict)
    """Since when a job's devices are free and it has not started."""
    resting: dict[int, float] = field(default_factory=dict)
    """The jobs that could not start where they were planned; they are left out until then."""

    @classmethod
    def of(cls, state: Any, seed: int, now: Instant) -> Memory:
        """Return what is in the planner's state."""
        if not isinstance(state, dict) or state.get("seed") != seed:
            return cls(seed)
        made = state["made"]
        at = None if made is None else moment(made)
        passed_s = None if at is None else now.since(at)
        if passed_s is None or passed_s < 0:
            return cls(seed, state["calls"])
        return cls(
            seed,
            state["calls"],
            at,
            state["seen"],
            {int(job_id): tuple(uuids) for job_id, uuids in state["plan"].items()},
            {int(job_id): (a, b, c, d) for job_id, (a, b, c, d) in state["asked"].items()},
            {int(job_id): (a, b) for job_id, (a, b) in state["kept"].items()},
            {int(job_id): since_s for job_id, since_s in state["tried"].items()},
            {int(job_id): until_s for job_id, until_s in state["resting"].items()},
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        made = self.made
        return {
            "seed": self.seed,
            "calls": self.calls,
            "made": None if made is None else plain_moment(made),
            "seen": self.seen,
            "plan": {str(job_id): list(uuids) for job_id, uuids in self.plan.items()},
            "asked": {str(job_id): list(each) for job_id, each in self.asked.items()},
            "kept": {str(job_id): list(each) for job_id, each in self.kept.items()},
            "tried": {str(job_id): since_s for job_id, since_s in self.tried.items()},
            "resting": {str(job_id): until_s for job_id, until_s in self.resting.items()},
        }

    def tidy(self, jobs: set[int], now_s: float) -> None:
        """Forget jobs that have ended, and what is over."""
        self.plan = {job_id: each for job_id, each in self.plan.items() if job_id in jobs}
        self.asked = {job_id: each for job_id, each in self.asked.items() if job_id in jobs}
        self.tried = {job_id: each for job_id, each in self.tried.items() if job_id in jobs}
        self.kept = {
            job_id: each for job_id, each in self.kept.items() if job_id in jobs and now_s < each[1]
        }
        self.resting = {
            job_id: until_s
            for job_id, until_s in self.resting.items()
            if job_id in jobs and now_s < until_s
        }
