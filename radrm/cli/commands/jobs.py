"""`radrm cancel`, `hold`, `release`, `requeue` and `wait`."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, FLAG, JOBS, JSON, OF_JOBS, STATE, USER, Parameter
from radrm.cli.results import job_name, run_on_jobs
from radrm.client.connection import Client, changes_of
from radrm.client.text import print_json, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

_MOST_NAMED = 10
CANCEL_PARAMETERS = (
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
    return run_on_jobs("cancel", jobs, _cancelled, as_json, user, state)


def _would(result: Document) -> str:
    return _cancelled(result, "Would cancel", "is")


def _cancelled(result: Document, did: str = "Cancelled", was: str = "was") -> str:
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


HOLD_PARAMETERS = (CHOSEN_JOBS, USER, STATE, JSON)


def hold(jobs: list[str], user: str, state: str, as_json: bool) -> int:
    """Keep waiting jobs from starting, until they are released.

    A held job keeps its age in the queue; other jobs pass it. `radrm submit --hold` submits
    a job as held.

    \b
    Examples:
      radrm hold 12
      radrm hold 'sweep-*'; radrm release 'sweep-*'
      radrm hold --state pending            all your waiting jobs
    """
    return run_on_jobs("hold", jobs, lambda r: f"Held {job_name(r)}", as_json, user, state)


RELEASE_PARAMETERS = (CHOSEN_JOBS, USER, STATE, JSON)


def release(jobs: list[str], user: str, state: str, as_json: bool) -> int:
    """Let held jobs start, and jobs that pause before a retry.

    \b
    Examples:
      radrm release 12
      radrm release 'sweep-*'
      radrm release --state pending         all your jobs that are held or pause
    """
    return run_on_jobs("release", jobs, lambda r: f"Released {job_name(r)}", as_json, user, state)


_FROM_START = "Begin anew: do not save, and go on from nothing that was saved."
_FOLLOWERS = "Also the jobs that follow them (--after) and have failed or been cancelled, in order."
REQUEUE_PARAMETERS = (
    *(CHOSEN_JOBS, USER, STATE),
    Parameter("from_start", FLAG, _FROM_START, flags=("--from-start",)),
    Parameter("followers", FLAG, _FOLLOWERS, flags=("--followers",)),
    Parameter("options", OF_JOBS, "Options to change, as of radrm edit."),
    JSON,
)


def requeue(
    jobs: list[str],
    user: str,
    state: str,
    from_start: bool,
    followers: bool,
    options: RawOptions,
    as_json: bool,
) -> int:
    """Put jobs back into the queue.

    They wait behind all others. A running job that can save is asked to, stops when it has saved,
    and goes on from that. If it does not save in time, it runs on. Any other running job is stopped
    at once. A job that has ended runs again: from what it has saved, or from its start if it is
    COMPLETED and no steps are known to be left.

    All options of radrm edit change the named jobs first. A job that refuses the change
    stays as it was.

    \b
    Examples:
      radrm requeue 12 --gpu-memory=16G     with more memory
      radrm requeue 12_3 12_7
      radrm requeue 12 --from-start         from nothing that was saved
      radrm requeue 12 --followers          and what failed because of it
      radrm requeue 'sweep-*' --state failed,timeout
    """
    words = {"followers": followers, "from_start": from_start}
    more: Document = {name: True for name, given in words.items() if given}
    if options:
        more |= {"options": to_change(options), "folders": True}
    changed = ", ".join(f"--{name}" for name in options)

    def describe(result: Document) -> str:
        warning = f"; warning: {result['warning']}" if result.get("warning") else ""
        if result.get("saves"):
            line = f"Asked {job_name(result)} to save its work; when it has, it is requeued"
        else:
            line = f"Requeued {job_name(result)}, it was {result['state']}"
        return f"{line}; changed {changed}{warning}" if changed else f"{line}{warning}"

    return run_on_jobs("requeue", jobs, describe, as_json, user, state, more)


def to_change(options: RawOptions) -> RawOptions:
    with Client() as client:
        return changes_of(options, "command line", client.ask)


WAIT_PARAMETERS = (JOBS, JSON)


def wait(jobs: list[str], as_json: bool) -> int:
    """Wait for jobs to end.

    The exit code is the highest of the jobs' own; 124 for a time limit, 125 for a job that
    was lost or never started, 127 if its program is missing, 128+n for signal n. A name or
    pattern selects unfinished jobs; if none matches, ended ones. '*' selects unfinished jobs only.

    \b
    Examples:
      radrm wait 12 && echo fine
      radrm wait 'sweep-*'
    """
    from radrm.client.awaiting import highest, tell_failures, wait_for  # the others wait for none

    with Client() as client:
        documents = wait_for(client, jobs)
    if as_json:
        print_json(documents)
    else:
        tell_failures(documents)
    if not documents and jobs == ["*"]:
        warn("no job is unfinished")
        return 0
    return highest(documents)
