"""All facts of one job, as pairs of a name and a line: what its card shows."""

from __future__ import annotations

from radrm.client.amounts import (
    SCALED,
    number,
    sane_mib,
    show_joules,
    show_smact,
    shown_duration,
    shown_smact,
    span,
    starts_in,
    when,
)
from radrm.client.text import FINAL, LIVE, WAITING, notice_lines
from radrm.client.words.jobs import (
    advance,
    age_s,
    params_text,
    requested_size,
    size_text,
    warned,
    where,
    why,
)
from radrm.core.units import show_mib, show_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from radrm.client.text import Document

    Fact = tuple[str, str]
    """A name and a line."""


def facts(
    job: Document,
    now: float,
    index: Mapping[str, int],
    attempts: Sequence[Document] = (),
    error: str = "",
) -> Iterator[Fact]:
    """Yield the facts of a job. `attempts` are those of `explain`; `index`: the GPUs' indices;
    `error`: the last line of its standard error."""
    yield from _who(job, now, error)
    yield from given(job)
    yield from _asked(job)
    yield from _got(job, index, attempts)
    yield from _times(job, now)
    yield from _runs(job, now)
    for line in notice_lines(job):
        yield "notice", line


def lasted(job: Document) -> str:
    """How long a job has been in its state: `for 5m`, `after 1h10m`."""
    age = age_s(job)
    spent = "an unknown time" if age is None else show_seconds(age)
    if job["state"] in FINAL:
        return f"after {spent}" if job["started_at"] is not None else "before it started"
    return f"for {spent}"


def _who(job: Document, now: float, error: str = "") -> Iterator[Fact]:
    """Who the job is, and its state. `error`: the last line of its standard error."""
    code = "" if job["exit_code"] is None else f"exit code {job['exit_code']}"
    said = ", ".join(filter(None, (f"{job['state']} {lasted(job)}", code)))
    yield "state", f"{said}{', held' if job.get('held') else ''}"
    for each in job.get("warnings") or ():
        yield "warning", warned(each, now)
    for use in job.get("misplaced") or ():
        much = "" if use["used_mib"] is None else f"{show_mib(use['used_mib'])} of "
        yield "uses", f"{much}GPU {use['index']}, which it was not given"
    reason = "" if job.get("warnings") else why(job, now=now)
    if error or reason not in ("", code):
        yield "why", ": ".join(filter(None, (reason, error)))
    if job.get("left"):
        yield "left", left(job)
    if job["position"] is not None:
        yield "position", f"{job['position']} in the {job['queue'] or 'main'} queue"
    for other in job.get("after") or []:
        yield "waits for", f"job {other['job']} to {_ENDS[other['condition']]}"
    if job.get("params"):
        yield "params", params_text(job)
    yield "user", job["user"]
    yield "ticket", job["ticket"]
    if job.get("comment"):
        yield "comment", job["comment"]


GIVEN = ("command", "script", "folder", "options", "submit_host", "environment")
"""The fields of a job that only its user and administrators are shown."""
_MOST_WORDS = 1000
"""Characters of a command, or of options."""
_MOST_RUNS = 3


def given(job: Document) -> Iterator[Fact]:
    """Yield what its user gave: command or script, folder, options. Others are not shown it."""
    words, script = job.get("command") or (), job.get("script")
    if words:
        yield ("script" if script or words[0] == "-" else "command"), _line(words)
    if job.get("folder"):
        yield "folder", job["folder"]
    if job.get("options"):
        yield "options", _line(job["options"])
    found = job.get("environment")
    if found and found["kind"] != "none":
        yield "environment", " ".join(filter(None, (found["kind"], found["name"])))


def _line(words: Sequence[str]) -> str:
    """Words as a shell takes them, in one line."""
    if all(word and all(c.isalnum() or c in "-_=/.,:+@%" for c in word) for word in words):
        text = " ".join(words)
    else:
        from shlex import join  # most words need no quotes

        text = join(words)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}…"


