"""Ends of programs from public reports, whole: with what launchers and bars print after them."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

from tests.last_words.corpus import abort
from tests.last_words.logs import prefixed, traceback

TRIED = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.65 GiB total capacity; 21.10 GiB already allocated; 1.06 GiB free; 21.30 GiB reserved in total by PyTorch)"
OOM = f"torch.cuda.OutOfMemoryError: {TRIED}"
FRAMES = "".join(
    f"frame #{i}: at::native::empty_cuda(c10::ArrayRef<long>) + 0x3{i} (0x7f1e000644{i} in /opt/torch/lib/libtorch_cuda.so)\n"
    for i in range(24)
)
BT = "".join(
    f"  [bt] ({i}) /opt/lib/libxgboost.so(+0x45544{i}) [0x7f1e00064449]\n" for i in range(10)
)
MPI_TRACE = (
    "[gpu07:07706] *** Process received signal ***\n[gpu07:07706] Signal: Aborted (6)\n[gpu07:07706] Signal code:  (-6)\n"
    + "".join(
        f"[gpu07:07706] [{i:2}] /lib/x86_64-linux-gnu/libc.so.6(abort+0x16a)[0x7f18b59f802a]\n"
        for i in range(14)
    )
    + "[gpu07:07706] *** End of error message ***\n"
)
MPIRUN = (
    "--------------------------------------------------------------------------\n"
    "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n"
    "--------------------------------------------------------------------------\n"
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[44821,1],0]\n  Exit code:    1\n"
    "--------------------------------------------------------------------------\n"
)
MPI_ABORT = (
    "--------------------------------------------------------------------------\n"
    "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\n"
    "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\nYou may or may not see output from other processes, depending on\nexactly when Open MPI kills them.\n"
    "--------------------------------------------------------------------------\n"
)
WANDB = (
    "wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.\nwandb: \nwandb: Run history:\n"
    + "".join(f"wandb:      train_loss_ce_{i} █▇▇▆▅▅▃▁\n" for i in range(25))
    + "wandb: \nwandb: Run summary:\n"
    + "".join(f"wandb:      train_loss_ce_{i} 0.{i}\n" for i in range(25))
    + "wandb: \nwandb: You can sync this run to the cloud by running:\nwandb: wandb sync /home/me/wandb/offline-run-20230410_041904-5r6581c1\nwandb: Find logs at: ./wandb/offline-run-20230410_041904-5r6581c1/logs\n"
)
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def child_failed(
    exitcode: str = "1",
    why: str = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    ranks: int = 8,
) -> str:
    """What torchrun of PyTorch 2.3 prints after a rank's death."""
    end = "  time      : 2025-08-01_13:23:17\n  host      : gpu07\n"
    return (
        "".join(
            f"W0801 13:23:17.366000 32974 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {33050 + i} closing signal SIGTERM\n"
            for i in range(ranks - 1)
        )
        + f"E0801 13:23:20.000000 32974 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {exitcode}) local_rank: 3 (pid: 33054) of binary: /home/me/bin/python3\n"
        + traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", frames=7)
        + "============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n"
        + "".join(
            f"[{i}]:\n{end}  rank      : {i} (local_rank: {i})\n  exitcode  : {exitcode} (pid: 3305{i})\n  error_file: <N/A>\n  traceback : {why}\n"
            for i in range(1, 3)
        )
        + f"------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n{end}  rank      : 3 (local_rank: 3)\n  exitcode  : {exitcode} (pid: 33054)\n  error_file: <N/A>\n  traceback : {why}\n"
        "============================================================\n"
    )


def panel(message: str) -> str:
    """A traceback as rich draws it, with the message broken at 80 columns."""
    rule = "─" * 24
    lines = [message[i : i + 79] for i in range(0, len(message), 79)]
    return (
        f"╭{rule} Traceback (most recent call last) {rule}╮\n"
        + "│ /opt/nerfstudio/scripts/train.py:262 in entrypoint                            │\n│ ❱ 262 │   main(                                                               │\n"
        * 8
        + f"╰{'─' * 80}╯\n"
        + "\n".join(lines)
        + "\n"
    )


CHECK_STACK = "*** Check failure stack trace: ***\n" + "".join(
    f"    @     0x7feeceb683a{i}  oneflow::(anonymous namespace)::ConvGpuKernel<>::Compute()\n"
    for i in range(18)
)
GOROUTINES = (
    "SIGABRT: abort\nPC=0x7f2b9c8969fc m=5 sigcode=18446744073709551610\nsignal arrived during cgo execution\n\n"
    + "goroutine 7 gp=0xc000102e00 m=5 mp=0xc000100008 [syscall]:\nruntime.cgocall(0x563, 0xc0000)\n\t/usr/local/go/src/runtime/cgocall.go:167 +0x4b\n"
    * 12
    + "rax    0x0\nrbx    0x7f2b\nrip    0x7f2b9c8969fc\n"
)
GGML = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 0: cudaMalloc failed: out of memory\n"

