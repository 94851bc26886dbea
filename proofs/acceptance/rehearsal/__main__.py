"""`python -m proofs.acceptance.rehearsal [--layout one|two|mig|caps] ...`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from proofs.acceptance.hardware import IMAGE
from proofs.acceptance.main import main
from proofs.acceptance.report import REHEARSAL
from tests.paths import BIN
from tests.standins.nvml_state import H100, Nvml, compile_library

HERE = Path(__file__).parent


UUID = "GPU-11111111-2222-3333-4444-555555555555"


def add_gpus(nvml: Nvml, layout: str) -> None:
    """One H100 (`caps`: of R615), two of them, or one that is cut into three MIG instances."""
    limits = {"memory_limits": 1} if layout == "caps" else {}
    nvml.gpu(UUID, model={**H100, **limits}, power_mw=90_000)
    if layout == "two":
        nvml.gpu(UUID.replace("1", "2"), model=H100, power_mw=90_000)
    elif layout == "mig":
        # Two compute instances in one GPU instance, and one with an instance of its own.
        for place, profile in enumerate(("1c.2g.20gb", "1c.2g.20gb", "1g.10gb")):
            numbers = {"gpu_instance": 1 + place // 2, "compute_instance": place % 2}
            nvml.mig(UUID, profile, f"MIG-{place}1111111-2222-3333-4444-555555555555", **numbers)


def prepare(folder: Path, layout: str) -> dict[str, str]:
    """What the environment needs so that the stand-ins are found."""
    nvml = Nvml(folder / "nvml-state", compile_library(folder / "lib"))
    cuda = folder / "lib" / "libcuda.so.1"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(cuda), str(HERE / "cuda.c")]
    subprocess.run(command, check=True)
    add_gpus(nvml, layout)
    (folder / "mps.json").write_text("{}")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for place in (BIN / "nvidia-cuda-mps-control", *(HERE / "bin").iterdir()):
        shutil.copy(place, bin_folder / place.name)
    paths = [str(HERE / "modules"), os.environ.get("PYTHONPATH", "")]
    # The programs in `bin` are run by this Python: they import pynvml.
    first = f"{bin_folder}:{Path(sys.executable).parent}"
    return {
        **nvml.environment,
        "CUDA_VISIBLE_DEVICES": "0",
        REHEARSAL: "1",
        IMAGE: "stand-in",
        "MPS_STANDIN_STATE": str(folder / "mps.json"),
        "PATH": f"{first}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def rehearse(words: list[str]) -> int:
    layout = "one"
    if "--layout" in words:
        place = words.index("--layout")
        _, layout = words[place : place + 2]
        words = words[:place] + words[place + 2 :]
    folder = Path(tempfile.mkdtemp(prefix="rgr", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "nvml-state").touch()
    try:
        os.environ.update(prepare(folder, layout))
        (folder / "nvml-state").chmod(0o666)  # clients of other users note their memory there
        (folder / "nvml-state.calls").touch(0o666)
        (folder / "nvml-state.calls").chmod(0o666)
        return main(words)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(rehearse(sys.argv[1:]))
