"""What `radrm doctor` says of the disk of a daemon's state."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from radrm.host.health import disk as checks
from radrm.host.storage.store import Store
from tests.host.health.judging import judged


def disk(**given: int) -> Any:
    usual = {"f_bavail": 1 << 20, "f_frsize": 4096, "f_files": 1 << 20, "f_favail": 1 << 19}
    return SimpleNamespace(**{**usual, "f_flag": 0, **given})


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ({}, "ok", "4.0 GiB"),
        ({"f_bavail": 1024}, "warn", "4 MiB"),
        ({"f_bavail": 0}, "fail", "is full"),
        ({"f_favail": 0}, "fail", "du --inodes"),
        ({"f_favail": 99}, "warn", "du --inodes"),
        ({"f_files": 0, "f_favail": 0}, "ok", ""),  # btrfs counts none
        ({"f_flag": os.ST_RDONLY}, "fail", "read-write"),
    ],
)
def test_space(given: dict[str, int], level: str, words: str) -> None:
    judged(checks.space("/not/there/yet", lambda _: disk(**given)), level, words)


def test_a_full_disk_is_searched_where_it_is_mounted() -> None:
    judged(checks.space("/proc/self/fd", lambda _: disk(f_bavail=0)), "fail", "du -xh -d2 /proc |")


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
    mocker.patch.object(checks, "_existing", lambda p: p)
    judged(checks.file_system(path, tmp_path), level, words)


def test_the_file_system_of_this_machine_is_found(tmp_path: Path) -> None:
    assert "unknown" not in checks.file_system(str(tmp_path / "not" / "there")).finding


def test_a_store_that_no_daemon_could_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "radrm.sqlite"
    Store(path).close()
    judged(checks.store(str(path)), "ok")
    path.write_bytes(path.read_bytes()[:8192])
    judged(checks.store(str(path)), "fail", "radrm.sqlite", "restore a copy")
