"""What `radrm doctor` finds of the services around radrm: real commands, stand-ins behind them."""

from __future__ import annotations

import json
import os
import runpy
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import DeviceError
from radrm.host.estimation import confine
from radrm.host.gpus.stream import ask
from radrm.host.health import services
from radrm.host.health.gpus import Driver, Gpu
from tests.host.health.judging import judged
from tests.paths import BIN

Facts = Callable[..., None]


def which(name: str) -> str | None:
    return str(BIN / name)


def nothing(name: str) -> str | None:
    return None


_systemctl = runpy.run_path(str(BIN / "systemctl"))["main"]


def shown(command: Sequence[str], limit_s: float) -> str:
    """What the stand-in of systemctl prints, without a process."""
    with redirect_stdout(StringIO()) as out:
        assert _systemctl(list(command[1:])) == 0
    return out.getvalue()


def impatient(command: Any, limit_s: float) -> str:
    """A question to a program that never answers."""
    return ask(command, 0.3)


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Facts:
    """What systemd says of radrm's unit; at first that all is well."""
    path = tmp_path / "systemd.json"
    monkeypatch.setenv("STANDIN_SYSTEMD", str(path))
    usual = {
        "ActiveState": "active",
        "MainPID": "77",
        "UnitFileState": "enabled",
        "Delegate": "yes",
        "KillMode": "process",
        "Type": "notify",
        "WatchdogUSec": "5min",
    }

    def say(
        there: bool = True, mode: str = "ok", others: dict[str, Any] | None = None, **facts: str
    ) -> None:
        units = {"radrmd.service": usual | facts} if there else {}
        path.write_text(json.dumps({"units": units | (others or {}), "mode": mode}))

    say()
    return say


# ------------------------------------------------------------------ systemd


def test_without_systemd(tmp_path: Path) -> None:
    none = tmp_path / "none"
    judged(services.systemd(True, None, which, ask, none), "warn", "does not run systemd")
    judged(services.systemd(False, None, which, ask, none), "ok", "started by hand")
    judged(services.systemd(True, None, nothing, ask, tmp_path), "warn", "not on PATH")


def test_a_unit_in_order(tmp_path: Path, unit: Facts) -> None:
    judged(services.systemd(True, 77, which, ask, tmp_path), "ok", "runs and starts at boot")
    judged(services.systemd(False, 4, which, ask, tmp_path), "ok", "runs and starts at boot")


def test_no_unit(tmp_path: Path, unit: Facts) -> None:
    unit(there=False)
    judged(services.systemd(True, 77, which, ask, tmp_path), "warn", 'radrm)" service install')
    judged(services.systemd(False, 77, which, ask, tmp_path), "ok", "your own")


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        ({"LoadState": "masked"}, "warn", "systemctl unmask"),
        ({"LoadState": "bad-setting"}, "fail", "bad-setting"),
        ({"ActiveState": "failed", "Result": "exit-code"}, "fail", "has failed (exit-code)"),
        ({"ActiveState": "activating", "Result": "exit-code"}, "fail", "again and again"),
        ({"KillMode": "control-group"}, "fail", "ends all jobs"),
        ({"KillMode": "mixed"}, "fail", "ends all jobs"),
        ({"MainPID": "78"}, "warn", "process 77 answers, and radrmd.service runs process 78"),
        ({"ActiveState": "inactive", "MainPID": "0"}, "warn", "has not started it"),
        ({"UnitFileState": "disabled"}, "warn", "systemctl enable radrmd.service"),
        ({"UnitFileState": "static"}, "ok", "starts at boot"),
        ({"Delegate": "no"}, "warn", "Delegate=yes"),
        ({"NeedDaemonReload": "yes"}, "warn", "systemctl daemon-reload"),
        ({"Type": "exec"}, "warn", "Type=exec"),
        ({"Type": "notify-reload"}, "ok", "starts at boot"),
        ({"WatchdogUSec": "0"}, "warn", "WatchdogSec"),
        ({"WatchdogUSec": "infinity"}, "warn", "WatchdogSec"),
    ],
)
def test_a_unit_that_is_not(
    tmp_path: Path, unit: Facts, facts: dict[str, str], level: str, words: str
) -> None:
    unit(**facts)
    judged(services.systemd(True, 77, which, shown, tmp_path), level, words)


