"""`radrm doctor`: every check is made, none ends it, and the daemon is found."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from radrm import __version__
from radrm.cli.commands.doctor import FindingLine, doctor, fine
from radrm.cli.settings import find_errors
from radrm.host.gpus import nvml
from radrm.host.health import checks, disk, gpus
from radrm.host.health.checks import all_checks, ask_daemons, configuration, daemon
from radrm.host.health.finding import Finding, Level, run_checks
from radrm.host.sockets import listen
from radrm.host.storage.paths import Paths, paths_for, prepare
from tests.cli.fakes import ESC, shown
from tests.host.health.judging import gpu as served_gpu

Ran = tuple[int, str]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user without a daemon, on a machine without a GPU."""
    found = {"RADRM_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path)}
    monkeypatch.delenv("RADRM_CONFIG", raising=False)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvml, "find", lambda: nvml.Found(None, "none in this test"))
    monkeypatch.setattr(gpus, "has_hardware", lambda: False)
    monkeypatch.setattr(gpus, "absent", lambda: None)
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


NO_PROCESS = 4_194_305


def pong(**about: Any) -> bytes:
    usual = {"version": __version__, "pid": NO_PROCESS, "gpus": "sim:1xA100-40GB"}
    return json.dumps({"ok": True, "result": {**usual, **about}}).encode() + b"\n"


