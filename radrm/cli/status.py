"""`radrm status`: what is queued, what runs, what has become of the rest."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.live import Live

from radrm.cli.client import Client
from radrm.cli.options import Json
from radrm.cli.render import job_details, jobs_table, out, print_json

_REFRESH_S = 0.5


def status(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="Job ids or tickets; all that have not ended."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Those that have ended, too (the latest 10000).")
    ] = False,
    user: Annotated[str, typer.Option(help="Only this user's jobs.")] = "",
    state: Annotated[str, typer.Option(help="Only jobs in this state.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Keep showing, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show jobs: where they are, why they wait, how they ended."""
    words: dict[str, Any] = {"jobs": jobs or [], "all": show_all}
    words |= {"user": user or None, "state": state or None}
    with Client() as client:
        if follow and not as_json:
            with Live(console=out(), auto_refresh=False) as live:
                while True:
                    live.update(_table(client, words), refresh=True)
                    time.sleep(_REFRESH_S)
        found = client.ask("status", **words)
        if as_json:
            print_json(found)
        elif jobs and len(found) == 1:
            out().print(job_details(found[0]))
        elif not found:
            out().print("No jobs." if show_all else "No unfinished jobs (--all shows the others).")
        else:
            out().print(_table(client, words))


def _table(client: Client, words: dict[str, Any]) -> Any:
    now = client.ask("ping")["now"]
    return jobs_table(client.ask("status", **words), client.ask("gpus"), now)
