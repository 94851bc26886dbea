"""All control daemons of this server, and which device is whose.

What the daemon's own thread asks is answered at once from what the keepers have seen; the
questions to CUDA are theirs. Where things lie, under the daemon's run folder:

    mps/NAME       pipes of one control daemon; NAME is the beginning of its GPU's UUID, or `all`
    mps/NAME.log   its logs, which are kept
    mps/none       never there: where jobs look for MPS that are not to find any
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from radrm.config import MpsConfig
from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused
from radrm.host.gpus.source import OwnerOf
from radrm.host.mps.clients import end_clients
from radrm.host.mps.compute_mode import ComputeModes
from radrm.host.mps.control import Control
from radrm.host.mps.driver import VOLTA, generation_of
from radrm.host.mps.keeper import Keeper

log = logging.getLogger("radrm")

ALL = "all"


@dataclass(frozen=True, slots=True)
class Access:
    """What a job needs to be a client: `ordinals` are its devices' numbers in the control
    daemon's own list. `logs` None: there is no control daemon."""

    pipes: str
    logs: str | None
    ordinals: Mapping[str, int]
    thread_percentage: int | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """The daemon, as MPS needs it. All may be called from any thread.

    `changed`: the devices should be read soon. `listed` takes the devices as they are now.
    `grace_s`, in real seconds, is what processes get between being asked and being ended.
    """

    owner_of: OwnerOf
    changed: Callable[[], None]
    listed: Callable[[tuple[Device, ...]], None]
    grace_s: float


