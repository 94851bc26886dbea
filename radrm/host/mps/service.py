"""MPS on this server: its control daemons, the ends of their clients, and what the driver says."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from radrm.config import MpsConfig
from radrm.core.records import Device, Reading
from radrm.core.words import DeviceKind
from radrm.errors import Refused
from radrm.host.gpus.source import OwnerOf, Stage
from radrm.host.mps import end_clients as end_clients_program
from radrm.host.mps.control import Control
from radrm.host.mps.interface import Access, DaemonHooks, Mps, NoClientNow
from radrm.host.mps.keeper import Keeper
from radrm.host.mps.removal import Which, remove_work
from radrm.structs import replace

# ------------------------------------------------------------------
# End the MPS clients of an attempt without harm to other clients, for the daemon.
#
# `removal` says why their work goes first. A server takes no new client meanwhile, so its GPUs take
# no job (`Keeper.ending`). A control daemon may hang for ever in `terminate_client` (reported for
# driver 580 with many clients): after a limit the caller sends its signal anyway.


log = logging.getLogger("radrm")

LIMIT_S = 5.0
"""Real seconds for all clients of an attempt together."""


def end_clients(
    keepers: Iterable[Keeper],
    owner: tuple[int, int],
    owner_of: OwnerOf,
    which: Which,
    limit_s: float,
    then: Callable[[], None],
) -> None:
    """Remove the work of an attempt's processes from their servers, then call `then`.

    Both happen in a new thread, and an error does not prevent `then`. `owner` is the attempt:
    job id and serial. `limit_s` is in real seconds, for each control daemon.
    """

    def end() -> None:
        try:
            for keeper in keepers:
                with keeper.ending(owner[0]):
                    remove_work(keeper.control, owner, owner_of, which, limit_s)
        except Exception as error:
            log.warning("job %d under MPS: %s; radrm ends it anyway", owner[0], error)
        finally:
            then()

    threading.Thread(target=end, name="mps clients", daemon=True).start()


# ------------------------------------------------------------------
# All control daemons of this server, and the devices of each.
#
# Theory of operation. The daemon's own thread gets answers at once, from what the keepers have
# seen; only the threads of keepers and of `clients` send commands to control daemons. The thread
# that reads calls `flag_devices`, which may add keepers but removes none. A restart finds the
# running control daemons in their folders, under the daemon's run folder:
#
#     mps/NAME       pipes of one control daemon; NAME is the start of its GPU's UUID
#     mps/NAME.log   its logs, which are kept
#     mps/NAME.lock  held while a command is sent to it
#     mps/none       never exists; jobs without MPS get this path, so that they find no server


class MpsService(Mps, Stage):
    """MPS of real GPUs. `run` is the daemon's run folder.

    As a stage of the readings it marks the devices under MPS. `Device.mps` stays true while a
    device is under MPS; if its control daemon takes no client now, its readings have a fault, so
    that jobs wait for it.
    """

    def __init__(self, config: MpsConfig, run: str, root: bool | None = None) -> None:
        self.config = config
        self.run = run
        self._root = os.geteuid() == 0 if root is None else root
        self._kept: dict[str, tuple[Device, Keeper]] = {}
        """Each GPU and its keeper, by UUID. A GPU that is gone keeps it, for its return."""
        self._listed: dict[str, tuple[bool, bool]] = {}
        """What the last listing said of each GPU."""
        self._daemon: DaemonHooks | None = None

    @property
    def empty_pipes(self) -> str | None:
        return f"{self.run}/mps/none"

    # -------------------------------------------------------------- the stage

    @property
    def changed(self) -> bool:
        return any(_state(keeper) != self._listed.get(d.uuid) for d, keeper in self._all())

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return these devices, with those under MPS marked. A new GPU gets a keeper."""
        for device in devices:
            if device.kind is DeviceKind.GPU and device.uuid not in self._kept:
                self._keep(device)
        self._listed = {device.uuid: _state(keeper) for device, keeper in self._all()}
        marks = [(each, self._listed.get(each.uuid, (False, False))) for each in devices]
        return tuple(replace(each, mps=m, mps_multiuser=several) for each, (m, several) in marks)

    def read(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        own = self.servers()
        return tuple(self._seen(reading, own) for reading in readings)

    def _seen(self, reading: Reading, own: set[int]) -> Reading:
        keeper = self.keeper_of(reading.device)
        if keeper is not None and reading.error is None and reading.fault is None:
            switched = keeper.serving != self._listed.get(reading.device, (False,))[0]
            hold = "MPS is being switched on or off here" if switched else keeper.hold
            reading = reading if hold is None else replace(reading, fault=hold, held=True)
        # MPS servers are no unmanaged processes. The memory that they use still counts as used.
        if own.isdisjoint(each.pid for each in reading.processes):
            return reading
        marked = (replace(s, mps=True) if s.pid in own else s for s in reading.processes)
        return replace(reading, processes=tuple(marked))

    def _keep(self, device: Device) -> None:
        taken = [os.path.basename(keeper.control.pipes) for _, keeper in self._all()]
        pipes = os.path.join(self.run, "mps", _folder_name(device.uuid, taken))
        wanted, several = is_enabled(self.config, device), self.config.multiuser
        control = Control(pipes, f"{pipes}.log", device.uuid, multiuser=several and self._root)
        keeper = Keeper(f"GPU {device.index}", control, wanted)
        if several and wanted and not self._root:
            keeper.mark_single_user("this daemon does not run as root")
        self._kept[device.uuid] = device, keeper
        if self._daemon is not None:
            self._begin(keeper, self._daemon)

    def keeper_of(self, uuid: str) -> Keeper | None:
        """Return the keeper of a device; None for a device without MPS, such as a MIG instance."""
        return self._kept[uuid][1] if uuid in self._kept else None

    def _all(self) -> list[tuple[Device, Keeper]]:
        """Return a copy: the reading thread adds keepers while other threads look."""
        return list(self._kept.values())

    def servers(self) -> set[int]:
        """Return the pids of all control daemons and servers."""
        seen = [keeper.seen for _, keeper in self._all()]
        return {s.pid for one in seen for s in one.servers} | {s.pid for s in seen if s.pid}

    # -------------------------------------------------------------- life

    def begin(self, daemon: DaemonHooks) -> None:
        """Start the keepers."""
        wanted = [keeper for _, keeper in self._all() if keeper.wanted]
        missing = next((m for keeper in wanted if (m := keeper.control.missing())), None)
        if missing is not None:
            log.error("%s; until then jobs share GPUs by time-slicing", missing)
        for word in unknown_names(self.config, [device for device, _ in self._all()]):
            log.warning(
                "mps.enabled names GPU %s, which does not exist; radrm gpus lists all", word
            )
        self._daemon = daemon
        for _, keeper in self._all():
            self._begin(keeper, daemon)

    @staticmethod
    def _begin(keeper: Keeper, daemon: DaemonHooks) -> None:
        keeper.begin(daemon.owner_of, daemon.changed, daemon.grace_s)

    def leave(self) -> None:
        """End the keepers. Control daemons run on for the jobs."""
        for _, keeper in self._all():
            keeper.close()
        for _, keeper in self._all():
            keeper.join()

    # -------------------------------------------------------------- jobs

    def access(self, uuids: Sequence[str]) -> Access:
        keepers = self._keepers(uuids)
        keeper = keepers[0] if len(keepers) == 1 else None
        if keeper is None or not keeper.ready:
            why = keeper.hold if keeper is not None else None
            raise NoClientNow(why or "its MPS control daemon is gone; the job waits")
        return Access(
            pipes=keeper.control.pipes,
            logs=keeper.control.logs,
            thread_percentage=thread_percentage(self.config),
            ends_clients=_ends_clients(keeper.control),
        )

    def wait_for_server(self, uuids: Sequence[str], uid: int, then: Callable[[], None]) -> bool:
        keepers = self._keepers(uuids)
        return len(keepers) == 1 and keepers[0].wait_for_server(uid, then)

    def suspect(self, uuids: Iterable[str]) -> None:
        for keeper in self._keepers(uuids):
            keeper.suspect()

    def suspected(self, uuids: Iterable[str]) -> bool:
        return any(keeper.suspected for keeper in self._keepers(uuids))

    def faulted(self, uuids: Iterable[str], seconds: float) -> bool:
        return any(keeper.faulted_within(seconds) for keeper in self._keepers(uuids))

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], which: Which, then: Callable[[], None]
    ) -> None:
        daemon = self._daemon
        assert daemon is not None  # nothing is ended before the daemon serves
        # Half of a short grace time is kept for those that handle TERM.
        limit_s = LIMIT_S if which is Which.ALL else min(LIMIT_S, daemon.grace_s / 2)
        keepers = self._keepers(uuids)
        end_clients(keepers, owner, daemon.owner_of, which, limit_s, then)

    def _keepers(self, uuids: Iterable[str]) -> list[Keeper]:
        return [keeper for keeper in map(self.keeper_of, uuids) if keeper is not None]

    # -------------------------------------------------------------- commands

    def rows(self) -> list[dict[str, Any]]:
        return [_row(device, keeper) for device, keeper in self._all()]

    def turn_on(self, uuids: Sequence[str]) -> None:
        for keeper in self._named(uuids):
            missing = keeper.control.missing()
            if missing is not None:
                raise Refused(missing)
            keeper.turn_on()

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        for keeper in self._named(uuids):
            keeper.turn_off(force)

    def _named(self, uuids: Sequence[str]) -> list[Keeper]:
        if not all(uuid in self._kept for uuid in uuids):
            raise Refused("a MIG instance has no MPS, because it has one job at a time; name a GPU")
        return self._keepers(uuids)


