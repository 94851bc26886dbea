"""What the job's command, and the scripts that it starts, say of a training step: the batch
size, and how several GPUs are used. Text is looked at, nothing is run. No PyTorch here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

MOST_TEXT = 1 << 20
MOST_FILES = 8
DDP, DP = "ddp", "dp"

_BATCH = (
    "batch-size", "batchsize", "batch", "bs", "train-batch-size", "per-gpu-batch-size",
    "per-device-train-batch-size", "per-gpu-train-batch-size", "micro-batch-size",
)  # fmt: skip
_OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w-]{0,60})(?:=|\s+)[\"']?(\d{1,9})(?![\w.])")
_LAUNCHER = re.compile(
    r"(?<![\w.-])(torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|deepspeed|"
    r"mpirun|mpiexec|horovodrun|srun|colossalai\s+run)(?![\w-])"
)
_ONE_PROCESS_EACH = re.compile(
    r"DistributedDataParallel|init_process_group|FullyShardedDataParallel|fully_shard|mp\.spawn|"
    r"\bAccelerator\(|deepspeed\.initialize|\bhorovod\b|strategy\s*=\s*[\"'](?:ddp|fsdp|deepspeed)"
)
_ONE_PROCESS = re.compile(r"\bDataParallel\b|\bdata_parallel\(")
_FOLDER = re.compile(r"(?m)(?:^|[;&|])\s*cd\s+([^\s;&|]+)")
_MODULE = re.compile(r"(?<!\S)-m\s+([A-Za-z_][\w.]*)")
_COMMENT = re.compile(r"(?m)^\s*#.*$")


def batch_size(command: str) -> tuple[int, str] | None:
    """The batch size that the command names, and by which words; of several the largest."""
    found = []
    for name, digits in _OPTION.findall(_plain(command)):
        if name.lower().replace("_", "-") in _BATCH and 0 < int(digits) <= 1 << 24:
            found.append((int(digits), f"--{name}"))
    if not found:
        return None
    size, name = max(found)
    others = {size for size, _ in found} - {size}
    also = f", the largest of {len(others) + 1} there" if others else ""
    return size, f"{name} of the job's command{also}"


def how_parallel(command: str, folder: str) -> tuple[str, str]:
    """`dp` or `ddp`, and how that is known.

    A launcher starts one process for each GPU, with a batch of its own. DataParallel shares
    one batch among the GPUs. Where neither can be told it is taken for the first, which
    needs more memory.
    """
    command = _plain(command)
    launcher = _LAUNCHER.search(command)
    if launcher is not None:
        return DDP, f"the job's command starts {_words(launcher)}"
    one_process = None
    complete = bool(command.strip())
    for name, text in _texts(command, folder):
        if text is None:
            complete = False
            continue
        launcher = _LAUNCHER.search(text) if not name.endswith(".py") else None
        each = _ONE_PROCESS_EACH.search(text)
        if launcher is not None:
            return DDP, f"{name} starts {_words(launcher)}"
        if each is not None:
            return DDP, f"{name} speaks of {each.group()}"
        if one_process is None and _ONE_PROCESS.search(text) is not None:
            one_process = name
    if one_process is not None and complete:
        return DP, f"{one_process} speaks of DataParallel and nothing of one process for each GPU"
    return DDP, "nothing tells how the GPUs are used; this way needs more than DataParallel"


def _texts(command: str, folder: str) -> Iterator[tuple[str, str | None]]:
    """The programs that the command names, and those that they name if they are scripts. The
    text is None for one that cannot be read."""
    seen: set[str] = set()
    waiting = [command]
    while waiting:
        text = waiting.pop(0)
        folders = [folder, *(os.path.join(folder, f) for f in _FOLDER.findall(text))]
        for name in _names(text):
            if name in seen:
                continue
            if len(seen) == MOST_FILES:
                yield name, None
                return
            seen.add(name)
            found = next(filter(None, (_read(os.path.join(f, name)) for f in folders)), None)
            found = None if found is None else _plain(found)
            yield name, found
            if found is not None and not name.endswith(".py"):
                waiting.append(found)


def _names(text: str) -> Iterator[str]:
    for word in text.split():
        name = word.strip("\"'();&|<>`")
        known = name.endswith((".py", ".sh", ".bash")) or name.startswith(("./", "../"))
        if known and len(name) < 1000:
            yield name
    for module in _MODULE.findall(text):
        yield module.replace(".", "/") + ".py"


def _read(path: str) -> str | None:
    try:
        # Never waiting for a FIFO, nor reading a device.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(handle, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            return file.read(MOST_TEXT).decode("utf-8", "replace")
        except OSError:
            return None


def _plain(text: str) -> str:
    """Without comments, and with the lines joined that go on."""
    return _COMMENT.sub("", text[:MOST_TEXT].replace("\\\n", " "))


def _words(found: re.Match[str]) -> str:
    return " ".join(found.group().split())
