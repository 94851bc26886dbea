"""GPU memory ran out: every known signature, in whatever it is wrapped."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

import pytest

from radrm.core.records import Exit, OutOfMemory
from radrm.last_words import AFTERMATH_LINES
from radrm.oom import classify
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
    (
        "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        None,
    ),
    ("cupy.cuda.cufft.CuFFTError: CUFFT_ALLOC_FAILED", None),
    ("RuntimeError: CUDA driver error: out of memory", None),
    ("RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `potrf`", None),
    (
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830, please report a bug to PyTorch.',
        None,
    ),
    (
        'RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":963, please report a bug to PyTorch.',
        None,
    ),
    (
        "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization (0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        None,
    ),
    (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
        None,
    ),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.6",
        None,
    ),
    (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 38.15GiB.",
        39_066,
    ),
    (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:    6.00MiB\n              total allocation:   12.00MiB\nPeak buffers:\n\tBuffer 1:\n\t\tSize: 6.00MiB\n"
        + "\t\tShape: f32[4096,128,3]\n\t\t==========================\n" * 20,
        6,
    ),
    (
        "RuntimeError: Resource exhausted: Out of memory while trying to allocate 12582912 bytes.",
        12,
    ),
    (
        "tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to /job:localhost/replica:0/task:0/device:GPU:0 in order to run _EagerConst: Dst tensor is not initialized.",
        None,
    ),
    (
        "tensorflow.python.framework.errors_impl.InternalError: cudaSetDevice() on GPU:0 failed. Status: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        None,
    ),
    (
        "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Name:'/fc1/Conv' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*, bool, onnxruntime::WaitNotificationFn) Failed to allocate memory for requested buffer of size 8388608000",
        8000,
    ),
    (
        "onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0 ; hostname=gpu1 ; file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_allocator.cc ; line=47 ; expr=cudaMalloc((void**)&p, size);",
        None,
    ),
    (
        "paddle.base.core.ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, 15.500000GB memory has been allocated and available memory is only 300.000000MB.",
        2048,
    ),
    (
        "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:pool_memory_resource.hpp:257: Maximum pool size exceeded",
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
        prefixed(" 3: ", traceback(exception)),
        "\x1b[31m" + traceback(exception).replace("\n", "\x1b[0m\n"),
        traceback(exception).replace("\n", "\r\n"),
        traceback("ValueError: harmless, and caught") + EPOCHS + traceback(exception),
        traceback(exception) + TORCHRUN,
    ):
        found = classify(FAILED, text)
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
    ("CUDA_ERROR_OUT_OF_MEMORY", None),
    ("cuMemAlloc(&ptr, size) failed with error CUDA_ERROR_OUT_OF_MEMORY", None),
    (
        "terminate called after throwing an instance of 'Ort::Exception'\n  what():  /onnxruntime/core/framework/bfc_arena.cc:368 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 15728896",
        16,
    ),
    (
        "[E] [TRT] 2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no further information)\n[E] 1: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)",
        None,
    ),
    ("[E] Requested amount of GPU memory (34359738368 bytes) could not be allocated.", 32_768),
    (
        "ERROR: LoadError: Out of GPU memory trying to allocate 11.921 GiB\nEffective GPU memory usage: 99.85% (15.758 GiB/15.782 GiB)\nStacktrace:\n"
        + "  [1] #alloc#176\n    @ ~/.julia/packages/CUDA/CtvPY/src/pool.jl:267 [inlined]\n" * 30
        + "in expression starting at /home/me/train.jl:3",
        12_208,
    ),
    ("Error: out of memory launching kernel kNLSkinTest", None),
    ("RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: 0_Conv", None),
    (
        "mxnet.base.MXNetError: [12:00:00] src/storage/pooled_storage_manager.h:161: cudaMalloc retry failed: out of memory",
        None,
    ),
]


@pytest.mark.parametrize(("text", "requested"), NO_TRACEBACK)
def test_fatal_last_words(text: str, requested: int | None) -> None:
    for exit in (FAILED, Exit(code=134), Exit(signal=6), Exit(signal=11), Exit(code=255)):
        assert classify(exit, EPOCHS + text + "\n").requested_mib == requested


def test_the_record() -> None:
    assert classify(FAILED, traceback(TORCH)) == OutOfMemory("CUDA out of memory", 3328)


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (
            "Free memory on device (7.9/39.4 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 35.45 GiB).",
            "--gpu-memory-utilization",
        ),
        ("No available memory for the cache blocks.", "--gpu-memory-utilization"),
        (
            "Not enough memory. Please try to increase --mem-fraction-static.",
            "--mem-fraction-static",
        ),
    ],
)
def test_programs_that_take_a_part_of_the_total(message: str, option: str) -> None:
    found = classify(FAILED, traceback(f"ValueError: {message}"))
    assert (found.fraction, found.requested_mib) == (option, None)


STILL_OOM = {
    "vLLM's engine has no room": vllm(NO_ROOM),
    "vLLM's engine dies of PyTorch": vllm(TORCH),
    "vLLM's engine is in the server": traceback(NO_ROOM)
    + traceback(
        "RuntimeError: Engine process failed to start. See stack trace for the root cause."
    ),
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
    "ranks whose labels srun aligns": prefixed(" 3: ", OOM) + prefixed("10: ", "step 7\n" * 30),
    "ranks of a large step": prefixed("  3: ", OOM) + prefixed("127: ", "step 7\n" * 30),
    "a step fails, and its caller says so": "cudaMalloc failed: out of memory\n"
    "llama_model_load: error loading model\n"
    + traceback("ValueError: Failed to load model from file: m.gguf"),
    "every line has its time": prefixed(
        "May  1 10:00:00 ",
        f"terminate called after throwing an instance of 'c10::Error'\n  what():  {TORCH.partition(': ')[2]}\n"
        + "frame #1: c10::cuda + 0x12 (0x7f in libc10.so)\n" * 40,
    ),
    "another rank goes a step further": OOM + "step 7 loss 0.2\nstep 8 loss 0.2\n",
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


@pytest.mark.parametrize(
    ("logged", "exception"),
    [
        (
            "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED",
            "tensorflow.python.framework.errors_impl.InternalError: Blas GEMM launch failed",
        ),
        (
            "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
            "UnknownError: Failed to get convolution algorithm. This is probably because cuDNN "
            "failed to initialize, so try looking to see if a warning log message was printed",
        ),
        (
            "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
            "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library "
            "initialization failed. Look at the errors above for more details.",
        ),
    ],
)
def test_an_exception_that_refers_to_the_log_before_it(logged: str, exception: str) -> None:
    line = f"2024-01-01 10:00:00.123456: E external/xla/cuda_dnn.cc:466] {logged}\n"
    assert classify(FAILED, line + traceback(exception)) is not None
    assert classify(FAILED, traceback(exception)) is None
    assert classify(FAILED, line + STEPS_ON + traceback("ValueError: bad label")) is None


STEPS_ON = "".join(f"step {i} loss 0.3\n" for i in range(12))
