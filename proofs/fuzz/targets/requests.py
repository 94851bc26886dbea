"""What other processes send: requests of the simulated driver, sessions, what planners answer.

Those of the daemon's socket go through a real daemon: `hostile_daemon` changes `REQUESTS`.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import msgspec

from proofs.fuzz.judging import Target
from radrm.client.session import JupyterHint
from radrm.host.clock import Clock
from radrm.host.planning.worker import thought_of
from radrm.host.sessions import (
    INPUT,
    INTERRUPT,
    SIZE,
    Frames,
    frame,
    size_frame,
    size_of,
)
from radrm.host.simulated.requests import BadRequest, Service
from radrm.host.sockets import Peer
from radrm.host.storage.spool import kind_of
from radrm.simulated.model import Model, Reader
from radrm.simulated.spec import parse

_JOBS = ["1", "2", "3_1", "held*", "01M80TA4D4JDCEV010A4H87B41"]
REQUESTS: tuple[dict[str, Any], ...] = (
    {"op": "ping"},
    {"op": "status", "jobs": _JOBS, "user": "nobody", "state": "RUNNING,PENDING", "after": 0},
    {"op": "status", "all": True, "after": 3},
    {"op": "page", "offset": 0, "limit": 50, "all": False},
    {"op": "explain", "jobs": ["1"]},
    {"op": "logs", "jobs": ["1"], "attempt": 1},
    {"op": "runs", "fingerprint": "ab:cd", "name": "train"},
    {"op": "gpus"},
    {"op": "health"},
    {"op": "metrics"},
    {"op": "mps"},
    {"op": "shares"},
    {"op": "energy", "by": "user", "since": 1.9e9, "until": 1.91e9},
    {"op": "report", "by": "day", "since": 1.9e9, "until": 1.91e9},
    {"op": "history", "name": "a*", "state": "failed", "gpu": "0", "since": 1.9e9, "until": 1.91e9},
    {"op": "overview", "since": 1.9e9, "until": 1.91e9},
    {"op": "check", "needs": [{"gpus": "2", "gpu-memory": "10G"}, {"role": ["a:1-2"]}]},
    {"op": "intake", "jobs": ["01M80TA4D4JDCEV010A4H87B41"]},
    {"op": "spool"},
    {"op": "cancel", "jobs": ["held*", "7"], "user": None, "state": "PENDING"},
    {"op": "hold", "jobs": _JOBS},
    {"op": "release", "jobs": ["2"]},
    {"op": "requeue", "jobs": ["1"]},
    {"op": "checkpoint", "jobs": ["1"]},
    {"op": "migrate", "jobs": ["1"], "to": ["GPU-1", "1"]},
    {"op": "resize", "jobs": ["1"], "gpus": 2, "cpus": 1.5, "size": {"worker": 2}},
    {
        "op": "edit",
        "jobs": ["2", "3_1"],
        "options": {"priority": "7", "time": "60", "env": ["A=1"]},
    },
    {"op": "drain", "devices": ["0", "GPU-1"], "reason": "a fan"},
    {"op": "resume", "devices": ["0", "GPU-1"]},
    {"op": "mps-start"},
    {"op": "mps-stop", "devices": ["0"]},
    {"op": "limits"},
    {
        "op": "step",
        "pid": 4711,
        "start_ticks": 99,
        "boot_id": "0b1c",
        "id": "12",
        "ticket": "01M80TA4D4JDCEV010A4H87B41",
        "gone": "timeout",
        "why": "x",
        "since_s": 1.5,
    },
)
_DRIVER = (
    {"op": "attach", "gpus": 1, "smact": 0.5, "visible": "0", "family": "cnn", "batch_size": 8},
    {"op": "alloc", "mib": 2000},
    {"op": "start"},
    {"op": "read", "uuids": ["GPU-0"]},
    {"op": "fail", "uuid": "GPU-0", "message": "Xid 79"},
    {"op": "devices"},
)
_ANSWER = {
    "proposals": [["Preempt", {"job_id": 7, "reason": "x"}]],
    "state": {"a": 1},
    "wake_at": 5.0,
    "error": None,
}


def _driver(data: bytes) -> None:
    service = Service(Model(parse("sim:1xA100-40GB"), 0.0), Clock(), "sim:1xA100-40GB")
    reader, me = Reader(), Peer(pid=os.getpid(), uid=1, gid=1)
    lines = [json.dumps(each).encode() for each in _DRIVER[:3]]
    for line in (*lines[:1], data, *lines[1:], data):
        with contextlib.suppress(BadRequest):
            msgspec.json.encode(service.answer(1, me, reader, line))
    service.forget(1)


def _thought(text: str) -> None:
    try:
        fields = json.loads(text)
        if isinstance(fields, dict) and isinstance(fields.get("proposals"), list):
            fields["proposals"] = [
                tuple(p) if isinstance(p, list) else p for p in fields["proposals"]
            ]
        data = msgspec.msgpack.encode(fields)
    except (ValueError, RecursionError, OverflowError, UnicodeError):
        data = text.encode("utf-8", "surrogatepass")
    thought_of(data)


_PRINTED = "Jupyter Server is running at:\n    http://localhost:8888/lab?token=c0ffee\n"


def _address(data: bytes) -> None:
    hint = JupyterHint({"SSH_CONNECTION": "10.0.0.7 51234 192.0.2.1 22"}, "ada")
    hint.see(data[: len(data) // 2])
    hint.see(data[len(data) // 2 :])


def _frames(data: bytes) -> None:
    """As a session reads them: in pieces, and the sizes among them."""
    reader = Frames()
    for at in range(0, len(data), 7):
        for kind, content in reader.feed(data[at : at + 7]):
            if kind == SIZE:
                size_of(content)


_TYPED = (size_frame(24, 80) + frame(INPUT, b"ls\r") + frame(INTERRUPT)).decode()


TARGETS = (
    Target(
        "spool-name", ("01M80TA4D4JDCEV010A4H87B41.job", ".01M80TA4D4JDCEV010A4H87B41"), kind_of
    ),
    Target("driver-request", _DRIVER, _driver, bytes=True, most=1 << 16),
    Target("planner-answer", (_ANSWER,), _thought, (EOFError,)),
    Target("session-frames", (_TYPED,), _frames, (ValueError,), bytes=True, most=1 << 15),
    Target("jupyter-address", (_PRINTED,), _address, (), bytes=True, most=1 << 16),
)
