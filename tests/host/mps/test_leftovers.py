"""Clients that outlive their job's main process: the runner has their work removed by itself."""

from __future__ import annotations

import shlex
import sys
import threading
from pathlib import Path

import pytest

from radrm.host.mps import end_clients
from radrm.host.mps.control import Control
from radrm.host.processes import client_work
from tests.host.attempts.runner.attempt import Attempt
from tests.host.mps.controls import Place
from tests.paths import STANDINS


def command(place: Place, control: Control) -> list[str]:
    """As the daemon writes it; a runner has no PATH on which the stand-in finds its Python."""
    program = place.folder / "control-program"
    standin = STANDINS / "bin" / "nvidia-cuda-mps-control"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {standin} "$@"\n')
    program.chmod(0o755)
    return [sys.executable, "-I", "-S", end_clients.__file__, control.pipes, str(program)]


def leave(place: Place, control: Control, *words: str) -> list[str]:
    """Run a job whose main process ends while a client works; what that client was told."""
    attempt = Attempt(place.folder / "attempt")
    client = shlex.join([sys.executable, str(STANDINS / "mps_client.py"), "notes", *words])
    script = f"{client} & until grep -q ready notes; do sleep 0.02; done; exit 3"
    variables = {"PATH": "/usr/bin:/bin", "RADRM_TOKEN": attempt.token}
    ended = attempt.run(
        argv=["sh", "-c", script],
        environment={**variables, "CUDA_MPS_PIPE_DIRECTORY": control.pipes},
        ends_clients=command(place, control),
    )
    assert ended["code"] == 3
    return attempt.text("notes").split()


@pytest.fixture
def control(place: Place) -> Control:
    control = place.control()
    control.start()
    place.wrong(raw=True)
    return control


def test_one_that_handles_term_keeps_its_work_until_kill(place: Place, control: Control) -> None:
    other, _ = place.client(control)
    told = leave(place, control, "stubborn")
    assert told.index("TERM") < told.index("terminate")
    (server,) = control.probe()
    assert (server.status, server.clients) == ("ACTIVE", (other,))


def test_a_command_that_hangs_delays_the_signal_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_work, "LIMIT_S", 0.1)
    monkeypatch.setattr(client_work, "_START_S", 0.1)
    script = f"echo $$ >{tmp_path}/pid; exec sleep 1000"
    client_work.remove({"ends_clients": ["sh", "-c", script]}, lambda: [1], kill=True)
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_is_looked_for_where_no_client_is() -> None:
    def find() -> list[int]:
        raise AssertionError("all processes of the server were read")

    client_work.remove({"ends_clients": None}, find, kill=True)
    client_work.remove({}, find, kill=True)


def test_commands_of_several_processes_wait_for_one_another(place: Place) -> None:
    """Two of them stand for the daemon and a runner; the second one was refused."""
    controls = [place.control(), place.control()]
    controls[0].start()
    clients = [place.client(controls[0])[0] for _ in controls]
    (server,) = controls[0].server_pids()
    place.wrong(single=True, removes=0.2)
    errors: list[Exception] = []

    def terminate(control: Control, client: int) -> None:
        try:
            control.terminate_client(server, client, 10.0)
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=terminate, args=pair)
        for pair in zip(controls, clients, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
