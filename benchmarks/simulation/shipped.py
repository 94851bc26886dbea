"""What a lab gets with radrm as installed, beside rules that know more: the figures of README.

    python -m benchmarks.simulation.shipped [--data FOLDER] [--seeds 6] [--only WORD] [--quick]
                                            [--part page|goals]

The setting `shipped`: the configuration file as installed (MPS off: jobs that share a GPU are
time-sliced), several users, nothing declared, SM activity read as the daemon reads it, and the
history of each user's programs as it grows during the run. Rows that know more are oracles, and say
so. Each runs in two worlds: one where sharing costs what radrm believes, and one where it costs as
much as the thesis measured (`loss` 1).

--only: the rows or traces with this word. --quick: two seeds. --part: only docs/lab/shipped.md, or
only the table of goals in docs/policies.md; else both, as runs end, and what is to be reached.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks import markdown
from benchmarks.simulation.flood import OTHERS, flood
from benchmarks.simulation.labs import LABS, SHORT_S
from benchmarks.simulation.lucid import lucid_like
from radrm.config import Config, MpsConfig
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import SHIPPED as AS_INSTALLED
from radrm.lab.simulator.scenario import Known, Scenario, as_configured
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.structs import replace
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
    return Config(policy="exclusive", order=order, planner=("strict",))


LUCID = "Lucid-like (oracle)"
SHIPPED = "**radrm, shipped**"
FIFO = "FIFO, exclusive"
PUBLISHED = 'radrm, `goal = "published"`'
DECLARED = "radrm, all declared (oracle)"
OFF = "radrm, ± 50 %"
BLIND = "radrm, no SM readings"
ROWS = (
    Row(FIFO, "one job a GPU, in the order of submission", _exclusive("fifo")),
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
    Row(PUBLISHED, "nothing declared", Config(goal="published")),
    Row(
        DECLARED,
        "memory, SM activity and duration exact",
        fields={"estimator": "declared", "known": ALL},
    ),
    Row(
        OFF,
        "memory declared exactly, SM activity and duration with an error of 50 %",
        fields={"estimator": "declared", "known": HALF},
    ),
    Row(
        BLIND,
        "as installed; no source reads SM activity",
        fields={"smact_read": False},
    ),
)
UNDER_MPS = Config(mps=MpsConfig(enabled=True))
GOAL_ROWS = tuple(
    Row(f'`goal = "{goal}"`', "nothing declared", Config(goal=goal))
    for goal in ("throughput", "turnaround")
)
MPS_ROWS = (
    Row("nothing declared, MPS", "`mps.enabled = true`", UNDER_MPS),
    Row(
        "memory declared ± 8 %, MPS",
        "`mps.enabled = true`; --gpu-memory with an error of 8 %",
        UNDER_MPS,
        {"estimator": "auto", "known": Known(declared=0.08)},
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
    return job.user in OTHERS


def measure(name: str, trace: str, loss: float | None, seed: int, data: Path) -> Figures:
    """Run a row on a trace. Its arguments are small: it is called in another process."""
    chosen = next(row for row in (*ROWS, *GOAL_ROWS, *MPS_ROWS) if row.name == name)
    short = of_others if trace == FLOOD else is_short
    if trace == FLOOD:
        jobs = flood(seed=seed)
    else:
        jobs = tuple(next(lab for lab in LABS if lab.name == trace).read(data))
    scenario = as_configured(parse(SERVER), chosen.config, loss=loss, seed=seed)
    return figures(chosen.run(jobs, replace(scenario, **chosen.fields)), short)


FLOOD = "flood"


# ------------------------------------------------------------------ tables


def table(
    title: str, first: str, columns: Sequence[str], cells: Mapping[str, Sequence[str]]
) -> str:
    lines = markdown.table(
        (first, *columns), ((name, *row) for name, row in cells.items()), range(1, 99)
    )
    return "\n".join([title, "", *lines, ""] if title else lines)


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
    if PUBLISHED in found:
        line(
            'mean completion, of `goal = "published"` (at most 1)',
            lambda t: f"{shipped[t].mean_min / found[PUBLISHED][t].mean_min:.2f}",
        )
    if DECLARED in found and OFF in found:
        line(
            "± 50 %, of all declared exactly (at most 1.05)",
            lambda t: f"{found[OFF][t].mean_min / found[DECLARED][t].mean_min:.2f}",
        )
    if BLIND in found and FIFO in found:

        def gain(trace: str) -> str:
            most = found[FIFO][trace].mean_min - shipped[trace].mean_min
            own = found[FIFO][trace].mean_min - found[BLIND][trace].mean_min
            return f"{own / most:.2f}" if most > 0 else "-"

        line("no SM readings: part of the gain over FIFO, exclusive (at least 0.5)", gain)
    return lines


@dataclass(slots=True)
class Runs:
    """Runs that have begun in other processes."""

    pool: ProcessPoolExecutor
    data: Path
    seeds: int
    begun: dict[tuple[str, str, float | None], list[Future[Figures]]] = field(default_factory=dict)

    def begin(self, row: Row, trace: str, loss: float | None = None) -> None:
        self.begun[row.name, trace, loss] = [
            self.pool.submit(measure, row.name, trace, loss, seed, self.data)
            for seed in range(self.seeds)
        ]

    def mean(self, name: str, trace: str, loss: float | None = None) -> Mean:
        return mean_of([each.result() for each in self.begun[name, trace, loss]])


def tables(runs: Runs, rows: Sequence[Row], traces: Sequence[str]) -> Iterator[str]:
    """Yield the tables of both worlds, as their runs end."""
    names = [row.name for row in rows]
    flooded: dict[str, list[str]] = {name: [] for name in names}
    for world, loss in WORLDS.items():
        found = {name: {t: runs.mean(name, t, loss) for t in traces} for name in names}
        title = (
            f"**World: {world}.** Minutes: mean completion / median wait of short jobs before "
            "their first start / makespan / deaths by out-of-memory for each 60 jobs."
        )
        shown = {name: [cell(of[t]) for t in traces] for name, of in found.items()}
        yield table(title, "rule", traces, shown)
        if SHIPPED in found:
            yield table(f"{_AIMS}, world: {world}.", "shipped", traces, targets(found))
        for name in names:
            flooded[name].append(cell(runs.mean(name, FLOOD, loss)))
    title = (
        "**A flood**: a sweep of 80 jobs beside 20 short jobs of four others. The same figures; "
        "the waits are those of the others."
    )
    yield table(title, "rule", list(WORLDS), flooded)


def mps_table(runs: Runs) -> str:
    title = "**Under MPS**, own model. The same figures; users as installed."
    shown = {row.name: [cell(runs.mean(row.name, t)) for t in THESIS] for row in MPS_ROWS}
    return table(title, "known", THESIS, shown)


OF_GOALS = {
    '`goal = "sharing"`, the default': SHIPPED,
    **{row.name: row.name for row in GOAL_ROWS},
    '`goal = "published"`': PUBLISHED,
    '`policy = "exclusive"`, `order = "fifo"`': FIFO,
    "all declared exactly (an oracle)": DECLARED,
    "a Lucid-like rule (an oracle)": LUCID,
}
"""The lines of the table of goals, and the rows that they show."""


def goals_table(runs: Runs) -> str:
    """Return the table of docs/policies.md: makespan and mean completion of each goal."""

    def shown(name: str, trace: str) -> str:
        mean = runs.mean(name, trace)
        return f"{mean.makespan_min:.0f}, {mean.mean_min:.0f}"

    cells = {line: [shown(name, t) for t in THESIS] for line, name in OF_GOALS.items()}
    return table("", "rules", THESIS, cells)


_AIMS = "To reach"
THESIS = ("heavy60", "mix90")
_HEAD = """# What a lab gets

