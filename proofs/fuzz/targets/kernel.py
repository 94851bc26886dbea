"""What the kernel tells: /proc and control groups. Processes and mounts of users name themselves.

The kernel writes these files, so most of an input here could never be there. What could be is in
the names: of a process, a mount, a group, a variable.
"""

from __future__ import annotations

from pathlib import Path

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from proofs.fuzz.mutations import as_bytes
from radrm.config import NodeConfig
from radrm.host.attempts import containers
from radrm.host.gpus import exporter, processes
from radrm.host.node import NodeWatch
from radrm.host.processes import cgroups, counted, procfs, tree
from radrm.host.processes.limits import Limits

_STAT = (
    "4711 (python) S 4700 4711 4711 34816 4711 4194304 100 0 0 0 12 3 0 0 20 0 1 0 123456 "
    "10000000 500 18446744073709551615 1 1 0 0 0 0 0 16781312 134235906 0 0 0 17 1 0 0 0 0 0 "
    "94000000 94000100 95000000 140720000000000 140720000000100 140720000000100 140720000000200 0"
)
_STATUS = """Name:\tpython
Umask:\t0022
State:\tS (sleeping)
Pid:\t4711
PPid:\t4700
Uid:\t1000\t1000\t1000\t1000
Gid:\t1000\t1000\t1000\t1000
NSpid:\t4711\t1
SigCgt:\t0000000180004202
"""
_ID = "0123456789abcdef" * 4
_CGROUP = f"""12:cpu,cpuacct:/user.slice
11:memory:/docker/{_ID}
1:name=systemd:/system.slice/docker-{_ID}.scope
0::/user.slice/apptainer-77.scope/libpod-{_ID}
"""
_MOUNTINFO = """22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
46 22 0:22 / /sys rw - sysfs sysfs rw
48 46 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
49 46 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
58 46 0:38 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw
90 22 0:50 / /home/ann/mnt rw,nosuid - fuse.sshfs ann@host:/ rw,user_id=1000
"""
_ENVIRON = "PATH=/bin\0HOME=/home/ann\0RADRM_TOKEN=0123456789abcdef\0CUDA_VISIBLE_DEVICES=0\0"
_TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout
   0: 0100007F:24B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 1234
"""


def _stat(data: bytes) -> None:
    with scratch.proc_shows(procfs, data):
        found = procfs.read_stat(1)
        if found is not None:
            assert 0 <= found.environ_bytes <= procfs.LONGEST_ENVIRON


def _status(data: bytes) -> None:
    with (
        scratch.proc_shows(procfs, data),
        scratch.proc_shows(containers, data),
        scratch.proc_shows(processes, data[:4096]),
    ):
        uid = procfs.uid_of(1)
        assert processes._status(1)[0] == uid or len(data) > 4096
        tree.has_signal(1, 10, b"SigCgt")
        containers.Containers()._begins(1)


def _named(text: str) -> None:
    """A process that gives itself a name of up to 15 bytes is still its user's."""
    name = text.encode("utf-8", "surrogatepass")[:15].replace(b"\0", b"")
    name = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    data = _STATUS.encode().replace(b"python", name)
    with scratch.proc_shows(procfs, data):
        assert procfs.uid_of(1) == 1000, name
        assert tree.has_signal(1, 2, b"SigCgt") and not tree.has_signal(1, 3, b"SigCgt"), name


def _cgroup(data: bytes) -> None:
    with scratch.proc_shows(containers, data):
        containers.Containers()._groups(1)
    _looked_at(data, _MOUNTINFO.encode())


def _mountinfo(data: bytes) -> None:
    _looked_at(_CGROUP.encode(), data)


def _looked_at(cgroup: bytes, mountinfo: bytes) -> None:
    scratch.file("proc/self/cgroup", cgroup)
    proc = scratch.file("proc/self/mountinfo", mountinfo).parent.parent
    for controller in ("", "cpu", "memory"):
        cgroups.own_group(controller, str(proc))
    NodeWatch(NodeConfig(cpus=4), f"{proc}/self").look()


def _mounted(text: str) -> None:
    """Whatever users call the folders on which they mount, the daemon finds its own group."""
    name = as_bytes(text)
    for plain in (b"\\", b" ", b"\t", b"\n", b"#"):  # as the kernel does it
        name = name.replace(plain, b"\\%03o" % plain[0])
    mount = b"91 22 0:51 / /home/ann/" + name.replace(b"\0", b"") + b" rw - fuse.x y rw,user_id=1\n"
    scratch.file("proc/self/cgroup", _CGROUP.encode())
    proc = scratch.file("proc/self/mountinfo", mount + _MOUNTINFO.encode()).parent.parent
    assert cgroups.own_group("cpu", str(proc)) == "/sys/fs/cgroup/cpu/user.slice"
    NodeWatch(NodeConfig(cpus=4), f"{proc}/self").look()


def _environ(data: bytes) -> None:
    scratch.file("proc/4711/environ", data)
    token = procfs.token_of(4711, str(scratch.place("proc")))
    assert token is None or (len(token) <= 256 and "\0" not in token)


def _cmdline(data: bytes) -> None:
    with scratch.proc_shows(processes, data):
        words = processes._command(1)
    assert words is None or (words.isprintable() and len(words) <= processes.LONGEST), words


def _listeners(data: bytes) -> None:
    with scratch.proc_shows(exporter, data):
        assert all(uid >= 0 for uid in exporter.listeners(9400))


def _counts(data: bytes) -> None:
    group = Path(scratch.place("group"))
    for name in ("cgroup.procs", "cpu.stat", "memory.current", "io.stat", "cpuacct.usage"):
        scratch.file(f"group/{name}", data)
    scratch.file("group/memory.usage_in_bytes", data)
    cgroups.processes(str(group))
    cgroups.counts(str(group), "cpu.stat")
    counted.counted(str(group), Limits())
    counted.counted(None, Limits(memory=str(group), account=str(group)))


TARGETS = (
    Target("proc-stat", (_STAT,), _stat, bytes=True),
    Target("proc-status", (_STATUS,), _status, bytes=True),
    Target("proc-name", ("python", "\rUid:\t0", "SigCgt:\t0", "a) R 1 (b"), _named),
    Target("proc-cgroup", (_CGROUP,), _cgroup, bytes=True),
    Target("proc-mountinfo", (_MOUNTINFO,), _mountinfo, bytes=True),
    Target("mount-name", ("data", "my files", "a - cgroup cgroup rw,cpu"), _mounted),
    Target("proc-environ", (_ENVIRON,), _environ, bytes=True, most=(6 << 20) + 4096),
    Target("proc-cmdline", ("python\0train.py\0--lr=0.1\0",), _cmdline, bytes=True),
    Target("proc-net-tcp", (_TCP,), _listeners, bytes=True),
    Target(
        "cgroup-files",
        ("4711\n4712\n", "usage_usec 123\nuser_usec 100\n", "8:0 rbytes=90 wbytes=7 rios=1\n"),
        _counts,
        bytes=True,
    ),
)
