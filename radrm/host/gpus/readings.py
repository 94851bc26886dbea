"""Combine a base, which lists and reads devices, with the best working feed of SM activity.

Theory of operation. The feeds are in order of preference. The next feed is started for a
device only after the earlier ones have failed for it. Every reading names the feed that
measured it (`smact_source`). A device whose feed stops gets `smact_error`, and shares as one of
which nothing is read: an old or coarse figure does not compare with those before. A device that no
feed has ever measured keeps the utilization of the base, converted to SM activity
(`interference/chips.py`). A restart forgets which feed measured which device, and tries all
feeds again.
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from radrm.config import Config, GpusConfig, ReadingsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.core.units import gpus_named
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus.dcgm import SILENT_S, Dcgm, MigIds
from radrm.host.gpus.exporter import DcgmExporter
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvidia_smi import NvidiaSmi
from radrm.host.gpus.nvml import library as nvml_library
from radrm.host.gpus.source import GpuSource, OwnerOf, Sample, SmactFeed, SourceAround
from radrm.interference.chips import smact_from_utilization
from radrm.structs import replace

log = logging.getLogger("radrm")

PATIENCE_S = {"gpm": 3.0, "dcgm": 20.0, "dcgm-exporter": 15.0}
"""Real seconds within which a feed must give its first sample of a device, or an error. GPM needs
two readings for a sample, so it has three rounds of readings at least."""
_ROUNDS = 3
ZEROS = 5
"""Consecutive readings of zero activity, while kernels run, after which a feed is distrusted."""
BUSY = 0.5
"""Utilization from which kernels certainly run. One of some 200 SMs that is active half the
time gives an SM activity of 0.0025, which three digits show. So a zero means that the counters
have stopped, as DCGM's do after some faults (DCGM issue 303)."""


