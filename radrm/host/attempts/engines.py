"""Container engines: the arguments that a job gives them, and the command to end a container.

Where the runner may signal a container's processes, it can kill them itself. But only the
engine knows that the container must not be started again (`--restart`), and only the engine may
end what belongs to another user (an unprivileged radrm beside a Docker daemon of root). The
engine is asked as the job's user, with the job's environment, so radrm does nothing that the
user could not do. The runner imports this file when its job has begun, and `subprocess` only
when there is a command to start.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time

from radrm.host.attempts import job_process
from radrm.host.processes.procfs import TOKEN_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from radrm.host.attempts.containers import Container
    from radrm.host.attempts.folder import Fields

ENGINES = ("docker", "podman")
"""The commands that radrm calls, and no others."""
ENGINE_VARIABLE = "RADRM_CONTAINER_ENGINE"
"""One of ENGINES, set by the user: it is asked at the end what the job has left running."""
ARGUMENTS_VARIABLE = "RADRM_CONTAINER_ARGS"
PROGRESS_VARIABLE = "RADRM_PROGRESS"
REPORT_VARIABLE = "RADRM_REPORT_PY"
PIPES_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
CLIENT_VARIABLE = "CUDA_MPS_LOG_DIRECTORY"
"""Only clients of MPS have it. Every other job has a pipe directory, too, but that is empty."""
LIMIT_VARIABLES = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
CPUS_VARIABLE = "RADRM_CPU_LIST"
LABEL = "radrm.attempt"
PATIENCE_S = 5.0
"""Real seconds that all that one attempt's engines are asked may take, together."""

_MOST_ANSWERED = 64 * 1024
_PATH = re.compile("/[A-Za-z0-9/._@+-]+")
_FULL_ID = re.compile("[0-9a-f]{64}")


def arguments(token: str, environment: Mapping[str, str], uid: int = 0, gid: int = 0) -> str:
    """What a job of this user puts behind `docker run`: the value of RADRM_CONTAINER_ARGS.

    Made to be split at spaces by a shell (`docker run $RADRM_CONTAINER_ARGS ...`, without
    quotes). The token is named and not written out: a command line is everybody's to read.
    The quotation marks are for Docker, which takes what a comma parts for two options.
    """
    words = [f"--env={TOKEN_VARIABLE}", f"--label={LABEL}={label_of(token)}"]
    # The socket's folder, and not the socket: the next daemon binds another one there.
    words += _mounted(PROGRESS_VARIABLE, environment, os.path.dirname)
    words += _mounted(REPORT_VARIABLE, environment, str)
    words += _client(environment, uid, gid)
    names = [n for n in environment.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if n]
    if any(not re.fullmatch(r"[A-Za-z0-9/-]+", name) for name in names) or names == ["void"]:
        names = []
    # Rootless Podman starts no container with a cpuset that systemd has not delegated. Docker warns
    # and goes on.
    cpus = environment.get(CPUS_VARIABLE, "")
    if environment.get(ENGINE_VARIABLE) != "podman" and re.fullmatch("[0-9,-]+", cpus):
        words.append(f"--cpuset-cpus={cpus}")
    if environment.get(ENGINE_VARIABLE) == "podman":
        words += [f"--device=nvidia.com/gpu={name}" for name in names]
    elif names:
        words.append(f'--gpus="device={",".join(names)}"')
    return " ".join(words)


def _mounted(
    name: str, environment: Mapping[str, str], place: Callable[[str], str]
) -> Sequence[str]:
    """The arguments that pass on a variable and mount the place that it names, to be read.

    None for a path that a shell or an engine would split. The path is not looked at: a job can
    set the variable, and a look at a user's folder may never return.
    """
    path = environment.get(name, "")
    if not _PATH.fullmatch(path):
        return ()
    return (f"--env={name}", f"--volume={place(path)}:{place(path)}:ro")


def _client(environment: Mapping[str, str], uid: int, gid: int) -> Sequence[str]:
    """The arguments that make a container's processes clients of the job's MPS server, with its
    cap; none for a job that is no client.

    Clients and server speak by sockets in the pipe directory and by shared memory. A server serves
    one user at a time: in Docker's containers everybody is root, unless told otherwise, and without
    root (Podman, Docker in the user's own service) root there is the job's user here.
    """
    pipes = environment.get(PIPES_VARIABLE, "")
    if CLIENT_VARIABLE not in environment or not _PATH.fullmatch(pipes):
        return ()
    passed = [name for name in (PIPES_VARIABLE, *LIMIT_VARIABLES) if name in environment]
    words = [*(f"--env={name}" for name in passed), f"--volume={pipes}:{pipes}", "--ipc=host"]
    rootless = environment.get("DOCKER_HOST", "").startswith("unix:///run/user/")
    if uid != 0 and environment.get(ENGINE_VARIABLE) != "podman" and not rootless:
        words.append(f"--user={uid}:{gid}")
    return words


def label_of(token: str) -> str:
    """A name of the attempt for an engine, which does not reveal the token."""
    import hashlib

    return hashlib.sha256(b"radrm container of " + token.encode()).hexdigest()[:32]


def declared(launch: Fields) -> str | None:
    """The engine that the job says it uses."""
    named = launch["environment"].get(ENGINE_VARIABLE)
    return named if named in ENGINES else None


def end(launch: Fields, containers: Iterable[Container]) -> None:
    """Have the engines kill these containers, and all that the declared engine knows to be
    the attempt's by their label. It may fail: then whatever of it we see, the kernel ends.

    The label is no proof, for others can read it. But who puts it on a container of their own
    only has that ended, and by someone who may end it anyhow.
    """
    deadline = time.monotonic() + PATIENCE_S
    wanted: dict[str, set[str]] = {}
    for container in containers:
        if container.engine in ENGINES:
            wanted.setdefault(container.engine, set()).add(container.id)
    for engine, identifiers in wanted.items():
        _ask(launch, [engine, "kill", *sorted(identifiers)], deadline)
    named = declared(launch)
    while named is not None and (labelled := _labelled(launch, named, deadline)):
        _ask(launch, [named, "kill", *labelled], deadline)
        time.sleep(0.05)  # it may list for a moment what is dying


def _labelled(launch: Fields, engine: str, deadline: float) -> list[str]:
    """The ids of the running containers with the attempt's label; none after the deadline."""
    label = f"label={LABEL}={label_of(launch['token'])}"
    listed = _ask(launch, [engine, "ps", "--quiet", "--no-trunc", "--filter", label], deadline)
    return sorted(set(filter(_FULL_ID.fullmatch, listed.split())))


def _ask(launch: Fields, words: Sequence[str], deadline: float) -> str:
    """What the command prints; nothing where it cannot be run or takes too long."""
    if time.monotonic() > deadline:
        return ""
    import subprocess

    def become_the_user() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a runner has all blocked
        job_process.drop_rights(launch)

    try:
        environment = {os.fsencode(k): os.fsencode(v) for k, v in launch["environment"].items()}
        process = subprocess.Popen(
            words,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=become_the_user,  # as safe as a fork: a runner has one thread
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    assert process.stdout is not None
    with process.stdout:
        answer = _read_until(process.stdout.fileno(), deadline)
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return answer.decode("ascii", "replace")


def _read_until(fd: int, deadline: float) -> bytes:
    """What is read before the end of the pipe, the deadline or the bound."""
    answer = b""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and poller.poll(left * 1000):
        chunk = os.read(fd, 65536)
        answer += chunk
        if not chunk or len(answer) > _MOST_ANSWERED:
            break
    return answer[:_MOST_ANSWERED]
