"""The runner as a real process: how a job ends, what it gets, why it never starts."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.attempts.job_process import interpreter_of
from radrm.host.processes.identity import identify
from radrm.host.processes.tree import attempt_processes
from tests.host.attempts.runner.attempt import COMMAND, Attempt
from tests.host.processes.programs import ESCAPED, PYTHON, gone, read_pid
from tests.waiting import wait_until

# ------------------------------------------------------------------ how it ends


@pytest.mark.parametrize("code", [0, 127, 255])
def test_exit_codes_are_exact(attempt: Attempt, code: int) -> None:
    end = attempt.run(argv=["sh", "-c", f"exit {code}"])
    assert end == {"code": code, "signal": None, "never_started": None}


@pytest.mark.parametrize("number", [9, 15])
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


def test_the_job_gets_soft_limits_as_far_as_its_hard_ones_go(attempt: Attempt) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = {"NOFILE": most + 1, "CORE": 0, "FSIZE": 1 << 20, "AS": -1, "STACK": 4096}
    code = "import resource as r; print([r.getrlimit(x)[0] for x in (r.RLIMIT_NOFILE, 4, 1, 3)])"
    attempt.run(argv=[*PYTHON, code], rlimits=limits)
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    assert json.loads(attempt.text("out")) == [most, 0, 1 << 20, stack], "none of a shell is less"


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
    ({"script": "#!/no/such/sh\n"}, "interpreter /no/such/sh named in line 1 does not exist", 127),
    ({"script": "#!/bin/sh\r\n"}, r"interpreter '/bin/sh\r' named in line 1 does not exist", 127),
    ({"script": "#!/etc\n"}, "interpreter /etc named in line 1 cannot run: Permission denied", 126),
    ({"script": "x", "interpreter": ["no-such"]}, "the interpreter no-such does not exist", 127),
    ({"argv": ["no-such-program"]}, "cannot run no-such-program: there is no such program", 127),
    ({"argv": ["/etc/passwd"]}, "cannot run /etc/passwd: Permission denied", 126),
    (
        {"argv": ["./bad"]},
        "cannot run ./bad: the interpreter in its first line does not exist",
        127,
    ),
    ({"cwd": "/no/such"}, "cannot enter the folder /no/such: No such file or directory", 125),
    (
        {"stderr": "/no/such/err"},
        "cannot write the log /no/such/err: the folder /no/such does not",
        125,
    ),
    ({"stdout": "/etc"}, "cannot write the log /etc: Is a directory", 125),
    (
        {"stdout": "link"},
        "link: it is a symbolic link; remove it, or name another with --output",
        125,
    ),
    ({"stdout": "pipe"}, "pipe: no program reads this pipe; start one first", 125),
    (
        {"cwd": "/no/home/work", "environment": {"HOME": "/no/home"}},
        "cannot enter the folder /no/home/work: No such file or directory; see whether its file",
        75,
    ),
    ({"environment": {"A": "\0"}}, "the job cannot start: embedded null byte", 125),
]


@pytest.mark.parametrize(("changes", "message", "code"), NEVER, ids=[str(c) for c, *_ in NEVER])
def test_why_it_never_started(
    attempt: Attempt, changes: dict[str, Any], message: str, code: int
) -> None:
    bad = attempt.cwd / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    (attempt.cwd / "link").symlink_to("/etc/passwd")
    os.mkfifo(attempt.cwd / "pipe")
    what = {} if "script" in changes else {"argv": ["touch", str(attempt.cwd / "ran")]}
    end = attempt.run(**what | changes)
    assert message in end["never_started"] and "\n" not in end["never_started"]
    assert (end["code"], end["signal"]) == (None, None)
    assert attempt.record("exit.json")["shell_code"] == code
    assert not (attempt.cwd / "ran").exists()
    if "stderr" not in changes:
        assert attempt.text("err") == f"radrm: {end['never_started']}\n"


def test_without_a_start_record_it_does_not_begin(attempt: Attempt) -> None:
    (attempt.folder / "start.json" / "in-the-way").mkdir(parents=True)
    end = attempt.run(argv=["touch", "ran"])
    assert "Is a directory" in end["never_started"]
    assert not (attempt.cwd / "ran").exists()


@pytest.mark.parametrize("text", ["{", '{"version": 99}'])
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
