"""Acts on processes that radrm did not start, as `[strangers]` says: tells of them, signals them.

A signal meant for one process must not hit another. So it goes through a pidfd, and only to
a process that, looked at through `/proc` after the pidfd was opened, started when the stranger
did, has an NVIDIA device open, is no job's and is not spared. The last but one also
keeps radrm in a container from taking the host's pids for its own. What a process says of
itself (its name, its arguments) is its own invention and spares nobody from a signal; the
file that it executes does, if root alone could have written it.
"""

from __future__ import annotations

import itertools
import logging
import os
import pwd
import signal
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from radrm.config import StrangersConfig
from radrm.core.events import Event, ReadingsTaken
from radrm.core.records import Stranger
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.errors import plain
from radrm.host.attempts.procfs import read_stat, start_of, uid_of
from radrm.host.gpus.source import OwnerOf
from radrm.host.gpus.unmanaged_rules import Key, Sightings, Step

log = logging.getLogger("radrm")

# fmt: off
ALWAYS_SPARED = frozenset({
    # display servers and what draws the desktop
    "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell", "weston",
    # MPS, whoever runs it
    "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    # NVIDIA's services and what watches GPUs
    "nvidia-persistenced", "nv-fabricmanager", "nvidia-powerd", "nvidia-smi", "nv-hostengine",
    "dcgmi", "dcgm-exporter", "nvtop",
})
# fmt: on
_SIGNALS = {Step.TERM: signal.SIGTERM, Step.KILL: signal.SIGKILL}
_MOST_FILES = 1 << 16
"""Open files of one process that are looked through for a GPU."""
_SHORT_NAME = 15
"""Characters that the kernel keeps of a process's short name."""
_GONE = " (deleted)"


class StrangerWatch:
    """Looks at the readings as they come. All its methods are the daemon's own thread's.

    `may_signal`: the daemon has the right to. `uses_gpu` says whether a process really has a
    GPU open.
    """

    def __init__(
        self,
        config: StrangersConfig,
        owner_of: OwnerOf,
        may_signal: bool,
        uses_gpu: Callable[[int], bool] | None = None,
    ) -> None:
        self._config = config
        self._owner_of = owner_of
        self._may_signal = may_signal
        self._uses_gpu = uses_gpu or has_gpu_open
        self._sightings = Sightings(config)
        self._looks: dict[Key, Stranger] = {}
        self._held_back: dict[Key, str] = {}
        """Why somebody whose time has come is left alone, so that it is said once."""
        if config.action == "signal" and not may_signal:
            log.warning(
                "strangers.action = 'signal' needs a daemon that runs as root; "
                "strangers are only told of"
            )

    @property
    def action(self) -> str:
        return self._config.action

    def look(self, event: Event, state: State) -> None:
        """Take note of readings, and do what is due. Other events are nothing to it."""
        if not isinstance(event, ReadingsTaken) or self._config.action not in ("warn", "signal"):
            return
        seen: dict[Key, set[str]] = {}
        unread = {reading.device for reading in event.readings if reading.error is not None}
        looks: dict[Key, Stranger] = {}
        for reading in event.readings:
            ledger = state.ledgers.get(reading.device)
            drained = ledger is not None and ledger.drained is not None
            if drained and self._config.action == "signal":
                continue  # whoever drained it may be using it: `radrm bench`, say
            for stranger in reading.strangers:
                found = read_stat(stranger.pid) if stranger.pid > 1 else None
                if found is not None and not found.dead:
                    key = stranger.pid, found.start_ticks
                    seen.setdefault(key, set()).add(reading.device)
                    looks[key] = stranger
        now_s = event.at.boot_s
        steps = self._sightings.look(now_s, seen, unread)
        self._looks = {key: looks.get(key) or self._looks[key] for key in self._sightings.there}
        self._held_back = {k: why for k, why in self._held_back.items() if k in self._looks}
        for key, step in steps:
            self._take(key, step, now_s, state)

    def told(self, pid: int, now_s: float) -> dict[str, Any]:
        """What a device's document adds on a stranger; nothing where nothing is done about him."""
        for key, seen in self._sightings.there.items():
            if key[0] == pid and seen.done is not None:
                stays_s = round(now_s - seen.since_s)
                return {
                    "step": seen.done.value,
                    "seen_s": stays_s,
                    "left": self._held_back.get(key),
                }
        return {}

    def notes(self, state: State) -> list[str]:
        """What people are told who ask for the state of the server: a line, or none."""
        there = [s for s in self._sightings.there.values() if s.done is not None]
        if not there:
            return []
        where = _where({uuid for seen in there for uuid in seen.devices}, state)
        one = len(there) == 1
        what = "process is" if one else "processes are"
        return [
            f"{len(there)} {what} on {where} that radrm did not start; "
            f"radrm gpus shows whose {'it is' if one else 'they are'}"
        ]

    # ------------------------------------------------------------- steps

    def _take(self, key: Key, step: Step, now_s: float, state: State) -> None:
        who, seen = self._looks[key], self._sightings.there[key]
        spared = _spared(key[0], self._config, trust_names=step is Step.WARN)
        if step is Step.WARN:
            if spared is None:
                log.warning("%s was not started by radrm", _said(who, seen.devices, state))
                self._sightings.took(key, step, now_s)
            return
        if not self._may_signal:
            return
        left = self._signal(key, _SIGNALS[step])
        if left is None:
            self._sightings.took(key, step, now_s)
            self._held_back.pop(key, None)
            stays = show_seconds(now_s - seen.since_s)
            said = _said(who, seen.devices, state)
            log.warning(
                "%s was not started by radrm and is there for %s: %s sent", said, stays, step.value
            )
        elif self._held_back.get(key) != left:
            self._held_back[key] = left
            log.warning("%s gets no %s: %s", _said(who, seen.devices, state), step.value, left)

    def _signal(self, key: Key, number: int) -> str | None:
        """Signal that very process; else why it is left alone."""
        pid, start_ticks = key
        try:
            fd = os.pidfd_open(pid)
        except OSError as error:
            return f"no pidfd of it: {error.strerror}"
        try:
            spared = self._why_spared(pid)
            if spared is not None:
                return spared
            # Last: had the pid changed hands since it was seen, the start would tell, and all
            # that was looked at before is then another's.
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
            return "it is a process of the system"
        if self._owner_of(pid) is not None:
            return "it is a job's"
        spared = _spared(pid, self._config, trust_names=False)
        if spared is not None:
            return spared
        if not self._uses_gpu(pid):
            return "no process of this number has a GPU open here"
        return None


