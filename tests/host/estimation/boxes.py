"""Traces of hostile scripts: by root's daemon, as another user, and by a user's own daemon."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.config import EstimationConfig
from radrm.host.estimation import start_tracer
from radrm.host.estimation.tracing import TraceRequest, launch_of, trace
from radrm.jobfile.radfile import Program
from radrm.structs import replace

ROOT = os.getuid() == 0
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
USER = 61234 + _WORKER if ROOT else os.getuid()
"""Whose scripts are traced. Processes of one user are counted, so parallel tests have one each."""
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or ""
LIMITS = EstimationConfig(trace_limit_s=40.0)
SAY = """
import json, os, sys
def say(document, name="1"):
    path = os.path.join(os.environ["RADRM_TRACE_FOLDER"], name)
    with open(path + ".part", "w") as file:
        json.dump(document, file)
    os.rename(path + ".part", path + ".json")
def error_of(call, *words):
    try:
        call(*words)
    except OSError as error:
        return error.errno
"""
Way = Callable[[TraceRequest], bytes]


def sandbox() -> str:
    """What this machine says about sandboxes."""
    done = subprocess.run(start_tracer.PROBE, capture_output=True, check=True, text=True)
    return done.stdout.strip()


POSSIBLE = sandbox() in (start_tracer.APART, start_tracer.TOGETHER)
needs_sandbox = pytest.mark.skipif(not POSSIBLE, reason="this machine allows no sandbox")
needs_python = pytest.mark.skipif(not PYTHON, reason="no Python that every user may read")


def request(text: str, folder: Path, **environment: str) -> TraceRequest:
    """The trace of a job that runs this text of Python in a folder."""
    found = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment}
    program = Program(None, SAY + text, (PYTHON,))
    return TraceRequest(cwd=str(folder), environment=found, program=program)


def by_roots_daemon(asked: TraceRequest) -> bytes:
    user = f"user{USER}" if ROOT else ""
    ids = (USER, USER) if ROOT else (None, None)
    return trace(replace(asked, user=user, uid=ids[0], gid=ids[1]), LIMITS)


def by_own_daemon(asked: TraceRequest, limits: EstimationConfig = LIMITS) -> bytes:
    """As by a daemon of the user's own: the parent has the rights of that user only."""
    source, output = os.pipe()
    lives, living = os.pipe()
    launch = launch_of(asked, limits, "0" * 32)
    child = os.fork()
    if child == 0:
        try:
            os.close(living)
            os.dup2(lives, 0)
            if ROOT:
                os.setgroups([])
                os.setgid(USER)
                os.setuid(USER)
                ctypes.CDLL(None).prctl(4, 1)  # as after execve
            os._exit(start_tracer.run(launch, output))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(99)
    os.close(output)
    os.close(lives)
    with os.fdopen(source, "rb") as file:
        document = file.read()
    os.waitpid(child, 0)
    os.close(living)
    return document


WAYS = [
    pytest.param(
        by_roots_daemon, id="root's daemon", marks=pytest.mark.skipif(not ROOT, reason="-")
    ),
    pytest.param(by_own_daemon, id="the user's daemon"),
]


def said(way: Way, text: str, folder: Path, **environment: str) -> Any:
    """What a script says in the trace's document."""
    document = json.loads(way(request(text, folder, **environment)))
    assert "said" in document, document
    return document["said"]
