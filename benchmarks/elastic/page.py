"""docs/lab/reproduction-elastic.md: the section of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, quantiles

from benchmarks.elastic.gpus import Served
from benchmarks.elastic.rows import Row, missed
from benchmarks.markdown import table

INTRO = """\
On one server a slow parameter server has nowhere to go: `dlrover` moves it to another node, and a
daemon has one. NEARCHUS' rule for servers on a network acts in the simulator only: tasks report no
bytes to a daemon, and those of one server use no network.

Made by `make bench-elastic`: Wang et al., *DLRover* (VLDB), and Tariq et al., *NEARCHUS*, beside
models of their jobs and clusters (`radrm/simulated/training.py`,
`benchmarks/elastic/training_cluster.py`). No
GPU, no cluster and no training ran for these tables. The plans are those of the planners
[`dlrover` and `nearchus`](../policies.md): the same functions, and further below the planners.

A constant that is fitted to a published figure is named beside that figure, so that row is no
evidence. **Bold** misses what should be reached. *By lot*: the control, with the rule's signal
drawn. Several seeds: the median, and the quartiles.
"""

_CHECKED = """\
The cluster model comes first: it is checked against the paper's measurements (III) before any
claim is made with it.
"""

_STEPPED = """\
## The planners themselves

The same models and jobs, run by radrm's planners `dlrover` and `nearchus` under `Scheduler.step` in
the simulator's loop, with its starts, resizes and reports. One node has the CPUs of the cluster;
the model deals the tasks out to its servers. The other ways are those of the tables above.
"""

_SENSITIVE = """\
### What the assumptions do

The lengths of the paper's jobs and the time of a restart are not published. The median of the five
networks by which NEARCHUS ends sooner than Optimus, in per cent; *in place*: CPUs change while a
job works, as radrm does it, and only other tasks cost a minute.
"""

_NETWORK = """\
**With a network model** the rival's disadvantage in cluster A is gone: what NEARCHUS then has over
Optimus is finer CPUs (the speeds above) and larger steps towards its size. The second matters less
the longer a job runs. The large gain in speed is thus a gain over a rival that does not know the
network.
"""

GPUS = """\
## Our own rule: `elastic`

Four simulated A100s, policy `exclusive`; {jobs} jobs drawn from `examples/traces/elastic.csv`, of
which two thirds can use two or four GPUs. *load*: GPU time of the jobs at their smallest size, per
time and GPU. Mean hours in the queue, and from submission to end; medians over {seeds} seeds, in
brackets the quartiles of the completion time. *by restarts*: the launcher is not `radrun`, so a job
saves, stops and starts again. Nothing here is published; the parts of a step and the costs of a
resize (5 s of standing still, 60 + 60 s for a restart) are assumed.
"""

_RULE = """\
Beside the smallest size for all, `elastic` shortens the mean completion time by {gains} % at
these loads. Its mean queue is {longer:.0f} s longer at most (a job waits while others give back)
and {shorter:.0f} s shorter at best. With the largest size for all, jobs wait for several GPUs at
once.
"""

LIMITS = """\
## Not claimed

CPU and memory utilisation, completion rate, AUC, and DLRover's figures for a cluster (-31, -21 and
-57 %) depend on how people size their jobs and on faults. No model here has those, so nothing is
claimed about them. Other limits:

- Jobs do not slow one another down on the network or in memory.
- A job's speed at a layout is constant, with noise of 1 % in what a rule measures.
- The loop of the tables on NEARCHUS and its rivals is one of the benchmark's own: first come, first
  served. It has no nodes that are full, no failed action and no checkpoint.
- The models of both papers' jobs are not alike: DLRover's add the times of a step, NEARCHUS'
  overlap them. Each fits the measurements of its own paper.
"""


def page(
    dlrover: Sequence[Row],
    checks: Sequence[Row],
    shared: Sequence[Row],
    medians: Mapping[str, Sequence[float]],
    hours: Sequence[float],
    stepped: Sequence[Row] = (),
    own: str = "",
) -> str:
    """Return the section.

    `medians`: by what is varied, one for each of `hours`. `stepped`: of the planners. `own`: what
    `gpus` returns.
    """
    lines = [INTRO, "## DLRover", "", *reached(dlrover), "", "## NEARCHUS", "", _CHECKED]
    lines += [*reached(checks), "", *reached(shared), "", _NETWORK, _SENSITIVE]
    lines += table(
        ("one job", *(f"{each:g} h" for each in hours)),
        ((name, *(f"{value:.0f}" for value in values)) for name, values in medians.items()),
    )
    lines += ["", _STEPPED, *reached(stepped), "", own, LIMITS]
    rows = [*dlrover, *checks, *shared, *stepped]
    names = [f"- {row.name}: {row.reached} (reach: {row.reach})" for row in missed(rows)]
    lines += ["## Missed", "", *(names or ["Nothing."])]
    return "\n".join(lines)


def gpus(
    found: Mapping[tuple[str, float], Sequence[Served]],
    names: Sequence[str],
    loads: Sequence[float],
    jobs: int,
) -> str:
    """Return the section on the rule `elastic`; the first name is the smallest size."""
    seeds = len(found[names[0], loads[0]])
    lines = [GPUS.format(jobs=jobs, seeds=seeds)]
    lines += table(
        ("", *(f"load {load:g}: queue, completion" for load in loads)),
        ((name, *(_served(found[name, load]) for load in loads)) for name in names),
    )
    rule = next(name for name in names if name == "`elastic`")
    gains = ", ".join(f"{_shorter(found[rule, load], found[names[0], load]):.0f}" for load in loads)
    waits = [
        3600 * median(_queues(found[rule, load])) - 3600 * median(_queues(found[names[0], load]))
        for load in loads
    ]
    told = _RULE.format(gains=gains, longer=max(0.0, *waits), shorter=abs(min(0.0, *waits)))
    return "\n".join([*lines, "", told])


def _queues(found: Sequence[Served]) -> list[float]:
    return [each.queue_h for each in found]


def _served(found: Sequence[Served]) -> str:
    times = [each.completion_h for each in found]
    low, _, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return f"{median(_queues(found)):.2f}, {median(times):.2f} ({low:.2f} to {high:.2f})"


def _shorter(found: Sequence[Served], beside: Sequence[Served]) -> float:
    """Return the median over seeds of the per cent by which the completion time is shorter."""
    pairs = zip(found, beside, strict=True)
    return median(100 * (1 - a.completion_h / b.completion_h) for a, b in pairs)


def reached(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table: published, reached, what should be, assumed."""
    lines = []
    for row in rows:
        mark = "**" if row.holds is False else ""
        ours = f"{mark}{row.reached}{mark}"
        lines.append((row.name, row.published, ours, row.reach, row.assumed))
    return table(("", "published", "reached", "reach", "assumed"), lines)
