"""Ends of failed programs, as they print them: of GPU memory, and of everything else.

The rules of `oom.py` were made with `OUT_OF_MEMORY` and `OTHER`. The others were written after
them, `LATER` with texts that were likely to be missed; what a first try found is in
`test_corpus.py`. A text is what stands at the end of the output. Most are from public reports.
"""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

from tests.last_words.logs import traceback


def abort(kind: str, what: str) -> str:
    """What the C++ runtime prints of an uncaught exception."""
    return f"terminate called after throwing an instance of '{kind}'\n  what():  {what}\n"


OUT_OF_MEMORY = {
    "PyTorch 2": traceback(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 8.12 MiB is free. Process 4711 has 20.10 GiB memory in use. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    ),
    "PyTorch 1": traceback(
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.76 GiB total capacity; 9.01 GiB already allocated; 512.00 MiB free; 9.30 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
    ),
    "PyTorch 0.4": "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory\n"
    + traceback(
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58"
    ),
    "PyTorch on ROCm": traceback(
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 100.00 MiB is free."
    ),
    "PyTorch on XPU": traceback(
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.91 GiB."
    ),
    "PyTorch, cuDNN": traceback("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "PyTorch, cuFFT": traceback("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED"),
    "PyTorch, cuSPARSE": traceback(
        "RuntimeError: CUDA error: insufficient resources when calling `cusparseSpGEMM_workEstimation(handle)`: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"
    ),
    "DataParallel": traceback(
        "torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n"
        '  File "parallel_apply.py", line 64, in _worker\n    output = module(*input, **kwargs)\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 10.76 GiB total capacity)"
    ),
    "TensorFlow 1": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,256,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[Node: resnet/conv = Conv2D[...]]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info."
    ),
    "TensorFlow, abort": "2021-03-01 10:00:00.000001: F tensorflow/stream_executor/cuda/cuda_driver.cc:153] Failed setting context: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nAborted (core dumped)\n",
    "JAX": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n"
        + "".join(
            f"{name:>30} allocation:    6.00MiB\n"
            for name in ("parameter", "constant", "maybe_live_out", "preallocated temp", "total")
        )
        + "   total fragmentation:         0B (0.00%)\nPeak buffers:\n"
        + "".join(
            f'\tBuffer {i}:\n\t\tSize: 96.00MiB\n\t\tOperator: op_name="pjit(train_step)/dot" source_line=79\n\t\tXLA Label: custom-call\n\t\tShape: bf16[128,6,256,256]\n\t\t==========================\n\n'
            for i in range(1, 16)
        )
    ),
    "JAX, constant": traceback(
        "jax.errors.JaxRuntimeError: INTERNAL: Failed to allocate 1073741824 bytes for new constant"
    ),
    "CTranslate2": traceback("RuntimeError: CUDA failed with error out of memory"),
    "faiss": traceback(
        "RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const faiss::gpu::AllocRequest&) at /root/miniconda3/conda-bld/faiss/gpu/StandardGpuResources.cpp:452: Error: 'err == cudaSuccess' failed: StandardGpuResources: alloc fail type TemporaryMemoryBuffer dev 0 space Device stream 0x55f1c0 size 1610612736 bytes (cudaMalloc error out of memory [2])"
    ),
    "faiss 1.6": "Faiss assertion 'err == cudaSuccess' failed in void faiss::gpu::allocMemorySpaceV(faiss::gpu::MemorySpace, void**, size_t) at gpu/utils/MemorySpace.cpp:27; details: failed to cudaMalloc 1610612736 bytes (error 2 out of memory)\nAborted (core dumped)\n",
    "darknet": "   29 CUDA Error: out of memory\ndarknet: ./src/cuda.c:36: check_error: Assertion `0' failed.\n",
    "darknet of AlexeyAB": "CUDA status Error: file: ./src/dark_cuda.c : () : line: 373 : build time: Jun  5 2020 - 10:20:30 \n\n CUDA Error: out of memory\nCUDA Error: out of memory: File exists\ndarknet: ./src/utils.c:325: error: Assertion `0' failed.\n",
    "bitsandbytes": "Error out of memory at line 88 in file /src/csrc/ops.cu\n",
    "instant-ngp": "10:11:12 ERROR    Uncaught exception: Could not allocate memory: CUDA Error: cudaMalloc(&rawptr, n_bytes+DEBUG_GUARD_SIZE*2) failed with error out of memory\n",
    "tetra-nerf": traceback(
        "RuntimeError: CUDA call (cudaMalloc(reinterpret_cast<void**>(&d_temp_buffer_gas), size) ) failed with error: 'out of memory' (/home/me/tetra-nerf/src/tetrahedra_tracer.cpp:234)"
    ),
    "MXNet": traceback(
        "mxnet.base.MXNetError: [20:13:16] /work/mxnet/3rdparty/mshadow/mshadow/./stream_gpu-inl.h:184: Check failed: e == cudaSuccess: CUDA: out of memory\nStack trace:\n  [bt] (0) libmxnet.so(+0x30759b) [0x7f5c9c1c459b]\n  [bt] (1) libmxnet.so(+0x2cdd59) [0x7f5c9c18ad59]"
    ),
    "MXNet, pool": traceback(
        "mxnet.base.MXNetError: [14:23:50] src/storage/./pooled_storage_manager.h:151: cudaMalloc failed: out of memory"
    ),
    "ThunderGBM": "2020-02-22 20:13:16,901 FATAL [default] Check failed: [error == cudaSuccess] out of memory\n2020-02-22 20:13:16,901 WARNING [default] Aborting application. Reason: Fatal log at [/thundergbm/src/thundergbm/syncmem.cpp:107]\nAborted (core dumped)\n",
    "Caffe": "F0101 12:00:00.123456  4711 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory\n*** Check failure stack trace: ***\n    @     0x7f2c4a1a85cd  google::LogMessage::Fail()\n    @     0x7f2c4a1aa433  google::LogMessage::SendToLog()\nAborted (core dumped)\n",
    "Caffe2": traceback(
        "RuntimeError: [enforce fail at context_gpu.cu:415] error == cudaSuccess. 2 vs 0. Error at: /pytorch/caffe2/core/context_gpu.cu:415: out of memory"
    ),
    "Paddle, old": traceback(
        "paddle.fluid.core.EnforceNotMet: Enforce failed. Expected allocating <= available, but received allocating:7821905633 > available:7794333440.\nInsufficient GPU memory to allocation. at [/paddle/paddle/fluid/platform/gpu_info.cc:170]"
    ),
    "Paddle, CUDA": "F0322 11:00:00.000001  1234 hl_cuda_device.cc:273] Check failed: cudaSuccess == cudaStat (0 vs. 2) Cuda Error: out of memory\n",
    "Paddle 2": traceback(
        "SystemError: \n\n--------------------------------------\nC++ Traceback (most recent call last):\n--------------------------------------\n0   paddle::memory::Alloc(phi::GPUPlace const&, unsigned long)\n----------------------\nError Message Summary:\n----------------------\nResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 1.125000GB memory on GPU 0, 15.500000GB memory has been allocated and available memory is only 300.000000MB.\n\nPlease check whether there is any other process using GPU 0.\n1. If yes, please stop them, or start PaddlePaddle on another GPU.\n2. If no, please decrease the batch size of your model. \n (at /paddle/paddle/fluid/memory/allocation/cuda_allocator.cc:95)"
    ),
    "Accelerate": traceback("RuntimeError: No executable batch size found, reached zero."),
    "a plain CUDA program": "Failed to allocate device memory - out of memory\n",
    "HAMi": "[HAMI-core ERROR (pid:94 thread=140228 allocator.c:71)]: Device 0 OOM 10737418240 / 8589934592\nCUDA error: out of memory\n",
    "XGBoost": traceback(
        "xgboost.core.XGBoostError: [12:00:00] /workspace/src/c_api/../data/../common/device_helpers.cuh:428: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: 1178599424\n- Requested memory: 9723440784"
    ),
    "CatBoost": 'Application terminated with error: ??+0 (0x7F0E032A2574)\n??+0 (0x7F0E032A20C2)\nclone+67 (0x7F0E58434353)\n\n(NCudaLib::TOutOfMemoryError) /src/catboost/catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 776.3222656 MB; Free 676.4537106 MB\nuncaught exception:\n    address -> 0x24b8dd30410\n    what() -> "/src/catboost/catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 776.3222656 MB; Free 676.4537106 MB"\n    type -> NCudaLib::TOutOfMemoryError\n',
    "LightGBM": traceback(
        "lightgbm.basic.LightGBMError: [CUDA] out of memory /tmp/lightgbm/include/LightGBM/cuda/cuda_utils.hu 101\n"
    ),
    "CuPy": traceback(
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes (allocated so far: 7,516,192,768 bytes)."
    ),
    "Numba": traceback(
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"
    ),
    "PyCUDA": traceback("pycuda._driver.MemoryError: cuMemAlloc failed: out of memory"),
    "Theano": traceback(
        "MemoryError: Error allocating 411041792 bytes of device memory (out of memory)."
    ),
    "Theano, gpuarray": traceback(
        "pygpu.gpuarray.GpuArrayException: b'cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory'"
    ),
    "Chainer": traceback(
        "cupy.cuda.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory"
    ),
    "RAPIDS": traceback(
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/conda/include/rmm/mr/device/cuda_memory_resource.hpp:69: cudaErrorMemoryAllocation out of memory"
    ),
    "RAPIDS, pool": traceback(
        "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/opt/conda/include/rmm/mr/device/pool_memory_resource.hpp:257: Maximum pool size exceeded"
    ),
    "Taichi": "[E 04/13/20 22:57:47.637] [cuda_driver.h:operator()@66] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc (cuMemAlloc_v2)\n",
    "Warp": traceback("RuntimeError: Failed to allocate 4294967296 bytes on device 'cuda:0'"),
    "PhysX": "PxgCudaDeviceMemoryAllocator fail to allocate memory 71303168 bytes!! Result = 2\n"
    * 3,
    "Marian": "[2019-04-15 08:34:14] Error: CUDA error 2 'out of memory' - /marian/src/tensors/gpu/device.cu:32: cudaMalloc(&data_, size)\n[2019-04-15 08:34:14] Error: Aborted from virtual void marian::gpu::Device::reserve(size_t) in /marian/src/tensors/gpu/device.cu:32\n\n[CALL STACK]\n[0x55d5e0]              marian::gpu::Device::  reserve  (unsigned long)    + 0x1a30\nAborted (core dumped)\n",
    "Kaldi": "ERROR (nnet3-chain-train2[5.5.844~1-82fea]:AllocateNewRegion():cu-allocator.cc:491) Failed to allocate a memory region of 1048576 bytes.  Possibly this is due to sharing the GPU.  Try switching the GPUs to exclusive mode (nvidia-smi -c 3) and using the option --use-gpu=wait to scripts like steps/nnet3/chain/train.py.  Memory info: free:0M, used:7981M, total:7982M, free/total:0.0001 CUDA error: 'out of memory'\n\n[ Stack-Trace: ]\n",
    "DyNet": "CUDA failure in cudaMalloc(&ptr, n)\nout of memory\n"
    + traceback("RuntimeError: cudaMalloc(&ptr, n): out of memory"),
    "llama.cpp": "0.06.520.077 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 51748.72 MiB on device 1: cudaMalloc failed: out of memory\n0.06.520.084 E ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 54262464512\n0.06.520.086 E llama_model_load: error loading model: unable to allocate CUDA1 buffer\nmain: error: unable to load model\n",
    "llama.cpp, old": "CUDA error 2 at ggml-cuda.cu:7236: out of memory\ncurrent device: 0\n",
    "llama.cpp, Vulkan": "ggml_vulkan: Device memory allocation of size 1073741824 failed.\nggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\nllama_model_load: error loading model: unable to allocate Vulkan0 buffer\n",
    "Ollama": "Error: llama runner process has terminated: cudaMalloc failed: out of memory\n",
    "lmdeploy": traceback(
        "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /opt/lmdeploy/src/turbomind/utils/memory_utils.cu:32 \n"
    ),
    "TensorRT 7": "[TensorRT] ERROR: ../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)\n",
    "TensorRT 8": "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no further information)\n",
    "TensorRT-LLM": abort(
        "tensorrt_llm::common::TllmException",
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory (/src/tensorrt_llm/runtime/tllmBuffers.h:125)",
    ),
    "OpenCV": traceback(
        "cv2.error: OpenCV(4.5.1) /io/opencv/modules/core/src/cuda/gpu_mat.cu:116: error: (-217:Gpu API call) out of memory in function 'allocate'"
    ),
    "GROMACS": "-------------------------------------------------------\nProgram:     gmx mdrun, version 2021.3\nSource file: src/gromacs/gpu_utils/device_utils.cuh (line 120)\n\nFatal error:\nAllocation of the device buffer failed. CUDA error #2 (cudaErrorMemoryAllocation): out of memory.\n\nFor more information and tips for troubleshooting, please check the GROMACS\nwebsite at http://www.gromacs.org/Documentation/Errors\n-------------------------------------------------------\n",
    "NAMD": "FATAL ERROR: CUDA error cudaMalloc(pp, sizeofT*len) in file src/CudaUtils.C, function allocate_device_T, line 95\n on Pe 0 (gpu01 device 0 pci 0:81:0): out of memory\n[Partition 0][Node 0] End of program\n",
    "LAMMPS": "ERROR: Insufficient memory on accelerator (src/GPU/gpu_extra.h:38)\nLast command: run 100\n",
    "Kokkos": abort(
        "std::runtime_error",
        "cudaCreateTextureObject( & tex_obj , & resDesc, & texDesc, NULL ) error( cudaErrorMemoryAllocation): out of memory ../../lib/kokkos/core/src/Cuda/Kokkos_CudaSpace.cpp:296",
    )
    + "Traceback functionality not available\n\n[bigfacet:07706] *** Process received signal ***\n[bigfacet:07706] Signal: Aborted (6)\n[bigfacet:07706] Signal code:  (-6)\n[bigfacet:07706] [ 0] /lib/x86_64-linux-gnu/libpthread.so.0(+0x11390)[0x7f18b685f390]\n"
    + "[bigfacet:07706] [ 1] /lib/x86_64-linux-gnu/libc.so.6(gsignal+0x38)[0x7f18b59f6428]\n" * 30,
    "Kokkos 3": abort(
        "Kokkos::Experimental::RawMemoryAllocationFailure",
        'Allocation of size 12.5 G failed, likely due to insufficient memory.  (The allocation mechanism was cudaMalloc().  The Cuda allocation returned the error code ""cudaErrorMemoryAllocation"".)',
    ),
    "RELION": "ERROR: CudaCustomAllocator out of memory\n [requestedSpace: 340660736 B]\n [largestContinuousFreeSpace: 80307200 B]\n [totalFreeSpace: 80307200 B]\n(113152B) (114688B) (113152B) [80307200B] = 4808391168B\n",
    "RELION 3": "ERROR: out of memory in /relion/src/acc/cuda/custom_allocator.cuh at line 436 (error-code 2)\n in: /relion/src/acc/cuda/cuda_settings.h, line 65\n=== Backtrace  ===\n",
    "cryoSPARC": traceback("cryosparc_compute.skcuda_internal.cufft.cufftAllocFailed"),
    "AMBER": "cudaMalloc GpuBuffer::Allocate failed out of memory\n",
    "OpenMM": traceback(
        "openmm.OpenMMException: Error creating array savedForces: CUDA_ERROR_OUT_OF_MEMORY (2)"
    ),
    "OpenACC": "Out of memory allocating 8957952000 bytes of device memory\nFailing in Thread:1\nAccelerator Fatal Error: call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory\n File: /src/solve.f90\n",
    "CUDA Fortran": "0: ALLOCATE: 603979776 bytes requested; status = 2(out of memory)\n",
    "CUDA.jl": "ERROR: LoadError: Out of GPU memory trying to allocate 11.921 GiB\nEffective GPU memory usage: 99.85% (15.758 GiB/15.782 GiB)\nStacktrace:\n",
    "MATLAB": "Error using gpuArray\nOut of memory on device. To view more detail about available memory on the GPU, use 'gpuDevice()'. If the problem persists, reset the GPU by calling 'gpuDevice(1)'.\n",
    "hashcat": "cuMemAlloc(): out of memory\n\n* Device #1: Not enough allocatable device memory for this attack.\n\nStarted: Fri Dec  3 23:34:38 2021\nStopped: Fri Dec  3 23:34:40 2021\n",
    "hashcat, OpenCL": "clCreateBuffer(): CL_MEM_OBJECT_ALLOCATION_FAILURE\n\nStarted: Fri Dec  3 23:34:38 2021\nStopped: Fri Dec  3 23:34:40 2021\n",
    "PyOpenCL": traceback(
        "pyopencl._cl.MemoryError: clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE"
    ),
    "AMReX": "amrex::Abort::0::Out of gpu memory. Free: 104857600 Asked: 268435456 !!!\nSIGABRT\nSee Backtrace.0 file for details\n",
    "ArrayFire": abort("af::exception", "ArrayFire Exception (Device out of memory:101):"),
    "COLMAP": "CUDA error at /colmap/src/colmap/mvs/gpu_mat.h:319 - out of memory\n",
    "nvdiffrast": traceback("RuntimeError: Cuda error: 2[cudaMalloc(&m_gpuPtr, bytes);]"),
    "DGL": traceback(
        "dgl._ffi.base.DGLError: [12:00:00] /opt/dgl/src/runtime/cuda/cuda_device_api.cc:117: Check failed: e == cudaSuccess || e == cudaErrorCudartUnloading: CUDA: out of memory"
    ),
    "GPUassert": "GPUassert: out of memory kernel.cu 45\n",
    "helper_cuda.h": 'CUDA error at main.cu:55 code=2(cudaErrorMemoryAllocation) "cudaMalloc((void **)&d_A, size)" \n',
    "a textbook's CHECK": "Error: sumArrays.cu:42, code: 2, reason: out of memory\n",
    "Thrust": abort(
        "thrust::system::detail::bad_alloc",
        "std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
    ),
    "ONNX Runtime": traceback(
        "onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0 ; hostname=gpu1 ; file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_allocator.cc ; line=47 ; expr=cudaMalloc((void**)&p, size);"
    ),
    "NCCL": "gpu01:94:136 [0] enqueue.cc:902 NCCL WARN Cuda failure 'out of memory'\n"
    + traceback(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'"
    ),
    "rocBLAS": "rocBLAS error: memory allocation failed on device 0: rocblas_status_memory_error\n",
    "Intel's runtime": abort(
        "sycl::_V1::runtime_error",
        "Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
    ),
    "ffmpeg": "[AVHWDeviceContext @ 0x55d] cu->cuCtxCreate(&hwctx->cuda_ctx, desired_flags, hwctx->internal->cuda_device) failed -> CUDA_ERROR_OUT_OF_MEMORY: out of memory\nDevice creation failed: -542398533.\n",
    "Blender": "CUDA error: Out of memory in cuMemAlloc(&device_pointer, size)\nError: CUDA error: Out of memory in cuMemAlloc(&device_pointer, size)\n",
    "with conda run": traceback(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    + "\nERROR conda.cli.main_run:execute(49): `conda run python train.py` failed. (See above for error)\n",
    "with srun": traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    + "srun: error: gpu01: task 0: Exited with exit code 1\nsrun: launch/slurm: _step_signal: Terminating StepId=1.0\n",
    "with a time on each line": "".join(
        f"Nov 29 03:4{i % 10}:00 gpu01 train[4711]: {line}\n"
        for i, line in enumerate(
            traceback(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
            ).splitlines()
        )
    ),
    "among bars": "\r 10%|█         | 1/10 [00:01<00:09,  1.00s/it]\x1b[A\r"
    + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    + "".join(f"\r {i}%|█  | {i}/100 [00:01<00:09,  1.00s/it]\x1b[K" for i in range(99)) * 2,
    "with pytest": "E       torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB\n\ntests/test_model.py:12: OutOfMemoryError\n=========================== short test summary info ============================\nFAILED tests/test_model.py::test_forward - torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n============================== 1 failed in 12.34s ==============================\n",
}


