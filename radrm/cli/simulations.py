"""What `simulate`, `compare` and `replay` have in common: options, scenarios, many runs.

A *variant* is one way to run a trace: rules, settings, estimator. Each is run once for each
seed, in processes beside one another where that is worth it. Of a run only its metrics come
back, unless somebody wants to draw it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import typer

from radrm.config import Config, load_config
from radrm.core.words import Collocation
from radrm.errors import BadConfig, Refused, UsageError
from radrm.host.storage.paths import system_mode
from radrm.modelled.spec import ModelledDevice, parse
from radrm.simulator.bounds import Bounds, bounds, drawn, mean_of
from radrm.simulator.job import TraceJob
from radrm.simulator.metrics import Metrics, metrics
from radrm.simulator.run import Run
from radrm.simulator.scenario import FIDELITIES, Fidelity, Life, Scenario
from radrm.simulator.servers import simulate_servers
from radrm.wiring import find_rule, make_rules, make_settings, settings_of

MOST_SEEDS = 1000
MOST_SERVERS = 1024
_WORTH_PROCESSES = 2_000
"""Jobs times runs below which starting processes takes longer than it saves."""
_MODES = ("mps", "timeslice", "exclusive")
_OF_POLICY = "policy."
_OF_LIFE = "life."
_ALSO = {"scheduler.smact_limit": "policy.max_smact"}

# ------------------------------------------------------------------ options

Gpus = Annotated[str, typer.Option("--gpus", metavar="sim:SPEC", help="The modelled server.")]
Order = Annotated[str | None, typer.Option("--order", metavar="NAME", help="Which job is next.")]
Planner = Annotated[str | None, typer.Option("--planner", metavar="NAME", help="What plans.")]
Estimator = Annotated[
    str,
    typer.Option(
        "--estimator",
        metavar="NAME",
        help="Who tells the memory of jobs: oracle (the trace's own), none, a NAME_mib column of "
        "the trace, auto (the daemon's own, over such columns), or one whose errors are on "
        "record.",
    ),
]
SmactKnown = Annotated[
    bool, typer.Option("--smact-known", help="The estimator tells the SM activity, too.")
]
Mode = Annotated[
    str | None,
    typer.Option("--collocation", metavar="MODE", help="mps (unless set), timeslice, exclusive."),
]
Recovery = Annotated[
    str | None, typer.Option("--recovery", metavar="NAME", help="After out-of-memory.")
]
FidelityOption = Annotated[
    str,
    typer.Option(
        "--fidelity",
        metavar="LOOP",
        help="radrm: the daemon's own; published: the prototype's loop.",
    ),
]
Seeds = Annotated[
    int, typer.Option("--seeds", metavar="N", min=1, max=MOST_SEEDS, help="Runs, seeds 0 to N-1.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="NAME", help="Again for each, or a,b,c; all if left out."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting, as policy.max_smact=0.75, core.settle_s=60 or life.start_up_s=20.",
    ),
]
Servers = Annotated[
    int,
    typer.Option(
        "--servers",
        metavar="N",
        min=1,
        max=MOST_SERVERS,
        help="So many such servers; jobs are dealt out.",
    ),
]
Form = Annotated[
    str,
    typer.Option(
        "--import", metavar="FORM", help="auto, trace, published, prototype, philly, slurm."
    ),
]
Profile = Annotated[
    list[str] | None,
    typer.Option("--profile", metavar="CSV", help="Jobs alone: name,duration_s,smact,steady_mib."),
]
FillTable = Annotated[
    str | None,
    typer.Option("--fill", metavar="CSV", help="Typical jobs: memory_mib,smact,share."),
]
FillSeed = Annotated[
    int, typer.Option("--fill-seed", metavar="N", min=0, help="The seed of what is drawn.")
]
PlotFile = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .pdf or .svg.")
]


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for all variants of a command; None: as configured."""

    gpus: str = "sim:4xA100-40GB"
    order: str | None = None
    planner: str | None = None
    collocation: str | None = None
    recovery: str | None = None
    fidelity: str = "radrm"
    seeds: int = 1
    settings: Sequence[str] = ()
    smact_known: bool = False
    servers: int = 1


def configured() -> Config:
    """The configuration in force: where radrm runs, what is simulated is this server."""
    return load_config(os.environ, system_mode(os.environ, os.getuid()))


