"""`radrm-simjob`: a stand-in for a training job on simulated GPUs.

Its memory grows in steps, its neighbours slow it down, and it fails as PyTorch does if it gets
no memory. It can report its progress (`--loss-k`), save its work when radrm asks, and go on from
there in its next attempt (`--saves`). All its times are of the driver's scaled clock. Many run at
once, so its imports are light, and it asks the driver only when something is due.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time

from radrm.core.units import parse_mib
from radrm.errors import DeviceError, RadrmError
from radrm.host.simulated.client import DriverClient, OutOfGpuMemory
from radrm.interference.model import FAMILIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.report import Reporter

SOCKET_VARIABLE = "RADRM_SIMULATED_GPUS"
EXIT_FAILED = 1
EXIT_USAGE = 2
_RAMP_STEPS = 5
_EPOCHS = 10
_SHORTEST_SLEEP_S = 0.005
_USUAL_SLEEP_S = 0.05
_LONGEST_SLEEP_S = 0.5
_NEVER = "never"


def main(argv: list[str] | None = None) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a traceback, as on TERM
    args = _parser().parse_args(argv)
    try:
        client, job = _attach(args)
    except RadrmError as error:
        print(f"radrm-simjob: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        job.train()
    except _Left:
        return 0
    except OutOfGpuMemory as refused:
        _traceback("forward", f"torch.OutOfMemoryError: {out_of_memory_text(refused)}")
        return EXIT_FAILED
    except DeviceError as error:
        _traceback("backward", f"RuntimeError: CUDA error: {error}")
        return EXIT_FAILED
    finally:
        client.close()
    return int(args.exit_code)


class _Left(Exception):
    """It was asked to save and leave, and has saved."""


class _Training:
    """One run: its memory, its work, and the times at which it asks or prints."""

    def __init__(self, client: DriverClient, scale: float, args: argparse.Namespace) -> None:
        self._client = client
        self._scale = scale
        self._args = args
        self._held_mib = 0
        self._begun_s = _boot_s()
        self._before_s = 0.0
        """The work that earlier attempts have saved."""
        self._rate = _rate(args.gpus, args.scaling)
        self._reporter: Reporter | None = None
        if args.loss_k is not None or args.saves is not None:
            from radrm.report import Reporter  # most jobs do not need it

            self._reporter = Reporter()
        if args.saves is not None:
            self._before_s = _saved_part() * args.seconds

    def train(self) -> None:
        """Train until the work is done and the ramp is over."""
        args = self._args
        while (left_s := float(args.start_up) - self._elapsed_s()) > 0:
            time.sleep(self._real_s(left_s, _SHORTEST_SLEEP_S))
        self._begun_s = _boot_s()
        self._client.start()
        printed_s = 0.0
        while True:
            elapsed_s = self._elapsed_s()
            self._grow(wanted_mib(args.gpu_memory, args.ramp, args.leak, elapsed_s))
            done_s = min(self._before_s + self._client.work() * self._rate, args.seconds)
            if self._reporter is not None:
                self._tell(self._reporter, done_s)
            finished = done_s >= args.seconds and elapsed_s >= args.ramp
            if finished or elapsed_s - printed_s >= args.print_every:
                printed_s = elapsed_s
                self._report(done_s, elapsed_s)
            if finished:
                return
            time.sleep(self._pause_s(done_s, elapsed_s, printed_s))

    def _pause_s(self, done_s: float, elapsed_s: float, printed_s: float) -> float:
        """Real seconds until something can be due.

        The work takes at least its time alone, so there is no reason to ask before.
        """
        args = self._args
        due_s = printed_s + args.print_every - elapsed_s
        if elapsed_s < args.ramp:
            step_s = args.ramp / _RAMP_STEPS
            due_s = min(due_s, step_s - elapsed_s % step_s)
        if args.leak > 0:
            due_s = min(due_s, 1.0)
        pause_s = self._real_s(due_s, _USUAL_SLEEP_S)
        if done_s < args.seconds:
            pause_s = min(
                pause_s, self._real_s((args.seconds - done_s) / self._rate, _SHORTEST_SLEEP_S)
            )
        return pause_s

    def _tell(self, report: Reporter, done_s: float) -> None:
        """Report the progress, and save if that is wanted."""
        seconds, k = self._args.seconds, self._args.loss_k
        if k is not None:
            part = done_s / seconds if seconds else 1.0
            report.progress(step=done_s, total=seconds, loss=math.exp(-k * part))
        if not report.checkpoint_wanted() or self._args.saves in (None, _NEVER):
            return
        saving_s = float(self._args.saves)
        if saving_s:
            print(f"saving at {done_s:.1f}/{seconds:g} s", flush=True)
            time.sleep(saving_s / self._scale)
        report.saved(step=done_s, total=seconds)
        print(f"saved at {done_s:.1f}/{seconds:g} s", flush=True)
        if report.stop_wanted():
            raise _Left

    def _grow(self, mib: int) -> None:
        if mib > self._held_mib:
            self._client.alloc(mib - self._held_mib)
            self._held_mib = mib

    def _report(self, done_s: float, elapsed_s: float) -> None:
        seconds = self._args.seconds
        part = done_s / seconds if seconds else 1.0
        epoch = min(_EPOCHS, int(part * _EPOCHS) + 1)
        speed = done_s / elapsed_s if elapsed_s > 0 else 1.0
        print(
            f"epoch {epoch}/{_EPOCHS}  {part:4.0%}  {done_s:.1f}/{seconds:g} s  "
            f"speed {speed:.2f}  memory {self._held_mib} MiB",
            flush=True,
        )

    def _elapsed_s(self) -> float:
        return (_boot_s() - self._begun_s) * self._scale

    def _real_s(self, scaled_s: float, least_s: float) -> float:
        return min(max(scaled_s / self._scale, least_s), _LONGEST_SLEEP_S)


def _rate(gpus: int, sync: float | None) -> float:
    """The work of a second alone on so many GPUs, by that of a second on one."""
    return 1.0 if sync is None else 1.0 / (1.0 / gpus + sync * (gpus - 1))


def _saved_part() -> float:
    """The part of the work (0..1) that an earlier attempt has saved, maybe on another kind of GPU
    with other `--seconds`; 0 without one."""
    try:
        with open(os.path.join(os.environ["RADRM_CHECKPOINT_DIR"], "saved.json")) as file:
            return min(1.0, max(0.0, float(json.load(file)["work_done"])))
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def wanted_mib(peak_mib: int, ramp_s: float, leak_mib_per_s: float, elapsed_s: float) -> int:
    """A job's memory `elapsed_s` seconds after its start: the ramp's steps plus the leak."""
    steps = _RAMP_STEPS
    if elapsed_s < ramp_s:
        steps = min(_RAMP_STEPS, 1 + int(elapsed_s / ramp_s * _RAMP_STEPS))
    return peak_mib * steps // _RAMP_STEPS + int(leak_mib_per_s * elapsed_s)


def out_of_memory_text(refused: OutOfGpuMemory) -> str:
    """PyTorch 2's message for an allocation that does not fit."""
    return (
        f"CUDA out of memory. Tried to allocate {_torch_size(refused.requested_mib)}. "
        f"GPU {refused.position} has a total capacity of {_torch_size(refused.total_mib)} "
        f"of which {_torch_size(refused.free_mib)} is free. "
        f"Including non-PyTorch memory, this process has {_torch_size(refused.held_mib)} "
        "memory in use."
    )


