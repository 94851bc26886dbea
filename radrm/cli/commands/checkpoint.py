"""`radrm checkpoint`: have running jobs save their work now."""

from __future__ import annotations

from radrm.cli.parameters import FLAG, JOBS, JSON, Parameter
from radrm.cli.results import job_name, run_and_wait
from radrm.client.commands import wait_saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.connection import Ask
    from radrm.client.text import Document

NO_WAIT = Parameter(
    "no_wait", FLAG, "Do not wait for the answer of the jobs.", flags=("--no-wait",)
)
PARAMETERS = (JOBS, NO_WAIT, JSON)


def checkpoint(jobs: list[str], no_wait: bool, as_json: bool) -> int:
    """Have running jobs save their work now, and wait until they have.

    A job can save if it was submitted with --checkpoint=signal or --checkpoint=exit. The exit
    code is 1 if one did not save.

    \b
    Examples:
      radrm checkpoint 12
      radrm checkpoint 'sweep-*' --no-wait
    """

    def wait(ask: Ask, before: Document) -> Document:
        return wait_saved(ask, before, moves=False)

    return run_and_wait("checkpoint", jobs, {}, wait, _describe, no_wait, as_json)


def _describe(result: Document) -> str:
    if "saved_at" not in result:
        return f"Asked {job_name(result)} to save its work"
    part = result.get("saved_work_done")
    how_far = "" if part is None else f" at {part:.0%} of its work"
    return f"Saved {job_name(result)}{how_far}"
