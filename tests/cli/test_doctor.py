"""`radrm doctor`: every check is made, none ends it, and the daemon is found."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from pytest_mock import MockerFixture
from typer.testing import CliRunner

from radrm import __version__
from radrm.cli import doctor as module
from radrm.cli.doctor import all_checks, ask_daemons, configuration, daemon, doctor
from radrm.host import nvml
from radrm.host.health import gpus
from radrm.host.health.finding import run_checks
from radrm.host.paths import Paths, paths_for, prepare
from radrm.host.sockets import listen

app = typer.Typer()
app.command()(doctor)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user without a daemon, on a machine without a GPU."""
    found = {"RADRM_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path)}
    for name in ("RADRM_CONFIG", "CUDA_MPS_PIPE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvml, "find", lambda: nvml.Found(None, "none in this test"))
    monkeypatch.setattr(gpus, "has_hardware", lambda: False)
    return found


@contextmanager
def answering(paths: Paths, answer: bytes) -> Iterator[None]:
    """Somebody at a daemon's socket who says one thing to everybody."""
    prepare(paths, False)
    server = listen(paths.socket)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with closing(client):
                client.recv(1000)
                client.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


def pong(**about: Any) -> bytes:
    usual = {"version": __version__, "pid": 7, "gpus": "sim:1xA100-40GB"}
    return json.dumps({"ok": True, "result": {**usual, **about}}).encode() + b"\n"


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    return done.exit_code, done.stdout


CHECKS = (
    "Python", "packages", "daemon", "state folder", "spool folder", "store folder",
    "attempts folder", "checkpoints folder", "run folder", "free space", "file system",
    "socket path", "configuration", "cgroup", "pidfd", "inotify", "open files", "GPUs", "MPS",
    "SQLite", "clock", "rights", "store",
)  # fmt: skip


def test_every_check_is_made_and_named(environ: dict[str, str]) -> None:
    code, shown = run("--json")
    found = json.loads(shown)
    assert tuple(f["check"] for f in found) == CHECKS
    assert all(set(f) == {"check", "level", "finding", "next_step"} for f in found)
    assert code == (1 if any(f["level"] == "fail" for f in found) else 0)
    assert not [f for f in found if "could not be checked" in f["finding"]]


def test_one_line_each(environ: dict[str, str]) -> None:
    _, shown = run()
    *lines, summary = shown.splitlines()
    assert [line[6:].partition(": ")[0] for line in lines] == list(CHECKS)
    assert all(line[:6].strip() in ("ok", "warn", "fail") for line in lines)
    assert summary.endswith(" fail")


def test_a_failure_is_the_exit_code(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "radrm").mkdir()
    (tmp_path / "radrm" / "radrm.toml").write_text("polcy = 'x'\nordr = 'y'")
    code, shown = run()
    assert code == 1
    (line,) = (x for x in shown.splitlines() if "configuration" in x)
    assert line.startswith("fail")
    for words in ("'polcy'", "(and 1 more)", "radrm config check"):
        assert words in line


def test_a_check_that_breaks_ends_nothing(environ: dict[str, str], mocker: MockerFixture) -> None:
    mocker.patch.object(module.places, "space", side_effect=RuntimeError("odd\x1b[2J"))
    code, shown = run()
    (line,) = (x for x in shown.splitlines() if "free space" in x)
    assert line.startswith("warn")
    assert "RuntimeError: odd" in line
    assert "\x1b" not in line
    assert code in (0, 1)


def test_gpus_are_looked_at_one_by_one_where_there_are_some(
    environ: dict[str, str], mocker: MockerFixture
) -> None:
    mocker.patch.object(nvml, "find", return_value=nvml.Found(mocker.MagicMock()))
    one = gpus.Gpu(0, "A100", (0, 0), True, 0, False)
    mocker.patch.object(gpus, "look", return_value=gpus.Driver((one,), "550.54.14"))
    names = [f.check for f in run_checks(all_checks(environ, os.getuid()))]
    after = names[names.index("GPUs") + 1 :]
    assert after[:6] == [
        "GPU driver", "MIG", "persistence mode", "compute mode", "SM activity", "MPS"
    ]  # fmt: skip


# ------------------------------------------------------------------ the daemon


def test_no_daemon(environ: dict[str, str]) -> None:
    asked = ask_daemons([paths_for(environ, os.getuid())])
    finding = daemon(asked)
    assert finding.level.value == "warn"
    assert "no radrm daemon answers in" in finding.finding


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (pong(), "ok", f"process 7, answers in {{run}}, radrm {__version__}"),
        (pong(version="0.0.0"), "warn", "is radrm 0.0.0"),
        (b"SSH-2.0\r\n", "fail", "gave no answer"),
        (b"", "fail", "gave no answer"),
        (b'{"ok": false, "error": "?"}\n', "fail", "does not know radrm"),
        (b"[1]\n", "fail", "does not know radrm"),
    ],
)
def test_a_daemon(environ: dict[str, str], answer: bytes, level: str, words: str) -> None:
    paths = paths_for(environ, os.getuid())
    with answering(paths, answer):
        finding = daemon(ask_daemons([paths]))
    assert finding.level.value == level
    assert words.format(run=paths.run) in finding.finding


def test_the_first_that_answers_is_the_one(tmp_path: Path) -> None:
    own, system = (Paths(str(tmp_path / n), str(tmp_path / n / "run")) for n in ("own", "system"))
    with answering(system, pong()):
        assert [paths for paths, _ in ask_daemons([own, system])] == [own, system]
        assert [paths for paths, _ in ask_daemons([system, own])] == [system]
        assert system.run in daemon(ask_daemons([own, system])).finding


def test_folders_that_are_gone_under_a_daemon(environ: dict[str, str]) -> None:
    paths = paths_for(environ, os.getuid())
    with answering(paths, pong()):
        os.rmdir(paths.spool)
        found = {f.check: f for f in run_checks(all_checks(environ, os.getuid()))}
    assert found["spool folder"].level.value == "fail"
    assert found["attempts folder"].level.value == "ok"
    assert "software GPUs" in found["GPUs"].finding


# ------------------------------------------------------------------ the configuration


def test_what_of_a_wrong_configuration_can_be_used_is_used(
    environ: dict[str, str], tmp_path: Path, mocker: MockerFixture
) -> None:
    (tmp_path / "radrm").mkdir()
    (tmp_path / "radrm" / "radrm.toml").write_text("polcy = 1\n[mps]\nenabled = true")
    asked = mocker.patch.object(module.gpus, "mps")
    list(run_checks(all_checks(environ, os.getuid())))
    assert asked.call_args.args[0] is True


def test_configuration(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    environ = {"RADRM_CONFIG": str(path)}
    assert configuration(environ, False).level.value == "fail"
    path.write_text("policy = 'exclusive'")
    assert configuration(environ, False).finding == f"{path}: fine"
    path.write_bytes(b"\xff")
    assert "UTF-8" in configuration(environ, False).finding
    assert "/etc/radrm/radrm.toml" in configuration({}, True).finding
