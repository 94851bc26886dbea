"""The rows of the page: the published experiments of section 6.1, and what is to be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.flowcon.jobs import Compared, compare, drawn, three
from radrm.lab.simulator.traces.job import TraceJob

LETTER = {"measure": "paper", "limit": "cap"}
GROWTH: dict[str, str] = {}
COMPLETION = {"goal": "completion"}


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment with one setting: its text, the published figure, ours, and misses."""

    name: str
    published: str
    letter: Compared
    ours: Compared
    misses: tuple[str, ...] = ()
    completion: Compared | None = None


def _three(seeds: Sequence[int]) -> dict[int, list[TraceJob]]:
    return {seed: three() for seed in seeds}


def _both(
    traces: Mapping[int, Sequence[TraceJob]], alpha: float, interval_s: float
) -> tuple[Compared, Compared]:
    base: dict[str, Any] = {"alpha": alpha, "interval_s": interval_s}
    return compare(traces, base | LETTER), compare(traces, base | GROWTH)


def three_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Table 6.2 and Figure 6.1: MNIST-TF, the third job."""
    published = {
        (0.05, 30): ("-31.9", -28.0),
        (0.10, 20): ("-26.2, -19.0", -20.0),
        (0.10, 30): ("-32.4", -20.0),
        (0.10, 40): ("-14.3", -20.0),
        (0.10, 50): ("-15.3", -20.0),
        (0.10, 60): ("-3.1", -20.0),
        (0.01, 20): ("-32.1", -20.0),
        (0.03, 20): ("-31.0", -20.0),
        (0.05, 20): ("-21.4", -20.0),
        (0.15, 20): ("-19.8", -20.0),
    }
    rows = []
    for (alpha, interval_s), (figure, reach) in published.items():
        letter, ours = _both(_three(seeds), alpha, interval_s)
        missed = [f"MNIST-TF {ours.last:.1f} %, to reach {reach:g}"] if ours.last > reach else []
        if abs(ours.makespan) > 0.25:
            missed.append(f"makespan {ours.makespan:+.2f} %, to stay within 1 s")
        rows.append(Row(f"{alpha:.0%}, {interval_s} s", figure, letter, ours, tuple(missed)))
    return rows


def five_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Figure 6.7, which is only reported."""
    published = {(0.03, 30): 4, (0.03, 60): 5, (0.05, 30): 4, (0.05, 60): 4}
    traces = {seed: drawn(5, 730.0, seed) for seed in seeds}
    rows = []
    for (alpha, interval_s), sooner in published.items():
        letter, ours = _both(traces, alpha, interval_s)
        rows.append(Row(f"5 jobs, {alpha:.0%}, {interval_s} s", f"{sooner} sooner", letter, ours))
    return rows


def many_jobs(seeds: Sequence[int]) -> list[Row]:
    """Return Figures 6.10 and 6.15. What is to be reached is for `goal = "completion"`."""
    rows = []
    for count, makespan_s, figure in (
        (10, 1384.9, "9 sooner, makespan -2.5"),
        (15, 1980.1, "11 sooner, makespan -1.5"),
    ):
        traces = {seed: drawn(count, makespan_s, seed) for seed in seeds}
        letter, ours = _both(traces, 0.10, 20)
        base: dict[str, Any] = {"alpha": 0.10, "interval_s": 20}
        best = compare(traces, base | COMPLETION)
        checks: Iterable[tuple[bool, str]] = (
            (best.sooner < 0.85 * count, f"{best.sooner / count:.0%} sooner, to reach 85 %"),
            (best.mean > -20, f"mean {best.mean:.1f} %, to reach -20"),
            (best.worst > 2, f"one job {best.worst:.1f} % later, at most 2"),
        )
        missed = tuple(text for wrong, text in checks if wrong)
        rows.append(Row(f"{count} jobs, 10%, 20 s", figure, letter, ours, missed, best))
    return rows
