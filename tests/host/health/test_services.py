"""What `radrm doctor` finds of the services around radrm: real commands, stand-ins behind them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import DeviceError
from radrm.host.estimation import confine, start_tracer
from radrm.host.gpus.stream import ask
from radrm.host.health import services
from radrm.host.service import code as service_code
from radrm.host.service.code import Code
from radrm.host.service.ownership import Ownership
from tests.host.health.judging import judged
from tests.paths import BIN

Facts = Callable[..., None]


def which(name: str) -> str | None:
    return str(BIN / name)


def nothing(name: str) -> str | None:
    return None


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
        "UnitFileState": "enabled",
        "Delegate": "yes",
        "KillMode": "process",
    }

    def say(there: bool = True, mode: str = "ok", **facts: str) -> None:
        units = {"radrmd.service": usual | facts} if there else {}
        path.write_text(json.dumps({"units": units, "mode": mode}))

    say()
    return say


# ------------------------------------------------------------------ systemd


def test_without_systemd(tmp_path: Path) -> None:
    none = tmp_path / "none"
    judged(services.systemd(True, which, ask, none), "warn", "does not run systemd")
    judged(services.systemd(False, which, ask, none), "ok", "started by hand")
    judged(services.systemd(True, nothing, ask, tmp_path), "warn", "not on PATH")


def test_a_unit_in_order(tmp_path: Path, unit: Facts) -> None:
    judged(services.systemd(True, which, ask, tmp_path), "ok", "runs and starts at boot")
    judged(services.systemd(False, which, ask, tmp_path), "ok", "runs and starts at boot")


def test_no_unit(tmp_path: Path, unit: Facts) -> None:
    unit(there=False)
    judged(services.systemd(True, which, ask, tmp_path), "warn", 'radrm)" service install')
    judged(services.systemd(False, which, ask, tmp_path), "ok", "your own")


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        ({"LoadState": "masked"}, "warn", "systemctl unmask"),
        ({"LoadState": "bad-setting"}, "fail", "bad-setting"),
        ({"ActiveState": "failed", "Result": "exit-code"}, "fail", "has failed (exit-code)"),
        ({"ActiveState": "activating", "Result": "exit-code"}, "fail", "again and again"),
        ({"KillMode": "control-group"}, "fail", "ends all jobs"),
        ({"KillMode": "mixed"}, "fail", "ends all jobs"),
        ({"UnitFileState": "disabled"}, "warn", "systemctl enable radrmd.service"),
        ({"UnitFileState": "static"}, "ok", "starts at boot"),
        ({"Delegate": "no"}, "warn", "Delegate=yes"),
    ],
)
def test_a_unit_that_is_not(
    tmp_path: Path, unit: Facts, facts: dict[str, str], level: str, words: str
) -> None:
    unit(**facts)
    judged(services.systemd(True, which, ask, tmp_path), level, words)


def test_a_unit_that_does_not_run(tmp_path: Path, unit: Facts) -> None:
    unit(ActiveState="inactive")
    for system in (True, False):
        found = services.systemd(system, which, ask, tmp_path)
        judged(found, "warn", "does not run", "systemctl enable --now radrmd.service")


def test_a_systemd_that_does_not_answer(tmp_path: Path, unit: Facts) -> None:
    unit(mode="offline")
    judged(services.systemd(True, which, ask, tmp_path), "warn", "not been booted")
    unit(mode="stuck")
    judged(services.systemd(True, which, impatient, tmp_path), "warn", "does not answer")


@pytest.mark.parametrize("said", ["", "=\n", "nonsense", "LoadState\n" * 1000, "LoadState=\x1b[2J"])
def test_any_words_of_systemctl_are_survived(tmp_path: Path, said: str) -> None:
    found = services.systemd(True, which, lambda *_: said, tmp_path)
    judged(found, "fail", "cannot be used as it is")


# ------------------------------------------------------------------ logind


@pytest.mark.parametrize(
    ("said", "level", "words"),
    [
        ("b true\n", "warn", "RemoveIPC=no"),
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


# ------------------------------------------------------------------ traces


@pytest.mark.parametrize(
    ("answer", "level", "words", "step"),
    [
        (start_tracer.APART, "ok", "at most 512 processes", None),
        (start_tracer.TOGETHER, "ok", "512 processes more than its user has", None),
        (confine.cause("refused"), "warn", "no sandbox for traces (refused)", "CAP_SYS_ADMIN"),
        ("nonsense", "warn", "nonsense", "estimation.trace"),
    ],
)
def test_whether_traces_have_a_sandbox(
    answer: str, level: str, words: str, step: str | None
) -> None:
    found = services.traces(True, 0, 0, lambda command, limit_s: f"{answer}\n")
    assert found.level.value == level and words in found.finding
    assert found.next_step is step or step in str(found.next_step)


def test_a_sandbox_that_cannot_be_checked() -> None:
    def silent(command: Sequence[str], limit_s: float) -> str:
        raise DeviceError("it does not answer")

    assert "cannot be checked" in services.traces(True, 0, 0, silent).finding


def test_what_traces_are_kept_from_is_asked_where_it_matters() -> None:
    def never(command: Sequence[str], limit_s: float) -> str:
        raise AssertionError("asked")

    assert "no training step" in services.traces(False, 0, 0, never).finding
    assert "only user 0" in services.traces(True, 0, 1000, never).finding


# ------------------------------------------------------------------ the service's code


def test_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "x.py"
    file.write_text("")
    file.chmod(0o644)
    monkeypatch.setattr(service_code, "code_of", lambda _: Code((), (str(file),)))
    mine, radrmd = frozenset({0, os.getuid()}), "/opt/radrm/bin/radrmd"
    judged(services.code(radrmd, Ownership(mine)), "ok", "only root can change it")
    file.chmod(0o664)
    found = services.code(radrmd, Ownership(mine))
    judged(found, "fail", "and root runs its code", f"chmod go-w {file}")
    file.chmod(0o644)
    nobody = Ownership(frozenset({4_000_000}))
    judged(services.code(radrmd, nobody), "fail", "belongs to user 0", "radrm help dgx")

    def closed(path: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    judged(services.code(radrmd, Ownership(mine, closed)), "ok", "sudo radrm doctor")


def test_a_radrm_without_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python3")
    judged(services.code(f"{tmp_path}/bin/radrmd"), "warn", "cannot be read")
