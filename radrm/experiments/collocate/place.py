"""Which GPU a measurement may have to itself: it must not be one that is given to others."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.client.connection import Client
from radrm.core.units import show_mib
from radrm.errors import RadrmError, Refused
from radrm.host.storage.paths import Paths

Document = dict[str, Any]

QUIET_MIB = 256
"""So much may be in use on a GPU that still counts as idle (a desktop, a monitor)."""


@dataclass(frozen=True, slots=True)
class Manager:
    """A daemon that gives out GPUs, where its clients find it, and the documents of those."""

    place: str
    devices: Mapping[str, Document]


@dataclass(frozen=True, slots=True)
class Job:
    """The radrm job that we run inside: what it was given, and whether to itself."""

    id: str
    uuids: tuple[str, ...]
    alone: bool


def managers(candidates: Sequence[Paths]) -> list[Manager]:
    """The daemons that answer here."""
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
    """The job that this process belongs to, as its daemon tells it; None outside of any.

    Where its daemon does not answer, the devices are those that the environment names.
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
    """What is measured on: the chosen GPU, or all MIG instances of its GPU that are as it."""
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

    `devices` are the documents of the measurement's own daemon. Raises Refused, with what
    to do instead, when there is none that may be had. Of a GPU that is cut into MIG instances it
    is one of those that there are most of; whole GPUs come first.
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
    """What people must know of a GPU that was taken although it is not quite idle."""
    held = device["unmanaged_mib"] or 0
    if held <= QUIET_MIB:
        return None
    return (
        f"others have {show_mib(held)} of GPU {device['index']} in use: what they do there "
        "is in these numbers"
    )


def _given(devices: Sequence[Document], wanted: str | None, around: Job) -> Document:
    """Of the devices of the job that we are."""
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
            "time: there is nothing to share; submit it to a GPU that is not cut into them"
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
    """Why a device cannot be had at all."""
    return _broken(device) or _managed(device, others, command)


def _broken(device: Document) -> str | None:
    if device["state"] in ("unreadable", "unhealthy", "vanished"):
        return f"GPU {device['index']} is {device['state']}: {device['reason']}; see radrm doctor"
    return None


def _managed(device: Document, others: Sequence[Manager], command: Sequence[str]) -> str | None:
    """A daemon may give it to somebody at any moment, unless it is drained and empty."""
    for manager in others:
        theirs = manager.devices.get(device["uuid"])
        if theirs is None or (theirs["state"] == "drained" and not theirs["jobs"]):
            continue
        ask = shlex.join(["radrm", "submit", "--collocation=exclusive", "--wait", "--", *command])
        return (
            f"GPU {device['index']} is given out by the radrm daemon in {manager.place}; have it "
            f"give one to the measurement alone: {ask} (or drain it first: radrm drain "
            f"{theirs['index']})"
        )
    return None


def _disturbance(device: Document) -> str | None:
    """Why nobody would choose it without being told to."""
    held = device["unmanaged_mib"] or 0
    if held <= QUIET_MIB:
        return None
    return (
        f"every GPU is in use by others (GPU {device['index']}: {show_mib(held)}); "
        f"to measure beside them all the same: --gpu {device['index']}"
    )
