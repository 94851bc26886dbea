"""`radrm submit`: hand in jobs. People wait for this command, so it imports little.

What it prints as submitted is on disk in the spool: from then on no crash of
anything loses it. A daemon that is up is asked before, whether it could ever run
such a job, and after, which id it gave.
"""

from __future__ import annotations

import json
import os
import sys
import time

from radrm.cli.client import Client
from radrm.cli.sources import MAX_SCRIPT, sources_of
from radrm.errors import BadFile, RadrmError, Unreachable
from radrm.host.paths import Paths, prepare, system_mode
from radrm.host.spool import Envelope, Spool
from radrm.host.tickets import new_ticket
from radrm.options import RawOptions, SubmitRequest, parse_submit, submit_help
from radrm.radfile import MAX_BYTES, JobFile, read_job_file, wrap_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BATCH = 1000


def run(argv: list[str]) -> int:
    """The whole command; the exit code. Raises `RadrmError` when nothing could be done."""
    request = parse_submit(argv)
    if request.help:
        print(submit_help())
        return 0
    results = _read_all(request)
    with Client() as client:
        paths, up = _find(client)
        if up:
            _refuse_hopeless(client, results)
        _spool(Spool(paths.spool), results)
        if up:
            _learn_ids(client, results)
        try:
            _print(request, results, None if up else paths)
        except OSError as error:
            print(
                f"radrm: the output cannot be written: {error.strerror}; what was submitted is "
                "queued all the same: do not submit it again",
                file=sys.stderr,
            )
            return 1
        failed = any(r["error"] for r in results)
        if request.wait:
            return max(_wait(client, results), 1 if failed else 0)
    return 1 if failed else 0


# ------------------------------------------------------------------ reading


def _read_all(request: SubmitRequest) -> list[dict[str, Any]]:
    """One result per job; `job_file` and `envelope` only where it can be read."""
    if request.command:
        return [_result(None, None, request)]
    return [_result(name, load, request) for name in request.files]


def _result(name: str | None, load: Any, request: SubmitRequest) -> dict[str, Any]:
    result: dict[str, Any] = {"ticket": None, "id": None, "name": None, "file": name, "error": None}
    try:
        data = load(name) if load is not None else None
        job_file = (
            wrap_command(list(request.command), request.raw_options)
            if data is None
            else read_job_file(data, name or "", request.raw_options)
        )
        result["name"] = job_file.name
        result["job_file"] = job_file
        result["envelope"] = envelope_of(job_file, name, data, request.raw_options)
        if result["envelope"].too_large:
            raise BadFile(
                f"{name or job_file.name}: larger than 8 MiB with its model summary and the "
                "environment; submit it from a smaller environment"
            )
    except RadrmError as error:
        result["error"] = str(error)
        result["code"] = error.exit_code
    return result


