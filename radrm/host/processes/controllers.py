"""Find out where this daemon can limit CPUs and host memory, and prepare its control groups.

Theory of operation. In version 1 every controller has its own hierarchy, and groups can be made
below the daemon's group. In version 2 a group that shares out memory to groups below it may hold
no process itself (EBUSY). So the daemon moves into a group of its own, `cgroups.OWN`, and what it
starts is there, too: runners, MPS, the simulated driver. Jobs' groups lie beside it:

    radrmd.service           the delegated group: shares out `cpu` and `memory`
      radrm-daemon           the daemon, its runners
      radrm-SERIAL-RANDOM    one attempt

A group that somebody else uses is left as it is. The delegated group is ours if nothing but this
daemon is in it, or if the daemon was put into `OWN` below it. systemd 254 does so
(`DelegateSubgroup=`). An older systemd starts the daemon in the delegated group itself, and could
not do so again while a job's group below has a limit: a restart would fail. There, nothing is
limited.

Source: the kernel's admin-guide/cgroup-v2.rst ("No Internal Process Constraint") and systemd's
CGROUP_DELEGATION.md.
"""

from __future__ import annotations

import os

from msgspec import Struct

from radrm.host.processes import cgroups

_FILES = {"cpu": "cpu.cfs_quota_us", "memory": "memory.limit_in_bytes"}
"""The controllers, and the file of version 1 that has the limit."""
_NAMES = {"cpu": "CPUs", "memory": "host memory"}


class Controllers(Struct, frozen=True):
    """The folders in which groups with limits can be made.

    `reasons` says for each controller that is missing why its amounts are not enforced. `account`
    is a folder of version 1 for groups that count CPU time.
    """

    cpu: str | None = None
    memory: str | None = None
    reasons: tuple[tuple[str, str], ...] = ()
    account: str | None = None

    def groups(self, name: str) -> dict[str, str | None]:
        """The paths of an attempt's groups of that name, by controller."""
        places = {"cpu": self.cpu, "memory": self.memory, "account": self.account}
        return {key: place and os.path.join(place, name) for key, place in places.items()}

    def why_not(self, *controllers: str) -> str | None:
        """Why the amounts of these controllers are not enforced; None if they are."""
        found = [(key, why) for key, why in self.reasons if key in controllers]
        if not found:
            return None
        causes = list(dict.fromkeys(why for _, why in found))
        what = " and ".join(_NAMES[key] for key, _ in found)
        verb = "is" if what == _NAMES["memory"] else "are"
        return f"{what} {verb} booked, not enforced: {'; '.join(causes)}"

    @property
    def shares_refused(self) -> str | None:
        """Why no CPU share of a running job can be set; None: they can."""
        if self.cpu is not None:
            return None
        return f"CPU shares cannot be set: {dict(self.reasons).get('cpu', 'no control group')}"


def prepare(proc: str = "/proc") -> Controllers:
    """Find the folders, and move this process into a group of its own where that is needed.

    A daemon calls this once, before it starts anything.
    """
    places: dict[str, str] = {}
    reasons: list[tuple[str, str]] = []
    missing = []
    for controller, file in _FILES.items():
        own = cgroups.own_group(controller, proc)
        if own is None:
            missing.append(controller)
        elif (why := _why_no_group(own, file)) is not None:
            reasons.append((controller, why))
        else:
            places[controller] = own
    if missing:
        group, why = _delegated_group(missing, proc)
        # I/O is only counted: without it, that is unknown.
        shared = _share_out(group, [*missing, "io"]) if group is not None else frozenset()
        for controller in missing:
            if group is not None and controller in shared:
                places[controller] = group
            else:
                cause = why or f"{group} cannot share out the controller {controller}"
                reasons.append((controller, cause))
    account = cgroups.own_group("cpuacct", proc)
    if account is not None and _why_no_group(account, "cpuacct.usage") is not None:
        account = None
    return Controllers(places.get("cpu"), places.get("memory"), tuple(reasons), account)


def _why_no_group(own: str, file: str) -> str | None:
    """Why no group with a limit can be made below `own`, in version 1; None if it can."""
    trial = os.path.join(own, f"radrm-trial-{os.getpid()}")
    try:
        os.mkdir(trial)
    except OSError as error:
        return f"no control group can be made in {own}: {error.strerror}"
    try:
        if not os.access(os.path.join(trial, file), os.W_OK):
            return f"{trial}/{file} cannot be written"
    finally:
        cgroups.remove(trial)
    return None


def _delegated_group(controllers: list[str], proc: str) -> tuple[str | None, str | None]:
    """The group of version 2 below which this daemon is alone; else None, and why not."""
    own = cgroups.own_group("", proc)
    if own is None:
        return None, "there is no cgroup v2 for this user"
    group = cgroups.above(own)
    try:
        with open(os.path.join(group, "cgroup.controllers")) as file:
            offered = file.read().split()
    except OSError as error:
        return None, f"the control group {group} cannot be read: {error.strerror}"
    if not set(controllers) & set(offered):
        names = " and ".join(controllers)
        return None, f"the control group {group} has no controller {names}"
    if group != own:
        # Runners of a release that had no such group. All that is in here is ours.
        for pid in _directly_in(group):
            cgroups.join(own, pid)
        return group, None
    if own.endswith(".service"):
        return None, f"systemd 254 or newer is needed, with DelegateSubgroup={cgroups.OWN}"
    if _directly_in(own) != {os.getpid()}:
        return None, f"other processes are in the daemon's control group {own}"
    inner = os.path.join(own, cgroups.OWN)
    if not (os.path.isdir(inner) or cgroups.make(inner)) or not cgroups.join(inner, os.getpid()):
        return None, f"no control group can be made in {own}"
    return own, None


def _directly_in(group: str) -> set[int]:
    """The pids in the group, without those in groups below it."""
    try:
        with open(os.path.join(group, "cgroup.procs")) as file:
            return {int(line) for line in file}
    except (OSError, ValueError):
        return set()


def _share_out(group: str, controllers: list[str]) -> frozenset[str]:
    """Share out controllers to the groups below; return those that are shared out now."""
    for controller in controllers:
        cgroups.limit(group, "cgroup.subtree_control", f"+{controller}")
    try:
        with open(os.path.join(group, "cgroup.subtree_control")) as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()
