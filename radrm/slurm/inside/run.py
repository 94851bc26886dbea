"""`srun` inside a job: a step in place, with the job's GPUs and CPUs."""

from __future__ import annotations

import contextlib
import os
import sys

from radrm.errors import Refused, plain
from radrm.slurm.inside.request import Job, request
from radrm.slurm.inside.shares import take
from radrm.slurm.inside.step import (
    Files,
    Step,
    become,
    commands,
    is_null,
    passable,
    path_of,
    targets,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from radrm.slurm.inside.request import Request


def tell(text: str) -> None:
    """Print a line as srun does."""
    print(f"srun: {plain(text)}", file=sys.stderr, flush=True)


def srun(words: Sequence[str], job: Job) -> int:
    """Run a step. Returns its exit code, or becomes its only task. Raises `RadrmError`."""
    environ = dict(os.environ)
    step = request(words, job, environ)
    for note in step.notes:
        tell(note)
    share = take(step, job, environ, tell)
    if step.chdir is not None:
        try:
            os.chdir(step.chdir)
        except OSError as error:
            raise Refused(f"--chdir: {step.chdir}: {error.strerror}") from None
        environ["PWD"] = os.getcwd()
    every = commands(step, job, share, environ)
    files = Files(step.appends)

    def named(pattern: str, task: int) -> str:
        return path_of(pattern, task, job, share, environ)

    streams = [
        (
            _input_of(step, task, files, named),
            targets(step.output, task, 1, files, named),
            targets(step.error, task, 2, files, named),
        )
        for task in range(step.tasks)
    ]
    if step.tasks == 1 and not step.label and step.lasts_s is None:
        become(every[0], streams[0])
    return Step(step, job, tell).run(every, streams)


def _input_of(step: Request, task: int, files: Files, named: Callable[[str, int], str]) -> int:
    """Where a task reads: 0 is what `srun` itself reads, and passes on to all."""
    mode = step.input
    if mode == "all" or (mode.isdecimal() and int(mode) == task):
        if is_null(0):
            return files.read(os.devnull)
        if step.tasks == 1 or mode != "all" or passable(0):
            return 0
        own = files.read("/proc/self/fd/0")  # each task reads the whole rest of a file
        with contextlib.suppress(OSError):
            os.lseek(own, os.lseek(0, 0, os.SEEK_CUR), os.SEEK_SET)
        return own
    if mode == "none" or mode.isdecimal():
        return files.read(os.devnull)
    return files.read(named(mode, task))
