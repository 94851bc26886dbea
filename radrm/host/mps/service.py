"""MPS on this server: its control daemons, the ends of their clients, and what the driver says."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from radrm.config import MpsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused
from radrm.host.gpus.nvml.library import query
from radrm.host.gpus.source import GpuSource, OwnerOf, SourceAround
from radrm.host.mps import end_clients as end_clients_program
from radrm.host.mps.control import Control
from radrm.host.mps.interface import Access, DaemonHooks, Mps, NoClientNow
from radrm.host.mps.keeper import Keeper
from radrm.host.mps.removal import Which, remove_work
from radrm.structs import replace

VOLTA = 7
"""The first generation (major number of the compute capability) whose MPS servers can take
several users. On older GPUs control daemons accept the option, but clients then fail."""


def generation_of(uuid: str) -> int | None:
    """Return the major number of a GPU's compute capability; None if it cannot be read."""
    try:
        found = query(lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu), uuid)
        return int(found[0])
    except Exception:  # any error means unknown
        return None


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


class _Served(Struct):
    """A keeper and its devices."""

    keeper: Keeper
    devices: tuple[Device, ...]


class MpsService(Struct, Mps):
    """MPS of real GPUs. `run` is the daemon's run folder."""

    config: MpsConfig
    run: str
    generation_of: Callable[[str], int | None] = generation_of
    root: bool = field(default_factory=lambda: os.geteuid() == 0)
    _served: dict[str, _Served] = field(default_factory=dict)
    """The keepers, by the name of the pipe directory."""
    _names_of: dict[str, str] = field(default_factory=dict)
    """That name, by the UUID of a device."""
    _daemon: DaemonHooks | None = None
    _base: tuple[Device, ...] = ()
    """The devices as their source lists them."""
    _reported: tuple[Device, ...] = ()
    """The devices as they were last reported to the daemon."""
    _logged: set[str] = field(default_factory=set)
    """Reasons that were logged for one GPU and are not repeated for others."""

    # -------------------------------------------------------------- devices

    @property
    def empty_pipes(self) -> str | None:
        return f"{self.run}/mps/none"

    def flag_devices(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return these devices, with those under MPS marked.

        A new device gets a keeper. A device that is gone keeps it, for its return.
        """
        self._find_keepers(devices)
        self._base = devices
        self._reported = self._flagged()
        return self._reported

    def report_changes(self) -> None:
        """Report the devices to the daemon if one of them has changed its MPS state."""
        now = self._flagged()
        if now != self._reported and self._daemon is not None:
            self._reported = now
            self._daemon.listed(now)

    def _flagged(self) -> tuple[Device, ...]:
        return tuple(self._flag(device) for device in self._base)

    def _flag(self, device: Device) -> Device:
        keeper = self.keeper_of(device.uuid)
        if keeper is None or not keeper.serving:
            return device
        if keeper.seen.serves and device.uuid not in keeper.seen.serves:
            return device  # an earlier daemon started it for other GPUs, and it still has clients
        several = keeper.seen.multiuser
        return replace(device, mps=True, mps_multiuser=several)

    def _find_keepers(self, devices: Iterable[Device]) -> None:
        for device in devices:
            if device.kind is DeviceKind.GPU and device.uuid not in self._names_of:
                self._keep(device)

    def _keep(self, device: Device) -> None:
        name, wanted = _folder_name(device.uuid, self._served), self._is_enabled(device)
        pipes = os.path.join(self.run, "mps", name)
        one_user = self._one_user(device.uuid) if self.config.multiuser else None
        several = self.config.multiuser and one_user is None
        control = Control(pipes, f"{pipes}.log", [device.uuid], multiuser=several)
        keeper = Keeper(f"GPU {device.index}", control, wanted, self._logged)
        if one_user is not None and wanted:
            keeper.users.mark_single_user(one_user)
        self._served[name] = _Served(keeper, (device,))
        self._names_of[device.uuid] = name
        if self._daemon is not None:
            self._begin(keeper, self._daemon)

    def _one_user(self, uuid: str) -> str | None:
        """Return why no server of this GPU can take several users; None if one might."""
        if not self.root:
            return "this daemon does not run as root"
        generation = self.generation_of(uuid)
        if generation is not None and generation < VOLTA:
            return (
                f"{uuid} is older than Volta: its compute capability is {generation}.x, "
                f"{VOLTA}.0 is needed"
            )
        return None

    def _is_enabled(self, device: Device) -> bool:
        return is_enabled(self.config, device)

    def keeper_of(self, uuid: str) -> Keeper | None:
        """Return the keeper of a device; None for a device without MPS, such as a MIG instance."""
        name = self._names_of.get(uuid)
        return self._served[name].keeper if name is not None else None

    def _all(self) -> list[_Served]:
        """Return a copy: the reading thread adds keepers while other threads look."""
        return list(self._served.values())

    def servers(self) -> set[int]:
        """Return the pids of all control daemons and servers."""
        seen = [served.keeper.seen for served in self._all()]
        return {s.pid for one in seen for s in one.servers} | {s.pid for s in seen if s.pid}

    # -------------------------------------------------------------- life

    def begin(self, daemon: DaemonHooks) -> None:
        """Start the keepers."""
        missing = next((m for s in self._wanted() if (m := s.keeper.control.missing())), None)
        if missing is not None:
            log.error("%s; until then jobs share GPUs by time-slicing", missing)
        for word in unknown_names(self.config, [d for s in self._all() for d in s.devices]):
            log.warning(
                "mps.enabled names GPU %s, which does not exist; radrm gpus lists all", word
            )
        self._daemon = daemon
        for served in self._all():
            self._begin(served.keeper, daemon)

    @staticmethod
    def _begin(keeper: Keeper, daemon: DaemonHooks) -> None:
        keeper.begin(daemon.owner_of, daemon.changed, daemon.grace_s)

    def _wanted(self) -> list[_Served]:
        return [served for served in self._all() if served.keeper.wanted]

    def close(self) -> None:
        """End the keepers. Control daemons run on for the jobs."""
        for served in self._all():
            served.keeper.close()
        for served in self._all():
            served.keeper.join()

    # -------------------------------------------------------------- jobs

    def access(self, uuids: Sequence[str]) -> Access:
        found = self._keepers(uuids)
        keeper = next(iter(found), None)
        if len(found) != 1 or keeper is None or not keeper.ready:
            why = keeper.hold if keeper is not None and len(found) == 1 else None
            raise NoClientNow(why or "its MPS control daemon is gone; the job waits")
        serves = keeper.control.serves()
        if not set(uuids) <= set(serves):
            raise DeviceError(
                f"the MPS control daemon of {keeper.name} does not serve all GPUs of the job"
            )
        return Access(
            pipes=keeper.control.pipes,
            logs=keeper.control.logs,
            ordinals={uuid: serves.index(uuid) for uuid in uuids if uuid in serves},
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
        return list({id(k): k for k in map(self.keeper_of, uuids) if k is not None}.values())

    # -------------------------------------------------------------- commands

    def rows(self) -> list[dict[str, Any]]:
        return [_row(served) for served in self._all()]

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
        keepers: dict[int, Keeper] = {}
        for uuid in uuids:
            keeper = self.keeper_of(uuid)
            if keeper is None:
                raise Refused(
                    "a MIG instance has no MPS, because it has one job at a time; name a GPU"
                )
            keepers[id(keeper)] = keeper
        return list(keepers.values())


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


def _row(served: _Served) -> dict[str, Any]:
    keeper, seen = served.keeper, served.keeper.seen
    return {
        "gpus": [d.index for d in served.devices],
        "uuids": [d.uuid for d in served.devices],
        "state": seen.phase.value,
        "wanted": keeper.wanted,
        "fault": seen.fault or keeper.users.single_user_reason,
        "multiuser": seen.multiuser,
        "pid": seen.pid,
        "pipes": keeper.control.pipes,
        "logs": keeper.control.logs,
        "servers": [
            {"pid": s.pid, "status": s.status, "clients": list(s.clients)} for s in seen.servers
        ],
    }


# ------------------------------------------------------------------
# A GPU source around another one, which marks the devices under MPS.


class MpsGpus(SourceAround):
    """The devices and readings of `source`, with what the keepers of control daemons see.

    `Device.mps` stays true while a device is under MPS. If its control daemon takes no client
    now, the reading has a fault, so that jobs wait for it. When `Device.mps` changes between two
    listings, the thread that reads reports the new devices to the daemon.
    """

    def __init__(self, source: GpuSource, service: MpsService) -> None:
        super().__init__(source)
        self._service = service

    def devices(self) -> tuple[Device, ...]:
        return self._service.flag_devices(self.source.devices())

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        self._service.report_changes()
        own = self._service.servers()
        readings = self.source.read(uuids, at, owner_of)
        return tuple(self._seen(reading, own) for reading in readings)

    def _seen(self, reading: Reading, own: set[int]) -> Reading:
        keeper = self._service.keeper_of(reading.device)
        hold = keeper.hold if keeper is not None else None
        if hold is not None and reading.error is None and reading.fault is None:
            reading = replace(reading, fault=hold)
        # MPS servers are no unmanaged processes. The memory that they use still counts as used.
        if own.isdisjoint(each.pid for each in reading.processes):
            return reading
        marked = (replace(s, mps=True) if s.pid in own else s for s in reading.processes)
        return replace(reading, processes=tuple(marked))


class EnabledOnly(SourceAround):
    """Removes MPS from the devices that `mps.enabled` does not name."""

    def __init__(self, source: GpuSource, config: MpsConfig) -> None:
        super().__init__(source)
        self._config = config

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            d if is_enabled(self._config, d) else replace(d, mps=False, mps_spans=False)
            for d in self.source.devices()
        )


# ------------------------------------------------------------------
# MPS of simulated GPUs: their driver models it without a control daemon.


_NOTHING = (
    "simulated GPUs model MPS without a control daemon, so it cannot be started or stopped; "
    "set mps.enabled and restart the daemon"
)


class SimulatedMps(Mps):
    """`run` is the daemon's run folder. A simulated job with a pipe directory is a client."""

    def __init__(self, run: str, config: MpsConfig) -> None:
        self.run = run
        self.config = config

    def begin(self, daemon: DaemonHooks) -> None:
        if self.config.multiuser:
            log.warning(
                "mps.multiuser has no effect: a simulated MPS server takes one user at a time"
            )

    def access(self, uuids: Sequence[str]) -> Access:
        ordinals = {uuid: place for place, uuid in enumerate(uuids)}
        return Access(f"{self.run}/mps", None, ordinals, thread_percentage(self.config))

    def turn_on(self, uuids: Sequence[str]) -> None:
        raise Refused(_NOTHING)

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        raise Refused(_NOTHING)
