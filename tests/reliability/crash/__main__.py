"""Run the crash matrix.

    python -m tests.reliability.crash [--kills N] [--seed S] [--hours H] [--at-once N] [--keep]

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

from tests.reliability.crash.matrix import Matrix, Tally
from tests.reliability.crash.report import as_json, from_json, report

_KILLS_OF_ONE_HOME = 60


def main() -> int:
    options = _parser().parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    began_s = time.monotonic()
    until_s = began_s + options.hours * 3600 if options.hours else None
    share = -(-options.kills // options.at_once)
    workers = [
        _fork(seed * 1000 + number, share, until_s, options.keep)
        for number in range(options.at_once)
    ]
    tally = Tally()
    for source in workers:
        with os.fdopen(source) as file:
            for line in file:
                tally.add(from_json(json.loads(line)))
    for line in report(tally, time.monotonic() - began_s):
        print(line)
    return 1 if any(tally.wrong.values()) or not tally.kills else 0


def _fork(seed: int, kills: int, until_s: float | None, keep: bool) -> int:
    """Run homes in a process of its own; the descriptor that its figures come from."""
    source, sink = os.pipe()
    if os.fork():
        os.close(sink)
        return source
    try:
        with os.fdopen(sink, "w") as file:
            _homes(seed, kills, until_s, keep, file)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _homes(seed: int, kills: int, until_s: float | None, keep: bool, file: object) -> None:
    done = Tally()
    while done.kills.total() < kills if until_s is None else time.monotonic() < until_s:
        left = kills - done.kills.total() if until_s is None else _KILLS_OF_ONE_HOME
        matrix = Matrix(seed, done, keep)
        try:
            account = matrix.run(min(left, _KILLS_OF_ONE_HOME))
            wrong = account.counts.total()
        except AssertionError as error:
            matrix.tally.wrong.setdefault("lost", []).append(f"{error}")
            wrong = 1
        if wrong:
            print(f"seed {seed}: {matrix.place.folder} is kept", flush=True)
        done.add(matrix.tally)
        print(json.dumps(as_json(matrix.tally)), file=file, flush=True)  # type: ignore[call-overload]
        seed += 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.crash")
    parser.add_argument("--kills", type=int, default=2000, help="kills in all (%(default)s)")
    parser.add_argument("--seed", type=int, help="where chance begins")
    parser.add_argument("--hours", type=float, help="so long instead of so many kills")
    parser.add_argument("--at-once", type=int, default=2, help="homes at once (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all homes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