def load(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        step = "name a job file, or write a command after --, as: radrm submit -- python train.py"
        raise BadFile(f"cannot read the job file {name}: {error.strerror}; {step}") from None


def envelope_of(
    job_file: JobFile, name: str | None, data: bytes | None, raw: RawOptions
) -> Envelope:
    umask = os.umask(0o077)
    os.umask(umask)
    cwd = _here()
    return Envelope(
        ticket=new_ticket(),
        file=os.path.abspath(name) if name is not None else None,
        script=data.decode() if data is not None else None,
        command=job_file.argv if data is None else None,
        options=dict(raw),
        cwd=cwd,
        umask=umask,
        environment=dict(os.environ),
        submitted_s=time.time(),
        summary=_summary(job_file),
        sources=_sources(job_file, cwd),
    )


def _sources(job_file: JobFile, cwd: str) -> str | None:
    words = job_file.argv or (job_file.script or "")[:MAX_SCRIPT].split()
    return sources_of(words, os.path.join(cwd, job_file.options.chdir or ""))


def _summary(job_file: JobFile) -> str | None:
    """The model summary that the job names, read by the one who may read it."""
    named = job_file.options.model_summary
    if named is None:
        return None
    path = os.path.join(job_file.options.chdir or "", named)
    try:
        # Never waiting for a FIFO, nor taking in a disk.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        trouble = f"cannot be read: {error.strerror}"
    else:
        if len(data) <= MAX_BYTES:
            return data.decode("utf-8", "replace").replace("\0", "")
        trouble = "is larger than 1 MiB"
    print(f"radrm: the model summary {path} {trouble}; it is left out", file=sys.stderr)
    return None


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadFile("the current folder no longer exists; change to one that does") from None


# ------------------------------------------------------------------ handing in


def _find(client: Client) -> tuple[Paths, bool]:
    """Where to put envelopes, and whether a daemon is up there."""
    try:
        return client.connect(), True
    except Unreachable:
        pass
    own = client.candidates[0]
    if not os.path.exists(own.database):
        for paths in client.candidates[1:]:
            if os.path.isdir(paths.spool):
                return paths, False  # the server's, whose daemon will come back
    prepare(own, system_mode(os.environ, os.getuid()))
    return own, False


def _refuse_hopeless(client: Client, results: list[dict[str, Any]]) -> None:
    """What could never run here is refused before it is handed in."""
    sound = [r for r in results if r["error"] is None]
    for batch in _batches(sound):
        needs = [
            {
                "gpus": 1 if r["job_file"].options.gpus is None else r["job_file"].options.gpus,
                "gpu_memory_mib": r["job_file"].options.gpu_memory_mib,
                "mig_profile": r["job_file"].options.mig_profile,
                "collocation": r["job_file"].options.collocation,
            }
            for r in batch
        ]
        for result, why in zip(batch, client.ask("check", needs=needs), strict=True):
            if why is not None:
                result["error"] = f"{result['file'] or result['name']}: it can never run: {why}"


def _spool(spool: Spool, results: list[dict[str, Any]]) -> None:
    sound = [r for r in results if r["error"] is None]
    spool.put([r["envelope"] for r in sound])
    for result in sound:
        result["ticket"] = result["envelope"].ticket


def _learn_ids(client: Client, results: list[dict[str, Any]]) -> None:
    """Ask the daemon for the ids it gave. If it has just died, the tickets do."""
    handed_in = [r for r in results if r["ticket"] is not None]
    try:
        for batch in _batches(handed_in):
            unknown, before = batch, len(batch) + 1
            # A daemon takes in only so much at a time, and others have their turn between.
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
    if document["state"] == "FAILED" and document["started_at"] is None:
        where = result["file"] or result["name"]
        result["error"] = f"{where}: job {document['id']} failed: {document['reason']}"


def _batches(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [results[i : i + _BATCH] for i in range(0, len(results), _BATCH)]


def _wait(client: Client, results: list[dict[str, Any]]) -> int:
    from radrm.cli.exits import highest, tell_failures, wait_for

    tickets = [r["ticket"] for r in results if r["ticket"] is not None]
    if not tickets:
        return 1
    ended = wait_for(client, tickets)
    tell_failures(ended)
    return highest(ended)


# ------------------------------------------------------------------ telling


def _print(request: SubmitRequest, results: list[dict[str, Any]], unserved: Paths | None) -> None:
    if request.json:
        wanted = ("ticket", "id", "name", "file", "error")
        print(json.dumps([{key: r[key] for key in wanted} for r in results], indent=2))
    for result in results:
        if result["error"] is not None:
            print(f"radrm: {result['error']}", file=sys.stderr)
        elif request.parsable:
            print(result["ticket"])
        elif not request.json:
            for note in result["job_file"].notes:
                where = result["file"] or result["name"]
                print(f"radrm: note: {where}: {note}", file=sys.stderr)
            if result["id"] is not None:
                what = f"job {result['id']} ({result['name']})"
                print(f"Submitted {what}{_elements(result)}, ticket {result['ticket']}")
            else:
                print(f"Submitted {result['name']}{_elements(result)} as {result['ticket']}")
    waiting = sum(1 for r in results if r["ticket"])
    if unserved is not None and waiting and not request.json:
        they = "the job waits" if waiting == 1 else f"the {waiting} jobs wait"
        print(
            f"radrm: no daemon is running; {they} in {unserved.state} until one is: radrm daemon",
            file=sys.stderr,
        )
    print(end="", flush=True)


def _elements(result: dict[str, Any]) -> str:
    array = result["job_file"].options.array
    if array is None:
        return ""
    count = array.last - array.first + 1
    return f", an array of {count}" if count > 1 else ", an array of one"
