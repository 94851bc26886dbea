"""Whether the settings of the cluster fit jobs that share GPUs.

The fields are those of `scontrol show config` and `scontrol show partition`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from radrm.host.health.finding import Finding, ok, warn
from radrm.host.health.slurm.facts import Partition, value
from radrm.host.slurm.job_submit import FORMAT, NAME, format_of, names_of

OLDEST = "22.05"
"""The oldest Slurm that radrm supports."""
_SET = "in slurm.conf set"
_THEN = "then: scontrol reconfigure"
_PRINT = f"print it: radrm slurm setup --only {NAME}"

Fields = Mapping[str, str]


def controller(config: Fields) -> Finding:
    """That slurmctld answers, and that its version is supported."""
    version, name = config["SLURM_VERSION"], value(config, "ClusterName") or "without a name"
    if release(version) < release(OLDEST):
        old = f"slurmctld is {version}, and the oldest supported is {OLDEST}"
        return warn("slurmctld", old, f"install Slurm {OLDEST} or newer")
    return ok("slurmctld", f"it answers: cluster {name}, Slurm {version}")


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
        forgotten = (
            f"there is no slurmdbd, so Slurm forgets a job's comment with its GPU figures"
            f" {value(config, 'MinJobAge') or 'soon'} after its end"
        )
        step = "to keep them set up slurmdbd with AccountingStoreFlags=job_comment"
        return warn(name, forgotten, step)
    if "job_comment" not in _listed(config, "AccountingStoreFlags"):
        lost = "comments are not stored, so sacct has no GPU figures"
        return warn(name, lost, f"{_SET} AccountingStoreFlags=job_comment, {_THEN}")
    if f"gres/{gres}" not in _listed(config, "AccountingStorageTRES"):
        lost = f"AccountingStorageTRES has no gres/{gres}: sacct does not know what jobs asked for"
        step = f"{_SET} AccountingStorageTRES=gres/{gres}, restart slurmctld"
        return warn(name, lost, step)
    return ok(name, "sacct has the GPU memory of jobs, and the GPU figures in their comments")


def _listed(config: Fields, key: str) -> list[str]:
    return [word.strip() for word in value(config, key).lower().split(",")]


def requeue(config: Fields) -> Finding:
    """Whether a job may go back to Slurm when it has waited too long on a node."""
    if value(config, "JobRequeue") == "0":
        stays = "it is 0: a job without --requeue fails where it should go to another node"
        return warn("JobRequeue", stays, f"{_SET} JobRequeue=1, {_THEN}")
    return ok("JobRequeue", "jobs may go back to Slurm, for another node")


def processes(config: Fields) -> Finding:
    """Whether Slurm finds all processes of a job."""
    name, kind = "ProctrackType", value(config, "ProctrackType")
    if kind != "proctrack/cgroup":
        survive = f"{kind or 'nothing'} loses processes whose parent has ended: they run on"
        return warn(name, survive, f"{_SET} ProctrackType=proctrack/cgroup, restart all slurmd")
    return ok(name, "a job's processes are in a control group, so none runs on after its end")


def job_submit(config: Fields, partition: str, gres: str) -> Finding:
    """Whether slurmctld runs this radrm's rules for the partition.

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
    return ok(NAME, f"{place} has the rules of this radrm")
