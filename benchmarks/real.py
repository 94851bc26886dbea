"""A private daemon on simulated GPUs, and submissions without the command.

The clock is real (no time scale). Everything is ended and removed afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome


@contextmanager
def fresh_home(devices: int = 1) -> Iterator[DaemonHome]:
    """A home whose daemon, once started, gives each job a device of its own."""
    with TemporaryDirectory(prefix="radrm-bench-") as folder:
        home = DaemonHome(Path(folder), f"sim:{devices}xA100-40GB", scale=1.0)
        home.settings = ["policy=exclusive"]
        # The benchmarks measure warm starts, so Python may keep its bytecode.
        home.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            yield home
        finally:
            home.close()


@contextmanager
def running_daemon(devices: int = 1) -> Iterator[DaemonHome]:
    """A home with a daemon that answers."""
    with fresh_home(devices) as home:
        home.start()
        yield home


def submit(
    home: DaemonHome, command: Sequence[str], jobs: int = 1, **options: str
) -> tuple[list[str], float]:
    """Submit the same command several times, with these options. Returns the tickets and the
    time of their acknowledgement."""
    envelopes = [
        Envelope(
            ticket=new_ticket(),
            file=None,
            script=None,
            command=tuple(command),
            options=options,
            cwd=str(home.work),
            umask=0o022,
            environment={"PATH": os.defpath},
            submitted_s=time.time(),
        )
        for _ in range(jobs)
    ]
    Spool(os.path.join(home.environment["RADRM_HOME"], "spool")).put(envelopes)
    return [envelope.ticket for envelope in envelopes], time.time()


def waiting(home: DaemonHome) -> int:
    """The number of jobs that wait."""
    return int(home.ask("page", limit=1)["counts"].get("PENDING", 0))


def cpu_s(pid: int) -> float:
    """The CPU seconds of a process."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def daemon_cpu_s(home: DaemonHome) -> float:
    """The CPU seconds of a home's daemon."""
    assert home.process is not None
    return cpu_s(home.process.pid)


def occupy(home: DaemonHome, devices: int = 1, **options: str) -> None:
    """Fill every device for longer than any benchmark lasts, so that other jobs wait."""
    tickets, _ = submit(home, ("sleep", "3600"), devices, **options)
    home.ask("intake", jobs=tickets)
    for ticket in tickets:
        home.wait_state(ticket, "RUNNING")
