"""Measure how the speed of a GPU job depends on its CPU share, on a real GPU.

    python -m benchmarks.gpu_shares [SECONDS]

A share of the CPUs matters to a GPU job as far as it waits for them. Three training loops show how
far: one with long kernels, one with short kernels (the CPU launches them), and one whose batches
the CPU prepares. Each runs alone under falling CPU limits. It needs PyTorch, a GPU and control
groups; without them it says so, and prints no figure.
"""

from __future__ import annotations

import os
import subprocess
import sys

from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers, prepare
from radrm.host.processes.limits import Limits

LOOPS = {"long kernels": (4096, 0), "short kernels": (64, 0), "batches by the CPU": (1024, 200)}
"""Width of the layers, and thousands of numbers that the CPU sorts for each step."""
CAPS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)
PROGRAM = """
import sys, time
sys.stdin.readline()  # until this process is in its control group
import torch
width, thousands, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
layers = [torch.nn.Linear(width, width) for _ in range(16)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
batch = torch.randn(128, width, device="cuda")

def step():
    if thousands:
        torch.rand(1000 * thousands).sort()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()

for _ in range(10):
    step()
torch.cuda.synchronize()
begun, steps = time.monotonic(), 0
while time.monotonic() < begun + seconds:
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    steps += 5
print(steps / (time.monotonic() - begun))
"""


def why_not(controllers: Controllers) -> str | None:
    """Why nothing can be measured here; None if it can."""
    if controllers.cpu is None:
        return controllers.shares_refused
    look = "import torch; print(torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    if done.returncode != 0:
        return "PyTorch cannot be imported"
    return None if done.stdout.strip() == "True" else "PyTorch finds no GPU"


def rate(controllers: Controllers, loop: tuple[int, int], cpus: float, seconds: float) -> float:
    """Steps per second of a loop with so many CPUs. Raises `RuntimeError` if it fails."""
    group = controllers.groups(f"radrm-0-{os.urandom(4).hex()}")["cpu"]
    assert group is not None
    words = [sys.executable, "-c", PROGRAM, *map(str, loop), str(seconds)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        try:
            refused = Limits(cpu=group, cpus=cpus).apply()
            if refused is None and not cgroups.join(group, job.pid):
                refused = f"the program cannot be moved into {group}"
            if refused is not None:
                raise RuntimeError(refused)
            output, _ = job.communicate("go\n")
        except BaseException:
            job.kill()
            raise
        finally:
            job.wait()
            cgroups.remove(group)
    if job.returncode != 0:
        raise RuntimeError(f"the program failed with exit code {job.returncode}")
    return float(output)


def main(seconds: float) -> int:
    """Print steps per second by CPU limit, and the part of the speed without one."""
    controllers = prepare()
    reason = why_not(controllers)
    if reason is not None:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 1
    here = len(os.sched_getaffinity(0))
    caps = [float(here), *(cap for cap in CAPS if cap < here)]
    print("| CPUs | " + " | ".join(LOOPS) + " |")
    print("|---|" + "---|" * len(LOOPS))
    best: dict[str, float] = {}
    for cap in caps:
        cells = []
        for name, loop in LOOPS.items():
            found = rate(controllers, loop, cap, seconds)
            best.setdefault(name, found)
            cells.append(f"{found:.1f}/s ({found / best[name]:.0%})")
        print(f"| {cap:g} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0))
