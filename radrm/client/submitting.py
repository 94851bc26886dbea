"""Submit jobs: read them, check them, spool them, learn their ids. Light to import.

Theory of operation. A job that has a ticket is on disk in the spool, so no crash can lose it.
Before that, a running daemon is asked whether the job can ever run; after that, it is asked for
the job's id. If the daemon dies in between, the ticket still names the job.

A job on its way is a `Submission`, a dictionary with `ticket`, `id`, `name`, `file`, `error` and
`code`, the exit code for its error.
If the job can be read, it also has `job_file` and `envelope`. The environment and the working
folder of the jobs are those of this process.
"""

from __future__ import annotations

import os

from radrm.client.connection import LIMIT_S, find_spool
from radrm.errors import RadrmError, Unreachable
from radrm.host.mistakes import look_over, with_notes
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of, here, load, read_text, with_table
from radrm.jobfile.command_line import STDIN
from radrm.jobfile.options import MOMENTS
from radrm.jobfile.radfile import NOTIFY_VARIABLE, name_from, read_job_file, wrap_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from radrm.client.connection import Client
    from radrm.client.snapshots import Copies
    from radrm.host.storage.paths import Paths
    from radrm.jobfile.command_line import SubmitRequest
    from radrm.jobfile.moments import Here
    from radrm.jobfile.options import RawOptions
    from radrm.jobfile.radfile import JobFile
    from radrm.jobfile.relations import AfterOption

    Submission = dict[str, Any]

_BATCH = 1000
CHECK_S = 20.0
"""Real seconds that a daemon has for each question before a job is on disk. One that hangs must not
keep it from there."""
_NEEDS = frozenset(
    {
        *("gpus", "gpu-memory", "cpus", "memory", "role", "mig-profile", "gpu-type"),
        *("collocation", "array", "priority", "after", "notify", "prefer-gpus", "avoid-gpus"),
    }
)
"""The options that decide whether a job can ever run on a server, whether its user may submit it,
and which notes its user gets."""


def check(client: Client, request: SubmitRequest) -> tuple[list[Submission], Paths, bool]:
    """Read the jobs of a request and ask the daemon whether they can run. Returns a result for
    each, where they are to be put, and whether a daemon answers."""
    client.wait_at_most(CHECK_S)
    try:
        paths, up = find_spool(client)
        results = _read_all(request, client if up else None, paths)
        if up:
            try:
                _refuse_hopeless(client, results)
            except Unreachable as error:  # it is busy, or has ended: the spool does not need it
                up = False
                for result in results:
                    _note_unchecked(result, error)
    finally:
        client.wait_at_most(LIMIT_S)
    return results, paths, up


def put(client: Client, results: list[Submission], paths: Paths, up: bool) -> None:
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


def remarks_on(result: Submission) -> list[tuple[str, str]]:
    """Return what its submitter should know of a job, each a `note` or a `warning` and its text.

    The same for a job that is submitted and for one that would be.
    """
    from radrm.jobfile.confirmation import notes_on

    options = result["job_file"].options
    late = None
    if options.due_s is not None:
        from radrm.jobfile.moments import too_late  # few submissions have a due time

        begin_s = max(result["now_s"], options.begin_s or 0.0)
        late = too_late(result["needs_s"], options.due_s, begin_s)
    found = [("warning", late)] if late is not None else []
    return [*found, *(("note", note) for note in notes_on(result["job_file"]))]


# ------------------------------------------------------------------ reading


def _read_all(request: SubmitRequest, client: Client | None, paths: Paths) -> list[Submission]:
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

    tickets: dict[str, str] = {}

    def followed(after: Sequence[AfterOption]) -> list[str]:
        """`--after` with ids in place of names: later jobs of a name do not count, and of those
        that are submitted together the earlier ones come first."""
        words = [f"{tickets.get(each.job, each.job)}:{each.condition}" for each in after]
        unknown = [each.job for each in after if each.looked_up and each.job not in tickets]
        if not unknown:
            return words
        if client is None:
            raise Unreachable(
                f"--after={unknown[0]}: no daemon answers that could look it up; start one, or "
                "name an id or a ticket"
            )
        found: list[str] = client.ask("after", after=words)
        return found

    results = []
    for name in request.files or (None,):
        result = _result(name, request, here_now, all_copies, followed)
        if result["error"] is None:
            tickets[result["name"]] = result["envelope"].ticket
        results.append(result)
    return results


