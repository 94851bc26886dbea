"""Jobs that save their work: `radrm checkpoint`, `migrate`, `resize` and `progress`."""

from __future__ import annotations

import os
from functools import partial

from radrm.cli.parameters import FLAG, JOBS, JSON, NUMBER, TEXT, TEXTS, WORDS, Parameter
from radrm.cli.results import job_name, run_and_wait
from radrm.client.awaiting import wait_resized, wait_saved
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.client.text import Document

NO_WAIT = Parameter(
    "no_wait", FLAG, "Do not wait for the answer of the jobs.", flags=("--no-wait",)
)
CHECKPOINT_PARAMETERS = (JOBS, NO_WAIT, JSON)


def checkpoint(jobs: list[str], no_wait: bool, as_json: bool) -> int:
    """Have running jobs save their work now, and wait until they have.

    A job can save if it was submitted with --checkpoint=signal or --checkpoint=exit. The exit
    code is 1 if one did not save.

    \b
    Examples:
      radrm checkpoint 12
      radrm checkpoint 'sweep-*' --no-wait
    """
    wait = partial(wait_saved, moves=False)
    return run_and_wait("checkpoint", jobs, {}, wait, _saved, no_wait, as_json)


def _saved(result: Document) -> str:
    if "ticket" not in result:  # no job, but what became of the request
        return f"Asked {job_name(result)} to save its work"
    part = result.get("saved_work_done")
    how_far = "" if part is None else f" at {part:.0%} of its work"
    return f"Saved {job_name(result)}{how_far}"


_WORDS = Parameter(
    "words",
    WORDS,
    "A running job: id (12), element (12_3), ticket or name; and the GPU to use, by index or UUID "
    "(default: where the policy places it).",
    "JOB [GPU]",
    least=1,
)
MIGRATE_PARAMETERS = (_WORDS, NO_WAIT, JSON)


def migrate(words: list[str], no_wait: bool, as_json: bool) -> int:
    """Move a running job to another GPU: it saves its work first.

    The GPU is reserved meanwhile. If the job does not save in time, it runs on where it is, and
    the exit code is 1.

    \b
    Examples:
      radrm migrate 12
      radrm migrate 12 3
    """
    if len(words) > 2:
        raise UsageError("migrate: it takes one job and at most one GPU")
    where = {"device": words[1]} if len(words) > 1 else {}
    wait = partial(wait_saved, moves=True)
    return run_and_wait("migrate", words[:1], where, wait, _moved, no_wait, as_json)


def _moved(result: Document) -> str:
    if "ticket" not in result:  # no job, but what became of the request
        return f"Asked {job_name(result)} to save its work and move"
    part = result.get("saved_work_done")
    how_far = "" if part is None else f", from {part:.0%} of its work"
    return f"Moved {job_name(result)}{how_far}"


RESIZE_PARAMETERS = (
    JOBS,
    Parameter("gpus", NUMBER, "The GPUs that it is to have.", "N", ("--gpus",), least=1, most=256),
    Parameter("role", TEXTS, "The tasks of a role; repeatable.", "NAME=N", ("--role",)),
    NO_WAIT,
    JSON,
)


def resize(jobs: list[str], gpus: int | None, role: list[str], no_wait: bool, as_json: bool) -> int:
    """Give a running job another number of GPUs, or of tasks, within its range.

    A job has a range if it was submitted with one, as --gpus=1-4. `radrun` changes its workers
    between two steps; other programs save their work, stop, and start again. The exit code is 1 if
    the job does not get that size.

    \b
    Examples:
      radrm resize 12 --gpus=2
      radrm resize 12 --role worker=6 --role ps=2
    """
    words: dict[str, Any] = {"roles": dict(map(_count, role))} if role else {}
    if gpus is not None:
        words["gpus"] = gpus
    if len(words) != 1:
        raise UsageError("say one new size: radrm resize JOB --gpus=2, or --role worker=6")
    wait = partial(wait_resized, gpus=gpus, roles=words.get("roles") or {})
    return run_and_wait("resize", jobs, words, wait, _resized, no_wait, as_json)


def _count(word: str) -> tuple[str, int]:
    name, equals, count = word.partition("=")
    if not (name and equals and count.isascii() and count.isdecimal() and len(count) < 10):
        raise UsageError(f"--role {word!r} is not NAME=N; write --role worker=6")
    return name, int(count)


def _resized(result: Document) -> str:
    if "ticket" not in result:
        return f"Asked {job_name(result)} to change its size"
    from radrm.client.words.jobs import size_text

    return f"Resized {job_name(result)}: {size_text(result)}"


_NAMES = {
    "step": "The steps that are done.",
    "total": "All steps of the job.",
    "epoch": "The epoch.",
    "loss": "What the job minimises.",
    "work_done": "The fraction of all its work that is done, 0 to 1.",
    "saved": "The step whose state is saved now, on the disk.",
}
PROGRESS_PARAMETERS = tuple(
    Parameter(name, TEXT, about, "NUMBER", (f"--{name.replace('_', '-')}",))
    for name, about in _NAMES.items()
)


def progress(step: str, total: str, epoch: str, loss: str, work_done: str, saved: str) -> int:
    """Report a job's progress, from its own script.

    It returns at once, also while no daemon runs: then the report is lost, but `--saved` is kept
    in the job's checkpoint folder.

    \b
    Examples:
      radrm progress --step 120 --total 1000 --loss 0.31
      radrm progress --saved 120
    """
    texts = (("step", step), ("total", total), ("epoch", epoch), ("loss", loss))
    given = {name: _number(name, text) for name, text in texts if text}
    if work_done:
        given["work_done"] = _number("work_done", work_done)
        if given["work_done"] > 1:
            raise UsageError(f"--work-done {work_done} is not from 0 to 1")
    saved_step = _number("saved", saved) if saved else None
    if not given and saved_step is None:
        raise UsageError("nothing to report; write: radrm progress --step 120 --total 1000")
    if given.get("step", 0.0) > given.get("total", float("inf")):
        raise UsageError(f"--step {step} is more than --total {total}")
    if "RADRM_PROGRESS" not in os.environ:
        raise UsageError("this is no job of radrm; call it from a script that `radrm submit` runs")
    from radrm.report import Reporter

    report = Reporter()
    report.progress(**given)
    if saved_step is not None:
        report.saved(saved_step, total=given.get("total"), loss=given.get("loss"))
    return 0


def _number(name: str, text: str) -> float:
    option = f"--{name.replace('_', '-')}"
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a number") from None
    if number - number != 0:
        raise UsageError(f"{option} {text} is not a finite number")
    if number < 0 and name != "loss":
        raise UsageError(f"{option} {text} is less than 0")
    return number
