"""Commands on other servers: the words of ssh, job files as standard input, several hosts."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.cli.remote.hosts import _rank, hosts_of
from radrm.cli.remote.ssh import ssh_words
from radrm.errors import UsageError
from tests.daemon.harness import DaemonHome
from tests.documents import errors_of

_SSH = """#!/bin/sh
# As sshd does: the last word is a command line for a shell.
for word; do host=$before before=$word; done
case $host in
down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255;;
odd) echo "Welcome"; exit 0;;
esac
exec /bin/sh -c "$word"
"""
words = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=5)


@given(words)
def test_the_other_shell_reads_the_same_words(command: list[str]) -> None:
    *_, dashes, host, line = ssh_words("ada@box", command)
    assert (dashes, host, shlex.split(line)) == ("--", "ada@box", ["radrm", *command])


@pytest.mark.parametrize("host", ["", "-oProxyCommand=x", "a b", "a'b", "a\nb", "x" * 300])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        ssh_words(host, ["status"])


def test_lists_of_hosts() -> None:
    assert hosts_of("a, b,a") == ["a", "b"]
    for text in (",", ",".join(map(str, range(65)))):
        with pytest.raises(UsageError, match="1 to 64 hosts"):
            hosts_of(text)


@pytest.fixture
def there(daemon: DaemonHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonHome:
    """A daemon whose server answers as `box`."""
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH)
    ssh.chmod(0o755)
    daemon.environment["RADRM_SSH"] = str(ssh)
    daemon.environment["RADRM_REMOTE"] = f"{sys.executable} -m radrm"
    return daemon


@pytest.mark.daemon
def test_commands_of_another_server(there: DaemonHome, tmp_path: Path) -> None:
    def run(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "radrm", *words], env=there.environment, cwd=tmp_path,
            text=True, capture_output=True, timeout=60, input=given,
        )  # fmt: skip

    (tmp_path / "my job.rad").write_text("#RAD --gpus=0 --env=A='b c'\necho $A; exit 3\n")
    found = run("-H", "box", "submit", "--wait", "--parsable", "my job.rad")
    assert found.returncode == 3, found.stderr
    assert there.job(1)["name"] == "my job"
    found = run("-H", "box", "submit", "--gpus=0", "--name=there", "-", given="sleep 100\n")
    assert found.returncode == 0 and "job 2 (there)" in found.stdout, found.stderr
    found = run("-H", "box", "submit", "--gpus=x", "my job.rad")
    assert (found.returncode, "is not a whole number" in found.stderr) == (2, True)
    assert run("-H", "box", "status", "99").returncode == 1
    assert run("-H", "down", "status").returncode == 255

    found = run("status", "--hosts=box,down,odd,box2", "--json")
    jobs = json.loads(found.stdout)
    assert errors_of(["status"], jobs) == []
    assert [(job["host"], job["id"]) for job in jobs] == [("box", 2), ("box2", 2)]
    assert found.stderr.splitlines() == [
        "radrm: down: ssh: connect to host down port 22: Connection refused",
        "radrm: odd: it did not answer as radrm does; set RADRM_REMOTE if radrm is elsewhere there",
    ]
    lines = run("status", "--hosts=box,box2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["HOST", "box", "box2"]
    found = run("status", "--hosts=down")
    assert (found.returncode, found.stdout) == (1, "")
    there.ask("cancel", jobs=["2"])


NOW = {"gpus": 1, "estimate_upper_mib": 8000}
IDLE = {"state": "idle", "free_mib": 40_000}
SHARED = {"state": "busy", "free_mib": 9000}
FULL = {"state": "busy", "free_mib": 100}


def waits(start: float | None, gpus: int = 1, held: bool = False) -> dict[str, object]:
    return {"gpus": gpus, "held": held, "expected_start_at": start}


@pytest.mark.parametrize(
    ("waiting", "devices", "start"),
    [
        ([], [IDLE], 0.0),
        ([], [SHARED], 0.0),
        ([], [FULL], inf),
        ([], [], inf),
        ([waits(50.0), waits(70.0)], [IDLE], 70.0),
        ([waits(50.0), waits(None)], [IDLE], inf),
        ([waits(None, gpus=0), waits(None, held=True)], [IDLE], 0.0),
    ],
)
def test_when_a_job_would_start_there(
    waiting: list[dict[str, object]], devices: list[dict[str, object]], start: float
) -> None:
    assert _rank(NOW, waiting, devices)[0] == start


@pytest.mark.daemon
def test_a_submission_goes_where_it_starts_first(there: DaemonHome, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "radrm", "submit", "--hosts=down,box,box2", "--gpu-memory=5G"]
    found = subprocess.run(
        [*words, "--", "true"], env=there.environment, cwd=tmp_path, text=True,
        capture_output=True, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0 and "job 1 (true)" in found.stdout, found.stderr
    assert "radrm: box: it is expected to start now" in found.stderr
    assert "radrm: down: ssh: connect" in found.stderr
    never = subprocess.run(
        [*words[:-1], "--gpus=99", "--", "true"], env=there.environment, cwd=tmp_path, text=True,
        capture_output=True, timeout=60,
    )  # fmt: skip
    assert never.returncode == 1 and "it can never run" in never.stderr
