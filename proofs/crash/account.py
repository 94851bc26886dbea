"""The account of a home at its end: what was lost, doubled, orphaned or is untrue.

    lost      acknowledged, and not in the store; or it never comes to an end
    doubled   an attempt that began twice, two that lived at once, or one that nothing explains
    orphaned  a process, folder, control group, envelope or GPU memory that is left
    untrue    an end that the job's own notes, or the kills, contradict; a forgotten cancel

The witnesses of the jobs and the notes of the kills are compared with the store. A run in which
one of these is found has failed.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import glob
from typing import Any

from proofs.crash.jobs import SAMPLES, Submitted
from proofs.crash.place import Place, processes_of
from proofs.server import Stored, stored
from tests.elastic.radrun.runs.place import seen_by

KINDS = ("lost", "doubled", "orphaned", "untrue")
_REMOVAL_S = 5.0


@dataclass(slots=True)
class Account:
    """What is wrong, one line each, by kind."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def note(self, kind: str, line: str) -> None:
        """Note that something is wrong."""
        self.wrong[kind].append(line)

    def add(self, other: Account) -> None:
        """Add what is wrong by another account."""
        for kind, lines in other.wrong.items():
            self.wrong[kind] += lines

    @property
    def counts(self) -> Counter[str]:
        """How much is wrong, by kind."""
        return Counter({kind: len(lines) for kind, lines in self.wrong.items()})


def account_of(place: Place, jobs: list[Submitted]) -> Account:
    """Account for all jobs of a home whose jobs have all ended. Its daemon still runs."""
    account, found = Account(), stored(place.paths.database)
    by_ticket: dict[str, list[int]] = {}
    for job_id, ticket in found.tickets.items():
        by_ticket.setdefault(ticket, []).append(job_id)
    for job in jobs:
        ids = sorted(by_ticket.pop(job.ticket, []))
        if len(ids) != job.elements and (job.acknowledged or ids):
            kind = "lost" if len(ids) < job.elements else "doubled"
            account.note(kind, f"{job.name} has {len(ids)} of {job.elements} jobs")
        for job_id, name in zip(ids, job.names, strict=False):
            _check_job(account, place, job, name, found, job_id)
    for ticket, ids in by_ticket.items():
        account.note("doubled", f"jobs {ids} of ticket {ticket} were never submitted")
    for line in _lines(f"{place.work}/doubled"):
        account.note("doubled", f"two attempts lived at once: {line}")
    for line in _left_in_time(place):
        account.note("orphaned", line)
    return account


def _left_in_time(place: Place) -> list[str]:
    """What is still left after the time in which threads of the daemon remove folders."""
    until = time.monotonic() + _REMOVAL_S
    while (left := list(left_behind(place))) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _check_job(
    account: Account, place: Place, job: Submitted, name: str, found: Stored, job_id: int
) -> None:
    record, attempts = found.jobs[job_id], found.attempts.get(job_id, [])
    state, made = record["state"], found.made(job_id)
    if not found.ended(job_id):
        account.note("lost", f"{name} (job {job_id}) is {state} for ever: {record['reason']}")
        return
    if any(each.get("ended") is None for each in attempts):
        account.note("untrue", f"{name} is {state} and has a live attempt")
    _check_starts(account, place, job, name, made)
    _check_ends(account, place, job, name, made)
    if job_id in job.cancelled and not job.again and state != "CANCELLED":
        account.note("untrue", f"{name} was cancelled, and is {state}: {record['reason']}")
    expected = _expected(job, made)
    if job.kind == "spoiled":
        return  # it may fail, or not
    if state != expected and not (job.asked and state == "CANCELLED"):
        account.note("untrue", f"{name} is {state}, not {expected}: {record['reason']}")
    if job.kind == "elastic" and state == "COMPLETED":
        folder = f"{place.work}/steps-{name}"
        seen = seen_by(
            *(list(map(json.loads, _lines(f"{folder}/{n}"))) for n in ("begun", "steps"))
        )
        if sorted(seen) != list(range(SAMPLES)) and not job.again:
            account.note("doubled", f"{name} has seen {len(seen)} of {SAMPLES} samples")


