"""The published experiments of SpeCon (Zheng's thesis, section 6.2), and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from benchmarks.specon.farm import Found, Played, Trial, play

LETTER: Mapping[str, Any] = {"measure": "paper"}
DEFAULT: Mapping[str, Any] = {}
OTHERS = ("usage, 60 s", "blind", "fewest")
"""The placements that are not the thesis's baseline."""


@dataclass(frozen=True, slots=True)
class Row:
    """An experiment with its published changes in per cent.

    `sooner`: the published number of jobs that end sooner. `settings` replace SpeCon's.
    """

    name: str
    trial: Trial
    mean: float
    makespan: float | None = None
    sooner: int | None = None
    settings: tuple[tuple[str, float], ...] = ()


_FIXED = Trial(20, 4, every_s=50.0)
_RANDOM = Trial(20, 4)
ROWS = (
    Row("20 mixed jobs, 4 workers", Trial(20, 4, True), -13.6, -24.7, 15),
    Row("30 mixed jobs, 4 workers", Trial(30, 4, True), -5.9, -16.4, 20),
    Row("50 mixed jobs, 8 workers", Trial(50, 8, True, within_s=1200.0), -7.2, -11.1, 30),
    Row("20 VAE, one each 50 s", _FIXED, -14.7, -5.6, 11),
    *(
        Row(
            f"20 VAE at random, α {alpha:g}, {interval_s:g} s",
            _RANDOM,
            mean,
            settings=(("alpha", alpha), ("interval_s", interval_s)),
        )
        for alpha, interval_s, mean in (
            (0.05, 20.0, -1.1),
            (0.05, 25.0, -5.2),
            (0.05, 30.0, -8.0),
            (0.01, 30.0, -7.2),
            (0.1, 30.0, -9.5),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What SpeCon changes, in per cent: means over seeds, and the worst mean of a seed."""

    mean: float
    makespan: float
    sooner: float
    worst: float


@cache
def _without(trial: Trial, placement: str, seed: int) -> Found:
    return play(trial, Played(placement), seed)


def change(
    trial: Trial,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    placement: str = "usage",
    *,
    lot: bool = False,
) -> Change:
    """Return what SpeCon changes in a trial, over these seeds. `lot`: `Played.lot`."""
    before = [_without(trial, placement, seed) for seed in seeds]
    after = [play(trial, Played(placement, settings, lot), seed) for seed in seeds]
    pairs = list(zip(before, after, strict=True))
    means = [100 * (b.mean_s / a.mean_s - 1) for a, b in pairs]
    return Change(
        mean=fmean(means),
        makespan=fmean(100 * (b.makespan_s / a.makespan_s - 1) for a, b in pairs),
        sooner=fmean(_sooner(a, b) for a, b in pairs),
        worst=max(means),
    )


def _sooner(before: Found, after: Found) -> int:
    """Return the number of jobs that end sooner, by half a second or more."""
    pairs = zip(before.completion_s, after.completion_s, strict=True)
    return sum(b < a - 0.5 for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Measured:
    """A row with the times without SpeCon, and what letter and default change, also by lot."""

    row: Row
    mean_s: float
    makespan_s: float
    letter: Change
    letter_lot: Change
    default: Change
    default_lot: Change


def measured(row: Row, seeds: Sequence[int]) -> Measured:
    """Return a row with its measurements."""
    letter, default = {**LETTER, **dict(row.settings)}, {**DEFAULT, **dict(row.settings)}
    before = [_without(row.trial, "usage", seed) for seed in seeds]
    return Measured(
        row,
        fmean(found.mean_s for found in before),
        fmean(found.makespan_s for found in before),
        change(row.trial, letter, seeds),
        change(row.trial, letter, seeds, lot=True),
        change(row.trial, default, seeds),
        change(row.trial, default, seeds, lot=True),
    )


def from_others(seeds: Sequence[int]) -> dict[tuple[str, str], Change]:
    """Return what the default changes from other placements, by trial and placement."""
    trials = {row.trial: row.name.split(", α")[0] for row in ROWS}
    return {
        (name, placement): change(trial, DEFAULT, seeds, placement)
        for trial, name in trials.items()
        for placement in OTHERS
    }
