"""`radrm status`: what is queued, what runs, what has become of the rest."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from radrm.cli.commands.logs import printer
from radrm.cli.options import REFERENCES, Json
from radrm.cli.show.card import card, headline, next_steps
from radrm.cli.show.live import watch
from radrm.cli.show.render import PAGE, change_line, counts_line, job_rows, out
from radrm.client.connection import Client, every_job
from radrm.client.follow import LogFollower, Patient, changes, end_line
from radrm.client.text import Document, label, print_json, warn
from radrm.errors import Refused, plain


def status(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB", help=f"{REFERENCES}; all that have not ended."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Those that have ended, too (the latest 10000).")
    ] = False,
    user: Annotated[str, typer.Option(metavar="NAME", help="Only this user's jobs.")] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE,...", help="Only these states, as running,pending.")
    ] = "",
    page: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Which page of many jobs.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1000, help=f"Rows on a page (otherwise {PAGE})."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Live; of one job its log too. Ends by Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show jobs: where they are, why they wait, how they ended. Of one job everything.

    With --follow where there is no terminal: a line for each change, until all have ended.

    \b
    Examples:
      radrm status                         what has not ended
      radrm status 12                      all about job 12
      radrm status --all --state failed    what has failed
      radrm status 'sweep-*' --follow      live
    """
    words: Document = {"jobs": jobs or [], "all": show_all}
    words |= {"user": user or None, "state": state.replace(" ", "") or None}
    size = limit or PAGE
    first = ((page or 1) - 1) * size
    with Client() as client:
        if follow:
            _follow(client, words, first, size, as_json)
        elif as_json:
            found = every_job(client.ask, **words)
            print_json(found[first : first + size] if page or limit else found)
        else:
            _show(client, words, first, size)


# ------------------------------------------------------------------ once


def _show(client: Client, words: Document, first: int, size: int) -> None:
    found = client.ask("page", **words, offset=first, limit=size)
    jobs, total = found["jobs"], found["total"]
    if words["jobs"] and total == 1 and jobs and jobs[0].get("count", 1) == 1:
        _show_card(client, jobs[0], found)
        return
    console = out()
    if not total:
        console.print(_none(words))
        return
    if not jobs:
        pages = -(-total // size)
        raise Refused(f"there is no page {first // size + 1}; there are {pages}")
    console.print(counts_line(found["counts"], len(found["devices"])))
    for note in found.get("notes") or []:
        console.print(Text(plain(note), style="yellow"), soft_wrap=True)
    console.print(job_rows(jobs, found["devices"], found["now"]))
    left = total - first - len(jobs)
    if left > 0:
        console.print(Text(f"... {left} more: {_next_page(words, first, size)}"), soft_wrap=True)


def _show_card(client: Client, job: Document, page: Document) -> None:
    attempts: list[Document] = []
    logs = None
    with contextlib.suppress(Refused):
        answer = client.ask("explain", jobs=[label(job)])
        job, attempts = answer["job"], answer["attempts"]
    if job["attempts"]:
        with contextlib.suppress(Refused):
            logs = client.ask("logs", jobs=[label(job)])
    out().print(card(job, page["now"], page["devices"], attempts, logs), soft_wrap=True)


def _none(words: Document) -> Text:
    if words["state"] and not words["jobs"]:
        of = f" of {plain(words['user'])}" if words["user"] else ""
        return Text(f"No job{of} is {plain(words['state'])}.")
    if words["user"] or words["state"] or words["jobs"]:
        return Text("No such jobs." if words["all"] else "No such jobs that have not ended.")
    return Text("No jobs." if words["all"] else "No unfinished jobs (--all shows the others).")


def _next_page(words: Document, first: int, size: int) -> str:
    command = ["radrm", "status", *words["jobs"]]
    command += ["--all"] if words["all"] else []
    for option in ("user", "state"):
        command += [f"--{option}", words[option]] if words[option] else []
    command += ["--limit", str(size)] if size != PAGE else []
    return plain(shlex.join([*command, "--page", str(first // size + 2)]))


# ------------------------------------------------------------------ live


def _follow(client: Client, words: Document, first: int, size: int, as_json: bool) -> None:
    found = client.ask("page", **words, offset=first, limit=2)
    alone = words["jobs"] and found["total"] == 1 and found["jobs"][0].get("count", 1) == 1
    if as_json:
        for changed in changes(Patient(client, warn).ask, words):
            print(*map(json.dumps, changed), sep="\n", flush=True)
    elif alone:
        _follow_one(client, found)
    elif sys.stdout.isatty():
        watch(client, out(), words, first, size)
    else:
        _follow_lines(client, words)


def _follow_one(client: Client, found: Document) -> None:
    """The job in a line, its log as it grows, how it ended."""
    (job,) = found["jobs"]
    console = out()
    console.print(headline(job, found["devices"]), soft_wrap=True)

    def say(text: str) -> Any:
        console.print(Text(plain(text), style="dim"), soft_wrap=True)

    follower = LogFollower(
        Patient(client, say).ask, label(job), "stdout", printer(job["user"]), say
    )
    try:
        job = follower.follow(attempt=None, lines=None)
    except Refused:
        (job,) = client.ask("status", jobs=[label(job)])
        if job["attempts"]:  # it is its log that cannot be read
            raise
    console.print(Text(end_line(job), style="bold"), soft_wrap=True)
    if job["state"] != "COMPLETED":
        console.print(Text(f"next: {'   '.join(next_steps(job))}"), soft_wrap=True)


def _follow_lines(client: Client, words: Document) -> None:
    ask = Patient(client, warn).ask
    console, told = out(), False
    for changed in changes(ask, words):
        left = 0 if told else len(changed) - PAGE
        changed, told = changed if told else changed[:PAGE], True
        at = ask("page", **words, offset=0, limit=1)
        for job in changed:
            console.print(change_line(job, at["devices"], at["now"]), soft_wrap=True)
        if left > 0:
            console.print(f"... and {left} more, told of when they change")
        sys.stdout.flush()
    if not told:
        console.print(_none(words))
