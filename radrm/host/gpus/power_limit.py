"""The power limit of GPUs (`energy.power_limit_w`): set it, and put the earlier one back.

Theory of operation. The limit belongs to a whole GPU, also if it is cut into MIG instances. It is
set when the devices are listed, so again after a reset of the GPU. A file has the limit from
before and the one that radrm has set; it is written before the limit is set. So a `kill -9`
between the two loses nothing: the next daemon finds radrm's limit in force, and knows the one from
before. If neither is in force, somebody else has set another: that one is left as it is, and
counts as the one from before for a new daemon. At the end only radrm's own limit is replaced.

The listing thread calls `apply`. The loop's thread reads `of` and `why_not`, which are replaced as
a whole. `put_back` is called when no listing is under way any more, or hangs.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Device
from radrm.errors import BadConfig, DeviceError
from radrm.host.gpus import nvml
from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import query
from radrm.host.gpus.source import GpuSource, SourceAround
from radrm.host.storage.files import write_durably

log = logging.getLogger("radrm")

_MOST_MW = 10**8
_PUT_BACK_S = 2.0
"""Seconds that a driver may take to answer at the end."""


@dataclass(frozen=True, slots=True)
class PowerDriver:
    """The driver's calls about a GPU's power limit, in mW. They may raise anything."""

    get: Callable[[str], int]
    put: Callable[[str, int], None]
    constraints: Callable[[str], tuple[int, int]]


def nvml_power() -> PowerDriver:
    """Return the calls of the NVIDIA driver. `put` needs root."""

    def constraints(uuid: str) -> tuple[int, int]:
        found = query(
            lambda nvml, gpu: nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu), uuid
        )
        return int(found[0]), int(found[1])

    return PowerDriver(
        lambda uuid: int(query(lambda n, gpu: n.nvmlDeviceGetPowerManagementLimit(gpu), uuid)),
        lambda uuid, mw: query(lambda n, gpu: n.nvmlDeviceSetPowerManagementLimit(gpu, mw), uuid),
        constraints,
    )


def outside(limit_w: float, gpu: str, range_mw: tuple[int, int] | None) -> str | None:
    """Return that a limit is outside a GPU's range, which may be unknown (None); None if not."""
    if not limit_w or range_mw is None or range_mw[0] <= round(limit_w * 1000) <= range_mw[1]:
        return None
    low, high = (each / 1000 for each in range_mw)
    return (
        f"energy.power_limit_w = {limit_w:g} is outside the range of {gpu}, {low:g} to {high:g} W; "
        f"write for example power_limit_w = {high:g}"
    )


def limit_errors(limit_w: float) -> list[str]:
    """Return why this limit cannot be set, if this machine has GPUs that NVML can read."""
    found = nvml.find().gpus if limit_w else None
    if found is None:
        return []
    try:
        PowerLimits(limit_w, "", nvml_power()).check(found.devices())
    except BadConfig as error:
        return [str(error)]
    except DeviceError:
        pass
    finally:
        found.close()
    return []


