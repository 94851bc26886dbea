"""The published tables next to the simulator's: `python -m benchmarks.simulation.reproduction`.

Prints docs/lab/reproduction.md. Needs the traces, the solo profile and no GPU:

    python -m benchmarks.simulation.reproduction [--data FOLDER] [--seeds 12]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import markdown
from benchmarks.simulation.calibration import Placed, observed, placed
from benchmarks.simulation.claims import EXTRA_ROWS, claims_table
from benchmarks.simulation.published import (
    BY_LOT,
    OWN_ROWS,
    RECOVERY_ROWS,
    ROWS,
    SERVER,
    TRACES,
    Row,
    known,
    measure,
    published_trace,
    scenario,
)
from radrm.lab.simulator.bounds import bounds, nominal
from radrm.lab.simulator.metrics import Spread
from radrm.lab.simulator.scenario import Fidelity, Life
from radrm.simulated.spec import parse
from tests.paths import SHARED_DATA

OOM_WITHIN = 2.0
HEAVY_WITHIN = 0.03
TIMES_WITHIN = 0.1
MIX_WITHIN_POINTS = 4.0


# ------------------------------------------------------------------ judging


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with its measurements; `baseline_s` is the total time of exclusive."""

    row: Row
    loop: Mapping[str, Spread]
    own: Mapping[str, Spread]
    baseline_s: float

    def change(self, which: Mapping[str, Spread]) -> float:
        return 100 * (known(which, "makespan_s") / self.baseline_s - 1)

    def misses(self) -> list[str]:
        """The figures that miss the published ones by more than the page allows."""
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
                found.append(f"total time {row.change:+.0f} -> {change:+.0f}%")
        for name, published, figure, unit, within in (
            ("energy (MJ)", row.energy_mj, "energy_j", 1e6, HEAVY_WITHIN),
            ("SM activity", row.smact, "gpu_smact_mean", 1.0, HEAVY_WITHIN),
            ("waiting (min)", row.wait_min, "mean_wait_s", 60.0, TIMES_WITHIN),
            ("execution (min)", row.exec_min, "mean_exec_s", 60.0, TIMES_WITHIN),
        ):
            ours = known(self.loop, figure) / unit
            if published is not None and abs(ours / published - 1) > within:
                found.append(f"{name} {published:.3g} -> {ours:.3g}")
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """`defaults` and `recoveries` have a run in radrm's own loop only, `extras` in the other."""

    published: Sequence[Judged]
    extras: Sequence[Judged]
    defaults: Sequence[Judged]
    recoveries: Sequence[Judged]


