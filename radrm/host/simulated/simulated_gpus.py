"""The source of readings that asks the simulated driver."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Unreachable
from radrm.host.gpus.processes import Processes
from radrm.host.gpus.source import GpuSource, OwnerOf, split_by_owner
from radrm.host.processes.affinity import listed
from radrm.host.simulated.client import DriverClient
from radrm.interference.chips import smact_from_utilization, sms_of
from radrm.structs import replace


class SimulatedGpus(GpuSource):
    """The devices and readings of the simulated driver.

    Each request reconnects once if the connection is broken.
    """

    name = "simulated"

    def __init__(self, socket_path: str | os.PathLike[str], *, timeout_s: float = 5.0) -> None:
        self._path = os.fspath(socket_path)
        self._timeout_s = timeout_s
        self._client: DriverClient | None = None
        self._processes = Processes()

    def devices(self) -> tuple[Device, ...]:
        return _with_cpus([self._device(found) for found in self._ask("devices")["devices"]])

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        readings = self._ask("read", uuids=list(uuids))["readings"]
        return tuple(_reading(found, at, owner_of, self._processes) for found in readings)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _device(self, found: dict[str, Any]) -> Device:
        kind = DeviceKind(found["kind"])
        links = tuple((peer, count) for peer, count in found.get("nvlinks") or ())
        whole = kind is DeviceKind.GPU
        sms, mhz = (whole and sms_of(found["name"])) or (None, None)
        device = Device(**{**found, "kind": kind, "nvlinks": links})
        return replace(device, sms=sms, sm_mhz=mhz, simulated=True)

    def _ask(self, op: str, **fields: object) -> dict[str, Any]:
        if self._client is not None:
            try:
                return self._client.ask(op, **fields)
            except DeviceError:
                self.close()
        try:
            self._client = DriverClient(self._path, self._timeout_s)
            return self._client.ask(op, **fields)
        except (DeviceError, Unreachable) as error:
            self.close()
            raise DeviceError(
                f"the simulated GPUs do not answer ({error}); restart the daemon"
            ) from error


def _with_cpus(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices, each with its part of this server's CPUs as those of its NUMA node."""
    nodes = sorted({d.numa_node for d in devices if d.numa_node is not None})
    cpus = sorted(os.sched_getaffinity(0))
    ends = [len(cpus) * place // max(1, len(nodes)) for place in range(len(nodes) + 1)]
    lists: dict[int | None, str | None] = {
        node: listed(cpus[ends[place] : ends[place + 1]]) or None
        for place, node in enumerate(nodes)
    }
    found = [(device, lists.get(device.numa_node)) for device in devices]
    return tuple(replace(d, numa_cpus=each, socket_cpus=each) for d, each in found)


def _reading(
    found: dict[str, Any], at: Instant, owner_of: OwnerOf, processes: Processes
) -> Reading:
    if found["error"] is not None:
        return Reading(device=found["uuid"], at=at, error=found["error"])
    held: dict[int, int | None] = dict(found["processes"])
    attempts, owners = split_by_owner(held, owner_of)
    shown: dict[tuple[int, int], float] = {}
    activities: dict[int, float] = dict(found["activities"])
    for pid, smact in activities.items():
        owner = owners.get(pid)
        if owner is not None:
            shown[owner] = min(1.0, shown.get(owner, 0.0) + smact)
    smact, utilization = found["smact"], found.get("utilization")
    if utilization is not None:
        smact = smact_from_utilization(utilization)
    return Reading(
        device=found["uuid"],
        at=at,
        used_mib=found["used_mib"],
        attempts=tuple(
            replace(each, smact=shown.get((each.job_id, each.serial))) for each in attempts
        ),
        smact=smact,
        smact_source=SimulatedGpus.name if smact is not None else None,
        smact_coarse=utilization is not None,
        power_w=found["power_w"],
        energy_j=found["energy_j"],
        processes=processes.describe(held, owners, activities),
    )
