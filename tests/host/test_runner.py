"""The runner as a real process, on folders made by hand."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.attempts.job_process import interpreter_of
from radrm.host.attempts.processes import attempt_processes, identify
from tests.host.test_processes import ESCAPED, PYTHON, gone, read_pid, wait_until

COMMAND = [sys.executable, "-I", "-S", runner.__file__]


class Attempt:
    """One attempt's folder, and beside it the folder that its job runs in."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "attempts" / "7"
        self.cwd = place / "work"
        self.folder.mkdir(parents=True)
        self.cwd.mkdir()
        self.token = f"token-{os.getpid()}-{place.name}"
        self.process: subprocess.Popen[bytes] | None = None

    def prepare(self, **changes: Any) -> None:
        fields = {
            "job_id": 1,
            "attempt": 1,
            "token": self.token,
            "argv": None,
            "script": None,
            "interpreter": None,
            "cwd": str(self.cwd),
            "environment": {"PATH": os.environ["PATH"], "RADRM_TOKEN": self.token},
            "stdout": str(self.cwd / "out"),
            "stderr": str(self.cwd / "err"),
            "umask": 0o027,
            "uid": None,
            "gid": None,
            "user": "me",
            "kill_grace_s": 0.2,
            "cgroup": None,
        }
        attempts.write_record(str(self.folder), attempts.LAUNCH, fields | changes)

    def start(self, *python_options: str, **changes: Any) -> subprocess.Popen[bytes]:
        if changes:
            self.prepare(**changes)
        command = [*COMMAND[:3], *python_options, runner.__file__, str(self.folder)]
        self.process = subprocess.Popen(
            command,
            env={"RADRM_TOKEN": self.token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return self.process

    def run(self, **changes: Any) -> dict[str, Any]:
        """Run to the end: its exit record."""
        _, errors = self.start(**changes).communicate(timeout=30)
        assert errors == b"" and self.process is not None and self.process.returncode == 0
        record = self.record("exit.json")
        assert not attempt_processes(self.token, None)
        return {key: record[key] for key in ("code", "signal", "never_started")}

    def record(self, name: str) -> dict[str, Any]:
        fields, damage = attempts.read_record(str(self.folder), name)
        assert fields is not None, damage
        return fields

    def wait_for(self, name: str) -> Path:
        wait_until((self.cwd / name).exists)
        return self.cwd / name

    def text(self, name: str) -> str:
        return (self.cwd / name).read_text()


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    attempt = Attempt(tmp_path)
    yield attempt
    if attempt.process is not None:
        attempt.process.kill()
        attempt.process.communicate()
    for pid in attempt_processes(attempt.token, None):
        os.kill(pid, signal.SIGKILL)


# ------------------------------------------------------------------ how it ends


@pytest.mark.parametrize("code", [0, 1, 2, 127, 255])
def test_exit_codes_are_exact(attempt: Attempt, code: int) -> None:
    end = attempt.run(argv=["sh", "-c", f"exit {code}"])
    assert end == {"code": code, "signal": None, "never_started": None}


@pytest.mark.parametrize("number", [1, 9, 11, 15])
def test_signals_are_exact(attempt: Attempt, number: int) -> None:
    end = attempt.run(argv=["sh", "-c", f"kill -{number} $$"])
    assert end == {"code": None, "signal": number, "never_started": None}


def test_start_is_on_record_before_the_first_instruction(attempt: Attempt) -> None:
    record = attempt.folder / "start.json"
    end = attempt.run(argv=["sh", "-c", f"cat {record} && echo $$"])
    seen, pid = attempt.text("out").rsplit("}", 1)
    assert end["code"] == 0
    assert json.loads(seen + "}")["pid"] == int(pid)


def test_what_the_job_leaves_behind_dies_before_the_record(attempt: Attempt) -> None:
    """Whatever it did to get away: another session, an empty environment, no parent."""
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"
    code = f"""{ESCAPED}
escape()
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", {stubborn!r}])
while not os.path.exists(sys.argv[1]): time.sleep(0.005)
os._exit(3)
"""
    end = attempt.run(argv=[*PYTHON, code, str(attempt.cwd / "pid")])
    assert end["code"] == 3
    assert gone(read_pid(attempt.cwd / "pid"))


# ------------------------------------------------------------------ what the job gets


def test_the_job_gets_exactly_what_was_planned(attempt: Attempt) -> None:
    code = (
        "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.umask(0), "
        "sorted(os.listdir('/proc/self/fd')), os.readlink('/proc/self/fd/0'), "
        "os.getsid(0) == os.getpid(), open('/proc/self/status').read()]))"
    )
    environment = {"LC_ALL": "C.UTF-8", "NAME": "ü\udcff", "RADRM_TOKEN": attempt.token}
    attempt.run(argv=[*PYTHON, code], environment=environment)
    seen, cwd, mask, fds, stdin, leads, status = json.loads(attempt.text("out"))
    assert seen == environment
    assert (cwd, mask, stdin, leads) == (str(attempt.cwd), 0o027, "/dev/null", True)
    assert fds == ["0", "1", "2", "3"], "the fourth is the listing's own"
    signals = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert int(signals["SigBlk"], 16) == 0
    ignored = {n for n in signal.valid_signals() if int(signals["SigIgn"], 16) >> (n - 1) & 1}
    assert ignored == {signal.SIGPIPE, signal.SIGXFSZ}, "those that Python itself ignores"


def test_logs_are_added_to_and_may_be_one(attempt: Attempt) -> None:
    (attempt.cwd / "log").write_text("before\n")
    log = str(attempt.cwd / "log")
    attempt.run(argv=["sh", "-c", "echo out; echo err >&2"], stdout=log, stderr="log")
    lines = attempt.text("log").splitlines()
    assert lines[0] == "before" and sorted(lines[1:]) == ["err", "out"]


def test_a_script_runs_by_its_first_line(attempt: Attempt) -> None:
    script = "#!/bin/bash -e\necho $0; echo \udcff; false; echo never\n"
    assert attempt.run(script=script)["code"] == 1
    path = attempt.folder / "script"
    assert (attempt.cwd / "out").read_bytes() == os.fsencode(path) + b"\n\xff\n"
    assert path.stat().st_mode & 0o777 == 0o700


def test_an_interpreter_that_is_given_comes_first(attempt: Attempt) -> None:
    assert attempt.run(script="#!/bin/false\necho $-", interpreter=["bash", "-x"])["code"] == 0
    assert "x" in attempt.text("out")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! /bin/bash -l ", ["/bin/bash", "-l"]),
        ("#!/usr/bin/env -S python -u", ["/usr/bin/env", "-S python -u"]),
        ("#!/bin/sh\r", ["/bin/sh\r"]),
        ("#!", ["/bin/sh"]),
        ("echo hello", ["/bin/sh"]),
        ("", ["/bin/sh"]),
    ],
)
def test_first_lines_are_read_as_the_kernel_does(line: str, words: list[str]) -> None:
    assert interpreter_of(line + "\necho") == interpreter_of(line) == words


