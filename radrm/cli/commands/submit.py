"""`radrm submit`: submit jobs. Users wait for this command, so it imports little.

Theory of operation. A job that it prints as submitted is on disk in the spool, so no crash can
lose it. Before that it asks a running daemon whether the job can ever run; after that it asks
for the job's id. If the daemon dies in between, the ticket still names the job.
"""

from __future__ import annotations

import json
import os
import sys

from radrm.client.connection import Client, find_spool
from radrm.errors import RadrmError, Unreachable, UsageError
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of, here, load, read_text, with_table
from radrm.jobfile.command_line import HOSTS, STDIN, SubmitRequest, parse_submit
from radrm.jobfile.confirmation import notes_on, understood
from radrm.jobfile.options import MOMENTS
from radrm.jobfile.radfile import (
    FOR_SLURM,
    NOTIFY_VARIABLE,
    name_from,
    read_job_file,
    wrap_command,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from radrm.client.snapshots import Copies
    from radrm.host.storage.paths import Paths
    from radrm.jobfile.moments import Here
    from radrm.jobfile.options import RawOptions
    from radrm.jobfile.radfile import JobFile

_BATCH = 1000
_NEEDS = frozenset(
    {
        *("gpus", "gpu-memory", "cpus", "memory", "role", "mig-profile", "gpu-type"),
        *("collocation", "array", "priority"),
    }
)
"""The options that decide whether a job can ever run on a server, and whether its user may submit
it."""


def run(argv: list[str]) -> int:
    """Run the command. Returns its exit code. Raises `RadrmError` if it can submit nothing."""
    before = argv[: argv.index("--") if "--" in argv else None]
    on_hosts = any(word.partition("=")[0] == f"--{HOSTS}" for word in before)
    if on_hosts and not {"--help", "-h"} & set(before):
        from radrm.cli.remote.hosts import submit_on

        return submit_on(argv)
    if "--slurm" in before:
        from radrm.cli.slurm.submitting import translated  # only jobs of Slurm need it

        argv = translated(argv)
    return carry_out(parse_submit(argv))


def carry_out(request: SubmitRequest) -> int:
    """Submit what a command line asks for. Returns the exit code."""
    if request.help:
        from radrm.jobfile.option_help import submit_help  # only the help needs it

        print(submit_help())
        return 0
    _refuse_program(request.files)
    with Client() as client:
        results, paths, up = check(client, request)
        if request.dry_run:
            from radrm.cli.dry_run import show_dry_run

            return show_dry_run(results, client if up else None, request.json)
        put(client, results, paths, up)
        try:
            tell(request, results, None if up else paths)
        except OSError as error:
            print(
                f"radrm: cannot write the output: {error.strerror}; the jobs are submitted "
                "nevertheless: do not submit them again",
                file=sys.stderr,
            )
            return 1
        failed = any(r["error"] for r in results)
        if request.wait:
            return max(_wait(client, request, results), 1 if failed else 0)
    return 1 if failed else 0


def check(client: Client, request: SubmitRequest) -> tuple[list[dict[str, Any]], Paths, bool]:
    """Read the jobs of a request and ask the daemon whether they can run. Returns a result for
    each, where they are to be put, and whether a daemon runs."""
    paths, up = find_spool(client)
    results = _read_all(request, client if up else None, paths)
    if up:
        _refuse_hopeless(client, results)
    return results, paths, up


def put(client: Client, results: list[dict[str, Any]], paths: Paths, up: bool) -> None:
    """Submit the jobs that were found sound, and learn their ids from a daemon that runs. Raises
    `RadrmError` if it can submit nothing."""
    copies = next((r["copies"] for r in results if "copies" in r), None)
    if copies is not None:
        copies.make([r for r in results if r["error"] is None])
    _spool(Spool(paths.spool), results)
    if up:
        _learn_ids(client, results)
        if copies is not None:
            copies.sweep(client)


# ------------------------------------------------------------------ reading


def _refuse_program(files: Sequence[str]) -> None:
    """Raise `UsageError` for a command without `--` before it, before its arguments are submitted
    as job files."""
    if len(files) < 2 or "/" in files[0] or os.path.exists(files[0]):
        return
    from shutil import which  # only this mistake needs it

    if which(files[0]) is not None:
        import shlex

        command = shlex.join(["radrm", "submit", "--", *files])
        raise UsageError(f"{files[0]} is a program, not a job file; write: {command}")


def _read_all(request: SubmitRequest, client: Client | None, paths: Paths) -> list[dict[str, Any]]:
    """One result per job; with `job_file` and `envelope` if the job can be read.

    `client`: of a running daemon.
    """
    known: list[Here] = []
    copies: list[Copies] = []

    def here_now() -> Here:
        """This zone, and the daemon's time: with simulated GPUs its clock may run faster."""
        if not known:
            known.append(here(None if client is None else client.ask("ping")["now"]))
        return known[0]

    def all_copies() -> Copies:
        """The copies of the code of these jobs. Few submissions make any."""
        if not copies:
            from radrm.client.snapshots import Copies

            copies.append(Copies(paths))
        return copies[0]

    if not request.files:
        return [_result(None, None, request, here_now, all_copies)]
    return [_result(name, load, request, here_now, all_copies) for name in request.files]


def _result(
    name: str | None, load: Any, request: SubmitRequest, here_now: Any, all_copies: Any
) -> dict[str, Any]:
    result: dict[str, Any] = {"ticket": None, "id": None, "name": None, "file": name, "error": None}
    try:
        data = load(name) if load is not None else None
        if name == STDIN:
            name = result["file"] = None
        job_file = (
            _of_command(request)
            if data is None
            else read_job_file(data, name or "job", request.raw_options)
        )
        if job_file.table is None:
            job_file = with_table(job_file, typed="params" in request.raw_options)
        if MOMENTS & job_file.raw.keys():
            result["now_s"] = here_now().now_s
            job_file = job_file.dated(here_now(), name or "command line")
        job_file = job_file.with_default_targets(os.environ.get(NOTIFY_VARIABLE, ""))
        result["name"] = job_file.name
        result["job_file"] = job_file
        result["needs_s"] = job_file.options.duration_s
        raw = request.raw_options if data is not None else job_file.raw
        if job_file.options.snapshot is not None:
            result["copies"] = all_copies()
            result["copy"] = result["copies"].of(job_file)
            raw = {**raw, "snapshot": result["copy"].run_folder(job_file)}
        result["envelope"] = envelope_of(job_file, name, data, raw)
    except RadrmError as error:
        result["error"] = str(error)
        result["code"] = error.exit_code
    return result


def _of_command(request: SubmitRequest) -> JobFile:
    """The job of the command line, or of the lines of a file: a sweep of one parameter."""
    if not request.lines:
        return wrap_command(list(request.command), request.raw_options)
    from radrm.jobfile import sweeps

    text = read_text(request.lines, "--lines", wait=True)
    name = "lines" if request.lines == "-" else name_from(os.path.basename(request.lines))
    raw: RawOptions = {"name": name, **request.raw_options, "params": request.lines}
    table = sweeps.table_of_lines(text, "command line")
    return sweeps.with_table(wrap_command(list(sweeps.OF_LINES), raw), table)


# ------------------------------------------------------------------ submitting


def _refuse_hopeless(client: Client, results: list[dict[str, Any]]) -> None:
    """Mark jobs that can never run on this server, or exceed a limit. They are not submitted."""
    # A process that is adopted runs already.
    sound = [r for r in results if r["error"] is None and "adopt" not in r["job_file"].raw]
    for batch in _batches(sound):
        needs = [_needs(r["job_file"]) for r in batch]
        environment = batch[0]["envelope"].environment.items()
        size = sum(
            len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in environment
        )
        found = client.ask("check", needs=needs, environment=size)
        for result, why in zip(batch, found, strict=True):
            if why is not None:
                if not why.startswith("limits."):
                    why = f"it can never run: {why}{_to_lower(result['job_file'])}"
                result["error"] = f"{result['file'] or result['name']}: {why}"


def _needs(job_file: JobFile) -> RawOptions:
    """The options of `_NEEDS`; a sweep counts as an array of its size."""
    needs = {name: job_file.raw[name] for name in _NEEDS & job_file.raw.keys()}
    if "param" not in job_file.raw and "params" not in job_file.raw:
        return needs
    return {**needs, "array": f"0-{_count(job_file) - 1}"}


def _count(job_file: JobFile) -> int:
    """The number of elements; 0 for a job that is no array."""
    asked = job_file.options
    if asked.array is None and not asked.param and asked.params is None:
        return 0
    from radrm.jobfile.sweeps import array_of  # few jobs are arrays

    array = array_of(job_file)
    return 0 if array is None else len(array.indices)


def _to_lower(job_file: JobFile) -> str:
    if not job_file.options.of_tasks:
        return ""
    from radrm.jobfile.sizes import smaller_ends

    return f"; {smaller_ends(job_file.raw, job_file.script)}"


def _spool(spool: Spool, results: list[dict[str, Any]]) -> None:
    sound = [r for r in results if r["error"] is None]
    spool.put([r["envelope"] for r in sound])
    for result in sound:
        result["ticket"] = result["envelope"].ticket


def _learn_ids(client: Client, results: list[dict[str, Any]]) -> None:
    """Ask the daemon for the ids. If it has died meanwhile, only the tickets are shown."""
    submitted = [r for r in results if r["ticket"] is not None]
    try:
        for batch in _batches(submitted):
            unknown, before = batch, len(batch) + 1
            # The daemon takes in a limited number at once, in turn with other users' jobs.
            while unknown and len(unknown) < before:
                before = len(unknown)
                found = client.ask("intake", jobs=[r["ticket"] for r in unknown])
                for result, document in zip(unknown, found, strict=True):
                    if document is not None:
                        _note_id(result, document)
                unknown = [r for r in unknown if r["id"] is None]
    except Unreachable:
        pass


def _note_id(result: dict[str, Any], document: dict[str, Any]) -> None:
    result["id"] = document["id"]
    result["unknown_gpus"] = document.get("unknown_gpus")
    result["needs_s"] = document.get("needs_s") or result["needs_s"]
    if document["state"] == "FAILED" and document["started_at"] is None:
        where = result["file"] or result["name"]
        result["error"] = f"{where}: job {document['id']} failed: {document['reason']}"


def _streams(request: SubmitRequest, results: list[dict[str, Any]]) -> bool:
    """True if the command shows the output of its only job."""
    if not request.wait or request.json or request.parsable:
        return False
    return (
        len(results) == 1
        and results[0]["ticket"] is not None
        and _count(results[0]["job_file"]) <= 1
    )


def _batches(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [results[i : i + _BATCH] for i in range(0, len(results), _BATCH)]


def _wait(client: Client, request: SubmitRequest, results: list[dict[str, Any]]) -> int:
    """Wait for the jobs; of a single one, show the output. Returns the highest exit code."""
    tickets = [r["ticket"] for r in results if r["ticket"] is not None]
    if not tickets:
        return 1
    if _streams(request, results):
        from radrm.cli.streaming import stream_and_leave

        return stream_and_leave(client, str(results[0]["id"] or tickets[0]), None)
    from radrm.client.exits import highest, tell_failures, wait_for

    ended = wait_for(client, tickets)
    tell_failures(ended)
    return highest(ended)


# ------------------------------------------------------------------ printing


def tell(request: SubmitRequest, results: list[dict[str, Any]], unserved: Paths | None) -> None:
    """Print what became of each job. `unserved`: the daemon's paths if none runs."""
    if request.json:
        wanted = ("ticket", "id", "name", "file", "error")
        print(json.dumps([{key: r[key] for key in wanted} for r in results], indent=2))
    for result in results:
        if result["error"] is not None:
            print(f"radrm: {result['error']}", file=sys.stderr)
            continue
        _warn_if_late(result)
        if request.parsable:
            print(result["ticket"])
        elif not request.json:
            for note in (*notes_on(result["job_file"]), *_unknown_gpus(result)):
                if request.slurm and FOR_SLURM in note:
                    continue
                where = result["file"] or result["name"]
                print(f"radrm: note: {where}: {note}", file=sys.stderr)
            asked = understood(result["job_file"].options, result["job_file"].raw)
            if result["id"] is not None:
                what = f"job {result['id']} ({result['name']})"
                line = f"Submitted {what}{_elements(result)}, ticket {result['ticket']}{asked}"
            else:
                name = result["name"]
                line = f"Submitted {name}{_elements(result)} as {result['ticket']}{asked}"
            # Standard output is for the output of the job.
            print(line, file=sys.stderr if _streams(request, results) else sys.stdout)
    waiting = sum(1 for r in results if r["ticket"])
    if unserved is not None and waiting and not request.json:
        they = "the job waits" if waiting == 1 else f"the {waiting} jobs wait"
        print(
            f"radrm: no daemon is running; {they} in {unserved.state} until one is: radrm daemon",
            file=sys.stderr,
        )
    print(end="", flush=True)


def _unknown_gpus(result: dict[str, Any]) -> list[str]:
    """A note on names of GPUs that the daemon does not know now; a GPU may return."""
    names = ", ".join(result.get("unknown_gpus") or ())
    if not names:
        return []
    return [
        f"no GPU here is named {names}, so --prefer-gpus or --avoid-gpus has no effect by it; "
        "see radrm gpus"
    ]


def _warn_if_late(result: dict[str, Any]) -> None:
    """Warn of a job that cannot end in time."""
    options = result["job_file"].options
    if options.due_s is None:
        return
    from radrm.jobfile.moments import too_late

    begin_s = max(result["now_s"], options.begin_s or 0.0)
    late = too_late(result["needs_s"], options.due_s, begin_s)
    if late is not None:
        where = result["file"] or result["name"]
        print(f"radrm: warning: {where}: {late}", file=sys.stderr)


def _elements(result: dict[str, Any]) -> str:
    count = _count(result["job_file"])
    if not count:
        return ""
    return f", an array of {count}" if count > 1 else ", an array of one"
