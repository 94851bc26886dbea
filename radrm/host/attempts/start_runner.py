"""Start a runner: enter its job's control group while Python imports the rest.

    python -I -S start_runner.py FOLDER [GROUP]

GROUP is the control group that the launch record in FOLDER names. With the variable of `GATED`
the job begins only after the daemon has written to the pipe `GATE`: it sets up the group meanwhile.
A daemon that died did not finish that: then nothing begins, and the launch is void. One that is
silent does not keep the job waiting for long.
"""

from __future__ import annotations

import os
import select
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts.membership import Membership
from radrm.host.processes import cgroups

GATE = 3
"""The descriptor of the pipe. The runner closes it."""
GATED = {"RADRM_RUNNER_GATED": "1"}
"""What a runner with such a pipe has in its environment."""
_GATE_S = 10.0


def main(folder: str, group: str | None) -> int:
    membership = Membership(group) if group is not None else None
    from radrm.host.attempts import runner  # here: this takes as long as to enter the group

    if os.environ.keys() >= GATED.keys() and not _opens():
        if membership is not None and membership.leave():
            cgroups.remove(membership.path)
        return 0
    return runner.main(folder, membership)


def _opens() -> bool:
    """Wait at the gate; False if the daemon has died."""
    ready, _, _ = select.select([GATE], [], [], _GATE_S)
    return not ready or os.read(GATE, 1) != b""


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
