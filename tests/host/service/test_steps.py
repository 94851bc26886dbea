"""Install and uninstall below a root of ours, with the commands written down in place of run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.errors import Refused, UsageError
from radrm.host.service import code, steps
from radrm.host.service.files import TMPFILES_PATH, UNIT_PATH, State, files_of, under
from radrm.host.service.ownership import Ownership
from radrm.host.service.steps import (
    Site,
    check_folder,
    install_commands,
    remove_socket,
    site,
    states_of,
)
from radrm.host.sockets import listen
from radrm.host.storage.paths import servers_own
from tests.cli.runner import Ran, invoke

ME = frozenset({0, os.getuid()})
RADRMD = f"{os.path.dirname(sys.executable)}/radrmd"


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Files of a test are not writable by a group, whatever the shell's umask is."""
    before = os.umask(0o022)
    yield
    os.umask(before)


class Machine:
    """A system below a folder. `radrm` runs a command as root would, on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[list[str]] = []

    def radrm(self, *words: str) -> Ran:
        return invoke(*words, f"--root={self.root}")

    def tree(self) -> dict[str, object]:
        """Every file and link, with its content and mode."""
        return {
            str(path.relative_to(self.root)): os.readlink(path)
            if path.is_symlink()
            else (path.read_bytes(), path.stat().st_mode)
            for path in self.root.rglob("*")
            if path.is_symlink() or path.is_file()
        }

    def unit(self) -> Path:
        return Path(under(str(self.root), UNIT_PATH))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path / "image")
    found.root.mkdir()

    def run(command: list[str]) -> int:
        found.ran.append(command)
        return 0

    ownership = Ownership(ME)
    monkeypatch.setattr(steps.run_all, "__defaults__", (run,))
    monkeypatch.setattr("radrm.cli.commands.service.os.geteuid", lambda: 0)
    for name, what in {
        "Ownership": lambda lasting=False: ownership,
        "code_of": lambda _: code.Code((), ()),
    }.items():
        monkeypatch.setattr(f"radrm.cli.commands.service.{name}", what)
    return found


def test_install_again_and_uninstall(machine: Machine) -> None:
    etc = machine.root / "etc" / "systemd" / "system"
    (etc / "radrmd.service.d").mkdir(parents=True)
    (etc / "radrmd.service.d" / "override.conf").write_text("[Service]\n")
    before = machine.tree()
    first = machine.radrm("service", "install")
    assert (first.exit_code, first.stdout.split()[::2][:3]) == (0, ["write", "write", "write"])
    installed = machine.tree()
    assert f"ExecStart={RADRMD}\n" in machine.unit().read_text()
    assert installed["usr/local/bin/radrm"] == f"{os.path.dirname(RADRMD)}/radrm"
    assert machine.unit().stat().st_mode & 0o7777 == 0o644
    enable = ["systemctl", f"--root={machine.root}", "enable", "radrmd.service"]
    assert machine.ran == [enable]
    again = machine.radrm("service", "install")
    assert again.stdout.count("same") == 3
    assert machine.tree() == installed
    removed = machine.radrm("service", "remove")
    assert removed.stdout.count("remove  ") == 3
    assert "/var/lib/radrm" in removed.stdout
    assert machine.ran[-1] == [*enable[:2], "disable", "radrmd.service"]
    assert machine.tree() == before
    count = len(machine.ran)
    nothing = machine.radrm("service", "remove")
    assert (nothing.exit_code, nothing.stdout.count("none  ")) == (0, 3)
    assert len(machine.ran) == count


def test_only_a_socket_that_nobody_serves_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.host.storage.paths._SYSTEM_RUN", str(tmp_path))
    monkeypatch.setattr("radrm.host.storage.paths.SYSTEM_UNITS", ())
    with listen(tmp_path / "radrm.sock"):
        remove_socket(Site())
        assert servers_own() is not None
    remove_socket(Site("/image", offline=True))
    assert servers_own() is not None
    remove_socket(Site())
    assert servers_own() is None


def test_a_dry_run_changes_nothing(machine: Machine) -> None:
    shown = machine.radrm("service", "install", "--dry-run")
    assert shown.stdout == "".join(
        [
            f"write   {machine.root}/etc/systemd/system/radrmd.service\n",
            f"write   {machine.root}/etc/tmpfiles.d/radrm.conf\n",
            f"write   {machine.root}/usr/local/bin/radrm -> {os.path.dirname(RADRMD)}/radrm\n",
            f"run     systemctl --root={machine.root} enable radrmd.service\n",
        ]
    )
    assert (machine.tree(), machine.ran) == ({}, [])
    machine.radrm("service", "install")
    installed, count = machine.tree(), len(machine.ran)
    assert machine.radrm("service", "remove", "--dry-run").stdout.count("remove  ") == 3
    assert (machine.tree(), len(machine.ran)) == (installed, count)


def test_a_unit_of_another_place_is_updated(machine: Machine) -> None:
    machine.radrm("service", "install")
    for file in files_of("/opt/old/bin/radrmd")[:2]:
        Path(under(str(machine.root), file.path)).write_text(file.text or "")
    shown = machine.radrm("service", "install")
    assert shown.stdout.startswith(f"update  {machine.unit()}\nsame ")
    assert f"ExecStart={RADRMD}\n" in machine.unit().read_text()


def test_what_was_edited_by_hand_is_shown_and_stays(machine: Machine) -> None:
    machine.radrm("service", "install")
    edited = machine.unit().read_text().replace("RestartSec=5s", "RestartSec=1h")
    machine.unit().write_text(edited)
    (machine.root / "etc/tmpfiles.d/radrm.conf").unlink()
    count = len(machine.ran)
    refused = machine.radrm("service", "install")
    assert isinstance(refused.exception, Refused)
    assert "and nothing is done" in str(refused.exception)
    assert "-RestartSec=1h\n+RestartSec=5s\n" in refused.stdout
    assert machine.unit().read_text() == edited
    assert not (machine.root / "etc/tmpfiles.d/radrm.conf").exists()
    kept = machine.radrm("service", "remove")
    assert f"keep    {machine.unit()}\n" in kept.stdout
    assert "To remove it: sudo systemctl disable --now radrmd" in kept.stdout
    assert machine.unit().read_text() == edited
    assert len(machine.ran) == count
    assert machine.radrm("service", "install", "--replace").exit_code == 0
    assert "RestartSec=5s" in machine.unit().read_text()


def test_a_link_to_another_radrm_stays_until_it_is_to_be_replaced(machine: Machine) -> None:
    (machine.root / "usr/local/bin").mkdir(parents=True)
    link = machine.root / "usr/local/bin/radrm"
    link.symlink_to("/home/anna/bin/radrm")
    refused = machine.radrm("service", "install")
    assert "-a link to /home/anna/bin/radrm" in refused.stdout
    assert os.readlink(link) == "/home/anna/bin/radrm"
    assert machine.radrm("service", "install", "--replace").exit_code == 0
    assert os.readlink(link) == f"{os.path.dirname(RADRMD)}/radrm"


def test_code_that_others_can_change_is_not_installed(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "module.py"
    file.write_text("")
    file.chmod(0o666)
    told = code.Code((), (str(file),))
    monkeypatch.setattr("radrm.cli.commands.service.code_of", lambda _: told)
    refused = machine.radrm("service", "install", "--replace")
    assert str(refused.exception) == (
        f"{file} is writable by all (mode 0666), and the service would run its code as root; "
        f"sudo chmod go-w {file}"
    )
    assert (machine.tree(), machine.ran) == ({}, [])


def test_an_image_that_leads_out_of_itself_is_left_as_it_is(
    machine: Machine, tmp_path: Path
) -> None:
    (machine.root / "usr").symlink_to(tmp_path)
    refused = machine.radrm("service", "install")
    assert "leads out of" in str(refused.exception)
    assert (list(machine.tree()), machine.ran) == (["usr"], [])


@pytest.mark.parametrize("folder", ["lib", "usr/lib"])
def test_a_unit_of_a_package_is_told(machine: Machine, folder: str) -> None:
    unit = machine.root / folder / "systemd" / "system" / "radrmd.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    refused = machine.radrm("service", "install")
    assert str(refused.exception).startswith(f"{unit} is there already, from a package")
    refused = machine.radrm("service", "remove")
    assert str(refused.exception).endswith("sudo apt remove radrm")
    assert (len(machine.tree()), machine.ran) == (1, [])


@pytest.mark.parametrize("packaged", [True, False])
def test_a_server_is_set_up_by_options(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, packaged: bool
) -> None:
    settings = machine.root / "etc" / "radrm" / "radrm.toml"
    monkeypatch.setattr("radrm.cli.commands.service.site", lambda _: Site(str(machine.root)))
    monkeypatch.setattr("radrm.cli.commands.service.config_path", lambda *_: settings)
    if packaged:
        unit = machine.root / "lib" / "systemd" / "system" / "radrmd.service"
        unit.parent.mkdir(parents=True)
        unit.touch()
    words = ["service", "install", "--users=all", "--mps", "--no-start"]
    done = invoke(*words)
    assert done.exit_code == 0, done.stdout
    assert "enabled = true" in settings.read_text()
    assert machine.unit().exists() is not packaged
    programs = [command[0] for command in machine.ran]
    assert programs == ["systemd-tmpfiles"] * (not packaged) + ["install"] + ["systemctl"] * 2
    before = settings.read_text()
    again = invoke(*words, "--no-mps")
    assert isinstance(again.exception, Refused) and settings.read_text() == before
    for wrong in ("--users=no-such-group", "--page=%H", "--root=/ --mps", "--user --share"):
        refused = invoke("service", "install", *wrong.split())
        assert isinstance(refused.exception, UsageError), wrong


def test_only_root_installs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radrm.cli.commands.service.os.geteuid", lambda: 1000)
    monkeypatch.setattr(
        sys, "argv", ["/opt/my radrm/bin/radrm", "service", "install", "--no-start"]
    )
    for name in ("install", "remove"):
        refused = machine.radrm("service", name)
        said = str(refused.exception)
        assert said.endswith("run: sudo '/opt/my radrm/bin/radrm' service install --no-start")
    assert machine.tree() == {}
    assert machine.radrm("service", "install", "--dry-run").exit_code == 0


# ------------------------------------------------------------------ where it writes


def test_a_folder_of_others_is_not_written_to(tmp_path: Path) -> None:
    file = files_of(RADRMD)[0]
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc").chmod(0o777)
    where = Site(str(tmp_path), offline=True)
    with pytest.raises(Refused, match=r"is not written to: .*/etc is writable by all"):
        check_folder(file, where, Ownership(ME))
    link = files_of("/opt/radrm/bin/radrmd")[2]
    check_folder(type(link)("/etc/bin/radrm", leads_to=link.leads_to), where, Ownership(ME))


def test_a_link_out_of_the_image_is_not_followed(tmp_path: Path) -> None:
    """`/etc` of an image may be a link to `/etc`: of the image, and not of this machine."""
    (tmp_path / "image").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "image" / "etc").symlink_to(tmp_path / "outside")
    where = Site(str(tmp_path / "image"), offline=True)
    with pytest.raises(Refused, match="leads out of"):
        check_folder(files_of(RADRMD)[0], where, Ownership(ME))
    check_folder(files_of(RADRMD)[0], Site(str(tmp_path), offline=True), Ownership(ME))


def test_a_site(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not run systemd"):
        site(None, f"{tmp_path}/none")
    with pytest.raises(Refused, match="is not a folder"):
        site(f"{tmp_path}/none")
    assert site(None, str(tmp_path)) == Site("/", offline=False)
    assert site(str(tmp_path)).offline


def test_the_commands_of_a_running_system() -> None:
    create = ["systemd-tmpfiles", "--create", TMPFILES_PATH]
    reload = ["systemctl", "daemon-reload"]
    enable = ["systemctl", "enable", "--now", "radrmd.service"]
    assert install_commands(Site(), start=True) == [create, reload, enable]
    assert install_commands(Site(), start=False) == [create, reload, [*enable[:2], enable[3]]]
    states = states_of(files_of(RADRMD)[:1], Site("/nowhere"))
    assert states[0][1] is State.NEW
    assert steps.uninstall_commands(states, Site()) == ([], [])
    mine = [(states[0][0], State.OLDER)]
    disable = ["systemctl", "disable", "--now", "radrmd.service"]
    assert steps.uninstall_commands(mine, Site()) == ([disable], [reload])


def test_a_command_that_fails_or_is_not_there() -> None:
    with pytest.raises(Refused, match="false 'a b' failed with exit code 1; see why: journalctl"):
        steps.run_all([["false", "a b"], ["true"]], steps.run)
    with pytest.raises(Refused, match="radrm-none is not on PATH; run it yourself: radrm-none x"):
        steps.run_all([["radrm-none", "x"]], steps.run)
    steps.run_all([["true"]], steps.run)
