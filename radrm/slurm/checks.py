"""What `radrm doctor --slurm` checks: settings of the cluster, nodes of the partition, this node.

The fields are those of `scontrol show config` and `scontrol show partition`. The findings of some
checks decide which others follow: without an answer of slurmctld there is nothing to look at, and
only a node has GPUs to compare.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from radrm.config import SlurmConfig
from radrm.core.units import show_mib, show_seconds
from radrm.errors import RadrmError, Refused
from radrm.host.health.checks import ask as ask_daemon
from radrm.host.health.checks import ask_daemons, daemon, examined
from radrm.host.health.finding import Check, Finding, fail, ok, warn
from radrm.host.storage.paths import Paths
from radrm.slurm.asking import (
    FORMAT,
    NAME,
    SlurmRefused,
    format_of,
    knows_nodes,
    names_of,
    one_line,
    run,
)
from radrm.slurm.conf import USUAL, Merged, merged, place_of
from radrm.slurm.facts import (
    ASK_S,
    Ask,
    Node,
    Partition,
    config_of,
    here,
    nodes_of,
    partition_of,
    value,
)
from radrm.slurm.hostlists import compressed
from radrm.slurm.outer import cluster_config, daemon_paths
from radrm.slurm.setup import HEALTH

OLDEST = "22.05"
"""The oldest Slurm that radrm supports."""
_SET = "in slurm.conf set"
_THEN = "then: scontrol reconfigure"
_PRINT = f"print it: radrm slurm setup --only {NAME}"

Fields = Mapping[str, str]


def checks_here() -> Iterator[Check]:
    """Yield the checks of the cluster that is configured on this machine. Raises `BadConfig`."""
    config = cluster_config(os.environ).slurm

    def places(node: str) -> tuple[Paths, ...]:
        return daemon_paths(config.home, {**os.environ, "SLURMD_NODENAME": node}, os.getuid())

    return slurm_checks(Asked(config, socket.gethostname(), run, places, place_of(os.environ)))


def controller(config: Fields) -> Finding:
    """That slurmctld answers, and that its version is supported."""
    version, name = config["SLURM_VERSION"], value(config, "ClusterName") or "without a name"
    if release(version) < release(OLDEST):
        old = f"slurmctld is {version}, and the oldest supported is {OLDEST}"
        return warn("slurmctld", old, f"install Slurm {OLDEST} or newer")
    return ok("slurmctld", f"it answers: cluster {name}, Slurm {version}")


def of_file(file: Merged, partition: str, gres: str, live: Fields | None) -> Finding:
    """Whether Slurm can start with a slurm.conf, and whether what it says is live. `live`: what
    slurmctld says, None while it is away."""
    name = "slurm.conf"
    if file.twice:
        many = f"{file.path} names {listed(file.twice)} in two NodeName= lines, which is fatal"
        return fail(name, many, "append Gres= to the line that was there, and remove the other")
    if live is None:
        return ok(name, f"{file.path} is read, since slurmctld says nothing")
    if os.path.realpath(file.path) != os.path.realpath(value(live, "SLURM_CONF") or file.path):
        return ok(name, f"{file.path} is read, which is not the file of slurmctld")
    if gres in value(file.settings, "GresTypes").split(",") and gres not in _listed(
        live, "GresTypes"
    ):
        return warn(name, f"its {gres} is not live", "restart slurmctld and all slurmd")
    for key in "JobSubmitPlugins", "HealthCheckProgram":
        if value(file.settings, key) != value(live, key):
            return warn(name, f"its {key} is not live", _THEN)
    return ok(name, f"{file.path} is live")


def release(version: str) -> tuple[int, ...]:
    """Return the release of a version: 22.05.8 and 22.05.2 are of one."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:2])


def oversubscription(partition: Partition) -> Finding:
    """Whether jobs of the partition share its nodes, but not its cores."""
    name, found = "OverSubscribe", value(partition.fields, "OverSubscribe") or "NO"
    said = f"it is {found} in partition {partition.name}"
    if found == "FORCE:1":
        return ok(name, said)
    effect = "a job with --exclusive keeps all others off the node's GPUs"
    if found.startswith("FORCE"):
        effect = "Slurm gives each core to several jobs, so they have fewer than they ask for"
    step = f"{_SET} OverSubscribe=FORCE:1 for PartitionName={partition.name}, {_THEN}"
    return warn(name, f"{said}: {effect}", step)


