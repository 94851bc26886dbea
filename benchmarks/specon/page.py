"""The section on SpeCon of docs/lab/reproduction-flowcon-specon.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.specon.rows import LIVE_WORST, Change, Measured

_INTRO = """## SpeCon

Made by `python -m benchmarks.specon`; means over {seeds} seeds. A worker is a simulated GPU. Jobs
are placed by lot, blind to load, as the published baseline was. *Letter* is `measure = "paper"`,
*default* is `measure = "relative"`. Changes are in per cent of the run without SpeCon, which has
the same jobs and lots; **bold** misses the reach.

| experiment | without (mean, makespan) | published | letter | default | reach |
|---|---|---|---|---|---|"""

_FITTED = """
Times and losses of the five models are not published. VAE takes 138 s alone, fitted to the 275 s
of the row *one each 50 s*; the other models fit the 710 s of the row *20 mixed jobs*, which the
published gains imply. Nothing is fitted to what SpeCon changes, and no other row is fitted:
30 mixed jobs were published with a mean of 800 s, 50 with 596 s. Saving and starting take 5 s
together."""

_LIVE = """
From placement by live load there is less to win, and the mean of the default should never be
{worst:g} % worse. In brackets: the worst seed; **bold** where that misses it:

| experiment | fewest jobs | lowest SM activity |
|---|---|---|"""

_SEEDS = """
These seeds lose because a moved job changes where later jobs are placed; a larger `min_gain` does
not help. A single job can end later than without SpeCon, as published, too."""


def section(
    measured: Sequence[Measured], live: Mapping[tuple[str, str], Change], seeds: int
) -> str:
    """Return the section as Markdown."""
    lines = [_INTRO.format(seeds=seeds)]
    lines += [_line(each) for each in measured]
    lines += [_FITTED, _LIVE.format(worst=LIVE_WORST)]
    for name in dict.fromkeys(name for name, _ in live):
        cells = [_worst(live[name, placement]) for placement in ("fewest", "lug")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append(_SEEDS)
    return "\n".join(lines)


def _line(measured: Measured) -> str:
    row = measured.row
    sooner = "" if row.sooner is None else f", {row.sooner} sooner"
    makespan = "" if row.makespan is None else f", {row.makespan:+.1f}"
    published = f"{row.mean:+.1f}{makespan}{sooner}"
    reach = "reported" if row.reach is None else f"{row.reach[0]:g}, {row.reach[1]:g}"
    default = _changes(measured.default)
    default = f"**{default}**" if measured.misses() else default
    without = f"{measured.mean_s:.0f} s, {measured.makespan_s:.0f} s"
    letter = _changes(measured.letter)
    return f"| {row.name} | {without} | {published} | {letter} | {default} | {reach} |"


def _changes(change: Change) -> str:
    return f"{change.mean:+.1f}, {change.makespan:+.1f}, {change.sooner:.0f} sooner"


def _worst(change: Change) -> str:
    found = f"{change.mean:+.1f} ({change.worst:+.1f})"
    return f"**{found}**" if change.worst > LIVE_WORST else found
