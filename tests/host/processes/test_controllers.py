"""The daemon's control groups of version 2, on a made-up tree of plain files.

No machine of ours has the cpu and memory controllers in version 2. So what the kernel does with
these files is not tested: only what is written, where, and when not.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.config import NodeConfig
from radrm.host.node import NodeWatch
from radrm.host.processes import cgroups, limits
from radrm.host.processes.controllers import Controllers, prepare
from radrm.host.processes.counted import Counted, counted
from radrm.host.processes.limits import Limits

ME = str(os.getpid())
SERVICE = "/system.slice/radrmd.service"


class Tree:
    """A hierarchy of version 2, and this process's place in it."""

    def __init__(self, place: Path, own: str) -> None:
        self.proc = place / "proc"
        self.mount = place / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self/cgroup").write_text(f"1:name=systemd:/x\n0::{own}\n")
        mounted = f"30 23 0:27 / {self.mount} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
        odd = b"19 1 0:4 / /home/ann/\xff\xe2\x80\xa8\r rw - fuse.x y rw\n"  # a user's, of any name
        others = odd + b"20 1 0:5 / / rw - ext4 /dev/sda1 rw\n"
        (self.proc / "self/mountinfo").write_bytes(others + mounted.encode())
        self.own = self.group(own)

    def group(self, path: str, procs: str = "", controllers: str = "cpu io memory pids") -> Path:
        group = self.mount / path.strip("/")
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text(procs)
        (group / "cgroup.controllers").write_text(controllers)
        (group / "cgroup.subtree_control").write_text("")
        return group

    def prepare(
        self, monkeypatch: pytest.MonkeyPatch, refuses: frozenset[str] = frozenset()
    ) -> Controllers:
        """Prepare with a kernel that appends controllers, and `refuses` some files."""

        def write(path: str, name: str, text: str) -> bool:
            file = Path(path, name)
            if name in refuses or not file.parent.exists():
                return False
            if name == "cgroup.subtree_control":
                offered = (file.parent / "cgroup.controllers").read_text().split()
                if text[1:] not in offered:
                    return False
                text = f"{file.read_text()} {text[1:]}"
            elif name == "cgroup.procs":
                for other in self.mount.rglob("cgroup.procs"):
                    lines = [line for line in other.read_text().split() if line != text]
                    other.write_text("".join(f"{line}\n" for line in lines))
                text = (file.read_text() if file.exists() else "") + f"{text}\n"
            file.write_text(text)
            return True

        monkeypatch.setattr(cgroups, "_write", write)
        return prepare(str(self.proc))


def test_a_daemon_alone_in_its_group_moves_and_shares_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, "/app.slice/run-7.scope")
    tree.group("/app.slice/run-7.scope", f"{ME}\n")
    found = tree.prepare(monkeypatch)
    assert found == Controllers(str(tree.own), str(tree.own))
    assert (tree.own / "cgroup.procs").read_text() == ""
    assert (tree.own / "radrm-daemon/cgroup.procs").read_text() == f"{ME}\n"
    assert (tree.own / "cgroup.subtree_control").read_text().split() == ["cpu", "memory", "io"]
    path = str(tree.own / "radrm-7-a")
    assert found.groups("radrm-7-a") == {"cpu": path, "memory": path, "account": None}
    assert found.why_not("cpu", "memory") is None


def test_a_daemon_that_systemd_has_put_into_its_own_group_moves_old_runners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runners of a release before this layout are in the delegated group itself."""
    tree = Tree(tmp_path, f"{SERVICE}/{cgroups.OWN}")
    service = tree.group(SERVICE, "71\n72\n")
    tree.group(f"{SERVICE}/{cgroups.OWN}", f"{ME}\n")
    job = tree.group(f"{SERVICE}/radrm-4-aabb", "80\n")
    found = tree.prepare(monkeypatch)
    assert found == Controllers(str(service), str(service))
    assert (service / "cgroup.procs").read_text() == ""
    assert set((tree.own / "cgroup.procs").read_text().split()) == {"71", "72", ME}
    assert (job / "cgroup.procs").read_text() == "80\n", "a job stays where it is"


@pytest.mark.parametrize(
    ("own", "procs", "controllers", "reason"),
    [
        (SERVICE, f"{ME}\n", "cpu memory", "systemd 254 or newer is needed, with DelegateSubgroup"),
        ("/user.slice/session-3.scope", f"{ME}\n9\n", "cpu memory", "other processes are in"),
        ("/user.slice/session-3.scope", f"{ME}\n", "io pids", "has no controller cpu and memory"),
        ("/", f"{ME}\n1\n", "cpu memory", "other processes are in"),
    ],
    ids=["an old systemd", "a shell's group", "no controller", "the root"],
)
def test_a_group_that_is_not_ours_is_left_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    procs: str,
    controllers: str,
    reason: str,
) -> None:
    tree = Tree(tmp_path, own)
    tree.group(own, procs, controllers)
    before = {file: file.read_text() for file in tree.mount.rglob("*") if file.is_file()}
    found = tree.prepare(monkeypatch)
    assert {f: f.read_text() for f in tree.mount.rglob("*") if f.is_file()} == before
    assert found.cpu is None and found.memory is None
    why = found.why_not("cpu", "memory")
    assert "\n" not in why
    assert why.startswith("CPUs and host memory are booked, not enforced: ") and reason in why
    assert found.groups("radrm-7-a") == {"cpu": None, "memory": None, "account": None}


def test_one_controller_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own systemd often delegates memory and pids, and no cpu."""
    own = "/user.slice/app.slice/radrm.scope"
    tree = Tree(tmp_path, own)
    tree.group(own, f"{ME}\n", "memory pids")
    found = tree.prepare(monkeypatch)
    assert found.cpu is None and found.memory == str(tree.own)
    assert found.why_not("memory") is None
    cause = f"{tree.own} cannot share out the controller cpu"
    assert found.why_not("cpu", "memory") == f"CPUs are booked, not enforced: {cause}"


