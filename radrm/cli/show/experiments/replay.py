"""Show the results of `radrm replay` to people."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.show.experiments.simulations import (
    FOOT,
    compared_table,
    unfinished_line,
    variant_name,
)
from radrm.cli.show.styled import Styled, show
from radrm.client.text import warn
from radrm.core.units import show_seconds
from radrm.errors import plain
from radrm.experiments.simulations.past import Level, model_error, overall_gain
from radrm.simulator.metrics import Change
from radrm.simulator.traces.past import Replayed

_FAR_OFF = 0.25
"""The error, as a share of the recorded time, above which a warning is shown."""


def show_replay(levels: Sequence[Level], middle: Level, since: str) -> None:
    show(compared_table(middle.found))
    before = variant_name(middle.found[0], middle.found)
    show(Styled(f"in percent: of {plain(before)}. {FOOT}\n"))
    for at, result in enumerate(middle.found):
        if at:
            name = variant_name(result, middle.found)
            line = sentence(name, before, since, overall_gain(levels, at))
            show(Styled(line))
    for line in caveats(middle.past, len(middle.jobs)):
        show(Styled(line))
    difference = model_error(middle)
    if difference is not None and middle.past.jct_s is not None:
        recorded = show_seconds(middle.past.jct_s)
        show(
            Styled(
                f"Under {plain(before)} the model's mean completion time is "
                f"{abs(difference):.0%} {'above' if difference > 0 else 'below'} the recorded "
                f"{recorded}."
            )
        )
        if abs(difference) > _FAR_OFF:
            warn(
                "the model is far from the record: do not rely on these figures; see --gpus, --set"
            )
    if line_ := unfinished_line(middle.found):
        warn(line_)


def sentence(policy: str, before: str, since: str, change: Change | None) -> str:
    """The effect of one policy in one sentence, with its interval."""
    start = f"With {plain(policy)} instead of {plain(before)} your jobs of the last {since} would"
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
    lines = [
        "Sooner or later: by mean completion time, over all seeds"
        + (" and assumptions." if past.assumed else ".")
    ]
    if past.assumed:
        lines.append(
            f"The SM activity of {past.assumed} of {len(past.jobs)} jobs is unknown (they were "
            "never alone): all jobs were simulated with a low, a middle and a high guess of it."
        )
    if past.shared:
        lines.append(
            f"{past.shared} jobs shared a GPU; their times were corrected by the model, "
            f"on average {past.slow_down:.2f} times as long as alone."
        )
    left_out = dict(past.left_out)
    if jobs < len(past.jobs):
        left_out["too large for the GPUs"] = len(past.jobs) - jobs
    if left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        lines.append(f"Left out: {why}.")
    return lines
