"""From a placement to real processes: their environment, their logs, their folder.

What a job is told of its devices stands in docs/job-file.md; the order here is:
what it was submitted with, what radrm knows, what it sets for itself by `--env`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from radrm.core.actions import Launch
from radrm.core.records import Device, Job
from radrm.core.words import Collocation
from radrm.daemon.intake.envelopes import read_envelope, user_name
from radrm.host.attempts.launcher import LaunchPlan
from radrm.host.mps.service import Access, Mps
from radrm.host.storage.store import Submission
from radrm.jobfile.options import Options

# What a submitter's shell says of devices is about the shell, not about the job.
_DEVICE_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_LOG_DIRECTORY",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    }
)
# Frameworks that grab the whole card defeat sharing; a job that says otherwise is left alone.
_SHARING_VARIABLES = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
_LONGEST_ID = 16


@dataclass(frozen=True, slots=True)
class Site:
    """What launching needs to know of this server.

    `extra` goes into every job's environment (where the software GPUs are, say).
    """

    device_ids: str
    checkpoints: str
    extra: Mapping[str, str]
    mps: Mps | None
    drop_privileges: bool
    kill_grace_s: float


def plan_launch(
    action: Launch, job: Job, submission: Submission, devices: Sequence[Device], site: Site
) -> LaunchPlan:
    """All that the runner needs. Raises `RadrmError` where the job file can no longer be used."""
    envelope = submission.envelope
    job_file = read_envelope(envelope)
    options = job_file.options
    cwd = os.path.join(envelope.cwd, options.chdir or "")
    stdout, stderr = log_paths(job, action.attempt, options, cwd)
    says_itself = (job_file.script or "").startswith("#!")
    return LaunchPlan(
        serial=action.serial,
        job_id=job.id,
        attempt=action.attempt,
        uid=submission.uid if site.drop_privileges else None,
        gid=submission.gid if site.drop_privileges else None,
        user=user_name(submission.uid),
        argv=job_file.argv or None,
        script=job_file.script,
        # A script that says itself what runs it is left to say so, also in its errors.
        interpreter=None if says_itself else job_file.interpreter_words() or None,
        cwd=cwd,
        environment=job_environment(action, job, envelope.environment, options, devices, site),
        stdout=stdout,
        stderr=stderr,
        umask=envelope.umask,
        token=secrets.token_hex(16),
        kill_grace_s=site.kill_grace_s,
    )


def job_environment(
    action: Launch,
    job: Job,
    submitted: Mapping[str, str],
    options: Options,
    devices: Sequence[Device],
    site: Site,
) -> dict[str, str]:
    """The environment of one attempt. `devices` are those of its placement, in order."""
    environment = {k: v for k, v in submitted.items() if k not in _DEVICE_VARIABLES}
    if action.shared:
        environment = {**_SHARING_VARIABLES, **environment}
    client = action.placement.collocation is Collocation.MPS and site.mps is not None
    # An MPS control daemon numbers its GPUs anew: its clients are told UUIDs, always.
    by_index = (options.device_ids or site.device_ids) == "index" and not client
    names = [str(d.index) if by_index else d.uuid for d in devices]
    promised = [s.reserved_mib for s in action.placement.shares if s.device is not None]
    environment |= {
        **site.extra,
        "CUDA_VISIBLE_DEVICES": ",".join(names),
        "NVIDIA_VISIBLE_DEVICES": ",".join(names) or "void",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "RADRM_JOB_ID": str(job.id),
        "RADRM_JOB_NAME": job.spec.name,
        "RADRM_ATTEMPT": str(action.attempt),
        "RADRM_ARRAY_TASK_ID": str(job.array.index) if job.array is not None else "",
        "RADRM_GPU_MEMORY_MIB": str(action.cap_mib or min(promised, default=0) or ""),
        "RADRM_CHECKPOINT_DIR": os.path.join(site.checkpoints, str(job.id)),
        "MASTER_PORT": str(free_port()),
    }
    if site.mps is not None and devices:
        uuids = [device.uuid for device in devices]
        if client:
            environment |= client_environment(site.mps.access(uuids), uuids, action.cap_mib)
        elif site.mps.apart is not None:
            environment["CUDA_MPS_PIPE_DIRECTORY"] = site.mps.apart
    return environment | dict(options.env)


def client_environment(access: Access, uuids: Sequence[str], cap_mib: int | None) -> dict[str, str]:
    """What makes a job's processes MPS clients. The cap holds for each process and device."""
    environment = {"CUDA_MPS_PIPE_DIRECTORY": access.pipes}
    if access.logs is not None:
        environment["CUDA_MPS_LOG_DIRECTORY"] = access.logs
    if access.thread_percentage is not None:
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(access.thread_percentage)
    if cap_mib is not None:
        limits = [f"{access.ordinals[uuid]}={cap_mib}M" for uuid in uuids]
        environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return environment


