"""The JSON documents of devices, and the server in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radrm.core.records import Device, DeviceProcess, Instant, Job
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.core.units import show_booked, show_mib, show_seconds
from radrm.core.words import Collocation, JobState
from radrm.daemon.views.reservations import on_device, reservations_on, users_on
from radrm.daemon.views.sizes import caps_on
from radrm.documents.jobs import GpuUse
from radrm.documents.server import Gpu, GpuProcess, Near, Process


def are_simulated(snapshot: Snapshot) -> bool:
    """Whether the server's GPUs are simulated."""
    return any(found.device.simulated for found in snapshot.devices)


def device_documents(snapshot: Snapshot, now: Instant) -> list[Gpu]:
    """All devices, by node and index."""
    return [_document(snapshot, found, now) for found in snapshot.devices]


def _document(snapshot: Snapshot, found: DeviceSnapshot, now: Instant) -> Gpu:
    device, reading = found.device, found.reading
    unreadable = found.unreadable(now.boot_s)
    known = reading is not None and reading.error is None
    condition = _condition(found, snapshot.settings.idle_unmanaged_mib)
    jobs = [job for job in map(snapshot.job, sorted(found.occupants)) if job is not None]
    use = next((each for each in snapshot.nodes if each.node.name == device.node), None)
    misplaced = misplaced_on(snapshot, found) if known else ()
    return Gpu(
        uuid=device.uuid,
        index=device.index,
        name=device.name,
        kind=device.kind.value,
        node=device.node,
        total_mib=device.total_mib,
        unified=device.unified,
        simulated=device.simulated,
        used_mib=reading.used_mib if known and reading else None,
        free_mib=found.free_mib if known else None,
        reserved_mib=found.reserved_mib,
        unmanaged_mib=_unmanaged_mib(found, misplaced) if known else None,
        smact=reading.smact if known and reading else None,
        smact_source=reading.smact_source if known and reading else None,
        smact_error=reading.smact_error if known and reading else None,
        smact_coarse=reading.smact_coarse if known and reading else None,
        power_w=reading.power_w if known and reading else None,
        energy_split=_energy_split(found) if known else None,
        jobs=tuple(job.id for job in jobs),
        labels=tuple(job.label for job in jobs),
        users=tuple(job.spec.user for job in jobs),
        jobs_mib=_jobs_mib(snapshot, found) if known else {},
        state=condition,
        profile=device.profile,
        parent=device.parent,
        near=_near(device),
        sms=device.sms,
        sm_mhz=device.sm_mhz,
        reason=_why_drained(found)
        or (unreadable if condition in ("unreadable", "unhealthy") else None)
        or _reserved(snapshot, found, now)
        or (reading.smact_error if reading else None)
        or (_yields(snapshot, found.unmanaged_mib) if known else None),
        notes=tuple(reading.notes) if reading else (),
        unmanaged=tuple(map(_unmanaged, reading.unmanaged)) if reading else (),
        misplaced=misplaced,
        mps=device.mps,
        caps=tuple(caps_on(device)),
        sm_booked=_sm_booked(snapshot, jobs),
        reservations=tuple(reservations_on(snapshot, found, now)),
        reserved_for=tuple(users_on(snapshot, found, now)),
        node_cpus=use.node.cpus if use else None,
        node_cpus_booked=use.cpus_booked if use else None,
        node_cpus_free=use.cpus_free if use else None,
        node_memory_mib=use.node.memory_mib if use else None,
        node_memory_booked_mib=use.memory_booked_mib if use else None,
        node_memory_free_mib=use.memory_free_mib if use else None,
    )


def _jobs_mib(snapshot: Snapshot, found: DeviceSnapshot) -> dict[str, int]:
    """The memory in use by each job on a device, by label, as last read; without those of which
    it is unknown."""
    memory: dict[str, int] = {}
    for each in (found.reading.attempts if found.reading else None) or ():
        job = snapshot.job(each.job_id)
        if job is not None and each.used_mib is not None and each.job_id in found.occupants:
            memory[job.label] = each.used_mib
    return memory


def _unmanaged(found: DeviceProcess) -> Process:
    return Process(pid=found.pid, used_mib=found.used_mib, user=found.user, command=found.command)


def processes_on(
    snapshot: Snapshot, uuid: str, sees: Callable[[Job], bool]
) -> tuple[GpuProcess, ...] | None:
    """All processes on a device, those with most memory first; None if they are not known.

    `sees(job)` says whether the reader may see the command lines of a job.
    """
    found = snapshot.device(uuid)
    reading = found.reading if found is not None else None
    if found is None or reading is None or reading.error or reading.attempts is None:
        return None
    here = {
        (each.job_id, each.serial)
        for each in reading.attempts
        if each.job_id in found.occupants or each.shows_use(found.device)
    }
    shown = [each for each in reading.processes if each.attempt is None or each.attempt in here]
    alone = reading.smact if len(shown) == 1 else None
    return tuple(_process(snapshot, each, alone, sees) for each in shown)


