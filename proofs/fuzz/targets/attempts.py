"""What attempts leave: records, saved work, elastic files, reports, what looks and traces print."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from proofs.fuzz.mutations import as_bytes
from proofs.fuzz.targets.summaries import DESCRIPTION
from radrm.core.records import Instant, Placement, Share
from radrm.core.words import Collocation
from radrm.daemon import elastic
from radrm.errors import plain
from radrm.host.attempts import folder, saved
from radrm.host.attempts.elastic import exits, names
from radrm.host.attempts.elastic.answers import read_answer
from radrm.host.attempts.evidence import Evidence, saved_in
from radrm.host.clock import Clock
from radrm.host.estimation.asking import with_trace
from radrm.host.notices import outbox
from radrm.host.processes.identity import boot_id
from radrm.host.processes.limits import Limits
from radrm.host.progress import BadReport, Latest, parse, parse_use
from radrm.host.storage.database import encoded
from radrm.host.watched.folders import claim_of, claimed, is_job_file, reserved
from radrm.host.watched.folders import kept as kept_name

_NOW = {"boot_id": boot_id(), "boot_s": 1000.5, "wall_s": 1.9e9}
_LAUNCH: dict[str, Any] = {
    "version": 1, "job_id": 7, "attempt": 1, "token": "0123456789abcdef", "argv": ["true"],
    "script": None, "interpreter": None, "cwd": "/", "environment": {"PATH": "/bin"},
    "stdout": "a.out", "stderr": "a.err", "umask": 18, "uid": 1000, "gid": 1000, "user": "ann",
    "grace_s": 30.0, "kill_grace_s": 2.0, "cgroup": None,
    "limits": {"cpu": "/sys/fs/cgroup/cpu/radrm-7-ab", "cpus": 2.0, "memory_mib": 100},
}  # fmt: skip
_CLAIM = {"version": 1, "by": "runner", "pid": 4711, "start_ticks": 99, "boot_id": boot_id()}
_START = {
    "version": 1,
    "pid": 4712,
    "start_ticks": 100,
    "runner_pid": 4711,
    "runner_start_ticks": 99,
    "not_limited": "no group",
    **_NOW,
}
_EXIT: dict[str, Any] = {
    "version": 1, "code": 1, "signal": None, "never_started": None, "stderr_tail": "x\n",
    "stdout_tail": None, "passing": False, "exceeded_mib": 4096, "newest_s": 1.9e9,
    "saved": {"step": 10.0, "total": 100.0, "at": 1.9e9},
    "tasks": [["worker", 0, 0, None, False], ["ps", 1, None, 9, True]], **_NOW,
}  # fmt: skip
_SAVED = {"step": 10, "total": 100, "epoch": 1.5, "loss": 0.3, "work_done": 0.1, "at": 1.9e9}
_TASKS = {
    "version": 1,
    "generation": 2,
    "tasks": [
        {"role": "worker", "task": 0, "code": 0, "signal": None, "host_oom": False, "pid": 4711},
        {"role": "ps", "task": 1, "code": None, "signal": 9, "host_oom": True, "pid": 4712},
    ],
}
_RESIZED = {"version": 1, "generation": 2, "tasks": [["worker", 0], ["worker", 1]]}
_FAILED = {"version": 1, "generation": 2, "failed": "no memory"}
_TARGET = Placement(
    (Share("GPU-0", role="worker", task=0), Share("GPU-1", role="worker", task=1)),
    Collocation.EXCLUSIVE,
)
_TRACE: dict[str, Any] = {
    "version": 1, "events": [4096, 8192, -1, -2], "calls": [[0, 0, 1], [1, 2, 0]],
    "marks": [[0, "forward"], [2, "step"]],
    "convolutions": [[8, 3, 64, [32, 32], [32, 32], [3, 3], [1, 1], 1, 4, False]],
    "parameter_bytes": 4096, "gradient_bytes": 4096, "optimizer_bytes": 8192,
    "faketensor_bytes": 9999, "batch_size": 8, "optimizer": "adam", "precision": "fp32",
    "gpus": 1, "parallel": "none", "torch": "2.4.1", "cuda": "12.4", "seconds": 1.5,
    "guesses": ["batch size: 8"],
}  # fmt: skip
_AT = Instant(1000.0, 1.9e9, "boot")
_CLOCK = Clock()


def _record(name: str, data: bytes) -> None:
    """Use the records of an attempt whose other records are sound."""
    place = scratch.place("attempt")
    for each, fields in ((folder.CLAIM, _CLAIM), (folder.START, _START), (folder.EXIT, _EXIT)):
        if each != name:
            scratch.file(f"attempt/{each}", json.dumps(fields).encode())
    scratch.file(f"attempt/{name}", data)
    record, why = folder.read_record(str(place), name)
    assert why is None or (len(why.splitlines()) == 1 and len(why) < 500), why
    if name == folder.LAUNCH:
        Limits.of(record, 7)
        return
    evidence = Evidence(str(place), _CLOCK)
    evidence.job()
    folder.Claim.holder(str(place))
    evidence.lost("it was killed")
    ended = evidence.ended()
    if ended is not None:
        encoded((ended.at, ended.exit, ended.saved.progress, ended.saved.newest))
    if name == folder.START and why is not None:
        return  # `runner` would take the claim
    evidence.runner()


def _saved(data: bytes) -> None:
    numbers = saved.parse(data)
    fields = {"saved": numbers, "newest_s": 1.9e9, **_NOW}
    found = saved_in(json.loads(json.dumps(fields)), _CLOCK)
    if found.progress is not None:
        again = encoded(found.progress)
        assert "null" not in again or msgspec.json.decode(again)


def _elastic(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    names.decode(data)
    told = exits.parse(data)
    assert told is None or len(told) <= names.MOST_TASKS
    answer = read_answer(text, 2, _TARGET)
    assert answer.failed is None or (answer.failed.isprintable() and len(answer.failed) < 500)
    elastic._is_ours(text)


def _report(data: bytes) -> None:
    report = parse(data)
    uses = parse_use(data)
    assert all(use.number < 256 and len(use.role) <= 64 for use in uses)
    latest = Latest()
    latest.take({"step": 5.0, "total": 10.0}, _AT)
    latest.take(report, _AT)
    for progress in (latest.progress(_AT), latest.saved):
        assert progress is None or progress.work_done is None or 0 <= progress.work_done <= 1
        encoded(progress)


def _notice(data: bytes) -> None:
    result = outbox._checked(data)
    assert result is None or result.error is None or len(result.error) <= 300
    assert result is None or not result.error or result.error.isprintable()


def _name(text: str) -> None:
    """A name in a watched folder, as the kernel gives it: any bytes but NUL and a slash."""
    name = os.fsdecode(as_bytes(text).replace(b"\0", b"").replace(b"/", b"")[:255])
    claim = claim_of("01M80TA4D4JDCEV010A4H87B41", name)
    assert len(claim.encode()) <= 255 and "/" not in claim
    assert kept_name(name).endswith(".rad")
    if is_job_file(name) and plain(name) == name and len(name.encode()) < 170:
        assert claimed(claim) == ("01M80TA4D4JDCEV010A4H87B41", name)
    reserved(name, True)
    reserved(name, False)


def _trace(data: bytes) -> None:
    job, why = with_trace(DESCRIPTION, data)
    assert (job.trace is None) == (why is not None)
    assert why is None or why.isprintable()


TARGETS = (
    *(
        Target(f"record-{name.partition('.')[0]}", (fields,), call, bytes=True)
        for name, fields, call in (
            (folder.LAUNCH, _LAUNCH, lambda data: _record(folder.LAUNCH, data)),
            (folder.CLAIM, _CLAIM, lambda data: _record(folder.CLAIM, data)),
            (folder.START, _START, lambda data: _record(folder.START, data)),
            (folder.EXIT, _EXIT, lambda data: _record(folder.EXIT, data)),
        )
    ),
    Target("saved-json", (_SAVED,), _saved, bytes=True, most=4096),
    Target("elastic-files", (_TASKS, _RESIZED, _FAILED, {"by": "radrm"}), _elastic, bytes=True),
    Target(
        "progress-report",
        (
            "step=10\ntotal=100\nloss=0.31\n",
            "work_done=0.5\ndata_wait=0.1\nsaved=8\nepoch=2\n",
            "resized=3\nuse.worker.0=12.5,1024,0.1\nuse.ps.1=3,100\n",
        ),
        _report,
        (BadReport,),
        bytes=True,
        most=600,
    ),
    Target("notice-answer", ({"error": "no answer", "final": False},), _notice, bytes=True),
    Target("rad-name", ("train.rad", ".01M80TA4D4JDCEV010A4H87B41.a.rad", "ä b.rad"), _name),
    Target("tracer-document", (_TRACE,), _trace, bytes=True, most=1 << 20),
)
