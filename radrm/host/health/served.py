"""What the daemon that runs tells of its GPUs: their health, SM activity, MPS, strangers.

The documents are those of `radrm gpus --json` and `radrm mps status --json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from radrm.core.units import show_mib, show_seconds
from radrm.host.health.finding import Finding, fail, ok, warn

Document = Mapping[str, Any]

_MOST = 4
"""Things said in one line; more are counted."""
_BROKEN = ("unreadable", "unhealthy")
_MPS_BROKEN = ("fault", "silent", "down")
_MOVED_S = 2.0
"""Seconds by which a clock may be set without anybody minding."""


def health(devices: Sequence[Document]) -> Finding:
    """Whether the GPUs take jobs, and what is known against them."""
    name = "GPU health"
    if not devices:
        return fail(name, "the daemon has no GPU", "see what nvidia-smi -L lists")
    broken = [f"{_gpu(d)}: {d['reason'] or d['state']}" for d in devices if d["state"] in _BROKEN]
    if broken:
        mend = "see to it (dmesg, nvidia-smi -q); jobs go elsewhere meanwhile. Then: radrm resume"
        return fail(name, _listed(broken), mend)
    gone = [_gpu(d) for d in devices if d["state"] == "vanished"]
    if gone:
        return warn(name, f"no longer there: {_listed(gone)}", "see what nvidia-smi -L lists")
    noted = {f"{_gpu(d)}: {note}": None for d in devices for note in d.get("notes") or ()}
    if noted:
        return warn(name, _listed(noted), "all of it: radrm gpus")
    drained = [f"{_gpu(d)} ({d['reason']})" for d in devices if d["state"] == "drained"]
    if drained:
        back = "when they may be used again: radrm resume GPU"
        return warn(name, f"drained, and take no new job: {_listed(drained)}", back)
    many = f"all {len(devices)} are" if len(devices) > 1 else "it is"
    return ok(name, f"{many} read and in order")


def sm_activity(devices: Sequence[Document], coarse: bool) -> Finding:
    """Where SM activity comes from, GPU by GPU. `coarse`: utilization may stand for it. A MIG
    instance has one job at a time, whose company nobody needs to judge."""
    name = "SM activity"
    whole = [d for d in devices if d["kind"] == "gpu" and d["state"] not in (*_BROKEN, "vanished")]
    troubles = [f"{_gpu(d)}: {d['smact_trouble']}" for d in whole if d.get("smact_trouble")]
    if troubles:
        alone = f"{_listed(troubles)}. Nobody is put beside others there"
        return warn(name, alone, "see to its source: docs/dgx.md, step 2")
    sources: dict[str, list[Document]] = {}
    for device in whole:
        sources.setdefault(str(device["smact_source"] or "nobody yet"), []).append(device)
    rough = [d for d in whole if d.get("smact_coarse")]
    if rough and not coarse:
        return warn(
            name,
            f"only utilization is read of {_gpus(rough)}, which is coarse, so jobs do not share",
            "install DCGM; or, to let them share by utilization: set core.use_coarse_smact = true",
        )
    none = [d for d in whole if d["smact_source"] is None]
    if none:
        missing = f"not read of {_gpus(none)}, so nobody is put beside others there"
        return warn(name, missing, "if the daemon runs for a minute already: docs/dgx.md, step 2")
    if len(sources) == 1:
        return ok(name, f"read by {next(iter(sources))}")
    each = "; ".join(f"by {source}: {_gpus(found)}" for source, found in sources.items())
    return ok(name, f"read {each}" if sources else "of MIG instances it is not needed")


def mps(rows: Sequence[Document]) -> Finding:
    """The control daemons that radrm keeps."""
    name = "MPS servers"
    wanted = [row for row in rows if row["wanted"]]
    broken = [
        f"GPU {_indices(row)}: {row['trouble'] or row['state']}"
        for row in wanted
        if row["state"] in _MPS_BROKEN
    ]
    if broken:
        waits = "jobs wait while radrm mends it; if it stays so: radrm mps status, and its log"
        return fail(name, _listed(broken), waits)
    troubled = [f"GPU {_indices(row)}: {row['trouble']}" for row in wanted if row["trouble"]]
    if troubled:
        return warn(name, _listed(troubled), "radrm mps status")
    if not wanted:
        return ok(name, "none is wanted")
    states = [f"GPU {_indices(row)}: {row['state']}" for row in wanted]
    return ok(name, _listed(states))


def strangers(devices: Sequence[Document], action: str, root: bool) -> Finding:
    """Processes that radrm did not start. `action` is `strangers.action`, `root` whether the
    daemon runs as root."""
    name = "strangers"
    if action == "signal" and not root:
        return warn(
            name,
            "strangers.action = 'signal', and the daemon is not root: they are only told of",
            "run radrm as root (its service), or set strangers.action = 'warn'",
        )
    spoken_of = action in ("warn", "signal")  # then the others are spared
    seen = [(d, s) for d in devices for s in d.get("strangers") or ()]
    seen = [(d, s) for d, s in seen if s.get("step") or not spoken_of]
    if not seen:
        return ok(name, "nothing on the GPUs that radrm did not start")
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
        "warn": "told of, as configured",
        "drain": "GPUs of which they use much take no new job, as configured",
        "signal": "they get TERM when their time is over, as configured",
    }
    return warn(name, f"{words}; {effect.get(action, action)}", "whose they are: radrm gpus")


def rules(troubles: Sequence[str]) -> Finding:
    """Rules (of third parties, say) that have failed and rest."""
    name = "rules"
    if not troubles:
        return ok(name, "order, policy, planner and recovery work")
    step = "the daemon's log has it, too; report it to whoever wrote the rule, or choose another"
    return warn(name, _listed(troubles), step)


def clock_moved(moved_s: float | None) -> Finding | None:
    """By how much the daemon's clock was set since it started; None where that is no news."""
    if moved_s is None or abs(moved_s) < _MOVED_S:
        return None
    far = f"{show_seconds(abs(moved_s))} {'forward' if moved_s > 0 else 'back'}"
    return warn(
        "clock",
        f"it was set {far} since the daemon started; what is shown of earlier jobs is off by that",
        "see what sets it: timedatectl; how long jobs run is not concerned",
    )


# ------------------------------------------------------------------ words


def _gpu(device: Document) -> str:
    profile = f" {device['profile']}" if device.get("profile") else ""
    return f"GPU {device['index']}{profile}"


def _gpus(devices: Iterable[Document]) -> str:
    return f"GPU {', '.join(map(str, sorted({d['index'] for d in devices})))}"


def _indices(row: Document) -> str:
    return ", ".join(map(str, row["gpus"]))


def _listed(things: Iterable[str]) -> str:
    found = list(things)
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more
