"""The simulated driver's state: contexts, memory, work, activity, energy.

Pure: nothing here uses a socket, a process or a file. Callers pass the time in: seconds on the
driver's scaled clock, which never goes back.

Theory of operation: work, activity and energy are integrals (`integral`). Their rates are constant
until a context starts, ends, or a device fails or is repaired. Each of these calls `_retune`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from msgspec import Struct, field

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.interference.chips import utilization_at
from radrm.interference.model import Demand, Load, activity, running_speeds, share_weight
from radrm.simulated.integral import Integral
from radrm.simulated.spec import SimulatedDevice, watts


class ModelError(Exception):
    """A request that the model cannot carry out; the text says why."""


class DeviceLost(ModelError):
    """One of the context's devices has failed."""


class NoRoom(Struct, frozen=True):
    """A refused allocation: on which device, and how much (MiB) of it was free."""

    position: int
    """The device's number among the context's own, from 0, as a program counts them."""
    requested_mib: int
    free_mib: int
    total_mib: int
    held_mib: int


class DeviceReading(Struct, frozen=True):
    """One device, averaged since the reader's previous reading.

    A reader's first reading has the present values.
    """

    uuid: str
    used_mib: int
    """All memory in use, with unmanaged use and without the driver's overhead."""
    processes: tuple[tuple[int, int], ...]
    """Each process that has a context here: pid, MiB."""
    smact: float | None
    power_w: float
    energy_j: float
    """Since the driver started."""
    error: str | None
    activities: tuple[tuple[int, float], ...] = ()
    """The SM activity of each of these processes: pid, 0..1."""
    utilization: float | None = None
    """The part of the time with any kernel, where that is all that is read."""


class Context(Struct):
    """One client's process, devices, memory and work. Speed and work are in solo seconds."""

    pid: int
    devices: tuple[str, ...]
    demand: Demand
    mps: bool
    cap_mib: int | None
    held_mib: int = 0
    """On each of its devices."""
    working: bool = False
    work: Integral = field(default_factory=Integral)
    """Its rate is the speed."""
    activity: dict[str, Integral] = field(default_factory=dict)
    """The SM activity that it causes on each device."""


class _Meter(Struct):
    """One device's SM activity and its power."""

    activity: Integral
    power: Integral


class _Mark(Struct):
    """The integrals of one device at one moment."""

    at_s: float
    activity_s: float
    energy_j: float
    of_context: dict[int, float]
    """By the context's key."""


class Reader(Struct):
    """The integrals of each device at one reader's previous reading of it."""

    marks: dict[str, _Mark] = field(default_factory=dict)


