"""Remove the work of MPS clients whose processes a runner is about to signal.

    python -I -S end_clients.py PIPES PROGRAM term|kill LIMIT_S PID...

A runner outlives the daemon and knows nothing of MPS, so its launch record names this command
(`processes/client_work.py`). PIPES is the pipe directory, PROGRAM the path of
`nvidia-cuda-mps-control`. Errors do not matter: the runner signals the processes anyway.
"""

from __future__ import annotations

import os
import signal
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.mps.control import Control
from radrm.host.mps.removal import Which, remove_work

_OWNER = (0, 0)
"""Stands for the runner's attempt: here is no other."""


def main(pipes: str, program: str, signal_name: str, limit_s: str, *pids: str) -> None:
    """Raises `NoAnswer`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a runner has all blocked
    which = Which.ALL if signal_name == "kill" else Which.END_BY_TERM
    owners = dict.fromkeys(map(int, pids), _OWNER)
    control = Control(pipes, f"{pipes}.log", program=program)
    remove_work(control, _OWNER, owners.get, which, float(limit_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
