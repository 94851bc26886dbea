"""The daemon that a trace is played through: the user's, or a private one on simulated GPUs."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from radrm.client.connection import Client
from radrm.config import Config
from radrm.core.records import DECLARED
from radrm.errors import DeviceError
from radrm.experiments.demo.server import DemoServer
from radrm.host.storage.spool import Spool
from radrm.simulator.scenario import Scenario

_FIRST_READING_S, _PAUSE_S = 10.0, 0.05


@dataclass(frozen=True, slots=True)
class Server:
    """A daemon that answers. `chdir`: where jobs run; None: in the caller's folder.

    `gpus`: `sim:SPEC` if they are simulated, else None. `scale`: how much faster its clock is.
    """

    ask: Callable[..., Any]
    spool: Spool
    environment: Mapping[str, str]
    gpus: str | None
    scale: float
    chdir: str | None = None


class _PrivateServer(DemoServer):
    def served(self, gpus: str, scale: float) -> Server:
        return Server(
            ask=self.ask,
            spool=Spool(self._paths.spool),
            environment=self._environment,
            gpus=gpus,
            scale=scale,
            chdir=str(self.work),
        )

    def await_reading(self) -> None:
        """Wait a limited time until each device was read."""
        deadline = time.monotonic() + _FIRST_READING_S
        while any(device["used_mib"] is None for device in self.ask("gpus")):
            if time.monotonic() > deadline:
                raise DeviceError("the simulated GPUs are not read; try again")
            time.sleep(_PAUSE_S)


@contextlib.contextmanager
def private_server(folder: Path, gpus: str, scale: float, scenario: Scenario) -> Iterator[Server]:
    """A daemon of its own in this folder, configured as a scenario. It leaves nothing behind."""
    server = _PrivateServer(folder, gpus, scale, daemon_settings(scenario))
    try:
        server.start()
        server.await_answer()
        server.await_reading()
        yield server.served(gpus, scale)
    finally:
        server.end()


def daemon_settings(scenario: Scenario) -> list[str]:
    """Return the settings (`KEY=VALUE`) of a daemon that does what the simulator does."""
    config = replace(
        scenario.config,
        mps=replace(scenario.config.mps, enabled=scenario.mps),
        # The jobs declare what is known of them; nothing else is to be found out.
        estimator=DECLARED,
    )
    usual = dict(_leaves(Config().to_table()))
    return [
        f"{key}={json.dumps(value)}"  # JSON's strings, numbers and lists are TOML's, too
        for key, value in _leaves(config.to_table())
        if value is not None and usual.get(key) != value
    ]


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@contextlib.contextmanager
def own_server() -> Iterator[Server]:
    """The user's daemon, or the system's. Raises `Unreachable`."""
    with Client() as client:
        paths = client.connect()
        about = client.ask("ping")
        gpus = str(about["gpus"])
        yield Server(
            ask=client.ask,
            spool=Spool(paths.spool),
            environment=os.environ,
            gpus=gpus if gpus.startswith("sim:") else None,
            scale=float(about["time_scale"]),
        )
