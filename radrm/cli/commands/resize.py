"""`radrm resize`: give a running job another number of GPUs, or of tasks."""

from __future__ import annotations

from radrm.cli.commands.checkpoint import NO_WAIT
from radrm.cli.parameters import JOBS, JSON, NUMBER, TEXTS, Parameter
from radrm.cli.results import job_name, run_and_wait
from radrm.client.commands import wait_resized
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.client.connection import Ask
    from radrm.client.text import Document

PARAMETERS = (
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

    def wait(ask: Ask, before: Document) -> Document:
        return wait_resized(ask, before, gpus, words.get("roles") or {})

    return run_and_wait("resize", jobs, words, wait, _describe, no_wait, as_json)


def _count(word: str) -> tuple[str, int]:
    name, equals, count = word.partition("=")
    if not (name and equals and count.isascii() and count.isdecimal() and len(count) < 10):
        raise UsageError(f"--role {word!r} is not NAME=N; write --role worker=6")
    return name, int(count)


def _describe(result: Document) -> str:
    if "roles" not in result:
        return f"Asked {job_name(result)} to change its size"
    from radrm.client.words.jobs import size_text

    return f"Resized {job_name(result)}: {size_text(result)}"