def memory_cap_mib(text: str | None) -> int | None:
    """The smallest limit in CUDA_MPS_PINNED_DEVICE_MEM_LIMIT (`0=4096M,1=4G`), in MiB.

    radrm gives each of a job's devices the same limit. Raises ValueError.
    """
    if not text:
        return None
    caps = []
    for item in text.split(","):
        ordinal, equals, size = item.partition("=")
        if not equals or not ordinal.strip().isdecimal():
            raise ValueError(f"{item!r} is not DEVICE=SIZE, as in 0=4096M")
        caps.append(parse_mib(size))
    return min(caps)


def _torch_size(mib: int) -> str:
    return f"{mib / 1024:.2f} GiB" if mib >= 1024 else f"{mib:.2f} MiB"


def _attach(args: argparse.Namespace) -> tuple[DriverClient, _Training]:
    """Connect to the driver that the environment names. Raises RadrmError."""
    path = os.environ.get(SOCKET_VARIABLE)
    if not path:
        raise DeviceError(
            f"{SOCKET_VARIABLE} is not set: radrm-simjob runs only as a job of a daemon with "
            "simulated GPUs; start one: radrm daemon --gpus sim:4xA100-40GB"
        )
    mps = "CUDA_MPS_PIPE_DIRECTORY" in os.environ
    limit = os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    try:
        cap_mib = memory_cap_mib(limit) if mps else None
    except ValueError as error:
        raise DeviceError(f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT={limit}: {error}") from error
    client = DriverClient(path)
    scale = client.hello().scale
    client.attach(
        os.environ.get("CUDA_VISIBLE_DEVICES"),
        args.smact,
        args.family,
        args.batch_size,
        mps,
        cap_mib,
        args.gpus,
    )
    return client, _Training(client, scale, args)


def _traceback(phase: str, error: str) -> None:
    print(
        "Traceback (most recent call last):\n"
        f'  File "train.py", line 118, in {phase}\n'
        f"    loss = {phase}(model, batch)\n"
        f"{error}",
        file=sys.stderr,
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="radrm-simjob", description="A stand-in for a training job on simulated GPUs."
    )
    add = parser.add_argument
    add("--gpu-memory", type=_size, required=True, metavar="SIZE", help="peak per GPU: 12000, 12G")
    add("--smact", type=_part, default=0.6, help="SM activity alone, 0..1 (%(default)s)")
    add("--seconds", type=_span, required=True, help="duration of the work alone on a GPU")
    add("--ramp", type=_span, default=5.0, help="seconds until the peak (%(default)s)")
    add("--start-up", type=_span, default=0.0, help="seconds before it touches a GPU")
    add("--leak", type=_span, default=0.0, metavar="MIB_PER_S", help="endless memory growth")
    add("--gpus", type=_gpus, default=1, help="number of visible GPUs to use, or all (%(default)s)")
    add(
        "--scaling",
        type=_span,
        metavar="SYNC",
        help="several GPUs divide the work; each further one adds SYNC of it (0: perfect)",
    )
    add("--family", choices=FAMILIES, help="how it shares a GPU with others")
    add("--batch-size", type=_count, help="a small one gets little beside a large one")
    add("--loss-k", type=_span, metavar="K", help="report progress, and a loss of exp(-K * part)")
    add(
        "--saves",
        type=_saving,
        nargs="?",
        const=0.0,
        metavar="S|never",
        help="save when radrm asks, which takes S seconds; start from what is saved",
    )
    add("--exit-code", type=int, default=0, help="exit code after the work (%(default)s)")
    add("--print-every", type=_positive, default=10.0, metavar="S", help="seconds between lines")
    return parser


def _size(text: str) -> int:
    try:
        return parse_mib(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _span(text: str) -> float:
    return _number(text, 0.0, float("inf"))


def _gpus(text: str) -> int:
    if text != "all":
        return _count(text)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return max(1, len([name for name in visible.split(",") if name]))


def _saving(text: str) -> float | str:
    return _NEVER if text == _NEVER else _span(text)


def _part(text: str) -> float:
    return _number(text, 0.0, 1.0)


def _positive(text: str) -> float:
    return _number(text, 1e-3, float("inf"))


def _count(text: str) -> int:
    return int(_number(text, 1, 1 << 30))


def _number(text: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not least <= value <= most or value == float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not in {least:g}..{most:g}")
    return value


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main())