def _runs(job: Document, now: float) -> Iterator[Fact]:
    """Yield which run this is, if it is not the first, and how the latest earlier ones ended."""
    earlier = job.get("earlier") or ()
    if earlier:
        yield "run", f"{job['run']}, after {len(earlier)} that ended"
    for each in earlier[-_MOST_RUNS:]:
        lasted = "" if each["ran_s"] is None else f" after {show_seconds(each['ran_s'])}"
        why = f": {each['reason']}" if each["reason"] else ""
        ended = "" if each["ended_at"] is None else f", {when(each['ended_at'], now)}"
        yield f"run {each['run']}", f"{each['state']}{lasted}{why}{ended}"


def left(job: Document) -> str:
    """What still ran when the job's main process had ended, and how to keep it."""
    what = f"stopped, as it was still running when the script ended: {job['left']}"
    return f"{what}; to keep it, write `wait` at the end of the script, or use --background=wait"


def _asked(job: Document) -> Iterator[Fact]:
    asked = [requested_size(job)]
    if job.get("gpu_types"):
        asked[0] += f" of type {' or '.join(job['gpu_types'])}"
    for key, verb in (("prefer_gpus", "prefers"), ("avoid_gpus", "avoids")):
        if job.get(key):
            asked.append(f"{verb} {', '.join(job[key])}")
    if job.get("max_slowdown") is not None:
        asked.append(f"slowdown at most {job['max_slowdown']:g}")
    if job.get("sm_share") is not None:
        asked.append(f"{job['sm_share']:.0%} of the SMs")
    if job.get("cpus") is not None and not job.get("roles"):
        asked.append(f"{job['cpus']:g} CPU{'' if job['cpus'] == 1 else 's'}")
    if job.get("memory_mib") is not None:
        most = job.get("memory_max_mib") or job["memory_mib"]
        up_to = f" to {show_mib(most)}" if most > job["memory_mib"] else ""
        asked.append(f"{show_mib(job['memory_mib'])}{up_to} of host memory")
    if job.get("time_limit_s") is not None:
        asked.append(f"time limit {show_seconds(job['time_limit_s'])}")
    if job.get("priority"):
        asked.append(f"priority {job['priority']}")
    if job.get("signal"):
        asked.append(f"signal {_signal(job['signal'])}")
    yield "requested", ", ".join(asked)
    if job.get("unknown_gpus"):
        yield "not here", ", ".join(job["unknown_gpus"])
    if job.get("not_enforced"):
        yield "limits", job["not_enforced"]
    yield from estimated(job)


def estimated(job: Document) -> Iterator[Fact]:
    """Yield the estimated memory and its source, its assumptions, or the reason for no estimate."""
    if job["estimate_source"] is not None:
        mib, upper_mib = sane_mib(job["estimate_mib"]), sane_mib(job.get("estimate_upper_mib"))
        what = "a whole GPU" if mib is None else f"{show_mib(mib)} per GPU"
        if mib is not None and upper_mib is not None and upper_mib > mib:
            what += f", at most {show_mib(upper_mib)}"
        if job.get("gpu_memory_max_mib") is not None:
            what += f", limit {show_mib(job['gpu_memory_max_mib'])}"
        source = job["estimate_source"]
        yield "estimate", f"{what} ({source if source == 'declared' else f'from {source}'})"
    if job.get("estimate_basis"):
        yield "basis", job["estimate_basis"]
    for guess in job.get("estimate_guesses") or ():
        yield "assumed", guess
    for note in job.get("estimate_notes") or ():
        yield ("no estimate" if job["estimate_source"] is None else "note"), note
    if job.get("estimate_smact") is not None:
        upper, source = job.get("estimate_smact_upper"), job["estimate_smact_source"]
        about = f" on {job['estimate_smact_on']}" if job.get("estimate_smact_on") else ""
        here = shown_smact(job["estimate_smact"], upper, source)
        yield "predicted", f"SM activity {here}{about}"
        for each in job.get("estimate_smact_scaled") or ():
            there = shown_smact(each["smact"], each["smact_upper"], SCALED)
            yield "predicted", f"SM activity {there} on {each['gpu']}"
    elif job.get("gpus") and job["state"] in WAITING:
        yield (
            "assumed",
            "a usual SM activity, until its GPU shows its own (--smact=PART declares it)",
        )
    if job.get("estimate_duration_s") is not None:
        upper_s, source = job.get("estimate_duration_upper_s"), job["estimate_duration_source"]
        alone = shown_duration(job["estimate_duration_s"], upper_s, source)
        yield "predicted", f"duration alone {alone}"


