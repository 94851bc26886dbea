"""What programs that measure print: DCGM, dcgm-exporter, nvidia-smi, MPS; and stored GPU states."""

from __future__ import annotations

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from radrm.host.gpus.dcgm import parse_discovery, parse_hierarchy, parse_row
from radrm.host.gpus.exporter import Pages, parse_metrics
from radrm.host.gpus.nvidia_smi import parse_app, parse_gpu, parse_missing
from radrm.host.mps import control

_UUID = "GPU-6b1e2c3d-0a1b-2c3d-4e5f-60718293a4b5"
_DMON = """#Entity   SMACT
ID
GPU 0     0.532
GPU-I 3   N/A
GPU 1     1.004
"""
_DISCOVERY = f"""1 GPU found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA A100-SXM4-40GB                                          |
|        | PCI Bus ID: 00000000:07:00.0                                         |
|        | Device UUID: {_UUID}                |
+--------+----------------------------------------------------------------------+
"""
_HIERARCHY = f"""+-------------------+
| GPU {_UUID} (EntityID: 0) |
| -> I 0/1 1g.5gb GPU Instance (EntityID: 3) |
|    -> CI 0/1/0 1c.1g.5gb Compute Instance (EntityID: 4) |
+-------------------+
"""
_METRICS = f"""# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{_UUID}",modelName="A100",Hostname="h"}} 0.532
DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{_UUID}",GPU_I_ID="3",pod="a\\"b"}} 0.25 1700000000000
"""
_GPU = f"{_UUID}, 0, NVIDIA A100-SXM4-40GB, 40960, 420, 1024, 35, 143.21, Disabled"
_MISSING = f"{_UUID}, [N/A], [Not Supported]"


def _dmon(text: str) -> None:
    for line in text.split("\n"):
        row = parse_row(line.strip())
        smact = row[1] if isinstance(row, tuple) else None
        assert smact is None or 0 <= smact <= 1


def _metrics(text: str) -> None:
    pages = Pages()
    pages.take(text, 1.0)
    pages.take(text + "\n", 2.0)
    found = parse_metrics(text)
    assert all(0 <= smact <= 1 for smact in found.smact.values())
    assert not any(len(why.splitlines()) > 1 for why in found.wrong.values())
    for place in found.smact:
        pages.latest(place, 3.0)
        pages.error(place, 3.0)


def _csv(text: str) -> None:
    for line in text.split("\n"):
        found = parse_gpu(line)
        assert found is None or found.utilization is None or 0 <= found.utilization <= 1
        parse_app(line)
        parse_missing(line)


def _mps(text: str) -> None:
    with scratch.proc_shows(control, text.encode("utf-8", "surrogatepass")):
        control.user_of(1)
        control._environment_of(1)
        control._command_of(1)
    assert all(pid >= 0 for pid in control._pids(text))
    assert control._first_line(text).isprintable() or not control._first_line(text)


def _pid_file(data: bytes) -> None:
    pipes = scratch.file("mps/nvidia-cuda-mps-control.pid", data).parent
    assert control.Control(str(pipes), str(pipes), "GPU-0").process() is None


TARGETS = (
    Target("dcgmi-dmon", (_DMON,), _dmon),
    Target("dcgmi-discovery", (_DISCOVERY,), parse_discovery),
    Target("dcgmi-hierarchy", (_HIERARCHY,), parse_hierarchy),
    Target("dcgm-exporter", (_METRICS,), _metrics, most=1 << 20),
    Target("nvidia-smi-csv", (_GPU, f"{_UUID}, 4711, 1024", _MISSING), _csv),
    Target("mps-answers", ("4711\n4712\n", "Server status: ACTIVE\n", "100.0\n"), _mps),
    Target("mps-pid-file", ("4711\n",), _pid_file, bytes=True),
)