class Readings(SourceAround):
    """A `GpuSource` around another one and some feeds.

    `required`: SM activity comes from these feeds only, never from the base.
    """

    def __init__(
        self,
        base: GpuSource,
        feeds: Sequence[SmactFeed],
        *,
        required: bool,
        interval_s: float = 1.0,
    ) -> None:
        super().__init__(base)
        self._interval_s = interval_s
        self._feeds = tuple(feeds)
        self._required = required
        self._devices: dict[str, Device] = {}
        self._asked: list[dict[str, float]] = [{} for _ in self._feeds]
        """Per feed: the devices that it was started for, and since when (monotonic seconds)."""
        self._served: dict[str, str] = {}
        self._zeros: dict[tuple[str, str], int] = {}
        self._logged: dict[str, str] = {}
        self._unsaid: dict[tuple[str, str | None], list[str]] = {}
        """The devices whose state has changed in this round of readings, by state and reason."""

    # ------------------------------------------------------------- the source

    def devices(self) -> tuple[Device, ...]:
        devices = divided(self.source.devices())
        now = {device.uuid: device for device in devices}
        if now != self._devices:
            self._devices = now
            for known in (self._served, self._logged):
                for uuid in known.keys() - now.keys():
                    del known[uuid]
            self._zeros.clear()
            for number, asked in enumerate(self._asked):
                kept = now if number == 0 else asked.keys() & now.keys()
                if kept or asked:
                    self._ask(number, {uuid: asked.get(uuid, time.monotonic()) for uuid in kept})
        return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        readings = tuple(map(self._with_smact, self.source.read(uuids, at, owner_of)))
        self._log_changes()
        return separated(tuple(map(_converted, readings)), self._devices.values())

    def take_over(self, other: GpuSource) -> None:
        """Copy also which feed has measured which device."""
        super().take_over(other)
        if isinstance(other, Readings):
            self._served = dict(other._served)
            self._logged = dict(other._logged)

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
        super().close()

    # ------------------------------------------------------------- SM activity

    def _with_smact(self, reading: Reading) -> Reading:
        if reading.error is not None:
            return reading
        found = self._search(reading)
        if found.sample is not None:
            self._served[reading.device] = found.feed
            self._log_state(reading.device, found.feed)
            power_w = reading.power_w if reading.power_w is not None else found.sample.power_w
            return replace(
                reading,
                smact=found.sample.smact,
                smact_source=found.feed,
                smact_coarse=False,
                counters=found.sample.counters,
                power_w=power_w,
            )
        if reading.device in self._served or self._required:
            cause = found.why or "its SM activity is not measured yet"
            if found.over or (reading.device in self._served and found.why is not None):
                self._log_state(reading.device, "none", cause)
            return replace(
                reading, smact=None, smact_source=None, smact_coarse=False, smact_error=cause
            )
        if found.over or not self._feeds:
            state = "nothing" if reading.smact is None else "coarse"
            self._log_state(reading.device, state, found.why)
        return reading

    def _search(self, reading: Reading) -> _Found:
        """Find the first feed that measures a device; start the next feed when one does not."""
        uuid = reading.device
        why: dict[str, str] = {}
        for number, feed in enumerate(self._feeds):
            asked = self._asked[number]
            if uuid not in asked:
                device = self._devices.get(uuid)
                if device is None:
                    return _Found()
                self._ask(number, {**asked, uuid: time.monotonic()})
            sample = feed.latest(uuid)
            cause = feed.error(uuid)
            if cause is not None:
                sample = None
            elif sample is not None and sample.age_s > SILENT_S:
                cause = f"{feed.name} has given nothing for {sample.age_s:.0f} s"
            elif sample is not None:
                cause = self._why_doubted(feed.name, sample, reading)
                if cause is None:
                    return _Found(feed=feed.name, sample=sample)
            elif cause is None:
                asked_s = time.monotonic() - self._asked[number][uuid]
                patience_s = PATIENCE_S.get(feed.name, 0.0)
                if patience_s > 0 and asked_s < max(patience_s, _ROUNDS * self._interval_s):
                    return _Found(why=_main_reason(why, self._served.get(uuid)))
                cause = f"{feed.name} does not measure it"
            why[feed.name] = cause
        return _Found(why=_main_reason(why, self._served.get(uuid)), over=True)

    def _ask(self, number: int, asked: dict[str, float]) -> None:
        self._asked[number] = asked
        self._feeds[number].start([d for uuid, d in self._devices.items() if uuid in asked])

    def _why_doubted(self, name: str, sample: Sample, reading: Reading) -> str | None:
        """Return why a sample contradicts the reading of the base; None if it does not."""
        key = (name, reading.device)
        kernels_run = reading.smact_coarse and reading.smact is not None and reading.smact >= BUSY
        self._zeros[key] = self._zeros.get(key, 0) + 1 if kernels_run and not sample.smact else 0
        if self._zeros[key] < ZEROS:
            return None
        hint = "; restart nv-hostengine" if name.startswith("dcgm") else ""
        return f"{name} reads no SM activity while kernels run{hint}"

    def _log_state(self, uuid: str, state: str, why: str | None = None) -> None:
        """Note where the SM activity of a device comes from, once per change."""
        device = self._devices.get(uuid)
        if device is not None and device.kind is DeviceKind.MIG and state in ("coarse", "none"):
            return  # a MIG instance has one job at a time, so its SM activity decides nothing
        if self._logged.get(uuid) == state:
            return
        self._logged[uuid] = state
        self._unsaid.setdefault((state, why), []).append(uuid)

    def _log_changes(self) -> None:
        """Log what was noted: one line for all devices that have changed alike."""
        for (state, why), uuids in self._unsaid.items():
            name, because = self._name(uuids), f": {why}" if why else ""
            if state == "coarse":
                log.warning(
                    "%s: SM activity is only estimated from utilization, so few jobs share it; "
                    "install DCGM for more (radrm help dgx, step 2)%s",
                    name,
                    because,
                )
            elif state == "nothing":
                log.warning(
                    "%s: SM activity is not read, so few jobs share it, by memory%s", name, because
                )
            elif state == "none":
                log.warning("%s: few jobs share it, by memory: %s", name, why)
            else:
                log.info("%s: SM activity comes from %s", name, state)
        self._unsaid.clear()

    def _name(self, uuids: Sequence[str]) -> str:
        """Return `GPU 0 (UUID)` for one device, and `GPU 0-2` for several."""
        devices = [self._devices[uuid] for uuid in uuids if uuid in self._devices]
        if len(devices) == 1:
            return f"GPU {devices[0].index} ({devices[0].uuid})"
        return gpus_named(d.index for d in devices) if devices else ", ".join(uuids)