def host_memory(config: Fields, partition: Partition) -> Finding:
    """How much host memory a job gets that asks for none."""
    name = "host memory"
    if "MEMORY" not in value(config, "SelectTypeParameters").upper():
        found = value(config, "SelectTypeParameters") or "not set"
        uncounted = f"Slurm does not count it: SelectTypeParameters is {found}"
        step = f"{_SET} SelectTypeParameters=CR_Core_Memory and DefMemPerCPU, restart slurmctld"
        return warn(name, uncounted, step)
    for fields in (partition.fields, config):
        for key in ("DefMemPerCPU", "DefMemPerNode"):
            found = value(fields, key)
            if found and found not in ("UNLIMITED", "0"):
                return ok(name, f"a job that asks for none gets {key}={found} MiB")
    whole = "a job that does not ask for some gets all of a node, so one job runs on each node"
    return warn(name, whole, f"{_SET} DefMemPerCPU for PartitionName={partition.name}, {_THEN}")


def accounting(config: Fields, gres: str) -> Finding:
    """Whether sacct has what a job asked for, and the figures that it leaves in its comment."""
    name = "accounting"
    if not value(config, "AccountingStorageType").endswith("/slurmdbd"):
        kept = re.match(r"\d{1,9}", value(config, "MinJobAge"))
        after = f"{show_seconds(float(kept[0]))} after its end" if kept else "soon after its end"
        forgotten = (
            f"there is no slurmdbd, so Slurm forgets a job's comment with its GPU figures {after}"
        )
        step = "to keep them set up slurmdbd"
        return warn(name, forgotten, step)
    if f"gres/{gres}" not in _listed(config, "AccountingStorageTRES"):
        lost = f"AccountingStorageTRES has no gres/{gres}: sacct does not know what jobs asked for"
        step = f"{_SET} AccountingStorageTRES=gres/{gres}, restart slurmctld"
        return warn(name, lost, step)
    return ok(name, "sacct has the GPU memory of jobs, and the GPU figures in their comments")


def _listed(config: Fields, key: str) -> list[str]:
    return [word.strip() for word in value(config, key).lower().split(",")]


def health(config: Fields) -> Finding:
    """Whether a node whose radrm takes no jobs is drained, also while its daemon is dead."""
    name, own = "HealthCheckProgram", value(config, "HealthCheckProgram")
    if not own:
        stays = "none: a node whose radrm is down gets jobs, and gives each of them back"
        return warn(name, stays, f"print one: radrm slurm setup --only {HEALTH}")
    if os.path.basename(own) != HEALTH:
        return ok(name, f"it is {own}; it should call radrm's (radrm slurm setup --only {HEALTH})")
    return ok(name, "a node whose radrm takes no jobs is drained")


def processes(config: Fields) -> Finding:
    """Whether Slurm finds all processes of a job."""
    name, kind = "ProctrackType", value(config, "ProctrackType")
    if kind != "proctrack/cgroup":
        survive = f"{kind or 'nothing'} loses processes whose parent has ended: they run on"
        return warn(name, survive, f"{_SET} ProctrackType=proctrack/cgroup, restart all slurmd")
    return ok(name, "a job's processes are in a control group, so none runs on after its end")


def job_submit(config: Fields, partition: str, gres: str, differ: bool = False) -> Finding:
    """Whether slurmctld runs this radrm's rules for the partition. `differ`: its nodes do, so the
    rules have to know their GPUs.

    The file is on the controller. Where it cannot be read here, only the plugin is known.
    """
    plugins = [word.strip() for word in value(config, "JobSubmitPlugins").split(",")]
    if "lua" not in plugins:
        plain = (
            f"JobSubmitPlugins has no lua: a script that plain sbatch -p {partition} submits runs"
            " without radrm, on GPUs that it was not given"
        )
        return warn(NAME, plain, f"{_PRINT}; set JobSubmitPlugins=lua, {_THEN}")
    place = os.path.join(os.path.dirname(value(config, "SLURM_CONF")), NAME)
    try:
        text = Path(place).read_text("utf-8", "replace")
    except OSError as error:
        why = f"{place}: {error.strerror}"
        return ok(NAME, f"JobSubmitPlugins has lua; its file cannot be read here ({why})")
    found, names = format_of(text), names_of(text)
    if found is None:
        other = f"{place} has no rules of radrm, so plain scripts run without radrm"
        return warn(NAME, other, _PRINT)
    if found != FORMAT:
        aged = f"{place} has rules of format {found}, and this radrm has format {FORMAT}"
        return warn(NAME, aged, "install the newer radrm here" if found > FORMAT else _PRINT)
    if names is not None and names != (partition, gres):
        others = f"its rules are for partition {names[0]} and {names[1]}"
        own = f"the configuration says {partition} and {gres}"
        return warn(NAME, f"{others}; {own}", f"correct [slurm] in the configuration, or {_PRINT}")
    if differ and not knows_nodes(text):
        blind = "its rules do not know the nodes, which differ: jobs go to nodes that are too small"
        kinds = f"name each kind: radrm slurm setup --only {NAME} --node 'g[1-8]:8x80G' --node ..."
        return warn(NAME, blind, kinds)
    return ok(NAME, f"{place} has the rules of this radrm")