def _process(
    snapshot: Snapshot, found: DeviceProcess, alone: float | None, sees: Callable[[Job], bool]
) -> GpuProcess:
    """The document of a process. `alone`: the SM activity of a device on which it is alone."""
    job = snapshot.job(found.attempt[0]) if found.attempt is not None else None
    hidden = found.attempt is not None and (job is None or not sees(job))
    kind = "job" if found.attempt is not None else "mps" if found.mps else "unmanaged"
    return GpuProcess(
        pid=found.pid,
        kind=kind,
        job=job.label if job is not None else None,
        user=job.spec.user if job is not None else found.user,
        used_mib=found.used_mib,
        smact=found.smact if found.smact is not None else alone,
        command=None if hidden else found.command,
    )


def misplaced_on(snapshot: Snapshot, found: DeviceSnapshot) -> tuple[GpuUse, ...]:
    """The live jobs that a device's last reading shows on it although they do not hold it."""
    uses = []
    for memory in (found.reading.attempts if found.reading else None) or ():
        job = snapshot.job(memory.job_id)
        attempt = snapshot.live_attempt(memory.job_id, memory.serial)
        if job is None or attempt is None or found.device.uuid in attempt.devices:
            continue
        if memory.shows_use(found.device):
            uses.append(
                GpuUse(
                    job=job.label,
                    user=job.spec.user,
                    uuid=found.device.uuid,
                    index=found.device.index,
                    used_mib=memory.used_mib,
                )
            )
    return tuple(uses)


def _unmanaged_mib(found: DeviceSnapshot, misplaced: Sequence[GpuUse]) -> int | None:
    """The memory of processes that radrm did not start: jobs that are not given the device count
    as used there, but are no such processes."""
    if found.unmanaged_mib is None:
        return None
    return max(0, found.unmanaged_mib - sum(each.used_mib or 0 for each in misplaced))


def _near(device: Device) -> Near:
    """The groups of near devices that a device is in, and the CPUs near it."""
    return Near(
        nvlink_group=device.nvlink_group,
        nvlinks={str(peer): count for peer, count in device.nvlinks},
        pcie_switch=device.pcie_switch,
        host_bridge=device.host_bridge,
        numa_node=device.numa_node,
        numa_cpus=device.numa_cpus,
        socket_cpus=device.socket_cpus,
    )


def _sm_booked(snapshot: Snapshot, jobs: Sequence[Job]) -> float:
    """The part of a device's SMs that its MPS clients have booked (`--sm-share`)."""
    live = ((job.spec.sm_share, snapshot.attempt(job.id)) for job in jobs)
    return sum(
        share
        for share, attempt in live
        if share and attempt and attempt.placement.collocation is Collocation.MPS
    )


def _why_drained(found: DeviceSnapshot) -> str | None:
    """Why a device is drained, and what is wrong with it meanwhile; None if it is not drained."""
    if found.drained is None:
        return None
    trouble = (found.reading.error or found.reading.fault) if found.reading else None
    return "; ".join(filter(None, (found.drained, trouble)))


def _reserved(snapshot: Snapshot, found: DeviceSnapshot, now: Instant) -> str | None:
    """For whom a device is reserved now; None for nobody."""
    for each in on_device(snapshot, found, now):
        if each.start_s <= now.wall_s:
            return f"reserved for {each.label} for {show_seconds(each.end_s - now.wall_s)} more"
    return None


def _energy_split(found: DeviceSnapshot) -> str | None:
    """How the jobs on a device divide its energy: `activity` or `equal`; None below two jobs."""
    if found.reading is None or len(found.occupants) < 2:
        return None
    shown = any(each.smact is not None for each in found.reading.attempts or ())
    return "activity" if shown else "equal"


def _booked(snapshot: Snapshot) -> list[tuple[float, float | None, int, int | None]]:
    return [
        (use.cpus_booked, use.node.cpus, use.memory_booked_mib, use.node.memory_mib)
        for use in snapshot.nodes
    ]


def _condition(found: DeviceSnapshot, idle_unmanaged_mib: float) -> str:
    """The state of a device in one word. `others`: only unmanaged processes use it, and more than
    an idle device's monitor or desktop would."""
    if found.vanished:
        return "vanished"
    if found.drained is not None:
        return "drained"
    if found.reading is None or found.reading.error is not None:
        return "unreadable"
    if found.reading.fault is not None:
        return "unhealthy"
    if found.occupants:
        return "busy"
    return "others" if (found.unmanaged_mib or 0) > idle_unmanaged_mib else "idle"


def _yields(snapshot: Snapshot, unmanaged_mib: int | None) -> str | None:
    """Why a device is left to unmanaged processes; None if it is not."""
    settings = snapshot.settings
    if not settings.yield_to_unmanaged or (unmanaged_mib or 0) <= settings.idle_unmanaged_mib:
        return None
    return f"takes no new job: others use {show_mib(unmanaged_mib)} of it"


def summary(snapshot: Snapshot) -> str:
    """One line on the whole server."""
    running = sum(1 for job, _ in snapshot.running if job.state is JobState.RUNNING)
    there = [each for each in snapshot.devices if not each.vanished]
    free = sum(each.free_mib or 0 for each in there)
    return (
        f"{len(there)} device(s), {show_mib(free)} free, "
        f"{running} running, {snapshot.waiting} waiting"
        + "".join(f", {show_booked(*each)}" for each in _booked(snapshot))
    )