def _check_starts(
    account: Account, place: Place, job: Submitted, name: str, made: list[dict[str, Any]]
) -> None:
    """Each attempt began once, and the one before it has an end that calls for another."""
    if job.kind not in ("elastic", "spoiled"):
        starts = _lines(f"{place.work}/starts/{name}")
        # One that was lost with the power may have begun, or not.
        of = (each for each in made if each.get("started") or each["outcome"] == "lost")
        began = {str(each["number"]) for each in of}
        for number, times in Counter(starts).items():
            if times > 1:
                account.note("doubled", f"{name} began {times} times in attempt {number}")
            if number not in began:
                account.note("doubled", f"{name} began in attempt {number}, unknown to the store")
    runners, mains = place.killed("runners"), place.killed("jobs")
    for each in made:
        outcome, serial = each["outcome"], each["serial"]
        if outcome == "lost" and serial not in runners:
            account.note("untrue", f"{name} was lost, and its runner was not killed: {shown(each)}")
        if outcome == "failed" and each.get("exit_code") == 137 and serial not in mains:
            account.note("untrue", f"{name} was killed, and not by us: {shown(each)}")
    if job.again:
        return
    for each in made[:-1]:
        if each["outcome"] == "completed" or (
            each["outcome"] == "failed"
            and job.kind not in ("retry", "restart", "elastic", "spoiled")
        ):
            account.note("doubled", f"{name} ran again after {shown(each)}")


def _check_ends(
    account: Account, place: Place, job: Submitted, name: str, made: list[dict[str, Any]]
) -> None:
    """What the store says of an end is what the job itself has noted."""
    noted = dict(line.split() for line in _lines(f"{place.work}/ends/{name}"))
    for each in made:
        code = noted.get(str(each["number"]))
        if (
            each["outcome"] == "completed"
            and code != "0"
            and job.kind not in ("elastic", "spoiled")
        ):
            account.note("untrue", f"{name} completed, and noted {code}: {shown(each)}")
        if each["outcome"] in ("failed", "oom") and code is not None:
            told = each.get("exit_code")
            if told not in (int(code), 137):
                account.note("untrue", f"{name} ended with {code}, and the store says {told}")


def _expected(job: Submitted, made: list[dict[str, Any]]) -> str:
    """The state in which a job ends that was not cancelled."""
    last = made[-1]["outcome"] if made else None
    if last == "lost" and job.kind not in ("again", "saves", "restart", "elastic", "spoiled"):
        return "FAILED"
    if last == "failed" and made[-1].get("exit_code") == 137:
        return "FAILED"
    if job.endless:
        return "CANCELLED"
    if job.kind == "limit":
        return "TIMEOUT"
    return "FAILED" if job.code else "COMPLETED"


def shown(attempt: dict[str, Any]) -> str:
    """An attempt's record in short."""
    names = ("number", "serial", "outcome", "exit_code", "reason")
    return ", ".join(f"{name} {attempt.get(name)}" for name in names)


# ------------------------------------------------------------------ what is left


def left_behind(place: Place) -> Iterator[str]:
    """What a home without live jobs should not have."""
    for pid, words in processes_of(place.folder, place.pid):
        yield f"process {pid} is left: {words}"
    state, run = place.paths.state, place.paths.run
    for pattern in (
        f"{state}/attempts/*",
        f"{run}/elastic/*",
        f"{run}/progress/*",
        f"{state}/spool/*.job",
        f"{state}/refused/*",
        f"{state}/.*.tmp",
    ):
        yield from (f"{path} is left" for path in glob(pattern))
    for path in glob(f"{state}/checkpoints/*"):
        if not os.listdir(path):
            yield f"{path} is left, and empty"
    for group in place.groups():
        if os.path.isdir(group):
            yield f"control group {group} is left"
    for gpu in place.ask("gpus"):
        if gpu["jobs"] or gpu["used_mib"] or gpu["reserved_mib"]:
            yield f"GPU {gpu['index']} is not free: {gpu}"


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            # A line that was being written when its process was killed is left out.
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []
