"""`radrm submit`: submit jobs. Users wait for this command, so it imports little.

`radrm.client.submitting` does the work, so that other programs share it. Here are the arguments,
the printed lines and the exit code.
"""

from __future__ import annotations

import os

from radrm.client.connection import Client
from radrm.client.submitting import check, count_of, put, remarks_on
from radrm.client.text import print_json, print_text, say, warn
from radrm.errors import UsageError, plain
from radrm.host.storage.paths import not_running
from radrm.jobfile.command_line import STDIN, SubmitRequest, parse_submit
from radrm.jobfile.command_line import SUBMIT_PARAMETERS as SUBMIT_PARAMETERS
from radrm.jobfile.confirmation import understood
from radrm.jobfile.languages import is_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from radrm.client.submitting import Submission
    from radrm.client.tail import Begins
    from radrm.host.storage.paths import Paths


SUBMIT_USAGE = (
    "radrm submit [OPTIONS] FILE... [-- ARGUMENT...]",
    "radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
    "radrm submit [OPTIONS] --lines FILE",
)


def submit(argv: list[str]) -> int:
    """Submit job files, or one command, and print a ticket for each. No daemon needs to run.

    Options here override the #RAD lines of a file; - is standard input.

    \b
    Examples:
      radrm submit train.rad
      radrm submit --gpus=1 --gpu-memory=10G --time=4h -- python train.py
      radrm submit --param lr=1e-3,1e-4 -- python train.py --lr {lr}
    """
    before = argv[: argv.index("--") if "--" in argv else None]
    if "--slurm" in before:
        return carry_out(_target("slurm").request_of(argv))
    _refuse_command(argv)
    return carry_out(parse_submit(argv))


def carry_out(request: SubmitRequest) -> int:
    """Submit what a command line asks for. Returns the exit code."""
    if request.help:
        from radrm.cli.help import help_of  # only the help needs it

        print_text(help_of("submit", request.help_all))
        return 0
    for place, asked in (("cluster", request.cluster), ("pilot", request.pilot)):
        if asked:
            code: int = _target(place).submit(request)
            return code
    _refuse_arguments(request.files)
    with Client() as client:
        results, paths, up = check(client, request)
        if request.dry_run:
            from radrm.cli.dry_run import show_dry_run

            return show_dry_run(results, client if up else None, request.json)
        begins = log_begins(results) if request.wait else {}
        put(client, results, paths, up)
        try:
            tell(request, results, None if up or client.paths is not None else paths)
        except OSError as error:
            warn(
                f"cannot write the output: {error.strerror}; the jobs are submitted "
                "nevertheless: do not submit them again"
            )
            return 1
        failed = max((result["code"] for result in results), default=0)
        if request.wait:
            return max(_wait(client, request, results, begins), failed)
    return failed


def _target(name: str) -> Any:
    from radrm.wings import target  # few jobs go elsewhere, and it is slow to import

    return target(name)


def _refuse_command(words: Sequence[str]) -> None:
    """Raise `UsageError` if the first word that is no option is a program: a command without `--`
    before it, whose arguments would be read as job files and options."""
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    if at + 1 >= len(words) or "/" in words[at] or os.path.exists(words[at]):
        return
    if at and "=" not in words[at - 1]:
        return  # it may be the value of an option, or stand behind `--`
    from shutil import which  # only this mistake needs it

    if which(words[at]) is not None:
        step = _line([*words[:at], "--", *words[at:]])
        raise UsageError(f"{words[at]} is a program, not a job file; write: {step}")


def _refuse_arguments(files: Sequence[str]) -> None:
    """Raise `UsageError` for arguments of a job file without `--` before them, before the file is
    submitted without them."""
    if len(files) < 2 or not _can_be_job(files[0]):
        return
    for file in files[1:]:
        if not _can_be_job(file):
            step = _line([files[0], "--", *files[1:]])
            raise UsageError(
                f"{plain(file)} is no job file, and nothing was submitted; for arguments of "
                f"{plain(files[0])} write: {step}"
            )


def _can_be_job(file: str) -> bool:
    return file == STDIN or (os.path.lexists(file) and not is_data(file))


def _line(words: Sequence[str]) -> str:
    import shlex

    return plain(shlex.join(["radrm", "submit", *words]))


def _streams(request: SubmitRequest, results: list[Submission]) -> bool:
    """True if the command shows the output of its only job."""
    if not request.wait or request.json or request.parsable:
        return False
    return (
        len(results) == 1
        and results[0]["ticket"] is not None
        and count_of(results[0]["job_file"]) <= 1
    )


def log_begins(results: list[Submission]) -> Begins:
    """Return how long the logs of a single job are already."""
    from radrm.client.tail import begins_of

    job_file = results[0].get("job_file") if len(results) == 1 else None
    if job_file is None:
        return {}
    asked = job_file.options
    return begins_of(
        *(path and os.path.join(asked.chdir or "", path) for path in (asked.output, asked.error))
    )


def _wait(client: Client, request: SubmitRequest, results: list[Submission], begins: Begins) -> int:
    """Wait for the jobs; of a single one, show the output. Returns the highest exit code."""
    tickets = [r["ticket"] for r in results if r["ticket"] is not None]
    if not tickets:
        return 0
    if _streams(request, results):
        from radrm.cli.show.log import outputs, stream_and_leave

        job = str(results[0]["id"] or tickets[0])
        return stream_and_leave(client, job, outputs(None), begins=begins)
    from radrm.client.awaiting import highest, tell_failures, wait_for

    ended = wait_for(client, tickets)
    tell_failures(ended)
    return highest(ended)


# ------------------------------------------------------------------ printing


def tell(request: SubmitRequest, results: list[Submission], unserved: Paths | None) -> None:
    """Print what became of each job. `unserved`: the daemon's paths if none runs."""
    if request.json:
        wanted = ("ticket", "id", "name", "file", "error")
        print_json([{key: r[key] for key in wanted} for r in results])
    for result in results:
        if result["error"] is not None:
            warn(result["error"])
            continue
        where = result["file"] or result["name"]
        for kind, text in remarks_on(result):
            warn(f"{kind}: {where}: {text}")
        if request.parsable:
            say(result["ticket"])
        elif not request.json:
            asked = understood(result["job_file"].options, result["job_file"].raw)
            if result["id"] is not None:
                what = f"job {result['id']} ({result['name']})"
                line = f"Submitted {what}{_elements(result)}, ticket {result['ticket']}{asked}"
            else:
                name = result["name"]
                line = f"Submitted {name}{_elements(result)} as {result['ticket']}{asked}"
            # Standard output is for the output of the job.
            say(line, error=_streams(request, results))
    waiting = sum(1 for r in results if r["ticket"])
    if unserved is not None and waiting and not request.json:
        they = "the job waits" if waiting == 1 else f"the {waiting} jobs wait"
        cause, step = not_running((unserved,))
        warn(f"{cause}; {they} in {unserved.state}; {step}")


def _elements(result: Submission) -> str:
    count = count_of(result["job_file"])
    if not count:
        return ""
    return f", an array of {count}" if count > 1 else ", an array of one"
