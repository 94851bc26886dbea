"""A container belongs to the job whose process started it, and to no job that only claims it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.attempts.containers import Containers, groups_of
from radrm.host.attempts.owners import LiveAttempt, PidOwners
from tests.host.attempts.host import A, B
from tests.host.processes.programs import SLEEP, TOKEN, Run
from tests.waiting import wait_until

USER = "/user.slice/user-1000.slice/user@1000.service"


# ------------------------------------------------------------------ what /proc writes


@pytest.mark.parametrize(
    ("text", "engine", "identifier"),
    [
        (f"0::/system.slice/docker-{A}.scope\n", "docker", A),
        (f"0::/system.slice/docker-{A}.scope/init\n", "docker", A),
        (f"0::{USER}/user.slice/docker-{A}.scope\n", "docker", A),  # rootless
        (f"0::/docker/{A}\n", "docker", A),
        (f"12:pids:/docker/{A}\n11:memory:/docker/{A}\n0::/\n", "docker", A),
        (f"0::/radrm-7-0a0b0c0d/{A}\n", None, A),  # --cgroup-parent with cgroupfs
        (f"0::/machine.slice/libpod-{A}.scope/container\n", "podman", A),
        (f"0::/libpod_parent/libpod-{A}\n", "podman", A),
        (f"0::/../docker-{A}.scope\n", "docker", A),  # seen from within another container
        (f"0::/kubepods.slice/kubepods-pod5.slice/cri-containerd-{A}.scope\n", None, A),
        (f"0::/kubepods.slice/kubepods-pod5.slice/crio-{A}.scope\n", None, A),
        (f"0::/kubepods/besteffort/pod5/{A}\n", None, A),
        (f"0::{USER}/apptainer-4711.scope\n", None, "apptainer-4711"),
        ("0::/user.slice/singularity-4711.scope\n", None, "singularity-4711"),
    ],
)
def test_a_container_is_recognised(text: str, engine: str | None, identifier: str) -> None:
    assert list(groups_of(text).values()) == [(engine, identifier)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        f"0::/machine.slice/libpod-conmon-{A}.scope\n",
        f"0::/system.slice/docker-{A[:12]}.scope\n",
        f"0::/system.slice/docker-{A}.scope.d\n",
        f"0::/x-{A}\n",
        "0::/apptainer-x.scope\n",
        A,
    ],
)
def test_what_is_no_container(text: str) -> None:
    assert groups_of(text) == {}


def test_one_inside_another_comes_first_and_cgroup_v2_before_v1() -> None:
    text = f"3:pids:/docker/{A}\n0::/docker/{A}/docker/{B}\n"
    assert list(groups_of(text).items()) == [
        (f"0::/docker/{A}/docker/{B}", ("docker", B)),
        (f"0::/docker/{A}", ("docker", A)),
    ]


WORDS = st.sampled_from(["0", ":", "/", "docker", f"docker-{A}.scope", A, "\n", "..", "libpod-"])


@given(st.one_of(st.text(), st.lists(WORDS).map("".join)))
def test_whatever_stands_there_a_group_is_the_beginning_of_a_line(text: str) -> None:
    for group in groups_of(text):
        assert any(f"{line}/".startswith(f"{group}/") for line in text.split("\n"))


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x1c", "\x85", "\u2028"])
def test_a_groups_name_cannot_stand_for_another_container(end: str) -> None:
    """A user may call a group so. Only `\\n` ends a line there, and no name can have one."""
    theirs = f"0::/docker/{A}"
    assert theirs in groups_of(f"{theirs}\n")
    assert theirs not in groups_of(f"0::/user.slice/x{end}{theirs}\n")


# ------------------------------------------------------------------ recorded processes


class Proc:
    """A folder that looks like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self").mkdir()

    def process(
        self, pid: int, group: str, ticks: int, numbers: str = "", **environment: str
    ) -> None:
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "stat").write_text(f"{pid} (x) S 1 1 1 {'0 ' * 13}1 0 {ticks} 0\n")
        (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid} {numbers}\nThreads:\t1\n")
        text = "".join(f"{name}={value}\0" for name, value in environment.items())
        (folder / "environ").write_text(text)

    def end(self, pid: int) -> None:
        for file in (self.folder / str(pid)).iterdir():
            file.unlink()

    def ours(self) -> list[str]:
        return [each.id for each in Containers(str(self.folder)).of_attempt(TOKEN)]


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def scope(identifier: str, below: str = "/system.slice") -> str:
    return f"{below}/docker-{identifier}.scope"


