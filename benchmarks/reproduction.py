"""The published tables beside the simulator's: `python -m benchmarks.reproduction`.

Writes docs/reproduction.md. Needs the traces, the solo profile and no GPU:

    python -m benchmarks.reproduction [--data FOLDER] [--seeds 12] [--stdout]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.published import (
    DATA,
    OWN_ROWS,
    RECOVERY_ROWS,
    ROWS,
    SERVER,
    TRACES,
    Row,
    known,
    measure,
    published_trace,
)
from radrm.modelled.spec import parse
from radrm.simulator.bounds import bounds, nominal
from radrm.simulator.metrics import Spread
from radrm.simulator.scenario import Life

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
OOM_WITHIN = 2.0
HEAVY_WITHIN = 0.03
MIX_WITHIN_POINTS = 4.0


# ------------------------------------------------------------------ judging


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with what was measured; `baseline_s` is the total time of exclusive."""

    row: Row
    loop: Mapping[str, Spread]
    own: Mapping[str, Spread]
    baseline_s: float

    def change(self, which: Mapping[str, Spread]) -> float:
        return 100 * (known(which, "makespan_s") / self.baseline_s - 1)

    def misses(self) -> list[str]:
        """What is further from the published figure than this page claims."""
        row, found = self.row, []
        ooms = known(self.loop, "oom_count")
        if row.oom is not None and abs(ooms - row.oom) > OOM_WITHIN:
            found.append(f"OOM {row.oom} -> {ooms:.1f}")
        if row.minutes is not None:
            minutes = known(self.loop, "makespan_s") / 60
            if abs(minutes / row.minutes - 1) > HEAVY_WITHIN:
                found.append(f"total time {row.minutes:.0f} -> {minutes:.0f} min")
        elif row.change is not None:
            change = self.change(self.loop)
            if abs(change - row.change) > MIX_WITHIN_POINTS:
                found.append(f"total time {row.change:+.0f} -> {change:+.0f} %")
        if row.energy_mj is not None:
            energy_mj = known(self.loop, "energy_j") / 1e6
            if abs(energy_mj / row.energy_mj - 1) > HEAVY_WITHIN:
                found.append(f"energy {row.energy_mj:.1f} -> {energy_mj:.1f} MJ")
        return found


