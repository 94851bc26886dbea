"""The GPUs of a daemon, simulated or real, with the clock and the MPS that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from radrm.config import Config
from radrm.core.events import Event
from radrm.core.records import Device
from radrm.daemon.monitor import Monitor
from radrm.errors import DeviceError, UsageError
from radrm.host.clock import Clock
from radrm.host.gpus.memory_caps import CappedGpus, MemoryCaps, nvml_caps, why_never
from radrm.host.gpus.readings import open_served, served
from radrm.host.gpus.source import GpuSource, OwnerOf
from radrm.host.isolation import Isolation
from radrm.host.isolation import find as find_isolation
from radrm.host.mps.interface import DaemonHooks, Mps
from radrm.host.mps.service import EnabledOnly, MpsGpus, MpsService, SimulatedMps
from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.host.simulated.start_driver import ensure_driver
from radrm.host.storage.paths import Paths

SHORTEST_INTERVAL_S = 0.1
"""Fewest real seconds between two rounds of readings, at any speed of the clock."""


class Listens(Protocol):
    """What is asked of the loop."""

    def read_soon(self) -> None: ...

    def devices_seen(self, devices: tuple[Device, ...]) -> None: ...


class Devices(Struct, frozen=True):
    """The source of readings, and what belongs to it. `close` ends all of it."""

    source: GpuSource
    clock: Clock
    environment: Mapping[str, str]
    """What every job gets, as the socket of the simulated GPUs."""
    mps: Mps | None
    description: str
    asked_s: float
    """Seconds between two rounds of readings, as configured."""
    is_simulated: bool
    isolation: Isolation
    renew: Callable[[], GpuSource] | None = None
    """Opens a new source, for when a call of `source` never returns."""
    caps: MemoryCaps | None = None

    @property
    def interval_s(self) -> float:
        """Real seconds between two rounds of readings."""
        return max(SHORTEST_INTERVAL_S, self.clock.real_s(self.asked_s))

    def monitor(self, owner_of: OwnerOf, post: Callable[[Event], None]) -> Monitor:
        """Return what reads them in a thread."""
        return Monitor(
            *(self.source, self.clock, owner_of, post, self.interval_s, self.renew, self.asked_s)
        )

    def begin(self, listener: Listens, owner_of: OwnerOf, grace_s: float) -> None:
        """Start MPS, whose control daemons tell the loop what changes."""
        if self.mps is not None:
            hooks = DaemonHooks(owner_of, listener.read_soon, listener.devices_seen, grace_s)
            self.mps.begin(hooks)

    def close(self, ends_mps: bool) -> None:
        """`ends_mps`: the control daemons are this daemon's, and end with it."""
        if self.mps is not None and ends_mps:
            self.mps.close()
        self.source.close()


def find_devices(
    paths: Paths, config: Config, gpus: str | None, time_scale: float, uid: int
) -> Devices:
    """Simulated GPUs if `gpus` is given, else the real ones; never one in place of the other."""
    if gpus is not None:
        driver = ensure_driver(Path(paths.run), gpus, time_scale)
        source = served(
            SimulatedGpus(driver.socket, mps=config.mps.enabled),
            config.gpus,
        )
        return Devices(
            source=EnabledOnly(source, config.mps) if config.mps.only else source,
            clock=driver.clock,
            environment={"RADRM_SIMULATED_GPUS": str(driver.socket)},
            mps=SimulatedMps(paths.run, config.mps) if config.mps.enabled else None,
            description=gpus,
            asked_s=config.readings.interval_s,
            is_simulated=True,
            isolation=Isolation(),
        )
    if time_scale != 1.0:
        raise UsageError("--time-scale goes with simulated GPUs only: add --gpus sim:4xA100-40GB")
    try:
        gpus_here = open_served(config)
    except DeviceError as error:
        raise DeviceError(
            f"no NVIDIA GPU can be used: {error}; "
            "to run on simulated GPUs: radrm daemon --gpus sim:4xA100-40GB"
        ) from error
    mps = MpsService(config.mps, paths.run)
    caps = MemoryCaps(nvml_caps(), why_never(config.gpus.memory_caps, gpus_here.name))

    def around(source: GpuSource) -> GpuSource:
        return CappedGpus(MpsGpus(source, mps), caps)

    return Devices(
        source=around(gpus_here),
        clock=Clock(),
        environment={},
        mps=mps,
        description="NVML" if gpus_here.name == "nvml" else gpus_here.name,
        asked_s=config.readings.interval_s,
        is_simulated=False,
        isolation=find_isolation(config.gpus.isolate, uid),
        renew=lambda: around(open_served(config)),
        caps=caps,
    )
