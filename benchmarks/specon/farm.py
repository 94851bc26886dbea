"""The jobs of an experiment, and one run of them.

A worker of the thesis is a GPU here: the jobs of one share it equally, and lose some 6 % by
sharing. A job stands still to save, and starts anew for its move: five seconds together, as
published (Zheng's thesis, section 3.3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from statistics import fmean
from typing import Any
from unittest.mock import patch

from radrm.config import Config
from radrm.core.records import Attempt, Job
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.history import History
from radrm.lab.simulator.reporting import ReportingLoop
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm, Sharing
from radrm.published import specon
from radrm.published.convergence import Note, category_after
from radrm.published.convergence import judge as real_judge
from radrm.published.specon import SpeCon
from radrm.simulated.spec import parse
from radrm.structs import replace
from radrm.wiring import make_rules, make_settings

START_S, SAVE_S = 3.0, 2.0
REPORT_S = 5.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model's seconds alone on a worker, and how fast its loss falls (exp(-k x work done))."""

    name: str
    duration_s: float
    loss_k: float


VAE = Model("VAE", 190.0, 25.0)
MODELS = (
    VAE,
    Model("GRU", 125.0, 12.0),
    Model("Bidirectional-RNN", 213.0, 15.0),
    Model("RNN", 107.0, 10.0),
    Model("Dynamic-RNN", 187.0, 20.0),
)
"""The five models of Table 6.3. Their times and losses are not published.

VAE has the time with which 20 of them at fixed intervals take some 275 s without SpeCon; the others
have times with which 20 mixed jobs take some 710 s.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """The jobs of an experiment: fixed intervals of `every_s`, or at random within `within_s`."""

    jobs: int
    workers: int
    mixed: bool = False
    every_s: float | None = None
    within_s: float = 300.0

    def trace(self, seed: int) -> list[TraceJob]:
        """Return the jobs, by time."""
        rng = Random(f"specon {seed}")
        found = []
        for at in range(self.jobs):
            model = rng.choice(MODELS) if self.mixed else VAE
            spread = 0.2 if self.mixed else 0.1  # two frameworks, or runs of one program
            factor = rng.uniform(1 - spread, 1 + spread)
            submit_s = rng.uniform(0.0, self.within_s)
            if self.every_s is not None:
                submit_s = at * self.every_s
            found.append(
                TraceJob(
                    submit_s,
                    model.name,
                    1,
                    model.duration_s * factor + START_S,
                    1000.0,
                    1.0,
                    loss_k=model.loss_k,
                    report_s=REPORT_S,
                    checkpoint_s=SAVE_S,
                )
            )
        return sorted(found, key=lambda job: job.submit_s)


@dataclass(frozen=True, slots=True)
class Blind(Sharing, Policy):
    """Puts each job on a worker drawn by lot, whatever runs there."""

    conditions: bool = False
    seed: int = 0
    name: str = "blind"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        lot = blake2b(f"{self.seed} {ask.job.id}".encode(), digest_size=8).digest()
        return (eligible[int.from_bytes(lot, "big") % len(eligible)],), state


METER_S = 30.0
"""How often usage is metered (assumed: the thesis does not say)."""


@dataclass(frozen=True, slots=True)
class Metered(Sharing, Policy):
    """Puts each job on the worker that was used least when usage was metered last.

    Workers with one job and with five both show full utilization, and jobs that came since are not
    counted: so workers become uneven, as Figure 6.21 shows it.
    """

    conditions: bool = False
    meter_s: float = METER_S
    name: str = "metered"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        now_s = ask.job.submitted.boot_s  # a job starts when it comes
        if state is None or now_s - state["at_s"] >= self.meter_s:
            used = {each.device.uuid: each.smact or 0.0 for each in eligible}
            state = {"at_s": now_s, "used": used}
        used = state["used"]
        least = min(eligible, key=lambda each: (used[each.device.uuid], each.device.index))
        return (least,), state


def placements(seed: int) -> dict[str, Policy]:
    """Return the policies that place jobs, by name.

    `usage`: the thesis's baseline (section 6.2.3), by the usage of each worker; `usage, 60 s`:
    metered half as often. `fewest`: the fewest jobs. `blind`: by lot.
    """
    return {
        "usage": Metered(),
        "usage, 60 s": Metered(meter_s=2 * METER_S),
        "fewest": Magm(conditions=False),
        "blind": Blind(seed=seed),
    }


@dataclass(frozen=True, slots=True)
class Found:
    """One run: each job's completion time, the makespan, and the moves."""

    completion_s: tuple[float, ...]
    makespan_s: float
    moves: int

    @property
    def mean_s(self) -> float:
        return fmean(self.completion_s)