_EXCEPTIONS = """\
KeyError: 'CUDA out of memory'
AttributeError: module 'torch' has no attribute 'OutOfMemoryError'
AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'
ImportError: cannot import name 'OutOfMemoryError' from 'torch.cuda' (/lib/torch/cuda/__init__.py)
NameError: name 'CUDA_ERROR_OUT_OF_MEMORY' is not defined
FileNotFoundError: [Errno 2] No such file or directory: '/data/out_of_memory/gpu.json'
OSError: [Errno 28] No space left on device: '/scratch/gpu-cache/shard-0001.bin'
OSError: [Errno 12] Cannot allocate memory
google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for GPUs, RESOURCE_EXHAUSTED
tensorflow.python.framework.errors_impl.ResourceExhaustedError: /tmp/gpu/model.ckpt; No space left on device [Op:SaveV2]
tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[9,9] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:Mul]
tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1000000,512] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cuda_host_bfc
tensorflow.python.framework.errors_impl.UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize
tensorflow.python.framework.errors_impl.InternalError: cudaGetDevice() failed. Status: CUDA driver version is insufficient for CUDA runtime version
MemoryError: Unable to allocate 8.00 GiB for an array with shape (1073741824,) and data type float64
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64
MemoryError: Unable to allocate internal buffer.
RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)
RuntimeError: [enforce fail at CPUAllocator.cpp:68] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 4194304 bytes
RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate 1048576 bytes. Buy new RAM!
RuntimeError: $ Torch: not enough memory: you tried to allocate 12GB. Buy new RAM! at /pytorch/aten/src/TH/THGeneral.cpp:218
RuntimeError: CPU memory allocation failed
RuntimeError: unable to mmap 4194304 bytes from file </torch_4711_1>: Cannot allocate memory (12)
RuntimeError: unable to write to file </torch_4711_1>: No space left on device (28)
RuntimeError: unable to open shared memory object </torch_4711_1> in read-write mode: Too many open files (24)
RuntimeError: DataLoader worker (pid 1234) is killed by signal: Killed.
RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.
RuntimeError: CUDA error: the launch timed out and was terminated
RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, remote process exited or there was a network error, NCCL version 2.18.1
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:275, internal error - please report this issue to the NCCL developers, NCCL version 2.18.1
triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.
RuntimeError: Unable to initialize backend 'cuda': UNKNOWN: no supported devices found for platform CUDA
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
ray.exceptions.ObjectStoreFullError: Failed to put object in object store because it is full. Object size is 8589934592 bytes.
pyspark.errors.exceptions.base.PySparkRuntimeError: java.lang.OutOfMemoryError: GC overhead limit exceeded
java.lang.OutOfMemoryError: Java heap space
py4j.protocol.Py4JJavaError: java.lang.OutOfMemoryError: Direct buffer memory
psycopg2.errors.OutOfMemory: out of shared memory
psycopg2.OperationalError: FATAL: out of memory DETAIL: Failed on request of size 1048576.
redis.exceptions.ResponseError: OOM command not allowed when used memory > 'maxmemory'.
cv2.error: OpenCV(4.8.0) error: (-4:Insufficient memory) Failed to allocate 8294400000 bytes in function 'OutOfMemoryError'
pycuda._driver.LogicError: cuMemHostAlloc failed: OS call failed or operation not supported on this OS
cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version
pynvml.NVMLError_Memory: Insufficient Memory
subprocess.CalledProcessError: Command 'nvidia-smi' returned non-zero exit status 9.
RuntimeError: Failed to allocate 4 GPUs: nodes are not available
RuntimeError: cudaHostAlloc failed: out of memory
RuntimeError: CUDA error: out of memory when calling cudaMallocHost for pinned memory
RuntimeError: failed to allocate 1073741824 bytes of page-locked memory with cudaHostRegister
pytest.Failed: DID NOT RAISE <class 'torch.OutOfMemoryError'>
Failed: DID NOT RAISE <class 'torch.cuda.OutOfMemoryError'>
mpi4py.MPI.Exception: MPI_ERR_NO_MEM: out of memory
optuna.exceptions.TrialPruned: Trial was pruned, to avoid a CUDA out of memory
RuntimeError: this test expects CUDA out of memory, and got nothing
RuntimeError: Set expandable_segments to avoid CUDA out of memory errors
wandb.errors.CommError: Run initialization has timed out after 90.0 sec.""".splitlines()

