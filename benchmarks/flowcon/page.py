"""The section on FlowCon of docs/lab/reproduction-flowcon-specon.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.flowcon.jobs import Compared
from benchmarks.flowcon.rows import CONTENTION, Row
from benchmarks.markdown import table

_HEAD = """## FlowCon

Made by `python -m benchmarks.flowcon`; means over {seeds} seeds. One simulated server shares its
CPU time. *Letter* is `measure = "paper"`, *growth* is the default, *completion* is
`goal = "completion"`. *By lot* is the control: growth is drawn, and no loss is read. *Model* is a
second program of the published algorithms, for losses that fall half to twice as fast. Changes are
in per cent of equal shares, with the same jobs.

MNIST-TF, the last of three jobs (section 6.1.3):

{few}
"""

_NOTE = """\
**What growth adds**: the difference from the control. What the control keeps is the share that any
new job gets. The work of the three jobs is fitted to equal sharing (84.7 s for MNIST-TF, 394.0 s
in all); nothing is fitted to FlowCon. The published makespans fall by 1 to 5 %; the letter's by
{fall:.1f} % at most, since no CPU was idle. When MNIST-P comes (5 %, 20 s), the letter gives VAE
{vae:.2f} of the CPUs, Figure 6.5 shows 0.25: there a new job must have a growth before its second
evaluation, which no formula gives. If it counts as all growth, the model's MNIST-TF changes by
{whole:.1f} % (5 %, 30 s).

Each cell below: jobs that end sooner, makespan; the largest gain and the largest loss of a job of
a run. All are means over runs; the published figures are of one.

{many}
"""

_END = """\
Loss curves are not published. The work of the five jobs follows from what section 6.1.4 says of
equal sharing; only when two of them come is drawn. That of 10 and 15 jobs is not published: it is
drawn from eight models and scaled to the published makespan of equal sharing. LSTM-CFC uses 19 % of
the CPUs, as published.
If each further job slows all by {contention:.0%}, the model's makespan of 5, 10 and 15 jobs changes
by {makespans} %.

`python -m benchmarks.flowcon --real --scale 0.12` runs three NumPy jobs in these proportions on one
CPU (control groups, version 1), clocked by CPU time. One run, on a server with other work, in per
cent of equal shares (VAE 398 s, MNIST-P 245 s, MNIST-TF 90 s):

| | VAE | MNIST-P | MNIST-TF | mean |
|---|---|---|---|---|
| growth | -0.2 | -12.2 | -48.0 | -10.1 |
| letter | -0.1 | -6.1 | -39.4 | -6.9 |
"""

_WAYS = ("letter by lot", "growth", "growth by lot")


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the tables: `makespans` of the independent model with contention, `vae`
    the part of VAE when MNIST-P comes, `whole` MNIST-TF where a new job counts as all growth."""

    makespans: Sequence[float]
    vae: float
    whole: float


def section(few: Sequence[Row], many: Sequence[Row], beside: Beside, seeds: int) -> str:
    """Return the section's text."""
    lines = []
    for row in few:
        assert row.apart is not None
        least, most = row.apart
        cells = [
            row.name,
            row.published,
            f"{row.letter.last:.1f}",
            f"{least:.1f} to {most:.1f}",
            *(f"{each.last:.1f}" for each in (row.letter_lot, row.ours, row.ours_lot)),
        ]
        lines.append(cells)
    heads = ("α, interval", "published", "letter", "model", *_WAYS)
    head = _HEAD.format(seeds=seeds, few="\n".join(table(heads, lines)))
    fall = max(abs(min(0.0, row.letter.makespan)) for row in few)
    lines = []
    for row in many:
        found = (row.letter, row.letter_lot, row.ours, row.ours_lot, row.completion)
        lines.append([row.name, row.published, *map(_cell, found)])
    heads = ("experiment", "published", "letter", *_WAYS, "completion")
    note = _NOTE.format(
        vae=beside.vae, whole=beside.whole, fall=fall, many="\n".join(table(heads, lines))
    )
    makespans = ", ".join(f"{each:.1f}" for each in beside.makespans)
    return "\n".join([head, note, _END.format(contention=CONTENTION, makespans=makespans)])


def _cell(found: Compared | None) -> str:
    if found is None:
        return ""
    return f"{found.sooner:.1f}, {found.makespan:.1f}; {found.best:+.1f}, {found.worst:+.1f}"
