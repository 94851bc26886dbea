"""The environment of a worker: torchrun's variables, its peers, and the way to `elastic.py`.

A worker that sees only its own GPUs gets LOCAL_RANK 0 and LOCAL_WORLD_SIZE 1, as if it were the
one worker of a node: LOCAL_RANK is what programs use as the index of their GPU
(`torch.cuda.set_device`). Workers that see the same devices get the numbers that torchrun gives.

In a job with roles, RADRM_PEERS has the address of each task by role, and TF_CONFIG the same as
TensorFlow reads it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from radrm.elastic.radrun.placement import Placement, Task
from radrm.jobfile.inherited import SET_FOR_GENERATION, list_of

_HOST = "127.0.0.1"

_INIT = '''"""`elastic` of radrm; all the rest comes from an installed radrm, if there is one."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
'''


class Ports:
    """Free TCP ports for one generation: the first for rank 0, then one per task of a role.

    Another process may take one before its worker does. Then that worker fails, and the next
    generation gets others.
    """

    def __init__(self, placement: Placement) -> None:
        count = 1 + (len(placement.tasks) if len(placement.roles()) > 1 else 0)
        # All are held at once, so that none is found twice.
        probes = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
        try:
            for probe in probes:
                probe.bind((_HOST, 0))
            ports = [probe.getsockname()[1] for probe in probes]
        finally:
            for probe in probes:
                probe.close()
        self._master = ports[0]
        self._peers: dict[str, list[str]] = {}
        for task, port in zip(placement.tasks, ports[1:], strict=False):
            self._peers.setdefault(task.role, []).append(f"{_HOST}:{port}")

    def variables(self, task: Task, placement: Placement) -> dict[str, str]:
        """Where a worker finds the others: known when its generation begins."""
        found = {"MASTER_ADDR": _HOST, "MASTER_PORT": str(self._master)}
        if self._peers:
            index = [each.key for each in placement.tasks if each.role == task.role].index(task.key)
            cluster = {"cluster": self._peers, "task": {"type": task.role, "index": index}}
            found["RADRM_PEERS"] = json.dumps(self._peers)
            found["TF_CONFIG"] = json.dumps(cluster)
        return {**found, SET_FOR_GENERATION: list_of(found)}


def variables(
    task: Task, placement: Placement, generation: int, restarts: int, max_restarts: int
) -> dict[str, str]:
    """What differs between the workers of a generation, and is known before it begins."""
    keys = [each.key for each in placement.tasks]
    rank, size = keys.index(task.key), len(keys)
    role = [key for key in keys if key[0] == task.role]
    own = bool(task.gpus)
    found = {
        **task.environment,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0" if own else str(rank),
        "LOCAL_WORLD_SIZE": "1" if own else str(size),
        "GROUP_RANK": str(rank) if own else "0",
        "GROUP_WORLD_SIZE": str(size) if own else "1",
        "ROLE_NAME": task.role,
        "ROLE_RANK": str(role.index(task.key)),
        "ROLE_WORLD_SIZE": str(len(role)),
        "TORCHELASTIC_RESTART_COUNT": str(restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(max_restarts),
        "TORCHELASTIC_RUN_ID": os.environ.get("RADRM_JOB_ID", "none"),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "RADRM_ROLE": task.role,
        "RADRM_TASK": str(task.number),
        "RADRM_GENERATION": str(generation),
    }
    if task.cpus is not None:
        found["RADRM_CPUS"] = f"{task.cpus:g}"
    if "OMP_NUM_THREADS" not in os.environ and "OMP_NUM_THREADS" not in task.environment:
        threads = 1 if size > 1 else None  # as torchrun does
        if task.cpus is not None:
            threads = max(1, int(task.cpus))
        if threads is not None:
            found["OMP_NUM_THREADS"] = str(threads)
    return found


def make_package(folder: str, elastic: str) -> str:
    """Make a folder from which `from radrm import elastic` works. Returns its path."""
    place = os.path.join(folder, "python")
    package = os.path.join(place, "radrm")
    os.makedirs(package, mode=0o700, exist_ok=True)
    with open(os.path.join(package, "__init__.py"), "w") as file:
        file.write(_INIT)
    link = os.path.join(package, "elastic.py")
    if not os.path.lexists(link):
        os.symlink(elastic, link)
    return place


def python_path(environment: Mapping[str, str], place: str) -> str:
    """PYTHONPATH with a folder as its last entry."""
    before = environment.get("PYTHONPATH", "")
    return f"{before}{os.pathsep}{place}" if before else place