def judged(seeds: int, data: Path = DATA) -> tuple[list[Judged], list[Judged], list[Judged]]:
    """The published rows; `OWN_ROWS` and `RECOVERY_ROWS` have a run in radrm's own loop only."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        do = partial(measure, seeds=seeds, data=data)
        loops = list(pool.map(do, ROWS, ["published"] * len(ROWS)))
        owns = list(pool.map(do, ROWS, ["radrm"] * len(ROWS)))
        defaults = list(pool.map(do, OWN_ROWS, ["radrm"] * len(OWN_ROWS)))
        recoveries = list(pool.map(do, RECOVERY_ROWS, ["radrm"] * len(RECOVERY_ROWS)))
    base = {
        row.trace: known(loop, "makespan_s")
        for row, loop in zip(ROWS, loops, strict=True)
        if row.policy == "exclusive"
    }
    published = [
        Judged(row, loop, own, base[row.trace])
        for row, loop, own in zip(ROWS, loops, owns, strict=True)
    ]

    def alone(rows: Sequence[Row], owns: Sequence[dict[str, Spread]]) -> list[Judged]:
        return [Judged(row, {}, own, base[row.trace]) for row, own in zip(rows, owns, strict=True)]

    return published, alone(OWN_ROWS, defaults), alone(RECOVERY_ROWS, recoveries)


# ------------------------------------------------------------------ the page

WHY = {
    "RR on streams": "see RR on MPS",
    "RR on MPS": (
        "the model's deaths under RR follow from which large jobs meet, hardly from chance: 10 to "
        "12 for every start-up, hold time, age of readings and demand for the peak that was tried. "
        "The two published runs, 9 and 6, differ in nothing that decides about memory"
    ),
    "MAGM (80 %)": (
        "in the model memory is never what refuses below 80 % SMACT, so that the rows with 0, 2 "
        "and 5 GB are one and the same; the published ones are 4, 2 and 2. The thesis names "
        "fragmentation of free memory as a cause of death; it is not modelled"
    ),
    "Oracle worst fit on streams": (
        "the model's SMACT of a time-sliced GPU is the work that it gets done, which stays below "
        "80 % however many jobs take turns, so the policy piles them up. Nothing published tells "
        "what was measured there"
    ),
    "MAGM + FakeTensor (80 %)": (
        "FakeTensor says a third of what the large CNNs need, so deaths follow from two placements "
        "while readings are old: 1.0 at an age of 20 s, 2.4 at 30 s, where oracle worst fit on "
        "mix90 is 4.3 points off instead. One age does not fit both"
    ),
}
"""Why a row is missed, where it is."""


def page(
    rows: Sequence[Judged],
    defaults: Sequence[Judged],
    recoveries: Sequence[Judged],
    seeds: int,
    data: Path = DATA,
) -> str:
    lines = [_HEAD.format(seeds=seeds)]
    for trace in TRACES:
        here = [each for each in rows if each.row.trace == trace]
        lines += [f"## {trace}\n", *_table(here), "", _bounds(trace, data), ""]
    best = next(e for e in rows if e.row.trace == "heavy60" and e.row.estimator == "gpumemnet").loop
    alone = next(e for e in rows if e.row.trace == "heavy60" and e.row.policy == "exclusive").loop
    lines += [_text(best, alone), "## What is not reproduced\n"]
    for each in rows:
        if missed := each.misses():
            why = WHY.get(each.row.what, "not explained")
            lines.append(f"- **{each.row.trace}, {each.row.what}**: {', '.join(missed)}; {why}.")
    lines += ["", _TAIL, *_own_table(defaults), "", _OWN_TAIL]
    lines += [_RECOVERY, *_own_table(recoveries, recovery=True), "", _RECOVERY_TAIL]
    return "\n".join(lines)


def _own_table(rows: Sequence[Judged], recovery: bool = False) -> list[str]:
    what = "policy, estimator | recovery" if recovery else "estimates"
    lines = [f"| trace | {what} | time | JCT | OOM | energy |"]
    lines.append(f"| --- | --- |{' --- |' * recovery} ---: | ---: | ---: | ---: |")
    for each in rows:
        own = each.own
        spread = 100 * (own["makespan_s"].sd or 0.0) / each.baseline_s
        cells = [
            each.row.trace,
            each.row.what,
            *([f"`{each.row.recovery}`"] * recovery),
            f"{each.change(own):+.1f} ± {spread:.1f} %",
            f"{known(own, 'mean_jct_s') / 60:.0f}",
            _pm(own["oom_count"], 1, 1),
            f"{known(own, 'energy_j') / 1e6:.2f}",
        ]
        lines.append(_line(cells))
    return lines


def _table(rows: Sequence[Judged]) -> list[str]:
    lines = [
        "| policy | OOM | ours | time | ours | energy | ours | JCT "
        "| own: time | own: JCT | own: OOM | own: energy |",
        "| --- |" + " ---: |" * 11,
    ]
    for each in rows:
        row = each.row
        loop, own = each.loop, each.own
        spread_s = loop["makespan_s"].sd or 0.0
        cells = [
            row.what + (" **!**" if each.misses() else ""),
            "" if row.oom is None else str(row.oom),
            _pm(loop["oom_count"], 1, 1),
            "" if row.change is None else f"{row.change:+.1f} %",
            f"{each.change(loop):+.1f} ± {100 * spread_s / each.baseline_s:.1f} %",
            "" if row.energy_mj is None else f"{row.energy_mj:.2f}",
            _pm(loop["energy_j"], 1e6, 2),
            f"{known(loop, 'mean_jct_s') / 60:.0f}",
            f"{each.change(own):+.1f} %",
            f"{known(own, 'mean_jct_s') / 60:.0f}",
            _pm(own["oom_count"], 1, 1),
            f"{known(own, 'energy_j') / 1e6:.2f}",
        ]
        lines.append(_line(cells))
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _pm(spread: Spread, unit: float, digits: int) -> str:
    if spread.mean is None:
        return ""
    return f"{spread.mean / unit:.{digits}f} ± {(spread.sd or 0) / unit:.{digits}f}"


def _bounds(trace: str, data: Path) -> str:
    jobs = published_trace(trace, data)
    alone = nominal(jobs, Life().start_up_s)
    low = bounds(jobs, alone, [m.fraction for m in parse(SERVER)])
    return (
        f"Lower bounds of this model: total time {low.makespan_s / 60:.0f} min, mean completion "
        f"time {low.mean_jct_s / 60:.0f} min."
    )


def _text(best: Mapping[str, Spread], alone: Mapping[str, Spread]) -> str:
    def minutes(of: Mapping[str, Spread], name: str) -> str:
        return _pm(of[name], 60, 1)

    return f"""### heavy60 in detail

| | published* | ours |
| --- | ---: | ---: |
| Exclusive: total time, min | 638.8 | {minutes(alone, "makespan_s")} |
| MAGM + GPUMemNet: total time, min | 468.0 | {minutes(best, "makespan_s")} |
| MAGM + GPUMemNet: mean waiting, min | 119.3 | {minutes(best, "mean_wait_s")} |
| MAGM + GPUMemNet: mean execution, min | 74.3 | {minutes(best, "mean_exec_s")} |
| MAGM + GPUMemNet: mean completion, min | 193.6 | {minutes(best, "mean_jct_s")} |
| Exclusive: mean SMACT | 0.609 | {_pm(alone["gpu_smact_mean"], 1, 3)} |
| MAGM + GPUMemNet: mean SMACT | 0.853 | {_pm(best["gpu_smact_mean"], 1, 3)} |

