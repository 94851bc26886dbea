"""Readings from several sources as one: a base that lists and reads devices, and SM activity
from the best feed that really delivers it.

The feeds stand in order; the next one is asked about a device only once those before it
turn out not to serve it. Which one served is in every reading (`smact_source`). A device
whose feed falls silent has `smact_trouble` and takes no newcomer beside others: what was
measured a while ago, or coarsely, is no word on what a newcomer would meet. A device that no
feed has ever served is read coarsely, as the base does.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radrm.config import ReadingsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus.dcgm import SILENT_S, Dcgm, MigIds
from radrm.host.gpus.exporter import DcgmExporter
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvidia_smi import NvidiaSmi
from radrm.host.gpus.source import GpuSource, OwnerOf, Sample, SmactFeed

log = logging.getLogger("radrm")

PATIENCE_S = {"gpm": 3.0, "dcgm": 20.0, "dcgm-exporter": 15.0}
"""Real seconds that a feed has to give its first sample of a device, or to say why not."""
ZEROS = 5
"""So many readings of no activity at all, while kernels run, are not believed."""
BUSY = 0.5
"""From this utilization on, kernels run. With one of some 200 SMs active half the time, SM
activity is 0.0025: three digits show it, so a zero can only come from counters that stand
still (as DCGM's do after some faults, DCGM issue 303)."""


class Readings:
    """A `GpuSource` over another one and some feeds.

    `required`: SM activity from these feeds or none; what the base reads will not do.
    """

    def __init__(self, base: GpuSource, feeds: Sequence[SmactFeed], *, required: bool) -> None:
        self.name = base.name
        self.base = base
        self._feeds = tuple(feeds)
        self._required = required
        self._devices: dict[str, Device] = {}
        self._asked: list[dict[str, float]] = [{} for _ in self._feeds]
        """Per feed, the devices that it is asked about, and since when (real seconds)."""
        self._served: dict[str, str] = {}
        self._zeros: dict[tuple[str, str], int] = {}
        self._told: dict[str, str] = {}

    # ------------------------------------------------------------- the source

    @property
    def changed(self) -> bool:
        """Whether the base has noticed that its devices are others than `devices` gave."""
        return bool(getattr(self.base, "changed", False))

    def devices(self) -> tuple[Device, ...]:
        devices = self.base.devices()
        now = {device.uuid: device for device in devices}
        if now != self._devices:
            self._devices = now
            for known in (self._served, self._told):
                for uuid in known.keys() - now.keys():
                    del known[uuid]
            self._zeros.clear()
            for number, asked in enumerate(self._asked):
                kept = now if number == 0 else asked.keys() & now.keys()
                if kept or asked:
                    self._ask(number, {uuid: asked.get(uuid, time.monotonic()) for uuid in kept})
        return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        readings = self.base.read(uuids, at, owner_of)
        if not self._feeds and not self._required:
            return readings
        return tuple(self._with_smact(reading) for reading in readings)

    def acknowledge(self, uuid: str) -> None:
        """Somebody has seen to this device: what the base holds against it is over."""
        acknowledge = getattr(self.base, "acknowledge", None)
        if acknowledge is not None:
            acknowledge(uuid)

    def take_over(self, other: Readings) -> None:
        """As the function of this name; here also, which feed has served which device."""
        take_over(self.base, other.base)
        self._served = dict(other._served)
        self._told = dict(other._told)

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
        self.base.close()

    # ------------------------------------------------------------- SM activity

    def _with_smact(self, reading: Reading) -> Reading:
        if reading.error is not None:
            return reading
        found = self._search(reading)
        if found.sample is not None:
            self._served[reading.device] = found.feed
            self._tell(reading.device, found.feed)
            power_w = reading.power_w if reading.power_w is not None else found.sample.power_w
            return replace(
                reading,
                smact=found.sample.smact,
                smact_source=found.feed,
                smact_coarse=False,
                power_w=power_w,
            )
        if reading.device in self._served or self._required:
            trouble = found.why or "its SM activity is not measured yet"
            if found.over or (reading.device in self._served and found.why is not None):
                self._tell(reading.device, "none", trouble)
            return replace(
                reading, smact=None, smact_source=None, smact_coarse=False, smact_trouble=trouble
            )
        if found.over:
            self._tell(reading.device, "coarse", found.why)
        return reading

    def _search(self, reading: Reading) -> _Found:
        """The first feed that serves a device; those behind one that does not are asked."""
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
            trouble = feed.trouble(uuid)
            if trouble is not None:
                sample = None
            elif sample is not None and sample.age_s > SILENT_S:
                trouble = f"{feed.name} has given nothing for {sample.age_s:.0f} s"
            elif sample is not None:
                trouble = self._doubt(feed.name, sample, reading)
                if trouble is None:
                    return _Found(feed=feed.name, sample=sample)
            elif trouble is None:
                asked_s = time.monotonic() - self._asked[number][uuid]
                if asked_s < PATIENCE_S.get(feed.name, 0.0):
                    return _Found(why=_best(why, self._served.get(uuid)))
                trouble = f"{feed.name} does not measure it"
            why[feed.name] = trouble
        return _Found(why=_best(why, self._served.get(uuid)), over=True)

    def _ask(self, number: int, asked: dict[str, float]) -> None:
        self._asked[number] = asked
        self._feeds[number].start([d for uuid, d in self._devices.items() if uuid in asked])

    def _doubt(self, name: str, sample: Sample, reading: Reading) -> str | None:
        """Why a sample is not believed, in view of what the base has read."""
        key = (name, reading.device)
        kernels_run = reading.smact_coarse and reading.smact is not None and reading.smact >= BUSY
        self._zeros[key] = self._zeros.get(key, 0) + 1 if kernels_run and not sample.smact else 0
        if self._zeros[key] < ZEROS:
            return None
        hint = "; restart nv-hostengine" if name.startswith("dcgm") else ""
        return f"{name} reads no SM activity while kernels run{hint}"

    def _tell(self, uuid: str, state: str, why: str | None = None) -> None:
        """Once whenever it changes where a device's SM activity comes from."""
        device = self._devices.get(uuid)
        if device is not None and device.kind is DeviceKind.MIG and state in ("coarse", "none"):
            return  # it has one job at a time, whatever is known of its load
        if self._told.get(uuid) == state:
            return
        self._told[uuid] = state
        name = f"GPU {device.index} ({uuid})" if device else uuid
        if state == "coarse":
            log.warning(
                "%s: SM activity is read only coarsely, so jobs share it only with "
                "core.use_coarse_smact = true (%s)",
                name,
                why,
            )
        elif state == "none":
            log.warning("%s takes nobody beside others: %s", name, why)
        else:
            log.info("%s: SM activity comes from %s", name, state)


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of the search for a device's SM activity; `over` once no feed is left."""

    feed: str = ""
    sample: Sample | None = None
    why: str | None = None
    over: bool = False


def _best(why: dict[str, str], served: str | None) -> str | None:
    """What the feed says that served the device; else what all of them say."""
    return why.get(served or "") or "; ".join(why.values()) or None


def take_over(new: GpuSource, old: GpuSource) -> None:
    """Let a source know what one of its kind has learnt, in whose place it reads from now on:
    what it has heard of broken GPUs and has not yet seen mended, what a driver keeps for itself.

    `old` may hang in a call meanwhile; nothing is asked of it.
    """
    learn = getattr(new, "take_over", None)
    if learn is not None and type(old) is type(new):
        learn(old)


# ------------------------------------------------------------------ putting it together


def open_gpus(config: ReadingsConfig) -> Readings:
    """The GPUs of this machine as they are configured. Raises `DeviceError` with the reason
    where none can be read."""
    base = _base(config.source)
    return Readings(
        base, _feeds(config, base), required=config.smact not in ("auto", "utilization")
    )


def _base(source: str) -> GpuSource:
    reasons: list[str] = []
    if source in ("auto", "nvml"):
        found = nvml.find()
        if found.gpus is not None:
            return found.gpus
        reasons.append(found.reason or "NVML finds no GPU")
    if source in ("auto", "nvidia-smi"):
        gpus = NvidiaSmi()
        try:
            gpus.devices()
        except DeviceError as error:
            reasons.append(str(error))
        else:
            if reasons:
                log.warning("NVML cannot be used, nvidia-smi is read instead (%s)", reasons[0])
            return gpus
    raise DeviceError("; ".join(reasons))


def _feeds(config: ReadingsConfig, base: GpuSource) -> list[SmactFeed]:
    ids = mig_ids_of(base)
    makers: dict[str, Callable[[], SmactFeed | None]] = {
        "gpm": lambda: _gpm(base),
        "dcgm": lambda: Dcgm(ids),
        "dcgm-exporter": lambda: DcgmExporter(
            config.dcgm_exporter, ids, trusting=config.smact == "dcgm-exporter"
        ),
    }
    wanted = list(makers) if config.smact == "auto" else [config.smact]
    made = [makers[name]() for name in wanted if name in makers]
    return [feed for feed in made if feed is not None]


def _gpm(base: GpuSource) -> SmactFeed | None:
    """Only NVML reads these."""
    return Gpm(base) if isinstance(base, nvml.NvmlGpus) else None


def mig_ids_of(base: GpuSource) -> MigIds:
    """How the driver's ids of MIG instances are had: in old drivers they stand in the UUID."""
    place: Any = getattr(base, "place", None)

    def ids(uuid: str) -> tuple[int, int] | None:
        old = re.fullmatch(r"MIG-GPU-[0-9A-Za-z-]+/([0-9]{1,9})/([0-9]{1,9})", uuid)
        if old:
            return int(old[1]), int(old[2])
        if place is None:
            return None
        try:
            found: tuple[int, int] | None = place(uuid).instance
        except Exception:  # the driver's own errors, which its readings tell of
            return None
        return found

    return ids