# ------------------------------------------------------------------ what never starts

NEVER = [
    ({"script": "#!/no/such/sh\n"}, "interpreter /no/such/sh named in line 1 does not exist"),
    ({"script": "#!/bin/sh\r\n"}, r"interpreter '/bin/sh\r' named in line 1 does not exist"),
    ({"script": "#!/etc\n"}, "interpreter /etc named in line 1 cannot run: Permission denied"),
    ({"script": "x", "interpreter": ["no-such"]}, "the interpreter no-such does not exist"),
    ({"argv": ["no-such-program"]}, "cannot run no-such-program: there is no such program"),
    ({"argv": ["/etc/passwd"]}, "cannot run /etc/passwd: Permission denied"),
    ({"argv": ["./bad"]}, "cannot run ./bad: the interpreter in its first line does not exist"),
    ({"cwd": "/no/such"}, "cannot enter the folder /no/such: No such file or directory"),
    ({"stderr": "/no/such/err"}, "cannot write the log /no/such/err: the folder /no/such does not"),
    ({"stdout": "/etc"}, "cannot write the log /etc: Is a directory"),
    ({"stdout": "link"}, "link: it is a symbolic link; remove it, or name another with --output"),
    ({"stdout": "pipe"}, "cannot write the log"),
    ({"environment": {"A": "\0"}}, "the job cannot start: embedded null byte"),
]


@pytest.mark.parametrize(("changes", "message"), NEVER, ids=[str(c) for c, _ in NEVER])
def test_why_it_never_started(attempt: Attempt, changes: dict[str, Any], message: str) -> None:
    bad = attempt.cwd / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    (attempt.cwd / "link").symlink_to("/etc/passwd")
    os.mkfifo(attempt.cwd / "pipe")
    what = {} if "script" in changes else {"argv": ["touch", str(attempt.cwd / "ran")]}
    end = attempt.run(**what | changes)
    assert message in end["never_started"] and "\n" not in end["never_started"]
    assert (end["code"], end["signal"]) == (None, None)
    assert not (attempt.cwd / "ran").exists()
    if "stderr" not in changes:
        assert attempt.text("err") == f"radrm: {end['never_started']}\n"


def test_without_a_start_record_it_does_not_begin(attempt: Attempt) -> None:
    (attempt.folder / "start.json" / "in-the-way").mkdir(parents=True)
    end = attempt.run(argv=["touch", "ran"])
    assert "Is a directory" in end["never_started"]
    assert not (attempt.cwd / "ran").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 99}'])