# ------------------------------------------------------------------ mps.enabled


def is_enabled(config: MpsConfig, device: Device) -> bool:
    """Return whether `mps.enabled` includes this device."""
    if not config.enabled or device.kind is not DeviceKind.GPU:
        return False
    return not config.only or any(_names(word, device) for word in config.only)


def unknown_names(config: MpsConfig, devices: Sequence[Device]) -> list[str]:
    """Return the words of `mps.enabled` that name no existing GPU."""
    return [word for word in config.only if not any(_names(word, d) for d in devices)]


def _names(word: str, device: Device) -> bool:
    return str(device.index) == word or (not word.isdecimal() and device.uuid.startswith(word))


# ------------------------------------------------------------------ helpers


def thread_percentage(config: MpsConfig) -> int | None:
    """Return the percentage of SMs that a client may use; None for all."""
    percentage = config.active_thread_percentage
    return percentage if percentage < 100 else None


def _ends_clients(control: Control) -> tuple[str, ...] | None:
    """Return the command of `end_clients.py`; a runner has no PATH."""
    program = shutil.which(control.program)
    if program is None:
        return None
    return sys.executable, "-I", "-S", end_clients_program.__file__, control.pipes, program


def _folder_name(uuid: str, taken: Iterable[str]) -> str:
    """Return a short name, because the address of a socket has at most 107 bytes."""
    whole = uuid.removeprefix("GPU-").replace("/", "_")
    return whole if whole[:8] in taken else whole[:8]


