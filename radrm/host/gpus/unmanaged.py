"""Unmanaged processes on GPUs: when they are logged and signalled."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import stat
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from radrm.core.events import Event, ReadingsTaken
from radrm.core.records import DeviceProcess
from radrm.core.units import gpus_named, show_seconds
from radrm.errors import plain
from radrm.host.gpus.processes import login
from radrm.host.gpus.source import OwnerOf
from radrm.host.processes.procfs import read_stat, start_of, uid_of
from radrm.structs import replace

if TYPE_CHECKING:
    from radrm.config import UnmanagedConfig
    from radrm.core.snapshot import Snapshot

# ------------------------------------------------------------------
# Decide when an unmanaged process on a GPU is logged and signalled.
#
# Theory of operation. This file is pure: sightings and their time in, due steps out. A process
# gets the steps WARN, TERM, KILL in this order, one per reading, and each at most once while it
# stays. A process that is not seen for `LONGEST_GAP_S` starts again, without a second WARN. A
# device that cannot be read hides its processes for that long, but removes none. Nothing is
# stored, so a restart forgets all sightings. `unmanaged_watch` checks who may be signalled.


WARN_AFTER_S = 5.0
"""Seconds for which a process must be seen before it is logged: the process of a job may be on
its GPU shortly before radrm can find its job."""
LONGEST_GAP_S = 30.0
"""Seconds without a reading after which a process may have left meanwhile."""
_MOST_WARNED = 4096

Key = tuple[int, int]
"""A process of this boot: its pid and its start time in clock ticks."""


class Step(str, Enum):
    """What radrm does about an unmanaged process, in this order."""

    WARN = "warned"
    TERM = "TERM"
    KILL = "KILL"


class Sighting(Struct, frozen=True):
    """An unmanaged process that was seen without a gap from `since_s` to `last_s`.

    `done` is the last step that was taken, at `done_s`. Times are in seconds since boot.
    """

    since_s: float
    last_s: float
    devices: frozenset[str]
    done: Step | None = None
    done_s: float = 0.0


def due(config: UnmanagedConfig, seen: Sighting, now_s: float) -> Step | None:
    """Return the next step if it is due. No step is skipped."""
    stayed_s = now_s - seen.since_s
    if config.action not in ("warn", "signal"):
        return None
    if seen.done is None:
        return Step.WARN if stayed_s >= min(WARN_AFTER_S, config.grace_s) else None
    if config.action != "signal":
        return None
    if seen.done is Step.WARN:
        return Step.TERM if stayed_s >= config.grace_s else None
    if seen.done is Step.TERM:
        return Step.KILL if now_s - seen.done_s >= config.kill_grace_s else None
    return None


class Sightings(Struct):
    """The unmanaged processes that are present now, and since when."""

    config: UnmanagedConfig
    present: dict[Key, Sighting] = field(default_factory=dict)
    _warned: set[Key] = field(default_factory=set)
    """Processes that were logged, so that each is logged once."""

    def look(
        self, now_s: float, seen: Mapping[Key, Collection[str]], unread: Collection[str] = ()
    ) -> list[tuple[Key, Step]]:
        """Take the sightings of `now_s` and return the steps that are due.

        `seen` has the devices of each process, `unread` the devices that could not be read. A
        process that is not seen has left, unless all its devices are unread.
        """
        present: dict[Key, Sighting] = {}
        for key, devices in seen.items():
            before = self.present.get(key)
            if before is None or now_s - before.last_s > LONGEST_GAP_S:
                done = Step.WARN if key in self._warned else None
                before = Sighting(now_s, now_s, frozenset(), done, now_s)
            present[key] = replace(before, last_s=now_s, devices=frozenset(devices))
        for key, before in self.present.items():
            hidden = before.devices <= set(unread) and now_s - before.last_s <= LONGEST_GAP_S
            if key not in present and hidden:
                present[key] = before
        self.present = present
        found = ((key, due(self.config, present[key], now_s)) for key in seen)
        return [(key, step) for key, step in found if step is not None]

    def record(self, key: Key, step: Step, now_s: float) -> None:
        """Record that this step was taken at `now_s`."""
        self.present[key] = replace(self.present[key], done=step, done_s=now_s)
        if len(self._warned) >= _MOST_WARNED:
            self._warned.clear()
        self._warned.add(key)


# ------------------------------------------------------------------
# Log and signal unmanaged processes, as the settings in `[unmanaged]` demand.
#
# Theory of operation. A signal meant for one process must not hit another, although a pid may be
# reused at any moment. So radrm first opens a pidfd. Then it checks in `/proc` that the process
# belongs to no job, is not spared, and has an NVIDIA device open. The start time is checked last:
# if it is that of the process seen, all checks were of that process. If radrm runs in a container,
# NVML may report pids of the host. In the container these pids mean other processes, which the
# device check protects. A process chooses its own name and arguments, so these never spare it
# from a signal. The file that it executes does, if only root could have written it. A restart
# forgets all sightings, so every process gets its full time again.


log = logging.getLogger("radrm")

# fmt: off
ALWAYS_SPARED = frozenset({
    # display servers and desktops
    "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell", "weston",
    # MPS of any user
    "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    # NVIDIA's services and programs that monitor GPUs
    "nvidia-persistenced", "nv-fabricmanager", "nvidia-powerd", "nvidia-smi", "nv-hostengine",
    "dcgmi", "dcgm-exporter", "nvtop",
})
# fmt: on
_SIGNALS = {Step.TERM: signal.SIGTERM, Step.KILL: signal.SIGKILL}
_MOST_FILES = 1 << 16
"""Number of open files of one process that are checked for a GPU."""
_SHORT_NAME = 15
"""Characters that the kernel keeps of the short name of a process."""
_GONE = " (deleted)"


class UnmanagedWatch:
    """Looks at each reading. Only the daemon's own thread calls its methods.

    `may_signal`: the daemon may signal other users' processes. `uses_gpu` returns whether a
    process has a GPU open.
    """

    def __init__(
        self,
        config: UnmanagedConfig,
        owner_of: OwnerOf,
        may_signal: bool,
        uses_gpu: Callable[[int], bool] | None = None,
    ) -> None:
        self._config = config
        self._owner_of = owner_of
        self._may_signal = may_signal
        self._uses_gpu = uses_gpu or has_gpu_open
        self._sightings = Sightings(config)
        self._looks: dict[Key, DeviceProcess] = {}
        self._held_back: dict[Key, str] = {}
        """Why a process gets no due signal, so that each reason is logged once."""
        if config.action == "signal" and not may_signal:
            log.warning(
                "unmanaged.action = 'signal' needs a daemon that runs as root; "
                "this one only logs unmanaged processes"
            )

    @property
    def action(self) -> str:
        return self._config.action

    def look(self, event: Event, snapshot: Snapshot) -> None:
        """Take the readings of an event and do what is due. Other events are ignored."""
        if not isinstance(event, ReadingsTaken) or self._config.action not in ("warn", "signal"):
            return
        seen: dict[Key, set[str]] = {}
        unread = {reading.device for reading in event.readings if reading.error is not None}
        looks: dict[Key, DeviceProcess] = {}
        for reading in event.readings:
            device = snapshot.device(reading.device)
            drained = device is not None and device.drained is not None
            if drained and self._config.action == "signal":
                continue  # the user who drained it may use it, as `radrm bench` does
            for unmanaged in reading.unmanaged:
                found = read_stat(unmanaged.pid) if unmanaged.pid > 1 else None
                if found is not None and not found.dead:
                    key = unmanaged.pid, found.start_ticks
                    seen.setdefault(key, set()).add(reading.device)
                    looks[key] = unmanaged
        now_s = event.at.boot_s
        steps = self._sightings.look(now_s, seen, unread)
        self._looks = {key: looks.get(key) or self._looks[key] for key in self._sightings.present}
        self._held_back = {k: why for k, why in self._held_back.items() if k in self._looks}
        for key, step in steps:
            self._take(key, step, now_s, snapshot)

    def action_taken(self, pid: int, now_s: float) -> dict[str, Any]:
        """Return what was done about a process, for the document of a device; empty if nothing."""
        for key, seen in self._sightings.present.items():
            if key[0] == pid and seen.done is not None:
                stays_s = round(now_s - seen.since_s)
                return {
                    "step": seen.done.value,
                    "seen_s": stays_s,
                    "left": self._held_back.get(key),
                }
        return {}

    def notes(self, snapshot: Snapshot) -> list[str]:
        """Return at most one line about unmanaged processes, for the state of the server."""
        present = [s for s in self._sightings.present.values() if s.done is not None]
        if not present:
            return []
        where = _where({uuid for seen in present for uuid in seen.devices}, snapshot)
        if len(present) == 1:
            return [
                f"1 unmanaged process on {where} (radrm did not start it); "
                "radrm gpus shows its user"
            ]
        return [
            f"{len(present)} unmanaged processes on {where} (radrm did not start them); "
            "radrm gpus shows their users"
        ]

    # ------------------------------------------------------------- steps

    def _take(self, key: Key, step: Step, now_s: float, snapshot: Snapshot) -> None:
        who, seen = self._looks[key], self._sightings.present[key]
        spared = _spared(key[0], self._config, trust_names=step is Step.WARN)
        if step is Step.WARN:
            if spared is None:
                log.warning("%s was not started by radrm", _describe(who, seen.devices, snapshot))
                self._sightings.record(key, step, now_s)
            return
        if not self._may_signal:
            return
        left = self._signal(key, _SIGNALS[step])
        if left is None:
            self._sightings.record(key, step, now_s)
            self._held_back.pop(key, None)
            stays = show_seconds(now_s - seen.since_s)
            described = _describe(who, seen.devices, snapshot)
            log.warning(
                "%s was not started by radrm and has been there for %s: %s sent",
                described,
                stays,
                step.value,
            )
        elif self._held_back.get(key) != left:
            self._held_back[key] = left
            log.warning(
                "%s gets no %s: %s", _describe(who, seen.devices, snapshot), step.value, left
            )

    def _signal(self, key: Key, number: int) -> str | None:
        """Signal this process; return None, or why it gets no signal."""
        pid, start_ticks = key
        try:
            fd = os.pidfd_open(pid)
        except OSError as error:
            return f"radrm cannot open a pidfd of it: {error.strerror}"
        try:
            spared = self._why_spared(pid)
            if spared is not None:
                return spared
            # Last: if the pid was reused since the reading, the start time differs, and the
            # checks above were of another process.
            stat_now = read_stat(pid)
            if stat_now is None or stat_now.start_ticks != start_ticks:
                return "it has ended"
            signal.pidfd_send_signal(fd, number)
        except OSError as error:
            return f"it cannot be signalled: {error.strerror}"
        finally:
            os.close(fd)
        return None

    def _why_spared(self, pid: int) -> str | None:
        if pid in (1, os.getpid()):
            return "it is init or this daemon, a process of the system"
        if self._owner_of(pid) is not None:
            return "it belongs to a job"
        spared = _spared(pid, self._config, trust_names=False)
        if spared is not None:
            return spared
        if not self._uses_gpu(pid):
            return f"no process {pid} has a GPU open here"
        return None


# ------------------------------------------------------------------ spared processes


class _Program(Struct, frozen=True):
    """The file that a process executes. `trusted`: only root could have written it."""

    name: str
    trusted: bool


# `psutil` is not used: it identifies a process by the date of its start, which moves when the
# clock is set, it reads command lines without a bound, and it does not report who may write a file.
def _spared(pid: int, config: UnmanagedConfig, trust_names: bool) -> str | None:
    """Return why a process is spared; None if it is not.

    A process whose executable is unknown is spared. With `trust_names` its own name decides
    instead, which is enough for a line in the log.
    """
    uid = uid_of(pid)
    if uid is None:
        return "its user is unknown"
    if config.spare_users and login(uid) in config.spare_users:
        return "unmanaged.spare_users names its user"
    names = ALWAYS_SPARED | set(config.spare)
    program = _program(pid)
    if program is not None:
        return f"{program.name} is spared" if program.trusted and program.name in names else None
    if not trust_names:
        return "the program that it executes is unknown"
    short = _short_name(pid)
    named = short is not None and any(short == name[:_SHORT_NAME] for name in names)
    return f"{short} is spared" if named else None


def _program(pid: int) -> _Program | None:
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        found = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return _Program(name.removesuffix(_GONE), found.st_uid == 0 and not others_write)


def _short_name(pid: int) -> str | None:
    name = start_of(f"/proc/{pid}/comm", 64)
    return plain(name.decode("utf-8", "replace").rstrip("\n")) if name else None


def has_gpu_open(pid: int, device: str = "/dev/nvidia") -> bool:
    """Return whether a process has a file open whose path begins with `device`."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as files:
            looked_at = itertools.islice(files, _MOST_FILES)
            return any(_target(file.path).startswith(device) for file in looked_at)
    except OSError:
        return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # closed meanwhile


# ------------------------------------------------------------------ messages


def _describe(who: DeviceProcess, devices: Collection[str], snapshot: Snapshot) -> str:
    """Return `process 4711 of bob on GPU 3 (python train.py)`."""
    user = f" of {who.user}" if who.user is not None else ""
    command = f" ({who.command})" if who.command is not None else ""
    return plain(f"process {who.pid}{user} on {_where(devices, snapshot)}{command}")


def _where(devices: Collection[str], snapshot: Snapshot) -> str:
    return where(devices, {each.device.uuid: each.device.index for each in snapshot.devices})


def where(devices: Collection[str], index: Mapping[str, int]) -> str:
    """Return `GPU 0, 3`."""
    known = [index[uuid] for uuid in devices if uuid in index]
    return gpus_named(known) if known else "a GPU"