In the model jobs wait 5 % longer and run a sixth shorter than they did; the sum is 4 % short.
"""


_HEAD = """<!-- written by `python -m benchmarks.reproduction`; do not edit -->
# The published tables, reproduced

The simulator with `--fidelity published`, the prototype's own loop, against the figures of the
RAD-RM thesis (Tables 6.3 to 6.6 and the text beside them; * read from its figures): mean ±
standard deviation of {seeds} seeds, on four modelled A100-40GB. The published figures are single
runs. *time* is the change of the trace's total time against exclusive execution, energy is in MJ.
*own* is radrm's own loop and bookkeeping with its default thresholds and the same estimator,
against the same baseline. *JCT* is the mean completion time in minutes. **!** marks rows that miss
the published figure by more than 2 deaths, 3 % of energy or of heavy60's total time, or 4 points
of mix90's.

```
python -m benchmarks.reproduction          # this page, a minute on two cores
```
"""

_TAIL = """\
The thesis's ranking of the policies without conditions is not reproduced either: they come out
between the others and exclusive, as published, but close together.

## What is fitted, what is predicted

- **Fitted in-sample**, on heavy60's MAGM + GPUMemNet run: the eight constants of
  `radrm/core/physics.py` (throughput, share weights, jobs on two GPUs, time-slicing). SM
  activity, steady memory and watts of each job, and so the energy of *Exclusive*, come from the
  exclusive run of heavy60.
- **Chosen after looking at the figures of both traces**: how old the prototype's readings are
  when it decides (`Pace.stale_s`). Ages from 0 to 60 s were tried. With fresh readings MAGM, LUG
  and FakeTensor on heavy60 have two to three deaths too few; 30 s fits the deaths best
  (FakeTensor 2.4), but oracle worst fit on mix90 is then at -25.8 %, 4.3 points off. 20 s, which
  is used here, keeps that within 4 points and leaves FakeTensor out. So neither the deaths of
  either trace nor the improvement of oracle worst fit is a prediction.
- **Chosen after looking at mix90 on streams**: that a job on two GPUs keeps half of its slower
  GPU's speed at least. The fitted power law was seen on three jobs, goes to nothing where many
  share, and had that row at +39 %; floors of 0, 0.15, 0.25, 0.35 and 0.5 were tried. heavy60's
  fitted run hardly goes there (its total time moves by a tenth of a point).
- **Taken as published**: the loop's other times, durations (Table 6.2) and 60 s of start-up, 30
  of them without load; thresholds of each row as the thesis words them: an estimator's rows want
  free memory of at least the estimate, the oracle's 2 GB more. (With 2 GB more for GPUMemNet too,
  heavy60 has 477 min and 28.3 MJ, mix90 -27 %: the rows do not hang on it.)
- **Assumed**: start-up, ramp and hold within 20 %, work with a standard deviation of 2 % from run
  to run; SM activity of the light jobs and of Xception at batch 32 and 64, which no figure shows.
- **Predicted**, but for that age and that half: times and energy of mix90, and of heavy60 under
  every other policy and estimator.

## What radrm's own loop does otherwise

It decides at once where the prototype waits 30 to 95 s, reserves what it has promised instead of
trusting readings of the past, and gives back what a settled job does not use. With MAGM and the
defaults, against the same baseline:
"""

_OWN_TAIL = """\
With known needs no job dies. After a job has come, its device counts as measured anew only after
60 s (`core.smact_warm_s`), as most jobs take 30 s until they load it: after 10 s too many share.

An MPS client's memory is capped at what it was first promised. A job whose estimate is too small
would die there even where there is room: so an estimate's promise is stretched until its job has
settled (`core.stretch`; 1 promises the estimate alone). RR asks for no room at all and, without
the prototype's pauses, tries far more often.

Where jobs take turns the policies let in less by default (`timeslice_max_smact`, 50 %): a GPU whose
jobs take turns never shows how much is asked of it. What time-slicing costs rests on little: the
totals of two published runs.

`auto` corrects each estimate by the runs that have ended before; what it gains in room it hardly
needs here, as SM activity, not memory, is what these traces run out of.
"""

_RECOVERY = """\
## Recovery: as published, or on a device of its own

Under `recovery = "exclusive"` a recovered job starts on an idle GPU, and others may join it once
its memory has settled (thesis, section 6.2.1, step 7). Under `own-device` nobody joins it. radrm's
own loop, where jobs die, against the same baseline:
"""

_RECOVERY_TAIL = """\
`exclusive` is the default. With it the mean completion time is shorter wherever jobs die, and
total time and energy are lower or about equal: room that `own-device` leaves unused is used. Under
`rr` and with estimates that are too low there are at times more deaths, since more jobs start
beside others.
In these runs every job ended well, and none died twice under either recovery.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduction")
    parser.add_argument("--data", type=Path, default=DATA, help="where traces/ and measured/ lie")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--stdout", action="store_true", help="print the page, write nothing")
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    text = page(*judged(args.seeds, args.data), args.seeds, args.data)
    if args.stdout:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
