"""Whether GPU memory ran out: every known signature, every known false positive."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Exit, OutOfMemory
from radrm.oom import AFTERMATH_LINES, LAST_LINES, TAIL_BYTES, classify

FAILED = Exit(code=1)

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 0 has a total "
    "capacity of 39.39 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process "
    "has 38.32 GiB memory in use. Of the allocated memory 37.10 GiB is allocated by PyTorch. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF"
)
EPOCHS = "".join(f"epoch {i} loss {1 / (i + 1):.3f}\n" for i in range(2 * AFTERMATH_LINES))


def traceback(exception: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 10, in <module>\n'
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

# --------------------------------------------------------------------------- fatal

EXCEPTIONS = [
    (TORCH, 3328),
    (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 39 GiB total capacty of which 1 GiB is free)",
        20,
    ),
    ("RuntimeError: CUDA out of memory. Tried to allocate 1.50 KiB (GPU 0)", 1),
    ("RuntimeError: CUDA out of memory. Tried to allocate 512 bytes", 1),
    ("RuntimeError: CUDA out of memory", None),
    ("torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory.", None),
    ("torch.AcceleratorError: CUDA error: out of memory", None),
    (
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        None,
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        None,
    ),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", None),
    (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Conv2D}} OOM when allocating tensor with shape[128,64,112,112] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]",
        None,
    ),
    (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node 'model/conv' defined at (most recent call last):\n"
        + '    File "train.py", line 3, in <module>\n' * 40
        + "Node: 'model/conv'\nOOM when allocating tensor with shape[64,3] and type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node model/conv}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions.",
        None,
    ),
    (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2}} failed to allocate memory [Op:AddV2]",
        None,
    ),
    (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12345 bytes.",
        1,
    ),
    (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 42949672960 bytes.",
        40_960,
    ),
    (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 3.0GiB (3221225472B) on device ordinal 0",
        3072,
    ),
    (
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,593 bytes (allocated so far: 512 bytes).",
        8193,
    ),
    (
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
        None,
    ),
    (
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory",
        None,
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, unhandled cuda error, NCCL version 2.20.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
        None,
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1\nLast error:\nFailed to CUDA calloc async 608 bytes",
        1,
    ),
    ("pycuda._driver.MemoryError: cuMemAlloc failed: out of memory", None),
    (
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        None,
    ),
]


@pytest.mark.parametrize(
    ("exception", "requested"), EXCEPTIONS, ids=[e[:50] for e, _ in EXCEPTIONS]
)
def test_fatal_exceptions(exception: str, requested: int | None) -> None:
    for text in (
        traceback(exception),
        EPOCHS + traceback(exception),
        prefixed("[rank0]: ", traceback(exception)),
        "\x1b[31m" + traceback(exception).replace("\n", "\x1b[0m\n"),
        traceback(exception).replace("\n", "\r\n"),
        traceback("ValueError: harmless, and caught") + EPOCHS + traceback(exception),
        traceback(exception) + TORCHRUN,
    ):
        found = classify(FAILED, text)
        assert found is not None
        assert found.requested_mib == requested
        assert found.signature


NO_TRACEBACK = [
    (
        "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39 GiB\nException raised from malloc at CUDACachingAllocator.cpp:1 (most recent call first):\n"
        + "frame #1: c10::cuda + 0x12 (0x7f in libc10.so)\n" * 60,
        2048,
    ),
    (
        "terminate called after throwing an instance of 'thrust::system::system_error'\n  what():  parallel_for failed: cudaErrorMemoryAllocation: out of memory",
        None,
    ),
    ("CUDA error: out of memory\n  current device: 0, in function alloc at ggml-cuda.cu:100", None),
    ("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", None),
    ("node:17:25 [0] init.cc:900 NCCL WARN Cuda failure 'out of memory'", None),
    ("node:17:25 [0] NCCL WARN Failed to CUDA calloc 4194304 bytes", 4),
    (
        "Error executing job: OutOfMemoryError('CUDA out of memory. Tried to allocate 8.00 GiB')",
        8192,
    ),
    (TORCH, 3328),  # a traceback whose beginning is already out of the tail
]


@pytest.mark.parametrize(("text", "requested"), NO_TRACEBACK)
@pytest.mark.parametrize(
    "exit", [FAILED, Exit(code=134), Exit(signal=6), Exit(signal=11), Exit(code=255)], ids=str
)
def test_fatal_last_words(text: str, requested: int | None, exit: Exit) -> None:
    found = classify(exit, EPOCHS + text + "\n")
    assert found is not None
    assert found.requested_mib == requested


def test_the_record() -> None:
    assert classify(FAILED, traceback(TORCH)) == OutOfMemory("CUDA out of memory", 3328)


OOM = traceback(TORCH)
STILL_OOM = {
    "a parent passes it on": OOM
    + traceback("subprocess.CalledProcessError: Command '['python']' returned exit status 1."),
    "a spawned process": traceback(
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
        "-- Process 0 terminated with the following error:\n" + OOM
    ),
    "the peers lose their connection": OOM
    + traceback("torch.distributed.DistBackendError: NCCL error: remote process exited") * 3,
    "the user gives up": OOM + "\nDuring handling of the above exception, another exception "
    "occurred:\n\n" + traceback("KeyboardInterrupt"),
    "wrapped": OOM
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + traceback("mylib.TrainingError: training failed in step 3"),
    "objects die at the end": OOM
    + "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
    + traceback("TypeError: 'NoneType' object is not callable"),
    "a helper thread dies of it": OOM
    + "Exception in thread Thread-3 (_pin_memory_loop):\n"
    + traceback("ConnectionRefusedError: [Errno 111] Connection refused"),
    "libraries say goodbye": OOM + "".join(f"wandb: line {i}\n" for i in range(AFTERMATH_LINES)),
    "two ranks at once": "".join(
        f"[rank0]: {a}\n[rank1]: {b}\n"
        for a, b in zip(OOM.splitlines(), OOM.splitlines(), strict=True)
    ),
    "the second time": OOM + "retrying with batch size 8\n" + OOM,
    "a C++ program after a caught exception": traceback("ValueError: caught")
    + "terminate called after throwing an instance of 'c10::Error'\n"
    + "  what():  CUDA out of memory. Tried to allocate 1.00 GiB\n",
    "framed by rich": "╭─────── Traceback (most recent call last) ───────╮\n"
    "│ /home/me/train.py:3 in <module>                 │\n"
    "╰─────────────────────────────────────────────────╯\n"
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB\n",
    "a progress bar before it": "\r 10%|█| 1/10\r 20%|██| 2/10\r" + OOM,
}


@pytest.mark.parametrize("text", STILL_OOM.values(), ids=STILL_OOM)
def test_still_out_of_memory(text: str) -> None:
    assert classify(FAILED, text) is not None


# --------------------------------------------------------------------------- not fatal

NOT_OOM = {
    "nothing": "",
    "plain failure": traceback("ValueError: bad learning rate"),
    "host: worker killed": traceback(
        "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Killed. "
    ),
    "host: CPU allocator": traceback(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: "
        "can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12"
    ),
    "host: TensorFlow on the CPU": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
        "tensor with shape[9,9] and type float on /device:CPU:0 by allocator cpu [Op:Mul]"
    ),
    "host: numpy": traceback(
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array"
    ),
    "host: shared memory": "ERROR: Unexpected bus error encountered in worker.\nBus error",
    "host: a child was killed": OOM
    + traceback("subprocess.CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>."),
    "a quota elsewhere": traceback(
        "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded, RESOURCE_EXHAUSTED"
    ),
    "paths": traceback("FileNotFoundError: [Errno 2] No such file: '/models/BLOOM/OOM-test.bin'"),
    "words": "loading bigscience/BLOOM\nOOM killer test: out of memory handling ok\nfailed",
    "a library goes on, with traceback": OOM + EPOCHS + traceback("ValueError: bad label"),
    "a library goes on, at once": OOM + "retrying with batch 16\n" + traceback("KeyError: 'x'"),
    "a library goes on, chained": OOM + "\nDuring handling of the above exception, another "
    "exception occurred:\n\n" + traceback("ValueError: cannot divide a batch of 1"),
    "a library goes on and exits": OOM + EPOCHS + "no data\n",
    "a library tells and goes on": f"WARNING: {TORCH}\nhalving the batch size\nerror: no data\n",
    "a library tells in passing": f"{TORCH}; skipping batch\nerror: no data\n",
    "long ago": TORCH + "\n" + EPOCHS,
    "allocators try again": (
        "2026-01-01 00:00:00.123456: E external/local_xla/cuda_driver.cc:1004] failed to allocate "
        "4.00GiB (4294967296 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
        "2026-01-01 00:00:00.123456: W tensorflow/core/framework/op_kernel.cc:1] OP_REQUIRES: "
        "RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[1]\n"
        "2026-01-01 00:00:00.123456: W external/xla/bfc_allocator.cc:497] Allocator (GPU_0_bfc) "
        "ran out of memory trying to allocate 12.00GiB\n"
    ),
    "allocators, glog style": (
        "W0101 00:00:00.123456 123 gpu.cc:1] RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 12345 bytes.\n"
    ),
    "handlers in the source shown": (
        '  File "train.py", line 5, in main\n    except torch.cuda.OutOfMemoryError:\n'
        "SyntaxError: invalid syntax\n"
    ),
    "bad embedding index": (
        "Indexing.cu:1: indexSelectLargeIndex: block: [7,0,0], thread: [96,0,0] Assertion "
        "`srcIndex < srcSelectDimSize` failed.\n" * 30
    )
    + traceback("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    **{
        f"MPS {number}": traceback(f"RuntimeError: CUDA error: {text}") + f"error {number}\n"
        for number, text in {
            805: "MPS client failed to connect to the MPS control daemon or the MPS server",
            806: "the remote procedural call between the MPS server and the MPS client failed",
            807: "MPS server is not ready to accept new MPS client requests",
            808: "the hardware resources required to create MPS client have been exhausted",
            809: "the hardware resources required to support device connections have been exhausted",
            810: "the MPS client has been terminated by the server",
        }.items()
    },
}


@pytest.mark.parametrize("text", NOT_OOM.values(), ids=NOT_OOM)
@pytest.mark.parametrize("exit", [FAILED, Exit(signal=6)], ids=str)
def test_something_else(text: str, exit: Exit) -> None:
    assert classify(exit, text) is None


@pytest.mark.parametrize(
    "exit",
    [
        Exit(code=0),
        Exit(),
        Exit(signal=9),
        Exit(code=137),
        Exit(signal=15),
        Exit(code=143),
        Exit(signal=2),
        Exit(signal=7),
    ],
    ids=str,
)
def test_exits_that_are_no_evidence(exit: Exit) -> None:
    assert classify(exit, traceback(TORCH)) is None


@pytest.mark.parametrize("kept", [True, False])
def test_last_words_end_somewhere(kept: bool) -> None:
    after = "goodbye\n" * (LAST_LINES - 1 if kept else LAST_LINES)
    assert (classify(FAILED, TORCH + "\n" + after) is not None) == kept


@pytest.mark.parametrize(
    "request_", ["0 bytes", "9" * 20 + " TiB", "1" * 60 + " bytes", ",, bytes"]
)
def test_absurd_requests_are_not_believed(request_: str) -> None:
    found = classify(FAILED, f"RuntimeError: CUDA out of memory. Tried to allocate {request_}")
    assert found is not None and found.requested_mib is None


# --------------------------------------------------------------------------- anything

fragments = st.sampled_from(
    [*traceback(TORCH).splitlines(), *TORCHRUN.splitlines(), "[rank0]: ", "\x1b[31m", "\0", "\r"]
)


@given(
    st.builds(Exit, code=st.none() | st.integers(0, 255), signal=st.none() | st.integers(1, 64)),
    st.lists(fragments | st.text(max_size=30), max_size=30).map("\n".join)
    | st.binary(max_size=300).map(lambda data: data.decode(errors="replace")),
)
def test_no_output_raises(exit: Exit, tail: str) -> None:
    found = classify(exit, tail)
    assert found is None or not exit.ok


@pytest.mark.parametrize(
    "unit",
    [
        "CUDA error",
        "trying ",
        "Assertion `",
        "allocate 1,",
        "\x1b[0;",
        "(a pid=1",
        "a.",
        "[a,",
        "#1 ",
        "Traceback (most recent call last)\n",
        "Traceback (most recent call last)\nKeyboardInterrupt\n",
        "Traceback (most recent call last)\nEOFError: trying\n trying to\n",
        "The above exception was the direct cause\nTraceback (most recent call last)\na: b\n",
        "CUDA error: out of memory ",
        " ",
        "\n",
    ],
)
def test_hostile_output_comes_to_an_end(unit: str) -> None:
    """A pattern that tries every way of matching these would outlast the test run."""
    assert classify(FAILED, "x" + unit * TAIL_BYTES) in (
        None,
        OutOfMemory("CUDA error: out of memory"),
    )
