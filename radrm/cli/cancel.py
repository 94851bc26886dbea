"""`radrm cancel`: end jobs: TERM, and KILL after the grace time."""

from __future__ import annotations

import sys

import typer

from radrm.cli.client import Client
from radrm.cli.options import Jobs, Json
from radrm.cli.render import print_json


def cancel(jobs: Jobs, as_json: Json = False) -> None:
    """Cancel jobs, waiting or running."""
    with Client() as client:
        results = client.ask("cancel", jobs=jobs)
    if as_json:
        print_json(results)
    for result in results:
        if result["error"] is not None:
            print(f"radrm: {result['error']}", file=sys.stderr)
        elif not as_json:
            print(f"Cancelled job {result['id']} (it was {result['state']})")
    if any(result["error"] for result in results):
        raise typer.Exit(1)
