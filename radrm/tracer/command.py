"""Find the batch size and the use of several GPUs in a job's command and its scripts.

It searches text and runs nothing. It does not need PyTorch.
"""

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
_BENCHMARK = re.compile(r"\bcudnn\.benchmark\s*=\s*True\b")
_FOLDER = re.compile(r"(?m)(?:^|[;&|])\s*cd\s+([^\s;&|]+)")
_MODULE = re.compile(r"(?<!\S)-m\s+([A-Za-z_][\w.]*)")
_COMMENT = re.compile(r"(?m)^\s*#.*$")


def batch_size(command: str) -> tuple[int, str] | None:
    """Return the batch size in the command and the words that name it. None: there is none.

    The largest counts if there are several.
    """
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


def with_batch_size(text: str, size: int) -> str | None:
    """Return a command or a script with another batch size. None: no option there names one."""

    def changed(found: re.Match[str]) -> str:
        name = found[1].lower().replace("_", "-")
        return (
            found[0][: found.start(2) - found.start()] + str(size) if name in _BATCH else found[0]
        )

    other = _OPTION.sub(changed, text)
    return None if other == text and batch_size(text) is None else other


def how_parallel(command: str, folder: str) -> tuple[str, str]:
    """Return `dp` or `ddp`, and the evidence.

    A launcher starts one process for each GPU, each with its own batch. DataParallel divides
    one batch among the GPUs. Without evidence the answer is `ddp`, which needs more memory.
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
            return DDP, f"{name} mentions {each.group()}"
        if one_process is None and _ONE_PROCESS.search(text) is not None:
            one_process = name
    if one_process is not None and complete:
        return DP, f"{one_process} mentions DataParallel, and no file one process for each GPU"
    return DDP, (
        "the job's command does not show how it uses the GPUs; "
        "DDP needs more memory than DataParallel"
    )


def uses_benchmark(command: str, folder: str) -> str | None:
    """Return the program of the command that sets `torch.backends.cudnn.benchmark`, None: none."""
    texts = _texts(_plain(command), folder)
    return next((name for name, text in texts if _BENCHMARK.search(text or "")), None)


def _texts(command: str, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield each program that the command or one of its scripts names, with its text.

    The text is None if it cannot be read.
    """
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
        # O_NONBLOCK: opening a FIFO must not wait. The check below refuses devices.
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
    """Return the text without comments, with continued lines joined."""
    return _COMMENT.sub("", text[:MOST_TEXT].replace("\\\n", " "))


def _words(found: re.Match[str]) -> str:
    return " ".join(found.group().split())
