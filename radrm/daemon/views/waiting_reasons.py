"""Why a job waits, in its user's words: one sentence, and a line for each GPU.

A reason is data: its rule, both numbers, a GPU. Rules add a clause (`needs 8 CPUs, 2 free`), which
the log and other messages quote. The sentences that people read about a waiting job are made here
only, and no code reads them again: what could help is found by trying (`way_out.py`).

Where all GPUs refuse by one rule, the sentence is about all of them, with the best number: `No GPU
has room now: needs 6.0G, at most 4.6G is free.` Else it names the GPUs of each reason. A GPU's line
names who holds what is missing. All users may know that (docs/security.md): jobs and their users,
and the unmanaged processes on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from radrm.core.constraints.nodes import CPUS, MEMORY
from radrm.core.records import AttemptMemory, DeviceProcess, Job, Refusal, by_task
from radrm.core.snapshot import DeviceSnapshot, Snapshot
from radrm.core.units import gpus_named, show_mib, show_seconds
from radrm.core.words import Quantity, ReservationKind

_PERMANENT = frozenset({"kind", "capacity", "vanished"})
"""Rules by which a device refuses a job at any time."""
_ASIDE = frozenset({"count", "rule", "backfill", "bound", "turn"})
"""Rules that do not tell what a job waits for, if others do."""
_SHARED = frozenset({"smact", "demand", "gain", "jobs", "slowdown", "sm-share", "recovering"})
"""Rules that are about the jobs on a device."""
_MOST_NAMED = 3
"""Holders of a device, or groups of devices, that a text names."""


def sentence(snapshot: Snapshot, job: Job, refusals: Sequence[Refusal]) -> str | None:
    """Why a job waits; None without a refusal."""
    if not refusals:
        return None
    general = [r for r in refusals if r.device is None and r.rule not in _ASIDE]
    if general:
        return of_server(snapshot, general[0])
    devices = [r for r in refusals if r.device is not None]
    devices = [r for r in devices if r.rule not in _PERMANENT] or devices
    if not devices:
        return as_sentence(refusals[0].message)
    count = next((r for r in refusals if r.rule == "count" and r.device is None), None)
    return as_sentence(_out_of_memory(job) + _of_devices(snapshot, job, devices, count))


def of_server(snapshot: Snapshot, refusal: Refusal) -> str:
    """The sentence of a reason that is about no GPU: of CPUs and host memory with who has them."""
    booked: list[tuple[float, str]] = []
    for job, attempt in snapshot.running if refusal.rule in (CPUS, MEMORY) else ():
        tasks = [its[0] for its in by_task(attempt.placement.shares).values()]
        cpus = sum(each.cpus or 0.0 for each in tasks)
        mib = sum(each.memory_mib or 0 for each in tasks)
        amount = cpus if refusal.rule == CPUS else mib
        if amount:
            shown = f"{cpus:g}" if refusal.rule == CPUS else show_mib(mib)
            booked.append((-amount, f"job {job.label} books {shown}"))
    named = _some(text for _, text in sorted(booked))
    return as_sentence(refusal.message + (f" ({', '.join(named)})" if named else ""))


def as_sentence(clause: str) -> str:
    """A clause as a sentence. A first word that is a name or an option keeps its case."""
    first = clause.split(maxsplit=1)[0] if clause.strip() else ""
    if first.rstrip(":,").isalpha():
        clause = clause[:1].upper() + clause[1:]
    return clause if clause[-1:] in ("", ".", "!", "?", "…") else f"{clause}."


def clause(snapshot: Snapshot, refusal: Refusal) -> str:
    """One reason, for a message that goes on; with its GPU, if it is about one."""
    found = snapshot.device(refusal.device) if refusal.device is not None else None
    return refusal.message if found is None else f"GPU {found.device.index}: {refusal.message}"


def _out_of_memory(job: Job) -> str:
    if not job.oom_count or not job.recovers:
        return ""
    times = "" if job.oom_count == 1 else f" {job.oom_count} times"
    return f"ran out of GPU memory{times}; "


# ------------------------------------------------------------------ all devices together


def _of_devices(
    snapshot: Snapshot, job: Job, devices: Sequence[Refusal], count: Refusal | None
) -> str:
    groups: dict[tuple[str, ...], list[Refusal]] = {}
    for each in devices:
        sums = each.rule in _SUMS and None not in (each.needed, each.available)
        alike = sums or each.rule in _BY_HOLDERS
        groups.setdefault((each.rule,) if alike else (each.rule, each.message), []).append(each)
    wanted = 1 if count is None or count.needed is None else int(count.needed)
    able = 0 if count is None or count.available is None else int(count.available)
    found, rules = list(groups.values()), {each.rule for each in devices}
    first, one = found[0][0], len(snapshot.devices) == 1
    if len(found) == 1 and wanted == 1 and first.rule in _SUMS and first.needed is not None:
        return f"{_LEADS[first.rule][one]}: {_summed(job, found[0], first.rule == 'memory')}"
    parts = [
        _held(snapshot, each)
        if each[0].rule in _BY_HOLDERS
        else f"{_gpus(snapshot, each)}: {_summed(job, each)}"
        for each in found[:_MOST_NAMED]
    ]
    left = sum(map(len, found[_MOST_NAMED:]))
    text = "; ".join(parts) + (f"; and {left} more GPU{'s' * (left != 1)}" if left else "")
    if rules == {"taken"} and not able:
        return f"{'the GPU is taken' if one else 'all GPUs are taken'} ({text})"
    if "not idle" in rules and not rules & _SUMS.keys() and not able:
        idle = "waits for an idle GPU" if wanted == 1 else f"waits for {wanted} idle GPUs"
        return f"{idle} ({text})"
    if wanted > 1:
        return f"needs {wanted} GPUs, {able} can take it now ({text})"
    return text if len(parts) == 1 else f"no GPU can take it now: {text}"


def _summed(job: Job, refusals: Sequence[Refusal], best: bool = False) -> str:
    """The numbers of devices that refuse by one rule: what is needed, and the best there is.

    `best`: say so even of one device.
    """
    first = refusals[0]
    make = _SUMS.get(first.rule)
    if make is None or first.needed is None or first.available is None:
        return first.message
    there = [each.available for each in refusals if each.available is not None]
    lower = first.rule == "smact"
    needed = (min if lower else max)(each.needed for each in refusals if each.needed is not None)
    most = "at most " if best or len(refusals) > 1 else ""
    return make(job, needed, min(there) if lower else max(there), most)


def _memory(job: Job, needed: float, there: float, most: str) -> str:
    return f"needs {_with_margin(job, needed)}, {most}{show_mib(there)} is free"


def _with_margin(job: Job, needed: float) -> str:
    asked = job.need_mib
    if asked is None:
        return f"{show_mib(needed)} (assumed)"
    return show_mib(needed) + (f" ({show_mib(asked)} and a margin)" if needed - asked >= 1 else "")


def _demand(job: Job, needed: float, there: float, most: str) -> str:
    said = job.estimate(Quantity.SMACT) is not None
    assumed = "" if said else " (assumed)"
    return f"needs SM activity of {needed:.2f}{assumed}, {most}{there:.2f} is left"


_SUMS: dict[str, Callable[[Job, float, float, str], str]] = {
    "memory": _memory,
    "demand": _demand,
    "smact": lambda job, needed, there, most: (
        f"needs SM activity of at most {needed:.2f}, {'the least is' if most else 'it is'} "
        f"{there:.2f}"
    ),
    "gain": lambda job, needed, there, most: (
        "one more job would cost the others more than it gains"
    ),
    "sm-share": lambda job, needed, there, most: (
        f"needs {needed:.0%} of the SMs, {most}{there:.0%} is not booked"
    ),
}
_BUSY = ("all GPUs are too busy", "the GPU is too busy")
_LEADS = {
    "memory": ("no GPU has room now", "no GPU has room now"),
    "demand": _BUSY,
    "smact": _BUSY,
    "gain": _BUSY,
    "sm-share": ("no GPU has enough SMs left", "the GPU has not enough SMs left"),
}
"""What is said before the numbers: of several GPUs, of the only one."""
_BY_HOLDERS = {"not idle": "{0} {1} on {2}", "taken": "{0} has {2} to itself"}


def _gpus(snapshot: Snapshot, refusals: Iterable[Refusal]) -> str:
    found = (snapshot.device(each.device) for each in refusals if each.device is not None)
    return gpus_named(each.device.index for each in found if each is not None)


def _held(snapshot: Snapshot, refusals: Sequence[Refusal]) -> str:
    """As `job 1 is on GPU 0, 2; GPU 1: it is reserved for job 7 in 5m00s`."""
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for each in refusals:
        found = snapshot.device(each.device) if each.device is not None else None
        here = [snapshot.job(job_id) for job_id in found.occupants] if found else []
        jobs = _some(job.label for job in here if job is not None)
        key = ("", next(_holders(snapshot, found), each.message) if found else each.message)
        if jobs:
            key = (f"job{'s' * (len(jobs) > 1)} {', '.join(jobs)}", each.rule)
        groups.setdefault(key, []).append(each)
    texts = [
        _BY_HOLDERS[rule].format(who, "are" if "," in who else "is", _gpus(snapshot, some))
        if who
        else f"{_gpus(snapshot, some)}: {rule}"
        for (who, rule), some in groups.items()
    ]
    return ", ".join(_some(texts))


# ------------------------------------------------------------------ one device


def of_device(snapshot: Snapshot, found: DeviceSnapshot, refusal: Refusal) -> str:
    """What a device has, and who holds what is missing: `4.6G free, job 12 (anna) reserves 18.0G`.

    `refusal`: why it does not take the job.
    """
    if refusal.rule == "memory" and refusal.available is not None:
        return ", ".join([f"{show_mib(refusal.available)} free", *_some(_holders(snapshot, found))])
    if refusal.rule in _BY_HOLDERS:
        text = ", ".join(_some(_holders(snapshot, found))) or refusal.message
        most = snapshot.settings.idle_unmanaged_mib
        in_use = not found.occupants and (found.unmanaged_mib or 0) > most
        return text + (f", more than core.idle_unmanaged_mib = {most}" if in_use else "")
    if refusal.rule in _SHARED and found.occupants:
        jobs = (snapshot.job(job_id) for job_id in found.occupants)
        beside = _some(_named(each) for each in jobs if each is not None)
        return f"{refusal.message}; beside {', '.join(beside)}"
    return refusal.message


def _some(names: Iterable[str]) -> list[str]:
    """The first few, and how many more there are."""
    found = list(names)
    more = len(found) - _MOST_NAMED
    return found[:_MOST_NAMED] + [f"and {more} more"] * (more > 0)


def _named(job: Job) -> str:
    return f"job {job.label} ({job.spec.user})"


def _holders(snapshot: Snapshot, found: DeviceSnapshot) -> Iterator[str]:
    """Who has memory of a device: the largest job first, then unmanaged processes. What equals the
    one before is not said again: `job 1 (ann) reserves 10.4G, job 2 (bob) 8.0G`."""
    before = ""
    for _, mib, who, verb in sorted(_shares(snapshot, found), key=lambda each: each[:2]):
        words = (who, verb if verb != before else "", show_mib(-mib) if mib else "")
        before = verb
        yield " ".join(filter(None, words))


def _shares(snapshot: Snapshot, found: DeviceSnapshot) -> Iterator[tuple[int, int, str, str]]:
    """Yield who has memory of a device: its place, the MiB (negative; 0: unknown), who, a verb."""
    used = {each.job_id: each.used_mib or 0 for each in _attempts(found)}
    for each in found.reservations:
        job = snapshot.job(each.job_id) if each.job_id is not None else None
        mib = found.device.capacity_mib if each.mib is None else each.mib
        whose = each.owner if job is None else _named(job)
        if each.kind.planned:
            at_s = each.since.boot_s - snapshot.now.boot_s
            when = f" in {show_seconds(at_s)}" if at_s > 0 else ""
            yield 2, -mib, f"reserved for {whose}{when}:", ""
        elif each.kind is ReservationKind.RUNNING and used.get(each.job_id or 0, 0) > mib:
            yield 0, -used[each.job_id or 0], whose, "uses"
        else:
            yield 0, -mib, whose, "reserves"
    rest = found.unmanaged_mib or 0
    for memory in _attempts(found):
        job = snapshot.job(memory.job_id)
        if job is not None and memory.used_mib and memory.job_id not in found.occupants:
            rest -= memory.used_mib
            yield 1, -memory.used_mib, f"{_named(job)}, without having it,", "uses"
    for process in found.reading.unmanaged if found.reading is not None else ():
        rest -= process.used_mib or 0
        if process.used_mib is None or process.used_mib > _FEW_MIB:
            verb = "is there" if process.used_mib is None else "uses"
            yield 1, -(process.used_mib or 0), _process(process), verb
    if rest > _FEW_MIB:
        yield 1, -rest, "unmanaged processes", "use"


_LONGEST_NAME = 32
_FEW_MIB = 64
"""An unmanaged process with less, as of a desktop, is not named."""


def _attempts(found: DeviceSnapshot) -> Sequence[AttemptMemory]:
    return (found.reading.attempts if found.reading is not None else None) or ()


def _process(process: DeviceProcess) -> str:
    words = (process.command or "").split()
    names = filter(
        None, (process.user, words[0].rsplit("/", 1)[-1][:_LONGEST_NAME] if words else None)
    )
    who = ", ".join(names)
    return f"unmanaged process {process.pid}" + (f" ({who})" if who else "")