def log_paths(job: Job, attempt: int, options: Options, cwd: str) -> tuple[str, str]:
    """Standard output and error of an attempt. Only `--output` given: both go there.

    From the second attempt on, a pattern without `%t` gets the attempt before its
    suffix, so that no attempt writes over another's log.
    """
    stem = "radrm-%j" if job.array is None else "radrm-%A_%a"
    output = options.output or f"{stem}.out"
    error = options.error or (options.output if options.output else f"{stem}.err")
    return _log_path(output, job, attempt, cwd), _log_path(error, job, attempt, cwd)


def _log_path(pattern: str, job: Job, attempt: int, cwd: str) -> str:
    if attempt > 1 and "%t" not in pattern:
        stem, suffix = os.path.splitext(pattern)
        pattern = f"{stem}.attempt%t{suffix}"
    values = {
        "j": str(job.id),
        "x": job.spec.name,
        "u": job.spec.user,
        "A": str(job.array.array_id if job.array is not None else job.id),
        "a": str(job.array.index if job.array is not None else 0),
        "t": str(attempt),
        "%": "%",
    }
    parts = pattern.split("%")
    text = parts[0]
    rest = iter(parts[1:])
    for part in rest:
        if part == "":  # `%%`
            text += "%" + next(rest, "")
        elif part[0] in values:
            # A name or user must not lead out of the folder that the pattern names.
            text += values[part[0]].replace("/", "_") + part[1:]
        else:
            text += "%" + part
    return os.path.join(cwd, text)


def make_checkpoint_folder(site: Site, job: Job, uid: int, gid: int) -> None:
    """The job's own folder for what it saves, there before its first attempt. Raises `OSError`."""
    name, folder = str(job.id), _checkpoints(site)
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
                return
            # Perhaps from a daemon that was killed before it gave the folder away.
        if site.drop_privileges:
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)


def remove_checkpoint_folder(site: Site, job_id: int, uid: int) -> None:
    """Once a job of `uid` has ended for good: if it saved nothing there, its folder goes."""
    with contextlib.suppress(OSError):  # it holds something, which is the user's to remove
        folder = _checkpoints(site)
        try:
            _remove_empty(folder, str(job_id), uid if site.drop_privileges else os.geteuid())
        finally:
            os.close(folder)


def remove_left_checkpoint_folders(site: Site, ended_owner: Callable[[int], int | None]) -> None:
    """At the start: those of an earlier daemon that was killed between storing the end of a job
    and removing its folder. `ended_owner` tells the user of a job that has ended."""
    with contextlib.suppress(OSError):
        folder = _checkpoints(site)
        try:
            for name in os.listdir(folder):
                if not (name.isascii() and name.isdigit() and len(name) < _LONGEST_ID):
                    continue
                uid = ended_owner(int(name))
                if uid is not None:
                    with contextlib.suppress(OSError):
                        owner = uid if site.drop_privileges else os.geteuid()
                        _remove_empty(folder, name, owner)
        finally:
            os.close(folder)


def _remove_empty(folder: int, name: str, owner: int) -> None:
    """Remove the empty folder `name` of its owner, or of a daemon that was killed before it
    gave the folder away."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if found.st_uid in (owner, os.geteuid()):
        os.rmdir(name, dir_fd=folder)


def _checkpoints(site: Site) -> int:
    """A descriptor of the folder, which may be the daemon's own link to another disk."""
    folder = os.open(site.checkpoints, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.fstat(folder).st_uid != os.geteuid():
        os.close(folder)
        raise PermissionError(errno.EPERM, "it is another user's", site.checkpoints)
    return folder


def free_port() -> int:
    """A TCP port that nobody has at this moment (for `torch.distributed`)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