def judged(seeds: int, data: Path = SHARED_DATA) -> Found:
    """Measure all rows of the page."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        begun: dict[tuple[str, str], Future[dict[str, Spread]]] = {}

        def begin(rows: Sequence[Row], fidelity: Fidelity) -> list[Future[dict[str, Spread]]]:
            """Begin the runs of these rows. Several rows are one setting: that runs once."""
            found = []
            for row in rows:
                key = (row.trace, repr(scenario(row, fidelity, 0)))
                if key not in begun:
                    begun[key] = pool.submit(measure, row, fidelity, seeds, data)
                found.append(begun[key])
            return found

        runs = (
            begin(ROWS, "published"),
            begin(EXTRA_ROWS, "published"),
            begin(ROWS, "radrm"),
            begin(OWN_ROWS, "radrm"),
            begin(RECOVERY_ROWS, "radrm"),
        )
        loops, extras, owns, defaults, recoveries = (
            [each.result() for each in futures] for futures in runs
        )
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

    return Found(
        published,
        [
            Judged(row, loop, {}, base[row.trace])
            for row, loop in zip(EXTRA_ROWS, extras, strict=True)
        ],
        alone(OWN_ROWS, defaults),
        alone(RECOVERY_ROWS, recoveries),
    )


# ------------------------------------------------------------------ the page

WHY = {
    "RR on streams": "see RR on MPS",
    "RR on MPS": "in the model, deaths follow from which large jobs meet, hardly from chance",
    "MAGM + FakeTensor (80%)": "not explained",
    "MAGM + GPUMemNet (80%)": (
        "{run.above} of {run.joins} published placements join a GPU that the model shows above "
        "80% SMACT, so real readings vary more. With these placements the model has "
        "{run.execution_min:.1f} min and {run.smact:.3f}"
    ),
    "Oracle worst fit": "the last jobs decide, and seeds differ",
    "Oracle worst fit on streams": (
        "the model's SMACT of a time-sliced GPU is the work it completes, always below 80%, so "
        "the policy overloads it"
    ),
}
"""Why a row is missed, where it is."""


def page(found: Found, seeds: int, data: Path = SHARED_DATA) -> str:
    lines, run = [_HEAD.format(seeds=seeds)], placed(observed(data))
    for trace in TRACES:
        here = [each for each in found.published if each.row.trace == trace]
        lines += [f"## {trace}\n", *_table(here), "", _bounds(trace, data), ""]
    heavy = {each.row.what: each for each in found.published if each.row.trace == "heavy60"}
    lines += [_smact(heavy["Exclusive"], heavy["MAGM + GPUMemNet (80%)"])]
    lines += ["## What is not reproduced\n"]
    for each in found.published:
        if missed := each.misses():
            why = WHY.get(each.row.what, "not explained").format(run=run)
            lines.append(f"- **{each.row.trace}, {each.row.what}**: {', '.join(missed)}; {why}.")
    loops = {
        (each.row.trace, each.row.what): each.loop for each in (*found.published, *found.extras)
    }
    lines += [_CLAIMS, *claims_table(loops, seeds), "", _CLAIMS_TAIL + _energy(heavy, run)]
    lines += [_CONTROL, *_controls(found), "", _TAIL]
    lines += [*_own_table(found.defaults), "", _OWN_TAIL]
    lines += [_RECOVERY, *_recovery_table(found.recoveries), "", _RECOVERY_TAIL]
    return "\n".join(lines)


def _controls(found: Found) -> list[str]:
    """One line for each trace with estimates of GPUMemNet, and one with the same by lot."""
    rows = []
    for each in (*found.published, *found.extras):
        if each.row.estimator in ("gpumemnet", BY_LOT) and "80%" in each.row.what:
            loop = each.loop
            deaths, energy = _pm(loop["oom_count"], 1, 1), _pm(loop["energy_j"], 1e6, 2)
            name = f"{each.row.trace}: {each.row.what}"
            rows.append((name, f"{each.change(loop):+.1f}", deaths, energy))
    return markdown.table(("the published loop", "time", "OOM", "energy"), rows, range(1, 4))


def _own_table(rows: Sequence[Judged]) -> list[str]:
    """One line for each kind of estimates; a cell has both traces."""
    lines = []
    for what in dict.fromkeys(each.row.what for each in rows):
        by_trace = {each.row.trace: each for each in rows if each.row.what == what}
        lines.append(_line(what, *(_own_cells(by_trace[trace]) for trace in TRACES)))
    return _of_both("estimates", lines)


def _recovery_table(rows: Sequence[Judged]) -> list[str]:
    """One line for each trace and policy; a cell has both recoveries."""
    lines = []
    for trace, what in dict.fromkeys((each.row.trace, each.row.what) for each in rows):
        here = [each for each in rows if (each.row.trace, each.row.what) == (trace, what)]
        lines.append(_line(f"{trace}: {what}", *map(_own_cells, here)))
    return _of_both("policy, estimates", lines)


def _own_cells(each: Judged) -> list[str]:
    """Time, waiting and execution, deaths and energy in radrm's own loop."""
    own = each.own
    spread = 100 * (own["makespan_s"].sd or 0.0) / each.baseline_s
    return [
        f"{each.change(own):+.1f}±{spread:.1f}",
        _times(own),
        _pm(own["oom_count"], 1, 1),
        f"{known(own, 'energy_j') / 1e6:.2f}",
    ]


def _table(rows: Sequence[Judged]) -> list[str]:
    """One line for each published row; a cell has the prototype's loop and radrm's own."""
    lines = []
    for each in rows:
        row, loop = each.row, each.loop
        spread = 100 * (loop["makespan_s"].sd or 0.0) / each.baseline_s
        mark = "*" if row.plot else ""
        time = "" if row.change is None else f"{row.change:+.1f}{mark if row.change else ''}→"
        deaths = "" if row.oom is None else f"{row.oom}→"
        waiting = "?" if row.wait_min is None else f"{row.wait_min:.0f}"
        times = "" if row.exec_min is None else f"{waiting}+{row.exec_min:.0f}{mark}→"
        energy = "" if row.energy_mj is None else f"{row.energy_mj:.2f}→"
        cells = [
            f"{time}{each.change(loop):+.1f}±{spread:.1f}",
            times + _times(loop),
            deaths + _pm(loop["oom_count"], 1, 1),
            energy + _pm(loop["energy_j"], 1e6, 2),
        ]
        lines.append(_line(row.what + (" **!**" if each.misses() else ""), cells, _own_cells(each)))
    return _of_both("policy", lines)


def _of_both(what: str, lines: Sequence[Sequence[str]]) -> list[str]:
    return markdown.table((what, "time", "wait+exec", "OOM", "energy"), lines, range(1, 5))


def _line(what: str, first: Sequence[str], second: Sequence[str]) -> list[str]:
    """A row whose cells hold two values each."""
    return [what, *(f"{left}/{right}" for left, right in zip(first, second, strict=True))]


def _times(of: Mapping[str, Spread]) -> str:
    """Mean waiting plus mean execution in minutes; their sum is the completion time."""
    return f"{known(of, 'mean_wait_s') / 60:.0f}+{known(of, 'mean_exec_s') / 60:.0f}"


def _pm(spread: Spread, unit: float, digits: int) -> str:
    if spread.mean is None:
        return ""
    return f"{spread.mean / unit:.{digits}f}±{(spread.sd or 0) / unit:.{digits}f}"


