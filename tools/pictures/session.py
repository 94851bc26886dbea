"""Record the terminal session of README.md, and draw it as an animated SVG.

    python -m tools.pictures.session docs/pictures/session.svg

A bash on a pseudo-terminal runs the commands of `SESSION` against a real daemon on simulated
GPUs. The picture shows what they print, unchanged. Only times differ from the session: keys
come at an even speed, a wait is shortened to `LONGEST_WAIT_S`, and a result stays for as long
as its line of `SESSION` says. `termtosvg` emulates the terminal and draws its screens.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.transcript import await_daemon

COLUMNS, LINES = 112, 22
KEYS, KEYS_S = 12, 0.25  # typed at once, and their time in the picture
LONGEST_WAIT_S = 1.2
PATIENCE_S = 120.0
LAST_S = 6.0
LARGEST_BYTES = 100_000

# Each command, and how long its result stays (seconds of the picture).
SESSION: tuple[tuple[str, float], ...] = (
    ("radrm daemon --gpus sim:2xA100-40GB --time-scale 60 > daemon.log 2>&1 &", 1.0),
    ("job='radrm-simjob --ramp 60 --gpu-memory'  # stands in for a training program", 1.0),
    (
        "radrm submit --name=resnet --gpu-memory=24G --time=30m"
        " -- $job 22G --seconds 1200 --smact 0.3",
        1.0,
    ),
    ("radrm submit --name=bert --gpu-memory=30G --time=20m -- $job 27G --seconds 800", 1.0),
    ("radrm submit --name=llama --gpu-memory=36G --time=20m -- $job 34G --seconds 200", 1.5),
    ("radrm status", 4.0),
    ("radrm gpus", 4.0),
    ("clear", 0.0),
    ("radrm explain llama  # why does it wait?", 6.0),
    ("clear", 0.0),
    ("# This job asks for 10G, but uses 20G beside 22G on a GPU of 40G:", 1.0),
    (
        "radrm submit --name=wrong --gpu-memory=10G --time=20m"
        " -- $job 20G --seconds 200 --smact 0.2",
        1.5,
    ),
    ("radrm wait wrong; radrm explain wrong", LAST_S),
)
_LAST = "radrm cancel '*'; kill %1; wait"  # not in the picture

_READY = b"\x1b]0;ready\x07"

_TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
     id="terminal" viewBox="0 0 660 330" width="660" role="img">
  <title>A session of radrm in a terminal</title>
  <desc>Three jobs are submitted to two simulated GPUs. Two run, one waits for GPU memory.
  radrm explains why, and shows the GPUs. Another job runs out of GPU memory; radrm runs it
  again on an idle GPU, and it completes.</desc>
  <defs>
    <termtosvg:template_settings xmlns:termtosvg="https://github.com/nbedos/termtosvg">
      <termtosvg:screen_geometry columns="80" rows="18"/>
      <termtosvg:animation type="css"/>
    </termtosvg:template_settings>
    <style type="text/css" id="generated-style"></style>
    <style type="text/css" id="user-style">
      .foreground {fill: #d5dae0} .background {fill: #20252c}
      .color0 {fill: #20252c} .color8 {fill: #8b949e}
      .color1, .color9 {fill: #ff8080} .color2, .color10 {fill: #7fd18b}
      .color3, .color11 {fill: #e5c45c} .color4, .color12 {fill: #79b8ff}
      .color5, .color13 {fill: #d2a8ff} .color6, .color14 {fill: #76d3dd}
      .color7, .color15 {fill: #f0f3f6}
      @media (prefers-reduced-motion: reduce) {
        #screen_view {
          animation-delay: calc(-0.999 * var(--animation-duration));
          animation-play-state: paused;
        }
      }
    </style>
  </defs>
  <rect width="100%" height="100%" rx="8" class="background" stroke="#8b949e"/>
  <svg id="screen" x="10" y="12" width="640" height="306" viewBox="0 0 640 306"
       preserveAspectRatio="xMidYMin slice"></svg>
</svg>
"""


