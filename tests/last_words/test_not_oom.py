"""Something else ended the program: every known false positive, and hostile output."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Exit
from radrm.hints import hint
from radrm.last_words import LAST_LINES, TAIL_BYTES
from radrm.oom import classify, judge
from tests.last_words.logs import (
    EPOCHS,
    FAILED,
    NO_ROOM,
    OOM,
    TORCH,
    TORCHRUN,
    prefixed,
    traceback,
    vllm,
)

STEPS = "".join(f"step {i} loss 0.3\n" for i in range(12))
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
    "host: TensorFlow, memory for copies": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
        "tensor with shape[9,9] and type float on /device:CPU:0 by allocator cuda_host_bfc"
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
    "a server goes on, and its port is in use": "cudaMalloc failed: out of memory\n"
    "Error: listen tcp 127.0.0.1:11434: bind: address already in use\n",
    "a server goes on, and says so": "cudaMalloc failed: out of memory\n"
    'time=2026 level=INFO msg="offloaded 20/33 layers of the backend"\nError: no such manifest\n',
    "a program uses the CPU": "CUDA error: out of memory\nUsing the CPU\nerror: no data\n",
    "a log tells it mildly": "2026-01-01 10:00:00 - train - info - CUDA out of memory\n"
    "train.py:3: warning: CUDA out of memory\n| WARN | CUDA out of memory\nerror: no data\n",
    "a library goes on, and is killed": OOM + STEPS + "Killed\n",
    "a program goes on, and is killed": "CUDA error: out of memory\n" + STEPS + "Killed\n",
    "a program reduces its batch": OOM + "batch size reduced to 8\n" + "error: no data\n",
    "a note, with times": prefixed(
        "2026-01-01 10:00:00 ", "note: run 3 ended with CUDA out of memory\nerror: no data\n"
    ),
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
    "vLLM: another cause in the engine": vllm("KeyError: 'lm_head.weight'"),
    "vLLM: a config that names it": "INFO 08-12 01:36:10 [core.py:69] Initializing a V1 LLM engine "
    "with config: gpu_memory_utilization=0.9\n" + traceback("OSError: no such model"),
    "vLLM: a tip": "WARNING 08-12 01:36:10 [utils.py:9] No available memory for the cache blocks. "
    "Falling back to the CPU.\nerror: no data\n",
    "vLLM: caught": traceback(NO_ROOM)
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + traceback("ValueError: no port is free"),
    "a setting in an echo of the environment": "CUDA_ERROR_OUT_OF_MEMORY_RETRIES=3\n"
    "CUDA_ERROR_OUT_OF_MEMORY: retry\non CUDA_ERROR_OUT_OF_MEMORY do nothing\nno data\n",
    "CuPy: caught, and the batch halved": traceback(
        "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    )
    + "retrying with batch 16\n"
    + traceback("KeyError: 'x'"),
    "JAX: a warning": "W0101 00:00:00.123456  123 bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran "
    "out of memory trying to allocate 12.00GiB\nE0101 00:00:00.123456  123 cuda_driver.cc:1]"
    " failed to allocate 4.00GiB: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nerror: no data\n",
    "TensorFlow: a log": "2026-01-01 00:00:00.123456: W tensorflow/core/op_kernel.cc:1] INTERNAL: "
    "Dst tensor is not initialized.\nerror: no data\n",
    "ONNX Runtime: logged and caught": "2026-01-01 00:00:00.706256103 [E:onnxruntime:, "
    "sequential_executor.cc:494 ExecuteKernel] Non-zero status code returned: Failed to allocate "
    "memory for requested buffer of size 15728896\nerror: no data\n",
    "ONNX Runtime: on the CPU": "UserWarning: Specified provider 'CUDAExecutionProvider' is not in "
    "available provider names.Available providers: 'CPUExecutionProvider'\n"
    + traceback("RuntimeError: Failed to allocate memory for requested buffer of size 31568306688"),
    "Triton: another memory": traceback(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, "
        "Hardware limit: 101376. Reducing block sizes or `num_stages` may help."
    ),
    "NVML: not the allocator": traceback(
        "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at "
        '"../aten/src/ATen/cuda/PeerToPeerAccess.cpp":83'
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
def test_something_else(text: str) -> None:
    assert classify(FAILED, text) is classify(Exit(signal=6), text) is None


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


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (traceback("OSError: [Errno 98] Address already in use"), False),
        (traceback("KeyError: 'x'"), False),
        (traceback("RuntimeError: training failed"), True),
        (TORCHRUN, True),
        ("", True),
        ("bye\n", True),
    ],
)
def test_another_end_in_standard_error(error: str, found: bool) -> None:
    """Standard output alone ends with it: the program may have caught it there."""
    assert (judge(FAILED, (error, f"{TORCH}\n")) is not None) == found


@pytest.mark.parametrize("kept", [True, False])
def test_last_words_end_somewhere(kept: bool) -> None:
    after = "goodbye\n" * (LAST_LINES - 1 if kept else LAST_LINES)
    assert (classify(FAILED, TORCH + "\n" + after) is not None) == kept


@pytest.mark.parametrize(
    "request_", ["0 bytes", "9" * 20 + " TiB", "1" * 60 + " bytes", ",, bytes"]
)
def test_absurd_requests_are_not_believed(request_: str) -> None:
    found = classify(FAILED, f"RuntimeError: CUDA out of memory. Tried to allocate {request_}")
    assert found.requested_mib is None


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
    found = classify(exit, tail) or hint(exit, tail)
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
        "int() with base 10: ",
        "a.",
        "[a,",
        "#1 ",
        "Traceback (most recent call last)\n",
        "Traceback (most recent call last)\nKeyboardInterrupt\n",
        "Traceback (most recent call last)\nEOFError: trying\n trying to\n",
        "The above exception was the direct cause\nTraceback (most recent call last)\na: b\n",
        "CUDA error: out of memory ",
        "error ",
        "NVML_SUCCESS == ",
        "NVML_SUCCESS == r INTERNAL ASSERT FAILED at ",
        "Free memory on device ",
        "buffer of size 1",
        "cuda failed to allocate memory ",
        "cuda not enough a b ",
        "if cuda a b c ",
        "cudaMalloc returned ",
        "retrying batch",
        "I 1 INFO ",
        "CUDA error: out of memory\nCUDA out of memory: allocating 2 GiB\n",
        "RuntimeError: failed to load ",
        "Traceback (most recent call last)\nRuntimeError: worker exited\n",
        "Traceback (most recent call last)\nTypeError: 'NoneType'\nCUDA error\n",
        "lib(a+0x1",
        "f((+0x1) [0",
        "  at a(",
        "12:00:00 ",
        "2026-01-01 10:00:00 CUDA error: out of memory\n",
        "step 1 step 2 ",
        "CUDA error: out of memory\nstep 1\n",
        "Traceback (most recent call last)\nCUDAError: out of memory\nbatch 1 batch 2\n",
        "a.b(0x1, ",
        "error failed code 2 ",
        "not a enough b-c-",
        "  3: a::",
        "error: out of memory\n",
        "cudaMalloc failed error code ",
        "ERROR 01-01 00:00:00 [",
        "ERROR 01-01 00:00:00 [a] Traceback (most recent call last)\n",
        " ",
        "\n",
    ],
)
def test_hostile_output_comes_to_an_end(unit: str) -> None:
    """A pattern that tries every way of matching these would outlast the test run."""
    assert hint(FAILED, "x" + unit * TAIL_BYTES) is None
    found = classify(FAILED, "x" + unit * TAIL_BYTES)
    assert found is None or found.signature.startswith("CUDA ")