def test_a_damaged_launch_record(attempt: Attempt, text: str) -> None:
    (attempt.folder / "launch.json").write_text(text)
    assert "launch.json" in attempt.run()["never_started"]


# ------------------------------------------------------------------ claim and lock


def test_the_loser_of_the_claim_stands_down(attempt: Attempt) -> None:
    me = identify(os.getpid())
    assert me is not None and attempts.Claim.take(str(attempt.folder), attempts.DAEMON, me)
    attempt.prepare(argv=["touch", "ran"])
    assert attempt.start().wait() == 0
    assert attempts.Claim.holder(str(attempt.folder)) == (attempts.DAEMON, me)
    assert {path.name for path in attempt.folder.iterdir()} == {"claim", "launch.json", "lock"}
    assert not list(attempt.cwd.iterdir())


def test_a_claim_is_taken_once(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    assert attempts.Claim.take(str(tmp_path), attempts.RUNNER, me)
    assert not attempts.Claim.take(str(tmp_path), attempts.DAEMON, me)
    assert attempts.Claim.holder(str(tmp_path)) == (attempts.RUNNER, me)


def test_the_lock_is_the_runners_alone(attempt: Attempt) -> None:
    """It waits for one who only tests it, and no process of the job keeps it."""
    folder = str(attempt.folder)
    assert not attempts.lock_held(folder)
    with open(attempt.folder / "lock", "w") as tester:
        fcntl.flock(tester, fcntl.LOCK_SH)
        process = attempt.start(argv=["sh", "-c", "touch ran; exec sleep 1000"])
        wait_until(lambda: "lock" in os.listdir(folder))
        assert not (attempt.folder / "claim").exists()
    attempt.wait_for("ran")
    assert attempts.lock_held(folder)
    process.kill()
    process.wait()
    assert not attempts.lock_held(folder)
    assert attempt_processes(attempt.token, None)


def test_no_folder_no_trace(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, str(tmp_path / "none")], capture_output=True, check=False)
    assert done.returncode != 0
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ signals

TREE = (
    "import os, signal, sys, time\n"
    "if os.fork() == 0: os.setsid(); open('child', 'w').close()\n"
    "else: open('parent', 'w').close()\n"
    "while True: time.sleep(1000)"
)


def started_tree(attempt: Attempt, before: str = "") -> subprocess.Popen[bytes]:
    process = attempt.start(argv=[*PYTHON, before + TREE])
    attempt.wait_for("parent")
    attempt.wait_for("child")
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_term_goes_to_the_whole_tree(attempt: Attempt, number: int) -> None:
    note = (
        "import signal, os\n"
        "note = lambda *_: (open(f'term-{os.getpid()}', 'w'), os._exit(4))\n"
        "signal.signal(15, note)\n"
    )
    process = started_tree(attempt, note)
    process.send_signal(number)
    assert process.wait() == 0
    assert attempt.record("exit.json")["code"] == 4
    assert len(list(attempt.cwd.glob("term-*"))) == 2


def test_usr2_kills_the_whole_tree(attempt: Attempt) -> None:
    process = started_tree(attempt, "import signal\nsignal.signal(15, signal.SIG_IGN)\n")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR2)
    assert process.wait() == 0
    assert attempt.record("exit.json")["signal"] == signal.SIGKILL
    assert not attempt_processes(attempt.token, None)


def test_usr2_ends_the_grace(attempt: Attempt) -> None:
    process = attempt.start(
        # The main process ends once the leftover ignores TERM; that is ready once it has been
        # reaped, so that only the leftover is signalled.
        argv=[
            "sh",
            "-c",
            "(trap '' TERM; echo >deaf; while kill -0 $$; do sleep 0.01; done; echo >ready;"
            " exec sleep 999) & until test -e deaf; do sleep 0.01; done",
        ],
        kill_grace_s=1000.0,
    )
    attempt.wait_for("ready")
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=30) == 0
    assert attempt.record("exit.json")["code"] == 0


def test_other_signals_do_not_matter(attempt: Attempt) -> None:
    process = started_tree(attempt)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGALRM, signal.SIGPIPE):
        process.send_signal(number)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert attempt.record("exit.json")["signal"] == signal.SIGTERM


# ------------------------------------------------------------------ lean, patient, alone


def test_only_light_imports_before_the_job(attempt: Attempt) -> None:
    process = attempt.start("-X", "importtime", argv=["true"])
    _, errors = process.communicate(timeout=30)
    imported = [line.split("|")[-1].strip() for line in errors.decode().splitlines()]
    before = imported[: imported.index("ctypes")] if "ctypes" in imported else imported
    assert "radrm.host.attempts.folder" in before
    heavy = {"typing", "dataclasses", "pathlib", "subprocess", "radrm.errors", "inspect"}
    assert not heavy & set(imported)


