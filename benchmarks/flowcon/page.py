"""The section on FlowCon of docs/lab/reproduction-flowcon-specon.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.flowcon.jobs import Compared
from benchmarks.flowcon.rows import Row

_HEAD = """## FlowCon

Made by `python -m benchmarks.flowcon`; means over {seeds} seeds. One simulated server shares its
CPU time. *Letter* is `measure = "paper"` with caps, *growth* is the default, *completion* is
`goal = "completion"`. Changes are in per cent of equal shares, with the same jobs; **bold** misses
the reach.

MNIST-TF, the last of three jobs (section 6.1.3). Reach: -28 at 5 %, 30 s, else -20; the makespan
within 1 s.

| α, interval | published | letter | growth | growth: mean of the three |
|---|---|---|---|---|
"""

_NOTE = """
The work of the three jobs is fitted to what the thesis says of equal sharing (84.7 s for MNIST-TF,
394.0 s in all). The published makespans fall to 372.4 to 389.0 s; here none changes, since no
CPU was idle.

Each cell below: jobs that end sooner; mean; the largest gain and the largest loss of any job in
any seed. Reach of *completion*: 85 % sooner, mean -20, no job 2 later.

| experiment | published | letter | growth | completion |
|---|---|---|---|---|
"""

_END = """
Loss curves and the work of these jobs are not published: works are drawn from eight models and
scaled to the published makespan of equal sharing. Growth alone does not make nine of ten jobs
sooner: new jobs take the CPU time of old ones, which end later.

`python -m benchmarks.flowcon --real --scale 0.12` runs three NumPy jobs in these proportions on one
CPU (control groups, version 1), clocked by CPU time. One run, on a server with nothing else to do,
against equal shares (VAE 396 s, MNIST-P 243 s, MNIST-TF 87 s). On a busy server caps delayed VAE by
8.7 %:

| shares | VAE | MNIST-P | MNIST-TF | mean |
|---|---|---|---|---|
| weights (reach: +8 at most, -, -40, -6) | -0.1 | -12.3 | -47.6 | -9.9 |
| caps (reach: +8 at most, -, -10) | +4.5 | -5.8 | -34.5 | -3.6 |
"""


def section(few: Sequence[Row], many: Sequence[Row], seeds: int) -> str:
    """Return the section's text."""
    lines = [_HEAD.format(seeds=seeds)]
    for row in few:
        found = f"{row.ours.last:.1f}"
        lines.append(
            f"| {row.name} | {row.published} | {row.letter.last:.1f} | "
            f"{f'**{found}**' if row.misses else found} | {row.ours.mean:.1f} |\n"
        )
    lines.append(_NOTE)
    for row in many:
        best = "" if row.completion is None else _cell(row.completion)
        if row.misses:
            best = f"**{best}**"
        lines.append(
            f"| {row.name} | {row.published} | {_cell(row.letter)} | {_cell(row.ours)} | {best} |\n"
        )
    lines.append(_END)
    return "".join(lines)


def _cell(found: Compared) -> str:
    return f"{found.sooner:.1f}; {found.mean:+.1f}; {found.best:+.1f}, {found.worst:+.1f}"
