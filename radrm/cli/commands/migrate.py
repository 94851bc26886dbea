"""`radrm migrate`: move a running job to another GPU."""

from __future__ import annotations

from radrm.cli.commands.checkpoint import NO_WAIT
from radrm.cli.parameters import JSON, WORDS, Parameter
from radrm.cli.results import job_name, run_and_wait
from radrm.client.commands import wait_saved
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.connection import Ask
    from radrm.client.text import Document

_WORDS = Parameter(
    "words",
    WORDS,
    "A running job: id (12), element (12_3), ticket or name; and the GPU to use, by index or UUID "
    "(default: where the policy places it).",
    "JOB [GPU]",
    least=1,
)
PARAMETERS = (_WORDS, NO_WAIT, JSON)


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
        raise UsageError("radrm migrate: it takes one job and at most one GPU")
    where = {"device": words[1]} if len(words) > 1 else {}

    def wait(ask: Ask, before: Document) -> Document:
        return wait_saved(ask, before, moves=True)

    return run_and_wait("migrate", words[:1], where, wait, _describe, no_wait, as_json)


def _describe(result: Document) -> str:
    if "saved_at" not in result:
        return f"Asked {job_name(result)} to save its work and move"
    part = result.get("saved_work_done")
    how_far = "" if part is None else f", from {part:.0%} of its work"
    return f"Moved {job_name(result)}{how_far}"
