"""Show the advice of `radrm compare --advise` and `radrm replay --advise` to people."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled, show
from radrm.cli.toml_text import toml_text
from radrm.config.goals import Combination
from radrm.core.units import show_seconds
from radrm.lab.experiments.simulations.advice import Advice, settings_text
from radrm.lab.simulator.metrics import Change, over_seeds

_WORDS = {
    "mean_jct_s": "mean completion time",
    "makespan_s": "total time",
    "energy_j": "energy",
}


def show_advice(advice: Advice, interval: str) -> None:
    """`interval` says what the ranges of the gains are."""
    show(_table(advice))
    show(
        Styled(
            f"The best {len(advice.ranked)} of {advice.tried} settings by "
            f"{_WORDS[advice.metric]}; their gains over the present setting are measured with "
            f"{len(advice.present.runs)} other seeds. {interval}\n"
        )
    )
    for line in verdict(advice):
        show(Styled(line))
    if advice.best is not None:
        show(*map(Styled, toml_text(settings_text(advice.best.candidate)).splitlines()), Styled())


def _table(advice: Advice) -> Rows:
    rows = Rows(
        (
            Column("SETTING", least=10),
            Column("TOTAL", right=True, rank=3),
            Column("GAIN", right=True, rank=3),
            Column("JCT", right=True),
            Column("GAIN", right=True),
            Column("ENERGY GAIN", right=True, rank=4),
            Column("OOM", right=True, rank=2),
        )
    )
    none: dict[str, Change | None] = {}
    named = [(candidate_name(each.candidate), each.result, each.gains) for each in advice.ranked]
    for name, result, gains in [("present", advice.present, none), *named]:
        found = over_seeds(result.runs)
        total_s, jct_s, oom = (
            found[each].mean for each in ("makespan_s", "mean_jct_s", "oom_count")
        )
        rows.add(
            name,
            "-" if total_s is None else show_seconds(total_s),
            _show_change(gains.get("makespan_s")),
            "-" if jct_s is None else show_seconds(jct_s),
            _show_change(gains.get("mean_jct_s")),
            _show_change(gains.get("energy_j")),
            "-" if oom is None else f"{oom:.1f}",
        )
    return rows


def candidate_name(candidate: Combination) -> str:
    """A candidate in a few words: `magm max_smact=0.9, fifo`."""
    own = next(iter(candidate.policies.values()), {})  # of its policy
    words = [candidate.policy, *(f"{key}={value}" for key, value in own.items())]
    planner = "" if candidate.planner == "strict" else f", {candidate.planner}"
    return f"{' '.join(words)}, {candidate.order}{planner}"


def _show_change(change: Change | None) -> str:
    if change is None:
        return "-"
    if change.low is None or change.high is None:
        return f"{change.gain:+.0%}"
    return f"{change.gain:+.0%} ({change.low:+.0%} to {change.high:+.0%})"


def verdict(advice: Advice) -> list[str]:
    """What to do, a sentence each."""
    what, first = _WORDS[advice.metric], advice.ranked[0]
    change = first.gains[advice.metric]
    if advice.best is None or change is None:
        gain = "unknown" if change is None else _show_change(change)
        return [
            f"Keep the present setting: the best candidate ({candidate_name(first.candidate)}) "
            f"changes {what} by no more than the noise ({gain})."
        ]
    lines = [
        f"Best for these jobs: {candidate_name(first.candidate)}. Expected gain in {what}: "
        f"{_show_change(change)}. To have it, put these lines in the configuration file."
    ]
    if close := [candidate_name(each.candidate) for each in advice.ranked[1:] if each.as_good]:
        lines.append(f"As good within the noise: {'; '.join(close)}.")
    return lines
