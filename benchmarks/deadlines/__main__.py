"""ANDREAS beside its published figures, and our own rules: `python -m benchmarks.deadlines`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.deadlines.claims import claims
from benchmarks.deadlines.methods import Method
from benchmarks.deadlines.page import FEW, SLOW, TABLE, page
from benchmarks.deadlines.pictures import draw
from benchmarks.deadlines.real import PUBLISHED, checked
from benchmarks.deadlines.runs import Trial, play_all, settings
from benchmarks.deadlines.server import all_served
from benchmarks.deadlines.sizes import NODES, all_sized
from benchmarks.sections import put_section
from radrm.lab.simulator.metrics import Metrics
from tests.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "lab" / "reproduction-andreas.md"
PICTURE = REPOSITORY / "docs" / "lab" / "reproduction-andreas.svg"
TITLE = "ANDREAS and due times beside the published figures"
LOADS = (0.3, 0.5, 1.1, 1.7)
SCENARIOS = (1, 2)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deadlines", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: the cores")
    parser.add_argument("--keep", type=Path, help="a file of finished runs, to go on from")
    parser.add_argument("--quick", action="store_true", help="3 seeds, few loads; writes nothing")
    parser.add_argument("--real", action="store_true", help="only the run through a real daemon")
    options = parser.parse_args()
    if options.real:
        one = checked()
        print(
            f"predicted {one.predicted:.4f} EUR, metered {one.metered:.4f} EUR: "
            f"{one.deviation:.2f} % apart (published {PUBLISHED} %); late {100 * one.late:.0f} %"
        )
        return 0 if one.deviation <= PUBLISHED else 1
    loads, seeds = (LOADS, options.seeds) if not options.quick else ((0.5, 1.1), 3)
    trials = [
        Trial(method, mix)
        for method in TABLE
        for mix in settings(
            SCENARIOS, 10, loads, range(min(seeds, FEW) if method in SLOW else seeds)
        )
    ]

    def told(count: int) -> None:
        if sys.stderr.isatty() or count % 50 == 0:
            print(f"\r{count} of {len(trials)} runs", end="", file=sys.stderr, flush=True)

    found: dict[tuple[int, float, Method], list[Metrics]] = {}
    played = play_all(trials, options.jobs, told, options.keep)
    for trial, metrics in zip(trials, played, strict=True):
        key = (trial.mix.scenario, trial.mix.load, trial.method)
        found.setdefault(key, []).append(metrics)
    print(file=sys.stderr)
    held = claims(found)
    sizes = all_sized(options.jobs, NODES[:1] if options.quick else NODES)
    real = None if options.quick else checked()
    text = page(found, seeds, held, sizes, all_served(range(seeds)), real)
    if options.quick:
        print(text)
    else:
        put_section(PAGE, "andreas", text, TITLE)
        draw(found, sizes, PICTURE)
        print(f"{PAGE}: written")
    for each in held:
        if not each.holds:
            print(f"missed: {each.words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
