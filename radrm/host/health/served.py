"""The running daemon's reports: health of its GPUs, SM activity, MPS, limits of jobs, rules.

The documents are those of `radrm gpus --json` and `radrm mps status --json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from radrm.core.units import gpus_named
from radrm.host.health.finding import Finding, fail, ok, warn

Document = Mapping[str, Any]

_MOST = 4
"""The most things that one line lists; it counts the others."""
_BROKEN = ("unreadable", "unhealthy")
_MPS_BROKEN = ("fault", "silent", "down")
_INSTALL_DCGM = (
    "install DCGM: sudo apt-get install datacenter-gpu-manager, then sudo systemctl enable --now "
    "nvidia-dcgm (radrm help dgx, step 2)"
)
_WORKSTATION = re.compile(r"geforce|rtx|titan|quadro", re.IGNORECASE)
"""GPUs whose SM activity DCGM does not read."""


def health(devices: Sequence[Document], root: bool = False) -> Finding:
    """Whether the GPUs take jobs, and their faults and notes. `root`: only root may resume one."""
    name, resume = "GPU health", f"{'sudo ' * root}radrm resume"
    if not devices:
        return fail(name, "the daemon has no GPU", "see what nvidia-smi -L lists")
    broken = _by_cause((d, d["reason"] or d["state"]) for d in devices if d["state"] in _BROKEN)
    gone = [d for d in devices if d["state"] == "vanished"]
    if gone:
        broken.append(f"no longer there: {_gpus(gone)}")
    if broken:
        step = "see dmesg and nvidia-smi -q; radrm uses a GPU again when the driver reads it"
        if faulty := _numbers(d for d in devices if d["state"] == "unhealthy"):
            step = f"repair it (dmesg, nvidia-smi -q); then: {resume} {faulty}"
        return fail(name, _listed(broken), step)
    noted = _by_cause((d, note) for d in devices for note in d.get("notes") or ())
    if noted:
        return warn(name, _listed(noted), "see all notes: radrm gpus")
    drained = _by_cause(
        (d, d["reason"] or "no reason given") for d in devices if d["state"] == "drained"
    )
    if drained:
        back = f"{resume} {_numbers(d for d in devices if d['state'] == 'drained')}"
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
        return warn(name, few, "repair its source: radrm help dgx, step 2")
    sources: dict[str, list[Document]] = {}
    for device in whole:
        sources.setdefault(str(device["smact_source"] or "none yet"), []).append(device)
    rough = [d for d in whole if d.get("smact_coarse")]
    if rough:
        few = f"only estimated from utilization of {_gpus(rough)}; two or three jobs share a GPU"
        if all(_WORKSTATION.search(str(d.get("name"))) for d in rough):
            return ok(name, f"{few}; GPUs of this type offer no more")
        return warn(name, few, _INSTALL_DCGM)
    none = [d for d in whole if d["smact_source"] is None]
    if none:
        missing = f"not read of {_gpus(none)}; at most two or three jobs share a GPU without it"
        return warn(name, missing, "if the daemon has run for a minute: radrm help dgx, step 2")
    if len(sources) == 1:
        return ok(name, f"read by {next(iter(sources))}")
    each = "; ".join(f"by {source}: {_gpus(found)}" for source, found in sources.items())
    return ok(name, f"read {each}" if sources else "it is not needed for MIG instances")


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
    return _causes((index, "", cause) for row, cause in found for index in row["gpus"])


def launches(error: str | None) -> Finding:
    """Whether jobs can start; `error` is the daemon's reason if none can now."""
    name = "launches"
    if error is None:
        return ok(name, "jobs can start")
    again = "jobs wait until then, and radrm tries again by itself"
    return fail(name, f"the server cannot start jobs: {error}", again)


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


def unknown_gpus(unknown: object) -> Finding | None:
    """The finding if names in settings mean no present GPU; None if all do.

    `unknown`: by setting, as the daemon answers.
    """
    named = unknown if isinstance(unknown, dict) else {}
    found = [f"{_listed(map(repr, names))} ({key})" for key, names in named.items() if names]
    if not found:
        return None
    why = f"no GPU here is named {' or '.join(found)}, so that has no effect"
    return warn("GPU names", why, "compare with radrm gpus, and correct the configuration")


def limits(not_enforced: str | None) -> Finding:
    """Whether jobs are limited to the CPUs and host memory that they ask for.

    `not_enforced` is the daemon's reason if some are not.
    """
    name = "limits"
    if not_enforced is None:
        return ok(name, "--cpus and --memory limit jobs, and planners can set CPU shares")
    service = 'as a service, with systemd 254 or newer: sudo "$(command -v radrm)" service install'
    if not_enforced.startswith("CPUs"):
        not_enforced += "; no planner can set CPU shares"
    return warn(name, not_enforced, f"run the daemon {service}")


def isolation(why_not: str | None, configured: bool, root: bool) -> Finding:
    """Whether the kernel denies jobs the GPUs that they were not given.

    `why_not` is the reason if it does not. `configured` is `gpus.isolate`; `root`: the daemon has
    root's rights.
    """
    name = "isolation"
    if why_not is None:
        return ok(name, "a job can open only the GPUs that it was given")
    open_to_all = f"a job can open GPUs that it was not given: {why_not}"
    if not configured or not root:
        return ok(name, open_to_all)
    return warn(name, open_to_all, 'see radrm help security, "GPUs"; jobs run all the same')


# ------------------------------------------------------------------ words


def _by_cause(found: Iterable[tuple[Document, str]]) -> list[str]:
    return _causes((d["index"], d.get("profile") or "", cause) for d, cause in found)


def _causes(found: Iterable[tuple[int, str, str]]) -> list[str]:
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


def _numbers(devices: Iterable[Document]) -> str:
    """As commands take them: `0 3`."""
    return " ".join(str(index) for index in dict.fromkeys(d["index"] for d in devices))


def _gpus(devices: Iterable[Document]) -> str:
    return gpus_named(d["index"] for d in devices)


def _listed(things: Iterable[str]) -> str:
    found = list(things)
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more
