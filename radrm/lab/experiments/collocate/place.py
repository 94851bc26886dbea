"""Choose the GPU of a measurement: one that no radrm daemon can give to others meanwhile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from radrm.client.connection import Client
from radrm.client.text import Document
from radrm.core.units import show_mib
from radrm.errors import RadrmError, Refused
from radrm.host.storage.paths import Paths

QUIET_MIB = 256
"""Memory in use (by a desktop, a monitor) up to which a GPU counts as idle."""


class Manager(Struct, frozen=True):
    """A daemon that manages GPUs: its folder, and the documents of its devices."""

    place: str
    devices: Mapping[str, Document]


class Job(Struct, frozen=True):
    """The radrm job that this process runs in: its devices, and whether it has them alone."""

    id: str
    uuids: tuple[str, ...]
    alone: bool


def managers(candidates: Sequence[Paths]) -> list[Manager]:
    """The daemons of this server that answer."""
    found = []
    for paths in candidates:
        with Client((paths,)) as client:
            try:
                devices = {document["uuid"]: document for document in client.ask("gpus")}
            except RadrmError:
                continue
            found.append(Manager(paths.run, devices))
    return found


def job_around(environ: Mapping[str, str], candidates: Sequence[Paths]) -> Job | None:
    """The job that this process belongs to; None outside of a job.

    If its daemon does not answer, the devices are those that the environment names.
    """
    number = environ.get("RADRM_JOB_ID")
    if not number:
        return None
    for paths in candidates:
        with Client((paths,)) as client:
            try:
                (document,) = client.ask("status", jobs=[number])
            except (RadrmError, ValueError):
                continue
            alone = document["collocation"] in ("exclusive", "mig")
            return Job(number, tuple(document["devices"]), alone)
    named = environ.get("CUDA_VISIBLE_DEVICES", "")
    return Job(number, tuple(word for word in named.split(",") if word), alone=True)


def instances(devices: Sequence[Document], chosen: Document) -> list[Document]:
    """The devices to measure on: the chosen GPU, or all MIG instances of its GPU and profile."""
    if chosen["kind"] != "mig":
        return [chosen]
    like = ("kind", "parent", "profile")
    return [d for d in devices if all(d.get(key) == chosen.get(key) for key in like)]


def choose(
    devices: Sequence[Document],
    wanted: str | None,
    around: Job | None,
    others: Sequence[Manager],
    command: Sequence[str],
) -> Document:
    """The GPU to measure on: the one that is wanted (index or UUID), else the first free one.

    `devices` are the documents of the measurement's own daemon. Whole GPUs come first, then MIG
    instances of the most frequent profile. Raises Refused, with what to do instead, if no GPU is
    available.
    """
    if around is not None:
        return _given(devices, wanted, around)
    if wanted is not None:
        device = _named(devices, wanted)
        for each in instances(devices, device):
            refusal = _refusal(each, others, command)
            if refusal is not None:
                raise Refused(refusal)
        return device
    refusals = []
    for device in sorted(devices, key=lambda d: (d["kind"] == "mig", -len(instances(devices, d)))):
        found = [
            _refusal(each, others, command) or _disturbance(each)
            for each in instances(devices, device)
        ]
        refusal = next(filter(None, found), None)
        if refusal is None:
            return device
        refusals.append(refusal)
    raise Refused(refusals[0] if refusals else "there is no GPU here to measure on")


def note_on(device: Document) -> str | None:
    """A note on a GPU that is measured although others use it; None if it is idle."""
    held = device["unmanaged_mib"] or 0
    if held <= QUIET_MIB:
        return None
    return (
        f"others have {show_mib(held)} of GPU {device['index']} in use: these numbers include "
        "their load"
    )


def _given(devices: Sequence[Document], wanted: str | None, around: Job) -> Document:
    """The device to measure on, of those of the job that this process runs in."""
    if not around.alone:
        raise Refused(
            f"job {around.id}, which this runs in, may have to share its GPU; "
            "submit it with --collocation=exclusive"
        )
    mine = [d for d in devices if d["uuid"] in around.uuids or str(d["index"]) in around.uuids]
    if not mine:
        raise Refused(f"job {around.id}, which this runs in, has no GPU; submit it with --gpus=1")
    device = mine[0] if wanted is None else _named(mine, wanted)
    if device["kind"] == "mig":
        raise Refused(
            f"job {around.id}, which this runs in, has a MIG instance, which takes one job at a "
            "time: there is nothing to share; submit it to a GPU without MIG instances"
        )
    broken = _broken(device)
    if broken is not None:
        raise Refused(broken)
    return device


def _named(devices: Sequence[Document], wanted: str) -> Document:
    by_index = [d for d in devices if str(d["index"]) == wanted]
    if by_index and all(d["kind"] == "mig" for d in by_index):
        return max(by_index, key=lambda d: len(instances(by_index, d)))
    found = by_index or [d for d in devices if len(wanted) >= 4 and d["uuid"].startswith(wanted)]
    if len(found) != 1:
        there = ", ".join(str(d["index"]) for d in devices) or "none"
        raise Refused(f"there is no single GPU {wanted!r}; their indices are: {there}")
    return found[0]


def _refusal(device: Document, others: Sequence[Manager], command: Sequence[str]) -> str | None:
    """Why a device cannot be measured at all; None if it can."""
    return _broken(device) or _managed(device, others, command)


def _broken(device: Document) -> str | None:
    if device["state"] in ("unreadable", "unhealthy", "vanished"):
        return f"GPU {device['index']} is {device['state']}: {device['reason']}; see radrm doctor"
    return None


def _managed(device: Document, others: Sequence[Manager], command: Sequence[str]) -> str | None:
    """Why a daemon's device cannot be measured. The daemon can start a job on it at any moment,
    unless it is drained and has no job."""
    for manager in others:
        theirs = manager.devices.get(device["uuid"])
        if theirs is None or (theirs["state"] == "drained" and not theirs["jobs"]):
            continue
        ask = shlex.join(["radrm", "submit", "--collocation=exclusive", "--wait", "--", *command])
        return (
            f"GPU {device['index']} is managed by the radrm daemon in {manager.place}; submit the "
            f"measurement as a job: {ask} (or drain the GPU first: radrm drain "
            f"{theirs['index']})"
        )
    return None


def _disturbance(device: Document) -> str | None:
    """Why a device is chosen only by --gpu: others use it. None if they do not."""
    held = device["unmanaged_mib"] or 0
    if held <= QUIET_MIB:
        return None
    return (
        f"every GPU is in use by others (GPU {device['index']}: {show_mib(held)}); "
        f"to measure beside them nevertheless: --gpu {device['index']}"
    )