@dataclass(slots=True)
class Recording:
    """What the terminal showed, at the times of the picture: asciicast events."""

    events: list[tuple[float, str, str]] = field(default_factory=list)
    now_s: float = 0.0

    def show(self, text: bytes, after_s: float) -> None:
        self.now_s += after_s
        self.events.append((round(self.now_s, 3), "o", text.decode("utf-8", "replace")))

    def write(self, path: Path) -> None:
        header = {"version": 2, "width": COLUMNS, "height": LINES}
        path.write_text("".join(json.dumps(line) + "\n" for line in (header, *self.events)))


class Terminal:
    """An interactive bash in `folder` on a pseudo-terminal. Close it after use."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        inputrc = folder / ".inputrc"
        inputrc.write_text("set enable-bracketed-paste off\nset horizontal-scroll-mode off\n")
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            bash = ["bash", "--norc", "--noprofile", "-i"]
            os.execvpe("bash", bash, {**environment, "INPUTRC": str(inputrc)})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def echo(self) -> bytes:
        """What the terminal shows of the keys, with the line breaks that bash adds."""
        said = b""
        while select.select([self._fd], [], [], 0.15)[0]:
            said += os.read(self._fd, 65536)
        return said

    def output(self, *, until: bytes, patience_s: float = PATIENCE_S) -> Iterator[bytes]:
        """What the terminal shows until it shows `until`, which is left out of it.

        A part comes once nothing follows it for 0.3 seconds. Raises TimeoutError.
        """
        said, deadline = b"", time.monotonic() + patience_s
        while until not in said:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{until!r} does not come; the terminal shows {said!r}")
            if select.select([self._fd], [], [], 0.3)[0]:
                said += os.read(self._fd, 65536)
            elif said:
                yield said
                said = b""
        yield said.replace(until, b"")

    def close(self) -> None:
        os.close(self._fd)
        os.waitpid(self._pid, 0)


def record(folder: Path, environment: Mapping[str, str]) -> Recording:
    """Run the session in `folder`. Raises TimeoutError if a command does not end."""
    recording, terminal = Recording(), Terminal(folder, environment)
    try:
        for part in terminal.output(until=_READY):
            recording.show(part, 0.0)
        for command, stays_s in SESSION:
            for start in range(0, len(command), KEYS):
                terminal.type(command[start : start + KEYS])
                recording.show(terminal.echo(), KEYS_S)
            terminal.type("\r")
            wait_s = 0.1
            for part in terminal.output(until=_READY):
                recording.show(part, wait_s)
                wait_s = LONGEST_WAIT_S
            recording.now_s += stays_s
            if " daemon " in command:
                await_daemon(environment)
        terminal.type(f"{_LAST}\r")
        list(terminal.output(until=_READY))
    finally:
        terminal.close()
    return recording


def draw(recording: Recording, folder: Path, picture: Path) -> None:
    """Draw the recording. Raises ValueError if the picture is too large for a README."""
    cast, template = folder / "session.cast", folder / "template.svg"
    recording.write(cast)
    template.write_text(_TEMPLATE)
    command = [sys.executable, "-m", "termtosvg", "render", str(cast), str(picture)]
    settings = ["-t", str(template), "-D", str(int(LAST_S * 1000))]
    subprocess.run([*command, *settings], check=True, stdout=subprocess.DEVNULL)
    if (size := picture.stat().st_size) > LARGEST_BYTES:
        raise ValueError(f"{picture} has {size} bytes, at most {LARGEST_BYTES}: shorten SESSION")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="radrm-picture-") as name:
        folder = Path(name)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
        environment |= {
            "RADRM_HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
            "TERM": "xterm-256color",
            "RADRM_HINTS": "0",
            "PS1": r"\[\e]0;ready\a\]$ ",
        }
        draw(record(folder, environment), folder, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