_PLAIN = {
    "help": "usage: train.py [-h] [--oom {skip,raise}]\n  --oom {skip,raise}   what to do after CUDA out of memory\n  --gpu-memory G       GPU memory; too little means out of memory\ntrain.py: error: unrecognized arguments: --lr 0.1\n",
    "advice": "Tip: if you get CUDA out of memory, lower the batch size.\nerror: no data in /data\n",
    "advice, other words": "To avoid running out of GPU memory, set --batch-size.\nerror: no data in /data\n",
    "a count": "gpu_oom: 0\nCUDA out of memory errors: 0\nCUDA out of memory: 0 times\nerror: bad label\n",
    "a setting": "on_cuda_out_of_memory: skip\nretry_on: CUDA_ERROR_OUT_OF_MEMORY\nerror: bad label\n",
    "a command": "+ grep -c 'CUDA out of memory' log.txt\n+ exit 1\n",
    "a comment": "# CUDA out of memory happens with more than 32\n./run.sh: line 4: pyhton: command not found\n",
    "a source": '    if "CUDA out of memory" in str(error):\n    except torch.cuda.OutOfMemoryError:\nIndentationError: unexpected indent\n',
    "a question": "CUDA out of memory? Then lower the batch size\nerror: no data\n",
    "caught, halved": "CUDA out of memory. Tried to allocate 2.00 GiB; reducing batch size to 16\nerror: bad label\n",
    "caught, skipped": "| WARNING: ran out of memory, skipping batch\nCUDA out of memory on batch 17, skipped\nerror: bad label\n",
    "AutoBatch": "AutoBatch: CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 7.79 GiB total capacity)\nAutoBatch: WARNING CUDA anomaly detected, recommend restart environment and retry command.\nAutoBatch: Using batch-size 16 for CUDA:0 5.24G/7.79G (67%)\nerror: dataset not found\n",
    "llama.cpp went on": "0.06.520.077 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 51748.72 MiB on device 1: cudaMalloc failed: out of memory\n0.06.520.107 W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n0.07.304.130 I srv    load_model: initializing, n_slots = 1\n0.07.305.000 E start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080\n0.07.305.100 E main: exiting due to HTTP server error\n",
    "a server went on": "[ERROR] request 17: CUDA out of memory. Tried to allocate 2.00 GiB\n[INFO] request 18: 200 OK\n[INFO] request 19: 200 OK\n[ERROR] cannot open /data/next: no such file\n",
    "Kaldi went on": "WARNING (nnet3-train[5.4]:MallocPitchInternal():cu-allocator.cc:97) Allocation of 10204 x 6656 region failed: freeing some memory and trying again. \nERROR (nnet3-train[5.4]:main():nnet3-train.cc:12) Error reading /data/egs.1.ark\n",
    "ComfyUI went on": "Got an OOM, unloading all loaded models.\nWarning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.\nerror: no such node\n",
    "TensorRT skips tactics": "[TRT] [W] UNSUPPORTED_STATE: Skipping tactic 0 due to insufficient memory on requested size of 4294967296 detected for tactic 0x0.\n[TRT] [E] 10: Could not find any implementation for node conv1.\n",
    "the kernel's OOM killer": "[12345.678] Out of memory: Killed process 4711 (python) total-vm:123456kB, anon-rss:65536kB\nKilled\n",
    "Slurm's OOM killer": "slurmstepd: error: Detected 1 oom_kill event in StepId=123.batch. Some of the step tasks have been OOM Killed.\nsrun: error: gpu01: task 0: Out Of Memory\n",
    "a program's host memory": "fatal: Out of memory, malloc failed (tried to allocate 1073741824 bytes)\n",
    "fork": "-bash: fork: Cannot allocate memory\n",
    "Go": "fatal error: runtime: out of memory: cannot allocate 4194304-byte block (1073741824 in use)\n",
    "Rust": "memory allocation of 8589934592 bytes failed\nAborted (core dumped)\n",
    "R": "Error: cannot allocate vector of size 7.5 Gb\nExecution halted\n",
    "node": "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n",
    "MATLAB": "Out of memory. Type HELP MEMORY for your options.\nError in train (line 12)\n",
    "nvcc": "nvcc fatal   : Could not open output file '/tmp/cuda/a.ii'\nmake: *** [Makefile:10: cuda_kernels.o] Error 2\n",
    "the compiler": "cc1plus: out of memory allocating 65536 bytes after a total of 4096 bytes\nmake: *** [Makefile:12: src/gpu/solver.o] Error 1\n",
    "an assertion on the GPU": '/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [0,0,0], thread: [32,0,0] Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed.\n'
    + traceback(
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    ),
    "NCCL's timeout": "[rank1]:[E1129 03:40:00.123456 ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 600123 milliseconds before timing out.\n[rank1]:[E ProcessGroupNCCL.cpp:577] Some NCCL operations have failed or timed out.\n"
    + abort("c10::DistBackendError", "[Rank 1] NCCL watchdog thread terminated with exception"),
    "NCCL's shared memory": "gpu01:4711:4802 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\ngpu01:4711:4802 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-X (size 9637888)\n",
    "GPUassert, other": "GPUassert: invalid device function kernel.cu 45\n",
    "Slurm refuses": "salloc: error: Job submit/allocate failed: Requested node configuration is not available\nsrun: error: Unable to allocate resources: Invalid generic resource (gres) specification: gpu:9\n",
    "bus error": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nBus error\n",
    "Ollama's host memory": "Error: model requires more system memory (10.2 GiB) than is available (7.7 GiB)\n",
    "llama.cpp's host memory": "ggml_cuda_host_malloc: failed to allocate 4096.00 MiB of pinned memory: out of memory\nerror: no such model\n",
    "OpenCL's host": "clBuildProgram(): CL_OUT_OF_HOST_MEMORY\n",
    "Vulkan's host": "vk::Device::allocateMemory: ErrorOutOfHostMemory\n",
    "PostgreSQL": "ERROR:  out of shared memory\nHINT:  You might need to increase max_locks_per_transaction.\n",
    "verbs": "libibverbs: ibv_reg_mr: Cannot allocate memory; check RLIMIT_MEMLOCK\n",
    "a warning of XLA": "W0101 00:00:00.123456  123 bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 12.00GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance gains if more memory were available.\nerror: no data\n",
    "long ago": "CUDA out of memory. Tried to allocate 2.00 GiB\n"
    + "epoch 1 loss 0.3\n" * 40
    + "error: no data\n",
    "a log about others": "INFO: job 17 failed: CUDA out of memory\nINFO: job 18 completed\nerror: 1 of 2 jobs failed\n",
    "a report": "Last week 3 users asked about CUDA out of memory.\nerror: mail server not found\n",
}
OTHER = {**{line: traceback(line) for line in _EXCEPTIONS}, **_PLAIN}


