"""Tell which program a Python interpreter runs, from its arguments.

It needs no PyTorch and little time: each Python process of a traced job asks.
"""

from __future__ import annotations

import os
import sys
import time

OVER = "over"
"""The file in the folder of documents that says that the command's time is over."""
PARENT = "RADRM_TRACE_PROGRAM"
"""The name of the program that started this one."""
_WITH_VALUE = "WX"
_LAUNCHERS = (
    "torchrun", "accelerate", "accelerate-launch", "deepspeed", "colossalai", "horovodrun",
    "composer", "fabric", "lightning", "pip", "conda", "mamba", "uv", "jupyter", "tensorboard",
    "wandb", "radrm",
)  # fmt: skip
_LAUNCHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher",
    "torch.distributed.elastic", "accelerate.commands", "deepspeed.launcher", "colossalai.cli",
    "horovod.runner", "composer.cli", "lightning.fabric.cli", "pip", "venv", "ensurepip",
    "jupyter", "tensorboard", "radrm",
)  # fmt: skip


class Program:
    """The program of one interpreter: `kind` is script, module, command, or input.

    `limit_s` are the seconds of `spent_s` until its document must be there.
    """

    def __init__(self, kind: str, target: str) -> None:
        self.kind, self.target = kind, target
        self.limit_s = 60.0

    @property
    def name(self) -> str:
        """Return the name for messages, such as `train.py`."""
        if self.kind == "command" and "multiprocessing" in self.target:
            # A process that a program has started for a part of itself.
            return os.environ.get(PARENT) or "python -c"
        if self.kind == "script":
            target = self.target.rstrip("/")
            name = os.path.basename(target)
            # `python FOLDER` runs the folder's __main__.py.
            return os.path.basename(os.path.dirname(target)) if name == "__main__.py" else name
        return {"module": self.target, "command": "python -c"}.get(self.kind, "python")

    @property
    def launcher(self) -> bool:
        """Return whether it only starts other programs, or trains nothing for other reasons."""
        if self.kind == "script":
            return self.name in _LAUNCHERS
        if self.kind == "module":
            return any(
                self.target == m or self.target.startswith(m + ".") for m in _LAUNCHER_MODULES
            )
        return False


def this_program() -> Program:
    """Return the program of this process."""
    argv = getattr(sys, "orig_argv", None)
    if argv is None:  # before Python 3.10
        with open("/proc/self/cmdline", "rb") as file:
            argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    return program(argv[1:])


def program(words: list[str]) -> Program:
    """Return the program that the arguments of an interpreter name, without its own name."""
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "-":
            return Program("input", word)
        if word.startswith("--"):
            if word == "--check-hash-based-pycs" and words:
                words.pop(0)
            continue
        if not word.startswith("-"):
            return Program("script", word)
        for at, letter in enumerate(word[1:], 2):
            value = word[at:]
            if letter in "mc":
                target = value or (words[0] if words else "")
                return Program("module" if letter == "m" else "command", target)
            if letter in _WITH_VALUE:
                if not value and words:
                    words.pop(0)
                break
    return Program("input", "")


# ------------------------------------------------------------------ ranks

_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def is_rank_0() -> bool:
    """Return whether this process is the first, or the only one, of its launcher."""
    return all((os.environ.get(name) or "0").strip() in ("0", "") for name in _RANKS)


def wait_for_rank_0(folder: str) -> None:
    """Wait for a document, as the other ranks of a traced job do, and end the process."""
    while not any(name.endswith(".json") or name == OVER for name in os.listdir(folder)):
        time.sleep(0.2)
    os._exit(0)


# ------------------------------------------------------------------ time


def spent_s() -> float:
    """Return the processor time of this process and of its children that have ended.

    It counts in place of the time on the clock: a busy machine takes nothing of a trace's time.
    """
    return sum(os.times()[:4])


def is_over(folder: str) -> bool:
    """Return whether the time of the whole command is over, as the trace's runner says."""
    return os.path.exists(os.path.join(folder, OVER))