class Model:
    """Devices and the contexts on them. The caller chooses a context's key (its connection)."""

    def __init__(self, devices: Sequence[SimulatedDevice], now_s: float) -> None:
        self.devices = {simulated.device.uuid: simulated for simulated in devices}
        self.contexts: dict[int, Context] = {}
        self.failed: dict[str, str] = {}
        self._meters = {
            uuid: _Meter(Integral(since_s=now_s), Integral(since_s=now_s)) for uuid in self.devices
        }
        self._fractions = {uuid: simulated.fraction for uuid, simulated in self.devices.items()}
        self._retune(now_s)

    # ------------------------------------------------------------------ contexts

    def attach(
        self,
        key: int,
        pid: int,
        visible: str | None,
        gpus: int,
        smact: float,
        family: str | None = None,
        batch_size: int | None = None,
        mps: bool = False,
        cap_mib: int | None = None,
    ) -> tuple[str, ...]:
        """Give a client a context on the first `gpus` devices that it may see; return their UUIDs.

        `visible` is CUDA_VISIBLE_DEVICES, None if it is not set. Raises ModelError.
        """
        if key in self.contexts:
            raise ModelError("this client has a context already")
        seen = visible_devices([m.device for m in self.devices.values()], visible)
        if len(seen) < gpus:
            raise ModelError(f"{gpus} GPU(s) wanted, {len(seen)} visible to this process")
        chosen = seen[:gpus]
        demand = Demand(smact, share_weight(family, batch_size))
        context = Context(pid, chosen, demand, mps, cap_mib)
        context.activity = {uuid: Integral() for uuid in chosen}
        self._check_alive(context)
        self.contexts[key] = context
        return chosen

    def detach(self, key: int, now_s: float) -> None:
        """Remove a client and free its memory. An unknown key has no effect."""
        context = self.contexts.pop(key, None)
        if context is not None and context.working:
            self._retune(now_s)

    def alloc(self, key: int, mib: int) -> NoRoom | None:
        """Allocate `mib` on each of the client's devices, or on none.

        Returns None, or the refusal. Raises ModelError without a context, DeviceLost on a
        failed device.
        """
        context = self._context(key)
        self._check_alive(context)
        for position, uuid in enumerate(context.devices):
            free_mib = self.free_mib(uuid)
            if context.cap_mib is not None:
                free_mib = min(free_mib, max(0, context.cap_mib - context.held_mib))
            if mib > free_mib:
                total_mib = self.devices[uuid].device.capacity_mib
                return NoRoom(position, mib, free_mib, total_mib, context.held_mib)
        context.held_mib += mib
        return None

    def free(self, key: int, mib: int) -> None:
        """Free memory on each of the client's devices, at most what it holds."""
        context = self._context(key)
        context.held_mib -= min(mib, context.held_mib)

    def start(self, key: int, now_s: float) -> None:
        """Start the client's work. From now on it loads its devices."""
        context = self._context(key)
        self._check_alive(context)
        if not context.working:
            context.working = True
            self._retune(now_s)

    def work(self, key: int, now_s: float) -> tuple[float, float]:
        """The solo seconds that the client has computed, and its present speed.

        Raises ModelError.
        """
        context = self._context(key)
        self._check_alive(context)
        return context.work.at(now_s), context.work.rate

    # ------------------------------------------------------------------ devices

    def used_mib(self, uuid: str) -> int:
        held = sum(c.held_mib for c in self.contexts.values() if uuid in c.devices)
        return self.devices[uuid].unmanaged_mib + held

    def free_mib(self, uuid: str) -> int:
        return self.devices[uuid].device.capacity_mib - self.used_mib(uuid)

    def read(self, uuids: Iterable[str], reader: Reader, now_s: float) -> list[DeviceReading]:
        """Read devices for one reader. The reading of an unknown device holds an error."""
        return [self._read(uuid, reader, now_s) for uuid in uuids]

    def fail(self, uuid: str, message: str, now_s: float) -> None:
        """Let a device fail: its readings hold the message, and its jobs make no progress."""
        self._check_known(uuid)
        self.failed[uuid] = message
        self._retune(now_s)

    def heal(self, uuid: str, now_s: float) -> None:
        """Repair a failed device."""
        self._check_known(uuid)
        self.failed.pop(uuid, None)
        self._retune(now_s)

    # ------------------------------------------------------------------ inside

    def _read(self, uuid: str, reader: Reader, now_s: float) -> DeviceReading:
        if uuid not in self.devices:
            return DeviceReading(uuid, 0, (), 0.0, 0.0, 0.0, "there is no such device")
        meter = self._meters[uuid]
        smact, power_w = meter.activity.rate, meter.power.rate
        activity_s, energy_j = meter.activity.at(now_s), meter.power.at(now_s)
        here = {key: each for key, each in self.contexts.items() if uuid in each.devices}
        sums = {key: context.activity[uuid].at(now_s) for key, context in here.items()}
        own = {key: context.activity[uuid].rate for key, context in here.items()}
        mark = reader.marks.get(uuid)
        if mark is not None and now_s > mark.at_s:
            passed_s = now_s - mark.at_s
            smact = min(1.0, (activity_s - mark.activity_s) / passed_s)
            power_w = (energy_j - mark.energy_j) / passed_s
            own = {k: (sums[k] - mark.of_context.get(k, 0.0)) / passed_s for k in here}
        reader.marks[uuid] = _Mark(now_s, activity_s, energy_j, sums)
        held: dict[int, int] = {}
        shown: dict[int, float] = {}
        for key, context in here.items():
            held[context.pid] = held.get(context.pid, 0) + context.held_mib
            shown[context.pid] = min(1.0, shown.get(context.pid, 0.0) + own[key])
        read = self.devices[uuid].smact
        idle = prod(1 - utilization_at(min(1.0, each)) for each in own.values())
        return DeviceReading(
            uuid=uuid,
            used_mib=self.used_mib(uuid),
            processes=tuple(sorted(held.items())),
            smact=smact if read == "measured" else None,
            power_w=power_w,
            energy_j=energy_j,
            error=self.failed.get(uuid),
            activities=tuple(sorted(shown.items())) if read == "measured" else (),
            utilization=1 - idle if read == "utilization" else None,
        )

    def _retune(self, now_s: float) -> None:
        """Go on at the rates that are valid after a change."""
        running = {
            key: context
            for key, context in self.contexts.items()
            if context.working and not self.failed.keys() & set(context.devices)
        }
        found = running_speeds(
            {key: Load(c.demand, c.devices, c.mps) for key, c in running.items()},
            self._fractions,
        )
        for key, context in self.contexts.items():
            context.work.go_at(found.get(key, 0.0), now_s)
            for uuid, integral in context.activity.items():
                integral.go_at(self._activity([context], uuid), now_s)
        for uuid, meter in self._meters.items():
            simulated = self.devices[uuid]
            here = [context for context in running.values() if uuid in context.devices]
            meter.activity.go_at(self._activity(here, uuid), now_s)
            power_w = watts(meter.activity.rate, simulated.idle_w, simulated.peak_w)
            meter.power.go_at(power_w, now_s)

    def _activity(self, contexts: Sequence[Context], uuid: str) -> float:
        """Return the SM activity that contexts cause on a device now."""
        return activity(
            [c.demand for c in contexts],
            [c.work.rate for c in contexts],
            fraction=self._fractions[uuid],
        )

    def _context(self, key: int) -> Context:
        if key not in self.contexts:
            raise ModelError("attach first: this client has no context")
        return self.contexts[key]

    def _check_known(self, uuid: str) -> None:
        if uuid not in self.devices:
            raise ModelError(f"there is no device {uuid!r}")

    def _check_alive(self, context: Context) -> None:
        for uuid in context.devices:
            if uuid in self.failed:
                raise DeviceLost(self.failed[uuid])


def visible_devices(devices: Sequence[Device], visible: str | None) -> tuple[str, ...]:
    """The UUIDs that CUDA_VISIBLE_DEVICES leaves visible, in its order.

    The rules are CUDA's. An entry is an index, a UUID or the start of one. The first entry that
    names no device, or a device already named, ends the list. A process sees one MIG instance
    or whole GPUs.
    """
    if visible is None:
        wanted = [device.uuid for device in devices]
    else:
        wanted = [entry.strip() for entry in visible.split(",")]
    seen: list[Device] = []
    for entry in wanted:
        named = [d for d in devices if _names(entry, d)]
        if len(named) != 1 or named[0] in seen:
            break
        seen.append(named[0])
    if seen and seen[0].kind is DeviceKind.MIG:
        return (seen[0].uuid,)
    return tuple(device.uuid for device in seen if device.kind is DeviceKind.GPU)


def _names(entry: str, device: Device) -> bool:
    if entry == str(device.index):
        return True
    return entry.startswith(("GPU-", "MIG-")) and device.uuid.startswith(entry)
