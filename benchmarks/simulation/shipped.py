"""What a lab gets with radrm as installed, beside rules that know more: the figures of README.

    python -m benchmarks.simulation.shipped [--data FOLDER] [--seeds 6] [--only WORD] [--quick]

The setting `shipped`: the configuration file as installed (MPS off: jobs that share a GPU are
time-sliced), several users, nothing declared, SM activity read as the daemon reads it, and the
history of each user's programs as it grows during the run. Rows that know more are oracles, and say
so. Each runs in two worlds: one where sharing costs what radrm believes, and one where it costs as
much as the thesis measured (`loss` 1).

--only: the rows and traces with this word. --quick: two seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.simulation.labs import LABS, SHORT_S, flood
from benchmarks.simulation.lucid import lucid_like
from radrm.config import Config, MpsConfig
from radrm.simulated.spec import parse
from radrm.simulator.engine import simulate
from radrm.simulator.run import Run
from radrm.simulator.scenario import SHIPPED as AS_INSTALLED
from radrm.simulator.scenario import Known, Scenario, as_configured
from radrm.simulator.traces.job import TraceJob
from tests.paths import SHARED_DATA

SERVER = "sim:4xA100-40GB"
WORLDS: Mapping[str, float | None] = {"own model": None, "pessimistic": 1.0}
ALL = Known(smact=0.0, duration=0.0)
HALF = Known(smact=0.5, duration=0.5)


@dataclass(frozen=True, slots=True)
class Row:
    """A rule and what it knows. `run`: another simulation than radrm's own."""

    name: str
    what: str
    config: Config = AS_INSTALLED
    fields: Mapping[str, Any] = field(default_factory=dict)
    run: Callable[[Sequence[TraceJob], Scenario], Run] = simulate


def _exclusive(order: str) -> Config:
    return Config(policy="exclusive", order=order, planner=("default",))


