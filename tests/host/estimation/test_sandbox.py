"""What a traced script does changes nothing and reaches nothing; and it sees what it does."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.config import EstimationConfig
from radrm.host.estimation import call_filter, confine, kernel, sandbox, start_tracer
from radrm.host.estimation.tracing import NotTraced, trace
from radrm.structs import replace
from tests.host.estimation.boxes import (
    LIMITS,
    ROOT,
    USER,
    WAYS,
    Way,
    by_own_daemon,
    by_roots_daemon,
    needs_python,
    needs_sandbox,
    request,
    said,
)
from tests.paths import REPOSITORY

pytestmark = [needs_sandbox, needs_python]
BASES = ("/tmp", "/srv" if ROOT else str(Path.home()))


@pytest.fixture(params=BASES)
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the user's, below `/tmp` and elsewhere."""
    folder = Path(tempfile.mkdtemp(prefix="radrm-box-", dir=request.param))
    (folder / "data").mkdir()
    (folder / "data" / "train.bin").write_bytes(bytes(1000))
    (folder / "checkpoint.pt").write_text("epoch 7")
    (folder / "results.csv").write_text("a,b\n")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER if ROOT else -1)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user."""
    words = {"user": USER, "group": USER, "extra_groups": []} if ROOT else {}
    process = subprocess.Popen(["sleep", "600"], cwd="/", **words)
    yield process
    process.kill()
    process.wait()


def contents(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else sorted(os.listdir(path)),
        )
        for path in (folder, *folder.rglob("*"))
    }


WRITES = """
import mmap, shutil, tempfile
seen = {}
with open("data/train.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
    mapped[:4] = b"gone"
    mapped.flush()
seen["mapped"] = open("data/train.bin", "rb").read(4).decode()
open("checkpoint.pt", "w").write("epoch 8")
open("results.csv", "a").write("1,2\\n")
seen["checkpoint"], seen["results"] = open("checkpoint.pt").read(), open("results.csv").read()
os.chmod("checkpoint.pt", 0o600)
shutil.rmtree("data")
seen["deleted"] = not os.path.exists("data")
os.mkdir("out"); os.symlink("/etc", "out/link"); os.rename("results.csv", "out/moved.csv")
os.truncate("out/moved.csv", 0)
os.makedirs(os.path.expanduser("~/.cache/torch"), exist_ok=True)
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    with tempfile.NamedTemporaryFile(dir=folder, prefix="radrm-box-", delete=False) as file:
        file.write(b"x")
    seen[folder] = os.path.getsize(file.name)
say({"said": seen})
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_script_sees_what_it_writes_and_nothing_is_changed(way: Way, home: Path) -> None:
    before = contents(home)
    others = {folder: set(os.listdir(folder)) for folder in ("/tmp", "/var/tmp", "/dev/shm")}
    seen = said(way, WRITES, home)
    assert seen == {
        "mapped": "gone",
        "checkpoint": "epoch 8",
        "results": "a,b\n1,2\n",
        "deleted": True,
        "/tmp": 1,
        "/var/tmp": 1,
        "/dev/shm": 1,
    }
    assert contents(home) == before
    for folder, names in others.items():
        new = set(os.listdir(folder)) - names
        assert not [name for name in new if os.stat(f"{folder}/{name}").st_uid == USER and ROOT]


@pytest.mark.parametrize("way", WAYS)
def test_folders_can_be_made_anew(way: Way, home: Path) -> None:
    """Kernels before 6.6 cannot do this for users: a folder in memory has no attributes."""
    text = """
import shutil
shutil.rmtree("data"); os.mkdir("data")
say({"said": os.listdir("data")})
"""
    if way is not by_own_daemon or _kernel() >= (6, 6):
        assert said(way, text, home) == []


def _kernel() -> tuple[int, ...]:
    return tuple(int(word) for word in os.uname().release.split("-")[0].split(".")[:2])


PROCESSES = """
import ctypes, glob
libc = ctypes.CDLL(None)
victim = {victim}
seen = {{
    "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "kill": error_of(os.kill, victim, 9),
    "ptrace": libc.ptrace(16, victim, 0, 0),
    "ptrace of the first": libc.ptrace(16, 1, 0, 0),
    "root": os.path.exists("/proc/1/root/run/systemd"),
    "memory": error_of(open, "/proc/1/mem", "r+b"),
    "environment": error_of(open, "/proc/1/environ"),
    "descriptors": error_of(os.listdir, "/proc/1/fd"),
    "setting": error_of(open, "/proc/sys/kernel/hostname", "w"),
    "memory queue": libc.shmget(0x5eed, 0, 0),
}}
say({{"said": seen}})
error_of(os.kill, 1, 9)
error_of(os.kill, -1, 9)
"""


@pytest.mark.parametrize("way", WAYS)
def test_other_processes_are_out_of_reach(
    way: Way, home: Path, victim: subprocess.Popen[bytes]
) -> None:
    seen = said(way, PROCESSES.format(victim=victim.pid), home)
    assert len(seen.pop("processes")) == 2, "its own and the one that waits for it"
    assert seen.pop("kill") == 3 and seen.pop("setting") in (13, 30)
    assert seen.pop("root") is False
    assert set(seen.values()) <= {-1, 13, 30}, seen
    assert victim.poll() is None


SOCKETS = """
import multiprocessing, socket
def reach(family, address):
    with socket.socket(family) as one:
        one.settimeout(2)
        one.connect(address)
seen = {{path: error_of(reach, socket.AF_UNIX, path) for path in {paths!r}}}
seen["abstract"] = error_of(reach, socket.AF_UNIX, "\\0{abstract}")
seen["port"] = error_of(reach, socket.AF_INET, ("127.0.0.1", {port}))
seen["virtual machine"] = error_of(reach, 40, (2, 1))
seen["datagrams"] = error_of(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
with socket.create_server(("127.0.0.1", 0)) as server:
    seen["itself"] = error_of(reach, socket.AF_INET, server.getsockname())
with multiprocessing.Pool(1) as pool:
    seen["a pool"] = pool.map(abs, [-1])
seen["networks"] = [name for _, name in socket.if_nameindex()]
say({{"said": seen}})
"""


@pytest.mark.parametrize("way", WAYS)
def test_no_socket_and_no_network_is_reached(way: Way, home: Path) -> None:
    with contextlib.ExitStack() as stack:
        paths = [str(home / "socket"), *(["/run/radrm-box.socket"] if ROOT else [])]
        servers = [socket.create_server(("127.0.0.1", 0))]
        abstract = f"radrm-box-{os.getpid()}"
        for address in (*paths, f"\0{abstract}"):
            server = socket.socket(socket.AF_UNIX)
            servers.append(server)
            server.bind(address)
            server.listen()
            if not address.startswith("\0"):
                stack.callback(os.unlink, address)
                os.chmod(address, 0o777)
        for server in servers:
            stack.enter_context(server)
        port = servers[0].getsockname()[1]
        seen = said(way, SOCKETS.format(paths=paths, abstract=abstract, port=port), home)
        assert select.select(servers, [], [], 0)[0] == []
    assert seen.pop("a pool") == [1] and seen.pop("itself") is None
    assert seen.pop("networks") == ["lo"]
    assert set(seen.values()) == {97, 111}, seen
    assert seen["port"] == 111


RIGHTS = """
import ctypes, stat
libc = ctypes.CDLL(None, use_errno=True)
def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
def refused(call, *words):
    return call(*words) != 0
seen = {
    "mount": refused(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None),
    "remount": refused(libc.mount, None, b"/", None, 32 | 4096, None),
    "umount": refused(libc.umount2, b"/run", 2),
    "chroot": refused(libc.chroot, b"/tmp"),
    "user namespace": refused(libc.unshare, 0x10000000),
    "its namespaces": refused(libc.setns, os.open("/proc/1/cmdline", 0), 0),
    "keys": libc.syscall(250 if os.uname().machine == "x86_64" else 219, 0, -4, 0) == -1,
    "a device": error_of(os.mknod, "/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0)) == 1,
    "harmless devices": len(os.urandom(3)) + len(open("/dev/zero", "rb").read(3)) == 6,
    "no others": sorted(os.listdir("/dev")) == sorted(
        "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero".split()),
    "pipes with a name": error_of(os.open, PIPE, os.O_WRONLY | os.O_NONBLOCK) == 6,
    "nothing is open": not {fd for fd in range(3, 100) if target(fd).startswith("pipe:")},
    "changes no device": error_of(os.chmod, "/dev/null", 0o600) is not None,
}
with open("/proc/self/status") as file:
    fields = dict(line.split(":", 1) for line in file)
seen["no new rights"] = int(fields["NoNewPrivs"]) == 1
seen["no rights"] = all(int(fields[n], 16) == 0 for n in ("CapPrm", "CapEff", "CapBnd", "CapAmb"))
seen["nice"] = os.nice(0) >= 10
pid, terminal = os.forkpty() if hasattr(os, "forkpty") else (1, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
say({"said": [name for name, fine in seen.items() if not fine]})
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_script_has_no_rights_and_gets_none(way: Way, home: Path) -> None:
    pipe = home / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert said(way, f"PIPE = {str(pipe)!r}\n{RIGHTS}", home) == []
    finally:
        os.close(reader)


UNREADABLE = """
seen = {{path: error_of(open, path) for path in {paths!r}}}
seen["folder"] = error_of(os.listdir, {folder!r})
seen["written"] = error_of(open, {paths!r}[0], "a")
say({{"said": seen}})
"""


@pytest.mark.skipif(not ROOT, reason="only root can make files that the user cannot read")
@pytest.mark.parametrize("way", WAYS)
def test_what_the_user_cannot_read_stays_unreadable(way: Way, home: Path) -> None:
    secret, hidden = home / "secret", home / "hidden"
    hidden.mkdir()
    for path in (secret, hidden / "deep"):
        path.write_text("secret")
    secret.chmod(0o600)
    (hidden / "deep").chmod(0o644)
    hidden.chmod(0o700)
    paths = [str(secret), str(hidden / "deep"), "/etc/shadow", "/proc/1/root/etc/shadow"]
    text = UNREADABLE.format(paths=[p for p in paths if os.path.exists(p)], folder=str(hidden))
    seen = said(way, text, home)
    assert set(seen.values()) == {13}, seen
    private = Path(tempfile.mkdtemp(dir="/srv"))  # root's alone, and itself a place of an overlay
    try:
        (private / "open").write_text("x")
        (private / "open").chmod(0o644)
        text = UNREADABLE.format(paths=[str(private / "open")], folder=str(private))
        asked = request(text, private, HOME=str(private))
        home.chmod(0o755)
        document = json.loads(way(asked))
        assert "cannot enter the folder" in document["error"]
    finally:
        shutil.rmtree(private)


GREEDY = """
import resource
seen = {}
def fill(path):
    with open(path, "wb") as file:
        for _ in range(40):
            file.write(bytes(256 << 20))
import errno, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
seen["full"] = error_of(fill, "/dev/shm/big") in (errno.ENOSPC, errno.EFBIG)
os.unlink("/dev/shm/big")
seen["all"] = os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
names = ("CPU", "NPROC", "CORE", "DATA")
seen |= {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in names}
say({"said": seen})
"""


def test_memory_files_and_processes_are_limited(home: Path) -> None:
    # More than this process has: its fork sets the limits.
    small = EstimationConfig(trace_limit_s=40.0, trace_memory_mib=2048)
    seen = json.loads(by_own_daemon(request(GREEDY, home), small))["said"]
    most = 1 << 30
    assert seen["full"] and seen["all"] == most
    assert (seen["CPU"], seen["CORE"], seen["DATA"]) == (160, 0, 2 << 30)
    assert seen["NPROC"] <= confine.MOST_PROCESSES or sandbox_is_together()


def sandbox_is_together() -> bool:
    done = subprocess.run(start_tracer.PROBE, capture_output=True, text=True)
    return done.stdout.strip() == start_tracer.TOGETHER


BOMB = """
import time
made = 0
try:
    while made < 5000:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        made += 1
except OSError:
    pass
say({"said": made})
"""


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
@pytest.mark.parametrize("way", WAYS)
def test_a_script_that_forks_without_end_meets_its_limit_and_leaves_nothing(
    way: Way, home: Path
) -> None:
    assert said(way, BOMB, home) == confine.MOST_PROCESSES - 2
    assert confine.tasks_of(USER) == 0


def test_too_much_memory_ends_the_trace(home: Path) -> None:
    small = EstimationConfig(trace_limit_s=40.0, trace_memory_mib=256)
    text = """
import time
for _ in range(4):
    if os.fork() == 0:
        kept = b"x" * (100 << 20)
        time.sleep(600)
time.sleep(600)
"""
    document = json.loads(by_own_daemon(request(text, home), small))
    assert "256 MiB of host memory" in document["error"]


@pytest.mark.skipif(not ROOT, reason="only root can mount for another user")
@pytest.mark.parametrize("way", [0, 1], ids=["root's daemon", "the user's daemon"])
def test_what_is_mounted_below_a_users_folder_is_seen_and_not_changed(way: int, home: Path) -> None:
    """Folders with a mount in them, blanks in their names, and a link on the way to them."""
    nested = home / "a b" / "mounted"
    nested.mkdir(parents=True)
    (home / "link").symlink_to(nested)
    text = """
open("new", "w").write("x"); os.unlink("old")
with open("sub/deep", "a") as file:
    file.write("y")
seen = error_of(open, "../beside", "w")
say({"said": [sorted(os.listdir(".")), open("sub/deep").read(), seen]})
"""
    code = f"""
import json, os, subprocess, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from tests.host.estimation import boxes
subprocess.run(["mount", "-t", "tmpfs", "none", {str(nested)!r}], check=True)
os.chdir({str(nested)!r})
os.mkdir("sub"); open("old", "w").write("o"); open("sub/deep", "w").write("x")
for path in (".", "old", "sub", "sub/deep", "..", "../.."):
    os.chown(path, boxes.USER, boxes.USER)
way = (boxes.by_roots_daemon, boxes.by_own_daemon)[{way}]
print(json.dumps(boxes.said(way, {text!r}, Path({str(home)!r}, "link"))))
print(json.dumps([sorted(os.listdir(".")), open("sub/deep").read(), os.listdir("..")]))
"""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    seen, left = map(json.loads, done.stdout.splitlines())
    # For a user the kernel lets nothing cover a folder with a mount in it.
    assert seen == [["new", "sub"], "xy", 30 if way else None]
    assert left == [["old", "sub"], "x", ["mounted"]]


@pytest.mark.skipif(not ROOT, reason="only root can give files away")
def test_files_of_another_group_are_changed_by_roots_daemon_only(home: Path) -> None:
    os.chown(home / "results.csv", USER, 0)
    text = 'open("results.csv", "a").write("1,2\\n")\nsay({"said": open("results.csv").read()})\n'
    assert said(by_roots_daemon, text, home) == "a,b\n1,2\n"
    document = json.loads(by_own_daemon(request(text, home)))
    assert "cannot change files of other groups" in document["error"]
    assert (home / "results.csv").read_text() == "a,b\n"


# ------------------------------------------------------------------ where there is no sandbox


def test_without_a_sandbox_nothing_of_the_users_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(flags: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(kernel, "unshare", refused)
    document = json.loads(by_own_daemon(request(WRITES, home)))
    assert "allows no sandbox for traces (Operation not permitted); " in document["error"]


@pytest.mark.parametrize("factory", [False, True])
def test_only_the_callers_own_factory_is_traced_without_a_sandbox(
    home: Path, monkeypatch: pytest.MonkeyPatch, factory: bool
) -> None:
    refusing = home / "refusing.py"
    refusing.write_text(
        "import os, sys\n"
        """os.write(int(sys.argv[1]), b'{"version": 1, "error": "no sandbox; do this"}')\n"""
        f"sys.exit({start_tracer.NO_SANDBOX})\n"
    )
    monkeypatch.setattr(start_tracer, "__file__", str(refusing))
    python = home / "python3"
    python.write_text(
        "#!/bin/sh\nfor word; do case $word in --output=*) path=${word#--output=};; esac; done\n"
        """echo '{"version": 1, "said": "traced"}' > "$path"\n"""
    )
    python.chmod(0o755)
    asked = request(WRITES, home, PATH=f"{home}:/usr/bin:/bin")
    if factory:
        asked = replace(asked, program=None)
        assert json.loads(trace(asked, LIMITS, own=True))["said"] == "traced"
    with pytest.raises(NotTraced, match="no sandbox; do this"):
        trace(asked, LIMITS, own=not factory)


@pytest.mark.parametrize("machine", call_filter.CALLS)
def test_jumps_of_the_filter_stay_in_it(machine: str) -> None:
    steps = call_filter.filter_of(machine)
    for at, (_, yes, no, _) in enumerate(steps):
        assert at + 1 + max(yes, no) < len(steps) or steps[at][0] == 0x06
    with pytest.raises(OSError, match="not known"):
        call_filter.filter_of("pdp11")


@pytest.mark.parametrize(
    ("launch", "written", "read"),
    [
        (
            {"argv": ["python", "train.py", "--out=/data/o", "/x/../y"]},
            ["/home/u/job", "/home/u", "/data/o", "/y"],
            ["/usr/bin"],
        ),
        (
            {"script": "cd /tmp/project; python /tmp/a.py > /dev/null", "interpreter": ["/bin/sh"]},
            ["/home/u/job", "/home/u"],
            ["/bin/sh", "/usr/bin", "/tmp/project", "/tmp/a.py"],
        ),
    ],
)
def test_the_paths_that_a_job_names(
    launch: dict[str, object], written: list[str], read: list[str]
) -> None:
    base: dict[str, object] = {
        "argv": None, "script": None, "interpreter": None, "reads": [], "cwd": "/home/u/job",
        "environment": {"HOME": "/home/u", "PATH": "/usr/bin:bin"},
    }  # fmt: skip
    assert sandbox.paths_of(base | launch) == (written, read)