def _signal(signal: Any) -> str:
    if isinstance(signal, dict):
        return f"{signal.get('number')} {show_seconds(signal.get('seconds'))} before its limit"
    return str(signal)


def _got(job: Document, index: Mapping[str, int], attempts: Sequence[Document]) -> Iterator[Fact]:
    if where(job, index) != "-":
        verb = "ran on" if job["state"] in FINAL else "runs on"
        sharing = job["collocation"] or "exclusive"
        yield verb, f"GPU {where(job, index)}, sharing: {sharing}"
        if job.get("cpu_list"):
            yield "CPUs", f"{job['cpu_list']}, near its GPUs"
    if sm_share(job):
        yield "SM share", sm_share(job)
    if job.get("outer"):
        yield "runs in", inside(job["outer"])
    if size_text(job) and job["state"] in LIVE:
        error = job.get("resize_error")
        yield "size", size_text(job) + (f"; not resized: {error}" if error else "")
    last = attempts[-1] if attempts else {}
    memory = []
    if job["reserved_mib"] is not None:
        until = " until its memory settles" if _is_enlarged(job, last) else ""
        memory.append(f"reserved {show_mib(job['reserved_mib'])} per GPU{until}")
    if job["peak_mib"] is not None:
        memory.append(f"peak use {show_mib(job['peak_mib'])}")
    if memory:
        yield "memory", ", ".join(memory)
    if memory_cap(job):
        yield "memory cap", memory_cap(job)
    activity = []
    if last.get("smact") is not None:
        activity.append(f"{show_smact(last['smact'])} measured")
    if job.get("alone_smact") is not None:
        activity.append(f"{show_smact(job['alone_smact'])} alone")
    if activity:
        yield "SM activity", ", ".join(activity)
    share = job.get("cpu_share") or {}
    remarks = ", ".join(job.get("remarks") or ())
    if share.get("part") is not None:
        most = share.get("cpus")
        cap = "" if most is None else f", at most {most:g} CPU{'' if most == 1 else 's'}"
        said = f" ({remarks})" if remarks else ""
        yield "CPU", f"{share['part']:.0%} of the server while others want it{cap}{said}"
    elif remarks:
        yield "planner", remarks
    if job["energy_j"] is not None:
        yield "energy", show_joules(job["energy_j"])
    if _saving(job):
        yield "checkpoint", _saving(job)


def sm_share(job: Document) -> str:
    """What the SM share of a live job does; "" without one."""
    if job.get("sm_share") is None or job["state"] not in LIVE:
        return ""
    unbound = job.get("sm_share_unbound")
    does = f"does not limit it, because {unbound}" if unbound else "booked; its MPS limit"
    return f"{job['sm_share']:.0%}, {does}"


def inside(outer: str) -> str:
    """The job of Slurm in which a job runs, as `slurm:CLUSTER:ID.RESTART` names it."""
    _, cluster, run = outer.split(":", 2)
    number, _, restart = run.partition(".")
    again = f", started again {restart} times" if restart != "0" else ""
    return f"Slurm job {number} of cluster {cluster}{again}"


def _saving(job: Document) -> str:
    """What came of the last request to save its work, and its migrations; "" for nothing."""
    words = []
    if job.get("checkpoint_pending"):
        words.append("asked to save its work")
    elif job.get("checkpoint_error"):
        words.append(f"did not save its work: {job['checkpoint_error']}")
    if job.get("moves"):
        did = "moved or resized" if job.get("roles") else "moved"
        words.append(f"{did} {'once' if job['moves'] == 1 else '{} times'.format(job['moves'])}")
    return ", ".join(words)


