"""The kinds of device that a task can run on: GPU or MIG instance, with MPS or without."""

from __future__ import annotations

from radrm.core.records import Device, Needs
from radrm.core.words import Collocation, DeviceKind


def kind_refusal(device: Device, needs: Needs, wish: Collocation) -> str | None:
    """Return why a task with these needs can never run on this kind of device; None if it can."""
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
