"""docs/lab/reproduction-andreas.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.deadlines.claims import Claim, Found, total
from benchmarks.deadlines.methods import (
    ANDREAS,
    BASELINES,
    CODE,
    DEADLINE,
    FREE,
    OWN,
    PROGRAM,
    Method,
)
from benchmarks.deadlines.real import PUBLISHED, Checked
from benchmarks.deadlines.server import Served
from benchmarks.deadlines.sizes import LOAD, Sized

SLOW, FEW = (CODE, ANDREAS), 4
"""Methods that only complete the table, and their seeds."""
TABLE = (*PROGRAM, *BASELINES, *OWN, CODE, FREE, ANDREAS, DEADLINE)

_INTRO = """\
Made by `make bench-deadlines`: Filippini et al., *ANDREAS*, arXiv 2105.05080, simulated with
the published run times, powers, prices and due times on 10 nodes, of which half have V100s and
half T4s. Means over {seeds} seeds with 95 % intervals, in EUR: energy plus lateness. Scenario 1
has nodes of two V100s or one T4, scenario 2 of four or two (the paper's captions swap them).
The paper names no load.

- *FIFO, EDF, PS*: the published baselines. A job keeps its configuration, chosen as `andreas`
  chooses it. *servers whole*: each job has a server alone, as in the authors' program.
- *strict*: radrm's own planner with orders `fifo`, `due` and `weight`, a GPU a job.
- *free moves*: stopping and starting again cost nothing, as published. The others need
  {move:.0f} s to save and {move:.0f} s to start again. *variant code*: what the authors' program
  does differently. That and `andreas` with its moves have {few} seeds.
"""

_PUBLISHED = """\
Published: 62 % (scenario 1) and almost 30 % (scenario 2) below FIFO, EDF and PS, on average, at
a load that is not named.
"""

_SIZES = """## 10 to 100 nodes

Load {load:g}, one seed. *call*: processor seconds of a call of the optimizer, the median and
the longest (the first imports numpy). Published: always below 0.1 s (scenario 1), below 0.01 s
on average (scenario 2).

| scenario | nodes | | energy | total | hours | call |
|---|---|---|---|---|---|---|"""

_SERVER = """## One server

`examples/traces/afternoon-due.csv` on four A100s: the weighted mean delay, energy, and the part
of the jobs that are late. **bold**: order `due` delays at least 40 % less than `fifo`, with no
more energy.

| planner, policy | fifo | due | latest-start | weight |
|---|---|---|---|---|"""

_REAL = """## A real daemon

Eight jobs, 1200 s apart, on three simulated V100s (`python -m benchmarks.deadlines --real`):
energy was predicted to cost {predicted:.3f} EUR and metered as {metered:.3f} EUR,
{deviation:.1f} % of the prediction apart (published: {published} %). It shows that predictions
and readings fit each other; GPUs were simulated.
"""


def page(
    found: Found,
    seeds: int,
    held: Sequence[Claim],
    sizes: Sequence[Sized],
    servers: Sequence[Served],
    real: Checked | None,
) -> str:
    """Return the page's generated part."""
    lines = [_INTRO.format(seeds=seeds, few=FEW, move=DEADLINE.move_s)]
    for scenario in (1, 2):
        loads = sorted({load for s, load, _ in found if s == scenario})
        lines += [f"## Scenario {scenario}", ""]
        lines.append("| load | " + " | ".join(f"{load:g}" for load in loads) + " |")
        lines.append("|---|" + "---|" * len(loads))
        for method in TABLE:
            cells = [_cell(found, scenario, load, method) for load in loads]
            lines.append(f"| {method.name} | {' | '.join(cells)} |")
        lines.append("")
    lines += [_PUBLISHED, "## What holds", ""]
    lines += [f"- {'Holds' if each.holds else '**Missed**'}: {each.words}." for each in held]
    lines += ["", _SIZES.format(load=LOAD)]
    lines += [_size(each) for each in sizes]
    lines += [
        "",
        "![Costs over the load, and the optimizer's seconds](reproduction-andreas.svg)",
        "",
    ]
    lines.append(_SERVER)
    rules = list(dict.fromkeys((each.planner, each.policy) for each in servers))
    for planner, policy in rules:
        mine = {e.order: e for e in servers if (e.planner, e.policy) == (planner, policy)}
        lines.append(f"| {planner}, {policy} | {' | '.join(_served(mine))} |")
    if real is not None:
        lines += [
            "",
            _REAL.format(
                predicted=real.predicted,
                metered=real.metered,
                deviation=real.deviation,
                published=PUBLISHED,
            ),
        ]
    return "\n".join(lines)


def _cell(found: Found, scenario: int, load: float, method: Method) -> str:
    if (scenario, load, method) not in found:
        return ""
    return str(total(found, scenario, load, method))


def _size(each: Sized) -> str:
    call = "" if each.call_s is None else f"{each.call_s:.3f} s, {each.longest_s:.3f} s"
    return (
        f"| {each.scenario} | {each.nodes} | {each.method.name} | {each.energy_cost:.1f} | "
        f"{each.total_cost:.1f} | {each.makespan_s / 3600:.1f} | {call} |"
    )


def _served(mine: dict[str, Served]) -> list[str]:
    fifo, cells = mine["fifo"], []
    for order, each in mine.items():
        text = f"{each.tardiness_s:.0f} s, {each.energy_j / 3.6e6:.2f} kWh, {100 * each.late:.0f} %"
        less = each.tardiness_s <= 0.6 * fifo.tardiness_s and each.energy_j <= fifo.energy_j
        cells.append(f"**{text}**" if order == "due" and less else text)
    return cells
