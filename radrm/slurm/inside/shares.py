"""Which GPUs and CPUs of a job its running steps have, and the numbers of its steps.

Theory of operation. The steps of one job know of each other by one small file in the job's own
folder, which only its user can enter. Who holds the file's lock may read and write it. A step that
asks for GPUs, or for CPUs of its own, gets those that no other such step has; if there are too few
it waits, as in Slurm. A step that asks for nothing has everything, beside the others, and waits for
nobody: so a script never waits for itself.

A row is that of a process (pid and start time), and ends with it: nothing is given back, and a
killed step leaves nothing. A step inside a step asks for part of what the outer one has, so it
waits for nobody. What stands in the file is its user's own; nonsense counts as empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
import time

from radrm.host.processes.identity import Identity, alive, identify, send_signal
from radrm.jobfile.slurm.words import STEPS
from radrm.slurm.inside.request import Job, Request, cannot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_MOST_BYTES = 1 << 20
_FIRST_WAIT_S, _LAST_WAIT_S = 0.05, 1.0
BUSY = "Requested nodes are busy"


class Share:
    """What a step has got: its number, its GPUs, and their numbers on the server."""

    def __init__(self, number: int, gpus: tuple[str, ...], numbers: tuple[str, ...]) -> None:
        self.number, self.gpus, self.numbers = number, gpus, numbers


def take(
    request: Request,
    job: Job,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Share:
    """Return this process's share of the job, once it is free. Raises `Refused` if `immediate`."""
    path = os.path.join(environ.get("RADRM_CHECKPOINT_DIR", ""), STEPS)
    wait_s, told = _FIRST_WAIT_S, False
    while True:
        with _opened(path, environ) as book:
            found = _share(request, job, book, environ.get("SLURM_STEP_ID", ""))
        if found is not None:
            return found
        if request.immediate:
            raise cannot(job, BUSY)
        if not told:
            tell(f"Job {job.id} step creation temporarily disabled, retrying ({BUSY})")
            told = True
        sleep(wait_s)
        wait_s = min(2 * wait_s, _LAST_WAIT_S)


def _share(request: Request, job: Job, book: dict[str, Any], inside: str) -> Share | None:
    """The share that is free for a step, written into the book; None: none is."""
    others = [] if request.overlap or inside in book["steps"] else list(book["steps"].values())
    gpus = _free_gpus(request, job, others)
    cpus = request.tasks * (request.cpus or 1) if request.counted else 0
    if gpus is None or (cpus and job.cpus and cpus + sum(o["cpus"] for o in others) > job.cpus):
        return None
    number = book["next"]
    book["next"] = number + 1
    me = identify(os.getpid())
    assert me is not None
    process = [me.pid, me.start_ticks, me.boot_id]
    held = list(gpus) if request.gpus else []
    book["steps"][str(number)] = {"process": process, "gpus": held, "cpus": cpus}
    of = dict(zip(job.gpus, job.numbers, strict=True))
    return Share(number, gpus, tuple(of[gpu] for gpu in gpus))


def _free_gpus(request: Request, job: Job, others: list[dict[str, Any]]) -> tuple[str, ...] | None:
    if request.gpus is None:
        return job.gpus
    taken = {gpu for other in others for gpu in other["gpus"]}
    free = [gpu for gpu in job.gpus if gpu not in taken]
    return tuple(free[: request.gpus]) if len(free) >= request.gpus else None


@contextlib.contextmanager
def _opened(path: str, environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The book, locked. Without a folder for it the step is the job's only one."""
    attempt = environ.get("RADRM_ATTEMPT", "")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:
        yield _empty(attempt)
        return
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            yield _empty(attempt)
            return
        fcntl.flock(fd, fcntl.LOCK_EX)
        book = _read(os.pread(fd, _MOST_BYTES, 0), attempt)
        yield book
        text = json.dumps(book).encode()
        with contextlib.suppress(OSError):  # a full disk stops no step
            os.ftruncate(fd, 0)
            os.pwrite(fd, text, 0)
    finally:
        os.close(fd)


def _empty(attempt: str) -> dict[str, Any]:
    return {"attempt": attempt, "next": 0, "steps": {}}


def _read(text: bytes, attempt: str) -> dict[str, Any]:
    """The book without the steps that have ended. Each attempt counts from 0."""
    found = _empty(attempt)
    try:
        book = json.loads(text)
        if book["attempt"] != attempt:
            return found
        found["next"] = int(book["next"])
        for number, step in book["steps"].items():
            row = {"process": step["process"], "gpus": list(map(str, step["gpus"]))}
            if alive(Identity(*step["process"])):
                found["steps"][str(number)] = {**row, "cpus": int(step["cpus"])}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _empty(attempt)
    return found


def signal_steps(environ: Mapping[str, str], number: int, only: str | None = None) -> int:
    """Send a signal to the running steps of this job, or to one. Returns how many got it."""
    path, count = os.path.join(environ.get("RADRM_CHECKPOINT_DIR", ""), STEPS), 0
    with _opened(path, environ) as book:
        for step, row in book["steps"].items():
            if only in (None, step):
                count += _signal(Identity(*row["process"]), number)
    return count


def _signal(process: Identity, number: int) -> bool:
    """Signal a step; a KILL goes to its tasks, too, which nobody could pass it on to."""
    tasks: list[str] = []
    if number == signal.SIGKILL:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        with contextlib.suppress(OSError), open(children) as file:
            tasks = file.read(_MOST_BYTES).split()
    sent = send_signal(process.pid, process.start_ticks, number)
    for task in tasks if sent else ():
        with contextlib.suppress(OSError):
            os.kill(int(task), number)
    return sent
