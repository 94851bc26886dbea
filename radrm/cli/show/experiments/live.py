"""Show a trace that was played through a daemon, beside its simulation."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.experiments.simulations import FIGURES
from radrm.errors import plain
from radrm.experiments.live.trace import Played, below
from radrm.simulator.metrics import Metrics


def played_table(played: Played) -> Rows:
    """All metrics of one run: live, simulated, and their difference."""
    table = Rows(
        (
            Column(plain(played.policy).upper()),
            Column("LIVE", right=True),
            Column("SIMULATED", right=True),
            Column("DIFFERENCE", right=True),
        )
    )
    live, simulated = played.live, played.simulated.runs[0]
    for figure in FIGURES:
        own, other = getattr(live, figure.name), getattr(simulated, figure.name)
        if own is None and other is None:
            continue
        table.add(
            figure.words,
            "-" if own is None else figure.show(own),
            "-" if other is None else figure.show(other),
            _signed(below(own, other)),
        )
    return table


def gains_table(played: Sequence[Played]) -> Rows:
    """How the metrics of each run differ from those of the first, live and simulated."""
    columns = [Column(f"AGAINST {plain(played[0].policy).upper()}")]
    for each in played[1:]:
        name = plain(each.policy).upper()
        columns += [Column(f"{name} LIVE", right=True), Column("SIMULATED", right=True)]
    table = Rows(columns)
    first = played[0]
    for figure in FIGURES:
        cells = []
        for each in played[1:]:
            for own, other in (
                (each.live, first.live),
                (each.simulated.runs[0], first.simulated.runs[0]),
            ):
                cells.append(_signed(below(getattr(own, figure.name), getattr(other, figure.name))))
        if any(cells):
            table.add(figure.words, *cells)
    return table


def _signed(gain: float | None) -> str:
    return "" if gain is None else f"{-100 * gain:+.1f}%"


def unfinished_live(played: Played) -> str | None:
    """A line on the jobs that did not complete, with the reason of the first; None if all did."""
    left = [job for job in played.run.jobs if job.ended_s is None]
    if not left:
        return None
    first = left[0]
    return (
        f"{plain(played.policy)}: {_counted(played.live)} did not complete, and count in no mean "
        f"(the first: {plain(first.job.name)}: {plain(first.reason or 'unknown')})"
    )


def _counted(live: Metrics) -> str:
    return f"{live.unfinished} of {live.jobs} jobs"
