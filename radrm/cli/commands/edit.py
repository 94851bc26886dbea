"""`radrm edit`: change what jobs ask for. The words are those of the one option table."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli.options import REFERENCES
from radrm.cli.orders import called, order_jobs
from radrm.jobfile.options import OPTIONS, parse_edit

_OF_LIVE_JOBS = ("time", "signal", "priority", "retries", "requeue", "comment")
_FIXED = ("array", "hold")


def edit(
    context: typer.Context,
    show_help: Annotated[bool, typer.Option("--help", "-h", help="Show this text.")] = False,
) -> None:
    """Change what jobs ask for: priority, time limit, memory... (radrm edit --help)."""
    words = list(context.args)
    if show_help:
        print(edit_help())
        return
    as_json = "--json" in words
    jobs, options = parse_edit([word for word in words if word != "--json"])
    order_jobs("edit", jobs, lambda r: f"Changed {called(r)}", as_json, options=options)


def edit_help() -> str:
    """The text of `radrm edit --help`."""
    lines = [
        "Usage: radrm edit JOB... OPTIONS",
        "",
        f"Change jobs: {REFERENCES}.",
        "What is not named stays as it was. A waiting job may become anything that could",
        "run here; of a running one only what is marked * can change.",
        "",
        "Examples:",
        "  radrm edit 12 --priority=10",
        "  radrm edit 'sweep-*' --time=2:00:00 --gpu-memory=12G",
        "",
        "Options:",
    ]
    for option in OPTIONS:
        if not option.available or option.name in _FIXED:
            continue
        mark = "*" if option.name in _OF_LIVE_JOBS else " "
        if len(option.usage) > 28:
            lines += [f" {mark}{option.usage}", f"{'':32}{option.help}"]
        else:
            lines.append(f" {mark}{option.usage:<28}  {option.help}")
    return "\n".join([*lines, "  --json                        one JSON document"])