@dataclass(frozen=True, slots=True)
class Played:
    """How a trial is played: the placement, and SpeCon's settings (None: without it).

    `lot`: the control; categories are drawn by lot in place of following the losses.
    """

    placement: str = "usage"
    specon: Mapping[str, Any] | None = field(default=None)
    lot: bool = False


def play(trial: Trial, played: Played, seed: int) -> Found:
    """Return one run of a trial. Equal seeds have equal jobs and equal lots."""
    with _by_lot(seed) if played.lot else nullcontext():
        policy = placements(seed)[played.placement]
        run = _run(trial.trace(seed), trial.workers, policy, played.specon)
    ended = [(each.job.submit_s, each.ended_s) for each in run.jobs]
    assert all(end_s is not None for _, end_s in ended)
    times = tuple((end_s or 0.0) - submit_s for submit_s, end_s in ended)
    begun_s = min(submit_s for submit_s, _ in ended)
    moves = sum(len(each.attempts) - 1 for each in run.jobs)
    return Found(times, run.ended_s - begun_s, moves)


@contextmanager
def _by_lot(seed: int) -> Iterator[None]:
    """Have SpeCon judge jobs by gains drawn from a tenth to ten times `alpha`, not by losses."""
    rng = Random(f"lot {seed}")

    def drawn(note: Note, alpha: float) -> bool:
        gain = alpha * 10 ** rng.uniform(-1.0, 1.0)
        note.category, asks = category_after(note.category, gain, note.gain, alpha)
        note.gain = gain
        return asks

    def judge(note: Note, job: Job, attempt: Attempt, alpha: float, interval_s: float) -> bool:
        category, gain = note.category, note.gain
        real_judge(note, job, attempt, alpha, interval_s)  # for the rest of the note
        note.category, note.gain = category, gain
        return drawn(note, alpha)

    def judge_as_published(note: Note, job: Job, alpha: float) -> bool:
        return drawn(note, alpha)

    with patch.multiple(specon, judge=judge, judge_as_published=judge_as_published):
        yield


def _run(
    jobs: Sequence[TraceJob], workers: int, policy: Policy, rule: Mapping[str, Any] | None
) -> Run:
    life = Life(
        start_up_s=START_S, ramp_s=0.0, hold_s=0.0, spread=0.0, work_sd=0.0, restart_s=START_S
    )
    config = Config(policy="rr", order="fifo", planner=("strict",), core={"smact_warm_s": 0.0})
    devices = parse(f"sim:{workers}xA100-80GB")
    scenario = Scenario(devices, config, life=life, cpus_per_device=True)
    made, alone = make_rules(config), Exclusive()
    planners: tuple[Any, ...] = (OrderPolicy(policy, alone),)
    if rule is not None:
        planners += (SpeCon(policy, alone, **rule),)
    rules = replace(made, planners=planners)
    settings = dataclasses.replace(make_settings(config), checkpoint_limit_s=300.0)
    tasks, history = tasks_of(jobs, scenario), History(jobs)
    loop = ReportingLoop(scenario, rules, settings, tasks, history)
    loop.run()
    return history.run(loop.world.device_runs())
