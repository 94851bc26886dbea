"""What Slurm prints, what users write into scripts and comments for it, and what pilots leave."""

from __future__ import annotations

import json
from typing import Any

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from radrm.config import SlurmConfig
from radrm.core.records import Device
from radrm.errors import Refused
from radrm.host.attempts import folder
from radrm.host.attempts.waiting import StepEvidence
from radrm.host.clock import Clock
from radrm.host.processes.identity import Identity, boot_id
from radrm.host.storage.spool import Envelope
from radrm.slurm import accounts, comment
from radrm.slurm.asking import format_of, jobs_of, names_of, pids_in, record
from radrm.slurm.outer import moment, told_of
from radrm.slurm.pilot.main import given
from radrm.slurm.pilot.shared import Shared, rest_of
from radrm.slurm.scripts import is_gpumem_asked, unwrap, wrap

_CONFIG = SlurmConfig()
_SHOWN = (
    "JobId=4711 JobName=train me UserId=ann(1000) JobState=RUNNING Reason=None Restarts=1 "
    "StartTime=2026-11-23T23:05:44 EndTime=Unknown TresPerNode=gres:gpumem:6144 "
    "Comment=radrm: waits: GPU 0 is full (returned 1 of 3 times) StdOut=/home/ann/a b.out"
)
_LISTED = "PID      JOBID    STEPID   LOCALID GLOBALID\n4712     4711     batch    0       0\n"
_GROUPS = (
    "/slurm/uid_1000/job_4711/step_batch\n/system.slice/g1_slurmstepd.scope/job_4711/step_0/user"
)
_SACCT = "\x1f".join(
    (
        *("4711", "ann", "vision", "g1", "CANCELLED by 0", "60", "2026-11-23T23:05:44"),
        *("billing=1,gres/gpumem=6G", "radrm:gpu_s=12.3,smact=0.61,peak_mib=11000"),
    )
)
_COMPLETED = (
    "JobId=4711 UserId=ann(1000) GroupId=ann(1000) Name=a b JobState=COMPLETED Partition=shared "
    "TimeLimit=60 StartTime=2026-11-23T23:05:44 EndTime=2026-11-23T23:06:44 NodeList=g1 "
    "Account=(null) ExitCode=0:0 Tres=cpu=1,gres/gpumem=6144"
)
_AT = {"boot_id": boot_id(), "boot_s": 1000.5, "wall_s": 1.9e9}
_OVER = {"version": 1, "gone": "timeout", "why": "Slurm job 4711 has reached its limit", **_AT}
_STEP = Identity(4711, 99, boot_id())
_CLOCK = Clock()
_ROW = {
    "id": 1, "label": "1", "name": "a", "state": "PENDING", "attempts": 0, "index": 3,
    "started_at": None, "ended_at": 1.9e9, "exit_code": 0, "reason": None,
}  # fmt: skip
_STATE: dict[str, Any] = {
    "version": 1, "node": "g1", "home": "/tmp/x", "gpus": 2, "until": 1.9e9,
    "jobs": {"01M80TA4D4JDCEV010A4H87B41": [_ROW, {**_ROW, "state": "RUNNING", "attempts": 1}]},
    "left": {"01M80TA4D4JDCEV010A4H87B42": "it has no time limit"},
}  # fmt: skip
_ARRAY = Envelope(
    *("01M80TA4D4JDCEV010A4H87B41", None, None, ("true",), {"array": "1-5%2"}, "/", 18, {}, 0.0)
)
_DEVICES = [Device(f"GPU-{n}1111111", n, "A100", 40960, minor=3 - n) for n in range(4)]


def _shown(text: str) -> None:
    fields = record(text)
    for name in ("StartTime", "EndTime"):
        moment(fields.get(name, ""))
    mib = told_of("47", fields, "gpumem").gpumem_mib
    assert mib is None or mib >= 0
    _comment(fields.get("Comment", ""))


def _comment(text: str) -> None:
    assert 0 <= comment.returned(text) < 1000
    assert 0 <= comment.added_min(text) < 10_000_000
    why = comment.why_waiting(text)
    use = comment.use_of(text)
    assert why is None or use is None
    if use is not None:
        assert (comment.use_of(use.text()).peak_mib is None) == (use.peak_mib is None)
    waits = comment.waiting(text, 2)
    assert comment.returned(waits) == 2 and len(waits) < 260


def _members(text: str) -> None:
    assert all(pid >= 0 for pid in pids_in(text, "4711"))
    assert all(job.isdigit() for job in jobs_of(text.split("\n")))


def _accounts(text: str) -> None:
    found = [*accounts.of_sacct(text, _CONFIG), *accounts.of_completions(text, _CONFIG)]
    for by in accounts.BY:
        for row in accounts.sums(found, by):
            json.dumps(row.document, allow_nan=False)


def _script(text: str) -> None:
    is_gpumem_asked(text)
    script, options = unwrap(text)
    assert isinstance(script, str) and isinstance(options, dict)


def _rules(text: str) -> None:
    number = format_of(text)
    assert number is None or 0 <= number < 10**6
    names_of(text)


def _over(data: bytes) -> None:
    """Use the last word of a step, which a user wrote."""
    place = scratch.place("handed/step")
    scratch.file(f"handed/step/{folder.OVER}", data)
    evidence = StepEvidence(str(place.parent), _CLOCK, 1000, _STEP)
    assert evidence.is_over
    outer = evidence.lost("it was killed").outer
    if outer is not None:
        assert len(outer.why) <= 200 and (outer.why.isprintable() or not outer.why)


def _pilot(data: bytes) -> None:
    """Use what another pilot has noted."""
    place = scratch.place("pilots/pilots/1").parents[1]
    scratch.file("pilots/pilots/1/state.json", data)
    for rows in Shared(str(place)).jobs_of("1").values():
        rest, any_left = rest_of(_ARRAY, rows)
        assert rest is None or (any_left and Envelope.from_bytes(rest.to_bytes()) == rest)


def _given(text: str) -> None:
    visible, _, numbers = text.partition(" ")
    own = given(_DEVICES, {"CUDA_VISIBLE_DEVICES": visible, "SLURM_JOB_GPUS": numbers})
    assert own and set(own) <= {device.uuid for device in _DEVICES}


TARGETS = (
    Target("slurm-job", (_SHOWN,), _shown),
    Target("slurm-comment", (comment.waiting("full", 1), "radrm:gpu_s=1.5,peak_mib=9"), _comment),
    Target("slurm-members", (_LISTED, _GROUPS), _members),
    Target("slurm-accounts", (_SACCT, _COMPLETED), _accounts),
    Target(
        "slurm-script",
        (wrap("#!/bin/sh\ntrue\n", ["--time=60"]),),
        _script,
    ),
    Target("slurm-rules", ("-- radrm job_submit rules, format 1\nlocal RADRM = {\n",), _rules),
    Target("slurm-last-word", (_OVER,), _over, bytes=True),
    Target("pilot-state", (_STATE,), _pilot, bytes=True),
    Target("pilot-gpus", ("0,1 2,3", "GPU-01111111", "0,1,2,3 "), _given, (Refused,)),
)