@pytest.fixture
def run(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(every: bool = False, as_json: bool = False) -> Ran:
        return doctor(every, False, as_json), capsys.readouterr().out

    return run


CHECKS = (
    *("daemon", "systemd", "free space", "file system", "configuration"),
    *("GPUs", "logging out", "traces"),
)


def test_every_check_is_made_and_named(run: Callable[..., Ran]) -> None:
    code, shown = run(as_json=True)
    found = json.loads(shown)
    assert tuple(f["check"] for f in found) == CHECKS
    assert all(set(f) == {"check", "level", "finding", "next_step"} for f in found)
    assert code == (1 if any(f["level"] == "fail" for f in found) else 0)
    assert not [f for f in found if "could not be checked" in f["finding"]]


def test_all_is_one_line_each(run: Callable[..., Ran]) -> None:
    _, shown = run(every=True)
    lines = shown.splitlines()
    assert [line[6:].partition(": ")[0] for line in lines] == list(CHECKS)
    assert all(line[:6].strip() in ("ok", "warn", "fail") for line in lines)


def test_what_is_wrong_comes_first_and_what_is_fine_is_one_line(run: Callable[..., Ran]) -> None:
    *wrong, fine = run()[1].splitlines()
    assert {line[6:].partition(": ")[0] for line in wrong} >= {"daemon", "GPUs"}
    assert not [line for line in wrong if line.startswith("ok")]
    assert fine.startswith(f"ok    {len(CHECKS) - len(wrong)} checks")


def test_a_failure_is_the_exit_code(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "radrm").mkdir()
    (tmp_path / "radrm" / "radrm.toml").write_text("polcy = 'x'\nordr = 'y'")
    code, shown = run()
    assert code == 1
    (line,) = (x for x in shown.splitlines() if "configuration" in x)
    assert line.startswith("fail")
    for words in ("'polcy'", "(and 1 more)", "radrm config check"):
        assert words in line


def test_a_check_that_breaks_ends_nothing(run: Callable[..., Ran], mocker: MockerFixture) -> None:
    mocker.patch.object(disk, "space", side_effect=RuntimeError("odd\x1b[2J"))
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
    one = gpus.Gpu(0, "H100", (0, 0), True, 0)
    mocker.patch.object(gpus, "look", return_value=gpus.Driver((one,)))
    names = [f.check for f in run_checks(all_checks(environ, os.getuid(), find_errors))]
    after = names[names.index("GPUs") + 1 :]
    assert after[:3] == ["MIG", "persistence mode", "compute mode"]


# ------------------------------------------------------------------ the daemon


def test_no_daemon(environ: dict[str, str]) -> None:
    asked = ask_daemons([paths_for(environ, os.getuid())])
    finding = daemon(asked)
    assert finding.level.value == "warn"
    assert "no radrm daemon answers in" in finding.finding


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (pong(), "ok", f"process {NO_PROCESS}, answers in {{run}}, radrm {__version__}"),
        (pong(version="0.0.0"), "warn", "is radrm 0.0.0"),
        (b"SSH-2.0\r\n", "fail", "gave no answer"),
        (b"", "fail", "gave no answer"),
        (b'{"ok": false, "error": "?"}\n', "fail", "is not radrm"),
        (b"[1]\n", "fail", "is not radrm"),
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


def told(**changed: Any) -> dict[str, Any]:
    """What the daemon says of itself and of its GPUs: all is well."""
    return {
        "devices": [served_gpu()],
        "mps": [],
        **changed,
    }


def test_the_daemon_is_asked_how_its_gpus_are(environ: dict[str, str]) -> None:
    broken = served_gpu(state="unhealthy", reason="Xid 79")
    faulty = {"gpus": [0], "state": "fault", "wanted": True, "fault": "a client has faulted"}
    devices = [broken, served_gpu(1, smact_error="dcgmi has ended")]
    answer = told(devices=devices, mps=[faulty])
    with answering(paths_for(environ, os.getuid()), pong(pid=os.getpid(), **answer)):
        found = {f.check: f for f in run_checks(all_checks(environ, os.getuid(), find_errors))}
    said = {name: (f.level.value, f.finding) for name, f in found.items()}
    assert said["GPU health"] == ("fail", "GPU 0: Xid 79")
    assert said["SM activity"][0] == "warn" and "dcgmi has ended" in said["SM activity"][1]
    assert said["MPS servers"] == ("fail", "GPU 0: a client has faulted")
    assert not [f for f in found.values() if "could not be checked" in f.finding]


def test_a_daemon_in_order(environ: dict[str, str]) -> None:
    with answering(paths_for(environ, os.getuid()), pong(pid=os.getpid(), **told())):
        found = {f.check: f for f in run_checks(all_checks(environ, os.getuid(), find_errors))}
    for name in ("GPU health", "SM activity", "MPS servers"):
        assert found[name].level.value == "ok", found[name]
    assert "simulated GPUs" in found["GPUs"].finding and "isolation" not in found


def test_a_daemon_that_does_not_tell(environ: dict[str, str]) -> None:
    with answering(paths_for(environ, os.getuid()), pong()):
        found = {f.check: f for f in run_checks(all_checks(environ, os.getuid(), find_errors))}
    assert found["GPU health"].level.value == "warn"
    assert "SM activity" not in found


# ------------------------------------------------------------------ for people

STEP = (
    "see to its source, whatever that may be on this server: radrm help dgx, step 2 "
    + "and on " * 9
)


def test_on_a_terminal_it_fits_eighty_columns() -> None:
    long = Finding("SM activity", Level.WARN, "not read of GPU 0, " + "and so on, " * 20, STEP)
    lines = shown(FindingLine(long))
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("warn  SM activity: not read of GPU 0, and so on")
    assert all(line.startswith(" " * 6) for line in lines[1:])
    assert sum(line.startswith("      -> see to its source") for line in lines) == 1
    assert " ".join(" ".join(lines).split()) == f"warn SM activity: {long.finding}-> {STEP}".strip()
    assert shown(FindingLine(Finding("Python", Level.OK, "3.11.7"))) == ["ok    Python: 3.11.7"]


def test_in_a_pipe_it_is_one_line() -> None:
    long = Finding("SM activity", Level.WARN, "x " * 200, STEP)
    (line,) = shown(FindingLine(long), terminal=False)
    assert line == f"warn  SM activity: {long.finding}; {STEP}"


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_words_move_no_cursor(terminal: bool) -> None:
    hostile = Finding(f"c{ESC}", Level.FAIL, f"f{ESC}\nok    all: fine\r[bold]b", f"s{ESC}\n")
    lines = shown(FindingLine(hostile), 200, terminal)
    assert all(line.isprintable() for line in lines)
    assert "[bold]b" in lines[0]


@pytest.mark.parametrize("width", [26, 40, 60])
def test_on_a_narrow_terminal_nothing_is_lost(width: int) -> None:
    found = Finding("open files", Level.WARN, "1024, and MPS wants 16384", "ulimit -n 16384")
    words = "".join("".join(shown(FindingLine(found), width)).split())
    assert words == "warnopenfiles:1024,andMPSwants16384->ulimit-n16384"


def test_what_is_fine_is_one_line() -> None:
    names = [f"check {i}" for i in range(30)]
    (line,) = shown(fine(names))
    assert line.startswith("ok    30 checks") and "check 0" in line and len(line) <= 80
    assert "check 29" in shown(fine(names), terminal=False)[0]


# ------------------------------------------------------------------ the configuration


def test_what_of_a_wrong_configuration_can_be_used_is_used(
    environ: dict[str, str], tmp_path: Path, mocker: MockerFixture
) -> None:
    (tmp_path / "radrm").mkdir()
    (tmp_path / "radrm" / "radrm.toml").write_text("polcy = 1\n[mps]\nenabled = true")
    asked = mocker.patch.object(checks, "_gpu_checks", return_value=())
    list(run_checks(all_checks(environ, os.getuid(), find_errors)))
    assert asked.call_args.args[0] is True


def test_configuration(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    environ = {"RADRM_CONFIG": str(path)}
    assert configuration(environ, False, find_errors).level.value == "fail"
    path.write_text("policy = 'exclusive'")
    assert configuration(environ, False, find_errors).finding == f"{path}: no errors"
    path.write_bytes(b"\xff")
    assert "UTF-8" in configuration(environ, False, find_errors).finding
    assert "/etc/radrm/radrm.toml" in configuration({}, True, find_errors).finding