def test_the_first_process_speaks_for_all(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(40, scope(A), 10, "17")  # pids start again from the bottom
    proc.process(60, scope(B), 5, "1", RADRM_TOKEN="another")
    proc.process(70, "/user.slice", 5, RADRM_TOKEN=TOKEN)
    containers = Containers(str(proc.folder))
    (found,) = containers.of_attempt(TOKEN)
    assert (found.engine, found.id, found.first, set(found.members)) == ("docker", A, 50, {40, 50})
    assert containers.vouchers(40) == [40, 50]
    assert containers.vouchers(70) == containers.vouchers(4711) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"RADRM_TOKEN": TOKEN}),  # `docker exec` into one that others use
        ({"RADRM_JOB_ID": "3", "RADRM_ATTEMPT": "2"}, {}),
        ({"XRADRM_TOKEN": TOKEN}, {}),
        ({"RADRM_TOKEN": TOKEN + "x"}, {}),
    ],
)
def test_nothing_else_ties_a_container(
    proc: Proc, first: dict[str, str], second: dict[str, str]
) -> None:
    proc.process(50, scope(A), 9, "1", **first)
    proc.process(51, scope(A), 10, "7", **second)
    assert proc.ours() == []
    assert Containers(str(proc.folder)).vouchers(51) == [51, 50]


def test_a_group_of_the_same_name_elsewhere_is_another_container(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN="the victim's")
    proc.process(30, scope(A, "/user.slice/user-1000.slice"), 1, RADRM_TOKEN=TOKEN)
    (found,) = Containers(str(proc.folder)).of_attempt(TOKEN)
    assert set(found.members) == {30}
    assert Containers(str(proc.folder)).vouchers(50) == [50]


def test_where_the_first_is_hidden_nobody_takes_its_place(proc: Proc) -> None:
    proc.process(51, scope(A), 10, "7", RADRM_TOKEN=TOKEN)
    assert proc.ours() == []
    assert Containers(str(proc.folder)).vouchers(51) == [51]


def test_without_a_pid_namespace_the_oldest_is_the_first(proc: Proc) -> None:
    proc.process(51, scope(A), 10, RADRM_TOKEN=TOKEN)
    proc.process(52, scope(A), 11)
    assert proc.ours() == [A]


def test_until_the_last_process_is_gone_it_is_ours(proc: Proc) -> None:
    containers = Containers(str(proc.folder))
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(51, scope(A), 10, "7")
    (found,) = containers.of_attempt(TOKEN)
    proc.end(50)
    (left,) = containers.of_attempt(TOKEN, {found.group})
    assert set(left.members) == {51}
    proc.end(51)
    assert containers.of_attempt(TOKEN, {found.group}) == []


def test_what_a_container_starts_in_itself_is_its_attempts(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(51, scope(B, scope(A)), 10, "8 1")
    assert set(Containers(str(proc.folder)).vouchers(51)) == {50, 51}
    (found,) = Containers(str(proc.folder)).of_attempt(TOKEN)
    assert set(found.members) == {50, 51}


def test_a_path_that_is_used_again_is_looked_at_again(proc: Proc) -> None:
    containers = Containers(str(proc.folder))
    proc.process(50, scope(A), 9, "1")
    assert containers.vouchers(50) == [50]
    proc.end(50)
    proc.process(60, scope(A), 20, "1")
    assert containers.vouchers(60) == [60]


def test_owners_believe_the_first_process(run: Run) -> None:
    unmanaged, first = run(SLEEP), run(SLEEP, token=TOKEN)
    wait_until(lambda: b"RADRM_TOKEN" in Path(f"/proc/{first.pid}/environ").read_bytes())
    owners = PidOwners({unmanaged.pid: [first.pid]}.__getitem__)
    owners.update([LiveAttempt(3, 2, TOKEN, None)])
    assert owners.owner_of(unmanaged.pid) == (3, 2)
    assert owners.seen_of((3, 2)) == [unmanaged.pid]
    owners.update([LiveAttempt(4, 1, "another", None)])
    assert owners.owner_of(unmanaged.pid) is None


@pytest.mark.parametrize("last", [None, "60", "5000", "7"])
def test_only_what_is_newer_than_the_attempt_is_looked_at(proc: Proc, last: str | None) -> None:
    """Whatever number was given out last: the numbers may begin again from the bottom."""
    if last is not None:
        (proc.folder / "loadavg").write_text(f"0.1 0.2 0.3 1/234 {last}\n")
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    containers = Containers(str(proc.folder))
    assert containers.of_attempt(TOKEN, above=50) == []
    proc.process(60, scope(A), 10, "7")
    (found,) = containers.of_attempt(TOKEN, above=50)
    assert found.first == 50, "one newer process makes it look at all: the first decides"
