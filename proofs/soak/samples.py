"""What the daemon holds: memory, descriptors, threads, files. Taken each minute, in quiet."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from proofs.processes import figures
from proofs.soak.daemon import Daemon
from radrm.client.text import LIVE

FILLER = "filler"
"""The file in the home by which the soak fills the disk."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the daemon and its home. Sizes in KiB."""

    at_s: float
    """Seconds since the soak began."""
    life: int
    """The number of the daemon: 1 is the first one."""
    rss_kib: int
    descriptors: int
    threads: int
    store_kib: int
    """The database, without its log, whose size is bounded."""
    home_kib: int
    """All files of the home but the store and what was refused."""
    attempts: int
    """Folders of attempts."""
    running: int
    """Jobs that run by the daemon's own account."""
    waiting: int
    submitted: int
    ended: int
    load: float
    """The machine's load average of one minute."""


def take(daemon: Daemon, began_s: float, submitted: int, ended: int) -> Sample:
    """Look now. Raises `RadrmError` if the daemon does not answer, `OSError` if it has ended."""
    summary = daemon.ask("page", limit=1)
    status = figures(daemon.pid)
    paths = daemon.ground.paths
    running = sum(summary["counts"].get(state, 0) for state in LIVE)
    return Sample(
        at_s=round(time.time() - began_s, 1),
        life=daemon.lives,
        rss_kib=status["VmRSS"],
        descriptors=len(os.listdir(f"/proc/{daemon.pid}/fd")),
        threads=status["Threads"],
        store_kib=os.stat(paths.database).st_size // 1024,
        home_kib=size_kib(Path(paths.state), (Path(paths.store), Path(paths.refused))),
        attempts=len(os.listdir(paths.attempts)),
        running=running,
        waiting=summary["total"] - running,
        submitted=submitted,
        ended=ended,
        load=round(os.getloadavg()[0], 1),
    )


def size_kib(folder: Path, without: tuple[Path, ...]) -> int:
    """The sizes of all files below a folder, but for what fills the disk."""
    total = 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(place, name) not in without]
        for name in files:
            if name == FILLER:
                continue
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return total // 1024


def left_over(daemon: Daemon) -> list[str]:
    """What lies in the home's folders of live attempts: nothing, when no job lives."""
    paths = daemon.ground.paths
    found = []
    for folder in (paths.attempts, paths.progress, paths.elastic):
        found += [f"{folder}/{name}" for name in os.listdir(folder)]
    names = (name for name in os.listdir(paths.spool) if name.endswith(".job"))
    return found + [f"{paths.spool}/{name}" for name in names]
