"""ANDREAS beside its published figures, and our own rules: `python -m benchmarks.deadlines`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from benchmarks.deadlines.claims import claims
from benchmarks.deadlines.methods import Method
from benchmarks.deadlines.page import (
    FEW,
    SLOW,
    TABLE,
    costs_part,
    real_part,
    server_part,
    sizes_part,
)
from benchmarks.deadlines.pictures import draw
from benchmarks.deadlines.real import checked
from benchmarks.deadlines.runs import Trial, play_all
from benchmarks.deadlines.server import all_served
from benchmarks.deadlines.sizes import NODES, all_sized
from radrm.lab.simulator.metrics import Metrics
from radrm.lab.simulator.traces.importers.andreas import Mix
from tests.paths import REPOSITORY

PICTURE = REPOSITORY / "docs" / "lab" / "reproduction-andreas.svg"
LOADS = (0.3, 0.5, 1.1, 1.7)
SCENARIOS = (1, 2)


def _costs(options: argparse.Namespace) -> str:
    loads, seeds = (LOADS, options.seeds) if not options.quick else ((0.5, 1.1), 3)
    trials = [
        Trial(method, Mix(scenario, 10, load, seed))
        for method in TABLE
        for scenario in SCENARIOS
        for load in loads
        for seed in range(min(seeds, FEW) if method in SLOW else seeds)
    ]

    def told(count: int) -> None:
        if sys.stderr.isatty() or count % 50 == 0:
            print(f"\r{count} of {len(trials)} runs", end="", file=sys.stderr, flush=True)

    found: dict[tuple[int, float, Method], list[Metrics]] = {}
    played = play_all(trials, options.jobs, told)
    for trial, metrics in zip(trials, played, strict=True):
        key = (trial.mix.scenario, trial.mix.load, trial.method)
        found.setdefault(key, []).append(metrics)
    print(file=sys.stderr)
    if options.draw:
        draw(found, PICTURE)
    return costs_part(found, seeds, claims(found))


def _sizes(options: argparse.Namespace) -> str:
    return sizes_part(all_sized(options.jobs, NODES[:1] if options.quick else NODES))


def _server(options: argparse.Namespace) -> str:
    return server_part(all_served(range(3 if options.quick else options.seeds)))


def _real(options: argparse.Namespace) -> str:
    return real_part(checked())


PARTS: dict[str, Callable[[argparse.Namespace], str]] = {
    "costs": _costs,
    "sizes": _sizes,
    "server": _server,
    "real": _real,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deadlines", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: the cores")
    parser.add_argument("--quick", action="store_true", help="3 seeds, few loads")
    parser.add_argument("--draw", action="store_true", help=f"also draw {PICTURE.name}")
    parser.add_argument("--part", choices=PARTS, help="only this part of the page")
    options = parser.parse_args()
    for name in [options.part] if options.part else PARTS:
        print(PARTS[name](options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
