"""The section on SpeCon of docs/lab/reproduction-flowcon-specon.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.markdown import table
from benchmarks.specon.farm import METER_S
from benchmarks.specon.rows import OTHERS, Change, Measured

_INTRO = """## SpeCon

Made by `python -m benchmarks.specon`; means over {seeds} seeds. A worker is a simulated GPU. Jobs
are placed by current usage, as the thesis's baseline (6.2.3): a worker in full use looks alike with
one job and with five, and usage is metered every {meter:.0f} s. The thesis does not print how
often: that is ours, chosen for the gains of *20 mixed jobs*. *Letter* is `measure = "paper"`,
*default* is `measure = "relative"`. *By lot* is the control: categories are drawn, and no loss is
read. Mean, makespan and jobs that end sooner, in per cent of the run without SpeCon, with the same
jobs.
"""

_FITTED = """
**What the losses add** is the makespan, by {least:.0f} to {most:.0f} points (letter). The mean
falls as much with drawn categories: that is the gain of moving jobs away from workers that the
baseline has overloaded.

Fitted, to the runs without SpeCon by the usage of the moment: VAE's 190 s to the 275 s of *one each
50 s*, the other models to the 710 s of *20 mixed jobs*, which the published gains imply. Predicted:
30 mixed jobs (published 800 s, 1640 s) and 50 (596 s, 2070 s). Losses are ours. Saving and starting
take 5 s together. Published for the intervals 20, 25 and 30 s: -1.1, -5.2, -8.0.

From other placements, the mean (in brackets: the worst seed) with the default:
"""


def section(
    measured: Sequence[Measured], others: Mapping[tuple[str, str], Change], seeds: int
) -> str:
    """Return the section as Markdown."""
    added = [each.letter_lot.makespan - each.letter.makespan for each in measured]
    rows = []
    for name in dict.fromkeys(name for name, _ in others):
        found = [others[name, placement] for placement in OTHERS]
        rows.append((name, *(f"{each.mean:+.1f} ({each.worst:+.1f})" for each in found)))
    lines = [
        _INTRO.format(seeds=seeds, meter=METER_S),
        *table(_HEADS, map(_line, measured)),
        _FITTED.format(least=min(added), most=max(added)),
        *table(("experiment", "metered each 60 s", "by lot", "fewest jobs"), rows),
    ]
    return "\n".join(lines)


_HEADS = (
    *("experiment", "without SpeCon", "published"),
    *("letter", "letter by lot", "default", "default by lot"),
)


def _line(measured: Measured) -> list[str]:
    row = measured.row
    sooner = "" if row.sooner is None else f", {row.sooner} sooner"
    makespan = "" if row.makespan is None else f", {row.makespan:+.1f}"
    ways = (measured.letter, measured.letter_lot, measured.default, measured.default_lot)
    return [
        row.name,
        f"{measured.mean_s:.0f} s, {measured.makespan_s:.0f} s",
        f"{row.mean:+.1f}{makespan}{sooner}",
        *map(_changes, ways),
    ]


def _changes(change: Change) -> str:
    return f"{change.mean:+.1f}, {change.makespan:+.1f}, {change.sooner:.0f} sooner"