class PowerLimits:
    """The limits that radrm has set; `file` has those from before. `limit_w` 0: none is set."""

    def __init__(self, limit_w: float, file: str, driver: PowerDriver) -> None:
        self._limit_mw = round(limit_w * 1000)
        self._file = file
        self._driver = driver
        self._known = self._remembered()
        """By GPU: the limit from before and the one that radrm has set, in mW."""
        self._mine: set[str] = set()
        """The GPUs that this daemon has set."""
        self.of: Mapping[str, float] = {}
        """The limit of each GPU in watts, where radrm has set it."""
        self.why_not: Mapping[str, str] = {}
        """Why a GPU's limit is not set."""

    def begin(self, gpus: GpuSource) -> None:
        """Check the limit on these GPUs; without one, put back those of a killed daemon.

        Raises `BadConfig` and `DeviceError`.
        """
        if self._limit_mw:
            self.check(gpus.devices())
        else:
            self.put_back()

    def check(self, devices: Iterable[Device]) -> None:
        """Raise `BadConfig` if the limit is outside the range of one of these GPUs."""
        for uuid, name in _gpus(devices).items():
            try:
                found = self._driver.constraints(uuid)
            except Exception:  # `apply` says why
                continue
            why = outside(self._limit_mw / 1000, name, found)
            if why is not None:
                raise BadConfig(why)

    def apply(self, devices: Iterable[Device]) -> None:
        """Set the limit of the GPUs that do not have it."""
        if not self._limit_mw:
            return
        for uuid, name in _gpus(devices).items():
            try:
                self._apply(uuid)
                self.why_not = {k: v for k, v in self.why_not.items() if k != uuid}
                self.of = {**self.of, uuid: self._limit_mw / 1000}
            except Exception as error:
                why = f"power limit {self._limit_mw / 1000:g} W is not set: {_reason(error)}"
                if self.why_not.get(uuid) != why:
                    log.warning("%s: %s", name, why)
                self.why_not = {**self.why_not, uuid: why}
                self.of = {k: v for k, v in self.of.items() if k != uuid}

    def _apply(self, uuid: str) -> None:
        now_mw, known = self._driver.get(uuid), self._known.get(uuid)
        if now_mw == self._limit_mw:
            self._mine.add(uuid)
            return
        if known is not None and now_mw == known[1]:
            before_mw = known[0]  # an earlier daemon has set it
        elif uuid in self._mine and known is not None and now_mw != known[0]:
            raise _SetByOthers(now_mw)
        else:
            before_mw = now_mw
        self._remember({**self._known, uuid: (before_mw, self._limit_mw)})
        try:
            self._driver.put(uuid, self._limit_mw)
        except Exception:
            if known is None:
                self._remember({k: v for k, v in self._known.items() if k != uuid})
            raise
        self._mine.add(uuid)
        log.info("%s: power limit %g W, before %g W", uuid, self._limit_mw / 1e3, before_mw / 1e3)

    def put_back(self) -> None:
        """Put the limits from before back. Returns soon, also if the driver hangs."""
        if self._known:
            thread = threading.Thread(target=self._put_back, name="power-limits", daemon=True)
            thread.start()
            thread.join(_PUT_BACK_S)

    def _put_back(self) -> None:
        for uuid, (before_mw, set_mw) in list(self._known.items()):
            try:
                if self._driver.get(uuid) == set_mw:
                    self._driver.put(uuid, before_mw)
                self._remember({k: v for k, v in self._known.items() if k != uuid})
            except Exception as error:
                again = f"nvidia-smi -i {uuid} -pl {before_mw / 1000:g}"
                log.error("%s keeps this power limit: %s; as root: %s", uuid, _reason(error), again)
        self._mine.clear()

    # ------------------------------------------------------------- the file

    def _remembered(self) -> dict[str, tuple[int, int]]:
        try:
            with open(self._file, "rb") as file:
                found = json.loads(file.read())
            return {uuid: (_mw(before), _mw(mine)) for uuid, (before, mine) in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
            log.error(
                "%s cannot be read (%s), so no power limit is put back; check: "
                "nvidia-smi -q -d POWER",
                self._file,
                error,
            )
            return {}

    def _remember(self, known: dict[str, tuple[int, int]]) -> None:
        """Write the limits to disk. Raises `OSError`."""
        if known == self._known:
            return
        if known:
            write_durably(self._file, json.dumps(known).encode("ascii"))
        elif os.path.exists(self._file):
            os.unlink(self._file)
        self._known = known


class LimitedGpus(SourceAround):
    """A source that sets the power limit of the devices that it lists."""

    def __init__(self, source: GpuSource, limits: PowerLimits) -> None:
        super().__init__(source)
        self._limits = limits

    def devices(self) -> tuple[Device, ...]:
        devices = self.source.devices()
        self._limits.apply(devices)
        return devices


class _SetByOthers(Exception):
    def __init__(self, now_mw: int) -> None:
        super().__init__(
            f"it is {now_mw / 1000:g} W, which somebody has set since; to have radrm's again, "
            "restart the daemon"
        )


def _mw(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_MW:
        raise ValueError(f"a power limit is not a number from 0 to {_MOST_MW} mW")
    return value


def _reason(error: Exception) -> str:
    number: Any = getattr(error, "value", None)
    if number == words.NO_PERMISSION:
        return "only root may set it; run the daemon as root, or set energy.power_limit_w = 0"
    if number == words.NOT_SUPPORTED:
        return "the driver cannot limit this GPU"
    return str(error) or type(error).__name__


def _gpus(devices: Iterable[Device]) -> dict[str, str]:
    """Return the names of the GPUs that these devices are or belong to, by UUID."""
    return {each.parent or each.uuid: f"GPU {each.index}" for each in devices}
