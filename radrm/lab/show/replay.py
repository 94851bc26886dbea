"""Show the results of `radrm replay` to people."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled, show
from radrm.client.text import warn
from radrm.core.units import show_seconds
from radrm.lab.experiments.live.trace import Played, below
from radrm.lab.experiments.simulations.past import Replay, gain_of, model_error
from radrm.lab.show.simulations import (
    FIGURES,
    FOOT,
    compared_table,
    same_line,
    unfinished_line,
    variant_name,
)
from radrm.lab.simulator.metrics import Change
from radrm.lab.simulator.traces.past import Replayed

RANGES = "Ranges: 90% of what the record leaves possible."
_FAR_OFF = 0.25
"""The error, as a share of the recorded time, above which a warning is shown."""


def show_replay(replay: Replay, since: str) -> None:
    found = replay.found
    show(compared_table(found))
    if same := same_line(found):
        show(Styled(same))
    before = variant_name(found[0], found)
    show(Styled(f"in percent: of {before}. {FOOT}"), Styled())
    for at, result in enumerate(found):
        if at:
            show(Styled(sentence(variant_name(result, found), before, since, gain_of(found, at))))
    show_basis(replay)
    if line := unfinished_line(found):
        warn(line)


def show_basis(replay: Replay) -> None:
    """What the figures rest on, and how far the model is from the record."""
    for line in caveats(replay.past, len(replay.jobs)):
        show(Styled(line))
    difference, jct_s = model_error(replay), replay.past.jct_s
    if difference is None or jct_s is None:
        return
    before = variant_name(replay.found[0], replay.found)
    side = "above" if difference > 0 else "below"
    show(
        Styled(
            f"Under {before} the model's mean completion time is {abs(difference):.0%} {side} "
            f"the recorded {show_seconds(jct_s)}."
        )
    )
    if abs(difference) > _FAR_OFF:
        warn("the model is far from the record: do not rely on these figures; see --gpus, --set")


def sentence(policy: str, before: str, since: str, change: Change | None) -> str:
    """The effect of one policy in one sentence, with its interval."""
    start = f"With {policy} instead of {before} your jobs of the last {since} would"
    if change is None:
        return f"{start} have ended at other times; the difference is unknown."
    low = change.gain if change.low is None else change.low
    high = change.gain if change.high is None else change.high
    if low <= 0 <= high:
        return (
            f"{start} have finished about when they did "
            f"(from {abs(low):.0%} later to {high:.0%} sooner)."
        )
    word, (near, far) = ("sooner", (low, high)) if low > 0 else ("later", (-high, -low))
    return (
        f"{start} have finished {abs(change.gain):.0%} {word}"
        + (f" ({near:.0%} to {far:.0%})" if near < far else "")
        + "."
    )


def caveats(past: Replayed, jobs: int) -> list[str]:
    """The assumptions behind the figures, a line each."""
    lines = [f"Sooner or later: by mean completion time. {RANGES}"]
    sources = (
        (past.alone, "a run of the job alone"),
        (past.told, "its estimate"),
        (past.solved, "readings of shared GPUs, solved by the model"),
        (past.guessed, "a guess: no reading tells it"),
    )
    known = "; ".join(f"{count} by {how}" for count, how in sources if count)
    unsure = "" if past.unsure is None else f". If never alone: ±{past.unsure:.2f} on average"
    lines.append(f"SM activity of the {len(past.jobs)} jobs: {known}{unsure}.")
    told = sum(1 for job in past.jobs if job.predicted)
    lines.append(
        f"Rules know what was predicted of SM activity and duration at that time: of {told} of the "
        f"{len(past.jobs)} jobs (--known replaces it)."
    )
    if past.shared:
        mean = past.slow_down
        lines.append(
            f"{past.shared} jobs shared a GPU. The model corrects their times: on average "
            f"{mean.best:.2f} times as long as alone ({mean.low:.2f} to {mean.high:.2f})."
        )
    left_out = dict(past.left_out)
    if jobs < len(past.jobs):
        left_out["too large for the GPUs"] = len(past.jobs) - jobs
    if left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        lines.append(f"Left out: {why}.")
    return lines


def played_table(played: Played) -> Rows:
    """All metrics of one run: live, simulated, and their difference."""
    table = Rows(
        (
            Column(played.policy.upper()),
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
    columns = [Column(f"AGAINST {played[0].policy.upper()}")]
    for each in played[1:]:
        name = each.policy.upper()
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
    return "" if gain is None else f"{0.0 - 100 * gain:+.1f}%"


def unfinished_live(played: Played) -> str | None:
    """A line on the jobs that did not complete, with the reason of the first; None if all did."""
    left = [job for job in played.run.jobs if job.ended_s is None]
    if not left:
        return None
    first = left[0]
    return (
        f"{played.policy}: {len(left)} of {played.live.jobs} jobs did not complete, and count in "
        f"no mean (the first: {first.job.name}: {first.reason or 'unknown'})"
    )
