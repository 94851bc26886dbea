"""`radrm edit`: change options of jobs. The option table defines them."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli.commands.jobs import to_change
from radrm.cli.parameters import REFERENCES
from radrm.cli.results import job_name, show_results
from radrm.client.commands import command_jobs
from radrm.client.text import Document
from radrm.jobfile.command_line import parse_edit
from radrm.jobfile.options import FIXED, SHOWN

_OF_LIVE_JOBS = (
    "time",
    "signal",
    "priority",
    "due",
    "weight",
    "retries",
    "retry-on",
    "silent-limit",
    "expect-idle",
    "requeue",
    "comment",
)


def edit(
    context: typer.Context,
    show_help: Annotated[bool, typer.Option("--help", "-h", help="Show this text.")] = False,
) -> None:
    """Change options of jobs: priority, time limit, memory... (radrm edit --help)."""
    words = list(context.args)
    if show_help:
        print(edit_help())
        return
    as_json = "--json" in words
    jobs, options = parse_edit([word for word in words if word != "--json"])
    results = command_jobs("edit", jobs, options=to_change(options), folders=True)
    if code := show_results(results, _describe, as_json):
        raise typer.Exit(code)


def _describe(result: Document) -> str:
    warning = f"; warning: {result['warning']}" if result.get("warning") else ""
    return f"Changed {job_name(result)}{warning}"


def edit_help() -> str:
    """The text of `radrm edit --help`."""
    lines = [
        "Usage: radrm edit JOB... OPTIONS",
        "",
        f"Change jobs: {REFERENCES}.",
        "Options that are not given stay as they are. All options of a waiting job can",
        "change; of a running job only those marked *.",
        "",
        "Examples:",
        "  radrm edit 12 --priority=10",
        "  radrm edit 'sweep-*' --time=2:00:00 --gpu-memory=12G",
        "  radrm edit 12 --due=+4h",
        "",
        "Options:",
    ]
    for option in SHOWN:
        if option.name in FIXED:
            continue
        mark = "*" if option.name in _OF_LIVE_JOBS else " "
        if len(option.usage) > 28:
            lines += [f" {mark}{option.usage}", f"{'':32}{option.help}"]
        else:
            lines.append(f" {mark}{option.usage:<28}  {option.help}")
    return "\n".join([*lines, "  --json                        one JSON document"])
