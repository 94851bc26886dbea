"""The report's page of a made week on simulated GPUs, and its picture: docs/pictures/reports.png.

    python -m benchmarks.past.page docs/pictures/reports.png  # two minutes; needs Chromium, Pillow

Jobs arrive at random, with fixed dice. Some declare less memory than they take.
"""

from __future__ import annotations

import os
import random
import sys
import time
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

_GPUS = "sim:3xA100-40GB,1xA100-40GB:3g.20gb+2g.10gb+2g.10gb"
_SCALE = 1800.0
_JOBS = 70
_MEAN_GAP_S = 1.2
_NAMES = ("resnet50", "bert-base", "unet", "gpt2-small", "vit-b16", "eval", "sweep")
_SIZE = {"width": 1180, "height": 1830}
_COLOURS = 128


def page(home: DaemonHome) -> str:
    """Run the jobs; return the page about them."""
    dice = random.Random(8)
    for _ in range(_JOBS):
        mib = dice.choice((6, 9, 12, 16, 22, 26)) * 1024
        part = dice.choice((1.1, 1.1, 1.2, 0.4))
        said, ramp = int(mib * part), "9000" if part < 1 else "300"
        seconds = dice.randrange(3000, 24_000)
        options = [f"--name={dice.choice(_NAMES)}", f"--gpu-memory={said}M"]
        options += ["--gpus=2"] if dice.random() < 0.08 else []
        options += [f"--time={int(seconds * 0.6)}"] if dice.random() < 0.1 else []
        command = (
            f"radrm-simjob --gpu-memory {mib} --smact {dice.uniform(0.1, 0.5):.2f} "
            f"--seconds {seconds} --ramp {ramp} || exit; exit {int(dice.random() < 0.08)}"
        )
        home.radrm("submit", *options, "--", "sh", "-c", command)
        time.sleep(dice.expovariate(1 / _MEAN_GAP_S))
    wait_until(lambda: not home.ask("status"), "all jobs to end", patience_s=300.0)
    return home.radrm("report", "--html", "-", "--since", "7d").stdout


def picture(text: str, path: str) -> None:
    """Draw the upper part of the page into a PNG file of few colours."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "report.html")
        file.write_text(text)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        sheet = browser.new_page(viewport=_SIZE, color_scheme="light")
        sheet.goto(file.as_uri())
        drawn = sheet.screenshot()
        browser.close()
    Image.open(BytesIO(drawn)).convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def main() -> int:
    with TemporaryDirectory(prefix="radrm-page-") as folder:
        home = DaemonHome(Path(folder), _GPUS, _SCALE)
        home.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            home.start()
            text = page(home).replace(os.uname().nodename, "gpu-server")
        finally:
            home.close()
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text)
    picture(text, sys.argv[1])
    print(f"{sys.argv[1]}: {os.path.getsize(sys.argv[1])} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
