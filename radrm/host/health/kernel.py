"""What radrm needs from the kernel: control groups, open files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from radrm.host.health.finding import Finding, ok, warn
from radrm.host.processes import cgroups
from radrm.host.processes.procfs import groups_of_process, mounts_of, start_of

MPS_OPEN_FILES = 16384
"""The number that NVIDIA recommends with MPS (MPS guide, "File descriptor limit")."""
_FEW_FILES = 1024
_WITHOUT_GROUP = "jobs are still ended, process by process"


def tree_kill(group: str | None, make: Callable[[str], bool] = cgroups.make) -> Finding:
    """Whether a process like this one can make and kill control groups.

    `group` is the path of a control group to try, None without cgroup v2.
    """
    name = "cgroup"
    if group is None:
        return warn(
            name,
            f"there is no cgroup v2 for this user; {_WITHOUT_GROUP}",
            "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1) to end them at once",
        )
    parent = os.path.dirname(group)
    if not make(group):
        return warn(
            name,
            f"no group can be made in {parent}; {_WITHOUT_GROUP}",
            "let systemd delegate one: Delegate=yes in the daemon's unit",
        )
    try:
        if not os.access(f"{parent}/cgroup.procs", os.W_OK):
            return warn(
                name,
                f"no process can be moved out of {parent}; {_WITHOUT_GROUP}",
                "let systemd delegate it: Delegate=yes in the daemon's unit",
            )
        if not os.path.exists(f"{group}/cgroup.kill"):
            old = f"groups can be made, but not killed at once; {_WITHOUT_GROUP}"
            return warn(name, old, "use Linux 5.14 or newer")
    finally:
        cgroups.remove(group)
    return ok(name, f"groups can be made in {parent} and killed at once")


def served_group(pid: int, uid: int | None, proc: Path = Path("/proc")) -> Finding:
    """Whether a running daemon can make and kill control groups.

    It is process `pid` of user `uid`, None if unknown.
    """
    name = "cgroup"
    own = groups_of_process(f"{proc}/{pid}")
    path = next((cgroups.above(path) for number, _, path in own if number == "0"), None)
    if path is None:
        return tree_kill(None)
    group = _folder_of(path, mounts_of(f"{proc}/self"))
    try:
        owner = group.stat().st_uid if group is not None else None
    except OSError:
        group = None
    if group is None:
        return ok(name, f"the daemon is in {path}, which cannot be looked into from here")
    may = uid in (0, owner) or (uid == os.getuid() and os.access(group, os.W_OK))
    if not may:
        return warn(
            name,
            f"the daemon may make no group in {path}; {_WITHOUT_GROUP}",
            "let systemd delegate one: Delegate=yes in the daemon's unit",
        )
    if not (group / "cgroup.kill").exists() and (group / "cgroup.type").exists():
        old = f"groups can be made, but not killed at once; {_WITHOUT_GROUP}"
        return warn(name, old, "use Linux 5.14 or newer")
    return ok(name, f"the daemon makes groups in {path}")


def _folder_of(group: str, mounts: Sequence[tuple[str, str, str, str]]) -> Path | None:
    """The folder of a group of cgroup v2; None if this process cannot see it."""
    for top, mounted, kind, _ in mounts:
        root = top.rstrip("/") + "/"
        seen = (group + "/").startswith(root) and ".." not in group.split("/")
        if kind == "cgroup2" and seen:
            return Path(mounted) / group[len(root) :]
    return None


def limits(not_enforced: str | None) -> Finding:
    """Whether jobs are limited to the CPUs and host memory that they ask for.

    `not_enforced` is the daemon's reason if some are not.
    """
    name = "limits"
    if not_enforced is None:
        return ok(name, "--cpus and --memory limit jobs, and planners can set CPU shares")
    service = "as a service (systemd/README.md), with systemd 254 or newer"
    if not_enforced.startswith("CPUs"):
        not_enforced += "; no planner can set CPU shares"
    return warn(name, not_enforced, f"run the daemon {service}")


def isolation(why_not: str | None, configured: bool, root: bool) -> Finding:
    """Whether the kernel denies jobs the GPUs that they were not given.

    `why_not` is the reason if it does not. `configured` is `gpus.isolate`; `root`: the daemon has
    root's rights.
    """
    name = "isolation"
    if why_not is None:
        return ok(name, "a job can open only the GPUs that it was given")
    open_to_all = f"a job can open GPUs that it was not given: {why_not}"
    if not configured or not root:
        return ok(name, open_to_all)
    return warn(name, open_to_all, 'see docs/security.md, "GPUs"; jobs run all the same')


def file_limits(pid: int, proc: Path = Path("/proc")) -> tuple[int, int]:
    """The soft and the hard limit of a process's open files; -1 is unlimited.

    Raises OSError and ValueError if they are unknown.
    """
    for line in start_of(f"{proc}/{pid}/limits").decode("ascii", "replace").splitlines():
        if line.startswith("Max open files"):
            soft, hard = line.split()[3:5]
            return _limit(soft), _limit(hard)
    raise ValueError(f"/proc/{pid}/limits has no line 'Max open files'")


def _limit(word: str) -> int:
    return -1 if word == "unlimited" else int(word)


def open_files(soft: int, hard: int, mps: bool) -> Finding:
    """Whether the limits of open files suffice; negative is unlimited. `mps`: it is switched on."""
    name = "open files"
    unlimited = 1 << 62
    soft, hard = (unlimited if n < 0 else n for n in (soft, hard))
    shown = "unlimited" if soft == unlimited else str(soft)
    needed = MPS_OPEN_FILES if mps else _FEW_FILES
    if soft >= needed:
        note = f"{shown}; MPS would need {MPS_OPEN_FILES}" if soft < MPS_OPEN_FILES else shown
        return ok(name, note)
    why = f"{shown}, and {'MPS' if mps else 'a daemon with many jobs'} needs {needed}"
    if hard < needed:
        return warn(name, why, f"set LimitNOFILE={needed} in its unit, or as root: ulimit -n")
    return warn(name, why, f"before the daemon starts: ulimit -n {needed}")
