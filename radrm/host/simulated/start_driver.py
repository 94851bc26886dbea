"""Starts the simulated driver, or finds the one that runs.

Several daemons or commands may do so at the same time. The driver's lock decides which of the
new drivers stays; the others exit with `EXIT_LOCKED`, and all callers connect to the one that
stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct

import radrm
from radrm.errors import DeviceError, Refused, Unreachable
from radrm.host.clock import Clock
from radrm.host.simulated.client import EXIT_LOCKED, DriverClient, Hello
from radrm.simulated.spec import parse

SOCKET_NAME = "gpus.sock"
LOCK_NAME = "gpus.lock"
LOG_NAME = "gpus.log"
_START_LIMIT_S = 30.0
_PAUSE_S = 0.05
_LOG_TAIL = 1 << 16


class RunningDriver(Struct, frozen=True):
    """A driver that answers: its socket, its process, and the clock that all must use."""

    socket: Path
    pid: int
    clock: Clock


def ensure_driver(run_dir: Path, spec: str, scale: float = 1.0) -> RunningDriver:
    """The driver of this folder: the one that runs, or a new one.

    A driver with another spec or scale ends if no job is on its devices. Raises UsageError for a
    bad spec, Refused if that driver has jobs, DeviceError if none starts.
    """
    parse(spec)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir.absolute() / SOCKET_NAME
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        hello = _hello(path)
        if hello is None:
            if _start(run_dir.absolute(), spec, scale):
                continue
        elif (hello.spec.casefold(), hello.scale) == (spec.casefold(), scale):
            clock = Clock(hello.scale, hello.anchor_boot_s, hello.anchor_wall_s)
            return RunningDriver(path, hello.pid, clock)
        else:
            _ask_to_quit(path, hello)
        time.sleep(_PAUSE_S)  # a driver is ending, or another process is starting one
    raise DeviceError(
        f"no simulated GPU driver answers at {path} after {_START_LIMIT_S:g} s; "
        f"see {path.with_name(LOG_NAME)}"
    )


def _hello(path: Path) -> Hello | None:
    try:
        client = DriverClient(path, _START_LIMIT_S)
    except Unreachable:
        return None
    try:
        return client.hello()
    except DeviceError:
        return None
    finally:
        client.close()


def _ask_to_quit(path: Path, hello: Hello) -> None:
    """End a driver. Raises Refused if it does not end now."""
    try:
        client = DriverClient(path, _START_LIMIT_S)
    except Unreachable:
        return
    try:
        client.ask("quit")
    except DeviceError as error:
        raise Refused(
            f"the simulated GPUs here are {hello.spec!r} at time scale {hello.scale:g} and "
            f"cannot be changed now ({error}); use the same --gpus and --time-scale, "
            "or wait until no job runs"
        ) from error
    finally:
        client.close()


def _start(run_dir: Path, spec: str, scale: float) -> bool:
    """Start a driver and wait until it listens; False if another one has the lock."""
    log_path = run_dir / LOG_NAME
    command = [sys.executable, "-m", "radrm.host.simulated.driver", "--detach"]
    command += ["--socket", str(run_dir / SOCKET_NAME), "--lock", str(run_dir / LOCK_NAME)]
    command += ["--spec", spec, "--scale", repr(scale)]
    # The driver starts in `/`, so that it imports no module of the current folder.
    ours = str(Path(radrm.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
    with log_path.open("ab") as log:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, "PYTHONPATH": search},
                start_new_session=True,
                timeout=_START_LIMIT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise DeviceError(f"the simulated GPU driver does not start; see {log_path}") from error
    if code not in (0, EXIT_LOCKED):
        with log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL))
            lines = log.read(_LOG_TAIL).decode("utf-8", "replace").splitlines()
        cause = lines[-1] if lines else f"exit code {code}"
        raise DeviceError(f"the simulated GPU driver did not start: {cause} (see {log_path})")
    return code == 0