TRUE = {
    "SPECFEM3D": "CUDA error !!!!! <out of memory> !!!!! \nat CUDA call error code: # 2402\n"
    + "".join(
        f"Abort(1) on node {i} (rank {i} in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process {i}\n"
        for i in range(1, 7)
    ),
    "MFC": "allocated block device:0x7dbb6f30cc00 size:1536 thread:1\n" * 20
    + "Accelerator Fatal Error: call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory\n File: /home/me/MFC/src/simulation/m_rhs.fpp\n Function: s_initialize_rhs_module:172\n Line: 249\n\n"
    + MPIRUN,
    "CUDAdrv.jl": "ERROR: LoadError: CUDA error: out of memory (code #2, ERROR_OUT_OF_MEMORY)\nStacktrace:\n"
    + "".join(
        f" [{i}] alloc(::Int64) at /home/me/.julia/packages/CuArrays/f4Eke/src/memory.jl:221\n"
        for i in range(1, 30)
    )
    + "in expression starting at /home/me/train.jl:40\n",
    "CUDA.jl": "ERROR: LoadError: Out of GPU memory trying to allocate 1.000 GiB\nEffective GPU memory usage: 99.43% (23.512 GiB/23.646 GiB)\nMemory pool usage: 21.375 GiB (22.125 GiB reserved)\n\nStacktrace:\n"
    + "".join(
        f"  [{i}] macro expansion\n    @ ~/.julia/packages/CUDA/jdJ7Z/lib/cudadrv/pool.jl:448 [inlined]\n"
        for i in range(1, 20)
    )
    + "in expression starting at /home/me/train.jl:40\n",
    "cuFFT in Julia": "ERROR: LoadError: CUFFTError(code 2, cuFFT failed to allocate GPU or CPU memory)\nStacktrace:\n [1] throw_api_error(::UInt32) at /home/me/.julia/packages/CuArrays/fft/error.jl:60\n [2] top-level scope at deconvolve.jl:12\n",
    "AMDGPU.jl": "ERROR: HIPError(code hipErrorOutOfMemory, out of memory)\nStacktrace:\n  [1] check(res::AMDGPU.HIP.hipError_t)\n    @ AMDGPU.HIP ~/.julia/packages/AMDGPU/gtxsf/src/hip/error.jl:142\n  [2] top-level scope\n    @ REPL[3]:1\n",
    "RELION, planning": "in: /opt/relion/src/acc/cuda/cuda_fft.h, line 224\nERROR: \n\nWhen trying to plan one or more Fourier transforms, it was found that the available\nGPU memory was insufficient. Relion attempts to reduce the memory by segmenting\nthe required number of transformations, but in this case not even a single\ntransform could fit into memory. Either you are (1) performing very large transforms,\nor (2) the GPU had very little available memory.\n\n\t(1) may occur during autopicking if the 'shrink' parameter was set to 1. The \n\trecommended value is 0 (--shrink 0).\n\n\t(2) may occur if multiple processes were using the same GPU without being aware\n\tof each other, or if there were too many such processes.\n\n=== Backtrace  ===\n"
    + "/opt/relion/bin/relion_autopick(_ZN11RelionErrorC1ERK+0x7d) [0x48e6ed]\n" * 10
    + "==================\n",
    "RELION, allocator": '0.27/1.06 hrs ...............~~(,_,">ERROR: CudaCustomAllocator out of memory\n [requestedSpace:             530245632 B]\n [largestContinuousFreeSpace: 397115392 B]\n [totalFreeSpace:             495298560 B]\n'
    + "(512B) (294912B) (1327104B) [512B] " * 90
    + "= 4808391168B\nin: /opt/relion/src/acc/cuda/custom_allocator.cuh, line 539\n=== Backtrace  ===\n"
    + "/opt/relion/bin/relion_refine_mpi(_ZN11MlOptimiserMpi11expectationEv+0x551)[0x446b51]\n" * 14
    + "==================\nERROR: \nYou ran out of memory on the GPU(s).\n\nEach MPI-rank running on a GPU increases the use of GPU-memory.\nRelion tries to distribute load over multiple GPUs to increase performance,\nbut doing this in a general and memory-efficient way is difficult.\n\n"
    + MPI_ABORT,
    "Kokkos, texture": abort(
        "std::runtime_error",
        "cudaCreateTextureObject( & tex_obj , & resDesc, & texDesc, NULL ) error( cudaErrorMemoryAllocation): out of memory ../../lib/kokkos/core/src/Cuda/Kokkos_CudaSpace.cpp:296",
    )
    + "Traceback functionality not available\n\n"
    + MPI_TRACE,
    "LAMMPS": "Setting up Verlet run ...\nERROR: Insufficient memory on accelerator (src/GPU/gpu_extra.h:38)\nLast command: run             100\n"
    + MPI_ABORT,
    "ONNX Runtime": traceback(
        "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Name:'/blocks.0/mlp/fc1/Conv' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Failed to allocate memory for requested buffer of size 4585490524"
    ),
    "TensorRT 7, then its script": "[TensorRT] ERROR: ../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)\n[TensorRT] WARNING: GPU memory allocation error during getBestTactic: model/conv1/Conv2D\n[TensorRT] ERROR: Internal error: could not find any implementation for node model/conv1/Conv2D, try increasing the workspace size with IBuilder::setMaxWorkspaceSize()\n[TensorRT] ERROR: ../builder/tacticOptimizer.cpp (1523) - OutOfMemory Error in computeCosts: 0\n"
    + traceback("AttributeError: 'NoneType' object has no attribute 'serialize'"),
    "trtexec": "[08/01/2022-10:00:00] [E] Error[1]: [defaultAllocator.cpp::allocate::63] Error Code 1: Cuda Runtime (out of memory)\n[08/01/2022-10:00:00] [W] [TRT] Requested amount of GPU memory (8589934592 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.\n[08/01/2022-10:00:01] [E] Error[10]: [optimizer.cpp::computeCosts::3728] Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[onnx::MatMul_3482...Mul]}.)\n[08/01/2022-10:00:01] [E] Engine could not be created from network\n[08/01/2022-10:00:01] [E] Building engine failed\n[08/01/2022-10:00:01] [E] Failed to create engine from model or file.\n[08/01/2022-10:00:01] [E] Engine set up failed\n&&&& FAILED TensorRT.trtexec [TensorRT v8402] # trtexec --onnx=m.onnx\n",
    "cubecl": "=== PANIC ===\nA fatal error happened, you can check the experiment logs here => '/tmp/resnet-finetune/experiment.log'\n=============\n\nthread 'main' panicked at /home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cubecl-cuda-0.6.0/src/compute/storage.rs:132:87:\ncalled `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")\nstack backtrace:\n"
    + "".join(
        f"  {i:2}: <cubecl_cuda::compute::storage::CudaStorage as ComputeStorage>::alloc\n             at /rustc/6b00bc3/library/core/src/result.rs:1732\n"
        for i in range(25)
    )
    + "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n",
    "burn": "2024-03-29T14:31:18.784569Z  INFO burn_train::learner::epoch: Executing training step for epoch 1    \n"
    + "2024-03-29T14:31:22.254104Z ERROR burn_train::learner::log: PANIC => panicked at /home/me/.cargo/registry/src/burn-candle-0.12.1/src/backend.rs:47:83:\ncalled `Result::unwrap()` on an `Err` value: Cuda(Cublas(CublasError(CUBLAS_STATUS_ALLOC_FAILED)))    \n"
    * 3,
    "mistral.rs": '2024-10-03T10:00:00Z  INFO mistralrs_core::pipeline::gguf: Loading model\nError: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n   0: candle_core::error::Error::bt\n   1: candle_core::cuda_backend::device::CudaDevice::alloc\n   2: main\n\nStack backtrace:\n'
    + "   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from\n" * 16,
    "tch": "Error: Tch tensor error: Internal torch error: "
    + TRIED
    + " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\nException raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:536 (most recent call first):\n"
    + FRAMES,
    "wgpu": "thread 'main' panicked at 'wgpu error: Validation Error\n\nCaused by:\n    In Device::create_buffer\n      note: label = `Buffer Src`\n    Not enough memory left\n\n', /home/me/wgpu/src/backend/direct.rs:3095:5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    "llama-server": GGML
    + "alloc_tensor_range: failed to allocate CUDA0 buffer of size 10345253120\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\nllama_model_load_from_file_impl: failed to load model\ncommon_init_from_params: failed to load model 'm.gguf'\nsrv    load_model: failed to load model, 'm.gguf'\nsrv    operator(): operator(): cleaning up before exit...\nmain: exiting due to model loading error\n",
    "llama.cpp in a container": prefixed(
        "deep-seek-1  | ",
        GGML
        + "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 10345253120\nllama_kv_cache_update_impl: failed to allocate compute buffers\n/app/ggml/src/ggml-backend.cpp:1455: GGML_ASSERT(sched) failed\n",
    )
    + "deep-seek-1 exited with code 139\n",
    "langchain": GGML
    + "ggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968\nllama_new_context_with_model: failed to allocate compute buffers\n"
    + traceback(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for LlamaCpp\n  Value error, Could not load Llama model from path: /opt/data/m.gguf. Received error Failed to create llama_context [type=value_error, input_value={'model_path': 'm'}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.9/v/value_error",
        frames=4,
    ),
    "ollama's runner": "CUDA error: out of memory\n  current device: 0, in function alloc at //ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:484\n  cuMemCreate(&handle, reserve_size, &prop, 0)\n//ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:88: CUDA error\n"
    + GOROUTINES,
    "rmm as torch's allocator": ' 13%|█▎        | 516/4000 [1:50:41<10:11:17, 10.53s/it]Traceback (most recent call last):\n  File "torch_allocator.pyx", line 15, in rmm._lib.torch_allocator.allocate\nMemoryError: std::bad_alloc: out_of_memory: RMM failure at:/opt/include/rmm/mr/device/pool_memory_resource.hpp:196: Maximum pool size exceeded\n'
    + DIRECT
    + traceback(
        "SystemError: <built-in method empty of type object at 0x7f2b> returned a result with an exception set"
    ),
    "cudf in a notebook": "---------------------------------------------------------------------------\nMemoryError                               Traceback (most recent call last)\n<ipython-input-3-628af068fea6> in <module>\n----> 9 data = cudf.read_csv('data.csv', dtype = col_types)\n\n~/envs/rapids/lib/python3.7/contextlib.py in inner(*args, **kwds)\n     72         def inner(*args, **kwds):\n---> 74                 return func(*args, **kwds)\n     75         return inner\n\ncudf/_lib/csv.pyx in cudf._lib.csv.read_csv()\n\nMemoryError: std::bad_alloc: CUDA error at: ../include/rmm/mr/device/cuda_memory_resource.hpp:68: cudaErrorMemoryAllocation out of memory\n",
    "nbconvert": traceback(
        "nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:\n------------------\nfor x, y in loader:\n    model(x).sum().backward()\n------------------\n\n\n---------------------------------------------------------------------------\nOutOfMemoryError                          Traceback (most recent call last)\nCell In[4], line 2\n      1 for x, y in loader:\n----> 2     model(x).sum().backward()\n\nFile /opt/torch/_tensor.py:492, in Tensor.backward(self)\n    487     return handle_torch_function(\n--> 492 torch.autograd.backward(\n\nOutOfMemoryError: "
        + TRIED
        + "\n"
    ),
    "dask": "distributed.worker - WARNING - Compute Failed\nKey:       ('read_parquet', 7)\nFunction:  execute_task\nargs:      ((subgraph_callable-0b132b58, 'a'))\nkwargs:    {}\nException: \"MemoryError('std::bad_alloc: out_of_memory: CUDA error at: /opt/rmm/include/rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory')\"\n\n"
    + traceback(
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/rmm/include/rmm/mr/device/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory"
    ),
    "gpu_hist": traceback(
        "xgboost.core.XGBoostError: [11:01:50] ../src/tree/updater_gpu_hist.cu:784: Exception in gpu_hist: [11:01:50] ../src/c_api/../data/../common/device_helpers.cuh:431: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: 8126464\n- Requested memory: 33554432\n\nStack trace:\n"
        + BT
        + "\n\nStack trace:\n"
        + BT
        + "\n"
    ),
    "CatBoost aborts": '(NCudaLib::TOutOfMemoryError) /src/catboost/catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 8880 MB; Free 5902.061425 MB\nuncaught exception:\n    address -> 0x4d5a35b0410\n    what() -> "/src/catboost/catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 8880 MB; Free 5902.061425 MB"\n    type -> NCudaLib::TOutOfMemoryError\nAborted (core dumped)\n',
    "CatBoost, CUDA": traceback(
        "_catboost.CatBoostError: catboost/cuda/cuda_lib/cuda_base.h:281: CUDA error 2: out of memory"
    ),
    "Numba, twice": traceback(
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"
    )
    + DURING
    + traceback(
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        frames=5,
    ),
    "torch_memory_saver": "[torch_memory_saver.cpp] CUresult error  result=2 file=csrc/torch_memory_saver.cpp func=cu_mem_create line=103\n",
    "llama.cpp on SYCL": "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)Exception caught at file:/src/ggml/src/ggml-sycl/ggml-sycl.cpp, line:410\n",
    "XPU": " 12%|█▏        | 6/50 [00:31<03:40,  5.02s/it]\n"
    + traceback(
        "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"
    ),
    "Cycles": "Fra:1 Mem:17765.97M (Peak 23433.50M) | Time:00:39.16 | Mem:1517.36M, Peak:1517.36M | Scene, ViewLayer | Updating Scene BVH\n"
    * 4
    + "Invalid context in cuCtxPopCurrent(NULL) (intern/cycles/device/cuda/util.cpp:31)\nInvalid value in cuCtxPushCurrent(device->cuContext) (intern/cycles/device/cuda/util.cpp:26)\nSystem is out of GPU and shared host memory\n"
    * 4
    + "Error: System is out of GPU and shared host memory\n\nBlender quit\n",
    "Cycles, stream": "Out of memory in cuStreamCreate(&cuda_stream_, CU_STREAM_NON_BLOCKING) (intern/cycles/device/cuda/queue.cpp:21)\n\nRefer to the Cycles GPU rendering documentation for possible solutions:\nhttps://docs.blender.org/manual/en/latest/render/cycles/gpu_rendering.html\n\n"
    + "Out of memory in cuStreamCreate(&cuda_stream_, CU_STREAM_NON_BLOCKING) (intern/cycles/device/cuda/queue.cpp:21)\n"
    * 6,
    "OptiX 6": abort(
        "optix::Exception",
        'Memory allocation failed (Details: Function "RTresult _rtBufferCreate(RTcontext, unsigned int, RTbuffer_api**)" caught exception: Encountered a CUDA error: cudaDriver().CuDevicePrimaryCtxRetain( &context, dev.get() ) returned (2): Out of memory',
    )
    + "=" * 80
    + "\nBacktrace:\n"
    + "\t(0) () +0x711f17\n" * 14
    + "=" * 80
    + "\nAborted (core dumped)\n",
    "OptiX 7": "Caught exception: OPTIX_ERROR_DEVICE_OUT_OF_MEMORY: Optix call 'optixAccelBuild( context, 0, &options )' failed: /src/optixRaycasting.cpp:212)\n\n",
    "LuxCore": "[LuxCore][12.345] Device 0: Allocating buffer\nRUNTIME ERROR: CUDA driver API error CUDA_ERROR_OUT_OF_MEMORY (code: 2, file:/src/luxrays/devices/cudadevice.cpp, line: 470): out of memory\n\n",
    "OneFlow": "F0808 14:02:36.887184 29334 cuda_util.cpp:88] Check failed: error == cudaSuccess (2 vs. 0) out of memory\n"
    + CHECK_STACK,
    "TensorFlow, eager": "2023-05-01 10:00:00.1: W tensorflow/tsl/framework/bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.00GiB (rounded to 4294967296)requested by op _EagerConst\nIf the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve the situation. \nCurrent allocation summary follows.\n"
    + "2023-05-01 10:00:00.2: I tensorflow/tsl/framework/bfc_allocator.cc:1046] Bin (256): \tTotal Chunks: 10, Chunks in use: 10. 2.5KiB allocated for chunks.\n"
    * 30
    + traceback(
        "tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to /job:localhost/replica:0/task:0/device:GPU:0 in order to run _EagerConst: Dst tensor is not initialized."
    ),
    "TensorFlow, Eigen": "2017-08-04 10:00:00: E tensorflow/core/common_runtime/bfc_allocator.cc:244] tried to allocate 0 bytes\n2017-08-04 10:00:00: W tensorflow/core/common_runtime/allocator_retry.cc:32] Request to allocate 0 bytes\n2017-08-04 10:00:00: F tensorflow/core/common_runtime/gpu/gpu_device.cc:103] EigenAllocator for GPU ran out of memory when allocating 0. See error logs for more detailed info.\nAborted (core dumped)\n",
    "TensorFlow 1, caused by": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,256,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node resnet/conv}} = Conv2D[T=DT_FLOAT]]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.\n\n\nCaused by op 'resnet/conv', defined at:\n"
        + '  File "train.py", line 12, in build\n    x = tf.layers.conv2d(x)\n' * 22
        + "\nResourceExhaustedError (see above for traceback): OOM when allocating tensor with shape[64,256,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node resnet/conv}} = Conv2D[T=DT_FLOAT]]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.\n\n"
    ),
    "Keras": "Epoch 1/30\n"
    + traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node 'unet/conv2d/Conv2D' defined at (most recent call last):\n"
        + '    File "/opt/keras/engine/training.py", line 1650, in fit\n      tmp_logs = self.train_function(iterator)\n'
        * 16
        + "Node: 'unet/conv2d/Conv2D'\nOOM when allocating tensor with shape[16,64,512,512] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node unet/conv2d/Conv2D}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info. This isn't available when running in Eager mode.\n [Op:__inference_train_function_3124]"
    ),
    "MIOpen": "2018-07-17 09:05:55.622488: I tensorflow/core/kernels/conv_ops.cc:670] running auto-tune for Convolve\nMIOpen Error: /data/repo/MIOpen/src/hip/handlehip.cpp:70: Memory not available to allocate buffer: 655360000\n2018-07-17 09:05:55.622826: F tensorflow/stream_executor/rocm/rocm_dnn.cc:1603] Check failed: status == miopenStatusSuccess (7 vs. 0)Unable to find a suitable algorithm for doing forward convolution\nAborted (core dumped)\n",
    "hip's square": "info: allocate host mem (  7.63 MB)\ninfo: allocate device mem (  7.63 MB)\nerror: 'hipErrorOutOfMemory'(2) at square.cpp:76\n",
    "Taichi": "[E 11/02/21 21:31:34.168 3504] [cuda_driver.h:operator()@86] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc (cuMemAlloc_v2)\n\n\n***********************************\n* Taichi Compiler Stack Traceback *\n***********************************\n"
    + "/opt/taichi/_lib/core/taichi_python.so: taichi::lang::Program::materialize_runtime()\n" * 30
    + "\nInternal error occurred. Check out this page for possible solutions:\nhttps://docs.taichi-lang.org/docs/install\n"
    + traceback(
        "RuntimeError: [cuda_driver.h:operator()@86] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc (cuMemAlloc_v2)"
    ),
    "cryoSPARC": "**** handle exception rc\n"
    + traceback("pycuda._driver.MemoryError: cuMemAlloc failed: out of memory")
    + "set status to failed\n========= main process now complete at 2023-03-10 11:46:28.413422.\n========= monitor process now complete at 2023-03-10 11:46:28.419532.\n",
    "Mask3D": traceback(
        "MemoryError: std::bad_alloc: cudaErrorMemoryAllocation: out of memory", frames=20
    )
    + DURING
    + traceback("TypeError: print_exception() got an unexpected keyword argument 'etype'")
    + WANDB,
    "Thrust in MinkowskiEngine": traceback(
        "MemoryError: std::bad_alloc: temporary_buffer::allocate: get_temporary_buffer failed"
    ),
    "Kaldi": "ERROR (nnet3-train[5.5]:AllocateNewRegion():cu-allocator.cc:519) Failed to allocate a memory region of 8088715264 bytes.  Possibly this is due to sharing the GPU.  Try switching the GPUs to exclusive mode (nvidia-smi -c 3) and using the option --use-gpu=wait to scripts like steps/nnet3/chain/train.py.  Memory info: free:15426M, used:17053M, total:32480M, free/total:0.474948 CUDA error: 'out of memory'\n\n[ Stack-Trace: ]\n"
    + "/opt/kaldi/src/lib/libkaldi-base.so(kaldi::MessageLogger::LogMessage() const+0xb42) [0x7f2b]\n"
    * 14
    + "\nkaldi::KaldiFatalError\n# Accounting: time=20 threads=1\n# Ended (code 255) at Wed Dec  2 17:53:25 GMT 2020, elapsed time 20 seconds\n",
    "Marian": "[2020-05-05 18:48:50] [memory] Extending reserved space to 9088 MB (device gpu0)\n[2020-05-05 18:48:50] Error: CUDA error 2 'out of memory' - /opt/marian/src/tensors/gpu/device.cu:38: cudaMalloc(&data_, size)\n[2020-05-05 18:48:50] Error: Aborted from virtual void marian::gpu::Device::reserve(size_t) in /opt/marian/src/tensors/gpu/device.cu:38\n\n[CALL STACK]\n"
    + "[0x853061]          marian::gpu::Device::  reserve  (unsigned long)    + 0x1401\n" * 14
    + "\nAborted (core dumped)\n",
    "PhysX": "PxgCudaDeviceMemoryAllocator fail to allocate memory 71303168 bytes!! Result = 2\n"
    * 8
    + "2023-03-17 09:14:09 [250,761ms] [Error] [omni.physx.plugin] PhysX error: PxgPinnedHostLinearMemoryAllocator: overflowing initial allocation size, FILE /src/PxgHeapMemAllocator.cpp, LINE 53\n"
    * 6
    + traceback("Exception: Failed to create simulation view backend"),
    "Isaac Gym": "+++ Using GPU PhysX\nPhysics Engine: PhysX\nPhysics Device: cuda:0\nGPU Pipeline: enabled\nPxgCudaDeviceMemoryAllocator fail to allocate memory 100663296 bytes!! Result = 2 \nSegmentation fault (core dumped)\n",
    "COLMAP": 'PatchMatch::Run\n---------------\nCUDA error at /opt/colmap/src/mvs/gpu_mat.h:167 - out of memory\nCUDA error at /opt/colmap/src/mvs/cuda_array_wrapper.h:157 - driver shutting down\nCUDA error at /opt/colmap/src/mvs/cuda_array_wrapper.h:149 - driver shutting down\nCUDA error at /opt/colmap/src/mvs/gpu_mat.h:167 - driver shutting down\n*** Aborted at 1572333188 (unix time) try "date -d @1572333188" if you are using GNU date ***\n*** Error in `colmap\': free(): corrupted unsorted chunks: 0x0000000002754bf0 ***\n======= Backtrace: =========\n'
    + "/lib/x86_64-linux-gnu/libc.so.6(+0x777e5)[0x7fbe359537e5]\n" * 12,
    "openmmtools": traceback("KeyError: (366470656340979585, 4946973717435834380)")
    + DURING
    + traceback(
        "openmm.OpenMMException: Error creating array savedForces: CUDA_ERROR_OUT_OF_MEMORY (2)",
        frames=6,
    ),
    "QuEST": "Could not allocate memory on GPU!\n",
    "VASP": "Out of memory allocating 1073741824 bytes of device memory\ntotal/free CUDA memory: 16945709056/1048576\nPresent table dump for device[1]: NVIDIA Tesla GPU 0, compute capability 7.0, threadid=1\n"
    + "host:0x7dbb6f30ae00 device:0x7fca06000000 size:4194304 presentcount:1+0 line:312 name:work\n"
    * 24
    + "call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory\n"
    + MPIRUN,
    "CUDA Fortran": "0: copyout Memcpy (host=0x2b8f, dev=0x7f11, size=8) FAILED: 2(out of memory)\n"
    + MPIRUN,
    "text-generation-inference": traceback(OOM)
    + DIRECT
    + traceback(
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
        frames=8,
    )
    + '\n2023-08-01T16:01:44.733Z ERROR warmup{max_input_length=1024 max_prefill_tokens=4096}:warmup: text_generation_client: router/client/src/lib.rs:33: Server error: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\nError: Warmup(Generation("Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"))\n2023-08-01T16:01:44.800Z ERROR text_generation_launcher: Webserver Crashed\n2023-08-01T16:01:44.800Z  INFO text_generation_launcher: Shutting down shards\n2023-08-01T16:01:45.200Z  INFO shard-manager: text_generation_launcher: Shard terminated rank=0\nError: WebserverFailed\n',
    "SGLang": "[2025-12-11 10:34:40 TP0] Scheduler hit an exception: "
    + traceback(
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.2"
    )
    + "\n[2025-12-11 10:34:40] Received sigquit from a child process. It usually means the child failed.\nKilled\n",
    "SGLang, graphs": "[2025-03-12 10:34:40 TP0] Scheduler hit an exception: "
    + traceback(
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 314.00 MiB. GPU 0 has a total capacity of 44.39 GiB of which 100.00 MiB is free.\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile\n4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\nOpen an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
    )
    + "\n[2025-03-12 10:34:41] Received sigquit from a child process. It usually means the child failed.\n",
    "cudaMallocAsync": traceback(
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 7.20 GiB\nRequested               : 512.00 MiB\nDevice limit            : 8.00 GiB\nFree (according to CUDA): 0 bytes\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB"
    ),
    "ComfyUI": "!!! Exception during processing !!! Allocation on device \n"
    + traceback("torch.OutOfMemoryError: Allocation on device ", frames=6)
    + "\nGot an OOM, unloading all loaded models.\nPrompt executed in 41.11 seconds\n",
    "Chainer": "Exception in main training loop: Out of memory allocating 25,600,000 bytes (allocated so far: 3,635,267,072 bytes).\n"
    + traceback("    update()").rstrip()
    + "\nWill finalize trainer extensions and updater before reraising the exception.\n"
    + traceback(
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 25,600,000 bytes (allocated so far: 3,635,267,072 bytes)."
    ),
    "faster-whisper": traceback("RuntimeError: CUDA failed with error out of memory")
    + "[PYI-9260:ERROR] Failed to execute script '__main__' due to unhandled exception!\nFaster Whisper: 1\n",
    "WhisperJAV": f"2026-01-08 00:35:04 - whisperjav - ERROR - Failed: 1.mp4 - {TRIED}\n2026-01-08 00:35:04 - whisperjav - ERROR - Failed to process 1.mp4: {TRIED}\n"
    + traceback(OOM)
    + "2026-01-08 00:35:05 - whisperjav - INFO - \n2026-01-08 00:35:05 - whisperjav - INFO - ==== Summary ====\n2026-01-08 00:35:05 - whisperjav - INFO - Total files: 1\n2026-01-08 00:35:05 - whisperjav - INFO - Succeeded: 0\n2026-01-08 00:35:05 - whisperjav - INFO - Failed: 1\n",
    "R": "Error in (function (size, options)  : \n  "
    + TRIED
    + "\nException raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:272 (most recent call first):\n"
    + FRAMES
    + "Calls: f ... torch_randn -> call_c_function -> do_call -> do.call -> <Anonymous>\nExecution halted\n",
    "DeepSpeed": prefixed("[rank1]: ", traceback(f"torch.OutOfMemoryError: {TRIED}", frames=10))
    + "".join(
        f"[2024-05-01 10:00:0{i},000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 250{i}\n"
        for i in range(8)
    )
    + "[2024-05-01 10:00:09,000] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=7', '--deepspeed', 'zero3.json'] exits with return code = 1\n",
    "accelerate launch": traceback(OOM)
    + " 0%|          | 0/800 [00:22<?, ?it/s]\n"
    + traceback(
        "subprocess.CalledProcessError: Command '['/opt/conda/bin/python', 'train.py', '--bs', '8']' returned non-zero exit status 1.",
        frames=3,
    ),
    "torchrun": prefixed("[rank3]: ", traceback(OOM)) + child_failed(),
    "mp.spawn": traceback(
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        + traceback(OOM, frames=6)
    ),
    "Lightning's bar": "Epoch 0:   3%|▎         | 12/400 [00:08<04:23,  1.47it/s, loss=0.7]"
    + traceback(f"RuntimeError: {TRIED}", frames=15)
    + "Epoch 0:   3%|▎         | 12/400 [00:09<05:00,  1.29it/s, loss=0.7]\n                                                                                    \n",
    "wandb": traceback(OOM) + WANDB,
    "Hydra": "Error executing job with overrides: ['trainer=ddp', 'data.batch_size=64']\n"
    + traceback(f"RuntimeError: {TRIED}")
    + "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
    "srun -l": " 0: step 10 loss 0.3\n" * 3
    + prefixed(
        " 3: ",
        traceback(
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1."
        ),
    )
    + prefixed("10: ", "step 10 loss 0.3\n" * 2)
    + "srun: error: gpu07: task 3: Exited with exit code 1\nsrun: launch/slurm: _step_signal: Terminating StepId=1234.0\n 0: slurmstepd: error: *** STEP 1234.0 ON gpu07 CANCELLED AT 2024-05-01T10:00:00 ***\nsrun: error: gpu07: tasks 0-2,4-15: Terminated\n",
    "ray task": traceback(
        'ray.exceptions.RayTaskError(OutOfMemoryError): ray::train() (pid=4711, ip=10.0.0.7)\n  File "/home/me/train.py", line 40, in train\n    loss.backward()\n'
        + OOM
    )
    + "(train pid=4711) epoch 1 loss 0.3\n(raylet) [2024-05-01 10:00:00,000 I 1 1] shutting down\n",
    "ray tune": "2024-05-01 10:00:00,000\tERROR tune_controller.py:1374 -- Trial task failed for trial train_1a2b_00000\n"
    + traceback(
        'ray.exceptions.RayTaskError(OutOfMemoryError): ray::ImplicitFunc.train() (pid=4711, ip=10.0.0.7)\n  File "/opt/ray/tune/trainable.py", line 331, in train\n    raise skipped from exception_cause(skipped)\n'
        + OOM
    )
    + "\nTrial train_1a2b_00000 errored after 1 iterations at 2024-05-01 10:00:00. Total running time: 12s\nError file: /home/me/ray_results/train/error.txt\n╭──────────────────────────────────────╮\n│ Trial name       status     iter     │\n├──────────────────────────────────────┤\n│ train_1a2b_00000 ERROR         1     │\n╰──────────────────────────────────────╯\n\nNumber of errored trials: 1\n"
    + traceback("ray.tune.error.TuneError: ('Trials did not complete', [train_1a2b_00000])"),
    "Optuna": f"[W 2024-05-01 10:00:00,000] Trial 12 failed with parameters: {{'lr': 0.01}} because of the following error: OutOfMemoryError('{TRIED}').\n"
    + traceback(OOM)
    + "[W 2024-05-01 10:00:00,000] Trial 12 failed with value None.\n"
    + traceback(OOM, frames=5),
    "lc0": "GPU compute capability: 6.1\nUnhandled exception: CUDA error: out of memory (../src/neural/cuda/layers.cc:700)\n2021/12/12 22:04:16 lc0_main.go:659: GameInfo channel closed, exiting match loop\n2021/12/12 22:04:16 lc0_main.go:676: Waiting for lc0 to stop\nlc0 exited with: exit status 1\n2021/12/12 22:04:16 lc0_main.go:1035: playMatch: Client self-exited without producing any matches.\n2021/12/12 22:04:16 lc0_main.go:1255: Client self-exited without producing any matches.\n",
    "KataGo, buffer": abort(
        "StringError",
        "OpenCL error at /opt/katago/cpp/neuralnet/openclbackend.cpp, func err, line 1188, error CL_MEM_OBJECT_ALLOCATION_FAILURE",
    )
    + "Aborted (core dumped)\n",
    "hashcat 3": "Watchdog: Temperature retain trigger set to 75c\n\nInitializing device kernels and memory...\n\n- Device #1: Device does not provide enough allocatable device-memory to handle this attack\n\nStarted: Wed Sep 28 10:00:00 2016\nStopped: Wed Sep 28 10:00:02 2016\n",
    "NVENC's buffers": "[h264_nvenc @ 0x55ba06f470c0] CreateInputBuffer failed: out of memory (10): (no details)\nError initializing output stream 0:0 -- Error while opening encoder for output stream #0:0 - maybe incorrect parameters such as bit_rate, rate, width or height\nConversion failed!\n",
    "NVENC's context": "[h264_nvenc @ 0x55d020323ac0] dl_fn->cuda_dl->cuCtxCreate(&ctx->cu_context_internal, 0, cu_device) failed -> CUDA_ERROR_OUT_OF_MEMORY: out of memory\n[h264_nvenc @ 0x55d020323ac0] No capable devices found\n[vost#0:0/h264_nvenc @ 0x55d0] Error while opening encoder - maybe incorrect parameters such as bit_rate, rate, width or height.\nError while filtering: Generic error in an external library\n[out#0/mp4 @ 0x55d0] Nothing was written into output file, because at least one of its streams received no packets.\nframe=    0 fps=0.0 q=0.0 Lsize=       0kB time=N/A bitrate=N/A speed=N/A    \nConversion failed!\n",
    "cuvid": "cuvid: Failed cuvidCreateDecoder 2 (CUDA_ERROR_OUT_OF_MEMORY)\nfailed to init decoder.\n",
    "dlib": abort(
        "dlib::cuda_error",
        "Error while calling cudaMalloc(&data, n) in file /opt/dlib/dlib/cuda/cuda_data_ptr.cpp:28. code: 2, reason: out of memory",
    )
    + "Aborted (core dumped)\n",
    "nnU-Net": traceback(OOM, frames=10)
    + "Exception in thread Thread-1 (results_loop):\n"
    + traceback(
        "RuntimeError: One or more background workers are no longer alive. Exiting. Please check the print statements above for the actual error message"
    ),
    "JAX": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 528.00MiB (553648128B) on device ordinal 0"
    )
    + "--------------------\nFor simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.\n",
    "JAX, unfiltered": traceback(
        "jax._src.traceback_util.UnfilteredStackTrace: jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12524123136 bytes.\n\nThe stack trace below excludes JAX-internal frames.\nThe preceding is the original exception that occurred, unmodified.\n\n--------------------",
        frames=10,
    )
    + DIRECT
    + traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12524123136 bytes."
    ),
    "Paddle's launcher": "LAUNCH INFO 2022-12-13 10:56:04,051 Pod failed\nLAUNCH ERROR 2022-12-13 10:56:04,052 Container failed !!!\nContainer rank 0 status failed cmd ['/usr/bin/python', '-u', 'train.py'] code 1 log log/workerlog.0 \nenv {'GREP_COLOR': '1;31'}\nLAUNCH INFO 2022-12-13 10:56:04,052 ------------------------- ERROR LOG DETAIL -------------------------\n"
    + traceback(
        "SystemError: (Fatal) Operator conv2d raises an paddle::memory::allocation::BadAlloc exception.\nThe exception content is\n:ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 1.250000GB memory on GPU 0, 10.700000GB memory has been allocated and available memory is only 312.000000MB.\n\nPlease check whether there is any other process using GPU 0.\n1. If yes, please stop them, or start PaddlePaddle on another GPU.\n2. If no, please decrease the batch size of your model. \n\n (at /paddle/paddle/fluid/memory/allocation/cuda_allocator.cc:95)\n. (at /paddle/paddle/fluid/imperative/tracer.cc:307)\n"
    )
    + "LAUNCH INFO 2022-12-13 10:56:05,054 Exit code 1\n",
    "Triton": "E1103 10:12:13.123456 1 model_lifecycle.cc:638] failed to load 'bert' version 1: Internal: onnx runtime error 6: Exception during initialization: /workspace/onnxruntime/onnxruntime/core/framework/bfc_arena.cc:368 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 1073741824\nI1103 10:12:13.2 1 server.cc:677] \n+-------+---------+------------------------------------------+\n| Model | Version | Status                                   |\n+-------+---------+------------------------------------------+\n| bert  | 1       | UNAVAILABLE: Internal: onnx runtime er.. |\n+-------+---------+------------------------------------------+\n\nI1103 10:12:13.3 1 server.cc:307] Waiting for in-flight requests to complete.\nI1103 10:12:13.3 1 server.cc:338] All models are stopped, unloading models\nerror: creating server: Internal - failed to load all models\n",
    "whisper.cpp": "whisper_model_load: model size    = 3093.99 MB\n"
    + GGML
    + "whisper_model_load: failed to allocate memory for the model\nwhisper_init_with_params_no_state: failed to load model\nerror: failed to initialize whisper context\n",
    "Gaussian splatting": "Training progress:  23%|██▎       | 7000/30000 [04:01<12:22, 30.98it/s, Loss=0.1]"
    + traceback(
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
    + "Training progress:  23%|██▎       | 7010/30000 [04:02<13:14, 28.93it/s, Loss=0.1]\n",
    "libtorch": abort(
        "c10::OutOfMemoryError",
        TRIED
        + "\nException raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:936 (most recent call first):\n"
        + FRAMES,
    )
    + "\nAborted (core dumped)\n",
    "nerfstudio": panel(
        "OutOfMemoryError: "
        + TRIED
        + " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    ),
    "fairseq2": "[05/01/25 10:00:00] ERROR    fairseq2 - CUDA out of memory. See logged memory stats.    __init__.py:60\n"
    + prefixed(
        " " * 29,
        "|===========================================================================|\n|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |\n| Allocated memory      |   15046 MB |   15114 MB |   14505 GB |   14490 GB |\n"
        + "|---------------------------------------------------------------------------|\n" * 12
        + traceback("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", frames=6),
    ),
    "CuPy, FFT": traceback("cupy.cuda.cufft.CuFFTError: CUFFT_ALLOC_FAILED"),
    "TensorRT-LLM": "[TensorRT-LLM][ERROR] Failed to create executor: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory (/home/jenkins/cpp/tensorrt_llm/runtime/tllmBuffers.h:125)\n"
    + "1       0x7f2b9c8969fc void tensorrt_llm::common::check<cudaError>(cudaError, char const*, int) + 147\n"
    * 14
    + MPI_ABORT,
    "NCCL 2.21": traceback(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'"
    )
    + child_failed(),
    "cuSOLVER": traceback(
        "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"
    ),
    "cuRAND": traceback(
        "cupy_backends.cuda.libs.curand.CURANDError: CURAND_STATUS_ALLOCATION_FAILED"
    ),
}

SKIPPED = "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 3.07 GiB (GPU 0; 31.72 GiB total capacity; 29.28 GiB already allocated; 767.56 MiB free; 556.92 MiB cached);\n Skipping batch\n"
SUMMARY = (
    "|===========================================================================|\n|                  PyTorch CUDA memory summary, device ID 0                 |\n|---------------------------------------------------------------------------|\n"
    "|            CUDA OOMs: {}            |        cudaMalloc retries: 3         |\n|===========================================================================|\n|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
    + "| Allocated memory      |   15046 MB |   15114 MB |   14505 GB |   14490 GB |\n" * 8
    + "|===========================================================================|\n"
)
NOT_A_FAILURE = "2020-09-24 21:35:23.363348: W tensorflow/core/common_runtime/bfc_allocator.cc:246] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.\n"
ON_HOST = "2022-06-28 17:20:08.124513: E external/org_tensorflow/tensorflow/stream_executor/cuda/cuda_driver.cc:802] failed to alloc 1073741824 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n2022-06-28 17:20:08.124681: W external/org_tensorflow/tensorflow/core/common_runtime/device/device_host_allocator.h:46] could not allocate pinned host memory of size: 1073741824\n"
XLA_TRIES = "2019-05-29 23:55:55.555823: E external/org_tensorflow/tensorflow/stream_executor/cuda/cuda_driver.cc:828] failed to allocate 528.00M (553648128 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
RAYLET = "(raylet) [2024-08-25 19:21:02,241 E 1111013 1111013] (raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: b8aad7, IP: 10.0.0.7) over the last time period. To see more information about the Workers killed on this node, use `ray logs raylet.out -ip 10.0.0.7`\n(raylet) \n(raylet) Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html. Consider provisioning more memory on this node or reducing task parallelism by requesting more CPUs per task.\n"
USAGE = "usage: train.py [-h] [--lr LR] [--oom {skip,raise}]\n  --lr LR            learning rate\n  --oom {skip,raise} what to do on CUDA out of memory (default: skip the batch)\n"

OTHER = {
    "fairseq skipped": "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory\n| WARNING: ran out of memory, skipping batch\n"
    + traceback("AttributeError: 'NoneType' object has no attribute 'data'"),
    "fairseq skipped two": SKIPPED * 2
    + "gpu07:343884:343884 [2] NCCL INFO AllReduce: opCount 2 sendbuff 0x2aab recvbuff 0x2aab count 65536 datatype 1 op 0 root 0\n"
    * 2
    + traceback("ValueError: not enough values to unpack (expected 3, got 0)"),
    "fairseq, a summary, then cuBLAS": "2021-08-02 18:54:21 | WARNING | fairseq.trainer | OOM: Ran out of memory with exception: "
    + TRIED
    + "\n2021-08-02 18:54:21 | WARNING | fairseq.trainer | "
    + SUMMARY.format(1)
    + "2021-08-02 18:54:21 | WARNING | fairseq.trainer | attempting to recover from OOM in forward/backward pass\n"
    + traceback(
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`"
    ),
    "fairseq, a limit": "If you are getting CUDA out of memory errors, you should reduce the size of your batch by setting `--max-tokens`\n"
    + traceback("AssertionError: sentence at index 25683144 exceeds max_tokens limit!"),
    "detectron2 copied": "[02/24 10:00:00 d2.utils.memory]: Attempting to copy inputs of <function pairwise_iou at 0x7f4ebd75cc10> to CPU due to CUDA OOM\n"
    * 5
    + traceback(
        "FloatingPointError: Loss became infinite or NaN at iteration=1020!\nloss_dict = {'loss_cls': nan, 'loss_box_reg': nan}"
    ),
    "mmengine converted": "06/15 16:52:23 - mmengine - WARNING - Attempting to copy inputs of <function RTMDetInsHead.loss_mask_by_feat at 0x7f4ebd75cc10> to CPU due to CUDA OOM\n06/15 16:52:23 - mmengine - WARNING - Convert outputs to GPU (device=cuda:0)\n"
    + traceback("ValueError: There is no tensor in the inputs, cannot get dtype and device"),
    "TensorFlow, not a failure": NOT_A_FAILURE * 3
    + traceback(
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Incompatible shapes: [32,10] vs. [32,100]\n\t [[node loss/sub]] [Op:__inference_train_function_1]"
    ),
    "TensorFlow, on host": ON_HOST * 5 + "Killed\n",
    "TensorFlow, on host, then another": ON_HOST * 8
    + traceback("tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 12"),
    "XLA tries": XLA_TRIES * 4
    + "epoch 1 loss nan\n"
    + traceback("FloatingPointError: invalid value (nan) encountered in jit(train_step)"),
    "MindSpore, on host": "[ERROR] MD(14433,7fea,python):2021-12-12-14:13:43.932.181 [mindspore/ccsrc/minddata/dataset/util/arena.cc:250] Init] cudaHostAlloc failed, ret[2], out of memory\n[ERROR] MD(14433,7fea,python):2021-12-12-14:13:43.932.253 [mindspore/ccsrc/minddata/dataset/util/task.cc:67] operator()] Task:  - thread(140643787593472) is terminated with err msg: Out of memory. Memory malloc failed.\nLine of code : 621\nFile         : /home/jenkins/mindspore/ccsrc/minddata/dataset/engine/datasetops/device_queue_op.cc\n\n",
    "Paddle, pinned": traceback(
        "OSError: (External) CUDA error(2), out of memory. cudaHostAlloc failed."
    )
    + "cudaHostAlloc Cannot allocate 32 bytes in CUDAPinnedPlace\n",
    "dlib, pinned": "step#: 0     learning rate: 0.1   average loss: 0\nError while calling cudaMallocHost(&data, new_size*sizeof(float)) in file /opt/dlib/dlib/dnn/gpu_data.cpp:181. code: 2, reason: out of memory\n",
    "hipHostMalloc": "allocating on host...\nErr: hipHostMalloc failed with code: 2 (hipErrorOutOfMemory)\n",
    "LightGBM's host": traceback("lightgbm.basic.LightGBMError: Out of Host Memory"),
    "PGI's host": "malloc: cuMemHostAlloc returns error code 201\n0: ALLOCATE: 256 bytes requested; not enough memory\n"
    + MPIRUN,
    "torchrun, SIGKILL": child_failed("-9", "Signal 9 (SIGKILL) received by PID 33054"),
    "torchrun, SIGBUS": child_failed("-7", "Signal 7 (SIGBUS) received by PID 33054"),
    "torchrun, SIGSEGV": child_failed("-11", "Signal 11 (SIGSEGV) received by PID 33054"),
    "torchrun, another": prefixed("[rank3]: ", traceback("ValueError: bad shape")) + child_failed(),
    "Ray, node's memory": RAYLET
    + traceback(
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information."
    ),
    "Ray, node's memory, more": traceback(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.7, ID: fc2b) where the task (actor ID: f9cc, name=SimEnv.__init__, pid=4331, memory used=2.22GB) was running was 59.49GB / 62.58GB (0.950744), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: d98a) because it was the most recently scheduled task. Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n4331\t2.22\tray::SimEnv gpu=0\nRefer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html."
    ),
    "fallen off": "Exception in thread Thread-4:\n"
    + traceback("wandb.vendor.pynvml.pynvml.NVMLError_GpuIsLost: GPU is lost")
    + WANDB,
    "Xid": "[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n[74889.644139] NVRM: Xid (PCI:0000:02:00): 31, pid=4711, Ch 00000010, engmask 00000101, intr 10000000. MMU Fault\n"
    + traceback("RuntimeError: CUDA error: unspecified launch failure"),
    "ECC": traceback(
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\nSearch for `cudaErrorECCUncorrectable' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    ),
    "PhysX, illegal access": "2025-09-10T01:38:16Z [20,427ms] [Error] [omni.physx.tensors.plugin] CUDA error: an illegal memory access was encountered: ../../plugins/gpu/CudaCommon.h: 74\n2025-09-10T01:38:16Z [20,427ms] [Error] [omni.physx.tensors.plugin] Unable to allocate memory of size 12 for cMassLocalPosePosDev\n"
    * 4
    + "Segmentation fault (core dumped)\n",
    "PhysX, a buffer": "/buildAgent/work/99bede84aa0a52c2/source/gpunarrowphase/src/PxgNarrowphaseCore.cpp (2185) : internal error : PxgDynamicsMemoryConfig::collisionStackSize buffer overflow detected, please increase its size to at least 1484688128 in the scene desc!\n"
    * 5
    + "Segmentation fault (core dumped)\n",
    "PhysX, pinned": "2023-07-24 09:14:09 [250,761ms] [Error] [omni.physx.plugin] PhysX error: SynchronizeStreams cuEventRecord failed with error 700\n2023-07-24 09:14:09 [250,768ms] [Warning] [omni.physx.plugin] PhysX warning: Failed to allocate pinned memory, FILE /src/PxgCudaMemoryAllocator.cpp, LINE 53\n"
    + traceback("Exception: Failed to get root link transforms from backend"),
    "llama.cpp, pinned": "ggml_cuda_host_malloc: failed to allocate 1900.00 MiB of pinned memory: out of memory\nllama_model_load: error loading model: tensor 'blk.30.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete\nllama_model_load_from_file_impl: failed to load model\nmain: error: unable to load model\n",
    "cargo": '   Compiling candle-flash-attn v0.8.0 (cuda)\nerror: could not compile `candle-kernels` (lib)\n\nCaused by:\n  process didn\'t exit successfully: `/home/me/rustc --cfg feature="cuda"` (signal: 9, SIGKILL: kill)\nkilled out of memory\n',
    "cudarc": "thread '<unnamed>' (2785453) panicked at /home/me/.cargo/registry/src/cudarc-0.13.9/src/driver/safe/core.rs:257:76:\ncalled `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    "cudarc, unknown": "thread 'main' panicked at /home/me/cudarc-0.10.0/src/driver/safe/core.rs:51:24:\ncalled `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_UNKNOWN, \"unknown error\")\n",
    "RELION, a plan": "in: /relion/src/projector.cpp, line 362\nERROR: \nfailed to create cufft plan\n=== Backtrace  ===\n/opt/relion/bin/relion_refine(_ZN11RelionErrorC1ERK+0x7d) [0x48e6ed]\n",
    "RELION's host": "in: /relion/src/multidim_array.h, line 832\nERROR: \nAllocate: No space left\n=== Backtrace  ===\n/opt/relion/bin/relion_refine_mpi(_ZN13MultidimArrayIdE14coreAllocateEv+0x7d) [0x48e6ed]\n"
    + MPI_ABORT,
    "cudasirecon": "Before fftplan3d 56059MB free\n"
    + "Error code: 700\nptr_: 23424402822144\n" * 9
    + " \n!!Error occurred: CUFFT plan creation failed\n",
    "Kokkos, illegal": "(cuda_instance->cuda_event_synchronize_wrapper( CudaInternal::constantMemReusablePerDevice[cuda_device])) error( cudaErrorIllegalAddress): an illegal memory access was encountered /opt/kokkos/include/Cuda/Kokkos_Cuda_KernelLaunch.hpp:583\nBacktrace:\n"
    + "[0x15073f654035] Kokkos::Impl::save_stacktrace()\n" * 8,
    "Kokkos, a record": abort(
        "std::runtime_error",
        "Kokkos::Experimental::Impl::SharedAllocationRecord< Kokkos::CudaHostPinnedSpace , void >::get_record ERROR",
    )
    + "Traceback functionality not available\n"
    + MPI_TRACE,
    "CUDA.jl, illegal": "ERROR: LoadError: CUDA error: an illegal memory access was encountered (code 700, ERROR_ILLEGAL_ADDRESS)\nStacktrace:\n  [1] throw_api_error(res::CUDA.cudaError_enum)\n",
    "Julia's host": "ERROR: LoadError: OutOfMemoryError()\nStacktrace:\n  [1] Array\n    @ ./boot.jl:457 [inlined]\n  [2] collect(A::CuArray{Float32, 2})\n    @ GPUArrays ~/.julia/packages/GPUArrays/src/array.jl:4\n",
    "Marian, unknown": "[2019-04-12 16:54:10] Error: CUDA error 30 'unknown error' - /opt/marian/src/tensors/gpu/algorithm.cu:15: cudaStreamSynchronize(0)\n[2019-04-12 16:54:10] Error: Aborted from void marian::gpu::fill()\n",
    "Marian, cuBLAS": "[2021-04-28 12:15:58] Error: Cublas Error: 13 - /marian/src/tensors/gpu/prod.cpp:330: cublasGemmBatchedTyped(cublasHandle, compute, opB, opA, n, m, k, &alpha)\n[2021-04-28 12:15:58] Error: Aborted from void marian::gpu::ProdBatchedTyped(marian::Tensor, marian::Ptr<marian::Allocator>)\n",
    "Marian, tcmalloc": "tcmalloc: large alloc 10334765056 bytes == 0x7ef634000000 @ \n" * 6
    + "[2019-05-16 07:12:23] Error: Floating-point exception\n[2019-05-16 07:12:23] Error: Aborted from setErrorHandlers()::<lambda(int, siginfo_t*, void*)> in /opt/marian/src/common/logging.cpp:138\n",
    "COLMAP, slow": "PatchMatch::Run\n---------------\nInitialization: 1.8972s\ncudaCheckError() with sync failed at /opt/colmap/src/mvs/patch_match_cuda.cu:1327 : the launch timed out and was terminated\n",
    "COLMAP, illegal": "CUDA error at /home/me/colmap/src/mvs/gpu_mat.h:348 - an illegal memory access was encountered\nThis error is likely caused by the graphics card timeout detection mechanism of your operating system. Please refer to the FAQ in the documentation on how to solve this problem.\n",
    "Cycles, illegal": "ILLEGAL_ADDRESS in cuMemAlloc(&device_pointer, size)\nCUDA error: ILLEGAL_ADDRESS in cuCtxSynchronize()\nBlender quit\n",
    "OneFlow's host": abort(
        "oneflow::RuntimeException",
        "Error: CPU can't allocate memory. Tried to allocate 1490116.1 GB",
    ),
    "SGLang, another": "[2024-02-07] server_args=ServerArgs(model_path='m', mem_fraction_static=0.3, gpu_memory='auto')\n"
    + traceback("AttributeError: 'NoneType' object has no attribute 'cpu'"),
    "vLLM, advice": "INFO 05-01 10:00:00 model_runner.py:1408] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of memory, consider decreasing `gpu_memory_utilization` or enforcing eager mode. You can also reduce the `max_num_seqs` as needed to decrease memory usage.\n"
    + traceback("ValueError: Unsupported FA version: None"),
    "rmm, expected": "[ RUN      ] DataChunkSourceTest.BgzipSource\n[2025-01-23 14:33:04.213] [RMM] [error] [A][Stream 0x1][Upstream 67108864B][FAILURE maximum pool size exceeded]\n[       OK ] DataChunkSourceTest.BgzipSource (4175 ms)\n[ RUN      ] JoinTest.Empty\n/src/join_test.cu:12: Failure\nExpected equality of these values:\n  1\n  2\n[  FAILED  ] JoinTest.Empty (2 ms)\n\n 1 FAILED TEST\n",
    "a summary at the end": "saved model.pt\n"
    + SUMMARY.format(0)
    + traceback("KeyError: 'val_loss'"),
    "a summary with one": SUMMARY.format(1)
    + "epoch 2 loss 0.3\n"
    + traceback("KeyError: 'val_loss'"),
    "only a summary": SUMMARY.format(0) + "Exited: validation loss did not improve\n",
    "Writer": traceback(
        "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0"
    )
    + DURING
    + traceback("RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed"),
    "NCCL's shm": traceback(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\nError while creating shared memory segment /dev/shm/nccl-a1b2c3 (size 9637888)"
    )
    + child_failed(),
    "NCCL, device": traceback(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'invalid device ordinal'"
    ),
    "NCCL waits": "[rank0]:[E1024 10:00:00.000000 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n[rank0]:[E1024 10:00:00.1 ProcessGroupNCCL.cpp:681] [Rank 0] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
    + abort(
        "c10::DistBackendError",
        "[PG ID 0 PG GUID 0 Rank 0] Process group watchdog thread terminated with exception: [Rank 0] Watchdog caught collective operation timeout\n"
        + FRAMES,
    )
    + child_failed("-6", "Signal 6 (SIGABRT) received by PID 33054"),
    "Slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\nsrun: error: gpu07: task 0: Out Of Memory\nsrun: Terminating StepId=4711.0\n",
    "cgroup": "[12345.6] Memory cgroup out of memory: Killed process 4711 (python) total-vm:94371840kB, anon-rss:67108864kB, file-rss:65536kB\nKilled\n",
    "earlyoom": 'mem avail:  2031 of 64000 MiB ( 3.17%), swap free:    0 of    0 MiB\nsending SIGTERM to process 4711 uid 1000 "python": badness 901, VmRSS 60000 MiB\nTerminated\n',
    "loader": traceback(
        'RuntimeError: Caught MemoryError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n  File "/opt/torch/utils/data/_utils/worker.py", line 287, in _worker_loop\n    data = fetcher.fetch(index)\nnumpy.core._exceptions._ArrayMemoryError: Unable to allocate 24.0 GiB for an array with shape (2048, 1048576) and data type float32\n'
    ),
    "shm": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
    * 2
    + traceback(
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
        frames=5,
    ),
    "asserts": "../aten/src/ATen/native/cuda/Indexing.cu:1093: indexSelectSmallIndex: block: [0,0,0], thread: [12,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
    * 20
    + traceback(
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    ),
    "asserts, aborted": abort(
        "c10::CUDAError",
        "CUDA error: device-side assert triggered\nException raised from launch_vectorized_kernel at ../aten/src/ATen/native/cuda/CUDALoops.cuh:98 (most recent call first):\n"
        + FRAMES,
    )
    + "Aborted (core dumped)\n",
    "illegal, cleaned up": abort(
        "c10::Error",
        "CUDA error: an illegal memory access was encountered\nException raised from create_event_internal at ../c10/cuda/CUDACachingAllocator.cpp:1055 (most recent call first):\nframe #1: c10::cuda::CUDACachingAllocator::raw_delete(void*) + 0x237 (0x7f libc10_cuda.so)\n"
        + FRAMES,
    ),
    "no device": "2024-05-01 10:00:00: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
    + traceback("RuntimeError: No GPU found, needs 4"),
    "busy": traceback(
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    ),
    "usage": USAGE + "train.py: error: unrecognized arguments: --bz 3\n",
    "pytest": "tests/test_oom.py F                                                  [100%]\n\n=================================== FAILURES ===================================\n_____________________________ test_cuda_out_of_memory __________________________\n\n    def test_cuda_out_of_memory():\n>       assert handled == 1\nE       assert 0 == 1\n\ntests/test_oom.py:12: AssertionError\n=========================== short test summary info ============================\nFAILED tests/test_oom.py::test_cuda_out_of_memory - assert 0 == 1\n============================== 1 failed in 2.31s ===============================\n",
    "pytest, a pattern": "E       AssertionError: Regex pattern did not match.\nE        Regex: 'CUDA out of memory'\nE        Input: 'shape mismatch'\n\ntests/test_oom.py:12: AssertionError\nFAILED tests/test_oom.py::test_message - AssertionError: Regex pattern did not match.\n",
    "unittest": "FAIL: test_cuda_out_of_memory (test_cuda.TestCuda)\n----------------------------------------------------------------------\n"
    + traceback("AssertionError: False is not true")
    + "\n----------------------------------------------------------------------\nRan 12 tests in 3.210s\n\nFAILED (failures=1)\n",
    "flushes": "[2024-05-01 10:00:00,000] [WARNING] [stage3.py:2069:step] 2 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance. if this is happening frequently consider adjusting settings to reduce memory consumption.\n"
    + traceback("AssertionError: loss scale is already at minimum"),
    "ultralytics": "WARNING ⚠️ CUDA OutOfMemoryError in TaskAlignedAssigner, using CPU\n      1/100      11.2G      1.412      2.101      1.312        412        640:  12%|█▏        | 12/100\n"
    + traceback("RuntimeError: Dataset 'x.yaml' error ❌ images not found"),
    "tiled": "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.\nPrompt executed in 41.11 seconds\n"
    + traceback("ConnectionResetError: [Errno 104] Connection reset by peer"),
    "TensorRT skips": "[W] [TRT] Skipping tactic 0 due to insufficient memory on requested size of 11580055552 detected for tactic 0x0000000000000000.\n"
    * 2
    + '[E] [TRT] ModelImporter.cpp:773: While parsing node number 12 [NonMaxSuppression -> "x"]:\n[E] Failed to parse onnx file\n&&&& FAILED TensorRT.trtexec [TensorRT v8402]\n',
    "Kaldi frees": "WARNING (nnet3-train[5.4]:MallocPitchInternal():cu-allocator.cc:97) Allocation of 10204 x 6656 region failed: freeing some memory and trying again. \nLOG (nnet3-train[5.4]:MallocPitchInternal():cu-allocator.cc:102) To avoid future problems like this, changing memory_factor from 1.3 to 1.1\nERROR (nnet3-train[5.4]:Train():nnet-training.cc:122) Parameters contain NaN or inf\n\nkaldi::KaldiFatalError\n",
    "another's report": "monitor: job 812 (ann) ended: CUDA out of memory; its GPU is free\nstarting on GPU 0\n"
    + traceback("ValueError: seed must be set"),
    "a lesson": "note: run 3 ended with CUDA out of memory, so this one uses batch 8\nerror: dataset version 4 is not available\n",
    "LAMMPS's host": "ERROR on proc 0: Failed to allocate 8589934592 bytes for array neigh:firstneigh (src/memory.cpp:66)\nLast command: run 100\n"
    + MPI_ABORT,
    "NAMD's host": "FATAL ERROR: Memory allocation failed on processor 0.\nFATAL ERROR: Memory allocation failed on processor 0.\n[Partition 0][Node 0] End of program\n",
    "GROMACS's host": "-------------------------------------------------------\nProgram:     gmx mdrun, version 2023\nSource file: src/gromacs/utility/smalloc.cpp (line 234)\n\nFatal error:\nNot enough memory. Failed to realloc 8589934592 bytes for nbl->excl, nbl->excl=0x0\n(called from file src/gromacs/gpu_utils/pairlist.cpp, line 812)\n-------------------------------------------------------\n",
    "QE's host": "%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%\n     Error in routine  cdiaghg (159):\n       S matrix not positive definite\n%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%\n\n     stopping ...\n     GPU memory used/free/total (MiB): 13337 / 2943 / 16280\n"
    + MPI_ABORT,
    "Fortran's host": "forrtl: severe (41): insufficient virtual memory\nImage              PC                Routine            Line        Source\nvasp_gpu           000000000158A8B8  Unknown               Unknown  Unknown\n",
    "OpenBLAS": "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable\nOpenBLAS blas_thread_init: ensure that your address space and process count limits are big enough (ulimit -a)\n"
    * 3,
    "R's host": "Error: cannot allocate vector of size 7.5 Gb\nExecution halted\n",
    "MATLAB's host": "Error using gather\nOut of memory.\n\nError in train (line 40)\nx = gather(y);\n",
    "Rust's host": "memory allocation of 8589934592 bytes failed\nAborted (core dumped)\n",
    "Triton's shared memory": traceback(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."
    ),
    "Dask's host": "distributed.nanny.memory - WARNING - Worker tcp://127.0.0.1:4 (pid=4711) exceeded 95% memory budget. Restarting...\ndistributed.nanny - WARNING - Restarting worker\n"
    + traceback(
        "distributed.scheduler.KilledWorker: Attempted to run task ('read_parquet', 7) on 4 different workers, but all those workers died while running it."
    ),
    "a quota": traceback("OSError: [Errno 122] Disk quota exceeded")
    + DURING
    + traceback(
        "RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 19712 vs 19608"
    ),
    "a compiler": "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\nninja: build stopped: subcommand failed.\n"
    + traceback("RuntimeError: Error building extension 'fused_adam_cuda'"),
}