def test_a_daemon_that_may_not_move_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path, "/a.scope")
    tree.group("/a.scope", f"{ME}\n")
    found = tree.prepare(monkeypatch, frozenset({"cgroup.procs"}))
    assert "no control group can be made" in (found.why_not("cpu") or "")
    assert (tree.own / "cgroup.subtree_control").read_text() == ""


def test_without_any_control_groups(tmp_path: Path) -> None:
    why = prepare(str(tmp_path)).why_not("memory")
    assert why == "host memory is booked, not enforced: there is no cgroup v2 for this user"


@pytest.mark.parametrize("made", [True, False])
def test_groups_of_version_1_without_a_limit(tmp_path: Path, made: bool) -> None:
    """Such as in a container that shows the groups of its host, or for a user."""
    proc, place = tmp_path / "proc", tmp_path / "cpu"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("4:cpu,cpuacct:/job\n")
    mounted = f"30 23 0:27 / {place} rw - cgroup cgroup rw,cpu,cpuacct\n"
    (proc / "self/mountinfo").write_text(mounted)
    if made:
        (place / "job").mkdir(parents=True)
    found = prepare(str(proc))
    why = found.why_not("cpu") or ""
    trial = f"{place}/job/radrm-trial-{ME}"
    if made:
        assert why == f"CPUs are booked, not enforced: {trial}/cpu.cfs_quota_us cannot be written"
        assert not os.path.exists(trial)
    else:
        assert f"no control group can be made in {place}/job: No such file" in why


def test_places_lie_beside_the_daemons_own_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, f"{SERVICE}/{cgroups.OWN}")
    assert cgroups.own_group("", str(tree.proc)) == str(tree.own)
    monkeypatch.setattr(cgroups, "own_group", lambda: str(tree.own))
    monkeypatch.setattr(cgroups, "_attempts", cgroups._attempts.__wrapped__)  # nothing kept
    assert cgroups.place("radrm-7-a") == f"{tree.mount}{SERVICE}/radrm-7-a"


# ------------------------------------------------------------------ an attempt's limits


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """The group of attempt 7, as the kernel makes it."""
    group = tmp_path / "radrm-7-aabb"
    group.mkdir()
    for name in ("cpu.max", "memory.max", "memory.swap.max", "cgroup.procs"):
        (group / name).write_text("max")
    return group


def test_limits_of_version_2(group: Path) -> None:
    its = Limits(str(group), str(group), cpus=2.5, memory_mib=4096)
    assert its.wanted() == its.groups == [str(group)]
    assert its.apply() is None
    assert (group / "cpu.max").read_text() == "250000 100000"
    assert (group / "memory.max").read_text() == str(4 << 30)
    assert (group / "memory.swap.max").read_text().startswith("0")
    assert limits.set_cpus(str(group), None)
    assert (group / "cpu.max").read_text().startswith("max 100000")
    assert limits.set_cpus(str(group), 0.001)
    assert (group / "cpu.max").read_text().startswith("1000 "), "the kernel's smallest quota"


@pytest.mark.parametrize(
    ("weight", "written"),
    [(None, "100"), (1.0, "100"), (0.01, "1"), (100.0, "10000"), (0.001, "1"), (1e6, "10000")],
)
def test_weights_of_version_2(group: Path, weight: float | None, written: str) -> None:
    (group / "cpu.weight").write_text("")
    assert limits.set_weight(str(group), weight)
    assert (group / "cpu.weight").read_text() == written


def test_a_weight_alone_needs_the_group(group: Path) -> None:
    (group / "cpu.weight").write_text("100   ")
    its = Limits(str(group), str(group), cpu_weight=2.5)
    assert its.wanted() == [str(group)]
    assert its.apply() is None
    assert (group / "cpu.weight").read_text().startswith("250")
    assert (group / "cpu.max").read_text() == "max"
    assert Limits.of({"limits": its.as_fields()}, 7).as_fields() == its.as_fields()


