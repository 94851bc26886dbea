"""One job with all its facts: state, requests, devices, usage, and the next commands."""

from __future__ import annotations

from radrm.cli.show.columns import Field
from radrm.cli.show.jobs import state_text
from radrm.cli.show.parts.attempts import attempts_table
from radrm.cli.show.sizes import tasks_table
from radrm.cli.show.styled import Styled
from radrm.client.text import label, next_steps
from radrm.client.words.facts import facts, lasted
from radrm.client.words.jobs import where
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

    _Line = tuple[str, str | Styled]

_PATHS = ("stdout", "stderr")


def card(
    job: Document,
    now: float,
    index: Mapping[str, int],
    attempts: Sequence[Document] = (),
    logs: Document | None = None,
    tails: Mapping[str, Sequence[str]] = {},
) -> list[Part]:
    """The card of a job. `attempts` are those of `explain`; `logs` is None before the start.

    `tails`: the last lines of its logs, by `stdout` and `stderr`.
    """
    error = tails.get("stderr") if job["state"] == "FAILED" else None
    last = error[-1] if error else ""
    lines = [_line(job, *fact) for fact in facts(job, now, index, attempts, last)]
    if logs is not None:
        lines += [("stdout", plain(logs["stdout"])), ("stderr", plain(logs["stderr"]))]
    parts: list[Part] = [_title(job), *_fields(lines)]
    if len(attempts) > 1:
        parts += [Styled(), attempts_table(job, attempts)]
    if len(job.get("tasks") or ()) > 1:
        parts += [Styled(), tasks_table(job["tasks"], index)]
    if tails.get("stdout"):
        parts += [Styled(), *_log(tails["stdout"])]
    names = ("verdict", *[""] * len(job.get("verdict") or ()))
    verdict = [*zip(names, map(plain, job.get("verdict") or ()), strict=False)]
    return [*parts, Styled(), *_fields([*verdict, ("next", "   ".join(next_steps(job)))])]


def _log(lines: Sequence[str]) -> Iterator[Styled]:
    for at, line in enumerate(lines):
        shown = Styled(f"  {'' if at else 'log':<12}", "dim", cut=True)
        shown.append(line)
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
    title = Styled(f"Job {plain(label(job))}", "bold", cut=True)
    title.append(f"  {plain(job['name'])}")
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