HELD_OUT = {
    "PIConGPU": "Unhandled exception of type 'St13runtime_error' with message '/scratch/ws/1/pic_env/thirdParty/cupla/alpaka/include/alpaka/mem/buf/BufUniformCudaHipRt.hpp(360) 'cudaMalloc( &memPtr, static_cast<std::size_t>(widthBytes))' returned error  : 'cudaErrorMemoryAllocation': 'out of memory'!', terminating\n[cupla] Error: </scratch/ws/1/pic_env/include/pmacc/memory/buffers/HostBufferIntern.hpp>:73 \n[taurusml22:163119:0:163119] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x9)\n*** Error in `/lustre/runs/input/bin/picongpu': free(): invalid pointer: 0x00000000151c07f0 ***\n",
    "PIConGPU, heap": "Error: Out of device heap memory in picongpu/include/picongpu/../pmacc/particles/memory/boxes/ParticlesBox.hpp:116\n"
    * 3
    + "/home/me/picongpu/thirdParty/cupla/alpaka/include/alpaka/mem/buf/BufUniformCudaHipRt.hpp(324) 'TApi::hostFree(ptr)' returned error  : 'cudaErrorLaunchFailure': 'unspecified launch failure'!\n",
    "JDFTx": "GPU memory allocation failed (out of memory)\n\nEnd date and time: Fri Jan 13 12:00:00 2023\nFailed.\n",
    "TensorFlow 1, session": traceback(
        "tensorflow.python.framework.errors_impl.InternalError: 2 root error(s) found.\n  (0) Internal: Dst tensor is not initialized.\n\t [[{{node beta1_power/initial_value}}]]"
    ),
    "DeePMD-kit": "ERROR on proc 3: DeePMD-kit C API Error: DeePMD-kit Error: DeePMD-kit PyTorch backend error: The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript, serialized code (most recent call last):\n  ...\nRuntimeError: CUDA out of memory. Tried to allocate 2.79 GiB (GPU 0; 31.75 GiB total capacity)\n (/src/DEEPMD/pair_deepmd.cpp:586)\nLast command: run 100000\n",
    "gpu4pyscf": traceback(
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 12,345,678,912 bytes (allocated so far: 30,000,000,000 bytes, limit set to: 40,000,000,000 bytes)."
    ),
    "AliceVision": "[19:04:25.042274][fatal] Failed to allocate CUDA device memory: out of memory\n",
    "AliceVision, older": "ERROR: Could not allocate array, out of memory in CudaDeviceMemoryPitched::allocate\nCUDA catched error: out of memory\n",
    "OpenMVS": "21:05:14 [App     ] CUDA error at SceneDensify.cpp:120 (code 2): out of memory\n",
    "MindSpore": traceback(
        "RuntimeError: mindspore/ccsrc/runtime/device/gpu/gpu_memory_allocator.cc:69 AllocDeviceMem] Device memory is not enough: alloc size 2147483648, free 104857600"
    ),
    "OneFlow": traceback(
        'RuntimeError: Error: CUDA out of memory. Tried to allocate 1.2 GB\n  File "oneflow/core/vm/bin_allocator.h", line 398, in AllocateBlockToExtendTotalMem'
    ),
    "Jittor": traceback(
        "RuntimeError: [f 0322 11:00:00.000001 20 cuda_device_allocator.cc:33] Check failed CUDA error at cudaMalloc(&ptr, size) code=2( cudaErrorMemoryAllocation ) "
    ),
    "MegEngine": traceback(
        "megengine.core._imperative_rt.core2.RuntimeError: cuda error: out of memory(2) cudaMalloc(&ptr, size)"
    ),
    "Triton server": "E0322 11:00:00.000001 1 model_lifecycle.cc:621] failed to load 'bert' version 1: Internal: unable to create TensorRT context: out of memory\nerror: creating server: Internal - failed to load all models: CUDA out of memory\n",
    "onnxruntime, BERT": traceback(
        "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Mul node. Name:'Mul_8702' Status Message: /workspace/onnxruntime/core/framework/bfc_arena.cc:368 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*, bool) Failed to allocate memory for requested buffer of size 2830172160"
    ),
    "onnxruntime, cuBLAS": traceback(
        "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; hostname=gpu1 ; expr=cublasCreate(&cublas_handle_);"
    ),
    "text-generation-inference": traceback(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB"
    )
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + traceback(
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"
    )
    + '2024-03-01T10:00:00.000001Z ERROR warmup{max_input_length=1024}:warmup: text_generation_client: Server error: Not enough memory to handle 4096 prefill tokens.\nError: Warmup(Generation("Not enough memory to handle 4096 prefill tokens."))\n',
    "DeepSpeed": "[rank3]: "
    + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB").replace(
        "\n", "\n[rank3]: "
    )
    + "\n[2024-03-01 10:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n"
    * 8
    + "[2024-03-01 10:00:01,000] [ERROR] [launch.py:325:sigkill_handler] ['/opt/bin/python', '-u', 'train.py'] exits with return code = 1\n",
    "Lightning": traceback(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB"
    )
    + "Epoch 0:   3%|▎         | 12/375 [00:05<02:36,  2.32it/s, v_num=0]\nwandb: \nwandb: Run history:\nwandb: epoch ▁▁▁\n",
    "k2": traceback(
        "RuntimeError: \n    Some bad things happened. Please read the above error messages and stack\n    trace. [F] /k2/csrc/pytorch_context.cu:116:void k2::InitHasCuda() CUDA error: out of memory"
    ),
    "ESPnet": "RuntimeError: CUDA out of memory. Tried to allocate 508.00 MiB (GPU 0; 10.91 GiB total capacity)\n# Accounting: time=312 threads=1\n# Ended (code 1) at Mon Mar  1 10:00:00 UTC 2021, elapsed time 312 seconds\n",
    "Torch7": "/home/me/torch/install/bin/luajit: cuda runtime error (2) : out of memory at /tmp/luarocks_cutorch-scm-1-700/cutorch/lib/THC/generic/THCStorage.cu:66\nstack traceback:\n\t[C]: in function 'resize'\n\t[C]: at 0x00406670\n",
    "CNTK": traceback(
        "RuntimeError: CUDA failure 2: out of memory ; GPU=0 ; hostname=gpu1 ; expr=cudaMalloc((void**) &deviceBufferPtr, sizeof(AllocatedElemType) * numElements)"
    ),
    "Torch in C++": abort(
        "c10::CUDAError",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call.",
    ),
    "PyTorch3D": traceback(
        "RuntimeError: CUDA error: out of memory (rasterize_meshes_coarse_cuda at /pytorch3d/csrc/rasterize_meshes.cu:655)"
    ),
    "nerfacc": traceback(
        "RuntimeError: tiny-cuda-nn: cudaMalloc(&m_data, n_bytes) failed: out of memory"
    ),
    "tiny-cuda-nn": traceback(
        "RuntimeError: Could not allocate memory: /tiny-cuda-nn/include/tiny-cuda-nn/gpu_memory.h:149 cudaMalloc(&rawptr, n_bytes) failed: out of memory"
    ),
    "Open3D": traceback(
        "RuntimeError: [Open3D Error] (void open3d::core::__OPEN3D_CUDA_CHECK(cudaError_t, const char*, int)) /root/Open3D/cpp/open3d/core/CUDAUtils.cpp:301: /root/Open3D/cpp/open3d/core/MemoryManagerCUDA.cpp:44 CUDA runtime error: out of memory"
    ),
    "spconv": traceback(
        "RuntimeError: /io/build/core_cc/src/cumm/common/TensorView.cu(40)\ncuda execution failed with error 2"
    ),
    "Qiskit Aer": "terminate called after throwing an instance of 'thrust::system::system_error'\n  what():  CUDA free failed: cudaErrorMemoryAllocation: out of memory\n",
    "cuStateVec": traceback(
        "cuquantum.bindings.custatevec.cuStateVecError: CUSTATEVEC_STATUS_ALLOC_FAILED"
    ),
    "Modulus of RAPIDS cuGraph": traceback(
        "RuntimeError: non-success value returned from cugraph_pagerank: CUGRAPH_UNKNOWN_ERROR std::bad_alloc: out_of_memory: CUDA error (failed to allocate 1073741824 bytes) at: /opt/include/rmm/mr/device/cuda_async_view_memory_resource.hpp:111: cudaErrorMemoryAllocation out of memory"
    ),
    "H2O's XGBoost": "water.exceptions: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n",
    "HOOMD": traceback(
        "RuntimeError: cudaErrorMemoryAllocation in /hoomd/GPUArray.h:1012: out of memory"
    ),
    "QUDA": "QUDA: ERROR: Failed to allocate device memory of size 4294967296 (/quda/lib/gauge_field.cpp:33 in cudaGaugeField())\n (rank 0, host gpu01, malloc.cpp:222 in quda::device_malloc_())\n",
    "AmgX": "AMGX ERROR: file /src/amgx_c.cu line   2599\nAMGX ERROR: Thrust failure.\nCaught amgx exception: Cannot allocate next pool size: 1073741824 bytes on GPU\n",
    "PETSc": "[0]PETSC ERROR: Error in external library\n[0]PETSC ERROR: cuda error 2 (cudaErrorMemoryAllocation) : out of memory\n[0]PETSC ERROR: See https://petsc.org/release/faq/ for trouble shooting.\n",
    "HPL": "cudaMalloc failed with error 2 (out of memory) in HPL_malloc_device\n",
    "FSL eddy": "EDDY::: cuda/EddyGpuUtils.cu::: Exception thrown with message: thrust::system_error thrown in CudaVolume::resize after resize() with message: out of memory\n",
    "MotionCor2": "cudaMalloc failed: CBufferPool::mCreate, out of memory, GPU 0\n",
    "gpu_burn": "Couldn't init a GPU test: Error in load module (gpu_burn-drv.cpp:234): out of memory\nFailure during compute\n",
    "Numba, async": traceback(
        "numba.cuda.cudadrv.driver.CudaAPIError: [CUresult.CUDA_ERROR_OUT_OF_MEMORY] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"
    ),
    "PaddleOCR": "--------------------------------------\nError Message Summary:\n----------------------\nExternalError: CUDA error(2), out of memory. \n  [Hint: 'cudaErrorMemoryAllocation'. The API call failed because it was unable to allocate enough memory to perform the requested operation.] (at /paddle/paddle/phi/backends/gpu/cuda/cuda_info.cc:251)\n",
    "exllamav2": traceback("RuntimeError: Insufficient VRAM for model and cache"),
    "KoboldCpp": "ggml_cuda_device_malloc: failed to allocate 4096.00 MiB on device 0: out of memory\nCannot allocate CUDA buffer for the model\n",
    "whisper.cpp": "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2951.01 MiB on device 0: cudaMalloc failed: out of memory\nwhisper_model_load: failed to allocate memory for the model\nerror: failed to initialize whisper context\n",
    "MLX or Metal": traceback(
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 1.00 GB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool."
    ),
    "Ascend": traceback(
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 29.50 GiB total capacity; 27.1 GiB already allocated)"
    ),
    "two lines": "CUDA error at src/solver.cu:120:\n    out of memory\n",
    "Jetson": "NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0\n[TRT] [E] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)\n",
    "mmap'd weights": traceback(
        "safetensors_rust.SafetensorError: device error: CUDA out of memory. Tried to allocate 112.00 MiB"
    ),
    "Rust's candle": 'Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n',
    "Burn": "thread 'main' panicked at cubecl-cuda/src/runtime.rs:64:10:\ncalled `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    "Go's gorgonia": "panic: Failed to allocate 1073741824 bytes on device 0: OutOfMemory\n\ngoroutine 1 [running]:\nmain.main()\n",
    "Nim or a user's program": "cudaMallocManaged: out of memory\n",
    "a user's own check": "gpuErrchk: out of memory at train.cu:88\n",
    "JSON": '{"level":"error","ts":"2024-03-01T10:00:00Z","msg":"train failed","error":"CUDA out of memory. Tried to allocate 2.00 GiB"}\n',
}
HELD_OUT_OTHER = {
    line: traceback(line)
    for line in """\
RuntimeError: CUDA error: initialization error
RuntimeError: handle_0 INTERNAL ASSERT FAILED at "../c10/cuda/driver_api.cpp":15, please report a bug to PyTorch.
RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned
RuntimeError: Pin memory thread exited unexpectedly
RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2>: Resource temporarily unavailable (11)
RuntimeError: could not allocate a buffer of 3.2 GB in host RAM for the GPU cache
RuntimeError: HIP error: invalid device function
RuntimeError: HIP error: the operation cannot be performed in the present state
torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (gpu01, 29500).
torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL
joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation fault or by an excessive memory usage causing the Operating System to kill the worker. The exit codes of the workers are {SIGKILL(-9)}
polars.exceptions.ComputeError: not enough memory to sort 10000000 rows
duckdb.duckdb.OutOfMemoryException: Out of Memory Error: could not allocate block of size 256.0 KiB (12.7 GiB/12.7 GiB used)
zarr.errors.OutOfMemoryError: cannot hold chunk in memory
sqlalchemy.exc.OperationalError: (MySQLdb.OperationalError) (5, 'Out of memory (Needed 1048576 bytes)')
kubernetes.client.exceptions.ApiException: (403) exceeded quota: gpu, requested: requests.nvidia.com/gpu=4
ValueError: Cannot use CUDA out of memory handler together with gradient checkpointing
gurobipy.GurobiError: Out of memory
rasterio.errors.RasterioIOError: Read failed. See previous exception for details: out of memory
pyscipopt.scip.Error: insufficient memory error!
ray.exceptions.RayTaskError: Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed due to other reasons on node gpu01""".splitlines()
} | {
    "an agent's advice": 'hint: CUDA out of memory usually means that the batch is too large\nTraceback (most recent call last):\n  File "a.py", line 1\nOSError: no model\n',
    "a README": "Known problems: GPU out of memory (lower --bs), slow disks.\nrun.sh: line 12: unbound variable\n",
    "the last words of a good part": "trial 3: GPU out of memory, pruned\ntrial 4: ok\ntrial 5: ok\nerror: study storage is locked\n",
    "a survived request": 'ERROR:    request 7: torch.OutOfMemoryError: CUDA out of memory.\nINFO:     127.0.0.1 - "POST /generate HTTP/1.1" 500\nINFO:     127.0.0.1 - "POST /generate HTTP/1.1" 200\nERROR:    [Errno 98] error while attempting to bind on address (\'0.0.0.0\', 8000): address already in use\n',
    "a search that found its size": "Trying batch size 64: CUDA out of memory\nTrying batch size 32: ok\nerror: [Errno 2] No such file or directory: 'data.yaml'\n",
    "a smaller size, in other words": "CUDA out of memory at batch 64, now with 32\nbatch 32 works\nValueError: labels must be in 0..9\n",
    "the OOM killer of a container": "gpu-train-0: OOMKilled (exit code 137)\nerror: job failed\n",
    "a linker": "/usr/bin/ld: final link failed: memory exhausted\ncollect2: error: ld returned 1 exit status\nerror: command '/usr/local/cuda/bin/nvcc' failed with exit code 1\n",
    "ptxas": "ptxas fatal   : Memory allocation failure\nnvcc error   : 'ptxas' died with status 0xC0000005\n",
    "git": "fatal: out of memory, malloc failed (tried to allocate 524288000 bytes)\nfatal: fetch-pack: invalid index-pack output for gpu-models\n",
    "a port": "E1129 server.cc:36] UNKNOWN: No address added out of total 1 resolved for 0.0.0.0:8001\nOSError: [Errno 98] Address already in use\n",
    "MPI": "[gpu01:4711] *** An error occurred in MPI_Win_allocate\n[gpu01:4711] *** MPI_ERR_NO_MEM: out of memory\n[gpu01:4711] *** MPI_ERRORS_ARE_FATAL\n",
    "Gaussian": "galloc:  could not allocate memory.\nError termination via Lnk1e\n",
    "ORCA": "ORCA finished by error termination: out of memory, please increase %maxcore\n",
    "an X server": "_XSERVTransmkdir: ERROR: out of memory for display gpu-vnc:1\n",
}


