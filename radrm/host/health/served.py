"""How findings name GPUs: one line for a cause, however many GPUs it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from radrm.core.units import gpus_named, show_booked, show_mib, show_seconds
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.health.gpus import only_estimated


def by_cause(found: Iterable[tuple[int, str, str]]) -> list[str]:
    """Return `GPU 0-7: cause` for each cause, in the order in which they come.

    Each is a GPU's index, the profile of its MIG instance ("" for a whole GPU), and the cause.
    """
    indices: dict[tuple[str, str], list[int]] = {}
    for index, profile, cause in found:
        indices.setdefault((profile, cause), []).append(index)
    return [
        f"{gpus_named(its)}{profile and ' '}{profile}: {cause}"
        for (profile, cause), its in indices.items()
    ]


# ------------------------------------------------------------------
# The running daemon's reports about its GPUs: health, SM activity, MPS, unmanaged processes.
#
# The documents are those of `radrm gpus --json` and `radrm mps status --json`.


Document = Mapping[str, Any]

_MOST = 4
"""The most things that one line lists; it counts the others."""
_BROKEN = ("unreadable", "unhealthy")
_MPS_BROKEN = ("fault", "silent", "down")
_MOVED_S = 2.0
"""Seconds by which the clock may be set before it is reported."""


def health(devices: Sequence[Document]) -> Finding:
    """Whether the GPUs take jobs, and their faults and notes."""
    name = "GPU health"
    if not devices:
        return fail(name, "the daemon has no GPU", "see what nvidia-smi -L lists")
    broken = _by_cause((d, d["reason"] or d["state"]) for d in devices if d["state"] in _BROKEN)
    if broken:
        repair = "repair it (dmesg, nvidia-smi -q), then: radrm resume; other GPUs take jobs"
        return fail(name, _listed(broken), repair)
    gone = [d for d in devices if d["state"] == "vanished"]
    if gone:
        return warn(name, f"no longer there: {_gpus(gone)}", "see what nvidia-smi -L lists")
    noted = _by_cause((d, note) for d in devices for note in d.get("notes") or ())
    if noted:
        return warn(name, _listed(noted), "see all notes: radrm gpus")
    drained = _by_cause(
        (d, d["reason"] or "no reason given") for d in devices if d["state"] == "drained"
    )
    if drained:
        back = "to use them again: radrm resume GPU"
        return warn(name, f"drained, and take no new job: {_listed(drained)}", back)
    many = f"all {len(devices)} are" if len(devices) > 1 else "it is"
    return ok(name, f"{many} read and in order")


def sm_activity(devices: Sequence[Document]) -> Finding:
    """The source of SM activity for each GPU.

    A MIG instance runs one job at a time, so it needs no SM activity.
    """
    name = "SM activity"
    whole = [d for d in devices if d["kind"] == "gpu" and d["state"] not in (*_BROKEN, "vanished")]
    errors = _by_cause((d, d["smact_error"]) for d in whole if d.get("smact_error"))
    if errors:
        few = f"{_listed(errors)}; at most two or three jobs share a GPU without it"
        return warn(name, few, "repair its source: docs/dgx.md, step 2")
    sources: dict[str, list[Document]] = {}
    for device in whole:
        sources.setdefault(str(device["smact_source"] or "none yet"), []).append(device)
    rough = [d for d in whole if d.get("smact_coarse")]
    if rough:
        return only_estimated(name, f" of {_gpus(rough)}", [str(d.get("name")) for d in rough])
    none = [d for d in whole if d["smact_source"] is None]
    if none:
        missing = f"not read of {_gpus(none)}; at most two or three jobs share a GPU without it"
        return warn(name, missing, "if the daemon has run for a minute: docs/dgx.md, step 2")
    if len(sources) == 1:
        return ok(name, f"read by {next(iter(sources))}")
    each = "; ".join(f"by {source}: {_gpus(found)}" for source, found in sources.items())
    return ok(name, f"read {each}" if sources else "it is not needed for MIG instances")


def memory_caps(devices: Sequence[Document], why_not: Mapping[str, str]) -> Finding | None:
    """Whether the driver caps the GPU memory of jobs; None where all GPUs are MIG instances.

    `why_not` has the reason for each GPU on which it does not, by UUID.
    """
    name = "memory caps"
    whole = [d for d in devices if d["kind"] == "gpu"]
    causes = {d["uuid"]: why_not[d["uuid"]] for d in whole if d["uuid"] in why_not}
    if not whole:
        return None
    if not causes:
        return ok(name, "the driver caps the memory of jobs that share a GPU without MPS")
    if len(causes) == len(whole) and len(set(causes.values())) == 1:
        return ok(name, f"the driver caps no GPU memory: {next(iter(causes.values()))}")
    uncapped = _by_cause((d, causes[d["uuid"]]) for d in whole if d["uuid"] in causes)
    return ok(name, f"the driver caps the memory of some GPUs only; {_listed(uncapped)}")


def mps(rows: Sequence[Document]) -> Finding:
    """Whether the control daemons that radrm keeps work."""
    name = "MPS servers"
    wanted = [row for row in rows if row["wanted"]]
    broken = _of_rows(
        (row, row["fault"] or row["state"]) for row in wanted if row["state"] in _MPS_BROKEN
    )
    if broken:
        waits = "jobs wait while radrm repairs it; if it stays so: radrm mps status, and the log"
        return fail(name, _listed(broken), waits)
    faulty = _of_rows((row, row["fault"]) for row in wanted if row["fault"])
    if faulty:
        return warn(name, _listed(faulty), "see: radrm mps status")
    if not wanted:
        return ok(name, "none is wanted")
    return ok(name, _listed(_of_rows((row, row["state"]) for row in wanted)))


def _of_rows(found: Iterable[tuple[Document, str]]) -> list[str]:
    return by_cause((index, "", cause) for row, cause in found for index in row["gpus"])


def unmanaged(devices: Sequence[Document], action: str, root: bool) -> Finding:
    """The processes that radrm did not start. `action` is `unmanaged.action`; `root`: the daemon
    runs as root."""
    name = "unmanaged"
    if action == "signal" and not root:
        return warn(
            name,
            "unmanaged.action = 'signal', and the daemon is not root: it only warns about them",
            "run radrm as root (its service), or set unmanaged.action = 'warn'",
        )
    # With these actions radrm lists only processes that it has warned about or signalled.
    has_steps = action in ("warn", "signal")
    seen = [(d, s) for d in devices for s in d.get("unmanaged") or ()]
    seen = [(d, s) for d, s in seen if s.get("step") or not has_steps]
    if not seen:
        return ok(name, "no unmanaged process to report")
    found = {s["pid"]: s for _, s in seen}
    where = _gpus([d for d, _ in seen])
    users = sorted({s["user"] for s in found.values() if s.get("user")})
    used_mib = sum(s.get("used_mib") or 0 for _, s in seen)
    whose = f" of {_listed(users)}" if users else ""
    many = f"{len(found)} process{'es' if len(found) > 1 else ''}{whose} on {where}"
    words = f"{many}, with {show_mib(used_mib)}, that radrm did not start"
    if action == "count":
        return ok(name, f"{words}; counted, as configured")
    effect = {
        "warn": "radrm warns about them, as configured",
        "drain": "GPUs on which they use much take no new job, as configured",
        "signal": "they get TERM when their time is over, as configured",
    }
    return warn(name, f"{words}; {effect.get(action, action)}", "see whose they are: radrm gpus")


def nodes(documents: Sequence[Document]) -> Finding:
    """The CPUs and the host memory that jobs have booked."""
    name = "CPUs and memory"
    over = [d for d in documents if _overbooked(d)]
    if over:
        less = f"{_booked(over[0])}; no job that asks for more can start until others have ended"
        return warn(name, less, "see [node] in docs/configuration.md: jobs may have what it says")
    return ok(name, "; ".join(map(_booked, documents)) or "unknown, so they limit no job")


def _overbooked(node: Document) -> bool:
    cpus, memory_mib = node["node_cpus"], node["node_memory_mib"]
    more_cpus = cpus is not None and node["node_cpus_booked"] > cpus
    return more_cpus or (memory_mib is not None and node["node_memory_booked_mib"] > memory_mib)


def _booked(node: Document) -> str:
    return show_booked(
        node["node_cpus_booked"],
        node["node_cpus"],
        node["node_memory_booked_mib"],
        node["node_memory_mib"],
    )


def rules(errors: Sequence[str]) -> Finding:
    """The rules (of third parties, for example) that have failed and rest."""
    name = "rules"
    if not errors:
        return ok(name, "order, policy, planner and recovery work")
    step = "see the daemon's log; report it to the rule's author, or choose another rule"
    return warn(name, _listed(errors), step)


def sharing(learned: Sequence[Document]) -> Finding | None:
    """What sharing costs here as learned; None if nothing was."""
    texts = [str(each["text"]).removeprefix("sharing ") for each in learned]
    return ok("sharing", _listed(texts)) if texts else None


def gpu_order(unknown: Sequence[str]) -> Finding | None:
    """The finding if names in `gpus.order` mean no present GPU; None if all do."""
    if not unknown:
        return None
    return warn(
        "GPU order",
        f"no GPU here is named {_listed(map(repr, unknown))} (gpus.order), so that has no effect",
        "compare with radrm gpus, and correct [gpus] order in the configuration",
    )


def clock_moved(moved_s: float | None) -> Finding | None:
    """The finding if the clock was set since the daemon started; None if it was not.

    `moved_s` is by how many seconds it was set, None if unknown.
    """
    if moved_s is None or abs(moved_s) < _MOVED_S:
        return None
    far = f"{show_seconds(abs(moved_s))} {'forward' if moved_s > 0 else 'back'}"
    return warn(
        "clock",
        f"it was set {far} since the daemon started; the times of earlier jobs are off by that",
        "see what sets it: timedatectl; durations of jobs stay right",
    )


# ------------------------------------------------------------------ words


def _by_cause(found: Iterable[tuple[Document, str]]) -> list[str]:
    return by_cause((d["index"], d.get("profile") or "", cause) for d, cause in found)


def _gpus(devices: Iterable[Document]) -> str:
    return gpus_named(d["index"] for d in devices)


def _listed(things: Iterable[str]) -> str:
    found = list(things)
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more
