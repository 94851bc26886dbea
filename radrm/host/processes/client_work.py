"""Have the work of MPS clients removed before their processes are signalled.

The daemon does that before its own signals. This is for processes that outlive the job's main
process: the runner ends them by itself, also without a daemon; and for those that outlive their
runner. The launch record of a client names the command that does it (`ends_clients`);
`mps/removal.py` says why. It is bounded in time, and the signal follows whatever comes of it.
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

LIMIT_S = 5.0
"""Real seconds for all clients together."""
_START_S = 1.0
"""Real seconds that the command may take beyond that."""
_MOST_PIDS = 10_000
"""Their digits fit into one command line."""


def remove(launch: dict[str, Any], find: Callable[[], Iterable[int]], *, kill: bool) -> None:
    """Remove the work of the clients that the signal would end: KILL or, without `kill`, TERM.

    `launch` is the launch record. `find` returns the pids of the processes; it is called only for a
    job that is a client.
    """
    command: list[str] = launch.get("ends_clients") or []
    listed = sorted(find())[:_MOST_PIDS] if command else []
    if not listed:
        return
    # Here, for few runners need this import.
    import subprocess

    words = [*command, "kill" if kill else "term", f"{LIMIT_S:g}", *map(str, listed)]
    try:
        process = subprocess.Popen(
            words,
            env={"PATH": os.defpath},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return
    try:
        process.wait(LIMIT_S + _START_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
