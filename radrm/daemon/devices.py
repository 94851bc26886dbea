"""The GPUs of a daemon, simulated or real, with the clock and the MPS that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from radrm.config import Config
from radrm.core.events import Event
from radrm.daemon.monitor import Monitor
from radrm.errors import DeviceError, UsageError
from radrm.host.clock import Clock
from radrm.host.gpus.memory_caps import MemoryCaps, nvml_caps, why_never
from radrm.host.gpus.readings import Readings, open_served, served
from radrm.host.gpus.source import OwnerOf
from radrm.host.isolation import Isolation
from radrm.host.isolation import find as find_isolation
from radrm.host.mps.interface import DaemonHooks, Mps
from radrm.host.mps.service import MpsService, SimulatedMps
from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.host.simulated.start_driver import ensure_driver
from radrm.host.storage.paths import Paths

SHORTEST_INTERVAL_S = 0.1
"""Fewest real seconds between two rounds of readings, at any speed of the clock."""


class Devices(Struct, frozen=True):
    """The source of readings, which their monitor closes, and what belongs to it."""

    source: Readings
    clock: Clock
    environment: Mapping[str, str]
    """What every job gets, as the socket of the simulated GPUs."""
    mps: Mps | None
    description: str
    asked_s: float
    """Seconds between two rounds of readings, as configured."""
    is_simulated: bool
    isolation: Isolation
    named: Mapping[str, Sequence[str]]
    """The names of GPUs in each setting that has any: `doctor` says which of them are not here."""
    caps: MemoryCaps | None = None

    @property
    def interval_s(self) -> float:
        """Real seconds between two rounds of readings."""
        return max(SHORTEST_INTERVAL_S, self.clock.real_s(self.asked_s))

    def monitor(self, owner_of: OwnerOf, post: Callable[[Event], None]) -> Monitor:
        """Return what reads them in a thread."""
        return Monitor(self.source, self.clock, owner_of, post, self.interval_s, self.asked_s)

    def begin(self, read_soon: Callable[[], None], owner_of: OwnerOf, grace_s: float) -> None:
        """Start MPS, whose control daemons ask for a reading when something changes."""
        if self.mps is not None:
            self.mps.begin(DaemonHooks(owner_of, read_soon, grace_s))

    def close(self, ends_mps: bool) -> None:
        """`ends_mps`: the control daemons are this daemon's, and end with it."""
        if self.mps is not None and ends_mps:
            self.mps.leave()
        for stage in self.source.stages:
            stage.close()  # also where the thread that closes the source hangs in the driver


def find_devices(
    paths: Paths, config: Config, gpus: str | None, time_scale: float, uid: int
) -> Devices:
    """Simulated GPUs if `gpus` is given, else the real ones; never one in place of the other."""
    named = {
        "gpus.only": config.gpus.only,
        "gpus.order": config.gpus.order,
        "mps.enabled": config.mps.only,
    }
    if gpus is not None:
        driver = ensure_driver(Path(paths.run), gpus, time_scale)
        simulated = SimulatedMps(paths.run, config.mps) if config.mps.enabled else None
        source = served(Readings(SimulatedGpus(driver.socket)), config.gpus)
        return Devices(
            source=source if simulated is None else source.then(simulated),
            clock=driver.clock,
            environment={"RADRM_SIMULATED_GPUS": str(driver.socket)},
            mps=simulated,
            description=gpus,
            asked_s=config.readings.interval_s,
            is_simulated=True,
            isolation=Isolation(),
            named=named,
        )
    if time_scale != 1.0:
        raise UsageError("--time-scale goes with simulated GPUs only: add --gpus sim:4xA100-40GB")
    try:
        source = open_served(config)
    except DeviceError as error:
        raise DeviceError(
            f"no NVIDIA GPU can be used: {error}; "
            "to run on simulated GPUs: radrm daemon --gpus sim:4xA100-40GB"
        ) from error
    mps = MpsService(config.mps, paths.run)
    caps = MemoryCaps(nvml_caps(), why_never(config.gpus.memory_caps, source.name))
    return Devices(
        source=source.then(mps, caps),
        clock=Clock(),
        environment={},
        mps=mps,
        description="NVML" if source.name == "nvml" else source.name,
        asked_s=config.readings.interval_s,
        is_simulated=False,
        isolation=find_isolation(config.gpus.isolate, uid),
        named=named,
        caps=caps,
    )
