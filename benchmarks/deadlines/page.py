"""docs/lab/reproduction-andreas.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.deadlines.claims import Claim, Found, total
from benchmarks.deadlines.methods import (
    ANDREAS,
    BASELINES,
    BY_LOT,
    CODE,
    DEADLINE,
    FREE,
    OWN,
    PROGRAM,
    Method,
)
from benchmarks.deadlines.real import PUBLISHED, SCALE, Checked, Chosen
from benchmarks.deadlines.server import Served
from benchmarks.deadlines.sizes import CONTROLLED, LOAD, Sized, saved_on_average
from benchmarks.markdown import table

SLOW, FEW = (CODE, ANDREAS), 4
"""Methods that only complete the table, and their seeds."""
TABLE = (*PROGRAM, *BASELINES, *OWN, CODE, FREE, ANDREAS, DEADLINE)

_INTRO = """\
Say first: where stopping and starting again cost 60 s each, `andreas` loses to its baselines from
load 1.1 on in scenario 1. The published simulations let moves cost nothing; below, *free moves*.

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
  does differently, but for two steps: it gives a server's idle GPUs to one of its jobs afterwards,
  and draws among the servers that fit best. That and `andreas` with its moves have {few} seeds.
"""

_SIZES = """## 10 to 100 nodes

Load {load:g} for both scenarios, one seed: the paper names no load. Beside FIFO, EDF and PS on 10,
20, 50 and 100 nodes `andreas` with free moves costs in scenario 1: {first} % less on average
(published: 62 %), in scenario 2: {second} % less on average (published: almost 30 %). *Run times by
lot* is the control, on 10 and 20 nodes: those of a job are multiplied by one random number. It
saves {first_lot} and {second_lot} %, where `andreas` saves {first_few} and {second_few} %.

*call*: processor seconds of a call of the optimizer, the median and the longest. Published: always
below 0.1 s (scenario 1), below 0.01 s on average (scenario 2). Here scenario 1's longest call is
{longest_s:.3f} s, and scenario 2's calls take {median_s:.3f} s (median of 100 nodes).
"""

_SERVER = """## One server

`examples/traces/afternoon-due.csv` on four A100s: the weighted mean delay, energy, and the part
of the jobs that are late. **bold**: order `due` delays at least 40 % less than `fifo`, with no
more energy.
"""

_REAL = """## A real daemon

Eight of these jobs, 1200 s apart, with `--gpus=1-2` and their due times, by `planner = "andreas"`
on three simulated V100s and a T4 (`python -m benchmarks.deadlines --part real`). The paper's three
nodes have one V100, two, and a T4; a daemon has one node. `radrm profile` has measured each program
on a V100, on two and on a T4. Each cell has (n*, g*) of the first start, and the number of starts:
plans and prediction take moves as free. The clock runs {scale:.0f} times as fast, so a start takes
a minute of it, or more.

