"""What a user does with pilots from a login node: submit to them, look at them, cancel jobs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled, show
from radrm.client.text import FINAL, print_json, say, warn
from radrm.core.units import show_seconds
from radrm.errors import RadrmError, Refused, UsageError, plain
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.submission import envelope_of, load
from radrm.host.storage.tickets import is_ticket
from radrm.host.wall import wall_s
from radrm.jobfile.command_line import STDIN, SubmitRequest
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.slurm.pilot.main import NAME, own_jobs
from radrm.slurm.pilot.shared import Row, Shared, shared_root

REFUSED = {
    "param": "a sweep is one job for each value; make it an array, with --array",
    "params": "a sweep is one job for each row; make it an array, with --array",
    "after": "two jobs may run in different pilots; write them into one job file",
    "hold": "nobody could release it; submit it later",
    "snapshot": "copies of the code lie on one server; leave it out",
    "max-fails": "elements may run in different pilots; leave it out",
}
"""Options that do not go to pilots, and why."""


# ------------------------------------------------------------------ submit


def submit(request: SubmitRequest) -> int:
    """Submit job files for any pilot. Returns the exit code."""
    for flag, given in (("--wait", request.wait), ("--slurm", request.slurm)):
        if given:
            raise UsageError(f"{flag} does not go with --pilot; see: radrm pilot --list")
    if request.lines:
        raise UsageError("--lines does not go with --pilot; make it an array, with --array")
    shared = Shared(shared_root(os.environ))
    results: list[dict[str, Any]] = []
    envelopes: list[Envelope] = []
    for file in request.files or (None,):
        found: dict[str, Any] = {"ticket": None, "id": None, "name": None, "file": file}
        found |= {"error": None, "code": 0}
        try:
            job_file, envelope = _prepare(request, file)
            found["name"] = job_file.name
            if not request.dry_run:
                found["ticket"] = envelope.ticket
                envelopes.append(envelope)
        except RadrmError as error:
            found["error"], found["code"] = str(error), error.exit_code
        results.append(found)
    if envelopes:
        shared.make()
        Spool(shared.spool).put(envelopes)
    _tell(request, results)
    return max((each["code"] for each in results), default=0)


def _prepare(request: SubmitRequest, file: str | None) -> tuple[JobFile, Envelope]:
    """Return a job and its envelope. Raises `RadrmError` for one that cannot go to a pilot."""
    raw, data = request.raw_options, None
    if file is None:
        job_file = wrap_command(list(request.command), raw)
    else:
        data = load(file)
        job_file = read_job_file(
            data, "job" if file == STDIN else file, raw, arguments=request.arguments
        )
    for option, why in REFUSED.items():
        if option in job_file.raw:
            raise UsageError(f"{job_file.name}: --{option} does not go with --pilot: {why}")
    options = job_file.options
    if options.time_s is None:
        raise UsageError(
            f"{job_file.name}: --pilot needs a time limit, as --time=2h: a pilot starts only what "
            "ends before it"
        )
    if file is None:
        raw = job_file.raw
    envelope = envelope_of(job_file, None if file == STDIN else file, data, raw)
    if options.output is None:
        # The number of a job is its pilot's, and others have the same.
        log = f"radrm-{envelope.ticket}" + ("" if options.array is None else "_%a")
        logs = {"output": f"{log}.out"} | ({} if options.error else {"error": f"{log}.err"})
        fields = {**envelope.as_dict(), "options": {**envelope.options, **logs}}
        envelope = Envelope(**fields)
    return job_file, envelope


def _tell(request: SubmitRequest, results: list[dict[str, Any]]) -> None:
    if request.json:
        wanted = ("ticket", "id", "name", "file", "error")
        print_json([{key: each[key] for key in wanted} for each in results])
    for found in results:
        if found["error"] is not None:
            warn(found["error"])
        elif request.json:
            pass
        elif request.dry_run:
            say(f"Would submit {found['name']}")
        elif request.parsable:
            say(str(found["ticket"]))
        else:
            say(f"Submitted {found['name']} as {found['ticket']}; it waits for a pilot")
    sound = any(found["error"] is None for found in results)
    if sound and not (request.parsable or request.json or request.dry_run):
        warn("see radrm pilot --list; start a pilot, as: radrm pilot --gpus 2 --time 8h")


# ------------------------------------------------------------------ look


def listed() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the user's pilots and jobs as documents. Raises `RadrmError`."""
    shared = Shared(shared_root(os.environ))
    unknown = None
    try:
        in_slurm = own_jobs()
    except RadrmError as error:
        in_slurm, unknown = {}, str(error)
        warn(f"which pilots run is unknown: {error}")
    left: dict[str, str] = {}
    pilots, jobs = [], []
    for job, said in in_slurm.items():
        if said["name"] == NAME and job not in shared.pilots():
            pilots.append(_pilot(job, {}, said["state"]))
    for pilot in shared.pilots():
        state = shared.state(pilot)
        living = pilot in in_slurm
        ended = None if unknown is not None or living else "ENDED"
        pilots.append(_pilot(pilot, state, in_slurm[pilot]["state"] if living else ended))
        if living:
            left |= state.get("left", {})
        claimed = set(shared.claimed(pilot))
        jobs += _of_pilot(pilot, shared.jobs_of(pilot), claimed, living or unknown is not None)
    for ticket in shared.waiting():
        with suppress(OSError):
            envelope = shared.read(ticket)
            name = "-" if envelope is None else _name_of(envelope)
            jobs.append(_job(ticket, name, "WAITING", None, left.get(ticket)))
    return pilots, sorted(jobs, key=lambda each: each["ticket"])


