"""The process that has imported the daemon, and forks: `python -m tests.forks.template`.

Its standard input is a socket. Each message asks for one process, and the answer is its pid; when
it ends, `[pid, code]` follows. The template ends when the other end is closed.

A fork runs what `python -m radrm.cli.main` runs, or `python -m tests.unfixed`. Only the imports are
made before: they are the same each time, and most of the start.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import nullcontext, suppress

from radrm import wings
from radrm.cli import listing, main
from radrm.cli.commands import daemon as command
from radrm.config import Config
from radrm.daemon import main as daemon
from radrm.host.estimation.asking import Asking
from radrm.wiring import make_rules
from tests.forks import LONGEST, driver
from tests.unfixed import unfixed


def serve(server: socket.socket) -> bool:
    """Return in each fork, with its environment and command line: whether it takes fixed values.
    Exits in the template."""
    waking, woken = socket.socketpair()
    for end in (waking, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they their daemons
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    selector.register(waking, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if waking in ready:
            waking.recv(4096)
            for pid, code in ended():
                server.send(json.dumps([pid, code]).encode())
        if server in ready:
            message = server.recv(LONGEST)
            if not message:
                sys.exit()
            asked = json.loads(message)
            import_command(asked["words"])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for mine in (selector, waking, woken):
                    mine.close()
                server.detach()
                return become(asked)
            server.send(json.dumps(pid).encode())


def import_command(words: list[str]) -> None:
    """The module of a command, once for all forks."""
    name = listing.ALIASES.get(words[0], words[0]) if words else ""
    if name in listing.COMMANDS:
        with suppress(Exception):  # the fork says it
            listing.module_of(name)
        gc.freeze()


def ended() -> list[tuple[int, int]]:
    """The forks that have ended, with their exit codes as `subprocess` has them."""
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def become(asked: dict[str, object]) -> bool:
    """Make this fork what `subprocess.Popen` would have made; whether it takes fixed values."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    files = [nothing, *(os.open(str(asked[name]), flags, 0o666) for name in ("output", "errors"))]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(str(asked["cwd"]))
    environment, words = asked["environment"], asked["words"]
    assert isinstance(environment, dict) and isinstance(words, list)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = [main.__file__, *words]
    return bool(asked["fixed"])


if __name__ == "__main__":
    assert command and daemon  # what a daemon imports later, too, and with it the rules:
    make_rules(Config())
    Asking(Config())
    wings.runner("slurm")
    gc.freeze()  # as the daemon does: what the imports make is never garbage
    driver.install()
    with unfixed() if serve(socket.socket(fileno=0)) else nullcontext():
        main.main()
