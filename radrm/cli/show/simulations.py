"""What simulations came to: documents for programs, tables for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.render import show_joules
from radrm.cli.simulations import Result
from radrm.client.text import Document
from radrm.core.units import show_seconds
from radrm.errors import plain
from radrm.simulator.bounds import Bounds
from radrm.simulator.metrics import MEASURED, Spread, over_seeds

Show = Callable[[float], str]


def document(result: Result, left_out: int = 0) -> Document:
    """One variant: means over the seeds, and their standard deviations (null for one seed)."""
    scenario, found = result.variant.scenario, over_seeds(result.runs)
    limits = result.limits
    told: Document = {
        "policy": result.variant.policy,
        "order": scenario.config.order,
        "planner": scenario.config.planner,
        "estimator": scenario.estimator,
        "collocation": result.variant.mode,
        "recovery": scenario.config.recovery,
        "fidelity": scenario.fidelity,
        "devices": len(scenario.devices) * result.variant.servers,
        "seeds": len(result.runs),
        "jobs": result.runs[0].jobs,
        "left_out": left_out,
        "unfinished": found["unfinished"].mean,
    }
    told |= {name: found[name].mean for name in MEASURED}
    told |= {f"{name}_sd": found[name].sd for name in MEASURED}
    told |= {
        "bound_makespan_s": limits.makespan_s,
        "bound_mean_jct_s": limits.mean_jct_s,
        "fluid_makespan_s": limits.fluid_makespan_s,
        "fluid_mean_jct_s": limits.fluid_mean_jct_s,
    }
    return told


# ------------------------------------------------------------------ figures


@dataclass(frozen=True, slots=True)
class _Figure:
    """A metric as people read it; `best` picks the better of two values."""

    name: str
    words: str
    title: str
    show: Show
    best: Callable[[Sequence[float]], float]
    rank: int = 0
    spread: bool = False
    """Its standard deviation stands beside it where there is no room for all."""
    bound: Callable[[Bounds], float] | None = None


def _percent(part: float) -> str:
    return f"{part:.0%}"


def _count(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


_FIGURES = (
    _Figure(
        *("makespan_s", "trace total time", "TOTAL", show_seconds, min),
        spread=True,
        bound=lambda limits: limits.makespan_s,
    ),
    _Figure("mean_wait_s", "mean waiting time", "WAIT", show_seconds, min, 3),
    _Figure("mean_exec_s", "mean execution time", "EXEC", show_seconds, min, 4),
    _Figure(
        *("mean_jct_s", "mean completion time", "JCT", show_seconds, min),
        spread=True,
        bound=lambda limits: limits.mean_jct_s,
    ),
    _Figure("p95_jct_s", "95th percentile of it", "P95", show_seconds, min, 7),
    _Figure("oom_count", "out-of-memory deaths", "OOM", _count, min, spread=True),
    _Figure("energy_j", "energy of the GPUs", "ENERGY", show_joules, min, 2),
    _Figure("gpu_smact_mean", "mean SM activity", "SMACT", _percent, max, 5),
    _Figure("gpu_memory_mean", "mean GPU memory used", "MEMORY", _percent, max, 6),
    _Figure("tardiness_s", "mean weighted tardiness", "LATE", show_seconds, min, 8),
)


def _shown(figure: _Figure, value: Spread) -> str:
    if value.mean is None:
        return "-"
    if not value.sd or not figure.spread:
        return figure.show(value.mean)
    return f"{figure.show(value.mean)} ±{figure.show(value.sd)}"


def _above(value: float | None, limit: float) -> str:
    return "-" if value is None or limit <= 0 else f"+{max(0.0, value / limit - 1):.0%}"


def _of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def heading(result: Result) -> Text:
    """What was simulated, in one line."""
    scenario = result.variant.scenario
    devices = len(scenario.devices) * result.variant.servers
    return Text(
        f"{_of(result.runs[0].jobs, 'job')} on {_of(devices, 'GPU')}, "
        f"{_of(len(result.runs), 'seed')}: {plain(result.variant.policy)} "
        f"({scenario.config.order}, {result.variant.mode}, estimator "
        f"{plain(scenario.estimator)}, recovery {scenario.config.recovery}, "
        f"loop {scenario.fidelity})"
    )


def one_table(result: Result) -> Rows:
    """All figures of one variant, beside what no policy can beat."""
    table = Rows(
        (
            Column(""),
            Column("MEAN", right=True),
            Column("SD", right=True, rank=3),
            Column("LOWER BOUND", right=True, rank=2),
            Column("ABOVE IT", right=True, rank=2),
        )
    )
    found = over_seeds(result.runs)
    for figure in _FIGURES:
        value = found[figure.name]
        if value.mean is None and figure.name == "tardiness_s":
            continue
        limit = None if figure.bound is None else figure.bound(result.limits)
        table.add(
            figure.words,
            "-" if value.mean is None else figure.show(value.mean),
            "-" if value.sd is None else figure.show(value.sd),
            "" if limit is None else figure.show(limit),
            "" if limit is None else _above(value.mean, limit),
        )
    return table


def compared_table(found: Sequence[Result]) -> Rows:
    """Variants by rows, the best of each column in bold, the bounds below them.

    The first is what the changes in percent are of."""
    limits = found[0].limits
    spreads = [over_seeds(result.runs) for result in found]
    figures = [f for f in _FIGURES if any(s[f.name].mean is not None for s in spreads)]
    several = len({result.variant.estimator for result in found}) > 1
    columns = [Column("POLICY", least=10)]
    columns += [Column("ESTIMATOR", rank=0 if several else 9)]
    for figure in figures:
        columns.append(Column(figure.title, right=True, rank=figure.rank))
        if figure.bound is not None or figure.name == "energy_j":
            columns.append(Column("", right=True, rank=figure.rank + 1))
    table = Rows(columns)
    best = {f.name: _best(f, [s[f.name].mean for s in spreads]) for f in figures}
    for result, spread in zip(found, spreads, strict=True):
        cells = [Text(plain(result.variant.policy)), Text(plain(result.variant.estimator))]
        for figure in figures:
            value = spread[figure.name]
            bold = value.mean is not None and value.mean == best[figure.name]
            cells.append(Text(_shown(figure, value), style="bold green" if bold else ""))
            if figure.bound is not None or figure.name == "energy_j":
                cells.append(Text(_change(value.mean, spreads[0][figure.name].mean)))
        table.add(*cells)
    for title, jct_s, makespan_s in (
        ("lower bound", limits.mean_jct_s, limits.makespan_s),
        ("fluid", limits.fluid_mean_jct_s, limits.fluid_makespan_s),
    ):
        row = [Text(title, style="dim"), Text("")]
        for figure in figures:
            known = {"makespan_s": makespan_s, "mean_jct_s": jct_s}.get(figure.name)
            row.append(Text("" if known is None else figure.show(known), style="dim"))
            if figure.bound is not None or figure.name == "energy_j":
                change = "" if known is None else _change(known, spreads[0][figure.name].mean)
                row.append(Text(change, style="dim"))
        table.add(*row)
    return table


def _best(figure: _Figure, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # Where all are alike none is the best.
    return figure.best(known) if known and min(known) < max(known) else None


def _change(value: float | None, other: float | None) -> str:
    if value is None or not other:
        return ""
    percent = 100 * (value / other - 1)
    return "" if percent == 0 else f"{percent:+.1f}%"


FOOT = (
    "TOTAL: from the first submission until the last end; JCT: from a job's submission until its "
    "end, WAIT and EXEC its parts. lower bound: no policy can beat it in this model; fluid: "
    "shortest remaining work first, jobs paused and cut at will"
)


def unfinished_line(found: Sequence[Result]) -> str | None:
    """Where jobs never ended well: which variants, and how many of them."""
    told = [
        f"{result.variant.policy}: {_count(mean)}"
        for result in found
        if (mean := over_seeds(result.runs)["unfinished"].mean)
    ]
    if not told:
        return None
    return f"jobs that never completed, and count in no mean: {', '.join(told)}"
