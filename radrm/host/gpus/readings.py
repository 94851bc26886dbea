"""The devices and readings of this server: a source, and the stages that its readings pass.

Theory of operation. `Readings` asks its source and hands the answer through its stages, in a fixed
row: SM activity, compute instances, the GPUs that radrm uses; then MPS (`host/mps/service.py`) and
memory caps (`memory_caps.py`), where a daemon has them. The source alone asks the driver.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from radrm.config import Config, GpusConfig, ReadingsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.core.units import gpus_named
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus.dcgm import Dcgm
from radrm.host.gpus.exporter import DcgmExporter
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvidia_smi import NvidiaSmi
from radrm.host.gpus.nvml import library as nvml_library
from radrm.host.gpus.source import SILENT_S, GpuSource, OwnerOf, Sample, SmactFeed, Stage
from radrm.interference.chips import smact_from_utilization
from radrm.structs import replace

log = logging.getLogger("radrm")


class Readings(GpuSource):
    """A source of readings, and the stages that they pass, in this order."""

    def __init__(self, source: GpuSource, *stages: Stage) -> None:
        self.name = source.name
        self.source = source
        self.stages = stages

    def then(self, *stages: Stage) -> Readings:
        """Return the readings that pass these stages, too."""
        return Readings(self.source, *self.stages, *stages)

    @property
    def changed(self) -> bool:
        return self.source.changed or any(stage.changed for stage in self.stages)

    def devices(self) -> tuple[Device, ...]:
        devices = self.source.devices()
        for stage in self.stages:
            devices = stage.listed(devices)
        return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        readings = self.source.read(uuids, at, owner_of)
        for stage in self.stages:
            readings = stage.read(readings)
        return readings

    def acknowledge(self, uuid: str) -> None:
        self.source.acknowledge(uuid)

    def close(self) -> None:
        for stage in self.stages:
            stage.close()
        self.source.close()


# ------------------------------------------------------------------
# SM activity, from the best feed that works.
#
# Theory of operation. The feeds are in order of preference. The next feed is started for a
# device only after the earlier ones have failed for it. Every reading names the feed that
# measured it (`smact_source`). A device whose feed stops gets `smact_error`, and shares as one of
# which nothing is read: an old or coarse figure does not compare with those before. A device that
# no feed has ever measured keeps the utilization of the source, converted to SM activity
# (`interference/chips.py`). A restart forgets which feed measured which device, and tries all
# feeds again.

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


class _Measured(Struct):
    """One device, and how its SM activity is measured."""

    device: Device
    asked_s: list[float] = field(default_factory=list)
    """When each feed was started for it (monotonic seconds), in their order."""
    served: str | None = None
    """The feed that measured it last."""
    zeros: dict[str, int] = field(default_factory=dict)
    """By feed: consecutive zeros while kernels ran."""
    logged: str | None = None

    def main_reason(self, why: Mapping[str, str]) -> str | None:
        """Return the message of the feed that measured it before; else all messages."""
        return why.get(self.served or "") or "; ".join(why.values()) or None


class SmActivity(Stage):
    """Adds the SM activity. `required`: it comes from these feeds only, never from the source."""

    def __init__(
        self, feeds: Sequence[SmactFeed], *, required: bool, interval_s: float = 1.0
    ) -> None:
        self.feeds = tuple(feeds)
        self.required = required
        self._interval_s = interval_s
        self._measured: dict[str, _Measured] = {}
        self._unsaid: dict[tuple[str, str | None], list[Device]] = {}
        """The devices whose state has changed in this round of readings, by state and reason."""

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        before = self._measured
        if devices != tuple(each.device for each in before.values()):
            self._measured = {
                device.uuid: replace(before.get(device.uuid) or _Measured(device), device=device)
                for device in devices
            }
            for one in self._measured.values():
                one.zeros.clear()
                one.asked_s = one.asked_s or [time.monotonic()]
            most = max((len(one.asked_s) for one in before.values()), default=1)
            for feed in range(min(most, len(self.feeds))):
                self._start(feed)
        return devices

    def read(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        found = tuple(map(self._with_smact, readings))
        self._log_changes()
        return found

    def close(self) -> None:
        for feed in self.feeds:
            feed.close()

    def _with_smact(self, reading: Reading) -> Reading:
        one = self._measured.get(reading.device)
        if reading.error is not None or one is None:
            return reading
        found = self._search(one, reading)
        if found.sample is not None:
            one.served = found.feed
            self._note(one, found.feed)
            smact = found.sample.smact
            return replace(reading, smact=smact, smact_source=found.feed, smact_coarse=False)
        if one.served is not None or self.required:
            cause = found.why or "its SM activity is not measured yet"
            if found.over or (one.served is not None and found.why is not None):
                self._note(one, "none", cause)
            return replace(
                reading, smact=None, smact_source=None, smact_coarse=False, smact_error=cause
            )
        if found.over:
            self._note(one, "nothing" if reading.smact is None else "coarse", found.why)
        if reading.smact is None or not reading.smact_coarse:
            return reading
        return replace(reading, smact=smact_from_utilization(reading.smact))

    def _search(self, one: _Measured, reading: Reading) -> _Found:
        """Find the first feed that measures a device; start the next feed when one does not."""
        uuid, why = reading.device, dict[str, str]()
        for number, feed in enumerate(self.feeds):
            if number == len(one.asked_s):
                one.asked_s.append(time.monotonic())
                self._start(number)
            sample, cause = feed.latest(uuid), feed.error(uuid)
            if cause is None and sample is not None:
                cause = self._why_doubted(one, feed.name, sample, reading)
                if cause is None:
                    return _Found(feed=feed.name, sample=sample)
            elif cause is None:
                waited_s = time.monotonic() - one.asked_s[number]
                patience_s = PATIENCE_S.get(feed.name, 0.0)
                if patience_s > 0 and waited_s < max(patience_s, _ROUNDS * self._interval_s):
                    return _Found(why=one.main_reason(why))
                cause = f"{feed.name} does not measure it"
            why[feed.name] = cause
        return _Found(why=one.main_reason(why), over=True)

    def _start(self, feed: int) -> None:
        measured = self._measured.values()
        self.feeds[feed].start([one.device for one in measured if len(one.asked_s) > feed])

    @staticmethod
    def _why_doubted(one: _Measured, name: str, sample: Sample, reading: Reading) -> str | None:
        """Return why a sample does not count: it is old, or contradicts the source."""
        if sample.age_s > SILENT_S:
            return f"{name} has given nothing for {sample.age_s:.0f} s"
        kernels_run = reading.smact_coarse and reading.smact is not None and reading.smact >= BUSY
        one.zeros[name] = one.zeros.get(name, 0) + 1 if kernels_run and not sample.smact else 0
        if one.zeros[name] < ZEROS:
            return None
        hint = "; restart nv-hostengine" if name.startswith("dcgm") else ""
        return f"{name} reads no SM activity while kernels run{hint}"

    def _note(self, one: _Measured, state: str, why: str | None = None) -> None:
        """Note where the SM activity of a device comes from, once per change."""
        if one.device.kind is DeviceKind.MIG and state in ("coarse", "none"):
            return  # a MIG instance has one job at a time, so its SM activity decides nothing
        if one.logged != state:
            one.logged = state
            self._unsaid.setdefault((state, why), []).append(one.device)

    def _log_changes(self) -> None:
        """Log what was noted: one line for all devices that have changed alike."""
        for (state, why), devices in self._unsaid.items():
            name, because = gpus_named(d.index for d in devices), f": {why}" if why else ""
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


class _Found(Struct, frozen=True):
    """The result of a search for the SM activity of a device. `over`: no feed is left to try."""

    feed: str = ""
    sample: Sample | None = None
    why: str | None = None
    over: bool = False


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


class ComputeInstances(Stage):
    """Gives each compute instance its part of a shared memory, and its own use of it."""

    def __init__(self) -> None:
        self._sharing: Mapping[str, tuple[Device, ...]] = {}
        """All that share a memory, by the UUID of each of them."""

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        counts = {uuid: len(group) for uuid, group in _groups(devices).items()}
        devices = tuple(_part(device, counts.get(device.uuid, 1)) for device in devices)
        self._sharing = _groups(devices)
        return devices

    def read(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if not self._sharing:
            return readings
        held = {reading.device: _held_mib(reading) for reading in readings}
        return tuple(
            reading
            if reading.error is not None or reading.device not in self._sharing
            else _separated(reading, self._sharing[reading.device], held)
            for reading in readings
        )


def _groups(devices: Iterable[Device]) -> dict[str, tuple[Device, ...]]:
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
# Only the GPUs that `gpus.only` names, until `gpus.until`.


class Used(Stage):
    """The devices that radrm uses, and until when."""

    def __init__(self, config: GpusConfig) -> None:
        self._only = config.only
        until = config.until
        self._until = datetime.fromisoformat(until).timestamp() if until else None
        self.last: tuple[Device, ...] = ()
        """All devices of the last listing, also those that radrm does not use."""

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        self.last = devices
        used = _named(self._only, devices)
        return tuple(replace(each, available_until=self._until) for each in used)


def _named(words: Sequence[str], devices: Sequence[Device]) -> Sequence[Device]:
    """Return the devices that `gpus.only` names; all, if it names none."""
    return [each for each in devices if not words or any(_names(word, each) for word in words)]


def _names(word: str, device: Device) -> bool:
    """Return whether a setting's word, an index or a UUID's beginning, names a device."""
    if word.isdecimal():
        return str(device.index) == word
    return device.uuid.startswith(word) or (device.parent or "").startswith(word)


def served(readings: Readings, config: GpusConfig) -> Readings:
    """Return the devices that radrm uses. Raises `DeviceError` if there are none."""
    served = readings.then(Used(config))
    if config.only:
        served.devices()
    try:
        check_names(served, config)
    except DeviceError:
        served.close()
        raise
    return served


def check_names(served: Readings, config: GpusConfig) -> None:
    """Raise `DeviceError` if `gpus.only` names none of the GPUs that were listed last."""
    used = next(stage for stage in served.stages if isinstance(stage, Used))
    if config.only and not _named(config.only, used.last):
        names = ", ".join(config.only)
        raise DeviceError(f"gpus.only = [{names}] names no GPU of this server; see: nvidia-smi -L")


# ------------------------------------------------------------------ putting it together


def open_served(config: Config) -> Readings:
    """Open the real GPUs that radrm uses. Raises `DeviceError` if there are none."""
    return served(open_gpus(config.readings), config.gpus)


def open_gpus(config: ReadingsConfig) -> Readings:
    """Open the GPUs of this machine as configured.

    Raises `DeviceError` with the reason if none can be read.
    """
    source = _source(config.source, config.interval_s)
    activity = SmActivity(
        _feeds(config, source),
        required=config.smact not in ("auto", "utilization"),
        interval_s=config.interval_s,
    )
    return Readings(source, activity, ComputeInstances())


def _source(source: str, interval_s: float) -> GpuSource:
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


def _feeds(config: ReadingsConfig, source: GpuSource) -> list[SmactFeed]:
    makers: dict[str, Callable[[], SmactFeed]] = {
        "dcgm": lambda: Dcgm(interval_s=config.interval_s),
        "dcgm-exporter": lambda: DcgmExporter(
            config.dcgm_exporter, trusting=config.smact == "dcgm-exporter"
        ),
    }
    if isinstance(source, nvml.NvmlGpus):  # GPM is a part of NVML
        makers = {"gpm": lambda: Gpm(source), **makers}
    wanted = list(makers) if config.smact == "auto" else [config.smact]
    return [makers[name]() for name in wanted if name in makers]
