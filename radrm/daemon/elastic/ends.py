"""How the tasks of an attempt have ended, from its main process and what its launcher says.

The main process decides: where it ends with 0, all tasks have, because a script can go on after a
program that failed. Where it fails, the launcher's word tells which task did.
"""

from __future__ import annotations

from radrm.core.records import Attempt, Exit, Job
from radrm.core.words import Resizing
from radrm.host.attempts.evidence import Ended


def exits_of(attempt: Attempt, ended: Ended) -> tuple[Exit, ...]:
    """Return one exit for each task of an attempt, in their order; none if it never started, but
    for a program that cannot be run."""
    if ended.never_started is not None and ended.exit.code is None:
        return ()
    told = {(each.role, each.number): each.exit for each in ended.tasks}
    found = tuple(told.get((t.role, t.number), Exit()) for t in attempt.tasks)
    failed = any(each.shell_code for each in found)
    if ended.exit.ok or not failed:
        return (ended.exit,) * len(attempt.tasks)
    return found


def host_oom_of(job: Job, attempt: Attempt, ended: Ended) -> str | None:
    """Return the role of a task that the kernel killed at the job's limit of host memory.

    None: none was. A launcher may have replaced such a task: if the job ended well, all is well.
    """
    if job.spec.resizing is Resizing.LIVE and ended.exit.ok:
        return None
    told = next((each.role for each in ended.tasks if each.host_oom), None)
    if ended.exceeded_mib is None:
        return None
    return told if told in {task.role for task in attempt.tasks} else attempt.tasks[0].role