Energy was predicted to cost {predicted:.3f} EUR and metered as {metered:.3f} EUR,
{deviation:.1f} % of the prediction apart (published: {published} %). The same model predicts and
meters, so this shows only that both add up alike. {late} of {jobs} jobs ended late, {foreseen} in
the prediction (published: none; its jobs are not in the paper, and ours need {load:.0f} % of the
GPUs).
`tests/daemon/planners/test_andreas.py` has one job that is in time only on two GPUs, and gets them.
"""


def costs_part(found: Found, seeds: int, held: Sequence[Claim]) -> str:
    """Return the tables of costs over loads, and what holds."""
    lines = [_INTRO.format(seeds=seeds, few=FEW, move=DEADLINE.move_s)]
    for scenario in (1, 2):
        loads = sorted({load for s, load, _ in found if s == scenario})
        rows = (
            (method.name, *(_cell(found, scenario, load, method) for load in loads))
            for method in TABLE
        )
        heads = ("load", *(f"{load:g}" for load in loads))
        lines += [f"## Scenario {scenario}", "", *table(heads, rows), ""]
    lines += ["## What holds", ""]
    lines += [f"- {'Holds' if each.holds else '**Missed**'}: {each.words}." for each in held]
    lines += ["", "![Costs over the load](reproduction-andreas.svg)"]
    return "\n".join(lines)


def sizes_part(sizes: Sequence[Sized]) -> str:
    """Return the table of 10 to 100 nodes."""
    first, second = (saved_on_average(sizes, scenario) for scenario in (1, 2))
    first_lot, second_lot = (saved_on_average(sizes, scenario, BY_LOT) for scenario in (1, 2))
    few = [each for each in sizes if each.nodes <= CONTROLLED]
    first_few, second_few = (saved_on_average(few, scenario) for scenario in (1, 2))
    calls = [(e.scenario, e.call_s or 0.0, e.longest_s or 0.0) for e in sizes]
    head = _SIZES.format(
        load=LOAD,
        first=first,
        second=second,
        first_lot=first_lot,
        second_lot=second_lot,
        first_few=first_few,
        second_few=second_few,
        longest_s=max(longest for scenario, _, longest in calls if scenario == 1),
        median_s=max(call for scenario, call, _ in calls if scenario == 2),
    )
    heads = ("scenario", "nodes", "", "energy", "total", "hours", "call")
    return "\n".join([head, *table(heads, map(_size, sizes))])


def server_part(servers: Sequence[Served]) -> str:
    """Return the table of one server."""
    rows = []
    for planner, policy in dict.fromkeys((each.planner, each.policy) for each in servers):
        mine = {e.order: e for e in servers if (e.planner, e.policy) == (planner, policy)}
        rows.append((f"{planner}, {policy}", *_served(mine)))
    heads = ("planner, policy", *dict.fromkeys(each.order for each in servers))
    return "\n".join([_SERVER, *table(heads, rows)])


def real_part(real: Checked) -> str:
    """Return the run through a real daemon."""
    foreseen, late = (sum(each.late_s[at] > 0 for each in real.jobs) for at in (0, 1))
    head = _REAL.format(
        scale=SCALE,
        predicted=real.predicted,
        metered=real.metered,
        deviation=real.deviation,
        published=PUBLISHED,
        late=late,
        foreseen=foreseen,
        jobs=len(real.jobs),
        load=real.load,
    )
    heads = ("job", "due after", "predicted", "in the daemon", "late: predicted, in the daemon")
    return "\n".join([head, *table(heads, map(_chosen, real.jobs))])


def _chosen(each: Chosen) -> list[str]:
    shown = (f"{first}, {starts}" for first, starts in (each.predicted, each.got))
    late = ", ".join(f"{each:.0f} s" for each in each.late_s)
    return [each.name, f"{each.due_s:.0f} s", *shown, late]


def _cell(found: Found, scenario: int, load: float, method: Method) -> str:
    if (scenario, load, method) not in found:
        return ""
    return str(total(found, scenario, load, method))


def _size(each: Sized) -> list[str]:
    call = "" if each.call_s is None else f"{each.call_s:.3f} s, {each.longest_s:.3f} s"
    figures = (each.energy_cost, each.total_cost, each.makespan_s / 3600)
    begin = (str(each.scenario), str(each.nodes), each.method.name)
    return [*begin, *(f"{figure:.1f}" for figure in figures), call]


def _served(mine: dict[str, Served]) -> list[str]:
    fifo, cells = mine["fifo"], []
    for order, each in mine.items():
        text = f"{each.tardiness_s:.0f} s, {each.energy_j / 3.6e6:.2f} kWh, {100 * each.late:.0f} %"
        less = each.tardiness_s <= 0.6 * fifo.tardiness_s and each.energy_j <= fifo.energy_j
        cells.append(f"**{text}**" if order == "due" and less else text)
    return cells
