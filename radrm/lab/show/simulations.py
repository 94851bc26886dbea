"""Show the results of simulations: tables, with the best of each column in bold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import show_joules
from radrm.core.units import show_seconds
from radrm.lab.experiments.simulations.runs import Result
from radrm.lab.experiments.simulations.variants import Variant
from radrm.lab.simulator.bounds import Bounds
from radrm.lab.simulator.metrics import Spread, over_seeds
from radrm.lab.simulator.traces.past import RECORDED

Show = Callable[[float], str]


# ------------------------------------------------------------------ figures


class Figure(Struct, frozen=True):
    """A metric as people read it; `best` picks the best of several values."""

    name: str
    words: str
    title: str
    show: Show
    best: Callable[[Sequence[float]], float]
    rank: int = 0
    spread: bool = False
    """Whether a compared table shows its standard deviation beside it."""
    bound: Callable[[Bounds], float] | None = None
    versus: bool = False
    """Whether a compared table shows its change from the first variant."""
    says: Callable[[float | None], object] = lambda value: True
    """Whether a mean says anything; a table leaves out the figure if none does."""


def _percent(part: float) -> str:
    return f"{part:.0%}"


def _count(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}"


def _cost(value: float) -> str:
    return f"{value:.2f}"


def _known(value: float | None) -> bool:
    return value is not None


FIGURES = (
    Figure(
        *("makespan_s", "trace total time", "TOTAL", show_seconds, min),
        spread=True,
        bound=lambda limits: limits.makespan_s,
        versus=True,
    ),
    Figure("mean_wait_s", "mean waiting time", "WAIT", show_seconds, min, 3),
    Figure("mean_exec_s", "mean execution time", "EXEC", show_seconds, min, 4),
    Figure(
        *("mean_jct_s", "mean completion time", "JCT", show_seconds, min),
        spread=True,
        bound=lambda limits: limits.mean_jct_s,
        versus=True,
    ),
    Figure("p95_jct_s", "95th percentile of it", "P95", show_seconds, min, 7),
    Figure("oom_count", "out-of-memory deaths", "OOM", _count, min, spread=True),
    Figure("energy_j", "energy of the GPUs", "ENERGY", show_joules, min, 2, versus=True),
    Figure("gpu_smact_mean", "mean SM activity", "SMACT", _percent, max, 5),
    Figure("gpu_memory_mean", "mean GPU memory used", "MEMORY", _percent, max, 6),
    Figure("tardiness_s", "mean weighted tardiness", "LATE", show_seconds, min, 8, says=_known),
    Figure("late_fraction", "jobs that ended late", "LATE JOBS", _percent, min, 1, says=_known),
    Figure("energy_cost", "cost of energy", "ENERGY COST", _cost, min, 1, says=_known),
    Figure("tardiness_cost", "cost of late jobs", "LATE COST", _cost, min, 1, says=_known),
    Figure(
        *("total_cost", "cost of both", "COST", _cost, min), spread=True, says=_known, versus=True
    ),
    Figure("preemptions", "preemptions", "PREEMPTED", _count, min, 5, says=bool),
    Figure("resizes", "changes of a job's size", "RESIZES", _count, min, 4, says=_known),
    Figure("mean_gpus", "GPUs of a job, mean", "GPUS", _tenths, max, 3, says=_known),
    Figure("gpu_held", "GPUs held by jobs", "HELD", _percent, max, 2, says=_known),
    Figure(
        "mean_queue_s", "mean time to the first start", "QUEUE", show_seconds, min, 2, says=_known
    ),
    Figure("cpu_efficiency", "use of the jobs' CPUs", "CPU USE", _percent, max, 2, says=_known),
)


def _shown(figure: Figure, value: Spread) -> str:
    if value.mean is None:
        return "-"
    if not value.sd or not figure.spread:
        return figure.show(value.mean)
    return f"{figure.show(value.mean)} ±{figure.show(value.sd)}"


def _above(value: float | None, limit: float) -> str:
    return "-" if value is None or limit <= 0 else f"+{max(0.0, value / limit - 1):.0%}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_YOURS = "your daemon"
_MODES = {"mps": "MPS", "timeslice": "time-sliced", "exclusive": "exclusive"}
_KNOWN = {
    "memory": "memory known",
    "smact": "SM activity known",
    "duration": "duration known",
    "declared": "memory declared",
}
_OF_MEMORY = {"oracle": "memory declared", "declared": "memory declared"}
_OF_MEMORY[RECORDED] = "what was recorded of each job"


def setting_line(variant: Variant, yours: Variant) -> str:
    """The rules of a variant and what is known of jobs, and whether that is `yours`."""
    own, other = variant.scenario, yours.scenario
    same = (own.config, own.mps, own.estimator, own.known, own.fidelity) == (
        *(other.config, other.mps, other.estimator, other.known),
        other.fidelity,
    )
    config, mode = own.config, _MODES[variant.mode]
    known = [
        _KNOWN[name] + (f" within {error:.0%}" if error else "")
        for name, error in asdict(own.known).items()
        if error is not None
    ]
    if own.estimator in _OF_MEMORY and own.known.declared is None:
        known = [_OF_MEMORY[own.estimator], *known]
    rules = ", ".join((config.policy, config.order, config.planners_joined))
    return (
        f"{'As' if same else 'Not as'} configured here: {rules}; {mode}; "
        f"estimator {own.estimator}; {', '.join(known) or 'nothing declared'}"
    )


def others_line(variants: Sequence[Variant]) -> str | None:
    """How jobs share GPUs in the rows below the first, if that is another way; None: it is not."""
    first, *others = variants
    modes = dict.fromkeys(_MODES[each.mode] for each in others if each.mode != first.mode)
    return f"The other rows: {', '.join(modes)}" if modes else None


def heading(result: Result) -> Styled:
    """The simulated jobs and GPUs, in one line."""
    scenario = result.variant.scenario
    devices = len(scenario.devices) * result.variant.servers
    return Styled(
        f"{_counted(result.runs[0].jobs, 'job')} on {_counted(devices, 'GPU')}, "
        f"{_counted(len(result.runs), 'seed')}; recovery {scenario.config.recovery}, "
        f"loop {scenario.fidelity}"
    )


def variant_name(result: Result, found: Sequence[Result]) -> str:
    """The policy of a result, with its planner and its order if the results differ in them."""
    if result.variant.yours:
        return _YOURS
    found = [each for each in found if not each.variant.yours]
    own = (result.variant.planner, result.variant.order)
    others = [(each.variant.planner, each.variant.order) for each in found]
    differ = [word for at, word in enumerate(own) if len({each[at] for each in others}) > 1]
    return result.variant.policy + (f" ({', '.join(differ)})" if differ else "")


def one_table(result: Result) -> Rows:
    """All figures of one variant, beside the lower bounds."""
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
    for figure in FIGURES:
        value = found[figure.name]
        if not figure.says(value.mean):
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
    """A row for each variant of `different`, the best of each column in bold, and the bounds below.

    Changes in percent are relative to the first variant."""
    limits, found = found[0].limits, different(found)
    spreads = [over_seeds(result.runs) for result in found]
    figures = [
        f
        for f in FIGURES
        if any(f.says(s[f.name].mean) and s[f.name].mean is not None for s in spreads)
    ]
    several = len({result.variant.estimator for result in found}) > 1
    plans = len({result.variant.planner for result in found}) > 1
    orders = len({result.variant.order for result in found}) > 1
    columns = [Column("POLICY", least=10)] + [Column("ESTIMATOR")] * several
    columns += [Column("PLANNER")] * plans + [Column("ORDER")] * orders
    for figure in figures:
        columns.append(Column(figure.title, right=True, rank=figure.rank))
        if figure.versus:
            columns.append(Column("", right=True, rank=figure.rank + 1))
    table = Rows(columns)
    best = {f.name: _best(f, [s[f.name].mean for s in spreads]) for f in figures}
    for result, spread in zip(found, spreads, strict=True):
        name = _YOURS if result.variant.yours else result.variant.policy
        cells = [Styled(name)]
        cells += [Styled(result.variant.estimator)] * several
        cells += [Styled(result.variant.planner)] * plans
        cells += [Styled(result.variant.order)] * orders
        for figure in figures:
            value = spread[figure.name]
            bold = value.mean is not None and value.mean == best[figure.name]
            cells.append(Styled(_shown(figure, value), "bold" if bold else ""))
            if figure.versus:
                cells.append(Styled(_change(value.mean, spreads[0][figure.name].mean)))
        table.add(*cells)
    for title, jct_s, makespan_s in (
        ("lower bound", limits.mean_jct_s, limits.makespan_s),
        ("fluid", limits.fluid_mean_jct_s, limits.fluid_makespan_s),
    ):
        row = [Styled(title, "dim"), *[Styled("")] * (several + plans + orders)]
        for figure in figures:
            known = {"makespan_s": makespan_s, "mean_jct_s": jct_s}.get(figure.name)
            row.append(Styled("" if known is None else figure.show(known), "dim"))
            if figure.versus:
                change = "" if known is None else _change(known, spreads[0][figure.name].mean)
                row.append(Styled(change, "dim"))
        table.add(*row)
    return table


def different(found: Sequence[Result]) -> list[Result]:
    """The variants that have other results than each one before them."""
    kept: list[Result] = []
    for result in found:
        if all(result.runs != each.runs for each in kept):
            kept.append(result)
    return kept


def same_line(found: Sequence[Result]) -> str | None:
    """The variants that the table leaves out, by the row that stands for them; None: none."""
    kept = different(found)
    parts = []
    for first in kept:
        same = [each for each in found if each is not first and each.runs == first.runs]
        if same:
            names = ", ".join(dict.fromkeys(variant_name(each, found) for each in same))
            parts.append(f"{names} as {variant_name(first, found)}")
    return f"Left out, with the same results: {'; '.join(parts)}" if parts else None


def _best(figure: Figure, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # If all values are equal, none is marked as the best.
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
    """A line on the variants in which jobs never completed; None if all did."""
    counts = [
        f"{variant_name(result, found)}: {_count(mean)}"
        for result in found
        if (mean := over_seeds(result.runs)["unfinished"].mean)
    ]
    if not counts:
        return None
    return f"jobs that never completed, and count in no mean: {', '.join(counts)}"
