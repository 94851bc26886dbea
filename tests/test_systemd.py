"""The systemd units: they have what jobs need, and no setting that restricts jobs."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from radrm.daemon.loop import LONGEST_WAIT_S
from radrm.host.notify import EXTENSION_S, LONGEST_S
from radrm.host.processes import cgroups
from tests.paths import REPOSITORY
from tools.units import copies

UNITS = REPOSITORY / "systemd"
SYSTEM, USER = UNITS / "radrmd.service", UNITS / "radrmd-user.service"
BOTH = pytest.mark.parametrize("unit", [SYSTEM, USER], ids=lambda unit: unit.stem)
GUIDES = [REPOSITORY / "docs" / "dgx.md", UNITS / "README.md"]

RESTRICT_JOBS = {
    "PrivateTmp",
    "PrivateDevices",
    "PrivateNetwork",
    "PrivateUsers",
    "ProtectHome",
    "ProtectSystem",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectKernelModules",
    "ProtectProc",
    "DevicePolicy",
    "DeviceAllow",
    "NoNewPrivileges",
    "RestrictNamespaces",
    "RestrictSUIDSGID",
    "RestrictAddressFamilies",
    "MemoryDenyWriteExecute",
    "SystemCallFilter",
    "DynamicUser",
    "OOMScoreAdjust",
    "MemoryMax",
    "CPUQuota",
    "RuntimeMaxSec",
}


def service(unit: Path) -> dict[str, str]:
    reader = configparser.RawConfigParser(strict=True)
    reader.optionxform = str
    # What units come before it stands in several lines, which only systemd reads as one list.
    reader.read_string("[Service]" + unit.read_text().partition("[Service]")[2])
    return dict(reader["Service"])


@BOTH
def test_jobs_survive_the_daemon(unit: Path) -> None:
    found = service(unit)
    assert found["KillMode"] == "process"
    assert found["Delegate"] == "yes"
    assert found["DelegateSubgroup"] == cgroups.OWN
    assert found["OOMPolicy"] == "continue"
    assert found["RuntimeDirectoryPreserve"] == "yes"


@BOTH
def test_no_setting_restricts_jobs(unit: Path) -> None:
    assert not RESTRICT_JOBS & set(service(unit))


@BOTH
def test_systemd_restarts_it_unless_its_configuration_is_wrong(unit: Path) -> None:
    from radrm.errors import BadConfig

    found = service(unit)
    assert found["Restart"] == "on-failure"
    assert int(found["RestartPreventExitStatus"]) == BadConfig.exit_code


@BOTH
def test_mps_has_enough_descriptors(unit: Path) -> None:
    assert int(service(unit)["LimitNOFILE"]) >= 16384


@BOTH
def test_the_unit_starts_what_the_package_installs(unit: Path) -> None:
    program, *_ = service(unit)["ExecStart"].split()
    assert f"\n{Path(program).name} = " in (REPOSITORY / "pyproject.toml").read_text()


def test_the_units_folders_are_the_daemons() -> None:
    from radrm.host.storage.paths import paths_for

    found, paths = service(SYSTEM), paths_for({}, uid=0)
    assert f"/var/lib/{found['StateDirectory']}" == paths.state
    assert f"/run/{found['RuntimeDirectory']}" == paths.run
    assert found["StateDirectoryMode"] == "0711"
    assert found["RuntimeDirectoryMode"] == "0755"
    lines = [line.split() for line in (UNITS / "radrm.conf").read_text().splitlines()]
    made = {words[1]: words[2] for words in lines if words[0] == "d"}
    assert made == {
        f"/etc/{found['ConfigurationDirectory']}": "0755",
        paths.state: found["StateDirectoryMode"],
        paths.run: found["RuntimeDirectoryMode"],
    }


def test_the_copies_are_what_the_command_installs() -> None:
    written = {name: (UNITS / name).read_text() for name in copies()}
    assert written == copies(), "run: python -m tools.units"


@BOTH
def test_systemd_hears_that_it_serves_and_lives(unit: Path) -> None:
    """The watchdog is longer than what a busy disk may take for one write."""
    found = service(unit)
    assert found["Type"] == "notify"
    assert (found["WatchdogSec"], found["TimeoutStartSec"]) == ("5min", "5min")
    assert EXTENSION_S >= 300 > LONGEST_WAIT_S + LONGEST_S


@BOTH
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    """Only the program is replaced: radrm is not installed in /opt here."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"(?m)^ExecStart=.*", "ExecStart=/bin/true", unit.read_text()))
    whose = ["--user"] if unit is USER else []
    done = subprocess.run(
        [analyze, "verify", "--man=no", *whose, str(copy)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # A systemd before 254 says that it ignores this key, as the unit says.
    about_it = [
        line
        for line in done.stderr.splitlines()
        if unit.name in line and "Unknown key 'DelegateSubgroup'" not in line
    ]
    assert (done.returncode, about_it) == (0, [])


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_file_of_a_guide_exists(guide: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", guide.read_text()):
        assert (guide.parent / link).exists(), link
