"""Requests: the arguments of the daemon's, the simulated driver's, and what planners answer.

All requests of the daemon's socket go through a real daemon: see `hostile_daemon`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
from collections.abc import Callable

import msgspec

from radrm.daemon.answers import requests
from radrm.daemon.views import arguments
from radrm.daemon.views.globs import Globs
from radrm.errors import RadrmError
from radrm.host.clock import Clock
from radrm.host.planning.worker import thought_of
from radrm.host.simulated.requests import BadRequest, Service
from radrm.host.sockets import Peer
from radrm.host.storage.spool import kind_of
from radrm.jobfile.parsing import typed
from radrm.simulated.model import Model, Reader
from radrm.simulated.spec import parse
from tests.reliability.fuzz.judging import Target

_REQUESTS = (
    {"op": "status", "jobs": ["7", "8_3", "train*"], "user": "ann", "state": "RUNNING,PENDING"},
    {"op": "page", "offset": 0, "limit": 50, "after": 12},
    {"op": "edit", "jobs": ["7"], "options": {"priority": "5", "env": ["A=1"]}},
    {"op": "drain", "devices": ["0", "GPU-1"], "reason": "a fan"},
)
_CHECKS: tuple[tuple[str, Callable[[arguments.Words], object]], ...] = (
    ("jobs", arguments.references),
    ("devices", arguments.device_words),
    ("reason", arguments.reason_word),
    ("options", arguments.raw_options),
    ("state", arguments.states),
    ("user", arguments.filters),
    ("after", arguments.cursor),
    ("limit", arguments.page),
    ("options", lambda words: typed(words["options"])),
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


def _request(data: bytes) -> None:
    words = requests._words(data)
    wrong: RadrmError | None = None
    for key, check in _CHECKS:
        try:
            if key in words:
                check(words)
        except RadrmError as error:
            wrong = max(wrong or error, error, key=lambda each: len(str(each)))
    if wrong is not None:
        raise wrong


def _globs(text: str) -> None:
    """As the shell's own matching says."""
    patterns = [part[:256] for part in text.split("\n")][:20]
    globs = Globs(patterns)
    for name in ("train-7", "", "a[b", "é😀", "]", text[:40]):
        wanted = {n for n, each in enumerate(patterns) if fnmatch.fnmatchcase(name, each)}
        assert set(globs.matching(name)) == wanted, (patterns, name)


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


TARGETS = (
    Target("request", _REQUESTS, _request, bytes=True, most=(512 << 10) + 64),
    Target("globs", ("train-*\n[abc]?", "*[!a-z]*\n]", "a**b?\n[[]x"), _globs, most=1 << 14),
    Target(
        "spool-name", ("01M80TA4D4JDCEV010A4H87B41.job", ".01M80TA4D4JDCEV010A4H87B41"), kind_of
    ),
    Target("driver-request", _DRIVER, _driver, bytes=True, most=1 << 16),
    Target("planner-answer", (_ANSWER,), _thought, (EOFError,)),
)