def _is_enlarged(job: Document, attempt: Document) -> bool:
    """Whether the reservation exceeds the estimate until the job settles."""
    if job["estimate_mib"] is None and job["state"] == "RUNNING":
        first = attempt.get("reserved_mib")  # of a job on trial, all that was free
        shared = job["collocation"] in ("mps", "timeslice")
        return shared and job["reserved_mib"] == first and (job["peak_mib"] or 0) < (first or 0)
    estimated = job["estimate_mib"] is not None and job["estimate_source"] != "declared"
    if job["collocation"] != "mps" or not estimated or job["state"] != "RUNNING":
        return False
    return bool(job["reserved_mib"] == attempt.get("reserved_mib") > job["estimate_mib"])


def memory_cap(job: Document) -> str:
    """The most memory that a live job's processes can have, and who enforces that; "" for none."""
    if job["state"] not in LIVE:
        return ""
    cap_mib, reserved_mib = job.get("cap_mib"), job["reserved_mib"]
    if cap_mib is None:
        if job.get("cap_refused"):
            return f"none is enforced: {job['cap_refused']}"
        return "" if job.get("gpu_memory_max_mib") is None else "none is enforced"
    of = "each process" if job["cap_by"] == "mps" else "its processes together, not in containers"
    by = "MPS" if job["cap_by"] == "mps" else "the driver"
    more = ", more than is reserved now" if cap_mib > (reserved_mib or cap_mib) else ""
    return f"{show_mib(cap_mib)} per GPU{more} ({by}, for {of})"


def _times(job: Document, now: float) -> Iterator[Fact]:
    progress = job.get("progress") or {}
    parts = [advance(job, now)]
    if progress.get("work_done") is not None and progress.get("step") is not None:
        of = f" of {number(progress['total'])}" if progress.get("total") is not None else ""
        parts.append(f"step {number(progress['step'])}{of}")
    if progress.get("loss") is not None:
        parts.append(f"loss {progress['loss']:.4g}")
    if any(parts):
        yield "progress", ", ".join(filter(None, parts))
    if job.get("reports_dropped"):
        count, cause = job["reports_dropped"], job["reports_dropped_why"]
        yield "reports", f"{count} dropped, the last one because {cause}"
    for key in ("submitted", "started", "ended"):
        if job[f"{key}_at"] is not None:
            host = job.get("submit_host") if key == "submitted" else None
            yield key, when(job[f"{key}_at"], now) + (f" on {host}" if host else "")
    if starts_in(job, now):
        yield "starts", starts_in(job, now)
    if job.get("expected_end_at") is not None:
        latest = job.get("latest_end_at")
        most = ""
        if latest is not None and latest > now:
            most = f", {show_seconds(latest - now)} at the latest"
        by = ", at its time limit" if job.get("expected_source") == "time limit" else ""
        yield "ends", f"{when(job['expected_end_at'], now)}{by or most}"
    if job.get("due_at") is not None:
        yield "due", f"{when(job['due_at'], now)}{_lateness(job)}"
    if job["state"] == "RUNNING" and job.get("time_limit_at") is not None:
        yield "time limit", when(job["time_limit_at"], now)


def _lateness(job: Document) -> str:
    """As `, expected to be late by 40m, which costs 2.00 (weight 3)`; "" if that is unknown."""
    late_s, cost, ended = job.get("late_s"), job.get("cost"), job["state"] in FINAL
    if late_s is None:
        return ""
    if late_s < 1:
        return ", in time" if ended else ", expected in time"
    if ended:
        late = "late by"
    else:
        known = job.get("expected_end_at") is not None
        late = "expected to be late by" if known else "late by at least"
    weight = "" if job["weight"] == 1 else f" (weight {job['weight']:g})"
    price = "" if cost is None else f", which costs {cost:.2f}{weight}"
    return f", {late} {span(late_s)}{price}"


_ENDS = {"ok": "complete", "failed": "fail", "any": "end"}
