"""What root and the daemon's own user may order about devices, and about MPS on them."""

from __future__ import annotations

from collections.abc import Callable

from radrm.core import events as ev
from radrm.core.records import Device
from radrm.core.words import Collocation, DeviceKind
from radrm.daemon.answers.chosen import is_master
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.views.asked import device_words, reason_word
from radrm.daemon.views.documents import Document
from radrm.errors import Refused
from radrm.host.mps.service import Mps

# ------------------------------------------------------------------ devices


def drain(loop: Loop, request: Request) -> list[Document]:
    """Have devices take no new job; what runs on them runs on."""
    return _each_device(loop, request, True, reason_word(request.words))


def resume(loop: Loop, request: Request) -> list[Document]:
    """Have drained devices take jobs again."""
    return _each_device(loop, request, False, None)


def _each_device(loop: Loop, request: Request, drain: bool, reason: str | None) -> list[Document]:
    if not is_master(request.client.uid):
        raise Refused("only root and the daemon's own user may drain or resume devices")
    ledgers = loop.scheduler.state.ledgers
    devices = sorted((le.device for le in ledgers.values()), key=lambda d: d.index)
    wanted = device_words(request.words)
    every = [d.uuid for d in devices if drain or ledgers[d.uuid].drained is not None]
    results: list[Document] = []
    events: list[ev.Event] = []
    for word in wanted or every:
        try:
            device = _device(devices, word)
            ledger = ledgers[device.uuid]
            before = ledger.drained
            faulty = ledger.reading is not None and ledger.reading.fault is not None
            if not drain and before is None and not faulty:
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


def _device(devices: list[Device], word: str) -> Device:
    """By index, UUID, or the beginning of one that no other has."""
    by_index = [d for d in devices if str(d.index) == word]
    found = by_index or [d for d in devices if len(word) >= 4 and d.uuid.startswith(word)]
    if len(found) != 1:
        there = ", ".join(str(d.index) for d in devices) or "none"
        many = "several GPUs are called" if found else "there is no GPU"
        raise Refused(f"{many} {word[:80]!r}; their indices are: {there}")
    return found[0]


# ------------------------------------------------------------------ MPS


def mps_start(loop: Loop, request: Request) -> list[Document]:
    """Have MPS serve GPUs; `mps` tells what has become of it."""
    return _each_mps(loop, request, lambda mps, uuids: mps.turn_on(uuids))


def mps_stop(loop: Loop, request: Request) -> list[Document]:
    """Have MPS serve GPUs no more. With `force` their clients are ended."""
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
    state = loop.scheduler.state
    holdings = [h for uuid in uuids for h in state.ledgers[uuid].holdings.values()]
    clients = {h.job_id for h in holdings if h.collocation is Collocation.MPS}
    return [state.jobs[job_id].label for job_id in sorted(clients)]


def _each_mps(
    loop: Loop, request: Request, act: Callable[[Mps, list[str]], None]
) -> list[Document]:
    """Where one control daemon serves all GPUs, they are one; else each is by itself."""
    if not is_master(request.client.uid):
        raise Refused("only root and the daemon's own user may start or stop MPS")
    mps = loop.parts.site.mps
    if mps is None:
        raise Refused("software GPUs model MPS only where mps.enabled is set")
    ledgers = loop.scheduler.state.ledgers
    devices = sorted((le.device for le in ledgers.values()), key=lambda d: d.index)
    words = device_words(request.words)
    whole = [d for d in devices if d.kind is DeviceKind.GPU]
    chosen = [_device(devices, word) for word in words] or whole
    groups = [chosen] if mps.spans else [[device] for device in chosen]
    results: list[Document] = []
    for group in groups:
        error = None
        try:
            act(mps, [device.uuid for device in group])
        except Refused as refusal:
            error = str(refusal)
        results += [{"index": d.index, "uuid": d.uuid, "error": error} for d in group]
    loop.read_soon()
    return results
