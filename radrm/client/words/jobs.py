"""One job in words: its size, why it waits, where it runs, how far it is."""

from __future__ import annotations

from radrm.client.amounts import clock, number, starts_in
from radrm.client.text import FINAL, LIVE, WAITING, Document, label
from radrm.core.units import is_digits, show_seconds
from radrm.host.wall import wall_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from radrm.client.text import Document

# ------------------------------------------------------------------
# The size of a job with a range or roles, as people read it.


def size_text(job: Document) -> str:
    """The present size of a job with a range or roles: `2 of 1-4 GPUs`; "" for others.

    With the size that a resize under way leads to: `2 of 1-4 GPUs, changing to 3`.
    """
    roles = job.get("roles") or []
    if not roles:
        return ""
    if len(roles) == 1 and roles[0]["gpus"]:
        span = _span(job["gpus_min"], job["gpus_max"])
        held = "" if roles[0]["count"] is None else f"{job['gpus']} of "
        found = f"{held}{span} GPU{'' if span == '1' else 's'}"
    else:
        found = ", ".join(map(_role_text, roles))
    then = job.get("resizing")
    if then is None:
        return found
    if len(roles) == 1 and roles[0]["gpus"]:
        return f"{found}, changing to {then['gpus']}"
    counts = (f"{name} {count}" for name, count in then["roles"].items())
    return f"{found}, changing to {', '.join(counts)}"


def requested_size(job: Document) -> str:
    """The GPUs or tasks that a job asks for: `1-4 GPUs with 4-16 CPUs each`."""
    roles = job.get("roles") or []
    if not roles:
        return f"{job['gpus']} GPU{'' if job['gpus'] == 1 else 's'}"
    found = []
    for role in roles:
        if len(roles) == 1 and role["gpus"]:
            span = _span(job["gpus_min"], job["gpus_max"])
            text = f"{span} GPU{'' if span == '1' else 's'}"
        else:
            text = f"{role['name']} {_span(role['min'], role['max'])}"
        if role["cpus"] is not None:
            most = role["cpus_max"]
            up_to = "" if most is None else f"-{most:g}"
            text += f" with {role['cpus']:g}{up_to} CPUs each"
        found.append(text)
    return ", ".join(found)


def _role_text(role: Document) -> str:
    held = "" if role["count"] is None else f"{role['count']} of "
    return f"{role['name']} {held}{_span(role['min'], role['max'])}"


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least}-{most}"


# ------------------------------------------------------------------
# The words that describe one job: why it waits, where it runs, how far it is.


def age_s(job: Document) -> float | None:
    """The waiting time or run time of a job so far; None across a reboot."""
    if job["started_at"] is None and job["ended_at"] is not None:
        return 0.0
    found: float | None = job.get("waited_s" if job["started_at"] is None else "ran_s")
    return found


def why(job: Document, short: bool = False, now: float | None = None) -> str:
    """Why a job waits, in a sentence, or how it ended. `short`: of a warning only what it is about.
    `now`: as for `advance`."""
    reason = job["reason"] or ""
    if job.get("begin_at") is not None and not job.get("held"):
        then = clock(job["begin_at"], wall_s() if now is None else now)
        reason = f"Begins {'at ' if then[:1].isdigit() and '-' not in then else ''}{then}."
    elif job.get("warnings") and short:
        reason = warned(job["warnings"][0], now, True)
    if job["oom_count"] and job["state"] not in ("FAILED", *WAITING):
        reason = "; ".join(filter(None, (_out_of_memory(job), reason)))
    return reason


def remark(job: Document, now: float | None) -> str:
    """The last column of a job's row: why it waits or how it ended; how far it is, or when it
    starts."""
    said, more = why(job, True, now), state_of_open(job, now)
    if job["state"] not in WAITING:
        return "; ".join(filter(None, (said, more)))
    return " ".join(filter(None, (said, f"Starts {more}." if more.startswith(_WHEN) else more)))


_WHEN = ("in ", "at ")


def _out_of_memory(job: Document) -> str:
    """That a job ran out of GPU memory before. Only one that completed has recovered."""
    times = "once" if job["oom_count"] == 1 else f"{job['oom_count']} times"
    if job["state"] == "COMPLETED":
        return f"recovered from out-of-memory {times}"
    again = ", runs again" if job["state"] in LIVE else ""
    return f"ran out of GPU memory {times}{again}"