LUCID = "Lucid-like (oracle)"
SHIPPED = "**radrm, shipped**"
ROWS = (
    Row("FIFO, exclusive", "one job a GPU, in the order of submission", _exclusive("fifo")),
    Row(
        "shortest first, exclusive (oracle)",
        "one job a GPU; exact durations known",
        _exclusive("shortest"),
        {"estimator": "none", "known": Known(duration=0.0)},
    ),
    Row(
        LUCID,
        "two jobs a GPU by known slow-down; memory and SM activity exact, durations ± 30 %",
        run=lucid_like,
    ),
    Row(SHIPPED, "as installed; nothing declared"),
    Row('radrm, `goal = "published"`', "nothing declared", Config(goal="published")),
    Row(
        "radrm, all declared (oracle)",
        "memory, SM activity and duration exact",
        fields={"estimator": "declared", "known": ALL},
    ),
    Row(
        "radrm, ± 50 %",
        "memory declared exactly, SM activity and duration with an error of 50 %",
        fields={"estimator": "declared", "known": HALF},
    ),
    Row(
        "radrm, no SM readings",
        "as installed; no source reads SM activity",
        fields={"smact_read": False},
    ),
)
UNDER_MPS = Config(mps=MpsConfig(enabled=True))
MPS_ROWS = (
    Row("nothing declared, MPS", "`mps.enabled = true`", UNDER_MPS),
    Row(
        "memory declared ± 8 %, MPS",
        "`mps.enabled = true`; --gpu-memory with an error of 8 %",
        UNDER_MPS,
        {"estimator": "declared", "known": Known(memory=0.08)},
    ),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run shows. Minutes; deaths for each 60 jobs; `short_min`: the waits of short jobs
    before their first start."""

    mean_min: float
    makespan_min: float
    deaths: float
    unfinished: int
    short_min: tuple[float, ...]


def figures(run: Run, short: Callable[[TraceJob], bool]) -> Figures:
    done = [(j.ended_s - j.job.submit_s) / 60 for j in run.jobs if j.ended_s is not None]
    waits = [
        (j.attempts[0].started_s - j.job.submit_s) / 60
        for j in run.jobs
        if short(j.job) and j.attempts
    ]
    begin_s = min(j.job.submit_s for j in run.jobs)
    return Figures(
        mean_min=fmean(done) if done else float("nan"),
        makespan_min=(run.ended_s - begin_s) / 60,
        deaths=run.oom_count * 60 / len(run.jobs),
        unfinished=len(run.jobs) - len(done),
        short_min=tuple(waits),
    )


def is_short(job: TraceJob) -> bool:
    return job.duration_s <= SHORT_S


def of_others(job: TraceJob) -> bool:
    return is_short(job) and job.user != "sweeper"


def measure(row: int, mps: bool, trace: str, loss: float | None, seed: int, data: Path) -> Figures:
    """Run a row on a trace. Its arguments are small: it is called in another process."""
    chosen = (MPS_ROWS if mps else ROWS)[row]
    short = of_others if trace == FLOOD else is_short
    if trace == FLOOD:
        jobs = flood()
    else:
        jobs = tuple(next(lab for lab in LABS if lab.name == trace).read(data))
    scenario = as_configured(parse(SERVER), chosen.config, loss=loss, seed=seed)
    return figures(chosen.run(jobs, replace(scenario, **chosen.fields)), short)


FLOOD = "flood"


# ------------------------------------------------------------------ tables


def table(
    title: str, first: str, columns: Sequence[str], cells: Mapping[str, Sequence[str]]
) -> None:
    print(f"\n{title}\n\n| {first} | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row)} |", flush=True)


@dataclass(frozen=True, slots=True)
class Mean:
    """The means over the seeds."""

    mean_min: float
    short_min: float | None
    makespan_min: float
    deaths: float
    unfinished: float


def mean_of(found: Sequence[Figures]) -> Mean:
    waits = [wait for each in found for wait in each.short_min]
    return Mean(
        fmean(each.mean_min for each in found),
        median(waits) if waits else None,
        fmean(each.makespan_min for each in found),
        fmean(each.deaths for each in found),
        fmean(each.unfinished for each in found),
    )


def cell(mean: Mean) -> str:
    short = "-" if mean.short_min is None else f"{mean.short_min:.0f}"
    failed = f" ({mean.unfinished:.1f} failed)" if mean.unfinished else ""
    shown = f"{mean.mean_min:.0f} / {short} / {mean.makespan_min:.0f}"
    return f"{shown} / {mean.deaths:.1f}{failed}"


Found = Mapping[str, Mapping[str, Mean]]
"""The means by row and trace."""


def targets(found: Found) -> dict[str, list[str]]:
    """Return the lines of what is to be reached, by trace."""
    shipped, lucid = found.get(SHIPPED, {}), found.get(LUCID, {})
    lines: dict[str, list[str]] = {}

    def line(name: str, make: Callable[[str], str]) -> None:
        lines[name] = [make(trace) for trace in shipped]

    if lucid:
        line(
            "mean completion, of Lucid-like (at most 1.15)",
            lambda t: f"{shipped[t].mean_min / lucid[t].mean_min:.2f}",
        )
        line(
            "short jobs' wait, minutes (at most 10 where Lucid-like has at most 30)",
            lambda t: f"{shipped[t].short_min or 0:.0f} ({lucid[t].short_min or 0:.0f})",
        )
    line(
        "makespan, of the best rule (at most 1.05)",
        lambda t: (
            f"{shipped[t].makespan_min / min(row[t].makespan_min for row in found.values()):.2f}"
        ),
    )
    line("deaths for each 60 jobs (at most 1)", lambda t: f"{shipped[t].deaths:.1f}")
    names = list(found)
    published = next((n for n in names if "published" in n), None)
    if published is not None:
        line(
            'mean completion, of `goal = "published"` (at most 1)',
            lambda t: f"{shipped[t].mean_min / found[published][t].mean_min:.2f}",
        )
    declared = next((n for n in names if "all declared" in n), None)
    off = next((n for n in names if "50 %" in n), None)
    if declared is not None and off is not None:
        line(
            "± 50 %, of all declared exactly (at most 1.05)",
            lambda t: f"{found[off][t].mean_min / found[declared][t].mean_min:.2f}",
        )
    blind = next((n for n in names if "no SM" in n), None)
    exclusive = next((n for n in names if n.startswith("FIFO")), None)
    if blind is not None and exclusive is not None:

        def gain(trace: str) -> str:
            most = found[exclusive][trace].mean_min - shipped[trace].mean_min
            own = found[exclusive][trace].mean_min - found[blind][trace].mean_min
            return f"{own / most:.2f}" if most > 0 else "-"

        line("no SM readings: part of the gain over FIFO, exclusive (at least 0.5)", gain)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.shipped")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where traces/ lies")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", default="", help="the rows or traces with this word")
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    seeds = 2 if args.quick else args.seeds
    traces = [lab.name for lab in LABS]
    rows = list(range(len(ROWS)))
    if any(args.only in name for name in traces):
        traces = [name for name in traces if args.only in name]
    else:
        rows = [at for at in rows if args.only.casefold() in ROWS[at].name.casefold()]
    print(f"{SERVER}; seeds 0 to {seeds - 1}")
    for lab in LABS:
        print(f"{lab.name}: {lab.what}; {lab.users} users")
    for row in (*ROWS, *MPS_ROWS):
        print(f"{row.name}: {row.what}")
    with ProcessPoolExecutor(args.processes) as pool:

        def begin(row: int, mps: bool, trace: str, loss: float | None) -> list[Future[Figures]]:
            return [
                pool.submit(measure, row, mps, trace, loss, seed, args.data)
                for seed in range(seeds)
            ]

        begun = {
            (world, row, trace): begin(row, False, trace, loss)
            for world, loss in WORLDS.items()
            for row in rows
            for trace in (*traces, FLOOD)
        }
        capped = {
            (row, trace): begin(row, True, trace, None)
            for row in range(len(MPS_ROWS))
            for trace in traces[:2]
        }

        def mean(started: Sequence[Future[Figures]]) -> Mean:
            return mean_of([each.result() for each in started])

        flooded: dict[str, list[str]] = {ROWS[row].name: [] for row in rows}
        for world in WORLDS:
            found = {
                ROWS[row].name: {t: mean(begun[world, row, t]) for t in traces} for row in rows
            }
            table(
                f"World: {world}. Minutes: mean completion / median wait of short jobs before "
                "their first start / makespan / deaths by out-of-memory for each 60 jobs",
                "rule",
                traces,
                {name: [cell(of[t]) for t in traces] for name, of in found.items()},
            )
            if SHIPPED in found:
                table(f"To reach, world: {world}", "shipped", traces, targets(found))
            for row in rows:
                flooded[ROWS[row].name].append(cell(mean(begun[world, row, FLOOD])))
        table(
            "Flood: a sweep of 80 jobs beside 40 short jobs of four others. The same figures; "
            "the waits are those of the others",
            "rule",
            list(WORLDS),
            flooded,
        )
        table(
            "Under MPS, own model: deaths by out-of-memory for each 60 jobs",
            "known",
            traces[:2],
            {
                row.name: [f"{mean(capped[at, t]).deaths:.1f}" for t in traces[:2]]
                for at, row in enumerate(MPS_ROWS)
            },
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
