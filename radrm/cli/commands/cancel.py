"""`radrm cancel`: end jobs with TERM, then with KILL after the grace time."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, FLAG, JSON, STATE, USER, Parameter
from radrm.cli.results import job_name, run_on_jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_MOST_NAMED = 10
PARAMETERS = (
    *(CHOSEN_JOBS, USER, STATE),
    Parameter("dry_run", FLAG, "Name the jobs, and cancel none.", flags=("--dry-run",)),
    JSON,
)


def cancel(jobs: list[str], user: str, state: str, dry_run: bool, as_json: bool) -> int:
    """Cancel jobs, waiting or running.

    All processes of a running job get TERM, and KILL after the grace time. A job that can
    only start after a cancelled one completes (--after) fails with it and is named.

    \b
    Examples:
      radrm cancel 12
      radrm cancel 12_3 'sweep-*'
      radrm cancel --state pending          all your waiting jobs
      radrm cancel 'sweep-*' --state running
      radrm cancel 'sweep-*' --dry-run      which jobs these are
    """
    if dry_run:
        return run_on_jobs("would-cancel", jobs, _would, as_json, user, state)
    return run_on_jobs("cancel", jobs, _describe, as_json, user, state)


def _would(result: Document) -> str:
    return _describe(result, "Would cancel", "is")


def _describe(result: Document, did: str = "Cancelled", was: str = "was") -> str:
    line = f"{did} {job_name(result)}, it {was} {result['state']}"
    followers = result.get("followers") or []
    if not followers:
        return line
    named = ", ".join(map(str, followers[:_MOST_NAMED]))
    more = f" and {len(followers) - _MOST_NAMED} more" if len(followers) > _MOST_NAMED else ""
    failing = (
        "the job that follows it fails" if len(followers) == 1 else "the jobs that follow it fail"
    )
    return f"{line}; {failing} with it: {named}{more}"
