"""Each fault of a cluster has its finding, and a sound one has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.config import SlurmConfig
from radrm.slurm import checks
from radrm.slurm.asking import FORMAT
from radrm.slurm.setup import ClusterNode, job_submit_lua
from radrm.structs import replace
from tests.host.health.judging import gpu, judged
from tests.host.health.slurm.said import facts

KEPT = (
    "AccountingStorageType   = accounting_storage/none",
    "AccountingStorageType   = accounting_storage/slurmdbd",
)


@pytest.mark.parametrize(
    ("check", "changed", "level", "words"),
    [
        ("controller", (), "ok", ["radrm-test", "22.05.8"]),
        ("controller", (("= 22.05.8", "= 21.08.8-2"),), "warn", ["21.08.8", "22.05"]),
        ("processes", (), "warn", ["proctrack/linuxproc", "proctrack/cgroup"]),
        ("processes", (("proctrack/linuxproc", "proctrack/cgroup"),), "ok", []),
    ],
)
def test_settings(
    check: str, changed: tuple[tuple[str, str], ...], level: str, words: list[str]
) -> None:
    config, _, _ = facts(*changed)
    judged(getattr(checks, check)(config), level, *words)


@pytest.mark.parametrize(
    ("program", "level", "word"),
    [
        ("(null)", "warn", "radrm slurm setup --only radrm-health.sh"),
        ("/etc/slurm/radrm-health.sh", "ok", "is drained"),
        ("/usr/sbin/nhc", "ok", "should call radrm's"),
    ],
)
def test_the_check_of_the_nodes(program: str, level: str, word: str) -> None:
    judged(checks.health({"HealthCheckProgram": program}), level, word)


LUA = job_submit_lua(SlurmConfig())

DEFAULT = "DefMemPerCPU            = 100"
UNSET = "DefMemPerNode           = UNLIMITED"
OF_PARTITION = "DefMemPerNode=UNLIMITED"


@pytest.mark.parametrize(
    ("changed", "counted", "level", "words"),
    [
        ((), "", "warn", ["slurmdbd", "5m00s"]),
        ((KEPT,), "cpu,mem", "warn", ["has no gres/gpumem", "restart"]),
        ((KEPT,), "cpu,gres/gpumem", "ok", []),
    ],
)
def test_accounting(
    changed: tuple[tuple[str, str], ...], counted: str, level: str, words: list[str]
) -> None:
    config, _, _ = facts(*changed)
    judged(checks.accounting({**config, "AccountingStorageTRES": counted}, "gpumem"), level, *words)


@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        ((), "ok", ["DefMemPerCPU=100"]),
        (((DEFAULT, UNSET),), "warn", ["all of a node", "DefMemPerCPU", "shared"]),
        (((DEFAULT, "DefMemPerCPU = 0"),), "warn", ["all of a node"]),
        (((DEFAULT, UNSET), (OF_PARTITION, "DefMemPerCPU=7")), "ok", ["DefMemPerCPU=7"]),
        (((OF_PARTITION, "DefMemPerNode=8"),), "ok", ["DefMemPerNode=8"]),
        ((("CR_CORE_MEMORY", "CR_CORE"),), "warn", ["CR_CORE", "CR_Core_Memory"]),
    ],
)
def test_host_memory(changed: tuple[tuple[str, str], ...], level: str, words: list[str]) -> None:
    config, partition, _ = facts(*changed)
    judged(checks.host_memory(config, partition), level, *words)


@pytest.mark.parametrize(
    ("found", "level", "effect"),
    [
        ("FORCE:1", "ok", ""),
        ("FORCE:64", "warn", "each core to several jobs"),
        ("YES:4", "warn", "--exclusive"),
        ("NO", "warn", "--exclusive"),
    ],
)
def test_oversubscription(found: str, level: str, effect: str) -> None:
    _, partition, _ = facts(("OverSubscribe=FORCE:1", f"OverSubscribe={found}"))
    judged(checks.oversubscription(partition), level, found, "shared", effect)


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        (LUA, "ok", ["rules of this radrm"]),
        (LUA.replace(f"format {FORMAT}", "format 999"), "warn", ["format 999", "newer radrm"]),
        (LUA.replace(f"format {FORMAT}", "format 0"), "warn", ["format 0", "radrm slurm setup"]),
        (LUA.replace('= "shared"', '= "other"'), "warn", ["partition other", "says shared"]),
        (LUA.replace('= "gpumem"', '= "vram"'), "warn", ["vram", "says shared and gpumem"]),
        ("return slurm.SUCCESS", "warn", ["no rules of radrm", "radrm slurm setup"]),
        (None, "ok", ["cannot be read here", "No such file"]),
    ],
)
def test_the_script(text: str | None, level: str, words: list[str], tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "job_submit.lua").write_text(text)
    config, _, _ = facts(("/etc/slurm/slurm.conf", f"{tmp_path}/slurm.conf"))
    judged(checks.job_submit(config, "shared", "gpumem"), level, *words)


@pytest.mark.parametrize(("gpus", "level"), [(0, "warn"), (2, "ok")])
def test_rules_know_nodes_that_differ(gpus: int, level: str, tmp_path: Path) -> None:
    text = job_submit_lua(SlurmConfig(), [ClusterNode("g1", 81920, gpus)])
    (tmp_path / "job_submit.lua").write_text(text)
    config, _, _ = facts(("/etc/slurm/slurm.conf", f"{tmp_path}/slurm.conf"))
    judged(checks.job_submit(config, "shared", "gpumem", differ=True), level)


def test_no_plugin_for_the_script() -> None:
    config, _, _ = facts(("JobSubmitPlugins        = lua", "JobSubmitPlugins = all_partitions"))
    judged(
        checks.job_submit(config, "shared", "gpumem"),
        "warn",
        "sbatch -p shared",
        "JobSubmitPlugins=lua",
    )


def test_the_partition() -> None:
    _, partition, members = facts()
    judged(checks.usable(partition, members), "ok", "3 nodes")
    judged(checks.usable(partition, []), "fail", "shared", "Nodes=")
    _, partition, members = facts(("State=UP", "State=DRAIN"))
    judged(checks.usable(partition, members[:1]), "warn", "1 node,", "DRAIN", "State=UP")


def test_the_counted_resource() -> None:
    config, _, members = facts()
    judged(checks.counted(config, "gpumem", members), "ok", "80.0G")
    judged(checks.counted(config, "memory", members), "fail", "GresTypes", "add memory")
    small = replace(members[2], gres={"gpumem": 40960})
    differ = checks.counted(config, "gpumem", [*members[:2], small])
    judged(differ, "ok", "the nodes differ in GPU memory: g3 40.0G, g[1-2] 80.0G")
    _, _, without = facts(("Gres=gpumem:80K", "Gres=(null)"))
    judged(checks.counted(config, "gpumem", without), "fail", "g1, g2, g3 have none")
    judged(checks.counted(config, "gpumem", [*members, without[0]]), "fail", "g1 has none")


def test_gpus_that_slurm_gives_away_too() -> None:
    _, _, members = facts(name="plain")
    judged(checks.given_twice("shared", facts()[2]), "ok")
    judged(checks.given_twice("shared", members), "warn", "g1 (gpu:2)", "partition whole")
    _, _, members = facts(("gpu:2", "shard:8"), ("shared,whole", "shared"), name="plain")
    judged(checks.given_twice("shared", members), "warn", "shard:8", "of partition shared can ask")
    _, _, members = facts(("gpu:2", "gpu:0"), name="plain")
    judged(checks.given_twice("shared", members), "ok")


def test_this_server() -> None:
    node = facts()[2][0]
    judged(checks.this_node(None, True, "login", "shared"), "ok", "login is no node", "slurm.node")
    misspelt = checks.this_node(None, True, "server", "shared", "g9")
    judged(misspelt, "fail", "slurm.node is g9", "correct slurm.node")
    judged(checks.this_node(node, True, "server", "shared"), "ok", "node g1")
    judged(checks.this_node(node, False, "server", "shared"), "fail", "enabled = true", "restart")


@pytest.mark.parametrize(
    ("total_mib", "level", "words"),
    [
        (40960, "ok", ["gpumem:81920", "81920 MiB"]),
        (41300, "ok", []),
        (42000, "warn", ["84000", "unused"]),
        (40959, "warn", ["81918", "memory that is not there"]),
    ],
)
def test_the_memory_of_this_node(total_mib: int, level: str, words: list[str]) -> None:
    node = facts()[2][0]
    gone = gpu(2, total_mib=40960, state="vanished")
    devices = [gpu(0, total_mib=total_mib), gpu(1, total_mib=total_mib), gone]
    judged(checks.memory(node, "gpumem", devices), level, *words)


def test_long_lists_are_cut() -> None:
    assert checks.listed(list("abcd")) == "a, b, c, d"
    assert checks.listed(list("abcdef")) == "a, b, c, d and 2 more"
