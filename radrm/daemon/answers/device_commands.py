"""The commands about devices and MPS. Only root and the daemon's own user may give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radrm.core import events as ev
from radrm.core.snapshot import DeviceSnapshot
from radrm.core.words import Collocation, DeviceKind
from radrm.daemon.answers.selection import is_administrator
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.views.arguments import device_words, reason_word
from radrm.daemon.views.documents import Document
from radrm.errors import Refused
from radrm.host.mps.interface import Mps

# ------------------------------------------------------------------ devices


def drain(loop: Loop, request: Request) -> list[Document]:
    """Let devices take no new job. The jobs on them run on."""
    return _each_device(loop, request, True, reason_word(request.words))


def resume(loop: Loop, request: Request) -> list[Document]:
    """Let drained devices take new jobs again."""
    return _each_device(loop, request, False, None)


def _each_device(loop: Loop, request: Request, drain: bool, reason: str | None) -> list[Document]:
    if not is_administrator(request.client.uid):
        raise Refused("only root and the daemon's own user may drain or resume devices")
    snapshot, wanted = loop.scheduler.snapshot, device_words(request.words)
    devices = snapshot.devices
    uuids = {each.device.uuid: each.drained for each in devices}
    out = [uuid for uuid, why in uuids.items() if why is not None or snapshot.is_doubted(uuid)]
    results: list[Document] = []
    events: list[ev.Event] = []
    for word in wanted or (list(uuids) if drain else out):
        try:
            found = find_device(devices, word)
            device, before = found.device, found.drained
            faulty = found.reading is not None and found.reading.fault is not None
            if not drain and device.uuid not in out and not faulty:
                raise Refused(f"GPU {device.index} is not drained")
            if not drain:
                loop.acknowledge(device.uuid)
            why = (reason or before or "by an administrator") if drain else None
            events.append(ev.DrainRequested(at=loop.clock.now(), device=device.uuid, reason=why))
            results.append({"index": device.index, "uuid": device.uuid, "error": None})
        except Refused as error:
            results.append({"index": None, "uuid": word, "error": str(error)})
    loop.process(events)
    return results


def find_device(devices: Sequence[DeviceSnapshot], word: str) -> DeviceSnapshot:
    """The device with this index or UUID, or the only one whose UUID starts with this text.

    An index means a device that is there, before one that had it and has vanished.
    """
    by_index = [d for d in devices if str(d.device.index) == word]
    by_index = [d for d in by_index if not d.vanished] or by_index
    found = by_index or [d for d in devices if len(word) >= 4 and d.device.uuid.startswith(word)]
    if len(found) != 1:
        there = ", ".join(str(d.device.index) for d in devices) or "none"
        many = "several GPUs are called" if found else "there is no GPU"
        raise Refused(f"{many} {word[:80]!r}; their indices are: {there}")
    return found[0]


# ------------------------------------------------------------------ MPS


def mps_start(loop: Loop, request: Request) -> list[Document]:
    """Start MPS on GPUs. The question `mps` shows whether it runs."""
    return _each_mps(loop, request, lambda mps, uuids: mps.turn_on(uuids))


def mps_stop(loop: Loop, request: Request) -> list[Document]:
    """Stop MPS on GPUs. With `force`, end its clients; without it, refuse if there are any."""
    force = request.words.get("force") is True

    def stop(mps: Mps, uuids: list[str]) -> None:
        busy = [] if force else _mps_clients(loop, uuids)
        if busy:
            more = " and others are its clients" if len(busy) > 1 else " is its client"
            raise Refused(f"job {busy[0]}{more}; wait for them, or end them with --force")
        mps.turn_off(uuids, force)

    return _each_mps(loop, request, stop)


def _mps_clients(loop: Loop, uuids: list[str]) -> list[str]:
    """The labels of the jobs that are clients on these devices."""
    snapshot = loop.scheduler.snapshot
    clients = {
        occupant.job_id
        for each in snapshot.devices
        if each.device.uuid in uuids
        for occupant in each.occupants.values()
        if occupant.collocation is Collocation.MPS
    }
    return [job.label for job in map(snapshot.job, sorted(clients)) if job is not None]


def _each_mps(
    loop: Loop, request: Request, act: Callable[[Mps, list[str]], None]
) -> list[Document]:
    """Act on each GPU."""
    if not is_administrator(request.client.uid):
        raise Refused("only root and the daemon's own user may start or stop MPS")
    mps = loop.parts.devices.mps
    if mps is None:
        raise Refused("simulated GPUs model MPS only where mps.enabled is set")
    devices = loop.scheduler.snapshot.devices
    words = device_words(request.words)
    whole = [each.device for each in devices if each.device.kind is DeviceKind.GPU]
    chosen = [find_device(devices, word).device for word in words] or whole
    results: list[Document] = []
    for device in chosen:
        error = None
        try:
            act(mps, [device.uuid])
        except Refused as refusal:
            error = str(refusal)
        results.append({"index": device.index, "uuid": device.uuid, "error": error})
    loop.read_soon()
    return results
