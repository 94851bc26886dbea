"""The CPUs and the host memory that jobs can have, with made-up control groups."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from radrm.config import NodeConfig
from radrm.core.records import LOCAL_NODE, Node
from radrm.host import node
from radrm.host.node import NodeWatch

MIB = 1 << 20
THERE = psutil.virtual_memory().total // MIB
USABLE = len(os.sched_getaffinity(0))


def place(tmp_path: Path, own: str, mounts: list[str], files: dict[str, str]) -> NodeWatch:
    """A process with these groups; `@` in a mount is the folder of the made-up files."""
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(own)
    lines = [mount.replace("@", str(tmp_path / "tree")) for mount in mounts]
    text = "\n".join(lines) + "\n"
    (proc / "mountinfo").write_bytes(text.encode("utf-8", "surrogateescape"))
    return NodeWatch(NodeConfig(), str(proc))


V2 = "41 31 0:38 / @ rw,relatime shared:1 - cgroup2 cgroup2 rw"
CPU = "32 31 0:29 / @/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"
MEMORY = "35 31 0:32 / @/memory rw,relatime - cgroup cgroup rw,memory"
INSIDE = "35 31 0:32 /docker/1 @/memory rw,relatime - cgroup cgroup rw,memory"
ODD = [  # users mount on folders of any name
    f"90 31 0:50 / /home/ann/a{end}b rw - fuse.x y rw" for end in "\r\x0b\x1c\x85\u2028\udcff"
]
TREES = [  # the process's groups, the mounts, the files; CPUs and MiB, None: all that there is
    ("0::/a/b\n", [V2], {}, None, None),
    ("0::/a/b\n", [V2], {"a/b/cpu.max": "max 100000", "a/b/memory.max": "max"}, None, None),
    ("0::/a/b\n", [V2], {"a/b/cpu.max": "50000 100000"}, 0.5, None),
    ("0::/a/b\n", [V2], {"a/cpu.max": "25000 100000", "a/b/cpu.max": "max 100000"}, 0.25, None),
    ("0::/a/b\n", [V2], {"a/memory.max": str(300 * MIB), "memory.max": "max"}, None, 300),
    ("0::/a\n", [V2], {"a/b/memory.max": str(MIB)}, None, None),
    ("0::/../x\n", [V2], {"memory.max": str(64 * MIB)}, None, 64),
    ("0::/a\n", [], {"a/memory.max": str(MIB)}, None, None),
    (
        "4:memory:/m\n1:cpu,cpuacct:/c\n",
        [CPU, MEMORY],
        {
            "cpu/c/cpu.cfs_quota_us": "10000",
            "cpu/c/cpu.cfs_period_us": "100000",
            "memory/m/memory.limit_in_bytes": str(128 * MIB),
        },
        0.1,
        128,
    ),
    (
        "4:memory:/\n1:cpu,cpuacct:/\n",
        [CPU, MEMORY],
        {
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
            "memory/memory.limit_in_bytes": "9223372036854771712",
        },
        None,
        None,
    ),
    ("4:memory:/docker/1\n", [INSIDE], {"memory/memory.limit_in_bytes": str(MIB)}, None, 1),
    ("4:memory:/docker/1\n", [MEMORY], {"memory/memory.limit_in_bytes": str(MIB)}, None, 1),
    ("0::/a\n", [V2], {"a/cpu.max": "100 0", "a/memory.max": "nonsense"}, None, None),
    ("x\n0::/a\n", [*ODD, V2], {"a/memory.max": str(300 * MIB)}, None, 300),
]


@pytest.mark.parametrize("own, mounts, files, cpus, mib", TREES)
def test_the_least_limit_of_all_groups_above_counts(
    tmp_path: Path,
    own: str,
    mounts: list[str],
    files: dict[str, str],
    cpus: float | None,
    mib: int | None,
) -> None:
    found = place(tmp_path, own, mounts, files).look()
    assert found == Node(LOCAL_NODE, USABLE if cpus is None else cpus, mib or THERE)


def test_this_machine_has_some(tmp_path: Path) -> None:
    found = NodeWatch(NodeConfig()).look()
    assert 0 < found.cpus <= USABLE
    assert 0 < found.memory_mib <= THERE


def test_the_configuration_replaces_what_is_found() -> None:
    watch = NodeWatch(NodeConfig(cpus=62.5, memory="480G"))
    assert watch.look() == Node(LOCAL_NODE, 62.5, 480 * 1024)


def test_it_looks_again_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(node.time, "monotonic", lambda: now)
    watch = place(tmp_path, "0::/a\n", [V2], {"a/memory.max": str(8 * MIB)})
    assert watch.look().memory_mib == 8
    (tmp_path / "tree/a/memory.max").write_text(str(6 * MIB))
    assert watch.changed() is None, "it is too early"
    now += node.LOOK_EVERY_S
    assert watch.changed().memory_mib == 6
    now += node.LOOK_EVERY_S
    assert watch.changed() is None, "nothing has changed"