class _Found(Struct, frozen=True):
    """The result of a search for the SM activity of a device. `over`: no feed is left to try."""

    feed: str = ""
    sample: Sample | None = None
    why: str | None = None
    over: bool = False


def _converted(reading: Reading) -> Reading:
    """Return a reading with SM activity in place of utilization."""
    if not reading.smact_coarse or reading.smact is None:
        return reading
    return replace(reading, smact=smact_from_utilization(reading.smact))


def _main_reason(why: dict[str, str], served: str | None) -> str | None:
    """Return the message of the feed that measured the device before; else all messages."""
    return why.get(served or "") or "; ".join(why.values()) or None


# ------------------------------------------------------------------ putting it together


def open_gpus(config: ReadingsConfig) -> Readings:
    """Open the GPUs of this machine as configured.

    Raises `DeviceError` with the reason if none can be read.
    """
    base = _base(config.source, config.interval_s)
    return Readings(
        base,
        _feeds(config, base),
        required=config.smact not in ("auto", "utilization"),
        interval_s=config.interval_s,
    )


def _base(source: str, interval_s: float) -> GpuSource:
    reasons: list[str] = []
    if source in ("auto", "nvml"):
        found = nvml.find()
        if found.gpus is not None:
            return found.gpus
        reasons.append(found.reason or "NVML finds no GPU")
    # Without a driver there is no nvidia-smi either, and saying that twice helps nobody. Nor does
    # nvidia-smi know a library that was named.
    other = source == "auto" and nvml_library.chosen() is None and shutil.which("nvidia-smi")
    if source == "nvidia-smi" or other:
        gpus = NvidiaSmi(interval_s=interval_s)
        try:
            gpus.devices()
        except DeviceError as error:
            reasons.append(str(error))
        else:
            if reasons:
                log.warning("NVML cannot be used (%s); nvidia-smi is used instead", reasons[0])
            return gpus
    raise DeviceError("; ".join(reasons))


def _feeds(config: ReadingsConfig, base: GpuSource) -> list[SmactFeed]:
    ids = mig_ids_of(base)
    makers: dict[str, Callable[[], SmactFeed | None]] = {
        "gpm": lambda: _gpm(base),
        "dcgm": lambda: Dcgm(ids, interval_s=config.interval_s),
        "dcgm-exporter": lambda: DcgmExporter(
            config.dcgm_exporter, ids, trusting=config.smact == "dcgm-exporter"
        ),
    }
    wanted = list(makers) if config.smact == "auto" else [config.smact]
    made = [makers[name]() for name in wanted if name in makers]
    return [feed for feed in made if feed is not None]


def _gpm(base: GpuSource) -> SmactFeed | None:
    """Return the GPM feed; None without NVML, which GPM needs."""
    return Gpm(base) if isinstance(base, nvml.NvmlGpus) else None


def mig_ids_of(base: GpuSource) -> MigIds:
    """Return a function from the UUID of a MIG instance to the ids that the driver gave it.

    Old drivers write the ids into the UUID. Newer ones report them through NVML only.
    """

    def ids(uuid: str) -> tuple[int, int] | None:
        old = re.fullmatch(r"MIG-GPU-[0-9A-Za-z-]+/([0-9]{1,9})/([0-9]{1,9})", uuid)
        if old:
            return int(old[1]), int(old[2])
        if not isinstance(base, nvml.NvmlGpus):
            return None
        try:
            return base.place(uuid).instance
        except Exception:  # errors of the driver, which the readings report
            return None

    return ids


