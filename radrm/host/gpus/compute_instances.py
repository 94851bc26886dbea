"""Compute instances that share the memory of one GPU instance (MIG).

Theory of operation. `nvidia-smi mig -cgi 3g.20gb -C` makes a GPU instance with one compute
instance, and these are one device. A GPU instance can have several (`-cci 1c.3g.20gb,...`): they
have SMs of their own, and the driver reports the memory in use, and the SM activity, of the whole
GPU instance for each of them. Booked as they are listed, the same memory would be reserved for
several jobs, and what one uses would count as unmanaged on the others.

So each gets an equal part of the memory. What the processes of the others hold, up to their parts,
does not count as used here; what they hold beyond does, and so does what no process is known to
hold. Nothing enforces the parts. The SM activity is unknown while another one is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from radrm.core.records import Device, Reading
from radrm.structs import replace

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