def test_a_unit_that_does_not_run(tmp_path: Path, unit: Facts) -> None:
    unit(ActiveState="inactive", MainPID="0")
    for system in (True, False):
        found = services.systemd(system, None, which, ask, tmp_path)
        judged(found, "warn", "does not run", "systemctl enable --now radrmd.service")


def test_a_systemd_that_does_not_answer(tmp_path: Path, unit: Facts) -> None:
    unit(mode="offline")
    judged(services.systemd(True, 77, which, ask, tmp_path), "warn", "not been booted")
    unit(mode="stuck")
    judged(services.systemd(True, 77, which, impatient, tmp_path), "warn", "does not answer")


@pytest.mark.parametrize("said", ["", "=\n", "nonsense", "LoadState\n" * 1000, "LoadState=\x1b[2J"])
def test_any_words_of_systemctl_are_survived(tmp_path: Path, said: str) -> None:
    found = services.systemd(True, 77, which, lambda *_: said, tmp_path)
    judged(found, "fail", "cannot be used as it is")


# ------------------------------------------------------------------ NVIDIA's services, logind


def nvidia(state: str = "active", file: str = "enabled") -> dict[str, str]:
    return {"ActiveState": state, "UnitFileState": file}


FABRIC, DCGM = "nvidia-fabricmanager.service", "nvidia-dcgm.service"


@pytest.mark.parametrize(
    ("others", "after", "level", "words"),
    [
        ({}, "", "ok", "none runs"),
        ({FABRIC: nvidia()}, FABRIC, "ok", f"{FABRIC} runs"),
        ({FABRIC: nvidia(), DCGM: nvidia()}, f"x {FABRIC} {DCGM}", "ok", f"{FABRIC}, {DCGM} run"),
        ({FABRIC: nvidia("failed")}, FABRIC, "warn", f"{FABRIC} failed; see why: journalctl -u"),
        ({FABRIC: nvidia()}, "local-fs.target", "warn", f"may start before {FABRIC}"),
        ({FABRIC: nvidia("inactive", "disabled")}, "", "ok", "none runs"),
    ],
)
def test_nvidias_services(
    tmp_path: Path, unit: Facts, others: dict[str, Any], after: str, level: str, words: str
) -> None:
    unit(others=others, After=after)
    judged(services.nvidia_services(True, which, shown, tmp_path), level, words)


def test_nvidias_services_without_radrms(tmp_path: Path, unit: Facts) -> None:
    unit(there=False, others={FABRIC: nvidia()})
    judged(services.nvidia_services(True, which, ask, tmp_path), "ok", FABRIC)
    unit(others={FABRIC: nvidia()})
    judged(services.nvidia_services(False, which, ask, tmp_path), "ok", FABRIC)
    unit(mode="stuck")
    judged(services.nvidia_services(True, which, impatient, tmp_path), "warn", "does not answer")
    judged(services.nvidia_services(True, which, lambda *_: "\n\n=", tmp_path), "ok", "none runs")
    judged(services.nvidia_services(True, which, ask, tmp_path / "none"), "ok", "not run systemd")


@pytest.mark.parametrize(
    ("said", "level", "words"),
    [
        ("b true\n", "warn", "docs/dgx.md, step 6"),
        ("b false\n", "ok", "RemoveIPC=no"),
        ("b maybe\n", "ok", "unknown"),
        ("", "ok", "unknown"),
    ],
)
def test_what_logging_out_takes_from_jobs(
    tmp_path: Path, said: str, level: str, words: str
) -> None:
    asked: list[str] = []

    def answer(command: Sequence[str], limit_s: float) -> str:
        asked.extend(command)
        return said

    judged(services.logind(which, answer, tmp_path), level, words)
    assert asked[1] == "get-property" and asked[-1] == "RemoveIPC"


def test_a_logind_that_cannot_be_asked(tmp_path: Path) -> None:
    def silent(command: Sequence[str], limit_s: float) -> str:
        raise DeviceError("busctl does not answer within 5 s")

    judged(services.logind(which, silent, tmp_path), "ok", "unknown: busctl does not answer")
    judged(services.logind(nothing, silent, tmp_path), "ok", "does not run here")
    judged(services.logind(which, silent, tmp_path / "none"), "ok", "does not run here")


