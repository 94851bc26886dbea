"""A runner whose fault points are watched: `python -I -S runner.py FOLDER`."""

from __future__ import annotations

import os
import sys

if not __package__:
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2)))

from proofs.crash import SHADOW
from proofs.crash.watcher import DEFECT, Watcher, note_groups, set_boot
from radrm.host import crossings
from radrm.host.attempts import runner


def main(folder: str) -> int:
    _watch(folder)
    return runner.main(folder)


def run(folder: str, gated: bool) -> bool | None:
    _watch(folder)
    return runner.run(folder, gated)


def _watch(folder: str) -> None:
    attempts, serial = os.path.split(folder)
    place = os.path.dirname(os.path.dirname(attempts))
    crossings.watch(Watcher(place, "runner", serial))
    note_groups(place)
    set_boot(place)
    if os.path.isdir(os.path.join(place, SHADOW)):
        from proofs.crash.synced import keep_shadow

        keep_shadow(place)
    if os.path.exists(os.path.join(place, DEFECT)):
        from proofs.crash.defects import put_in

        put_in(place, "runner")


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1])))