def _pilot(pilot: str, state: dict[str, Any], slurm: str | None) -> dict[str, Any]:
    kept = {key: state.get(key) for key in ("node", "gpus", "until", "home")}
    return {"pilot": pilot, "state": slurm or "UNKNOWN", **kept}


def _of_pilot(
    pilot: str, rows: dict[str, list[Row]], claimed: set[str], lives: bool
) -> list[dict[str, Any]]:
    """What is known of the jobs of a pilot."""
    found = []
    for ticket in claimed - rows.keys():
        found.append(_job(ticket, "-", "CLAIMED", pilot, None))
    for ticket, each in rows.items():
        for row in each:
            over = row["state"] in FINAL
            word, why = row["state"], row["reason"]
            if not lives and not over:
                if ticket in claimed:
                    word, why = "CLAIMED", "its pilot has ended; the next one takes it over"
                elif not row["attempts"]:
                    continue  # it was given back
                else:
                    word, why = "LOST", "its pilot ended while it ran; submit it again"
            if ticket in claimed or over or word == "LOST":
                found.append(_job(ticket, row["name"], word, pilot, why, row))
    return found


def _job(
    ticket: str,
    name: str,
    state: str,
    pilot: str | None,
    why: str | None,
    row: Row | None = None,
) -> dict[str, Any]:
    words = {"ticket": ticket, "name": name, "state": state, "pilot": pilot}
    row = row or {}
    numbers = {key: row.get(key) for key in ("label", "started_at", "ended_at", "exit_code")}
    return {**words, **numbers, "reason": why}


def _name_of(envelope: Envelope) -> str:
    from radrm.host.storage.submission import job_file_in

    try:
        return job_file_in(envelope).name
    except RadrmError:
        return "-"


def show_list(every: bool, as_json: bool) -> None:
    """Show pilots and jobs. `every`: those that have ended, too."""
    over = {*FINAL, "ENDED", "LOST"}
    pilots, jobs = (
        [each for each in found if every or each["state"] not in over] for found in listed()
    )
    if as_json:
        print_json({"pilots": pilots, "jobs": jobs})
        return
    if not pilots and not jobs:
        show(Styled("No pilot runs and no job waits; start one: radrm pilot --gpus 2 --time 8h"))
        return
    if pilots:
        table = Rows(tuple(map(Column, ("PILOT", "STATE", "NODE", "GPUS", "LEFT", "HOME"))))
        for each in pilots:
            until_s = each["until"]
            over_now = until_s is None or each["state"] in over
            left = "-" if over_now else show_seconds(max(0.0, until_s - wall_s()))
            cells = each["pilot"], each["state"], each["node"] or "-", str(each["gpus"] or "-")
            table.add(*cells, left, each["home"] or "-")
        show(table)
    if jobs:
        if pilots:
            say("")
        table = Rows(tuple(map(Column, ("TICKET", "NAME", "STATE", "PILOT", "JOB", "WHY"))))
        for each in jobs:
            cells = each["ticket"], each["name"], each["state"], each["pilot"] or "-"
            table.add(*map(plain, (*cells, each["label"] or "-", each["reason"] or "")))
        show(table)


# ------------------------------------------------------------------ cancel


def cancel(ticket: str) -> None:
    """Cancel the jobs of a ticket, where they wait or run. Raises `Refused`."""
    if not is_ticket(ticket):
        raise UsageError(f"{ticket[:40]!r} is no ticket; see: radrm pilot --list")
    shared = Shared(shared_root(os.environ))
    if shared.forget(ticket):
        say(f"Cancelled {ticket}, which waited")
        return
    for pilot in shared.pilots():
        if ticket in shared.claimed(pilot):
            shared.ask_cancel(ticket, pilot)
            say(f"Asked pilot {pilot} to cancel {ticket}")
            return
    raise Refused(f"nothing waits or runs under {ticket}; see: radrm pilot --list --all")
