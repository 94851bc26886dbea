"""One job on one card: what it is, where it is, what it asked for and got, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.render import (
    age_s,
    sane_mib,
    show_joules,
    show_smact,
    state_text,
    when,
    where,
    why,
)
from radrm.client.exits import FINAL
from radrm.client.text import label
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

Document = dict[str, Any]
_Line = tuple[str, str | Text]
_PATHS = ("output", "errors")


def card(
    job: Document,
    now: float,
    index: Mapping[str, int],
    attempts: Sequence[Document] = (),
    logs: Document | None = None,
) -> Group:
    """The whole card. `attempts` as `explain` gives them; `logs` None before it started."""
    lines = [*_who(job), *_asked(job), *_got(job, index, attempts), *_times(job, now)]
    if logs is not None:
        lines += [("output", plain(logs["stdout"])), ("errors", plain(logs["stderr"]))]
    parts: list[Any] = [_title(job), *_fields(lines)]
    if len(attempts) > 1:
        parts += [Text(""), attempts_table(job, attempts)]
    return Group(*parts, Text(""), *_fields([("next", "   ".join(next_steps(job)))]))


def headline(job: Document, index: Mapping[str, int]) -> Text:
    """The job in one line, without its reason."""
    line = _title(job)
    line.append("  ")
    line.append_text(state_text(job["state"]))
    line.append(f" {_progress(job)}")
    if where(job, index) != "-":
        line.append(f" on GPU {where(job, index)}")
    return line


def _title(job: Document) -> Text:
    title = Text(f"Job {plain(label(job))}", style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f"  {plain(job['name'])}", style="not bold")
    return title


def _fields(lines: Iterable[_Line]) -> list[Field]:
    return [Field(n, t if isinstance(t, Text) else Text(t), whole=n in _PATHS) for n, t in lines]


def _progress(job: Document) -> str:
    age = age_s(job)
    spent = "an unknown time" if age is None else show_seconds(age)
    if job["state"] in FINAL:
        return f"after {spent}" if job["started_at"] is not None else "before it started"
    return f"for {spent}"


def _who(job: Document) -> Iterator[_Line]:
    state = state_text(job["state"])
    state.append(f" {_progress(job)}", style="default not bold not dim")
    if job["exit_code"] is not None:
        state.append(f", exit code {job['exit_code']}", style="default not bold not dim")
    if job.get("held"):
        state.append(", held", style="yellow")
    yield "state", state
    if why(job):
        yield "why", why(job)
    if job["position"] is not None:
        yield "in line", f"place {job['position']} of the {job['queue'] or 'main'} queue"
    for other in job.get("after") or []:
        yield "after", plain(f"job {other['job']}, once it has {_ENDED[other['condition']]}")
    yield "user", plain(job["user"])
    yield "ticket", plain(job["ticket"])
    if job.get("comment"):
        yield "comment", plain(job["comment"])


def _asked(job: Document) -> Iterator[_Line]:
    count = job["gpus"]
    asked = [f"{count} GPU" if count == 1 else f"{count} GPUs"]
    if job.get("time_limit_s") is not None:
        asked.append(f"time limit {show_seconds(job['time_limit_s'])}")
    if job.get("priority"):
        asked.append(f"priority {job['priority']}")
    if job.get("signal"):
        asked.append(f"signal {plain(_signal(job['signal']))}")
    yield "asked for", ", ".join(asked)
    yield from estimated(job)


def estimated(job: Document) -> Iterator[_Line]:
    """What it is expected to need, by which estimator, and what that takes for granted."""
    if job["estimate_source"] is not None:
        mib, upper_mib = sane_mib(job["estimate_mib"]), sane_mib(job.get("estimate_upper_mib"))
        what = "a whole GPU" if mib is None else f"{show_mib(mib)} per GPU"
        if mib is not None and upper_mib is not None and upper_mib > mib:
            what += f", at most {show_mib(upper_mib)}"
        yield "estimate", f"{what}, by {plain(job['estimate_source'])}"
    for guess in job.get("estimate_guesses") or ():
        yield "guess", plain(guess)
    for note in job.get("estimate_notes") or ():
        yield "no answer", plain(note)


def _signal(signal: Any) -> str:
    if isinstance(signal, dict):
        return f"{signal.get('number')} {show_seconds(signal.get('seconds'))} before its limit"
    return str(signal)


def _got(job: Document, index: Mapping[str, int], attempts: Sequence[Document]) -> Iterator[_Line]:
    if where(job, index) != "-":
        yield (
            "ran" if job["state"] in FINAL else "runs",
            f"on GPU {where(job, index)}, {plain(job['collocation'] or 'exclusive')}",
        )
    last = attempts[-1] if attempts else {}
    memory = []
    if job["reserved_mib"] is not None:
        until = " until it has settled" if _is_lent(job, last) else ""
        memory.append(f"promised {show_mib(job['reserved_mib'])} per GPU{until}")
    if job["peak_mib"] is not None:
        memory.append(f"peak {show_mib(job['peak_mib'])}")
    if memory:
        yield "memory", ", ".join(memory)
    if _outgrows(job, last):
        yield "cap", f"{show_mib(last['reserved_mib'])}: it may still grow beyond its promise"
    if last.get("smact") is not None:
        yield "SM activity", show_smact(last["smact"])
    if job["energy_j"] is not None:
        yield "energy", show_joules(job["energy_j"])


def _is_lent(job: Document, attempt: Document) -> bool:
    """Whether it has been promised more than its estimate for a while, should that be wrong."""
    estimated = job["estimate_mib"] is not None and job["estimate_source"] != "declared"
    if job["collocation"] != "mps" or not estimated or job["state"] != "RUNNING":
        return False
    return bool(job["reserved_mib"] == attempt.get("reserved_mib") > job["estimate_mib"])


def _outgrows(job: Document, attempt: Document) -> bool:
    """Whether CUDA lets a client have more than it is promised now. A client's cap is what it was
    promised when it started, and stays when it has settled and part of that is given back; a job
    of unknown need has none."""
    first_mib, now_mib = attempt.get("reserved_mib"), job["reserved_mib"]
    if job["collocation"] != "mps" or job["estimate_mib"] is None or None in (first_mib, now_mib):
        return False
    return attempt.get("ended_at") is None and bool(first_mib > now_mib)


def _times(job: Document, now: float) -> Iterator[_Line]:
    for key in ("submitted", "started", "ended"):
        if job[f"{key}_at"] is not None:
            yield key, when(job[f"{key}_at"], now)
    if job["state"] == "RUNNING" and job.get("time_limit_s") and job["started_at"] is not None:
        yield "ends by", when(job["started_at"] + job["time_limit_s"], now)


def attempts_table(job: Document, attempts: Sequence[Document]) -> Rows:
    """Each launch, and what became of it; of the live one, what the job has used so far."""
    table = Rows(
        (
            Column("ATTEMPT", right=True),
            Column("OUTCOME"),
            Column("GPU"),
            Column("SHARING", rank=6),
            Column("TIME", right=True),
            Column("RESERVED", right=True, rank=4),
            Column("PEAK", right=True, rank=2),
            Column("SMACT", right=True, rank=3),
            Column("ENERGY", right=True, rank=5),
            Column("WHY", least=20),
        )
    )
    for attempt in attempts:
        ended = attempt.get("ended_at")
        if ended is None:
            attempt = attempt | {key: job[key] for key in _OF_LIVE}
        outcome = str(attempt.get("outcome") or job["state"].lower())
        code = attempt.get("exit_code")
        said = plain(attempt.get("reason") or "")
        if not said and code:
            said = f"exit code {code}"
        table.add(
            str(attempt["number"]),
            Text(plain(outcome), style=_OUTCOME_STYLE.get(outcome, "")),
            ",".join(map(str, attempt.get("devices") or [])) or "-",
            plain(attempt.get("collocation") or "-"),
            show_seconds(attempt.get("ran_s")),
            show_mib(attempt.get("reserved_mib")),
            show_mib(attempt.get("peak_mib")),
            show_smact(attempt.get("smact")),
            show_joules(attempt.get("energy_j")),
            said,
        )
    return table


_OF_LIVE = ("reserved_mib", "peak_mib", "energy_j")
_OUTCOME_STYLE = {
    "completed": "green",
    "failed": "bold red",
    "oom": "bold yellow",
    "timeout": "red",
    "lost": "bold red",
    "cancelled": "dim",
}


_ENDED = {"ok": "completed", "failed": "failed", "any": "ended"}


def next_steps(job: Document) -> list[str]:
    """What people most often type next about a job in this state."""
    name, state = plain(label(job)), job["state"]
    if job.get("held"):
        return [f"radrm release {name}", f"radrm explain {name}"]
    if state in ("PENDING", "RECOVERING") and job.get("behind"):
        ahead = plain(str(job["behind"]))
        return [f"radrm explain {ahead}", f"radrm edit {name} --priority=N", f"radrm cancel {name}"]
    if state in ("PENDING", "RECOVERING"):
        return [f"radrm explain {name}", f"radrm cancel {name}"]
    if state not in FINAL:
        return [f"radrm logs {name} -f", f"radrm explain {name}"]
    if state == "COMPLETED":
        return [f"radrm logs {name}"]
    if not job["attempts"]:
        return [f"radrm explain {name}"]  # what kept it from running would do so again
    return [f"radrm logs {name} --stderr", f"radrm requeue {name}"]