def test_it_holds_nothing_of_who_started_it(attempt: Attempt) -> None:
    mine = os.open("/", os.O_RDONLY)
    os.set_inheritable(mine, True)
    attempt.prepare(argv=["sh", "-c", "echo >ready; exec sleep 1000"])
    command = [*COMMAND, str(attempt.folder)]
    with open(os.devnull, "r+b") as null:
        attempt.process = subprocess.Popen(
            command, stdin=null, stdout=null, stderr=null, close_fds=False, start_new_session=True
        )
    os.close(mine)
    attempt.wait_for("ready")
    held = Path(f"/proc/{attempt.process.pid}/fd")
    targets = {os.readlink(fd) for fd in held.iterdir()}
    assert {t for t in targets if not t.startswith("pipe:")} == {
        os.devnull,
        str(attempt.folder / "lock"),
    }
    assert os.readlink(f"/proc/{attempt.process.pid}/cwd") == "/"
    attempt.process.send_signal(signal.SIGUSR2)
    assert attempt.process.wait() == 0


def test_a_full_disk_delays_the_exit_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = attempts.take_lock(str(tmp_path))
    os.write(lock, runner._RESERVE)
    write = attempts.write_record

    def full_until_room_is_made(folder: str, name: str, fields: dict[str, Any]) -> None:
        if os.fstat(lock).st_size or len(json.dumps(fields)) > len(runner._RESERVE):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(folder, name, fields)

    monkeypatch.setattr(attempts, "write_record", full_until_room_is_made)
    monkeypatch.setattr(runner.time, "sleep", lambda _: None)
    tail = "\u20ac" * 60000 + "CUDA out of memory"
    end = {"code": 7, "stderr_tail": tail, "stdout_tail": tail}
    assert runner._write_exit(str(tmp_path), lock, end)
    fields, _ = attempts.read_record(str(tmp_path), attempts.EXIT)
    assert fields is not None and fields["code"] == 7
    assert fields["stderr_tail"].endswith("CUDA out of memory")
    os.close(lock)


def test_a_disk_that_stays_full_loses_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lock = attempts.take_lock(str(tmp_path))
    monkeypatch.setattr(attempts, "write_record", full)
    monkeypatch.setattr(runner, "EXIT_RECORD_PATIENCE_S", -1.0)
    assert not runner._write_exit(str(tmp_path), lock, {"code": 7})
    os.close(lock)


# ------------------------------------------------------------------ another user


@pytest.fixture
def open_attempt() -> Iterator[Attempt]:
    """In a place that every user may pass through."""
    place = Path(tempfile.mkdtemp(prefix="radrm-test-"))
    place.chmod(0o755)
    attempt = Attempt(place)
    attempt.cwd.chmod(0o777)
    yield attempt
    shutil.rmtree(place)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def nobody() -> dict[str, Any]:
    entry = pwd.getpwnam("nobody")
    return {"uid": entry.pw_uid, "gid": entry.pw_gid, "user": "nobody"}


@as_root
def test_it_runs_and_writes_as_its_user(open_attempt: Attempt) -> None:
    end = open_attempt.run(script="#!/bin/sh\nid -u; id -g; id -G; cat $0 >copy", **nobody())
    user = nobody()
    assert end["code"] == 0
    gid = str(user["gid"])
    assert open_attempt.text("out").split() == [str(user["uid"]), gid, gid]
    for name in ("out", "err", "copy"):
        assert (open_attempt.cwd / name).stat().st_uid == user["uid"]


@as_root
@pytest.mark.parametrize("name", ["launch.json", "start.json", "claim"])
def test_it_cannot_read_the_records(open_attempt: Attempt, name: str) -> None:
    record = open_attempt.folder / name
    end = open_attempt.run(argv=["sh", "-c", f"cat {record} || touch {record}.mine"], **nobody())
    assert end["code"] == 1, end
    assert open_attempt.text("err").count("Permission denied") == 2


@as_root
@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.touch(mode=0o600)])
def test_it_cannot_log_where_only_root_may(
    open_attempt: Attempt, make: Callable[[Path], None]
) -> None:
    private = open_attempt.cwd.parent / "log"
    make(private)
    end = open_attempt.run(argv=["true"], stdout=str(private), **nobody())
    assert f"cannot write the log {private}: Permission denied" in end["never_started"]
    assert not private.exists() or private.read_bytes() == b""


@as_root
def test_a_folder_that_only_root_may_enter(open_attempt: Attempt) -> None:
    open_attempt.folder.parent.chmod(0o700)
    end = open_attempt.run(script="true", **nobody())
    assert "user nobody may not read the copy of the script" in end["never_started"]
