"""The checks of a cluster follow one another, and stop where nothing is left to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.config import SlurmConfig
from radrm.host.health.finding import Finding, run_checks
from radrm.host.storage.paths import Paths
from radrm.slurm.checks import Asked, slurm_checks
from radrm.slurm.facts import Ask
from radrm.slurm.setup import ClusterNode, job_submit_lua, slurm_conf
from tests.host.health.slurm.said import Said, nobody

DEFAULTS = SlurmConfig()


def found(
    ask: Ask,
    folder: Path,
    host: str = "login",
    config: SlurmConfig = DEFAULTS,
    conf: str = "",
) -> dict[str, Finding]:
    """The findings, by check. No daemon runs in the folder."""

    def places(node: str) -> tuple[Paths, ...]:
        return (Paths(str(folder / node / "state"), str(folder / node / "run")),)

    findings = list(run_checks(slurm_checks(Asked(config, host, ask, places, conf))))
    assert len({f.check for f in findings}) == len(findings)
    return {f.check: f for f in findings}


def levels(findings: dict[str, Finding], level: str) -> list[str]:
    return [name for name, finding in findings.items() if finding.level.value == level]


def test_a_cluster_that_fits(tmp_path: Path) -> None:
    said = Said()
    findings = found(said, tmp_path)
    assert levels(findings, "warn") == ["HealthCheckProgram", "ProctrackType", "accounting"]
    assert levels(findings, "fail") == []
    assert len(said.asked) == 3, "each question is asked once"


def test_a_cluster_without_the_settings(tmp_path: Path) -> None:
    findings = found(Said("plain"), tmp_path)
    assert levels(findings, "ok") == ["slurmctld", "partition", "GRES gpumem", "this server"]
    assert levels(findings, "fail") == []


def test_no_slurm(tmp_path: Path) -> None:
    findings = found(nobody, tmp_path)
    assert levels(findings, "fail") == list(findings) == ["slurmctld"]
    assert "not installed" in findings["slurmctld"].finding


def test_no_such_partition(tmp_path: Path) -> None:
    findings = found(Said(), tmp_path, config=SlurmConfig(partition="other"))
    assert levels(findings, "fail") == ["partition"]
    assert findings["partition"].finding == "Partition other not found"
    assert "slurm.partition" in str(findings["partition"].next_step)
    assert {"HealthCheckProgram", "accounting"} < set(findings)
    assert not {"OverSubscribe", "this server"} & set(findings)


def test_a_node_without_a_daemon(tmp_path: Path) -> None:
    findings = found(Said(), tmp_path, "server", SlurmConfig(enabled=True, node="g2"))
    assert findings["this server"].finding == "it is node g2 of partition shared"
    assert str(tmp_path / "g2") in findings["daemon"].finding
    assert "GPU memory" not in findings
    off = found(Said(), tmp_path, "server", SlurmConfig(node="g2"))
    assert levels(off, "fail") == ["this server"]
    assert "daemon" not in off


def test_a_partition_without_nodes(tmp_path: Path) -> None:
    findings = found(Said(changed=(("Nodes=g[1-3]", "Nodes=(null)"),)), tmp_path)
    assert levels(findings, "fail") == ["partition"]
    assert findings["partition"].finding == "shared has no node"
    assert not {"OverSubscribe", "this server"} & set(findings)


MERGED = """\
ClusterName=site
GresTypes=gpu{types}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/cgroup
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpumem
HealthCheckProgram=/etc/slurm/radrm-health.sh
JobSubmitPlugins=lua
NodeName=DEFAULT CPUs=64
NodeName=g[1-2] NodeHostName=server Gres={gres}
{more}
PartitionName=old Nodes=ALL
{lines}
"""


@pytest.mark.parametrize(
    ("types", "gres", "more", "lines", "fails"),
    [
        (",gpumem", "gpumem:81920", "", True, []),
        ("", "gpumem:81920", "", True, ["GRES gpumem"]),
        (",gpumem", "fast:1", "", True, ["GRES gpumem"]),
        (",gpumem", "fast:1", "NodeName=g[1-2] Gres=gpumem:81920", True, ["slurm.conf"]),
        (",gpumem", "gpumem:81920", "", False, ["partition"]),
        (",gpumem", "gpumem:81920", "NodeName=g[3", True, []),
    ],
)
def test_a_file_is_judged_before_it_is_live(
    tmp_path: Path, types: str, gres: str, more: str, lines: bool, fails: list[str]
) -> None:
    """What setup prints, merged into a site's file as it says, has no fault. slurmctld is away."""
    nodes = [ClusterNode("g[1-2]", 81920)]
    printed = slurm_conf(DEFAULTS, nodes) if lines else ""
    conf = tmp_path / "slurm.conf"
    conf.write_text(MERGED.format(types=types, gres=gres, more=more, lines=printed))
    (tmp_path / "job_submit.lua").write_text(job_submit_lua(DEFAULTS, nodes))
    findings = found(nobody, tmp_path, conf=str(conf))
    assert levels(findings, "fail") == ["slurmctld", *fails]
    if more != "NodeName=g[3":
        assert levels(findings, "warn") == []
        return
    assert levels(findings, "warn") == ["slurm.conf"] and len(findings) == 2


def test_a_file_that_is_named_and_not_there_is_said(tmp_path: Path) -> None:
    assert levels(found(nobody, tmp_path, conf=str(tmp_path / "none")), "warn") == ["slurm.conf"]


@pytest.mark.parametrize(
    ("changed", "level"),
    [("", "ok"), ("HealthCheckProgram=/x", "warn"), ("JobSubmitPlugins=lua,more", "warn")],
)
def test_what_is_not_live_yet_is_named(tmp_path: Path, changed: str, level: str) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"GresTypes=gpumem\nJobSubmitPlugins=lua\n{changed}\n")
    said = Said(changed=(("/etc/slurm/slurm.conf", str(conf)),))
    assert found(said, tmp_path, conf=str(conf))["slurm.conf"].level.value == level
