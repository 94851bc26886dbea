"""Record what radrm asks of NVML: of NVIDIA's mock, for each of its models, or of the driver here.

    python -m tests.standins.layouts.record FOLDER
    python -m tests.standins.layouts.record --here [UID]

The second form prints the recording, of this user or of another one that it becomes: run as root
and as a user without rights, it says what needs rights. FOLDER has the mock as it is built:
libnvidia-ml.so.1, and configs/mock-nvml-config-MODEL.yaml. CONTRIBUTING.md says how to build it.
The tests that play the recordings need no mock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from radrm.core.records import Instant
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvml import Found, NvmlGpus
from radrm.host.gpus.nvml import library as loading
from radrm.host.health import gpus as health
from tests.standins.layouts.recorded import LAYOUTS, Player, Recorder, layouts

CONFIG = "configs/mock-nvml-config-{}.yaml"
ROUNDS = 3
_APART_S = 0.15
"""Between two rounds of readings: GPM needs more than 0.1 s."""


def models(folder: Path) -> list[str]:
    """The models that a mock has."""
    before, _, after = Path(CONFIG).name.partition("{}")
    files = folder.glob(f"configs/{before}*{after}")
    return sorted(file.name.removeprefix(before).removesuffix(after) for file in files)


def environment(folder: Path, model: str) -> dict[str, str]:
    """What a process needs to find the mock of a model in place of a driver."""
    library = os.path.abspath(folder / "libnvidia-ml.so.1")
    config = os.path.abspath(folder / CONFIG.format(model))
    return {loading.VARIABLE: library, "MOCK_NVML_CONFIG": config}


def ask(recorder: Recorder | Player) -> None:
    """List and read the GPUs as a daemon does, and look at them as `radrm doctor` does."""
    gpus = NvmlGpus(recorder)
    devices = gpus.devices()
    feed = Gpm(gpus)
    feed.start(devices)
    for number in range(ROUNDS):
        gpus.read(
            [device.uuid for device in devices], Instant(60.0 * number, 0.0), lambda pid: None
        )
        for device in devices:
            feed.latest(device.uuid)
        time.sleep(_APART_S)
    gpus.close()
    health.look(recorder, Found(gpus))


def main(words: list[str]) -> None:
    if words[:1] == ["--here"]:
        loading.load()
        ask(Player(layouts()[0]))  # it imports what another user may not be able to read
        if words[1:]:
            os.setgroups([])
            os.setgid(int(words[1]))
            os.setuid(int(words[1]))
        recorder = Recorder()
        ask(recorder)
        print(recorder.text())
    elif len(words) == 1:
        for model in models(Path(words[0])):
            command = [sys.executable, "-m", "tests.standins.layouts.record", "--one", model]
            subprocess.run(
                command, env={**os.environ, **environment(Path(words[0]), model)}, check=True
            )
    elif len(words) == 2 and words[0] == "--one":
        loading.load()
        recorder = Recorder()
        ask(recorder)
        (LAYOUTS / f"{words[1]}.json").write_text(recorder.text())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
