"""The kinds of device that tasks can run on, and whether all roles together can have some.

A kind is a GPU or a MIG instance, with MPS or without, of a type such as `a100`.

No two roles share a device. So two roles that find devices singly may block each other. This
searches an assignment by augmenting paths (Kuhn's algorithm): it finds one if any exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from radrm.core.constraints.gpu_names import is_name_of as is_name_of
from radrm.core.records import Device, Job, JobSpec, Needs
from radrm.core.words import Collocation, DeviceKind


def kind_refusal(
    device: Device, needs: Needs, spec: JobSpec, wish: Collocation | None = None
) -> str | None:
    """Return why a task with these needs can never run on this kind of device; None if it can.

    `wish`: as if the job asked for this collocation mode.
    """
    if spec.gpu_types and not any(is_of_type(device, each) for each in spec.gpu_types):
        return f"it is not of GPU type {spec.gpu_types_text}"
    wish = spec.collocation if wish is None else wish
    if device.kind is DeviceKind.MIG:
        if needs.gpus > 1:
            return "a job on several GPUs cannot span MIG instances"
        if needs.mig_profile not in (None, device.profile):
            return f"needs MIG profile {needs.mig_profile}, this instance has {device.profile}"
        if wish in (Collocation.MPS, Collocation.TIMESLICE):
            return f"a MIG instance runs one job at a time; the job asks for {wish.value}"
        return None
    if wish is Collocation.MIG or needs.mig_profile is not None:
        return "it is not a MIG instance"
    if wish is Collocation.MPS and not device.mps:
        return "MPS is not enabled here"
    if wish is Collocation.MPS and not can_be_mps_client(device, needs):
        return "its MPS server serves this GPU only; a job on several GPUs cannot use it"
    return None


def can_be_mps_client(device: Device, needs: Needs) -> bool:
    """Return whether a task with these needs can be a client of the device's MPS server.

    A CUDA process is a client of one MPS server. A task on several GPUs can be a client only
    if one server serves all of them.
    """
    return device.mps and (needs.gpus == 1 or device.mps_spans)


# ------------------------------------------------------------------ types and preferences


def is_of_type(device: Device, wanted: str) -> bool:
    """Return whether a device is of a type, as users and clusters write it."""
    whole = device.kind is DeviceKind.GPU
    return is_name_of(device.name, wanted, device.total_mib if whole else None)


def is_named(device: Device, name: str) -> bool:
    """Return whether a name means this device: its type, its index, or its UUID's beginning, or
    that of the GPU which it is a part of."""
    if name == str(device.index) or is_of_type(device, name):
        return True
    uuids = (device.uuid, device.parent or "")
    asked = name.lower()
    return asked.startswith(_UUIDS) and any(uuid.lower().startswith(asked) for uuid in uuids)


def without_device(names: Sequence[str], devices: Collection[Device]) -> list[str]:
    """Return the names that mean none of these devices."""
    return [name for name in names if not any(is_named(device, name) for device in devices)]


class Rank(NamedTuple):
    """How well a device suits a job; the smallest is best.

    `avoided`: 1 if the submitter avoids the device, 2 if recovery does. `own` and `site` are its
    places in the submitter's list and in the site's.
    """

    avoided: int = 0
    own: int = 0
    site: int = 0


def rank(device: Device, job: Job, order: Sequence[str]) -> Rank:
    """Return the rank of a device for a job, by its preferences and the site's `order`."""
    spec = job.spec
    avoided = 1 if any(is_named(device, name) for name in spec.avoid_gpus) else 0
    return Rank(
        2 if device.uuid in job.use_last else avoided,
        _place(device, spec.prefer_gpus),
        _place(device, order),
    )


def _place(device: Device, names: Sequence[str]) -> int:
    """Return the place of the first name that means the device; behind all, if none does."""
    return next((i for i, name in enumerate(names) if is_named(device, name)), len(names))


_UUIDS = ("gpu-", "mig-")


Wanted: TypeAlias = Sequence[tuple[int, Sequence[str]]]
"""Each role's number of devices, and the UUIDs of the devices that suit it."""


def shortage_of(wanted: Wanted) -> tuple[int, int] | None:
    """Return None if all roles can have devices together.

    Otherwise: how many devices some of the roles want together, and how many suit any of these.
    """
    role_of: dict[str, int] = {}

    def take(role: int, seen: dict[str, None]) -> bool:
        """Find one more device for a role; other roles may change theirs."""
        fresh = [uuid for uuid in wanted[role][1] if uuid not in seen]
        # All at once: so this calls itself at most once per role.
        seen.update(dict.fromkeys(fresh))
        for uuid in fresh:
            if uuid not in role_of:
                role_of[uuid] = role
                return True
        for uuid in fresh:
            if role_of[uuid] != role and take(role_of[uuid], seen):
                role_of[uuid] = role
                return True
        return False

    for role, (count, suitable) in enumerate(wanted):
        if count > len(suitable):
            return count, len(suitable)
        for _ in range(count):
            seen: dict[str, None] = {}
            if not take(role, seen):
                # The roles that hold these devices and this one can have no others (Hall).
                stuck = {role, *(role_of[uuid] for uuid in seen)}
                return sum(wanted[each][0] for each in stuck), len(seen)
    return None


def shortage(wanted: Sequence[tuple[int, Iterable[Device]]]) -> tuple[int, int] | None:
    """Return how many devices are wanted and how many one placement can have, if too few.

    None if they suffice. `wanted`: each role's number of devices, and the devices that suit it.
    A placement has one mode, so it has GPUs or MIG instances.
    """
    found: tuple[int, int] | None = None
    for kind in DeviceKind:
        of_kind = [(n, [d.uuid for d in devices if d.kind is kind]) for n, devices in wanted]
        short = shortage_of(of_kind)
        if short is None:
            return None
        # Of GPUs and MIG instances, report the kind with more suitable devices.
        if found is None or short[1] >= found[1]:
            found = short
    return found
