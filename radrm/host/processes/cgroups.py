"""A control group for one attempt (cgroup v2), where this machine lets us make one.

A group names every process of an attempt, whatever it forks, and the kernel can kill
them all at once. Nothing depends on it: many servers do not let a user make one, so
every function here tries, and says whether it worked.
"""

from __future__ import annotations

import itertools
import os

_MOST_GROUPS = 10_000
"""Below one attempt's that are looked at: a job that is let make groups may make many."""


def place(name: str) -> str | None:
    """Where a group of that name below our own would lie; None without cgroup v2.

    `make` and `join` tell whether it works. The name is written down before the group is
    made, so that no group is left that no record names.
    """
    parent = _own_group()
    return os.path.join(parent, name) if parent is not None else None


def make(path: str) -> bool:
    try:
        os.mkdir(path)
    except OSError:
        return False
    return True


def join(path: str, pid: int) -> bool:
    """Put a process, and all that it forks from now on, into the group."""
    return _write(path, "cgroup.procs", str(pid))


def processes(path: str) -> set[int]:
    """The pids in the group and below it; none when there is no such group."""
    found: set[int] = set()
    for folder, _, _ in itertools.islice(os.walk(path), _MOST_GROUPS):
        try:
            with open(os.path.join(folder, "cgroup.procs")) as procs:
                found.update(int(line) for line in procs)
        except OSError:
            continue  # it went away, or holds threads of a process that another group lists
    found.discard(0)  # a process of another pid namespace
    return found


def limit(path: str, name: str, most: int) -> bool:
    """Set a limit of the group, such as `pids.max`, where its parent shares that out."""
    return _write(path, name, str(most))


def kill(path: str) -> bool:
    """KILL all that is in the group, without a race against fork (Linux 5.14 or later)."""
    return _write(path, "cgroup.kill", "1")


def remove(path: str) -> bool:
    """Remove the empty group and those below it; False while a process is in one."""
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True


def _own_group() -> str | None:
    """The folder of the group that this process is in."""
    try:
        with open("/proc/self/cgroup") as groups:
            own = next((line[3:].rstrip("\n") for line in groups if line.startswith("0::")), None)
        with open("/proc/self/mountinfo") as mounts:
            tables = [line.split(" ") for line in mounts]
    except OSError:
        return None
    if own is None or ".." in own.split("/"):
        return None  # no cgroup v2, or our group lies outside what we can see
    for table in tables:
        root, mounted = table[3], table[4]
        if table[table.index("-") + 1] == "cgroup2" and (own + "/").startswith(
            root.rstrip("/") + "/"
        ):
            return os.path.join(mounted, own[len(root.rstrip("/")) :].strip("/")).rstrip("/")
    return None


def _write(path: str, name: str, text: str) -> bool:
    try:
        fd = os.open(os.path.join(path, name), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, text.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
