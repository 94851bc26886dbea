"""Commands about the user's own jobs. The server offers them only with `--allow-commands`.

The daemon refuses commands about other users' jobs, but not to root and to its own user. So each
command also names its user here: an agent of root acts on root's jobs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from radrm.agents.answers import Commanded, Done, Submitted
from radrm.agents.bounded import daemon, fitting, name, text, texts
from radrm.agents.preview import Command, File, Options, Value, raw_of, request_of
from radrm.client.connection import Client, changes_of, warned
from radrm.client.submitting import check, put
from radrm.client.text import Document, label
from radrm.errors import Refused
from radrm.jobfile.confirmation import notes_on

MOST_JOBS = 100
References = Annotated[
    list[str],
    Field(min_length=1, max_length=MOST_JOBS, description="Jobs: 12, 12_3, a ticket, a name."),
]
Changes = Annotated[
    dict[str, Value],
    Field(
        description="Options of `radrm edit`, as radrm.Client takes them: "
        '{"gpu_memory": "12G"}; true for an option without a value.'
    ),
]

_ROWS = 1000


def submit_job(command: Command = None, file: File = None, options: Options = None) -> Submitted:
    """Submit one job, or one array. It runs with this server's environment, in its folder or in
    that of the option `chdir`. Ask preview_submit first."""
    request = request_of(command, file, options)
    with daemon() as client:
        results, paths, up = check(client, request)
        (found,) = results
        if found["error"] is None:
            put(client, results, paths, up)
        if found["error"] is not None:
            raise Refused(found["error"])
    job = None if found["id"] is None else str(found["id"])
    return Submitted(
        job=job,
        ticket=text(found["ticket"]),
        name=name(found["name"]),
        notes=texts(notes_on(found["job_file"])),
        next_steps=[f"radrm status {job or found['ticket']}"],
    )


def cancel_jobs(jobs: References) -> Commanded:
    """Cancel jobs of this user, waiting or running. Running ones lose what they have not saved."""
    return _command("cancel", jobs)


def hold_jobs(jobs: References) -> Commanded:
    """Keep waiting jobs of this user from starting, until they are released."""
    return _command("hold", jobs)


def release_jobs(jobs: References) -> Commanded:
    """Let held jobs of this user start."""
    return _command("release", jobs)


def requeue_jobs(jobs: References) -> Commanded:
    """Run jobs of this user again. A running one that can save does so first, and runs on if it
    does not; any other running one is stopped."""
    return _command("requeue", jobs)


def edit_jobs(jobs: References, options: Changes) -> Commanded:
    """Change options of unfinished jobs of this user: memory, time limit, priority..."""
    raw = raw_of(options)
    with daemon() as client:
        me = _me(client)
        _refuse_others(client, jobs, me)
        raw = changes_of(raw, "options", client.ask)
        results = client.ask("edit", jobs=jobs, options=raw, folders=True)
        return _commanded("edit", warned(results, raw))


def _command(command: str, jobs: list[str]) -> Commanded:
    with daemon() as client:
        # With a user, jobs of others are skipped, also for root.
        results = client.ask(command, jobs=jobs, user=_me(client))
    if not results:
        raise Refused("none of these jobs is this user's")
    return _commanded(command, results)


def _me(client: Client) -> str:
    """This user, as the daemon names it."""
    user: str = client.ask("limits")["user"]
    return user


def _refuse_others(client: Client, jobs: list[str], me: str) -> None:
    """Refuse a command that is about jobs of others, too."""
    found = client.ask("page", jobs=jobs, limit=_ROWS)
    if found["total"] > _ROWS:
        raise Refused(f"these are {found['total']} jobs, {_ROWS} is the most; name fewer")
    other = next((job for job in found["jobs"] if job["user"] != me), None)
    if other is not None:
        raise Refused(f"job {label(other)} is {other['user']}'s; name jobs of {me}")


def _commanded(command: str, results: Sequence[dict[str, Any]]) -> Commanded:
    rows = fitting(map(_done, results))
    refused = sum(1 for each in results if each["error"] is not None)
    return Commanded(
        command=command,
        done=len(results) - refused,
        refused=refused,
        jobs=rows,
        left_out=len(results) - len(rows),
    )


def _done(result: Document) -> Done:
    followers = texts(result.get("followers"))
    return Done.of(result, job=name(label(result)), was=result["state"], failing_with_it=followers)
