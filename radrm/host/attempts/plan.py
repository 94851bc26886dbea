"""What one launch needs, and the launch record that tells the runner."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from radrm.errors import StoreError
from radrm.host.attempts import engines
from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers
from radrm.host.processes.identity import Identity
from radrm.host.processes.limits import Limits, is_of
from radrm.host.processes.procfs import TOKEN_VARIABLE

if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """All that one attempt needs. `script` is its text, and `argv` the script's arguments;
    without a script, `argv` is a bare command.

    `uid` and `gid` None: as the daemon itself. `interpreter` None: as the script's first
    line says. `token` is a secret that marks the attempt's processes. `grace_s` and
    `kill_grace_s`, on the launcher's clock, are the times from TERM to KILL: of a stopped
    attempt, and of processes that outlive the main one. `cpus` and `memory_mib` (of the
    host) None: no limit; `memory_most_mib`: its limit may grow up to this while it runs; None: it
    may not. `cpu_weight` None: 1. `progress_pattern`
    and `progress_file` are the options of that name; `silent_s`, on the launcher's clock, is
    `--silent-limit`. `snapshot`: `cwd` lies in a copy of the code. `cpu_list`: the CPUs on which it
    runs; None: all. `binds_tasks`: its own launcher binds each task to some of them, and the rest
    of it runs on all. `prepare`, where there is one, gets the path of the attempt's control group
    of version 2, before the runner starts. It may raise OSError, and then nothing is launched; no
    process of the job runs outside that group. It may return a *gate*: a pipe from which the runner
    reads a byte before the job begins. `waits_for_all`: it lasts until its last process has ended.
    Strings may hold surrogate escapes, as paths and environments of Unix do.
    """

    serial: int
    job_id: int
    attempt: int
    uid: int | None
    gid: int | None
    user: str
    argv: Sequence[str] | None = None
    script: str | None = None
    interpreter: Sequence[str] | None = None
    cwd: str
    environment: Mapping[str, str]
    stdout: str
    stderr: str
    token: str
    umask: int = 0o022
    rlimits: Mapping[str, int] | None = None
    grace_s: float = 30.0
    kill_grace_s: float = 2.0
    cpus: float | None = None
    memory_mib: int | None = None
    memory_most_mib: int | None = None
    cpu_weight: float | None = None
    progress_pattern: str | None = None
    progress_file: str | None = None
    silent_s: float | None = None
    snapshot: bool = False
    cpu_list: Sequence[int] | None = None
    binds_tasks: bool = False
    waits_for_all: bool = False
    prepare: Callable[[str], int | None] | None = None
    ends_clients: Sequence[str] | None = None
    """The start of a command that removes the work of MPS clients (`client_work`); None: the job is
    no client."""
    step: Identity | None = None
    """The process that waits to run the attempt; None: the launcher starts its runner."""


def launch_record(
    plan: LaunchPlan,
    real_s: Callable[[float], float],
    controllers: Controllers,
    account: bool = False,
) -> Fields:
    """The launch record of a plan, with the control groups that its runner is to make.

    `real_s` converts seconds of the launcher's clock to real ones. `account`: the job gets groups
    that count what it uses, whatever its limits.
    """
    group = f"radrm-{plan.serial}-{os.urandom(4).hex()}"
    places = controllers.groups(group)
    limits = Limits(
        places["cpu"],
        places["memory"],
        plan.cpus,
        plan.memory_mib,
        plan.cpu_weight,
        places["account"] if account else None,
        plan.memory_most_mib,
    )
    environment = dict(plan.environment)
    environment.pop(TOKEN_VARIABLE, None)  # a job that submits a job has one
    uid = os.geteuid() if plan.uid is None else plan.uid
    gid = os.getegid() if plan.gid is None else plan.gid
    environment[engines.ARGUMENTS_VARIABLE] = engines.arguments(plan.token, environment, uid, gid)
    return {
        "job_id": plan.job_id,
        "attempt": plan.attempt,
        "token": plan.token,
        "argv": None if plan.argv is None else list(plan.argv),
        "step": None if plan.step is None else step_fields(plan.step),
        "script": plan.script,
        "interpreter": None if plan.interpreter is None else list(plan.interpreter),
        "cwd": plan.cwd,
        "snapshot": plan.snapshot,
        "environment": {TOKEN_VARIABLE: plan.token, **environment},
        "stdout": plan.stdout,
        "stderr": plan.stderr,
        "umask": plan.umask,
        "rlimits": None if plan.rlimits is None else dict(plan.rlimits),
        "uid": plan.uid,
        "gid": plan.gid,
        "user": plan.user,
        "grace_s": real_s(plan.grace_s),
        "kill_grace_s": real_s(plan.kill_grace_s),
        "cgroup": cgroups.place(group),
        "grouped": plan.prepare is not None,
        "limits": limits.as_fields(),
        "progress": _progress(plan),
        "silent_s": None if plan.silent_s is None else real_s(plan.silent_s),
        "cpu_list": None if plan.cpu_list is None else list(plan.cpu_list),
        "binds_tasks": plan.binds_tasks,
        "waits_for_all": plan.waits_for_all,
        "ends_clients": None if plan.ends_clients is None else list(plan.ends_clients),
    }


def step_fields(step: Identity) -> Fields:
    """The process that runs an attempt, for its launch record."""
    return {"pid": step.pid, "start_ticks": step.start_ticks, "boot_id": step.boot_id}


def step_of(launch: Fields) -> Identity | None:
    """The process that runs an attempt, from its launch record; None: the launcher started it."""
    fields = launch.get("step")
    return None if fields is None else Identity(**fields)


def remove_groups(group: str | None, limits: Limits, serial: int) -> None:
    """Remove the control groups of an ended attempt."""
    if group is not None and is_of(group, serial):
        cgroups.remove(group)
    for group in limits.groups:
        cgroups.remove(group)


def cannot_launch(serial: int, error: OSError) -> StoreError:
    """Return the error of a launch that the system refused."""
    where = f" {error.filename}" if error.filename else ""
    return StoreError(
        f"attempt {serial} cannot be launched: {error.strerror}{where}; "
        "look after the daemon's state folder and its limits"
    )


def _progress(plan: LaunchPlan) -> Fields | None:
    """What the runner's watcher is to read; None: nothing."""
    if plan.progress_pattern is None and plan.progress_file is None:
        return None
    return {"pattern": plan.progress_pattern, "file": plan.progress_file}