def _bounds(trace: str, data: Path) -> str:
    jobs = published_trace(trace, data)
    alone = nominal(jobs, Life().start_up_s)
    low = bounds(jobs, alone, [m.fraction for m in parse(SERVER)])
    total, completion = low.makespan_s / 60, low.mean_jct_s / 60
    return f"Lower bounds: total time {total:.0f} min, JCT {completion:.0f} min."


def _smact(alone: Judged, best: Judged) -> str:
    """Total times and SM activity of the two runs that the thesis shows over time."""

    def pair(figure: str, unit: float, digits: int, published: Sequence[float | None]) -> str:
        shown = (_pm(each.loop[figure], unit, digits) for each in (alone, best))
        return ", ".join(f"{was}*→{now}" for was, now in zip(published, shown, strict=True))

    minutes = pair("makespan_s", 60, 0, (alone.row.minutes, best.row.minutes))
    smact = pair("gpu_smact_mean", 1, 3, (alone.row.smact, best.row.smact))
    return f"""heavy60, exclusive and MAGM + GPUMemNet: total time {minutes} min; SMACT {smact}.

![Figures 6.13 to 6.15, simulated](reproduction.svg)

`python -m benchmarks.simulation.pictures` draws Figures 6.13 to 6.15.
"""


def _energy(heavy: Mapping[str, Judged], run: Placed) -> str:
    """How much energy the rows save, published and here."""

    def saved(what: str) -> str:
        rows = heavy[what], heavy["Exclusive"]
        of, alone = (each.row.energy_mj for each in rows)
        assert of is not None and alone is not None
        ours, ours_alone = (known(each.loop, "energy_j") for each in rows)
        return f"{100 * (1 - of / alone):.1f}→{100 * (1 - ours / ours_alone):.1f}%"

    return _ENERGY.format(
        magm=saved("MAGM (2 GB, 80%)"), best=saved("MAGM + GPUMemNet (80%)"), run=run
    )


_HEAD = """<!-- made by `python -m benchmarks.simulation.reproduction`; do not edit -->
# The published tables, reproduced

RAD-RM's thesis (single runs; its bars have no numbers) against the simulator: mean±standard
deviation of {seeds} seeds on four simulated A100-40GB. `*`: read from a plot; the text has no such
number.

- `4→2.1±0.7/2.2±0.6`: published, `--fidelity published` (the prototype's loop), radrm's own loop
  with default thresholds and the same estimator.
- *time*: change of total time against exclusive, %. *wait+exec*: mean minutes; the sum is
  completion time. *OOM*: deaths. *energy*: MJ.
- **!**: off by more than 2 deaths, 3% of energy, SMACT or heavy60's total time, 4 points of
  mix90's, or 10% of waiting or execution.
"""

_CLAIMS = """
## The thesis' sentences

`noise`: within two standard errors, for the nearest rows.
"""

_CLAIMS_TAIL = """\
- The prototype gives an idle GPU first, whatever the policy; then the 80% limit mostly leaves one.
  So the oracle's policies hardly differ.
"""

_ENERGY = """\
- **Energy** saved by MAGM: {magm}; with GPUMemNet {best}. With published placements and ends the
  model needs {run.energy_mj:.2f} MJ (published: 28.50), so its power is right. But published
  sharing shows 2.6% more SM activity for the same work, so all simulated savings are about a point
  too high.
"""

_CONTROL = """\
## What the estimates add

The control: MAGM with the estimates of GPUMemNet, and with the same figures dealt out to the jobs
by lot.
"""

_TAIL = """\
## Fitted and predicted

- **Fitted** (`python -m benchmarks.simulation.calibration`): the constants of interference on
  heavy60's MAGM + GPUMemNet run; SM activity, steady memory and power of jobs on its exclusive run.
- **Chosen with mix90 on streams in view**: a job on two GPUs keeps at least half its slower
  GPU's speed.
- **As published**: the loop's times; readings in windows of 90 s (sections 6.2.1 and 6.2.2), held
  until the next, memory as at the end; durations, 60 s of start-up (30 s without load), thresholds.
- **Assumed**: start-up, ramp and hold within 20%; work with 2% standard deviation; SM activity of
  light jobs and of Xception at batch 32 and 64.
- **Predicted**: deaths, other times and energy.

## radrm's own loop

MAGM with defaults, heavy60/mix90:
"""

_OWN_TAIL = """\
`core.stretch = 1`: a client's MPS cap is its estimate. Time-sliced rows, here and on streams, have
the pessimistic model of time-slicing (`loss=1.0`), which rests on two published totals; the
[shipped figure](measurements.md#what-others-measured) is milder.
"""

_RECOVERY = """\
## Recovery: exclusive or own-device

[`exclusive`/`own-device`](../policies.md#recovery) in radrm's own loop where jobs die:
"""

_RECOVERY_TAIL = """\
Under `exclusive`, the default, mean completion is shorter. No job died twice.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.reproduction")
    parser.add_argument(
        "--data", type=Path, default=SHARED_DATA, help="where traces/ and measured/ lie"
    )
    parser.add_argument("--seeds", type=int, default=12)
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    print(page(judged(args.seeds, args.data), args.seeds, args.data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