LATER = {
    "cuMatrix": "cuMatrix::cuMatrix device memory allocation failed\n",
    "cuDSS": "cuDSS: device memory allocation failed\n",
    "a sample, with its array": " The device memory allocation failed for A \n",
    "vectorAdd of CUDA's samples": "Failed to allocate device vector A (error code out of memory)!\n",
    "lc0": "Not enough GPU memory to capture CUDA graphs\n",
    "qsim": "not enough GPU memory\n",
    "a check before": "ERROR: Not enough GPU memory! Need 30123.4MB, have 8123.4MB free\n",
    "KV cache": traceback(
        "ValueError: Not enough GPU memory available to allocate the KV cache. Please decrease 'gpu_mem_headroom'."
    ),
    "TF lstm": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Ran out of GPU memory when allocating 1073741824 bytes for SparseTensorDenseMatMul"
    ),
    "NLLB": "Local NLLB translation ran out of GPU memory. Try CPU mode or close other GPU applications.\n",
    "wrapped": traceback(
        "RuntimeError: Ran out of GPU memory at patch_size=256, batch_size=8. Halve --batch-size first; "
    ),
    "preprocess": "Failed to allocate device memory (error code out of memory)!\n",
    "SuperGlueTRT": "SuperGlueTRT: Failed to allocate device memory for keypoints_0\n",
    "a Vulkan engine": traceback("RuntimeError: vkAllocateMemory: out of device memory"),
    "LWJGL": 'Exception in thread "main" VulkanException: Failed to allocate device memory for buffer: VK_ERROR_OUT_OF_DEVICE_MEMORY\n',
    "Rust upload": "thread 'main' panicked at src/main.rs:9:5:\nupload pool ran out of device memory\n",
    "exhausted": "GPU memory exhausted. Close GPU-heavy applications; for extraction OOM, lower --resolution and --chunks.\n",
    "super graph": "Failed to allocate device memory for d_super_graph_u: out of memory\n",
    "ESMFold": traceback("RuntimeError: ESMFold ran out of GPU memory on 1024 residues"),
    "GPUMD": "CUDA Error:\n    File:       utilities/gpu_vector.cu\n    Line:       120\n    Error code: 2\n    Error text: out of memory\n",
    "ColabFold": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 12.5GiB (13421772800B) on device ordinal 0"
    ),
    "torch compile": traceback(
        "torch._inductor.exc.InductorError: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    ),
    "deepspeed zero": traceback(
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call."
    ),
    "DALI": traceback(
        "RuntimeError: Critical error in pipeline:\nError when executing GPU operator decoders__Image encountered:\nCan't allocate 1073741824 bytes on device 0. CUDA allocation failed"
    ),
    "DALI, nvml": traceback(
        "dali: [/opt/dali/dali/core/mm/malloc_resource.h:113] CUDA allocation failed"
    ),
    "NVSHMEM": "src/mem/mem.cpp:432: non-zero status: 2 cuMemCreate failed \nout of memory\n",
    "Rapids cuDF JSON": traceback(
        "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/opt/rmm/pool_memory_resource.hpp:193: Maximum pool size exceeded (failed to allocate 1.000000 GiB): std::bad_alloc"
    ),
    "Bazel's TF serving": "F0000 00:00:1700000000.000001 1 cuda_executor.cc:1017] could not allocate CUDA stream: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    "user raises": traceback(
        "MyTrainerError: step 12 failed: CUDA out of memory. Tried to allocate 1.20 GiB"
    ),
    "logger.error": "2024-01-01 10:00:00,123 - trainer - ERROR - Training failed due to CUDA out of memory. Tried to allocate 512.00 MiB\n",
    "loguru": "2024-01-01 10:00:00.123 | ERROR    | train:main:12 - CUDA out of memory. Tried to allocate 512.00 MiB\n",
    "OpenCL LightGBM": traceback("lightgbm.basic.LightGBMError: Memory Object Allocation Failure"),
    "Ray Train": traceback(
        'ray.exceptions.RayTaskError(OutOfMemoryError): ray::TrainWorker.execute() (pid=1, ip=10.0.0.1)\n  File "train.py", line 3, in f\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'
    ),
}
_LATER_EXCEPTIONS = """\
RuntimeError: Failed to allocate device handle: no such device
RuntimeError: failed to allocate memory for texture on CPU: not enough memory
RuntimeError: NCCL error: unhandled system error, failed to allocate 9637888 bytes in /dev/shm
RuntimeError: CUDA error: the resource allocation failed to launch kernel (launch out of resources)
AssertionError: 2 != 1 : out of memory handler was called twice
OSError: Unable to allocate 16 GB on /dev/sdb1
OSError: [Errno 12] Cannot allocate memory: '/dev/nvidia-uvm'
MemoryError: Unable to allocate 16.0 GiB for an array with shape (65536, 65536) in gpu_prep.py
RuntimeError: CUDA error 2000: weird""".splitlines()
LATER_OTHER = {line: traceback(line) for line in _LATER_EXCEPTIONS} | {
    text[:30]: text
    for text in (
        "Slurm: step out of memory\nslurmstepd: error: StepId=1.0 exceeded memory limit (67108864 > 33554432), being killed\n",
        "[retry] attempt 1: CUDA out of memory\n[retry] attempt 2: KeyError 'x'\nfailed after 2 attempts: KeyError 'x'\n",
        "Not enough GPU memory to do segmentation completely on device, using CUDA managed memory instead.\nerror: cannot read volume.nii\n",
        "RuntimeWarning: nnUNet ran out of GPU memory; retrying on CPU.\nerror: no such file\n",
        "OOM at step 12! Skipping batch.\nstep 13 loss 0.2\nerror: bad label\n",
        "[12:00:01] CUDA OOM, clearing cache\n[12:00:02] INFO step 13 done\n[12:00:09] ERROR cannot write checkpoint: disk full\n",
        "Skipping test: Not enough GPU memory\n1 skipped\n2 failed: test_loss\n",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=gpu.slice\nMemory cgroup out of memory: Killed process 4711\n",
        "FAQ: CUDA out of memory -> lower batch_size\nUsage: train [OPTIONS]\nError: Missing option '--data'.\n",
        "pip: ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device (torch+cu121)\n",
        "bash: ./gpu_run: Cannot allocate memory\n",
        "[h264_nvenc @ 0x55] OpenEncodeSessionEx failed: out of memory (10): No capable devices found\n",
    )
}