# ------------------------------------------------------------------ variants


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a trace; of `scenario` only the seed will differ from run to run."""

    scenario: Scenario
    servers: int = 1

    @property
    def policy(self) -> str:
        return self.scenario.config.policy

    @property
    def estimator(self) -> str:
        return self.scenario.estimator

    @property
    def mode(self) -> str:
        if self.scenario.config.collocation is Collocation.EXCLUSIVE:
            return "exclusive"
        return "mps" if self.scenario.mps else "timeslice"


def make_variant(base: Config, policy: str, estimator: str, choices: Choices) -> Variant:
    """Checked as the daemon would check it. Raises `BadConfig` and `UsageError`."""
    fidelity = _fidelity(choices.fidelity)
    config, mps = _mode(replace(base, policy=policy), choices.collocation)
    config = replace(
        config,
        order=choices.order or config.order,
        planner=choices.planner or config.planner,
        recovery=choices.recovery or config.recovery,
    )
    life = Life()
    for setting in choices.settings:
        config, life = _set(config, life, setting)
    make_rules(config)
    make_settings(config)
    scenario = Scenario(
        devices=parse(choices.gpus),
        config=config,
        fidelity=fidelity,
        mps=mps,
        estimator=estimator,
        smact_known=choices.smact_known,
        life=life,
    )
    return Variant(scenario, choices.servers)


def _fidelity(word: str) -> Fidelity:
    for known in FIDELITIES:
        if word == known:
            return known
    raise UsageError(f"--fidelity {word!r} is not one of {', '.join(FIDELITIES)}")


def _mode(config: Config, word: str | None) -> tuple[Config, bool]:
    """The configuration for a way of sharing, and whether the GPUs are under MPS."""
    if word is None:
        word = config.collocation.value
    if word == "auto":
        word = "mps"
    if word not in _MODES:
        raise UsageError(
            f"--collocation {word!r} is not one of {', '.join(_MODES)}; MIG is said by --gpus, "
            "as sim:1xA100-40GB:3g.20gb+4g.20gb"
        )
    alone = word == "exclusive"
    mode = Collocation.EXCLUSIVE if alone else Collocation.AUTO
    return replace(config, collocation=mode), word != "timeslice"


def _set(config: Config, life: Life, setting: str) -> tuple[Config, Life]:
    key, equals, value = setting.partition("=")
    key = key.strip()
    key = _ALSO.get(key, key)
    if key.startswith(_OF_LIFE):
        return config, _set_life(life, key.removeprefix(_OF_LIFE), value, setting)
    if key.startswith(_OF_POLICY):
        own = key.removeprefix(_OF_POLICY)
        if own not in settings_of(find_rule("policies", config.policy)):
            return config, life  # another of those that are compared has it: see `check_settings`
        key = f"policies.{config.policy}.{own}"
    return config.with_set(f"{key}{equals}{value}"), life


def _set_life(life: Life, key: str, value: str, setting: str) -> Life:
    known = [f.name for f in fields(Life) if f.name != "steady"]
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if key not in known or not 0 <= number <= 1e6:
        raise BadConfig(f"--set {setting}: write life.NAME=NUMBER; names are: {', '.join(known)}")
    if key == "spread" and number >= 1:
        raise BadConfig(f"--set {setting}: the spread is a part of 1, below 1")
    changed: dict[str, Any] = {key: number}
    return replace(life, **changed)


def check_settings(settings: Iterable[str], policies: Sequence[str]) -> None:
    """Raises `BadConfig` for a `policy.KEY` that none of these policies has."""
    for setting in settings:
        key = setting.partition("=")[0].strip()
        key = _ALSO.get(key, key)
        if not key.startswith(_OF_POLICY):
            continue
        own = key.removeprefix(_OF_POLICY)
        known = {name for each in policies for name in settings_of(find_rule("policies", each))}
        if own not in known:
            what = f"there are: {', '.join(sorted(known))}" if known else "it has none"
            who = policies[0] if len(policies) == 1 else "any policy that is run"
            raise BadConfig(f"--set {setting}: {own!r} is no setting of {who}; {what}")


# ------------------------------------------------------------------ the server


def capacities_mib(devices: Sequence[ModelledDevice]) -> list[int]:
    """What jobs can have of each device."""
    return [each.device.capacity_mib - each.unmanaged_mib for each in devices]


# ------------------------------------------------------------------ running


@dataclass(frozen=True, slots=True)
class Result:
    """A variant's runs, by seed; `run` is that of seed 0 where it was wanted. `limits`: what
    no policy could have beaten, the mean over the seeds."""

    variant: Variant
    runs: tuple[Metrics, ...]
    limits: Bounds
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """A run; `whole`: it comes back itself."""

    variant: int
    seed: int
    whole: bool


_Done = tuple[Metrics, "Bounds | None", "Run | None"]


_jobs: Sequence[TraceJob] = ()
_variants: Sequence[Variant] = ()


def _begin(jobs: Sequence[TraceJob], variants: Sequence[Variant]) -> None:
    """A worker process is told once what all its runs have in common."""
    global _jobs, _variants
    _jobs, _variants = jobs, variants
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a word


def _do(task: _Task) -> tuple[_Task, _Done]:
    return task, _once(_jobs, _variants[task.variant], task)


def _once(
    jobs: Sequence[TraceJob],
    variant: Variant,
    task: _Task,
    pool: Executor | None = None,
) -> _Done:
    scenario = replace(variant.scenario, seed=task.seed)
    if pool is None:
        run = simulate_servers(jobs, scenario, variant.servers)
    else:
        run = simulate_servers(jobs, scenario, variant.servers, pool.map)
    # Every variant meets the same jobs: a seed's bounds are those of all.
    limits = _limits(run, variant) if task.variant == 0 else None
    return metrics(run), limits, run if task.whole else None


def _limits(run: Run, variant: Variant) -> Bounds:
    scenario = variant.scenario
    parts = [each.fraction for each in scenario.devices] * variant.servers
    life = scenario.life
    return bounds(*drawn(run, life.start_up_s * (1 - life.spread)), parts)


def results(
    jobs: Sequence[TraceJob], variants: Sequence[Variant], seeds: int, whole: bool = False
) -> list[Result]:
    """Every variant with every seed. Raises what simulating raises; `whole` keeps the run of
    seed 0 of each."""
    tasks = [
        _Task(at, seed, whole and seed == 0) for seed in range(seeds) for at in range(len(variants))
    ]
    found: dict[tuple[int, int], _Done] = {}
    with _progress(len(tasks)) as tell:
        for task, done in _all(jobs, variants, tasks):
            found[task.variant, task.seed] = done
            tell(len(found))
    limits = mean_of([b for seed in range(seeds) if (b := found[0, seed][1]) is not None])
    return [
        Result(
            variant,
            tuple(found[at, seed][0] for seed in range(seeds)),
            limits,
            found[at, 0][2],
        )
        for at, variant in enumerate(variants)
    ]


def _all(
    jobs: Sequence[TraceJob], variants: Sequence[Variant], tasks: Sequence[_Task]
) -> Iterator[tuple[_Task, _Done]]:
    cpus = len(os.sched_getaffinity(0))
    lots = len(tasks) * max(variant.servers for variant in variants)
    if cpus < 2 or lots < 2 or len(jobs) * len(tasks) < _WORTH_PROCESSES:
        for task in tasks:
            yield task, _once(jobs, variants[task.variant], task)
        return
    # Forked, so that a long trace is not handed over to each.
    forked = multiprocessing.get_context("fork")
    workers = min(cpus, lots)
    alone = len(tasks) == 1
    first = ((), ()) if alone else (jobs, variants)
    with ProcessPoolExecutor(workers, forked, _begin, first) as pool:
        try:
            if alone:
                yield tasks[0], _once(jobs, variants[0], tasks[0], pool)
            else:
                yield from _as_done([pool.submit(_do, task) for task in tasks])
        except BrokenProcessPool:
            raise Refused(
                "a process of the simulation was killed, for want of memory as a rule; "
                "try a shorter trace or fewer seeds"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _as_done(
    futures: Sequence[Future[tuple[_Task, _Done]]],
) -> Iterator[tuple[_Task, _Done]]:
    for future in as_completed(futures):
        yield future.result()


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's standard error, for as long as there is something to wait for."""
    if runs < 2 or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # No thread of its own draws it: processes are forked meanwhile.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task = bar.add_task("runs", total=runs)

        def tell(done: int) -> None:
            bar.update(task, completed=done, refresh=True)

        tell(0)
        yield tell
