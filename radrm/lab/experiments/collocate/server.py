"""The private daemon of `radrm bench`: it puts all copies on one GPU at once.

A daemon in use must not do that, because the copies may not fit.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from radrm.client.text import warn
from radrm.config import config_path
from radrm.errors import DeviceError, RadrmError, Refused
from radrm.lab.experiments.demo.server import DemoServer, wait

_SERVER_CONFIG = Path("/etc/radrm/radrm.toml")
_COMMAND = (sys.executable, "-m", "radrm.cli.main")
_MPS_LIMIT_S, _PAUSE_S = 30.0, 0.05
_PACKING = (
    "policy=first-fit",
    "policies.sharing.conditions=false",  # start all copies, even if they do not fit
    "order=fifo",
    "planner=strict",
    "estimator=none",  # so that no copy has a memory cap
    "recovery=none",  # a copy that does not fit is a result; it must not run again
    "unmanaged.action=count",
    "core.grace_s=10",
    "mps.active_thread_percentage=100",
)


class BenchServer(DemoServer):
    """A private server for a measurement. On real GPUs (`gpus` None) it reads them as the
    machine's own configuration says.

    `mps_on` is the UUID of the one GPU that gets an MPS server; None: no GPU gets one.
    """

    def __init__(
        self, folder: Path, gpus: str | None, time_scale: float, mps_on: str | None
    ) -> None:
        settings = (*_PACKING, f"mps.enabled={_mps(gpus, mps_on)}")
        super().__init__(folder, gpus or "", time_scale, settings)
        self._mps_on = mps_on if gpus is None else None
        if gpus is None:
            self._command = [*_COMMAND, "daemon", *_flags(settings)]
            config = config_in_force(os.environ)
            if config is not None:
                self.environment["RADRM_CONFIG"] = str(config)

    def await_answer(self) -> None:
        """Wait until it answers. Raises DeviceError with the daemon's own error."""
        try:
            super().await_answer()
        except DeviceError as error:
            reason = str(error).partition("did not start: ")[2] or str(error)
            raise DeviceError(reason.removeprefix("radrm: ")) from None

    def take_only(self, uuids: Sequence[str]) -> None:
        """Drain all devices but these. Raises DeviceError if one of these is gone."""
        rest = [d["uuid"] for d in self.devices() if d["uuid"] not in uuids]
        if rest:
            self.ask("drain", devices=rest, reason="not measured")
        present = {d["uuid"] for d in self.devices()}
        for uuid in uuids:
            if uuid not in present:
                raise DeviceError(f"the GPU {uuid} is gone; look at nvidia-smi -L")

    def why_no_mps(self, uuid: str) -> str | None:
        """Wait for the MPS server of a device. Returns None, or why there is none."""
        deadline = time.monotonic() + _MPS_LIMIT_S
        while True:
            row = next((row for row in self.ask("mps") if uuid in row["uuids"]), None)
            served = any(d["mps"] for d in self.ask("gpus") if d["uuid"] == uuid)
            if served:
                return None
            if row is None or row["state"] == "down" or time.monotonic() > deadline:
                why = row["fault"] if row is not None else None
                return str(why or "no MPS server runs; radrm doctor shows what is missing")
            time.sleep(_PAUSE_S)

    def _end_daemon(self, daemon: subprocess.Popen[bytes]) -> None:
        """End the daemon. Stop its MPS control daemon first, which would outlive it."""
        if self._mps_on is not None:
            with contextlib.suppress(RadrmError):
                self.ask("mps-stop", devices=[self._mps_on], force=True)
                if not wait(lambda: not self._mps_is_up(), _MPS_LIMIT_S):
                    warn("nvidia-cuda-mps-control does not end; end it yourself")
        super()._end_daemon(daemon)

    def _mps_is_up(self) -> bool:
        return any(row["pid"] for row in self.ask("mps") if self._mps_on in row["uuids"])

    def submit_copies(self, copies: int, mode: str, command: Sequence[str], logs: Path) -> str:
        """Submit the copies as one array, from the caller's folder. Returns its id.

        Raises Refused if the daemon does not accept them.
        """
        output = log_of(logs, mode, str(copies), "%a")
        words = ["--name=bench", f"--collocation={mode}", f"--array=0-{copies - 1}"]
        done = self._submit(*words, f"--output={output}", "--", *command)
        return _submitted(done)

    def submit_programs(
        self, mode: str, programs: Sequence[Sequence[str]], logs: Sequence[str]
    ) -> list[str]:
        """Submit different programs, each with its log, to start at once. Returns their ids.

        Raises Refused if the daemon does not accept them.
        """
        jobs = []
        for command, log in zip(programs, logs, strict=True):
            words = ["--hold", "--name=bench", f"--collocation={mode}", f"--output={log}"]
            jobs.append(_submitted(self._submit(*words, "--", *command)))
        self.ask("release", jobs=jobs)
        return jobs

    def _submit(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_COMMAND, "submit", "--json", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )


def log_of(logs: Path, mode: str, which: str, number: object) -> str:
    """The path of a copy's log. `number` may be `%a` of `submit`, so `logs` must have no `%`.

    `which` is the round.
    """
    return str(logs / f"{mode}-{which}-{number}.log")


def _submitted(done: subprocess.CompletedProcess[str]) -> str:
    try:
        (result,) = json.loads(done.stdout)
    except ValueError:
        raise Refused(f"it could not be submitted: {_last(done.stderr)}") from None
    if result["id"] is None or result["error"] is not None:
        raise Refused(f"it could not be submitted: {result['error'] or done.stderr}")
    return str(result["id"])


def config_in_force(environ: Mapping[str, str]) -> Path | None:
    """The caller's own configuration file, else the system's; None if neither is readable."""
    own = config_path(environ, system=False)
    return next((path for path in (own, _SERVER_CONFIG) if path and os.access(path, os.R_OK)), None)


def _mps(gpus: str | None, uuid: str | None) -> str:
    if uuid is None:
        return "false"
    # On real GPUs only the measured one gets a server; a simulated server costs nothing.
    return "true" if gpus is not None else json.dumps([uuid])


def _flags(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("radrm: ") if lines else "radrm submit printed no error"
