"""`radrm requeue`: run jobs again, running or ended."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, FLAG, JSON, STATE, USER, Parameter
from radrm.cli.results import job_name, run_on_jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_FOLLOWERS = "Also the jobs that follow them (--after) and have failed or been cancelled, in order."
PARAMETERS = (
    *(CHOSEN_JOBS, USER, STATE),
    Parameter("followers", FLAG, _FOLLOWERS, flags=("--followers",)),
    JSON,
)


def requeue(jobs: list[str], user: str, state: str, followers: bool, as_json: bool) -> int:
    """Put jobs back into the queue.

    A running job is stopped first; a job that has ended runs again.

    \b
    Examples:
      radrm requeue 12
      radrm requeue 12_3 12_7
      radrm requeue 12 --followers          and what failed because of it
      radrm requeue 'sweep-*' --state failed,timeout
    """
    more = {"followers": True} if followers else {}
    return run_on_jobs("requeue", jobs, _describe, as_json, user, state, more)


def _describe(result: Document) -> str:
    return f"Requeued {job_name(result)}, it was {result['state']}"
