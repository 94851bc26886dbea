"""What `radrm doctor` looks at, shown machines of every kind."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from radrm.host.gpus import nvml
from radrm.host.health import gpus, kernel, places, software
from radrm.host.health.finding import Check, Finding, Level, ok, run_checks
from radrm.host.health.job_files import job_files
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.schema import SCHEMA_VERSION
from radrm.host.storage.store import Store
from radrm.host.storage.tickets import new_ticket
from tests.host.nvml_driver import LOST, NO_FUNCTION, NOT_SUPPORTED, Chip, Driver, instance, mig_gpu

ME = os.getuid()


def judged(finding: Finding, level: str, *words: str) -> None:
    """Every finding that is not fine says what to do."""
    said = f"{finding.finding}; {finding.next_step}"
    assert finding.level.value == level, said
    assert (finding.next_step is None) == (level == "ok")
    for word in words:
        assert word in said


# ------------------------------------------------------------------ running checks


def test_a_check_that_breaks_is_a_warning_about_itself() -> None:
    def broken() -> Finding:
        raise KeyError("nonsense")

    first, second = run_checks([Check("a", broken), Check("b", lambda: ok("b", "fine"))])
    judged(first, "warn", "KeyError", "nonsense")
    judged(second, "ok")


def test_a_check_that_hangs_takes_no_other_along() -> None:
    release = threading.Event()

    def stuck() -> Finding:
        release.wait()
        return ok("a", "late")

    first, second = run_checks([Check("a", stuck, 0.01), Check("b", lambda: ok("b", "fine"))])
    release.set()
    judged(first, "warn", "no answer")
    judged(second, "ok")


# ------------------------------------------------------------------ software


@pytest.mark.parametrize(
    ("version", "level"), [((3, 9, 18), "fail"), ((3, 10, 0), "ok"), ((3, 13, 1), "ok")]
)
def test_python(version: tuple[int, ...], level: str) -> None:
    judged(software.python(version), level, ".".join(map(str, version)))


def installed(**versions: str) -> Callable[[str], str]:
    def version_of(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    return version_of


PACKAGES = [
    (["rich>=13.7"], {"rich": "15.0.0"}, "ok", "rich 15.0.0"),
    (["rich>=13.7"], {"rich": "13.10"}, "ok", "rich 13.10"),
    (["rich>=13.7"], {"rich": "13.6.9"}, "warn", "wanted: 13.7 or newer"),
    (["rich>=13.7", "typer"], {"rich": "14"}, "fail", "pip install typer"),
    (["pytest>=8; extra == 'dev'"], {}, "ok", ""),
    (["tomli>=2.0; python_version < '3.11'"], {}, "ok", ""),
    (["tomli>=2.0; python_version < '3.12'"], {}, "fail", "tomli"),
]


@pytest.mark.parametrize(("requirements", "there", "level", "words"), PACKAGES)
def test_packages(requirements: list[str], there: dict[str, str], level: str, words: str) -> None:
    judged(software.packages(requirements, (3, 11, 0), installed(**there)), level, words)


def test_packages_of_radrm_that_is_not_installed() -> None:
    judged(software.packages(None, (3, 11, 0)), "warn", "not installed")


def test_the_packages_that_radrm_names_are_understood() -> None:
    needed = [r for r in metadata.requires("radrm") or [] if "extra" not in r]
    judged(software.packages(needed, (3, 11, 0)), "ok", "typer", "rich", "psutil")


def test_sqlite() -> None:
    judged(software.sqlite((3, 7, 17)), "fail", "3.7.17")
    judged(software.sqlite((3, 8, 3)), "ok")
    judged(software.sqlite(sqlite3.sqlite_version_info), "ok")


NOW = 1_900_000_000.0


@pytest.mark.parametrize(
    ("wall", "boot", "awake", "newest", "level", "words"),
    [
        (NOW, 7200, 3600, None, "ok", "up for 2.0 h"),
        (NOW, 7200, 7200, NOW - 1, "ok", ""),
        (NOW, 7200, 7200, NOW + 59, "ok", ""),
        (NOW, 7200, 7200, NOW + 3600, "warn", "3600 s behind"),
        (86_400, 100, 100, None, "fail", "before 2024"),
        (NOW, 3600, 7200, None, "warn", "time namespace"),
    ],
)
def test_clock(
    wall: float, boot: float, awake: float, newest: float | None, level: str, words: str
) -> None:
    judged(software.clock(wall, boot, awake, newest), level, words)


def test_a_clock_that_jumps() -> None:
    judged(software.clock(NOW, 7200, 7200, None, -3600.0), "warn", "jumped by -3600 s")
    judged(software.clock(NOW, 7200, 7200, None, 0.4), "ok")


@pytest.mark.parametrize(
    ("umask", "system", "uid", "home", "level", "words"),
    [
        ("0022", True, 0, None, "ok", "everybody"),
        ("0022", False, 0, "/r", "ok", "RADRM_HOME=/r"),
        ("0077", False, 1000, None, "ok", "this user alone"),
        ("0002", False, 1000, None, "ok", ""),
        ("0000", True, 0, None, "warn", "umask 022"),
    ],
)
def test_rights(
    tmp_path: Path, umask: str, system: bool, uid: int, home: str | None, level: str, words: str
) -> None:
    status = tmp_path / "self" / "status"
    status.parent.mkdir()
    status.write_text(f"Name:\tradrm\nUmask:\t{umask}\nState:\tR\n")
    judged(software.rights(system, uid, home, tmp_path), level, words)


# ------------------------------------------------------------------ kernel


def a_group(*files: str) -> Callable[[str], bool]:
    """Makes a control group as this kernel does, with these files."""

    def make(path: str) -> bool:
        os.mkdir(path)
        for file in files:
            Path(path, file).touch()
        return True

    return make


def test_tree_kill(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    group = str(tmp_path / "x")
    judged(kernel.tree_kill(None), "warn", "cgroup v2")
    judged(kernel.tree_kill(group, lambda _: False), "warn", str(tmp_path), "Delegate=yes")
    judged(kernel.tree_kill(group, a_group()), "warn", "5.14")
    assert not os.path.exists(group)
    judged(kernel.tree_kill(group, a_group("cgroup.kill")), "ok", str(tmp_path))


@pytest.mark.skipif(ME == 0, reason="root may write to every file")
def test_a_group_that_nobody_can_be_moved_out_of(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch(0o400)
    found = kernel.tree_kill(str(tmp_path / "x"), a_group("cgroup.kill"))
    judged(found, "warn", "no process can be moved")


def refused(number: int) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


def test_pidfd() -> None:
    judged(kernel.pidfd(), "ok")
    judged(kernel.pidfd(None), "fail", "Python")
    judged(kernel.pidfd(refused(errno.ENOSYS)), "fail", "Linux 5.3")


@pytest.mark.parametrize(
    ("instances", "watches", "make", "level", "words"),
    [
        (128, 65536, SimpleNamespace, "ok", "128"),
        (8, 65536, SimpleNamespace, "warn", "max_user_instances"),
        (128, 0, SimpleNamespace, "fail", "max_user_watches"),
        (128, 65536, None, "fail", "Too many open files"),
    ],
)
def test_inotify(
    tmp_path: Path, instances: int, watches: int, make: Any, level: str, words: str
) -> None:
    limits = tmp_path / "sys" / "fs" / "inotify"
    limits.mkdir(parents=True)
    (limits / "max_user_instances").write_text(f"{instances}\n")
    (limits / "max_user_watches").write_text(f"{watches}\n")

    def made() -> Any:
        return refused(errno.EMFILE)() if make is None else SimpleNamespace(close=lambda: None)

    judged(kernel.inotify(tmp_path, made), level, words)


@pytest.mark.parametrize(
    ("soft", "hard", "mps", "level", "words"),
    [
        (1024, 1 << 20, False, "ok", "MPS would want 16384"),
        (1024, 1 << 20, True, "warn", "ulimit -n 16384"),
        (1024, 4096, True, "warn", "LimitNOFILE=16384"),
        (256, 4096, False, "warn", "1024"),
        (16384, 16384, True, "ok", "16384"),
        (-1, -1, True, "ok", "unlimited"),
    ],
)
def test_open_files(soft: int, hard: int, mps: bool, level: str, words: str) -> None:
    judged(kernel.open_files(soft, hard, mps), level, words)


# ------------------------------------------------------------------ places


@pytest.mark.parametrize("system", [False, True])
def test_folders_are_as_a_daemon_makes_them(tmp_path: Path, system: bool) -> None:
    paths = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    for wanted in places.folders(paths, system):
        judged(places.folder(wanted, ME, False), "ok", "not there yet")
        judged(places.folder(wanted, ME, True), "fail", "a daemon runs")
    prepare(paths, system)
    for wanted in places.folders(paths, system):
        judged(places.folder(wanted, ME, True), "ok", f"{wanted.mode:04o}")


@pytest.mark.parametrize(
    ("wanted", "mode", "level", "words"),
    [
        (0o700, 0o700, "ok", "0700"),
        (0o700, 0o500, "fail", "closed to its owner"),
        (0o700, 0o750, "warn", "more open"),
        (0o700, 0o777, "fail", "written by everybody"),
        (0o711, 0o700, "warn", "more closed"),
        (0o1777, 0o1777, "ok", "1777"),
        (0o1777, 0o777, "fail", "written by everybody"),
        (0o1777, 0o1770, "warn", "chmod 1777"),
    ],
)
def test_modes(tmp_path: Path, wanted: int, mode: int, level: str, words: str) -> None:
    path = tmp_path / "x"
    path.mkdir()
    path.chmod(mode)
    judged(places.folder(places.Folder("x", str(path), wanted), ME, True), level, words)


def test_what_is_no_folder_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    judged(places.folder(places.Folder("x", str(path), 0o700), ME, True), "fail", "not a folder")
    path.unlink()
    path.mkdir(0o700)
    judged(places.folder(places.Folder("x", str(path), 0o700), ME + 1, True), "fail", str(ME))


def test_a_link_where_the_daemon_removes_files(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    prepare(paths, False)
    os.rename(paths.spool, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", paths.spool)
    found = {w.name: places.folder(w, ME, False) for w in places.folders(paths, False)}
    judged(found["spool folder"], "fail", "symbolic link", "remove the link")
    judged(found["store folder"], "ok")


def test_what_is_foreign_in_the_spool_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    judged(places.spool_contents(str(spool)), "ok", "not there yet")
    spool.mkdir()
    for _ in range(2):
        (spool / f"{new_ticket()}.job").touch()
    (spool / f".{new_ticket()}").touch()
    judged(places.spool_contents(str(spool)), "ok", "2 submissions wait")
    (spool / "train.rad").touch()  # a job file: a user's own spool is a watched folder
    judged(places.spool_contents(str(spool)), "ok", "2 submissions wait")
    (spool / "notes.txt").touch()
    (spool / "a\nb").mkdir()
    (spool / f"{new_ticket()}.job").mkdir()
    found = places.spool_contents(str(spool))
    judged(found, "warn", "3 in ", "'notes.txt'", r"'a\nb'", "radrm submit FILE")
    for number in range(9):
        (spool / f"{number}.txt").touch()
    judged(places.spool_contents(str(spool)), "warn", "12 in ", "and 7 more")
    monkeypatch.setattr(places, "_MOST_NAMES", 4)
    judged(places.spool_contents(str(spool)), "warn", "of the first 4 names")


def test_socket_address() -> None:
    judged(places.socket_address(Paths("/s", "/run/radrm")), "ok", "21 bytes")
    judged(places.socket_address(Paths("/s", "/" + "r" * 200)), "warn", "107", "MPS")


def disk(**given: int) -> Any:
    usual = {"f_bavail": 1 << 20, "f_frsize": 4096, "f_files": 1 << 20, "f_favail": 1 << 19}
    return SimpleNamespace(**{**usual, "f_flag": 0, **given})


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ({}, "ok", "4.0 GiB"),
        ({"f_bavail": 1024}, "warn", "4 MiB"),
        ({"f_bavail": 0}, "fail", "is full"),
        ({"f_favail": 0}, "fail", "is full"),
        ({"f_favail": 99}, "warn", "99 more files"),
        ({"f_files": 0, "f_favail": 0}, "ok", ""),  # btrfs counts none
        ({"f_flag": os.ST_RDONLY}, "fail", "read-write"),
    ],
)
def test_space(given: dict[str, int], level: str, words: str) -> None:
    judged(places.space("/not/there/yet", lambda _: disk(**given)), level, words)


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:2 master:1 - nfs4 server:/home rw
31 30 8:2 / /home/local\040disk rw - xfs /dev/sdb rw
32 22 0:41 / /mnt rw - autofs systemd-1 rw
33 22 0:42 / /mnt rw - cifs //server/x rw
34 22 0:43 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "level", "words"),
    [
        ("/var/lib/radrm", "ok", "ext4"),
        ("/home/ada/.local/state/radrm", "warn", "nfs4"),
        ("/homeless", "ok", "ext4"),
        ("/home/local disk/radrm", "ok", "xfs"),
        ("/mnt/x", "warn", "cifs"),
        ("/tmp/radrm", "warn", "reboot"),
    ],
)
def test_file_system(
    tmp_path: Path, mocker: MockerFixture, path: str, level: str, words: str
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS)
    mocker.patch.object(places, "_existing", lambda p: p)
    judged(places.file_system(path, tmp_path), level, words)


def test_the_file_system_of_this_machine_is_found(tmp_path: Path) -> None:
    assert "unknown" not in places.file_system(str(tmp_path / "not" / "there")).finding


# ------------------------------------------------------------------ the store


def test_a_sound_store_is_read_without_a_trace(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    judged(places.store(database, ME), "ok", "not there yet")
    store = Store(database)
    store._db.execute("INSERT INTO devices VALUES ('a', 'b')")
    before = sorted(os.listdir(tmp_path))
    judged(places.store(database, ME), "ok", "whole")
    assert sorted(os.listdir(tmp_path)) == before
    store.close()
    judged(places.store(database, ME), "ok", "whole")
    assert os.listdir(tmp_path) == ["radrm.sqlite"]
    judged(places.store(database, ME + 1), "ok", f"user {ME}")


def test_a_store_that_is_locked_for_writing_can_be_looked_into(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    store = Store(database)
    store._db.execute("BEGIN IMMEDIATE")
    judged(places.store(database, ME), "ok")
    store.close()


def test_damaged_stores(tmp_path: Path) -> None:
    database = tmp_path / "radrm.sqlite"
    Store(str(database)).close()
    whole = database.read_bytes()
    database.write_bytes(b"not a database at all" * 100)
    judged(places.store(str(database), ME), "fail", "damaged", "move it aside")
    database.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    judged(places.store(str(database), ME), "fail", "damaged")
    database.write_bytes(whole[: len(whole) // 2])
    judged(places.store(str(database), ME), "fail", "damaged")


def test_a_store_of_another_version(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    Store(database).close()

    def found(version: int) -> Finding:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        return places.store(database, ME)

    judged(found(SCHEMA_VERSION + 1), "fail", f"version {SCHEMA_VERSION + 1}")
    judged(found(1), "ok", "whole", *(["version 1 becomes"] if SCHEMA_VERSION > 1 else []))


# ------------------------------------------------------------------ GPUs


def gpu(**given: Any) -> gpus.Gpu:
    usual = {"index": 0, "name": "A100", "mig": None, "persistence": True, "compute_mode": 0}
    return gpus.Gpu(**{**usual, "gpm": False, **given})


def test_devices() -> None:
    judged(gpus.devices(gpus.Driver((gpu(), gpu(), gpu(name="H100"))), True), "ok", "2 x A100")
    none = gpus.Driver(reason="no driver")
    judged(gpus.devices(none, False), "warn", "no driver", "--gpus sim:")
    judged(gpus.devices(none, True), "fail", "there is NVIDIA hardware", "no driver")
    lost = gpus.Driver((gpu(),), troubles=("GPU 1: the GPU is lost",))
    judged(gpus.devices(lost, True), "fail", "GPU 1: the GPU is lost")


def test_has_hardware(tmp_path: Path) -> None:
    def device(name: str, vendor: str, kind: str) -> None:
        folder = tmp_path / "bus" / "pci" / "devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")

    assert not gpus.has_hardware(tmp_path)
    device("0000:00:01.0", "0x8086", "0x030000")
    device("0000:00:02.0", "0x10de", "0x040300")  # the sound of a graphics card
    assert not gpus.has_hardware(tmp_path)
    device("0000:00:03.0", "0x10de", "0x030200")
    assert gpus.has_hardware(tmp_path)


@pytest.mark.parametrize(
    ("version", "level"),
    [("550.54.14", "ok"), ("495.29.05", "ok"), ("470.82.01", "warn"), (None, "warn"), ("x", "ok")],
)
def test_driver_version(version: str | None, level: str) -> None:
    judged(gpus.driver_version(gpus.Driver((gpu(),), version)), level)


def test_modes_of_gpus() -> None:
    two = lambda **given: gpus.Driver((gpu(), gpu(index=1, **given)))  # noqa: E731
    judged(gpus.mig(two()), "ok", "have none")
    judged(gpus.mig(two(mig=(0, 0))), "ok", "off")
    judged(gpus.mig(two(mig=(1, 1))), "ok", "on for GPU 1")
    judged(gpus.mig(two(mig=(0, 1))), "warn", "pending on GPU 1")
    judged(gpus.persistence(two()), "ok")
    judged(gpus.persistence(two(persistence=None)), "ok")
    judged(gpus.persistence(two(persistence=False)), "warn", "GPU 1", "nvidia-smi -pm 1")
    judged(gpus.compute_mode(two(), False), "ok", "DEFAULT")
    judged(gpus.compute_mode(two(compute_mode=3), False), "warn", "GPU 1", "busy or unavailable")
    judged(gpus.compute_mode(two(compute_mode=3), True), "ok", "MPS")
    judged(gpus.compute_mode(two(compute_mode=2), True), "fail", "PROHIBITED on GPU 1")


def test_sm_activity() -> None:
    old, new = gpus.Driver((gpu(),)), gpus.Driver((gpu(gpm=True),))
    mixed = gpus.Driver((gpu(gpm=True), gpu(index=1)))
    nothing: Callable[[str], str | None] = lambda _: None  # noqa: E731
    dcgm: Callable[[str], str | None] = lambda w: f"/bin/{w}"  # noqa: E731
    judged(gpus.sm_activity(old, True, nothing), "ok", "utilization")
    judged(gpus.sm_activity(old, False, nothing), "warn", "core.use_coarse_smact = true")
    judged(gpus.sm_activity(new, False, nothing), "ok", "read by gpm")
    judged(gpus.sm_activity(new, False, dcgm, "dcgm"), "ok", "read by dcgm")
    judged(gpus.sm_activity(mixed, False, dcgm), "ok", "read by dcgm")
    judged(gpus.sm_activity(mixed, False, dcgm, "gpm"), "fail", "Hopper")
    judged(gpus.sm_activity(new, False, nothing, "dcgm"), "fail", "dcgmi")
    judged(gpus.sm_activity(old, False, nothing, "dcgm-exporter"), "ok", "dcgm-exporter")
    judged(gpus.sm_activity(new, False, dcgm, "utilization"), "warn", "utilization")


def look(mocker: MockerFixture, *chips: Chip, **answers: Any) -> gpus.Driver:
    driver = Driver(mocker, *chips)
    usual = {
        "nvmlSystemGetDriverVersion": b"550.54.14",
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0),
    }
    for name, answer in {**usual, **answers}.items():
        effect = answer if isinstance(answer, Exception) else [answer] * 8
        mocker.patch.object(pynvml, name, side_effect=effect)
    found = gpus.look(pynvml, nvml.find())
    assert driver.shutdowns > 0, "the driver is let go of"
    return found


def test_look(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(uuid="GPU-a"), mig_gpu(instance("MIG-a", "1g.5gb")))
    assert (found.version, found.reason, found.troubles) == ("550.54.14", None, ())
    assert [g.mig for g in found.gpus] == [(0, 0), (1, 1)]
    assert [(g.persistence, g.compute_mode, g.gpm) for g in found.gpus] == [(True, 0, False)] * 2


def test_look_at_an_old_driver(mocker: MockerFixture) -> None:
    old = {
        name: pynvml.NVMLError(NO_FUNCTION)
        for name in ("nvmlGpmQueryDeviceSupport", "nvmlDeviceGetPersistenceMode")
    }
    (found,) = look(mocker, Chip(fails={"nvmlDeviceGetMigMode": NOT_SUPPORTED}), **old).gpus
    assert (found.mig, found.persistence, found.gpm) == (None, None, False)


def test_look_at_a_lost_gpu(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(), Chip(uuid="GPU-b", fails={"*": LOST}))
    judged(gpus.devices(found, True), "fail", "GPU 1: the GPU is lost")


def test_look_where_there_is_nothing(mocker: MockerFixture) -> None:
    found = gpus.look(pynvml, nvml.Found(None, "no driver"))
    assert (found.gpus, found.reason) == ((), "no driver")


# ------------------------------------------------------------------ MPS


@pytest.mark.parametrize(
    ("pid", "cmdline", "level", "words"),
    [
        (None, b"", "ok", "no foreign daemon"),
        (b"77\n", b"nvidia-cuda-mps-control\0-d\0", "warn", "process 77"),
        (b"77\n", b"vim\0", "ok", "no foreign daemon"),
        (b"78\n", b"nvidia-cuda-mps-control\0-d\0", "ok", "no foreign daemon"),
        (b"many\n", b"nvidia-cuda-mps-control\0-d\0", "ok", ""),
        (b"../../etc\n", b"nvidia-cuda-mps-control\0-d\0", "ok", ""),
    ],
)
def test_a_foreign_mps_daemon(
    tmp_path: Path, pid: bytes | None, cmdline: bytes, level: str, words: str
) -> None:
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "cmdline").write_bytes(cmdline)
    pipes = tmp_path / "nvidia-mps"
    if pid is not None:
        pipes.mkdir()
        (pipes / "nvidia-cuda-mps-control.pid").write_bytes(pid)
    for environ, default in (({}, pipes), ({"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}, tmp_path)):
        judged(gpus.mps(False, environ, lambda _: None, tmp_path, default), level, words)


def test_mps_control_is_needed_only_where_mps_is_wanted(tmp_path: Path) -> None:
    there = lambda name: f"/usr/bin/{name}"  # noqa: E731
    judged(gpus.mps(True, {}, there, tmp_path, tmp_path), "ok", "/usr/bin/nvidia-cuda-mps-control")
    judged(gpus.mps(True, {}, lambda _: None, tmp_path, tmp_path), "warn", "not on PATH")
    judged(gpus.mps(False, {}, lambda _: None, tmp_path, tmp_path), "ok", "not on PATH")


@given(st.binary(max_size=40))
def test_any_pid_file_is_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    pipes = tmp_path_factory.mktemp("pipes")
    (pipes / "nvidia-cuda-mps-control.pid").write_bytes(data)
    assert gpus.mps(False, {}, lambda _: None, pipes, pipes).level is Level.OK


def test_the_folder_of_job_files_is_named_with_what_was_refused(tmp_path: Path) -> None:
    paths, me = Paths(str(tmp_path), str(tmp_path / "run")), os.getuid()
    judged(job_files(paths, False, me), "ok", "radrm spool")
    refused = tmp_path / "spool" / "refused"
    refused.mkdir(parents=True)
    judged(job_files(paths, False, me), "ok", f"{paths.spool} becomes a job")
    waiting = tmp_path / "spool" / "a.rad"
    waiting.write_text("")
    later_s = waiting.stat().st_ctime + 61
    judged(job_files(paths, False, me, later_s - 2), "ok", "becomes a job")
    judged(job_files(paths, False, me, later_s), "warn", "1 in")
    for ticket, reason in (("A", "an old reason"), ("B", "the last reason\nand more")):
        (refused / f"{ticket}.a.rad").write_text("")
        (refused / f"{ticket}.a.rad.txt").write_text(reason)
    found = job_files(paths, False, me)
    judged(found, "warn", f"2 refused in {refused}, the last: B.a.rad: the last reason")
    assert "\n" not in found.finding and "and more" not in found.finding
    judged(job_files(paths, False, me + 1), "fail", f"belongs to user {me}")


def test_a_reason_that_is_a_fifo_or_a_link_does_not_hold_doctor_up(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path), str(tmp_path / "run"))
    refused = tmp_path / "spool" / "refused"
    refused.mkdir(parents=True)
    os.mkfifo(refused / "A.a.rad.txt")
    judged(job_files(paths, False, os.getuid()), "warn", "1 refused")
    (refused / "B.a.rad.txt").symlink_to("/etc/hostname")
    judged(job_files(paths, False, os.getuid()), "warn", "the reason cannot be read")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_squatted_folder_of_users_is_reported(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path), str(tmp_path / "run"))
    users = tmp_path / "spool" / "users"
    (users / "7").mkdir(parents=True)
    users.chmod(0o711)
    judged(job_files(paths, True, 7), "fail", "belongs to user 0 and should be user 7's")
    os.chown(users / "7", 7, 7)
    judged(job_files(paths, True, 7), "ok", f"{users}/7 becomes a job")
    os.chown(users, 1000, 1000)
    judged(job_files(paths, True, 7), "fail", "was not made by radrm (user 1000)")