def test_what_version_2_has_counted(group: Path) -> None:
    assert counted(str(group), Limits(str(group), str(group))) == Counted()
    (group / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    (group / "memory.current").write_text(f"{300 << 20}\n")
    (group / "io.stat").write_text(
        "8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=7 dios=1\n259:1 rbytes=3 wbytes=x\n"
    )
    found = counted(str(group), Limits(str(group), str(group)))
    assert found == Counted(2.5, 300, 123)
    assert counted(None, Limits()) == Counted()
    (group / "cpu.stat").write_text("usage_usec many\n")
    (group / "memory.current").write_text("max\n")
    assert counted(str(group), Limits()) == Counted(None, None, 123)


def test_where_no_share_can_be_set_the_node_says_so() -> None:
    assert Controllers(cpu="/c").shares_refused is None
    found = Controllers(reasons=(("cpu", "there is no cgroup v2 for this user"),))
    assert found.shares_refused == "CPU shares cannot be set: there is no cgroup v2 for this user"
    assert NodeWatch(NodeConfig(), shares_refused="why").look().shares_refused == "why"


@pytest.mark.parametrize(
    ("events", "local", "exceeded"),
    [
        ("oom 3\noom_kill 1\n", "oom 3\noom_kill 1\n", 64),
        ("oom 3\noom_kill 1\n", "oom 3\noom_kill 0\n", 64),  # a group below was killed
        ("oom 0\noom_kill 1\n", "oom 0\noom_kill 1\n", None),  # the server's memory ran out
        ("oom 3\noom_kill 1\n", "oom 0\noom_kill 0\n", None),  # a limit that the job has made
        ("oom 3\noom_kill 0\n", "oom 3\noom_kill 0\n", None),
        ("oom 3\noom_kill 1\n", None, 64),  # before Linux 5.2
        ("", "", None),
        ("oom three\n", None, None),
    ],
)
def test_a_limit_that_was_reached(
    group: Path, events: str, local: str | None, exceeded: int | None
) -> None:
    (group / "memory.events").write_text(events)
    if local is not None:
        (group / "memory.events.local").write_text(local)
    its = Limits(None, str(group), memory_mib=64)
    assert its.exceeded_mib() == exceeded
    assert Limits(None, str(group)).exceeded_mib() is None, "without a limit none was reached"


def test_a_record_names_no_group_but_its_own() -> None:
    record = {"limits": {"cpu": "/c/radrm-7-a", "memory": "/m", "cpus": 1.5, "memory_mib": 64}}
    its = Limits.of(record, 7)
    assert (its.cpu, its.memory, its.cpus, its.memory_mib) == ("/c/radrm-7-a", None, 1.5, 64)
    assert its.wanted() == ["/c/radrm-7-a"]
    assert Limits.of({"limits": its.as_fields()}, 7).as_fields() == its.as_fields()
    assert Limits.of(record, 77).groups == []


@pytest.mark.parametrize("found", [None, {}, {"limits": None}, {"limits": {"cpu": 4, "cpus": "x"}}])
def test_a_record_without_limits(found: dict[str, object] | None) -> None:
    assert Limits.of(found, 7).as_fields() == Limits().as_fields()


def test_a_limit_that_may_grow_holds_the_job_back_before_the_kernel_kills(group: Path) -> None:
    (group / "memory.high").write_text("max")
    its = Limits(None, str(group), memory_mib=1000, memory_most_mib=4000)
    assert its.apply() is None
    assert (group / "memory.max").read_text() == str(1000 << 20)
    assert (group / "memory.high").read_text() == str(900 << 20)
    assert Limits.of({"limits": its.as_fields()}, 7).as_fields() == its.as_fields()
    (group / "memory.current").write_text(str(950 << 20))
    for mib, high in ((2000, str(1800 << 20)), (4000, "max")):
        assert limits.change_memory(str(group), mib, 4000)
        assert (group / "memory.max").read_text() == str(mib << 20)
        assert (group / "memory.high").read_text().startswith(high)
    (group / "memory.events").write_text("oom 3\noom_kill 1\n")
    assert its.exceeded_mib() == 4000, "the limit at which it died"


@pytest.mark.parametrize(("used_mib", "lowered"), [(800, True), (950, False)])
def test_a_limit_is_not_lowered_to_what_the_job_uses(
    group: Path, used_mib: int, lowered: bool
) -> None:
    (group / "memory.max").write_text(str(2000 << 20))
    (group / "memory.current").write_text(str(used_mib << 20))
    assert limits.change_memory(str(group), 1000) is lowered
    assert (group / "memory.max").read_text() == str((1000 if lowered else 2000) << 20)
