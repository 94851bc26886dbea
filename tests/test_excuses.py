"""Failures of an MPS server or driver, as programs print them, and texts that only look alike."""

from __future__ import annotations

import pytest

from radrm.core.records import Exit
from radrm.excuses import BESIDE, excuse_of

_HEADER = "Traceback (most recent call last):"
_ENGINE = (
    f'{_HEADER}\n  File "/x/bin/vllm", line 8, in <module>\nRuntimeError: Engine core '
    "initialization failed. See root cause above. Failed core proc(s): {}"
)

_TORCH = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    torch.zeros(1).cuda()
  File "/lib/torch/cuda/__init__.py", line 319, in _lazy_init
    torch._C._cuda_init()
RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before \
calling NumCudaDevices() that might have already set an error? Error {error}
"""
_NO_GPU = """\
/lib/torch/cuda/__init__.py:174: UserWarning: CUDA initialization: Unexpected error from \
cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might \
have already set an error? Error {error} (Triggered internally at /pytorch/c10/cuda/CUDAFunctions\
.cpp:109.)
  return torch._C._cuda_getDeviceCount() > 0
Traceback (most recent call last):
  File "train.py", line 4, in <module>
    assert torch.cuda.is_available()
AssertionError
"""
_ERRORS = {
    214: "214: uncorrectable ECC error encountered",
    802: "802: system not yet initialized",
    805: "805: MPS client failed to connect to the MPS control daemon or the MPS server",
    806: "806: the remote procedural call between the MPS server and the MPS client failed",
    807: "807: MPS server is not ready to accept new MPS client requests",
    810: "810: the MPS client has been terminated by the server",
}
_CUPY = """\
Traceback (most recent call last):
  File "a.py", line 2, in <module>
cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMpsServerNotReady: MPS server is not \
ready to accept new MPS client requests
"""
_NUMBA = """\
numba.cuda.cudadrv.driver.CudaAPIError: [805] Call to cuInit results in \
CUDA_ERROR_MPS_CONNECTION_FAILED
"""
_CPP = "terminate called after throwing an instance of 'std::runtime_error'\n"
_BURN = "Couldn't init CUDA: Error (gpu_burn-drv.cpp:304): MPS server is not ready to accept new \
MPS client requests\nNo CUDA devices\n"
_ASYNC = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss.backward()
torch.AcceleratorError: CUDA error: the MPS client has been terminated by the server
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below
might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


@pytest.mark.parametrize("number", sorted(_ERRORS))
@pytest.mark.parametrize("log", [_TORCH, _NO_GPU])
def test_pytorch_names_the_error(log: str, number: int) -> None:
    found = excuse_of(Exit(1), "epoch 1\n" + log.format(error=_ERRORS[number]))
    assert found.endswith(f"(CUDA error {number})")


@pytest.mark.parametrize(
    ("log", "number"),
    [(_CUPY, 807), (_NUMBA, 805), (_BURN, 807), (_ASYNC, 810), (_CPP + _BURN, 807)],
)
@pytest.mark.parametrize("exit", [Exit(1), Exit(signal=6), Exit(134)])
def test_other_programs_do(log: str, number: int, exit: Exit) -> None:
    assert f"(CUDA error {number})" in (excuse_of(exit, log) or "")


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (
            "AssertionError: Error in memory profiling. Initial free memory 22.94 GiB, current free"
            " memory 30.17 GiB. This happens when other processes sharing the same container "
            "release GPU memory while vLLM is profiling during initialization.\n" + _ENGINE,
            "while vLLM measured it",
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 1, current free memory "
            "2. This happens when the GPU memory was not properly cleaned up before initializing "
            "the vLLM instance.",
            "while vLLM measured it",
        ),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
            "processes. pre_model_load_memory=12.1",
            "other processes use memory",
        ),
        ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "error 46"),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "error 46"),
        ("cv2.error: (-217) all CUDA-capable devices are busy or unavailable", "error 46"),
        ("RuntimeError: CUDA error: initialization error", "error 3"),
    ],
)
def test_others_on_the_gpu_may_be_the_cause(error: str, part: str) -> None:
    found = excuse_of(Exit(1), f'{_HEADER}\n  File "a.py", line 2, in <module>\n{error}\n')
    assert part in found and found in BESIDE


def test_the_words_say_what_has_happened() -> None:
    assert excuse_of(Exit(1), _BURN) == "its MPS server took no new client (CUDA error 807)"


@pytest.mark.parametrize(
    "log",
    [
        "",
        # Other systems are not initialized, either.
        "ERROR: robot arm: system not ready\nsystem not yet initialized, call init() first\n",
        "RuntimeError: simulation system not yet initialized\n",
        # Out of memory, or too many clients: these do not pass.
        "CUDA error: out of memory\n",
        "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: the hardware resources required\n",
        # It went on without a GPU, and failed for a reason of its own.
        _NO_GPU.format(error=_ERRORS[807]).partition("Traceback")[0]
        + "step 1\n" * 200
        + "failed\n",
        "tip: with 'Error in memory profiling' start it again\nerror: no data\n" + "x\n" * 30,
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess.\n",
        # A warning of a library, and an error later.
        "WARNING: MPS server is not ready to accept new MPS client requests\n" + "x\n" * 30,
        _BURN + "x\n" * 30 + "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'y'\n",
        'Traceback (most recent call last):\n  File "a"\nValueError: 805 is not a valid port\n',
        "CUDA error 8070 files\n",
    ],
)
def test_false_friends(log: str) -> None:
    assert excuse_of(Exit(1), log) is None


@pytest.mark.parametrize("exit", [Exit(0), Exit(signal=9), Exit(signal=15), Exit(137)])
def test_a_good_end_or_a_signal_from_outside_says_something_else(exit: Exit) -> None:
    assert excuse_of(exit, _BURN) is None