ORDINARY = {
    "a": traceback(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.94 GiB is free. Including non-PyTorch memory, this process has 77.19 GiB memory in use."
    ),
    "b": traceback(
        "RuntimeError: CUDA out of memory. Tried to allocate 734.00 MiB (GPU 0; 7.79 GiB total capacity; 5.20 GiB already allocated; 604.56 MiB free; 5.70 GiB reserved in total by PyTorch)"
    ),
    "c": "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 3.95 GiB total capacity; 0 bytes already allocated; 3.25 MiB free; 0 bytes reserved in total by PyTorch)\nException raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:536 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x42 (0x7f in libc10.so)\nAborted (core dumped)\n",
    "d": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[32,1024,1024] and type half on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Einsum]"
    ),
    "e": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node 'gradient_tape/model/conv2d/Conv2D/Conv2DBackpropFilter' defined at (most recent call last):\n    File \"train.py\", line 10, in <module>\n      model.fit(x)\nNode: 'gradient_tape/model/conv2d'\n2 root error(s) found.\n  (0) RESOURCE_EXHAUSTED:  OOM when allocating tensor with shape[32,64,224,224] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node gradient_tape}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info. This isn't available when running in Eager mode.\n\n  (1) CANCELLED:  Function was cancelled before it was started\n0 successful operations.\n0 derived errors ignored. [Op:__inference_train_function_1234]"
    ),
    "f": traceback(
        "tensorflow.python.framework.errors_impl.InternalError: Failed to create session: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    ),
    "g": "2022-01-01 10:00:00.000001: F tensorflow/core/common_runtime/gpu/gpu_device.cc:1234] Check failed: cuda out of memory\n",
    "h": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes."
    ),
    "i": traceback("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDNN_STATUS_ALLOC_FAILED"),
    "j": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to load in-memory CUBIN (compiled for a different GPU?).: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    ),
    "k": traceback(
        "RuntimeError: cuSOLVER error: cusolverDnCreate failed: CUSOLVER_STATUS_ALLOC_FAILED"
    ),
    "l": traceback("cupy_backends.cuda.libs.cublas.CUBLASError: CUBLAS_STATUS_ALLOC_FAILED"),
    "m": traceback("cupy_backends.cuda.libs.cusparse.CuSparseError: CUSPARSE_STATUS_ALLOC_FAILED"),
    "n": traceback(
        "cupy_backends.cuda.libs.cudnn.CuDNNError: CUDNN_STATUS_ALLOC_FAILED: b'CUDNN_STATUS_ALLOC_FAILED'"
    ),
    "o": "error: CUDA out of memory\n",
    "p": "Fatal: cudaMalloc(&buf, n) failed: out of memory (2)\n",
    "q": "[ERROR] hipMalloc failed: hipErrorOutOfMemory\n",
    "r": "HIP error 2: out of memory at kernel.hip:120\n",
    "s": "hipErrorMemoryAllocation: out of memory\n",
    "t": traceback(
        "RuntimeError: [LightGBM] [Fatal] CUDA error: out of memory at cuda_tree_learner.cpp:120"
    ),
    "u": "[LightGBM] [Fatal] [CUDA] out of memory /tmp/LightGBM/src/cuda/cuda_utils.h 101\n",
    "v": traceback(
        "xgboost.core.XGBoostError: [10:00:00] ../src/common/device_helpers.cuh:132: NCCL failure: unhandled cuda error, cudaErrorMemoryAllocation: out of memory"
    ),
    "w": traceback(
        "_catboost.CatBoostError: catboost/libs/train_lib/train_model.cpp:1234: CUDA error 2: out of memory"
    ),
    "x": "ggml_cuda_compute_forward: MUL_MAT failed\nCUDA error: out of memory\n  current device: 0, in function alloc at ggml/src/ggml-cuda/ggml-cuda.cu:400\n  cuMemCreate(&handle, reserve_size, &prop, 0)\nggml/src/ggml-cuda/ggml-cuda.cu:70: CUDA error\n",
    "y": "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2147483648\nsrv    load_model: failed to load model, '/models/x.gguf'\nmain: exiting due to model loading error\n",
    "z": traceback("RuntimeError: Insufficient GPU memory for this model: needs 24 GB"),
    "aa": traceback(
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    ),
    "ab": traceback(
        "openmm.OpenMMException: Error creating CUDA context: CUDA_ERROR_OUT_OF_MEMORY (2) at /src/CudaContext.cpp:120"
    ),
    "ac": "Cuda error in file 'src/foo.cu' in line 343 : out of memory.\n",
    "ad": "CUDA error: out of memory (err=2)\nAborted\n",
    "ae": 'Traceback (most recent call last):\n  File "a.py", line 1\nMemoryError: cuMemAlloc_v2 failed: out of memory\n-------------------------------------------------------------------\nPyCUDA ERROR: The context stack was not empty upon module cleanup.\n-------------------------------------------------------------------\nAborted (core dumped)\n',
    "af": "ERROR: LoadError: CUDA error: out of memory (code 2, ERROR_OUT_OF_MEMORY)\nStacktrace:\n [1] throw_api_error(res::CUDA.cudaError_enum)\n   @ CUDA ~/.julia/packages/CUDA/src/error.jl:91\nin expression starting at train.jl:1\n",
    "ag": traceback(
        "RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
    )
    + "Last error:\nCuda failure 'out of memory'\n",
    "ah": "[rank1]: "
    + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB").replace(
        "\n", "\n[rank1]: "
    )
    + "\nW1129 03:40:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 2 closing signal SIGTERM\nE1129 03:40:01.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 2) of binary: /opt/bin/python\n"
    + traceback(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED"
    ),
    "ai": traceback(
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    ).replace(
        "Traceback",
        traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB")
        + "Traceback",
        1,
    ),
    "aj": "Exception in thread Thread-1:\n"
    + traceback("RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB"),
}
_ORDINARY_EXCEPTIONS = """\
ValueError: Cannot load file containing pickled data when allow_pickle=False
RuntimeError: unable to write to file </torch_1>: No space left on device (28)
pandas.errors.ParserError: Error tokenizing data. C error: out of memory
MemoryError: Unable to allocate 3.00 TiB for an array with shape (1, 2) and data type float32
ray.exceptions.RaySystemError: System error: Broken pipe""".splitlines()
ORDINARY_OTHER = {line: traceback(line) for line in _ORDINARY_EXCEPTIONS} | {
    text[:30]: text
    for text in (
        "slurmstepd: error: *** STEP 1.0 ON gpu01 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
        "rsync error: error in file IO (code 11) at receiver.c(374): No space left on device\n",
        "java.lang.OutOfMemoryError: GC overhead limit exceeded\n",
        "docker: Error response from daemon: OOM killer disabled but limit set\n",
    )
}