# ------------------------------------------------------------------
# Compute instances that share the memory of one GPU instance (MIG).
#
# Theory of operation. `nvidia-smi mig -cgi 3g.20gb -C` makes a GPU instance with one compute
# instance, and these are one device. A GPU instance can have several (`-cci 1c.3g.20gb,...`): they
# have SMs of their own, and the driver reports the memory in use, and the SM activity, of the whole
# GPU instance for each of them. Booked as they are listed, the same memory would be reserved for
# several jobs, and what one uses would count as unmanaged on the others.
#
# So each gets an equal part of the memory. What the processes of the others hold, up to their
# parts, does not count as used here; what they hold beyond does, and so does what no process is
# known to hold. Nothing enforces the parts. The SM activity is unknown while another one is in use.


Groups = Mapping[str, tuple[Device, ...]]


def divided(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices, each compute instance with its part of a shared memory."""
    groups = _groups(devices)
    return tuple(_part(device, len(groups.get(device.uuid, (device,)))) for device in devices)


def separated(readings: Sequence[Reading], devices: Iterable[Device]) -> tuple[Reading, ...]:
    """Return readings of `divided` devices, in which each compute instance has its own use."""
    groups = _groups(devices)
    if not groups:
        return tuple(readings)
    held = {reading.device: _held_mib(reading) for reading in readings}
    return tuple(
        reading
        if reading.error is not None or reading.device not in groups
        else _separated(reading, groups[reading.device], held)
        for reading in readings
    )


def _groups(devices: Iterable[Device]) -> Groups:
    """Return all that share a memory, by the UUID of each of them."""
    found: dict[tuple[str, int], list[Device]] = {}
    for device in devices:
        if device.parent is not None and device.instance is not None:
            found.setdefault((device.parent, device.instance[0]), []).append(device)
    return {each.uuid: tuple(group) for group in found.values() if len(group) > 1 for each in group}


def _part(device: Device, count: int) -> Device:
    if count == 1:
        return device
    overhead_mib = -(-device.overhead_mib // count)
    return replace(device, total_mib=device.total_mib // count, overhead_mib=overhead_mib)


def _held_mib(reading: Reading) -> int:
    """Return the MiB that the known processes of a device hold there."""
    jobs = sum(each.used_mib or 0 for each in reading.attempts or ())
    return jobs + sum(each.used_mib or 0 for each in reading.unmanaged)


def _separated(reading: Reading, group: Sequence[Device], held: Mapping[str, int]) -> Reading:
    others = [each for each in group if each.uuid != reading.device]
    theirs = [min(held.get(each.uuid, 0), each.capacity_mib) for each in others]
    used_mib = reading.used_mib
    if used_mib is not None:
        used_mib = max(held[reading.device], used_mib - sum(theirs))
    note = f"{len(group)} compute instances share the memory of one GPU instance: equal parts count"
    reading = replace(reading, used_mib=used_mib, notes=(*reading.notes, note))
    return replace(reading, smact=None, smact_source=None) if any(theirs) else reading


# ------------------------------------------------------------------
# A GPU source around another one: only the GPUs that `gpus.only` names, until `gpus.until`.


def open_served(config: Config) -> GpuSource:
    """Open the real GPUs that radrm uses. Raises `DeviceError` if there are none."""
    return served(open_gpus(config.readings), config.gpus)


def served(source: GpuSource, config: GpusConfig) -> GpuSource:
    """Return a source of the devices that radrm uses. Raises `DeviceError` if there are none."""
    if not config.only and not config.until:
        return source
    until = datetime.fromisoformat(config.until).timestamp() if config.until else None
    around = ServedGpus(source, config.only, until)
    if not around.devices():
        source.close()
        names = ", ".join(config.only)
        raise DeviceError(f"gpus.only = [{names}] names no GPU of this server; see: nvidia-smi -L")
    return around


class ServedGpus(SourceAround):
    """The devices of `source` that `only` names (empty: all), available until an epoch second."""

    def __init__(self, source: GpuSource, only: Sequence[str], until: float | None) -> None:
        super().__init__(source)
        self._only = tuple(only)
        self._until = until

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            replace(each, available_until=self._until)
            for each in self.source.devices()
            if not self._only or any(_names(word, each) for word in self._only)
        )


def _names(word: str, device: Device) -> bool:
    """Return whether a setting's word, an index or a UUID's beginning, names a device."""
    if word.isdecimal():
        return str(device.index) == word
    return device.uuid.startswith(word) or (device.parent or "").startswith(word)
