"""How well the model of sharing fits what others measured, for each loss.

    python -m benchmarks.simulation.sharing [--data FOLDER] [--seeds 6]

- Lucid: pairs of jobs on one GPU, each in a process, without MPS. Utilisation alone becomes SM
  activity. The loss that fits best is fitted without one program, and tested on its pairs.
- Gavel: pairs on K80, P100 and V100. What its jobs demand alone is not known, so each program has
  the demand that fits best; every fifth pair is left out of that, and tested. Nor does its
  repository say whether MPS ran.
- Streams: the two published runs of many time-sliced jobs, simulated.
- Utilisation: the table that converts it.

The data lie outside the project. Without them it says so, and does nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import log, sqrt
from pathlib import Path
from statistics import fmean

from benchmarks.simulation.published import ROWS, known, published_trace, scenario
from radrm.interference.chips import smact_from_utilization
from radrm.interference.model import TIMESLICE_LOSS, Demand, speeds
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics, over_seeds
from tests.paths import SHARED_DATA

LOSSES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
CHIPS = ("k80", "p100", "v100")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two jobs that shared a GPU: each program, utilisation alone, and speed (1: as alone)."""

    programs: tuple[str, str]
    used: tuple[float, float]
    speeds: tuple[float, float]


def rms(errors: Sequence[float]) -> float:
    return sqrt(fmean(error * error for error in errors))


# ------------------------------------------------------------------ Lucid


def lucid(data: Path) -> list[Pair]:
    def key(row: dict[str, str], which: str) -> tuple[str, str, str]:
        return row[f"model{which}"], row[f"batchsize{which}"], row[f"amp{which}"]

    with (data / "public" / "lucid_single_data.csv").open(encoding="utf-8") as lines:
        alone = {key(row, ""): float(row["gpu_util"]) / 100 for row in csv.DictReader(lines)}
    with (data / "public" / "lucid_colocate_info.csv").open(encoding="utf-8") as lines:
        return [
            Pair(
                (row["model1"], row["model2"]),
                (alone[key(row, "1")], alone[key(row, "2")]),
                (float(row["speed1"]), float(row["speed2"])),
            )
            for row in csv.DictReader(lines)
        ]


def errors_of(pairs: Sequence[Pair], loss: float, converted: bool = True) -> list[float]:
    """Return log(modelled / measured speed) of each job. A speed above 1 counts as 1."""
    found = []
    for pair in pairs:
        used = map(smact_from_utilization, pair.used) if converted else pair.used
        modelled = speeds([Demand(each) for each in used], mps=False, loss=loss)
        found += [
            log(speed / min(1.0, seen)) for speed, seen in zip(modelled, pair.speeds, strict=True)
        ]
    return found


def best_loss(pairs: Sequence[Pair]) -> float:
    return min((at / 20 for at in range(21)), key=lambda loss: rms(errors_of(pairs, loss)))


def left_out(pairs: Sequence[Pair]) -> list[float]:
    """Return the errors of each program's pairs with the loss that fits the other programs."""
    found = []
    for program in sorted({name for pair in pairs for name in pair.programs}):
        others = [pair for pair in pairs if program not in pair.programs]
        found += errors_of([p for p in pairs if program in p.programs], best_loss(others))
    return found


def of_lucid(data: Path) -> Iterator[str]:
    pairs = lucid(data)
    yield f"Lucid, {len(pairs)} time-sliced pairs: root mean square and mean of log errors"
    for loss in LOSSES:
        errors, raw = errors_of(pairs, loss), errors_of(pairs, loss, converted=False)
        yield (
            f"  loss {loss:4.2f}: {rms(errors):.3f}, {fmean(errors):+.3f}; "
            f"with utilisation as the demand {rms(raw):.3f}"
        )
    seen = [log(min(1.0, speed)) for pair in pairs for speed in pair.speeds]
    yield f"  one speed for all: {rms([each - fmean(seen) for each in seen]):.3f}"
    yield (
        f"  best loss {best_loss(pairs):.2f}; programs left out: {rms(left_out(pairs)):.3f} "
        f"({len({n for p in pairs for n in p.programs})} programs)"
    )
    for low in (0.0, 0.5, 1.0, 1.5):
        part = [pair for pair in pairs if low <= sum(pair.used) < low + 0.5]
        shown = (f"{rms(errors_of(part, at)):.3f}" for at in (0.0, TIMESLICE_LOSS, 1.0))
        yield (
            f"  sum of utilisation {low:.1f} to {low + 0.5:.1f} ({len(part)} pairs), loss 0, "
            f"{TIMESLICE_LOSS:g}, 1: {', '.join(shown)}"
        )


# ------------------------------------------------------------------ Gavel

GRID = tuple(at / 20 for at in range(1, 21))


@cache
def speed_of_pair(one: float, other: float, loss: float) -> float:
    return log(speeds([Demand(one), Demand(other)], mps=True, loss=loss)[0])


