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