_MOST = 4
"""The most nodes that one line names; it counts the others."""
_OF_GPUS = ("gpu", "shard", "mps")
"""Resources by which Slurm itself gives a job a GPU."""
_ROUNDED = 0.01
"""The part of its GPUs' memory that a node may leave out."""


def usable(found: Partition, nodes: Sequence[Node]) -> Finding:
    """Whether the partition has nodes and takes jobs."""
    name, state = "partition", value(found.fields, "State")
    if not nodes:
        return fail(name, f"{found.name} has no node", "name its Nodes= in slurm.conf")
    many = f"{found.name} has {len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    if state != "UP":
        back = f"to use it again: scontrol update PartitionName={found.name} State=UP"
        return warn(name, f"{many}, and is {state or 'in no known state'}", back)
    return ok(name, many)


def counted(config: Mapping[str, str], gres: str, nodes: Sequence[Node]) -> Finding:
    """Whether slurmctld knows the counted resource, and each node has some of it."""
    name = f"GRES {gres}"
    types = [word.strip() for word in value(config, "GresTypes").split(",")]
    if gres not in types:
        unknown = f"GresTypes has no {gres}, so no job can ask for GPU memory"
        step = f"in slurm.conf add {gres} to GresTypes, restart slurmctld and all slurmd"
        return fail(name, unknown, step)
    without = [node.name for node in nodes if not node.gres.get(gres)]
    if without:
        have = "has" if len(without) == 1 else "have"
        none = f"{listed(without)} {have} none, so no job runs there"
        return fail(name, none, "on that node print its lines: radrm slurm setup")
    kinds: dict[int, list[str]] = {}
    for node in nodes:
        kinds.setdefault(node.gres[gres], []).append(node.name)
    if len(kinds) == 1:
        return ok(name, f"each node has {show_mib(next(iter(kinds)))} of GPU memory")
    groups = (f"{compressed(names)} {show_mib(mib)}" for mib, names in sorted(kinds.items()))
    return ok(name, f"the nodes differ in GPU memory: {', '.join(groups)}")


def given_twice(own: str, nodes: Iterable[Node]) -> Finding:
    """Whether Slurm itself gives away GPUs of these nodes, beside the radrm daemon there."""
    name = "GPUs given twice"
    found = [
        (node, words)
        for node in nodes
        if (words := [f"{n}:{c}" for n, c in node.gres.items() if n in _OF_GPUS and c])
    ]
    if not found:
        return ok(name, "no node has its GPUs as GRES gpu, too")
    who = listed([f"{node.name} ({','.join(words)})" for node, words in found])
    others = sorted({other for node, _ in found for other in node.partitions if other != own})
    if others:
        where = f"partition{'s' if len(others) > 1 else ''} {listed(others)}"
        effect = f"jobs of {where} get GPUs on which radrm runs jobs"
        step = f"remove gpu from Gres= of these nodes, or these nodes from {where}"
    else:
        effect = f"a job of partition {own} can ask Slurm for a GPU on which radrm runs jobs"
        step = "remove gpu from Gres= of these nodes"
    return warn(name, f"Slurm gives away GPUs of {who}, too: {effect}", step)


def this_node(
    node: Node | None, enabled: bool, host: str, partition: str, wanted: str = ""
) -> Finding:
    """Whether this server is a node of the partition, and its daemon takes the jobs. `wanted`: its
    name in the configuration."""
    name = "this server"
    if node is None and wanted:
        other = f"slurm.node is {wanted}, which is no node of partition {partition}"
        return fail(name, other, "correct slurm.node in radrm.toml; empty, the host's name counts")
    if node is None:
        return ok(name, f"{host} is no node of partition {partition} (or set slurm.node)")
    if not enabled:
        off = f"it is node {node.name}, and its daemon takes no jobs of Slurm"
        step = "set enabled = true in [slurm] and restart the daemon; running jobs continue"
        return fail(name, off, step)
    return ok(name, f"it is node {node.name} of partition {partition}")


