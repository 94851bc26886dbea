"""One job: its card with all its facts, and why it waits, device by device."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Field, Rows, table_of
from radrm.cli.show.jobs import state_text
from radrm.cli.show.styled import Styled
from radrm.client.amounts import show_joules, show_smact
from radrm.client.text import FINAL, LIVE, WAITING, label, next_steps
from radrm.client.words.facts import estimated, facts, given, lasted, left, memory_cap, sm_share
from radrm.client.words.jobs import where
from radrm.client.words.reasons import expected_start, gpu_lines, sentences, shows_devices
from radrm.core.units import show_mib, show_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

    _Line = tuple[str, str | Styled]

_LAST_LINES = 5, 10
"""Of each log on the card of a job; of one that has failed."""
_WIDTH = 500
"""Characters of such a line."""
MOST_TASKS = 32
"""Tasks that a card shows; `status --json` has all of them."""


def tasks_table(tasks: Sequence[Document], index: Mapping[str, int]) -> Rows:
    """A row for each of a job's first tasks. `index`: the GPUs' indices."""
    ended = any(task["exit_code"] is not None for task in tasks)
    table = table_of(
        tasks[:MOST_TASKS],
        Column("TASK", lambda task: f"{task['role']} {task['task']}"),
        Column("GPU", lambda task: ",".join(str(index.get(u, u[:12])) for u in task["gpus"])),
        Column("CPUS", lambda task: _or_dash(task["cpus"], "g"), right=True),
        Column("CPU TIME", lambda task: show_seconds(task["cpu_s"]), right=True, rank=2),
        Column("MEMORY", lambda task: show_mib(task["memory_mib"]), right=True, rank=1),
        *[Column("EXIT CODE", lambda task: _or_dash(task["exit_code"]), right=True)] * ended,
    )
    if len(tasks) > MOST_TASKS:
        table.add(f"and {len(tasks) - MOST_TASKS} more", *[""] * (len(table.columns) - 1))
    return table


def _or_dash(number: float | None, form: str = "") -> str:
    return "-" if number is None else format(number, form)


def attempts_table(job: Document, attempts: Sequence[Document]) -> Rows:
    """A row for each attempt. A live attempt shows the usage so far."""
    planners = any(attempt.get("planner") not in (None, "strict") for attempt in attempts)
    live = {key: job[key] for key in _OF_LIVE}
    return table_of(
        (each | live if each.get("ended_at") is None else each for each in attempts),
        Column("ATTEMPT", lambda each: str(each["number"]), right=True),
        Column("OUTCOME", lambda each: _outcome(job, each)),
        Column("GPU", lambda each: ",".join(map(str, each.get("devices") or [])) or "-"),
        Column("SHARING", lambda each: each.get("collocation") or "-", rank=6),
        Column("TIME", lambda each: show_seconds(each.get("ran_s")), right=True),
        Column("RESERVED", lambda each: show_mib(each.get("reserved_mib")), right=True, rank=4),
        Column("PEAK", lambda each: show_mib(each.get("peak_mib")), right=True, rank=2),
        Column("SMACT", lambda each: show_smact(each.get("smact")), right=True, rank=3),
        Column("ENERGY", lambda each: show_joules(each.get("energy_j")), right=True, rank=5),
        *[Column("PLANNER", lambda each: each.get("planner") or "-", rank=7)] * planners,
        Column("WHY", _why, least=20, wrap=True),
    )


def _outcome(job: Document, attempt: Document) -> Styled:
    outcome = str(attempt.get("outcome") or job["state"].lower())
    return Styled(outcome, _OUTCOME_STYLE.get(outcome, ""))


def _why(attempt: Document) -> str:
    code = attempt.get("exit_code")
    ended = f"exit code {code}" if code else ""
    return attempt.get("reason") or _requested(attempt) or ended


def _requested(attempt: Document) -> str:
    """The last change of a live attempt that a planner or user asked for."""
    asked = attempt.get("requested") if attempt.get("ended_at") is None else None
    if not asked:
        return ""
    who = asked["user"] if asked.get("user") else f"the planner {asked['planner']}"
    return f"{who} asked for {asked['kind']}"


_OF_LIVE = ("reserved_mib", "peak_mib", "energy_j")
_OUTCOME_STYLE = {
    "completed": "green",
    "failed": "bold red",
    "oom": "magenta",
    "timeout": "red",
    "lost": "bold red",
    "cancelled": "dim",
}


_PATHS = ("log", "stdout", "stderr", "script", "folder")
_ERROR = r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)"
"""The last line of a Python traceback."""


def card(
    job: Document,
    now: float,
    index: Mapping[str, int],
    attempts: Sequence[Document] = (),
    logs: Document | None = None,
    tails: Mapping[str, Sequence[str]] = {},
) -> list[Part]:
    """The card of a job. `attempts` are those of `explain`; `logs` is None before the start.

    `tails`: the ends of its logs, by `stdout` and `stderr`, or by `log` if they are one file. The
    last lines of each are shown.
    """
    error = _error(tails) if job["state"] == "FAILED" else ""
    lines = [_line(job, *fact) for fact in facts(job, now, index, attempts, error)]
    if logs is not None:
        both = logs["stdout"] == logs["stderr"]
        shown = {"log": "stdout"} if both else {"stdout": "stdout", "stderr": "stderr"}
        lines += [(name, logs[which]) for name, which in shown.items()]
    parts: list[Part] = [_title(job), *_fields(lines)]
    if len(attempts) > 1:
        parts += [Styled(), attempts_table(job, attempts)]
    if len(job.get("tasks") or ()) > 1:
        parts += [Styled(), tasks_table(job["tasks"], index)]
    names = ("verdict", *[""] * len(job.get("verdict") or ()))
    verdict = [*zip(names, job.get("verdict") or (), strict=False)]
    parts += [Styled(), *_fields([*verdict, ("next", "   ".join(next_steps(job)))])]
    most = _LAST_LINES[job["state"] == "FAILED"]
    for name, its in tails.items():
        name = "last lines" if name == "log" else name
        parts += [Styled(), *_log(name, its[-most:])] if its else []
    return parts


def given_fields(job: Document) -> list[Field]:
    """What its user gave with a job: a part of its card."""
    return _fields(given(job))


def _error(tails: Mapping[str, Sequence[str]]) -> str:
    """The line that says what is wrong: the last of a traceback, else of standard error. (Python
    prints what its buffer holds after the traceback.)"""
    its = tails.get("stderr") or tails.get("log") or ()
    last = its[-1] if tails.get("stderr") else ""
    import re  # only for a job that has failed

    return next((line for line in reversed(its) if re.match(_ERROR, line)), last)


def _log(name: str, lines: Sequence[str]) -> Iterator[Styled]:
    for at, line in enumerate(lines):
        shown = Styled(f"  {'' if at else name:<12}", "dim", cut=True)
        shown.append(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…")
        yield shown


def headline(job: Document, index: Mapping[str, int]) -> Styled:
    """The job in one line, without the reason of its state."""
    line = _title(job)
    line.append("  ")
    line.extend(state_text(job["state"]))
    line.append(f" {lasted(job)}")
    if where(job, index) != "-":
        line.append(f" on GPU {where(job, index)}")
    return line


def _title(job: Document) -> Styled:
    title = Styled(f"Job {label(job)}", "bold", cut=True)
    title.append(f"  {job['name']}")
    return title


def _fields(lines: Iterable[_Line]) -> list[Field]:
    return [
        Field(name, text if isinstance(text, Styled) else Styled(text), whole=name in _PATHS)
        for name, text in lines
    ]


def _line(job: Document, name: str, text: str) -> _Line:
    """A fact with its colours."""
    if name == "warning":
        return name, Styled(text, "yellow")
    if name != "state":
        return name, text
    state, held = state_text(job["state"]), ", held" if job.get("held") else ""
    state.append(text[len(state.plain) :].removesuffix(held))
    state.append(held, "yellow")
    return name, state


def explanation(answer: Document) -> list[Part]:
    """The parts of the output for one document of `explain`."""
    job = answer["job"]
    last = answer["attempts"][-1]["devices"] if answer["attempts"] else []
    index = dict(zip(job["devices"], last, strict=False))
    waiting = job["state"] in WAITING
    parts: list[Part] = [headline(job, index)]
    parts += map(_indented, sentences(answer))
    if waiting and shows_devices(answer):
        parts += [Styled(), *map(_indented, gpu_lines(answer))]
        parts += [_indented(each["text"]) for each in answer.get("sharing", ())]
    if answer["attempts"]:
        parts += [Styled(), attempts_table(job, answer["attempts"])]
    if job["state"] in FINAL and not answer["attempts"]:
        parts.append(_indented("It never started."))
    if job.get("left"):
        parts.append(_indented(left(job)))
    if job.get("cpu_list") and job["state"] in LIVE:
        parts.append(_indented(f"it runs on the CPUs near its GPUs: {job['cpu_list']}"))
    if job.get("not_enforced"):
        parts.append(_indented(job["not_enforced"]))
    if sm_share(job):
        parts.append(_indented(f"SM share: {sm_share(job)}"))
    if memory_cap(job):
        parts.append(_indented(f"memory cap: {memory_cap(job)}"))
    lines = [_indented(f"{name}: {text}") for name, text in estimated(job)]
    parts += [Styled(), *lines] if lines else []
    steps = [step for step in next_steps(job) if step != f"radrm explain {label(job)}"]
    if waiting and expected_start(job, answer["now"]):
        parts += [Styled(), _indented(expected_start(job, answer["now"]))]
    if steps:
        parts += [Styled(), _indented(f"next: {'   '.join(steps)}")]
    return parts


def _indented(text: str) -> Field:
    return Field("", Styled(text), indent=2)
