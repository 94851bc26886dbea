"""`radrm edit`: change options of jobs. The option table defines them."""

from __future__ import annotations

from radrm.cli.commands.jobs import to_change
from radrm.cli.parameters import JSON, OF_JOBS, REFERENCES, WORDS, Parameter
from radrm.cli.results import job_name, show_results
from radrm.client.connection import command_jobs
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

EDIT_USAGE = ("radrm edit JOB... OPTIONS",)
EDIT_PARAMETERS = (
    Parameter("jobs", WORDS, f"Jobs: {REFERENCES}.", "JOB..."),
    Parameter("options", OF_JOBS, "Options to change."),
    JSON,
)


def edit(jobs: list[str], options: RawOptions, as_json: bool) -> int:
    """Change options of jobs: priority, time limit, memory...

    Options that are not given stay as they are. All options of a waiting job can change; of a
    running job only those marked *.

    \b
    Examples:
      radrm edit 12 --priority=10
      radrm edit 'sweep-*' --time=2:00:00 --gpu-memory=12G
      radrm edit 12 --due=+4h
    """
    if not jobs:
        raise UsageError("command line: no job named; write: radrm edit JOB --priority=10")
    results = command_jobs("edit", jobs, options=to_change(options), folders=True)
    return show_results(results, _describe, as_json)


def _describe(result: Document) -> str:
    warning = f"; warning: {result['warning']}" if result.get("warning") else ""
    return f"Changed {job_name(result)}{warning}"