def memory(node: Node, gres: str, devices: Sequence[Mapping[str, Any]]) -> Finding:
    """Whether Slurm has the GPU memory of this node right.

    `devices`: what the daemon of this node says of its GPUs.
    """
    name, has_mib = "GPU memory", node.gres.get(gres, 0)
    gpus_mib = sum(d["total_mib"] or 0 for d in devices if d["state"] != "vanished")
    if gpus_mib * (1 - _ROUNDED) <= has_mib <= gpus_mib:
        return ok(name, f"{node.name} has {gres}:{has_mib}, and its GPUs have {gpus_mib} MiB")
    more = has_mib > gpus_mib
    effect = "jobs wait there for memory that is not there" if more else "the rest stays unused"
    apart = f"{node.name} has {gres}:{has_mib} in Slurm, its GPUs have {gpus_mib} MiB: {effect}"
    return warn(name, apart, f"set {gres}:{gpus_mib} in Gres= of slurm.conf and in gres.conf")


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


_DAEMON_LIMIT_S = 20.0
_QUESTION_S = ASK_S + 5.0
_TWO_QUESTIONS_S = 2 * ASK_S + 5.0
Places = Callable[[str], Sequence[Paths]]
"""The places of the daemon of a node, by the node's name in Slurm."""


class Asked(Struct, frozen=True):
    """What is examined, and by whom. `host` is this server's name, `ask` runs Slurm's commands."""

    config: SlurmConfig
    host: str
    ask: Ask
    places: Places
    conf: str = ""
    """The slurm.conf of this machine."""


def slurm_checks(asked: Asked) -> Iterator[Check]:
    """The checks, one after another."""
    settings: list[dict[str, str]] = []
    files: list[Merged] = []
    found: list[tuple[Partition, list[Node]]] = []
    own = asked.config.partition

    def look_at_controller() -> Finding:
        try:
            settings.append(config_of(asked.ask))
        except Refused as error:
            known = isinstance(error, SlurmRefused)
            step = "see whether slurmctld runs: scontrol ping"
            return fail(
                "slurmctld", one_line(error), step if known else "it works where sinfo works"
            )
        return controller(settings[0])

    def look_at_file() -> Finding:
        try:
            file = merged(asked.conf)
        except Refused as error:
            return warn("slurm.conf", one_line(error), "correct it; Slurm itself is asked")
        files.append(file)
        return of_file(file, own, asked.config.gres, settings[0] if settings else None)

    def look_at_partition() -> Finding:
        try:
            if files:
                partition = files[0].partition(own)
                members = files[0].members(partition)
            else:
                partition = partition_of(asked.ask, own)
                members = nodes_of(asked.ask, partition.nodes) if partition.nodes else []
        except RadrmError as error:
            step = f"add the lines of radrm slurm setup, or set slurm.partition (it is {own})"
            return fail("partition", one_line(error), step)
        found.extend([(partition, members)] if members else [])
        return usable(partition, members)

    yield Check("slurmctld", look_at_controller, _QUESTION_S)
    if os.access(asked.conf, os.R_OK) or asked.conf not in ("", USUAL):
        yield Check("slurm.conf", look_at_file)
    if not settings and not files:
        return
    config = {**(settings[0] if settings else {}), **(files[0].settings if files else {})}
    yield Check("partition", look_at_partition, _TWO_QUESTIONS_S)
    for partition, members in found:
        yield from _of_partition(asked, config, partition, members)
    differ = any(len({m.gres.get(asked.config.gres) for m in nodes}) > 1 for _, nodes in found)
    yield Check("HealthCheckProgram", lambda: health(config))
    yield Check("job_submit.lua", lambda: job_submit(config, own, asked.config.gres, differ))
    yield Check("ProctrackType", lambda: processes(config))
    yield Check("accounting", lambda: accounting(config, asked.config.gres))
    for _, members in found:
        yield from _of_this_server(asked, members)


def _of_partition(
    asked: Asked, config: dict[str, str], partition: Partition, members: list[Node]
) -> Iterator[Check]:
    """The checks of the partition and its nodes."""
    gres = asked.config.gres
    yield Check(f"GRES {gres}", lambda: counted(config, gres, members))
    yield Check("GPUs given twice", lambda: given_twice(partition.name, members))
    yield Check("OverSubscribe", lambda: oversubscription(partition))
    yield Check("host memory", lambda: host_memory(config, partition))


def _of_this_server(asked: Asked, members: list[Node]) -> Iterator[Check]:
    """The checks of the node that this server is, if it is one."""
    own, node = asked.config, here(members, asked.config.node, asked.host)
    yield Check(
        "this server", lambda: this_node(node, own.enabled, asked.host, own.partition, own.node)
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
        yield Check("GPU memory", lambda: memory(node, own.gres, _devices(paths)))


def _devices(paths: Paths) -> list[dict[str, Any]]:
    """What the daemon says of its GPUs. Raises `Refused` if it says nothing of them."""
    answer = ask_daemon(paths, "health")
    devices = answer.get("devices") if isinstance(answer, dict) else None
    if not isinstance(devices, list):
        raise Refused("the daemon does not report its GPUs")
    return devices
