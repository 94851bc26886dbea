"""Run the crash matrix.

    python -m proofs.crash [--kills N] [--seed S] [--hours H] [--at-once N] [--keep]

Ends with 1 if a job was lost, doubled, orphaned or had an untrue end; the folders of those homes
stay, and are named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Iterator

from proofs.crash.defects import DEFECTS
from proofs.crash.failures import PowerFailures
from proofs.crash.matrix import Matrix, Tally
from proofs.crash.points import RECORD, all_points, never_reached
from proofs.crash.report import as_json, from_json, report
from radrm.errors import RadrmError

_KILLS_OF_ONE_HOME = 100
_HOMES_OF_A_CUT = 5
"""After so many homes, the power of one is cut `_CUTS` times."""
_CUTS = 10


def main() -> int:
    options = _parser().parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    began_s = time.monotonic()
    until_s = began_s + options.hours * 3600 if options.hours else None
    share = -(-options.kills // options.at_once)
    workers = [
        _fork(seed * 1000 + 500 * number, share, until_s, options)
        for number in range(options.at_once)
    ]
    tally = Tally()
    for source in workers:
        with os.fdopen(source) as file:
            for line in file:
                tally.add(from_json(json.loads(line)))
    for line in report(tally, time.monotonic() - began_s):
        print(line)
    if options.record:
        missing = set(never_reached(tally.reached))
        RECORD.write_text("".join(f"{point}\n" for point in sorted(all_points() - missing)))
    return 1 if any(tally.wrong.values()) or not tally.kills else 0


def _fork(seed: int, kills: int, until_s: float | None, options: argparse.Namespace) -> int:
    """Run homes in a process of its own; the descriptor that its figures come from."""
    source, sink = os.pipe()
    if os.fork():
        os.close(sink)
        return source
    try:
        with os.fdopen(sink, "w") as file:
            for tally in _homes(seed, kills, until_s, options):
                print(json.dumps(as_json(tally)), file=file, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _homes(
    seed: int, kills: int, until_s: float | None, options: argparse.Namespace
) -> Iterator[Tally]:
    """Run one home after the other; the figures of each."""
    done, homes = Tally(), 0
    while done.kills.total() < kills if until_s is None else time.monotonic() < until_s:
        left = kills - done.kills.total() if until_s is None else _KILLS_OF_ONE_HOME
        yield one_home(seed + homes, done, min(left, _KILLS_OF_ONE_HOME), options)
        homes += 1
        if homes % _HOMES_OF_A_CUT == 0 and options.cuts is None:
            yield one_home(seed + homes, done, _CUTS, options, power=True)
    if options.cuts:
        yield one_home(seed + homes, done, options.cuts, options, power=True)


def one_home(
    seed: int, done: Tally, times: int, options: argparse.Namespace, power: bool = False
) -> Tally:
    """Kill so often in one home, or cut its power; its figures are added to `done`."""
    make = PowerFailures if power else Matrix
    home = make(seed, done, options.keep, defect=options.defect)
    try:
        wrong = home.run(times).counts.total()
    except (AssertionError, RadrmError) as error:
        home.tally.wrong.setdefault("lost", []).append(f"{type(error).__name__}: {error}")
        wrong = 1
    kept = f"; {home.place.folder} is kept" if wrong else ""
    kills, cuts = home.tally.kills.total(), home.tally.cuts.total()
    print(f"seed {seed}: {kills} kills, {cuts} power failures, {wrong} wrong{kept}", flush=True)
    done.add(home.tally)
    return home.tally


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proofs.crash")
    parser.add_argument("--kills", type=int, default=2000, help="kills in all (%(default)s)")
    parser.add_argument("--seed", type=int, help="where chance begins")
    parser.add_argument("--hours", type=float, help="so long instead of so many kills")
    parser.add_argument("--at-once", type=int, default=2, help="homes at once (%(default)s)")
    parser.add_argument("--cuts", type=int, help="power failures; default: a sixth of the homes")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} anew")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="put a defect in, to be found")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all homes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
