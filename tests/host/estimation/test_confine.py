"""The limits of a trace: processes, memory, no network."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.config import EstimationConfig
from radrm.host.estimation import confine, start_tracer
from radrm.structs import replace
from tests.host.estimation.asking import SAY, request, said
from tests.paths import REPOSITORY
from tests.waiting import wait_until


def possible() -> int:
    return int(subprocess.run(start_tracer.PROBE, capture_output=True, check=True).stdout)


LIMITS = (
    SAY
    + """
import resource, signal, socket
names = {"RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_CORE"}
found = {name: resource.getrlimit(getattr(resource, name)) for name in names}
found["alarm"] = signal.getitimer(signal.ITIMER_REAL)[0]
found["networks"] = [name for _, name in socket.if_nameindex()]
with socket.create_server(("127.0.0.1", 0)) as server:
    found["itself"] = bool(socket.create_connection(server.getsockname()))
found["ids"] = os.getuid(), os.getgid(), sorted(os.getgroups())
say({"said": found})
"""
)


def test_the_limits_are_the_tracers_own(python3: Path) -> None:
    found = said(request(python3, LIMITS), EstimationConfig(trace_limit_s=30.0))
    assert found["RLIMIT_CPU"] == [4 * 34] * 2 and found["RLIMIT_CORE"] == [0, 0]
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    assert found["RLIMIT_NPROC"][0] <= (most if most >= 0 else 1 << 22)
    if possible() & confine.NEW_USER:
        assert found["RLIMIT_NPROC"] == [confine.MOST_PROCESSES] * 2
    assert 0 < found["alarm"] <= 60
    assert found["itself"], "it can talk to itself"
    assert found["ids"] == [os.getuid(), os.getgid(), sorted(os.getgroups())]
    if possible() & confine.NEW_NET:
        assert found["networks"] == ["lo"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_unprivileged_daemons_traces_have_no_network_either() -> None:
    """As a user who may make user namespaces."""
    code = (
        f"import ctypes, os, sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from radrm.host.estimation import start_tracer\n"
        "os.setgroups([]); os.setgid(61234); os.setuid(61234)\n"
        "ctypes.CDLL(None).prctl(4, 1)  # as after execve\n"
        "start_tracer.probe()"
    )
    allowed = subprocess.run(
        ["setpriv", "--reuid=61234", "--clear-groups", "unshare", "-Un", "true"]
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    expected = confine.NEW_USER | confine.NEW_NET if allowed.returncode == 0 else 0
    assert done.stdout.strip() == str(expected), done.stderr


def test_where_processes_are_counted_together_what_the_user_has_is_no_obstacle() -> None:
    child = os.fork()
    if child == 0:
        confine.limit(os.getuid(), 512, 60.0, apart=False)
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        signal.setitimer(signal.ITIMER_REAL, 0)
        os._exit(0 if most > confine.MOST_PROCESSES else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert confine.tasks_of(os.getuid()) >= 1 and confine.tasks_of(61234) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_trace_that_forks_without_end_meets_its_limit(python3: Path, tmp_path: Path) -> None:
    for folder in (python3.parent, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    if not possible() & confine.NEW_USER or not shutil.which("perl"):
        pytest.skip("processes are not counted apart here")
    asked = replace(request(python3, "", Path("/")), user="nobody", uid=61234, gid=61234)
    python3.write_text(
        "#!/usr/bin/perl\n"
        "$ARGV[1] =~ /=(.*)/; open(my $out, '>', $1);\n"
        "my $n = 0; while ($n < 5000) { my $p = fork(); last unless defined $p;\n"
        'if (!$p) { sleep 600; exit } $n++ } print $out "{\\"said\\": $n}"; close $out;\n'
    )
    asked = replace(asked, environment={"PATH": f"{python3.parent}:/usr/bin:/bin"})
    assert said(asked) == confine.MOST_PROCESSES - 2
    wait_until(lambda: confine.tasks_of(61234) == 0)