class Mps(Protocol):
    """MPS as the daemon knows it, of real GPUs or of modelled ones."""

    @property
    def apart(self) -> str | None:
        """The pipe directory for jobs that are no clients, so that they find no server that
        somebody else runs; None where they need none."""
        ...

    @property
    def spans(self) -> bool:
        """One control daemon serves several devices."""
        ...

    def begin(self, around: Around) -> None: ...

    def access(self, uuids: Sequence[str]) -> Access:
        """For a client on these devices. Raises `DeviceError` where no server takes it now."""
        ...

    def prepare(self, uuids: Sequence[str], client: bool) -> None:
        """A job is about to start on these devices, as a client or not."""
        ...

    def suspect(self, uuids: Iterable[str]) -> None:
        """A client on these devices has failed."""
        ...

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], then: Callable[[], None]
    ) -> None:
        """Before an attempt is killed; `then` is called from another thread."""
        ...

    def rows(self) -> list[dict[str, Any]]:
        """What people are told, a row per control daemon."""
        ...

    def turn_on(self, uuids: Sequence[str]) -> None:
        """Raises `Refused`."""
        ...

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        """Raises `Refused`."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Served:
    """A keeper and the devices that it is for."""

    keeper: Keeper
    devices: tuple[Device, ...]


@dataclass(slots=True)
class MpsService:
    """MPS of real GPUs. `run` is the daemon's run folder; `modes` None: left as they are."""

    config: MpsConfig
    run: str
    modes: ComputeModes | None = None
    generation_of: Callable[[str], int | None] = generation_of
    root: bool = field(default_factory=lambda: os.geteuid() == 0)
    _served: dict[str, _Served] = field(default_factory=dict)
    """By the name of the pipe directory."""
    _of: dict[str, str] = field(default_factory=dict)
    """From a device to that name."""
    _around: Around | None = None
    _base: tuple[Device, ...] = ()
    """The devices as their source lists them."""
    _told: tuple[Device, ...] = ()
    """...and as the daemon knows them."""
    _said: set[str] = field(default_factory=set)
    """What need not be said of one GPU after the other."""

    # -------------------------------------------------------------- devices

    @property
    def apart(self) -> str | None:
        return f"{self.run}/mps/none"

    def know(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """These are there; as they are under MPS they are given back. A device that is new
        gets its keeper, one that is gone keeps it."""
        self._find_keepers(devices)
        self._base = devices
        self._told = self._flagged()
        return self._told

    def tell(self) -> None:
        """Tell the daemon of the devices that have come under MPS or gone, if any have."""
        now = self._flagged()
        if now != self._told and self._around is not None:
            self._told = now
            self._around.listed(now)

    def _flagged(self) -> tuple[Device, ...]:
        return tuple(self._flag(device) for device in self._base)

    def _flag(self, device: Device) -> Device:
        keeper = self.keeper_of(device.uuid)
        if keeper is None or not keeper.serving:
            return device
        if keeper.seen.serves and device.uuid not in keeper.seen.serves:
            return device  # that of an earlier daemon, and it has clients still
        several = keeper.seen.multiuser
        return replace(device, mps=True, mps_spans=self.spans, mps_multiuser=several)

    def _find_keepers(self, devices: Iterable[Device]) -> None:
        whole = [d for d in devices if d.kind is DeviceKind.GPU and d.uuid not in self._of]
        if not whole:
            return
        if self.config.scope == "server":
            if ALL not in self._served:
                meant = [d for d in whole if self._is_meant(d)] or whole
                self._keep(ALL, f"GPUs {_indices(meant)}", meant, bool(self._meant(whole)))
        else:
            for device in whole:
                name = _folder_name(device.uuid, self._served)
                self._keep(name, f"GPU {device.index}", [device], self._is_meant(device))

    def _keep(self, name: str, called: str, devices: Sequence[Device], wanted: bool) -> None:
        pipes = os.path.join(self.run, "mps", name)
        uuids = [d.uuid for d in devices]
        one_user = self._one_user(uuids) if self.config.multiuser else None
        several = self.config.multiuser and one_user is None
        control = Control(pipes, f"{pipes}.log", uuids, multiuser=several)
        keeper = Keeper(called, control, wanted, self._said)
        if one_user is not None and wanted:
            keeper.users.only_one(one_user)
        self._served[name] = _Served(keeper, tuple(devices))
        self._of.update(dict.fromkeys((d.uuid for d in devices), name))
        if self._around is not None:
            self._begin(keeper, self._around)

    def _one_user(self, uuids: Sequence[str]) -> str | None:
        """Why no server of these GPUs can take several users at a time; None where it might."""
        if not self.root:
            return "this daemon does not run as root"
        for uuid in uuids:
            generation = self.generation_of(uuid)
            if generation is not None and generation < VOLTA:
                return f"{uuid} is older than Volta"
        return None

    def _meant(self, devices: Iterable[Device]) -> list[Device]:
        return [device for device in devices if self._is_meant(device)]

    def _is_meant(self, device: Device) -> bool:
        return is_meant(self.config, device)

    def keeper_of(self, uuid: str) -> Keeper | None:
        """None for a device that MPS is not for, such as a MIG instance."""
        name = self._of.get(uuid)
        return self._served[name].keeper if name is not None else None

    @property
    def spans(self) -> bool:
        return self.config.scope == "server"

    def servers(self) -> set[int]:
        """The processes of MPS itself."""
        seen = [served.keeper.seen for served in list(self._served.values())]
        return {s.pid for one in seen for s in one.servers} | {s.pid for s in seen if s.pid}

    # -------------------------------------------------------------- life

    def begin(self, around: Around) -> None:
        """Have the keepers work. Compute modes that were never given back are, first."""
        if self.modes is not None:
            self.modes.give_back()
        missing = next((m for s in self._wanted() if (m := s.keeper.control.missing())), None)
        if missing is not None:
            log.error("%s; until then jobs share GPUs by time-slicing", missing)
        for word in unknown(self.config, [d for s in self._served.values() for d in s.devices]):
            log.warning("mps.enabled names GPU %s, and there is none; radrm gpus lists all", word)
        self._around = around
        for served in list(self._served.values()):
            self._begin(served.keeper, around)

    @staticmethod
    def _begin(keeper: Keeper, around: Around) -> None:
        keeper.begin(around.owner_of, around.changed, around.grace_s)

    def _wanted(self) -> list[_Served]:
        return [served for served in self._served.values() if served.keeper.wanted]

    def close(self) -> None:
        """Let go of all control daemons: jobs run on, and need them. Modes are given back."""
        for served in self._served.values():
            served.keeper.close()
        for served in self._served.values():
            served.keeper.join()
        if self.modes is not None:
            self.modes.give_back()

    # -------------------------------------------------------------- jobs

    def access(self, uuids: Sequence[str]) -> Access:
        found = {id(k): k for k in map(self.keeper_of, uuids) if k is not None}
        keeper = next(iter(found.values()), None)
        if len(found) != 1 or keeper is None or not keeper.ready:
            why = keeper.hold if keeper is not None and len(found) == 1 else None
            passing = BlockingIOError(errno.EAGAIN, "MPS does not take clients now")
            raise DeviceError(why or "its MPS control daemon is gone; it waits") from passing
        serves = keeper.control.serves()
        if not set(uuids) <= set(serves):
            raise DeviceError(f"the MPS control daemon of {keeper.name} does not serve them all")
        return Access(
            pipes=keeper.control.pipes,
            logs=keeper.control.logs,
            ordinals={uuid: serves.index(uuid) for uuid in uuids if uuid in serves},
            thread_percentage=thread_percentage(self.config),
        )

    def prepare(self, uuids: Sequence[str], client: bool) -> None:
        if self.modes is None:
            return
        if client and self.config.set_compute_mode:
            self.modes.exclusive(uuids)
        else:
            self.modes.give_back(uuids)

    def suspect(self, uuids: Iterable[str]) -> None:
        for keeper in {id(k): k for k in map(self.keeper_of, uuids) if k is not None}.values():
            keeper.suspect()

    def end_clients(
        self, uuids: Iterable[str], owner: tuple[int, int], then: Callable[[], None]
    ) -> None:
        keepers = {id(k): k for k in map(self.keeper_of, uuids) if k is not None}
        controls = [keeper.control for keeper in keepers.values()]
        assert self._around is not None  # nothing is killed before the daemon serves
        end_clients(controls, owner, self._around.owner_of, then)

    # -------------------------------------------------------------- people

    def rows(self) -> list[dict[str, Any]]:
        return [_row(served) for served in self._served.values()]

    def turn_on(self, uuids: Sequence[str]) -> None:
        for keeper in self._named(uuids):
            missing = keeper.control.missing()
            if missing is not None:
                raise Refused(missing)
            keeper.turn_on()

    def turn_off(self, uuids: Sequence[str], force: bool) -> None:
        for keeper in self._named(uuids):
            keeper.turn_off(force)
        if self.modes is not None:
            self.modes.give_back(uuids)

    def _named(self, uuids: Sequence[str]) -> list[Keeper]:
        keepers: dict[int, Keeper] = {}
        for uuid in uuids:
            keeper = self.keeper_of(uuid)
            if keeper is None:
                raise Refused("a MIG instance has one job at a time, and no MPS")
            keepers[id(keeper)] = keeper
        named = set(uuids)
        for served in self._served.values():
            rest = [d.index for d in served.devices if d.uuid not in named]
            if id(served.keeper) in keepers and rest:
                raise Refused(
                    "one MPS control daemon serves all GPUs here (mps.scope = 'server'); "
                    "name none of them, and all are meant"
                )
        return list(keepers.values())


# ------------------------------------------------------------------ which GPUs are meant


def is_meant(config: MpsConfig, device: Device) -> bool:
    """Whether `mps.enabled` is for this device."""
    if not config.enabled or device.kind is not DeviceKind.GPU:
        return False
    return not config.only or any(_names(word, device) for word in config.only)


def unknown(config: MpsConfig, devices: Sequence[Device]) -> list[str]:
    """The words of `mps.enabled` that name no GPU there is."""
    return [word for word in config.only if not any(_names(word, d) for d in devices)]


def _names(word: str, device: Device) -> bool:
    return str(device.index) == word or (not word.isdecimal() and device.uuid.startswith(word))


# ------------------------------------------------------------------ small things


def thread_percentage(config: MpsConfig) -> int | None:
    """None where a client may use all SMs."""
    percentage = config.active_thread_percentage
    return percentage if percentage < 100 else None


def _folder_name(uuid: str, taken: Iterable[str]) -> str:
    """Short, for the address of a socket holds 107 bytes."""
    whole = uuid.removeprefix("GPU-").replace("/", "_")
    return whole if whole[:8] in taken else whole[:8]


def _indices(devices: Iterable[Device]) -> str:
    return ", ".join(str(device.index) for device in devices)


def _row(served: _Served) -> dict[str, Any]:
    keeper, seen = served.keeper, served.keeper.seen
    return {
        "gpus": [d.index for d in served.devices],
        "uuids": [d.uuid for d in served.devices],
        "state": seen.phase.value,
        "wanted": keeper.wanted,
        "trouble": seen.trouble or keeper.users.only_one_why,
        "multiuser": seen.multiuser,
        "pid": seen.pid,
        "pipes": keeper.control.pipes,
        "logs": keeper.control.logs,
        "servers": [
            {"pid": s.pid, "status": s.status, "clients": list(s.clients)} for s in seen.servers
        ],
    }
