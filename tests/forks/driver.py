"""The simulated driver of such a daemon is a fork as well: nothing is imported for it again."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import traceback
from typing import Any, BinaryIO, NoReturn

from radrm.host.simulated import driver, start_driver


class Forking:
    """What `start_driver` uses of `subprocess`."""

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def run(
        command: list[str], *, stdout: BinaryIO, env: dict[str, str], **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        assert command[1:3] == ["-m", driver.__name__]
        pid = os.fork()
        if pid == 0:
            _become(command[3:], stdout, env)
        return subprocess.CompletedProcess(
            command, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        )


def _become(words: list[str], log: BinaryIO, environment: dict[str, str]) -> NoReturn:
    """Run the driver as `subprocess` would have started it."""
    code: object = 1
    try:
        os.setsid()
        faulthandler.disable()
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), log.fileno())):
            os.dup2(file, number)
        os.dup2(1, 2)
        os.closerange(3, 1 << 20)  # among them the lock of the daemon
        os.chdir("/")
        os.environ.clear()
        os.environ.update(environment)
        code = driver.main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 0)


def install() -> None:
    """Have `ensure_driver` of this process fork."""
    start_driver.subprocess = Forking