def _state(keeper: Keeper) -> tuple[bool, bool]:
    """Return whether its GPU is under MPS, and whether its server takes several users."""
    return keeper.serving, keeper.serving and keeper.seen.multiuser


def _row(device: Device, keeper: Keeper) -> dict[str, Any]:
    seen = keeper.seen
    return {
        "gpus": [device.index],
        "uuids": [device.uuid],
        "state": seen.phase.value,
        "wanted": keeper.wanted,
        "fault": seen.fault or keeper.single_user_reason,
        "multiuser": seen.multiuser,
        "pid": seen.pid,
        "pipes": keeper.control.pipes,
        "logs": keeper.control.logs,
        "servers": [
            {"pid": s.pid, "status": s.status, "clients": list(s.clients)} for s in seen.servers
        ],
    }


# ------------------------------------------------------------------
# MPS of simulated GPUs: their driver models it without a control daemon.


_NOTHING = (
    "simulated GPUs model MPS without a control daemon, so it cannot be started or stopped; "
    "set mps.enabled and restart the daemon"
)


class SimulatedMps(Mps, Stage):
    """`run` is the daemon's run folder. A simulated job with a pipe directory is a client."""

    def __init__(self, run: str, config: MpsConfig) -> None:
        self.run = run
        self.config = config

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        return tuple(replace(each, mps=is_enabled(self.config, each)) for each in devices)

    def begin(self, daemon: DaemonHooks) -> None:
        if self.config.multiuser:
            log.warning(
                "mps.multiuser has no effect: a simulated MPS server takes one user at a time"
            )

    def access(self, uuids: Sequence[str]) -> Access:
        return Access(f"{self.run}/mps", None, thread_percentage(self.config))

    def turn_on(self, uuids: Sequence[str]) -> None:
        raise Refused(_NOTHING)

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        raise Refused(_NOTHING)
