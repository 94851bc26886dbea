"""Draw the pictures of docs/page.md: the page of a real daemon on simulated GPUs, in Chromium.

    python -m tools.pictures.page

It needs Debian's chromium. Every run differs a little, as times do.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 100_000
_RADRM = (sys.executable, "-m", "radrm.cli.main")
_SCALE = "30"
_JOBS = (
    ("resnet50", "9G", "8G", "0.3", "9000"),
    ("bert-large", "20G", "18G", "0.6", "12000"),
    ("vit-base", "16G", "14G", "0.5", "8000"),
    ("llama-lora", "36G", "34G", "0.9", "15000"),
    ("diffusion", "30G", "26G", "0.8", "10000"),
    ("whisper", "24G", "21G", "0.7", "9000"),
)
_PICTURES = (
    ("page-overview", "./", "light", 1100, 700),
    ("page-job", "job?job=2", "dark", 1100, 800),
    ("page-phone", "./", "dark", 360, 640),
)


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("this needs Debian's package chromium", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with _page() as link, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        first = browser.new_context()
        first.new_page().goto(link)
        state = first.storage_state()
        for name, path, scheme, width, height in _PICTURES:
            size = {"width": width, "height": height}
            shown: Any = {"color_scheme": scheme, "viewport": size, "storage_state": state}
            tab = browser.new_context(**shown).new_page()
            tab.goto(link.partition("open?")[0] + path)
            tab.locator("#link").get_by_text("live", exact=True).wait_for()
            target = IMAGES / f"{name}.webp"
            Image.open(io.BytesIO(tab.screenshot())).save(target, lossless=True, method=6)
            print(f"{target}: {target.stat().st_size} bytes")
            if target.stat().st_size > MOST_BYTES:
                raise SystemExit(f"{target} has more than {MOST_BYTES} bytes")
    return 0


@contextmanager
def _page() -> Iterator[str]:
    """A daemon with jobs that have run for a while, and the link to its page."""
    with tempfile.TemporaryDirectory(prefix="radrm-pictures-") as folder:
        environment = {**os.environ, "RADRM_HOME": f"{folder}/home"}
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

        def start(*words: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [*_RADRM, *words], env=environment, cwd=folder, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip

        daemon = start("daemon", "--gpus", "sim:4xA100-40GB", "--time-scale", _SCALE)
        time.sleep(3)
        try:
            with start("serve", "--listen", "0") as served:
                assert served.stdout is not None
                found = re.search(r"http\S+", served.stdout.readline())
                assert found
                try:
                    _submit(start)
                    time.sleep(45)
                    yield found[0]
                finally:
                    served.terminate()
        finally:
            start("cancel", "--state", "pending,running,recovering").wait()
            time.sleep(2)
            daemon.terminate()
            daemon.wait()


def _submit(start: Any) -> None:
    for name, asked, used, smact, seconds in _JOBS:
        start("submit", "--name", name, f"--gpu-memory={asked}", "--", "radrm-simjob",
              "--gpu-memory", used, "--smact", smact, "--seconds", seconds, "--ramp", "240",
              "--loss-k", "3", "--print-every", "60").wait()  # fmt: skip
    start("submit", "--name", "lr-sweep", "--array", "0-19%4", "--gpu-memory=12G", "--",
          "radrm-simjob", "--gpu-memory", "10G", "--seconds", "900").wait()  # fmt: skip
    start("submit", "--name", "two-gpus", "--gpus=2", "--gpu-memory=30G", "--", "radrm-simjob",
          "--gpu-memory", "28G", "--gpus", "2", "--seconds", "900").wait()  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
