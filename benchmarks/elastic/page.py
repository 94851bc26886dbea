"""docs/reproduction-elastic.md: the section of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.elastic.rows import Row, missed

INTRO = """\
Made by `make bench-elastic`: Wang et al., *DLRover* (VLDB), and Tariq et al., *NEARCHUS*, beside
models of their jobs and clusters (`radrm/simulated/training_steps.py`, `training_cluster.py`). No
GPU, no cluster and no training ran for these tables. The plans are those of the planners
[`dlrover` and `nearchus`](policies.md): the same functions.

A constant that is fitted to a published figure is named beside that figure, so that row is no
evidence. **Bold** misses what should be reached. Several seeds: the median, and the quartiles.
"""

_CHECKED = """\
The cluster model comes first: it is checked against the paper's measurements (III) before any
claim is made with it.
"""

_SENSITIVE = """\
### What the assumptions do

The lengths of the paper's jobs and the time of a restart are not published. The median of the five
networks by which NEARCHUS ends sooner than Optimus, in per cent; *in place*: CPUs change while a
job works, as radrm does it, and only other tasks cost a minute.

| one job | {hours} |
|---|{line}|"""

_NETWORK = """\
**With a network model** the rival's disadvantage in cluster A is gone: what NEARCHUS then has over
Optimus is finer CPUs (a few per cent of speed) and larger steps towards its size. The second
matters less the longer a job runs. The published gain in speed is thus a gain over a rival that
does not know the network.
"""

LIMITS = """\
## Not claimed

CPU and memory utilisation, completion rate, AUC, and DLRover's figures for a cluster (-31, -21 and
-57 %) depend on how people size their jobs and on faults. No model here has those, so nothing is
claimed about them. Other limits:

- Jobs do not slow one another down on the network or in memory.
- A job's speed at a layout is constant, with noise of 1 % in what a rule measures.
- The loop of these tables is one of the benchmark's own: first come, first served. It has no
  nodes that are full, no failed action and no checkpoint.
- The models of both papers' jobs are not alike: DLRover's add the times of a step, NEARCHUS'
  overlap them. Each fits the measurements of its own paper.
"""


def page(
    dlrover: Sequence[Row],
    checks: Sequence[Row],
    shared: Sequence[Row],
    medians: Mapping[str, Sequence[float]],
    hours: Sequence[float],
) -> str:
    """Return the section. `medians`: by what is varied, one for each of `hours`."""
    lines = [INTRO, "## DLRover", "", *table(dlrover), "", "## NEARCHUS", "", _CHECKED]
    lines += [*table(checks), "", *table(shared), "", _NETWORK]
    shown = " | ".join(f"{each:g} h" for each in hours)
    lines.append(_SENSITIVE.format(hours=shown, line="---|" * (len(hours) - 1) + "---"))
    for name, values in medians.items():
        lines.append(f"| {name} | {' | '.join(f'{value:.0f}' for value in values)} |")
    lines += ["", LIMITS]
    rows = [*dlrover, *checks, *shared]
    names = [f"- {row.name}: {row.reached} (reach: {row.reach})" for row in missed(rows)]
    lines += ["## Missed", "", *(names or ["Nothing."])]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table: published, reached, what should be, assumed."""
    lines = ["| | published | reached | reach | assumed |", "|---|---|---|---|---|"]
    for row in rows:
        reached = f"**{row.reached}**" if row.holds is False else row.reached
        lines.append(f"| {row.name} | {row.published} | {reached} | {row.reach} | {row.assumed} |")
    return lines
