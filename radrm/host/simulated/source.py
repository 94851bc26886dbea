"""The daemon's side of the software GPUs: start their driver, list and read the devices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import radrm
from radrm.core.records import AttemptMemory, Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused, Unreachable
from radrm.host.clock import Clock
from radrm.host.gpus.source import OwnerOf
from radrm.host.simulated.client import DriverClient, Hello
from radrm.host.simulated.driver import EXIT_LOCKED
from radrm.modelled.spec import parse

SOCKET_NAME = "gpus.sock"
LOCK_NAME = "gpus.lock"
LOG_NAME = "gpus.log"
_START_LIMIT_S = 30.0
_PAUSE_S = 0.05
_LOG_TAIL = 1 << 16


class SoftwareGpus:
    """A `GpuSource` of modelled devices.

    `mps` says whether jobs may share the whole GPUs as MPS clients: no control daemon is
    needed for that here. A broken connection is made anew once per request.
    """

    name = "software"

    def __init__(
        self, socket_path: str | os.PathLike[str], *, mps: bool = False, timeout_s: float = 5.0
    ) -> None:
        self._path = os.fspath(socket_path)
        self._mps = mps
        self._timeout_s = timeout_s
        self._client: DriverClient | None = None

    def devices(self) -> tuple[Device, ...]:
        return tuple(self._device(found) for found in self._ask("devices")["devices"])

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        readings = self._ask("read", uuids=list(uuids))["readings"]
        return tuple(_reading(found, at, owner_of) for found in readings)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _device(self, found: dict[str, Any]) -> Device:
        kind = DeviceKind(found["kind"])
        mps = self._mps and kind is DeviceKind.GPU
        return Device(**{**found, "kind": kind, "mps": mps, "mps_spans": mps})

    def _ask(self, op: str, **fields: object) -> dict[str, Any]:
        if self._client is not None:
            try:
                return self._client.ask(op, **fields)
            except DeviceError:
                self.close()
        try:
            self._client = DriverClient(self._path, self._timeout_s)
            return self._client.ask(op, **fields)
        except (DeviceError, Unreachable) as error:
            self.close()
            raise DeviceError(
                f"the software GPUs do not answer ({error}); restart the daemon"
            ) from error


def _reading(found: dict[str, Any], at: Instant, owner_of: OwnerOf) -> Reading:
    if found["error"] is not None:
        return Reading(device=found["uuid"], at=at, error=found["error"])
    held: dict[tuple[int, int], int] = {}
    for pid, mib in found["processes"]:
        owner = owner_of(pid)
        if owner is not None:
            held[owner] = held.get(owner, 0) + mib
    return Reading(
        device=found["uuid"],
        at=at,
        used_mib=found["used_mib"],
        attempts=tuple(AttemptMemory(*owner, mib) for owner, mib in sorted(held.items())),
        smact=found["smact"],
        smact_source=SoftwareGpus.name,
        power_w=found["power_w"],
    )


# ---------------------------------------------------------------------- the driver


@dataclass(frozen=True, slots=True)
class RunningDriver:
    """A driver that answers: where, which process, and the clock that all must go by."""

    socket: Path
    pid: int
    clock: Clock


def ensure_driver(run_dir: Path, spec: str, scale: float = 1.0) -> RunningDriver:
    """The driver of this folder: the one that lives, or a new one.

    A living one with another spec or scale makes way if no job is on its devices. Raises
    UsageError for a bad spec, Refused when it cannot make way, DeviceError when none starts.
    """
    parse(spec)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir.absolute() / SOCKET_NAME
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        hello = _greet(path)
        if hello is None:
            if _start(run_dir.absolute(), spec, scale):
                continue
        elif (hello.spec.casefold(), hello.scale) == (spec.casefold(), scale):
            clock = Clock(hello.scale, hello.anchor_boot_s, hello.anchor_wall_s)
            return RunningDriver(path, hello.pid, clock)
        else:
            _send_away(path, hello)
        time.sleep(_PAUSE_S)  # one is leaving, or somebody else starts one just now
    raise DeviceError(
        f"no software GPU driver answers at {path} after {_START_LIMIT_S:g} s; "
        f"see {path.with_name(LOG_NAME)}"
    )


def _greet(path: Path) -> Hello | None:
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


def _send_away(path: Path, hello: Hello) -> None:
    try:
        client = DriverClient(path, _START_LIMIT_S)
    except Unreachable:
        return
    try:
        client.ask("quit")
    except DeviceError as error:
        raise Refused(
            f"the software GPUs here are {hello.spec!r} at time scale {hello.scale:g} and "
            f"cannot be changed now ({error}); use the same --gpus and --time-scale, "
            "or wait until no job runs"
        ) from error
    finally:
        client.close()


def _start(run_dir: Path, spec: str, scale: float) -> bool:
    """Start a driver and wait until it listens; False when another has the lock."""
    log_path = run_dir / LOG_NAME
    command = [sys.executable, "-m", "radrm.host.simulated.driver", "--detach"]
    command += ["--socket", str(run_dir / SOCKET_NAME), "--lock", str(run_dir / LOCK_NAME)]
    command += ["--spec", spec, "--scale", repr(scale)]
    # Started in `/`, so that no module of the folder we happen to be in is taken for ours.
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
            raise DeviceError(f"the software GPU driver does not start; see {log_path}") from error
    if code not in (0, EXIT_LOCKED):
        with log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL))
            lines = log.read(_LOG_TAIL).decode("utf-8", "replace").splitlines()
        cause = lines[-1] if lines else f"exit code {code}"
        raise DeviceError(f"the software GPU driver did not start: {cause} (see {log_path})")
    return code == 0
