"""What programs print when they fail."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

from radrm.core.records import Exit
from radrm.last_words import AFTERMATH_LINES

FAILED = Exit(code=1)

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 0 has a total "
    "capacity of 39.39 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process "
    "has 38.32 GiB memory in use. Of the allocated memory 37.10 GiB is allocated by PyTorch. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF"
)
EPOCHS = "".join(f"epoch {i} loss {1 / (i + 1):.3f}\n" for i in range(2 * AFTERMATH_LINES))


def traceback(exception: str, frames: int = 0) -> str:
    """`frames`: so many more than in a short program."""
    return (
        "Traceback (most recent call last):\n"
        + '  File "library.py", line 7, in wrapper\n    return function(*args)\n' * frames
        + '  File "train.py", line 10, in <module>\n'
        "    main()\n"
        '  File "train.py", line 5, in main\n'
        "    loss.backward()\n"
        "    ^^^^^^^^^^^^^^^\n"
        f"{exception}\n"
    )


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


TORCHRUN = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ") + (
    "============================================================\n"
    "train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2026-01-01_00:00:00\n"
    "  rank      : 0 (local_rank: 0)\n"
    "  exitcode  : 1 (pid: 1234)\n"
    "  error_file: <N/A>\n"
    "============================================================\n"
)
OOM = traceback(TORCH)
NO_ROOM = (
    "ValueError: Free memory on device cuda:0 (7.91/39.39 GiB) on startup is less than desired GPU "
    "memory utilization (0.9, 35.45 GiB). Decrease GPU memory utilization or reduce GPU memory used "
    "by other processes."
)


def vllm(exception: str) -> str:
    """What `vllm serve` prints if its engine's process, or a worker of that, cannot start."""
    worker = "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
    return (
        prefixed(
            "(VllmWorker rank=0 pid=3926) ERROR 08-12 01:36:10 [multiproc_executor.py:511] ",
            "WorkerProc failed to start.\n" + traceback(exception, frames=40),
        )
        + "(VllmWorker rank=1 pid=3927) INFO 08-12 01:36:11 [shm_broadcast.py:9] waits\n" * 25
        + prefixed(
            "(EngineCore_DP0 pid=374) ERROR 08-12 01:36:12 [core.py:718] ",
            traceback(worker, frames=40),
        )
        + prefixed("(EngineCore_DP0 pid=374) ", "Process EngineCore_DP0:\n" + traceback(worker))
        + prefixed(
            "(APIServer pid=290) ",
            traceback(
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
                "proc(s): {'EngineCore_DP0': 1}"
            ),
        )
    )