# ------------------------------------------------------------------ whom


@dataclass(frozen=True, slots=True)
class _Program:
    """The file that a process executes. `trusted`: root alone could have put it there."""

    name: str
    trusted: bool


def _spared(pid: int, config: StrangersConfig, trust_names: bool) -> str | None:
    """Why a process is left alone; None where it is not. `trust_names`: where its executable
    cannot be told, its own name will do. Otherwise what cannot be told is left alone."""
    uid = uid_of(pid)
    if uid is None:
        return "whose it is cannot be told"
    if config.spare_users and _login(uid) in config.spare_users:
        return "strangers.spare_users names its user"
    names = ALWAYS_SPARED | set(config.spare)
    program = _program(pid)
    if program is not None:
        return f"{program.name} is spared" if program.trusted and program.name in names else None
    if not trust_names:
        return "what it executes cannot be told"
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


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _short_name(pid: int) -> str | None:
    name = start_of(f"/proc/{pid}/comm", 64)
    return plain(name.decode("utf-8", "replace").rstrip("\n")) if name else None


def has_gpu_open(pid: int, device: str = "/dev/nvidia") -> bool:
    """Whether a process has a device file open whose path begins so."""
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


# ------------------------------------------------------------------ words


def _said(who: Stranger, devices: Collection[str], state: State) -> str:
    """As `process 4711 of bob on GPU 3 (python train.py)`."""
    user = f" of {who.user}" if who.user is not None else ""
    command = f" ({who.command})" if who.command is not None else ""
    return plain(f"process {who.pid}{user} on {_where(devices, state)}{command}")


def _where(devices: Collection[str], state: State) -> str:
    return where(devices, {u: le.device.index for u, le in state.ledgers.items()})


def where(devices: Collection[str], index: Mapping[str, int]) -> str:
    """As `GPU 0, 3`."""
    known = sorted({index[uuid] for uuid in devices if uuid in index})
    return f"GPU {', '.join(map(str, known))}" if known else "a GPU"