These are the figures of radrm **as installed**: MPS off (jobs that share a GPU are time-sliced),
several users, nothing declared, the history of each user's programs as it grows. Rules that know
more stand beside it and are called oracles. They are simulated; [the limits of the
model](../simulation.md#limits-of-the-model) hold. By `python -m benchmarks.simulation.shipped`.

Each rule runs in two worlds: one where sharing costs what radrm's own model says, and a pessimistic
one after the thesis's runs on streams.

"""


def setting(seeds: int) -> str:
    """Return the lines that say what was run."""
    lines = [f"Server: `{SERVER}`. Means of the seeds 0 to {seeds - 1}."]
    lines += [f"- {lab.name}: {lab.what}; {lab.users} users" for lab in LABS]
    lines += ["", "Rules:", ""]
    lines += [f"- {row.name}: {row.what}" for row in (*ROWS, *MPS_ROWS)]
    lines.insert(1, "")
    return "\n".join([*lines, ""])


def page(parts: Sequence[str]) -> str:
    """Return docs/lab/shipped.md, without the aims."""
    return _HEAD + "\n".join(part for part in parts if not part.startswith(_AIMS))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.shipped")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where traces/ lies")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", default="", help="the rows or traces with this word")
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--part", choices=("page", "goals"), help="only this one")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    if args.part and args.only:
        sys.exit("--part is of all rows; leave out --only")
    with ProcessPoolExecutor(args.processes) as pool:
        runs = Runs(pool, args.data, 2 if args.quick else args.seeds)
        if args.part == "page":
            print(page(list(_page_parts(runs, ""))))
        elif not args.part:
            for part in _page_parts(runs, args.only):
                print(part, flush=True)
        if args.part != "page" and not args.only:
            print(_goals(runs))
    return 0


def _page_parts(runs: Runs, only: str) -> Iterator[str]:
    rows: Sequence[Row] = ROWS
    traces = tuple(lab.name for lab in LABS)
    if any(only in name for name in traces):
        traces = tuple(name for name in traces if only in name)
    else:
        rows = tuple(row for row in ROWS if only.casefold() in row.name.casefold())
    for loss in WORLDS.values():
        for row in rows:
            for trace in (*traces, FLOOD):
                runs.begin(row, trace, loss)
    for row in MPS_ROWS if not only else ():
        for trace in THESIS:
            runs.begin(row, trace)
    yield setting(runs.seeds)
    yield from tables(runs, rows, traces)
    if not only:
        yield mps_table(runs)


def _goals(runs: Runs) -> str:
    for row in (*ROWS, *GOAL_ROWS):
        for trace in THESIS:
            if row.name in OF_GOALS.values() and (row.name, trace, None) not in runs.begun:
                runs.begin(row, trace)
    return goals_table(runs)


if __name__ == "__main__":
    sys.exit(main())