# ------------------------------------------------------------------ DCGM


@pytest.fixture
def dcgm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    path = tmp_path / "dcgmi.json"
    monkeypatch.setenv("STANDIN_DCGMI", str(path))

    def say(mode: str, count: int = 2) -> None:
        gpus = [{"id": n, "uuid": f"GPU-{n}", "smact": 0.3} for n in range(count)]
        path.write_text(json.dumps({"gpus": gpus, "mode": mode}))

    return say


def driver(gpm: bool, count: int = 2) -> Driver:
    return Driver(tuple(Gpu(n, "A100", None, True, 0, gpm) for n in range(count)))


def test_dcgm(dcgm: Callable[..., None]) -> None:
    old, new = driver(False), driver(True)
    dcgm("ok")
    judged(services.dcgm(old, "auto", which), "ok", "answers and knows 2 GPUs")
    dcgm("mute")
    judged(services.dcgm(old, "auto", which), "ok", "answers")
    dcgm("ok", count=1)
    judged(services.dcgm(old, "auto", which), "warn", "knows 1 GPUs and the driver 2")
    judged(services.dcgm(new, "auto", which), "ok", "knows 1 GPUs")
    dcgm("down")
    judged(services.dcgm(old, "auto", which), "warn", "nvidia-dcgm", "unable to establish")
    judged(services.dcgm(old, "dcgm", which), "fail", "nvidia-dcgm")
    judged(services.dcgm(new, "auto", which), "ok", "nothing here needs it")
    judged(services.dcgm(old, "dcgm-exporter", which), "ok", "nothing here needs it")
    dcgm("stuck")
    judged(services.dcgm(old, "auto", which, impatient), "warn", "does not answer within")


def test_no_dcgm() -> None:
    judged(services.dcgm(driver(True), "auto", nothing), "ok", "nothing here needs it")
    judged(services.dcgm(driver(False), "auto", nothing), "ok", "not on PATH")
    judged(
        services.dcgm(driver(False), "auto", which, lambda *_: "\x1b["), "warn", "unknown format"
    )

    def gone(*_: object) -> str:
        raise DeviceError("dcgmi is not installed")

    judged(services.dcgm(driver(False), "dcgm", which, gone), "fail", "not installed")


# ------------------------------------------------------------------ containers


@pytest.mark.skipif(os.getuid() != 0, reason="a socket of root's is wanted")
def test_docker(tmp_path: Path) -> None:
    path = str(tmp_path / "docker.sock")
    yes, no = (lambda _: True), (lambda _: False)
    judged(services.docker(False, [path], yes), "ok", "no Docker")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(path)
        judged(services.docker(True, [path], yes), "ok", "the job of each container")
        judged(services.docker(False, [path], no), "ok", "may not use it")
        judged(
            services.docker(False, ["/none", path], yes), "warn", "unmanaged process's", "rootless"
        )
        os.chown(path, 1000, 1000)
        judged(services.docker(False, [path], yes), "ok", "no Docker")
    Path(tmp_path / "file").write_text("")
    judged(services.docker(False, [str(tmp_path / "file")], yes), "ok", "no Docker")


# ------------------------------------------------------------------ traces


@pytest.mark.parametrize(
    ("flags", "level", "words"),
    [
        (
            confine.NEW_USER | confine.NEW_NET,
            "ok",
            "a trace has no network and at most 512 processes",
        ),
        (confine.NEW_NET, "ok", "512 processes more than its user has"),
        (0, "warn", "run them without network"),
        ("nonsense", "warn", "cannot be checked"),
    ],
)
def test_what_traces_are_kept_from(flags: object, level: str, words: str) -> None:
    found = services.traces(True, 0, 0, lambda command, limit_s: f"{flags}\n")
    assert found.level.value == level and words in found.finding
    assert (found.next_step is None) == (level == "ok")


def test_what_traces_are_kept_from_is_asked_where_it_matters() -> None:
    def never(command: Sequence[str], limit_s: float) -> str:
        raise AssertionError("asked")

    assert "no training step" in services.traces(False, 0, 0, never).finding
    assert "only user 0" in services.traces(True, 0, 1000, never).finding
