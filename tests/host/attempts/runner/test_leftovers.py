"""What is left when the main process has ended: last words are read, work is named and ended."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pwd import getpwnam
from typing import Any

import pytest

from tests.host.attempts.runner.attempt import Attempt
from tests.host.processes.programs import PYTHON
from tests.waiting import wait_until

PROGRAM = os.path.basename(sys.executable)
SLOW = "while read line; do sleep 0.005; echo $line; done"
SAVER = (
    "import signal, sys, time\n"
    "def bye(*_):\n"
    "    print('saved', flush=True)\n"
    "    sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, bye)\n"
    "print('works', flush=True)\n"
    "time.sleep(1000)"
)


def ended(attempt: Attempt, script: str, **changes: Any) -> dict[str, Any]:
    """The exit record of a script."""
    attempt.run(script=f"#!/bin/bash\n{script}", **changes)
    return attempt.record("exit.json")


@pytest.mark.parametrize(
    "script",
    [
        f"exec > >({SLOW} >mine)\nseq 20",
        f"exec > >(cat | {SLOW} | tee mine)\nseq 20",
        f"mkfifo pipe; {SLOW} <pipe >mine & exec >pipe\nseq 20",
        "(seq 20 >mine) &",  # it ends by itself in a moment
    ],
)
def test_what_reads_the_last_words_ends_by_itself(attempt: Attempt, script: str) -> None:
    end = ended(attempt, script)
    assert (end["code"], end["left"]) == (0, None)
    assert attempt.text("mine").split() == [str(n) for n in range(1, 21)]
    assert attempt.text("err") == ""


def test_work_is_named_and_asked_to_end_and_then_its_pipe_is_read(attempt: Attempt) -> None:
    (attempt.cwd / "saver.py").write_text(SAVER)
    work = f"({sys.executable} -I -S saver.py; :) & while [ ! -s mine ]; do sleep 0.02; done"
    end = ended(attempt, f"exec > >({SLOW} >mine)\n{work}")
    assert end["code"] == 0
    name, _, rest = end["left"].partition(" (pid ")
    assert name == f"{PROGRAM} -I -S saver.py" and rest.rstrip(")").isdigit()
    assert attempt.text("mine") == "works\nsaved\n"
    (line,) = attempt.text("err").splitlines()
    assert end["left"] in line and "--background=wait" in line


def test_the_last_line_of_a_failed_job_stays_its_last(attempt: Attempt) -> None:
    end = ended(attempt, "nohup sleep 1000 >/dev/null 2>&1 &\necho broken >&2; sleep 0.01; exit 3")
    assert end["code"] == 3 and end["left"].startswith("sleep 1000 (pid ")
    assert attempt.text("err") == "broken\n"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("sh", "-c", "sleep 100; :", "secret"), "sleep 100"),
        ((*PYTHON, "import time; time.sleep(100)", "secret"), f"{PROGRAM} -I -S"),
        (("tail", "-f", "/dev/null", "--pid=1"), "tail"),  # as `curl -u NAME:SECRET`
        (("tail", "--follow=descriptor", "/dev/null"), "tail"),
    ],
)
def test_a_name_has_no_arguments(attempt: Attempt, command: tuple[str, ...], name: str) -> None:
    program = "sleep" if command[0] == "sh" else os.path.basename(command[0])[:15]
    runs = f"for p in $! $(cat /proc/$!/task/$!/children); do grep -qsx {program} /proc/$p/comm"
    begun = f"until {runs} && break; false; done; do sleep 0.01; done"
    end = ended(attempt, f"{shlex.join(command)} &\n{begun}")
    assert end["left"].rpartition(" (pid ")[0] == name


def test_many_are_counted(attempt: Attempt) -> None:
    end = ended(attempt, "for i in 1 2 3 4 5; do sleep 100$i & done")
    assert end["left"].count("sleep 100") == 3 and end["left"].endswith(" and 2 more")


def test_it_waits_for_all_where_that_is_asked_for(attempt: Attempt) -> None:
    script = "(sleep 0.6; echo done >done) & exit 4"
    end = ended(attempt, script, waits_for_all=True)
    assert (end["code"], end["left"]) == (4, None)
    assert attempt.text("done") == "done\n"


@pytest.mark.parametrize("waits", [False, True])
def test_a_stop_and_a_kill_reach_what_is_left(attempt: Attempt, waits: bool) -> None:
    """A stop ends the drain at once, and the exit code is that of the script."""
    script = "echo $$ >pid; exec 3> >(exec sleep 1000)\nexit 5"
    process = attempt.start(script=f"#!/bin/bash\n{script}", waits_for_all=waits)
    main = int(wait_until(lambda: (attempt.cwd / "pid").exists() and attempt.text("pid")))
    wait_until(lambda: not os.path.exists(f"/proc/{main}"), "its end to be noticed")
    process.send_signal(signal.SIGTERM if waits else signal.SIGUSR2)
    assert process.wait(60) == 0
    end = attempt.record("exit.json")
    assert (end["code"], end["left"]) == (5, None)
    assert ("itself_ago_s" in end) != waits, "its script has ended, and that is its end"


def nobody() -> dict[str, Any]:
    entry = getpwnam("nobody")
    return {"uid": entry.pw_uid, "gid": entry.pw_gid, "user": "nobody"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_work_is_named_in_a_log_of_theirs(open_attempt: Attempt) -> None:
    """Nothing is opened with more rights than theirs: a link in place of the log gets no line."""
    end = ended(open_attempt, "sleep 1000 &", **nobody())
    assert end["left"].startswith("sleep 1000 (pid ") and end["left"] in open_attempt.text("err")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_link_in_place_of_the_log_gets_no_line(open_attempt: Attempt) -> None:
    secret = open_attempt.cwd.parent / "secret"
    secret.touch()
    secret.chmod(0o666)
    end = ended(open_attempt, f"rm err; ln -s {secret} err; sleep 1000 &", **nobody())
    assert end["left"] is not None and secret.read_text() == ""
