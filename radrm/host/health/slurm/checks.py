"""The checks of `radrm doctor --slurm`, in their order.

The findings of some decide which others follow: without an answer of slurmctld there is nothing to
look at, and only a node has GPUs to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.config import SlurmConfig
from radrm.errors import RadrmError, Refused
from radrm.host.health.daemon import ask as ask_daemon
from radrm.host.health.daemon import ask_daemons, daemon, examined
from radrm.host.health.finding import Check, Finding, fail
from radrm.host.health.slurm import cluster, nodes
from radrm.host.health.slurm.facts import (
    ASK_S,
    Ask,
    Node,
    Partition,
    config_of,
    here,
    nodes_of,
    partition_of,
)
from radrm.host.slurm.programs import SlurmRefused
from radrm.host.storage.paths import Paths

_DAEMON_LIMIT_S = 20.0
_QUESTION_S = ASK_S + 5.0
_TWO_QUESTIONS_S = 2 * ASK_S + 5.0
Places = Callable[[str], Sequence[Paths]]
"""The places of the daemon of a node, by the node's name in Slurm."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is examined, and by whom. `host` is this server's name, `ask` runs Slurm's commands."""

    config: SlurmConfig
    host: str
    ask: Ask
    places: Places


def slurm_checks(asked: Asked) -> Iterator[Check]:
    """The checks, one after another."""
    settings: list[dict[str, str]] = []
    found: list[tuple[Partition, list[Node]]] = []
    own = asked.config.partition

    def look_at_controller() -> Finding:
        try:
            settings.append(config_of(asked.ask))
        except Refused as error:
            return _silent(error)
        return cluster.controller(settings[0])

    def look_at_partition() -> Finding:
        try:
            partition = partition_of(asked.ask, own)
            members = nodes_of(asked.ask, partition.nodes) if partition.nodes else []
        except Refused as error:
            step = f"add the lines of radrm slurm setup, or set slurm.partition (it is {own})"
            return fail("partition", _one_line(error), step)
        found.extend([(partition, members)] if members else [])
        return nodes.partition(partition, members)

    yield Check("slurmctld", look_at_controller, _QUESTION_S)
    if not settings:
        return
    (config,) = settings
    yield Check("partition", look_at_partition, _TWO_QUESTIONS_S)
    for partition, members in found:
        yield from _of_partition(asked, config, partition, members)
    yield Check("JobRequeue", lambda: cluster.requeue(config))
    yield Check("job_submit.lua", lambda: cluster.job_submit(config, own, asked.config.gres))
    yield Check("ProctrackType", lambda: cluster.processes(config))
    yield Check("accounting", lambda: cluster.accounting(config, asked.config.gres))
    for _, members in found:
        yield from _of_this_server(asked, members)


def _of_partition(
    asked: Asked, config: dict[str, str], partition: Partition, members: list[Node]
) -> Iterator[Check]:
    """The checks of the partition and its nodes."""
    gres = asked.config.gres
    yield Check(f"GRES {gres}", lambda: nodes.counted(config, gres, members))
    yield Check("GPUs given twice", lambda: nodes.given_twice(partition.name, members))
    yield Check("OverSubscribe", lambda: cluster.oversubscription(partition))
    yield Check("host memory", lambda: cluster.host_memory(config, partition))


def _of_this_server(asked: Asked, members: list[Node]) -> Iterator[Check]:
    """The checks of the node that this server is, if it is one."""
    own, node = asked.config, here(members, asked.config.node, asked.host)
    yield Check(
        "this server", lambda: nodes.this_node(node, own.enabled, asked.host, own.partition)
    )
    if node is None or not own.enabled:
        return
    known: list[Paths] = []

    def look_for_daemon() -> Finding:
        answers = ask_daemons(asked.places(node.name))
        paths, about = examined(answers)
        known.extend([paths] if about is not None else [])
        return daemon(answers)

    yield Check("daemon", look_for_daemon, _DAEMON_LIMIT_S)
    if known:
        (paths,) = known
        yield Check("GPU memory", lambda: nodes.memory(node, own.gres, _devices(paths)))


def _devices(paths: Paths) -> list[dict[str, Any]]:
    """What the daemon says of its GPUs. Raises `Refused` if it says nothing of them."""
    answer = ask_daemon(paths, "health")
    devices = answer.get("devices") if isinstance(answer, dict) else None
    if not isinstance(devices, list):
        raise Refused("the daemon does not report its GPUs")
    return devices


def _silent(error: Refused) -> Finding:
    """That Slurm cannot be asked."""
    known = isinstance(error, SlurmRefused)
    step = "see whether slurmctld runs: scontrol ping" if known else "it works where sinfo works"
    return fail("slurmctld", _one_line(error), step)


def _one_line(error: RadrmError) -> str:
    """The text of an error; Slurm's may have several lines."""
    return "; ".join(str(error).splitlines())