def gavel(data: Path, chip: str) -> list[Pair]:
    """Return the pairs of one-GPU jobs that ran; what they use alone is not known."""
    with (data / "public" / "gavel_simulation_throughputs.json").open(encoding="utf-8") as file:
        rates = json.load(file)[chip]
    one = [name for name in rates if name.endswith(", 1)")]
    return [
        Pair((a, b), (0.0, 0.0), (pair[0] / rates[a]["null"], pair[1] / rates[b]["null"]))
        for at, a in enumerate(one)
        for b in one[at:]
        if (pair := rates[a].get(b)) is not None and min(pair) > 0
    ]


def demands_of(pairs: Sequence[Pair], loss: float) -> dict[str, float]:
    """Return for each program the demand that fits best, by coordinate descent."""
    found = dict.fromkeys((name for pair in pairs for name in pair.programs), 0.7)
    for _ in range(12):
        before = dict(found)
        for name in found:
            own = [pair for pair in pairs if name in pair.programs]

            def cost(demand: float, name: str = name, own: list[Pair] = own) -> float:
                tried = {**found, name: demand}
                return fmean(e * e for e in pair_errors(own, tried, loss))

            found[name] = min(GRID, key=cost)
        if found == before:
            break
    return found


def pair_errors(pairs: Sequence[Pair], demands: dict[str, float], loss: float) -> list[float]:
    """Return the errors of the mean log speed of each pair: who gets more depends on weights."""
    return [
        speed_of_pair(*(demands[name] for name in pair.programs), loss)
        - fmean(log(min(1.0, speed)) for speed in pair.speeds)
        for pair in pairs
    ]


def of_gavel(data: Path) -> Iterator[str]:
    for chip in CHIPS:
        pairs = gavel(data, chip)
        seen = [fmean(map(log, pair.speeds)) for pair in pairs]
        flat = rms([each - fmean(seen) for each in seen])
        shown = []
        for loss in (0.0, 0.25, 0.5, 1.0):
            demands = demands_of([p for at, p in enumerate(pairs) if at % 5], loss)
            held = [p for p in pairs[::5] if set(p.programs) <= demands.keys()]
            shown.append(f"{loss:g}: {rms(pair_errors(held, demands, loss)):.3f}")
        yield (
            f"Gavel, {chip.upper()}, {len(pairs)} pairs, held-out error by loss "
            f"{', '.join(shown)}; one speed for all {flat:.3f}"
        )


# ------------------------------------------------------------------ streams, utilisation


def of_streams(data: Path, seeds: int) -> Iterator[str]:
    for row in (row for row in ROWS if not row.mps):
        jobs = published_trace(row.trace, data)
        (alone,) = (r for r in ROWS if r.trace == row.trace and r.policy == "exclusive")
        runs = [metrics(simulate(jobs, scenario(alone, "published", s))) for s in range(seeds)]
        base_s = known(over_seeds(runs), "makespan_s")
        published = f"{row.energy_mj} MJ" if row.energy_mj else f"total time {row.change:+.0f} %"
        yield f"{row.trace}, {row.what}, {seeds} seeds; published: {published}"
        for loss in (0.0, 0.25, TIMESLICE_LOSS, 0.5, 0.75, 1.0):
            runs = [
                metrics(simulate(jobs, scenario(row, "published", s, loss))) for s in range(seeds)
            ]
            found = over_seeds(runs)
            change = 100 * (known(found, "makespan_s") / base_s - 1)
            yield (
                f"  loss {loss:4.2f}: total time {change:+5.1f} %, "
                f"{known(found, 'energy_j') / 1e6:.1f} MJ"
            )


def of_utilisation(data: Path) -> Iterator[str]:
    with (data / "mlp" / "mlp_train_memory_a100.csv").open(encoding="utf-8") as lines:
        rows = [
            (float(row["Avg GPUTL"]) / 100, float(row["Avg SMACT"]))
            for row in csv.DictReader(lines)
        ]
    errors = [(used, smact_from_utilization(used) - smact) for used, smact in rows]
    parts = ", ".join(
        f"{low:g} to {high:g} {rms([e for used, e in errors if low <= used < high]):.3f}"
        for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 1.0))
    )
    yield (
        f"SM activity from utilisation, {len(rows)} trainings: root mean square error "
        f"{rms([e for _, e in errors]):.3f}; by utilisation {parts}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.sharing")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="where public/ lies")
    parser.add_argument("--seeds", type=int, default=6)
    asked = parser.parse_args()
    data = asked.data
    if not (data / "public").is_dir():
        print(f"{data}: has no public/; name the folder that has with --data. Nothing done.")
        return 0
    for lines in (of_lucid(data), of_gavel(data), of_utilisation(data)):
        for line in lines:
            print(line, flush=True)
    for line in of_streams(data, asked.seeds):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