def warned(warning: Document, now: float | None, short: bool = False) -> str:
    """What the user of a job was warned of, and what follows: `...; it is cancelled at 18:20`."""
    said: str = warning["text"]
    if short:  # the advice after a `;` is left out, and a word says the rest
        said = said.partition(";")[0] if warning["kind"] == "misplaced" else warning["kind"]
    if not warning["does"] or warning["does_at"] is None:
        return said
    then = clock(warning["does_at"], wall_s() if now is None else now)
    return f"{said}{': ' if short else '; '}{warning['does']} at {then}"


def where(job: Document, index: Mapping[str, int]) -> str:
    """The indices of the devices that a job holds or held; `-` for none."""
    uuids = job["devices"] if job["state"] not in WAITING else []
    return ",".join(str(index.get(uuid, uuid[:12])) for uuid in uuids) or "-"


def advance(job: Document, now: float | None = None) -> str:
    """How far a job is: `62 %, 14m left, saved 3m ago`; "" if it did not say. `1m to its time
    limit` if that ends it before its work is done.

    `now`, in epoch seconds on the daemon's clock, is needed for the times.
    """
    progress, found = job.get("progress") or {}, []
    if progress.get("work_done") is not None:
        found.append(f"{int(progress['work_done'] * 100)} %")
    elif progress.get("step") is not None:
        found.append(f"step {number(progress['step'])}")
    if progress.get("work_done") is None and progress.get("epoch") is not None:
        found.append(f"epoch {number(progress['epoch'])}")
    ends = job.get("expected_end_at") is not None and job["state"] not in WAITING
    if now is not None and found and ends:
        limited = job.get("expected_source") == "time limit"
        left = show_seconds(max(0.0, job["expected_end_at"] - now))
        found.append(f"{left} to its time limit" if limited else f"{left} left")
    if now is not None and job.get("saved_at") is not None:
        found.append(f"saved {show_seconds(max(0.0, now - job['saved_at']))} ago")
    return ", ".join(found)


def params_text(job: Document) -> str:
    """The values of an element of a sweep: `lr=1e-3 seed=0`, or of several elements in one row:
    `seed=0 to seed=9`, without the parameters that they share; "" for another job."""
    values, last = job.get("params") or {}, job.get("params_last") or {}
    differ = [name for name in values if last and values[name] != last.get(name)]
    texts = [
        " ".join(f"{name}={each[name]}" for name in differ or values)
        for each in ((values, last) if differ else (values,))
    ]
    return " to ".join(texts)


def state_of_open(job: Document, now: float | None) -> str:
    """The size of a job that has not ended, and how far it is, or when it starts:
    `2 of 1-4 GPUs, 37 %`, `in 20-40m (est.)`."""
    if job["state"] in FINAL:
        return ""
    starts = "" if now is None else starts_in(job, now)
    words = (size_text(job), advance(job, now), starts)
    return ", ".join(filter(None, words))


# ------------------------------------------------------------------
# What users can do about a job in its state, and the jobs that a filter selects.


def names_of(job: Document) -> list[str]:
    """Return the names of the jobs in a row: one, or waiting elements of an array that are alike.

    The first is the one that the row's card and log are about.
    """
    if job.get("count", 1) == 1:
        return [label(job)]
    step = label(job).removesuffix("]").rpartition(":")[2]
    by, first = int(step) if is_digits(step) else 1, job["array_index"]
    return [f"{job['array_id']}_{first + by * number}" for number in range(job["count"])]


def refused_here(command: str, job: Document) -> str:
    """Return why a command makes no sense for a job in its state; "" if it does."""
    state = job["state"]
    held = bool(job.get("held"))
    fits = {
        "cancel": state not in FINAL,
        "hold": state in WAITING and not held,
        "release": held,
        "requeue": state in FINAL,
        "raise": state in WAITING,
        "lower": state in WAITING,
    }
    if fits[command]:
        return ""
    now = "held" if held else "running" if state in LIVE else state.lower()
    return f"Job {label(job)} is {now}: nothing to {command}."


def words_of(text: str, every: bool) -> Document:
    """Return the words of `page` for a filter: `user=ann state=running resnet`.

    A word without `=` is a part of a job's name, or a glob.
    """
    words: Document = {"all": every, "user": None, "state": None, "jobs": []}
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals and key in ("user", "state"):
            words[key] = value or None
        else:
            words["jobs"].append(glob_of(word))
    return words


def glob_of(text: str) -> str:
    """Return a glob for names that hold this text; a glob as it is."""
    return text if any(c in text for c in "*?[") else f"*{text}*"