def _result(
    name: str | None,
    request: SubmitRequest,
    here_now: Any,
    all_copies: Any,
    followed: Any,
) -> Submission:
    result: Submission = {"ticket": None, "id": None, "name": None, "file": name, "error": None}
    result["code"] = 0
    try:
        data = request.contents if name is None or request.contents is not None else load(name)
        if name == STDIN:
            name = result["file"] = None
        job_file = (
            _of_command(request)
            if data is None
            else read_job_file(
                data, name or "job", request.raw_options, request.slurm, request.arguments
            )
        )
        if job_file.table is None:
            job_file = with_table(job_file, typed="params" in request.raw_options)
        if MOMENTS & job_file.raw.keys():
            result["now_s"] = here_now().now_s
            job_file = job_file.dated(here_now(), name or "command line")
        job_file = job_file.with_default_targets(os.environ.get(NOTIFY_VARIABLE, ""))
        named = any(each.looked_up for each in job_file.options.after)
        if named:
            # `none` first: these values replace those of the file.
            words = ["none", *followed(job_file.options.after)]
            job_file = job_file.with_words("after", words, "--after")
        result["name"] = job_file.name
        result["job_file"] = job_file
        result["needs_s"] = job_file.options.duration_s
        raw = request.raw_options if data is not None else job_file.raw
        if job_file.options.snapshot is not None:
            result["copies"] = all_copies()
            result["copy"] = result["copies"].of(job_file)
            raw = {**raw, "snapshot": result["copy"].run_folder(job_file)}
        if named:
            raw = {**raw, "after": job_file.raw["after"]}
        envelope = result["envelope"] = envelope_of(job_file, name, data, raw)
        where = name or "command line"
        result["job_file"] = look_over(job_file, envelope.cwd, envelope.environment, where)
    except RadrmError as error:
        result["error"] = str(error)
        result["code"] = error.exit_code
        result["cause"] = error
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


def _refuse_hopeless(client: Client, results: list[Submission]) -> None:
    """Mark jobs that can never run on this server, or exceed a limit. They are not submitted."""
    sound = [r for r in results if r["error"] is None]
    for batch in _batches(sound):
        needs = [needs_of(r["job_file"]) for r in batch]
        environment = batch[0]["envelope"].environment.items()
        size = sum(
            len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in environment
        )
        found = client.ask("check", needs=needs, environment=size)
        for result, (why, notes) in zip(batch, found, strict=True):
            result["job_file"] = with_notes(result["job_file"], notes)
            if why is not None:
                if not why.startswith(("limits.", "--")):
                    why = f"it can never run: {why}{_to_lower(result['job_file'])}"
                result["error"] = f"{result['file'] or result['name']}: {why}"
                result["code"] = 1


def _note_unchecked(result: Submission, error: Unreachable) -> None:
    if result["error"] is None:
        note = f"not checked, as the daemon gave no answer ({error}); it takes the job in later"
        result["job_file"] = with_notes(result["job_file"], [note])


def needs_of(job_file: JobFile) -> RawOptions:
    """The options of `_NEEDS`, for the question `check`; a sweep counts as an array of its size."""
    needs = {name: job_file.raw[name] for name in _NEEDS & job_file.raw.keys()}
    if "param" not in job_file.raw and "params" not in job_file.raw:
        return needs
    return {**needs, "array": f"0-{count_of(job_file) - 1}"}


def count_of(job_file: JobFile) -> int:
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


def _spool(spool: Spool, results: list[Submission]) -> None:
    sound = [r for r in results if r["error"] is None]
    spool.put([r["envelope"] for r in sound])
    for result in sound:
        result["ticket"] = result["envelope"].ticket


def _learn_ids(client: Client, results: list[Submission]) -> None:
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


def _note_id(result: Submission, document: dict[str, Any]) -> None:
    result["id"] = document["id"]
    result["needs_s"] = document.get("needs_s") or result["needs_s"]
    if document["state"] == "FAILED" and document["started_at"] is None:
        where = result["file"] or result["name"]
        result["error"] = f"{where}: job {document['id']} failed: {document['reason']}"
        result["code"] = 1


def _batches(results: list[Submission]) -> list[list[Submission]]:
    return [results[i : i + _BATCH] for i in range(0, len(results), _BATCH)]
