"""A control group for one attempt, where this machine lets us make one.

A group of cgroup v2 names every process of an attempt, whatever it forks, and the kernel can kill
them all at once. Nothing depends on it: many servers do not let a user make one, so every
function here tries, and says whether it worked.

The daemon, what it starts, and its runners are in a group of their own, `OWN`, where the daemon
has made one (`controllers.py` says when). All other groups lie beside it.
"""

from __future__ import annotations

import itertools
import os
from functools import cache

from radrm.host.processes import procfs

OWN = "radrm-daemon"
"""The name of the daemon's own group. `DelegateSubgroup=` of the systemd units has it, too."""
_MOST_DIGITS = 20
_MOST_GROUPS = 10_000
"""Below one attempt's that are looked at: a job that is let make groups may make many."""
_MOST_BYTES = 64 << 20
"""Of a list of processes: the kernel has at most four million, each in a line of its own."""


def place(name: str) -> str | None:
    """Where a group of that name for an attempt would lie; None without cgroup v2.

    `make` and `join` tell whether it works. The name is written down before the group is
    made, so that no group is left that no record names.
    """
    folder = _attempts()
    return os.path.join(folder, name) if folder is not None else None


@cache
def _attempts() -> str | None:
    """The group in which those of attempts lie: the same after this process has moved to `OWN`."""
    own = own_group()
    return above(own) if own is not None else None


def above(group: str) -> str:
    """The group in which the groups of attempts lie, for a daemon that is in `group`."""
    return os.path.dirname(group) if os.path.basename(group) == OWN else group


def make(path: str) -> bool:
    """Make the group, unless it is there; the names of groups of attempts are never used twice."""
    try:
        if not os.path.isdir(path):
            os.mkdir(path)
        os.chmod(path, 0o755)  # programs read their limits there; a runner's umask forbids it
    except OSError:
        return False
    return True


def join(path: str, pid: int) -> bool:
    """Put a process, and all that it forks from now on, into the group."""
    return _write(path, "cgroup.procs", str(pid))


def processes(path: str) -> set[int]:
    """The pids in the group and below it; none when there is no such group."""
    found: set[int] = set()
    for folder in below(path):
        # It may have gone away, or hold threads of a process that another group lists.
        found.update(map(int, procfs.start_of(f"{folder}/cgroup.procs", _MOST_BYTES).split()))
    found.discard(0)  # a process of another pid namespace
    return found


def below(path: str) -> list[str]:
    """The group and those below it, a limited number of them."""
    if _is_flat(path):
        return [path]
    return [folder for folder, _, _ in itertools.islice(os.walk(path), _MOST_GROUPS)]


def limit(path: str, name: str, most: int | str) -> bool:
    """Set a limit of the group, such as `pids.max`, where its parent shares that out."""
    return _write(path, name, str(most))


def counts(path: str, name: str) -> dict[str, int]:
    """The numbers in a file of lines `KEY NUMBER`, such as `memory.events`."""
    try:
        with open(os.path.join(path, name)) as file:
            pairs = [line.split() for line in file]
        return {key: int(number) for key, number in pairs if len(number) <= _MOST_DIGITS}
    except (OSError, ValueError):
        return {}


def kill(path: str) -> bool:
    """KILL all that is in the group, without a race against fork (Linux 5.14 or later)."""
    return _write(path, "cgroup.kill", "1")


def remove(path: str) -> bool:
    """Remove the empty group and those below it; False while a process is in one."""
    try:
        os.rmdir(path)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        if _is_flat(path):
            return False
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True


def _is_flat(path: str) -> bool:
    """Whether nothing is below a group: the kernel counts a folder's folders as links to it."""
    try:
        return os.stat(path).st_nlink == 2
    except OSError:
        return False


def own_group(controller: str = "", proc: str = "/proc") -> str | None:
    """The folder of the group that this process is in; None where it cannot be seen.

    It is the group of cgroup v2, or with a `controller` that of its hierarchy of version 1.
    """
    groups = procfs.groups_of_process(f"{proc}/self")
    own = next((path for _, names, path in groups if controller in names.split(",")), None)
    if own is None or ".." in own.split("/"):
        return None  # no such hierarchy, or our group lies outside what we can see
    for top, mounted, kind, options in procfs.mounts_of(f"{proc}/self"):
        root = top.rstrip("/")
        if controller:
            right = kind == "cgroup" and controller in options.split(",")
        else:
            right = kind == "cgroup2"
        if right and (own + "/").startswith(root + "/"):
            return os.path.join(mounted, own[len(root) :].strip("/")).rstrip("/")
    return None


def path_in_proc(group: str, proc: str = "/proc") -> str | None:
    """What `/proc/PID/cgroup` calls the folder `group`; None where no hierarchy is mounted."""
    found = [
        (mounted.rstrip("/"), top.rstrip("/"))
        for top, mounted, kind, _ in procfs.mounts_of(f"{proc}/self")
        if kind in ("cgroup", "cgroup2") and f"{group}/".startswith(mounted.rstrip("/") + "/")
    ]
    mounted, top = max(found, key=lambda each: len(each[0]), default=(None, ""))
    return None if mounted is None else top + group[len(mounted) :]


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
