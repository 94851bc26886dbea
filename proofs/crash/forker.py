"""A forker whose fault points are watched, and whose runners are: `forker.py ATTEMPTS`."""

from __future__ import annotations

import os
import sys

if not __package__:
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2)))

from proofs.crash import runner
from proofs.crash.watcher import Watcher
from radrm.host import crossings
from radrm.host.attempts import forker


def main(attempts: str) -> int:
    place = os.path.dirname(os.path.dirname(attempts))
    crossings.watch(Watcher(place, "forker"))
    return forker.main(attempts, runner.run)


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
