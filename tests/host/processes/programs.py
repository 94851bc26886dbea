"""Small programs for tests of processes, and what became of one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from radrm.host.processes.procfs import read_stat
from tests.waiting import wait_until

TOKEN = f"token-{os.getpid()}"
PYTHON = [sys.executable, "-I", "-S", "-c"]
NO_PID = 2**22 + 1

Run = Callable[..., "subprocess.Popen[bytes]"]

SLEEP = "import time; time.sleep(1000)"

# A trainer that saves on TERM, and two loaders that inherit its handler. What happens is noted in
# one file, in its order. With a file `slow` it saves until there is one `saved`.
TRAINER = """
import os, signal, sys, time
def note(what):
    with open("notes", "a") as file:
        file.write(what + "\\n")
me, loaders = os.getpid(), []
def save(*_):
    if os.getpid() != me:
        note("loader")
        os._exit(3)
    alive = [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
             for pid in loaders]
    note(f"save with {sum(alive)}")
    while os.path.exists("slow") and not os.path.exists("saved"):
        time.sleep(0.01)
    note("saved")
    os._exit(0)
signal.signal(signal.SIGTERM, save)
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        break
    loaders.append(pid)
open(f"ready-{os.getpid()}", "w").close()
while True:
    time.sleep(1000)
"""

# Forks twice, in a session of its own and without an environment; the pid goes to a file.
ESCAPED = """
import os, sys, time
def escape():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = "import os, sys, time; open(sys.argv[1] + '.tmp', 'w').write(str(os.getpid()));"
            code += "os.rename(sys.argv[1] + '.tmp', sys.argv[1]); time.sleep(1000)"
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[1]], {})
        os._exit(0)
    os.wait()
"""


def read_pid(path: Path) -> int:
    wait_until(path.exists)
    return int(path.read_text())


def gone(pid: int) -> bool:
    found = read_stat(pid)
    return found is None or found.dead
