"""Ends of programs from further reports: workflows, Java, .NET, miners, renderers and others."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

from tests.last_words.corpus import abort
from tests.last_words.logs import prefixed, traceback
from tests.last_words.reports import (
    DIRECT,
    FRAMES,
    MPI_ABORT,
    MPI_TRACE,
    ON_HOST,
    OOM,
    TRIED,
    child_failed,
)

JAVA = "\tat org.nd4j.jita.memory.CudaMemoryManager.allocate(CudaMemoryManager.java:79)\n" * 20
NET = "   at ManagedCuda.CudaDeviceVariable`1..ctor(SizeT size)\n" * 12
NOT_DESTROYED = "[rank0]:[W513 07:36:19.936700163 ProcessGroupNCCL.cpp:1294] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group to ensure that any pending NCCL operations have finished in this process. (function operator())\n"
CLEARED = "[2025-09-04 15:14:27.768] [warning] Caught Torch error '{}', clearing CUDA cache and retrying.\n"
HOROVOD = (
    "Process 3 exit with status code 1.\nTerminating remaining workers after failure of Process 3.\n"
    + "".join(f"Process {i} exit with status code 143.\n" for i in range(3))
    + traceback(
        "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated. The first process to do so was:\nProcess name: 3\nExit code:    1\n"
    )
)
SNAKEMAKE = "[Wed May  1 10:00:00 2024]\nError in rule train:\n    jobid: 1\n    input: data.csv\n    output: model.pt\n    log: train.log (check log file(s) for error details)\n    shell:\n        python train.py\n        (one of the commands exited with non-zero exit code; note that snakemake uses bash strict mode!)\n\nShutting down, this might take some time.\nExiting because a job execution failed. Look above for error message\nComplete log: .snakemake/log/2024-05-01T100000.000000.snakemake.log\n"


def nextflow(error: str, status: int = 1) -> str:
    return (
        f"ERROR ~ Error executing process > 'basecalling (1)'\n\nCaused by:\n  Process `basecalling (1)` terminated with an error exit status ({status})\n\n\nCommand executed:\n\n  dorado basecaller sup . --device cuda:all > 0.bam\n\nCommand exit status:\n  {status}\n\nCommand output:\n  (empty)\n\nCommand error:\n"
        + prefixed("  ", error)
        + "\nWork dir:\n  /scratch/work/4f/ec8d64\n\nContainer:\n  /scratch/dorado.sif\n\nTip: view the complete command output by changing to the process work dir and entering the command `cat .command.out`\n\n -- Check '.nextflow.log' file for details\n"
    )


TRUE = {
    "dorado": "[2023-01-09 19:39:45.964] [debug] - selected batchsize 512\n"
    + abort(
        "c10::CUDAOutOfMemoryError",
        TRIED
        + "\nException raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:578 (most recent call first):\n"
        + FRAMES,
    )
    + "Aborted (core dumped)\n",
    "dorado, the second time": CLEARED.format(TRIED)
    + abort(
        "c10::Error", TRIED + "\nException raised from malloc (most recent call first):\n" + FRAMES
    ),
    "Nextflow": nextflow(
        abort("c10::Error", TRIED)
        + ".command.sh: line 3: 4711 Aborted (core dumped) dorado basecaller\n"
    ),
    "Snakemake": traceback(OOM) + SNAKEMAKE,
    "DL4J": 'Exception in thread "main" java.lang.RuntimeException: cudaMalloc failed; Bytes: [1077940224]; Error code [2]; DEVICE [0]\n'
    + JAVA,
    "ND4J": 'Exception in thread "main" java.lang.RuntimeException: Failed to allocate 1077940224 bytes from DEVICE [0] memory\n'
    + JAVA,
    "ND4J 0.5": 'Exception in thread "main" java.lang.IllegalStateException: Can\'t allocate [DEVICE] special buffer memory!\n'
    + JAVA,
    "Spark": 'Exception in thread "main" org.apache.spark.SparkException: Job aborted due to stage failure: Task 33 in stage 1303.0 failed 4 times, most recent failure: Lost task 33.3 in stage 1303.0 (TID 37289) (10.59.128.149 executor 2): com.nvidia.spark.rapids.jni.GpuSplitAndRetryOOM: GPU OutOfMemory: could not split inputs and retry\n'
    + JAVA
    + "\nDriver stacktrace:\n"
    + JAVA,
    "Halide": "Error: CUDA: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY\nMakefile:30: recipe for target 'bin/host-cuda/out.png' failed\nmake[2]: Leaving directory '/home/me/apps/max_filter'\nmake[2]: *** [bin/host-cuda/out.png] Aborted (core dumped)\nmake[1]: *** [test_app] Error 2\nmake: *** [Makefile:12: test] Error 2\n",
    "KeOps": "\n[KeOps] error: cuMemAlloc(&p_data, sizeof(TYPE *) * nargs) failed with error CUDA_ERROR_OUT_OF_MEMORY\n\n"
    + traceback("RuntimeError: [KeOps] Cuda error."),
    "Futhark": "./prog: ./prog.c:4211: CUDA call\n  cuMemAlloc(mem_out, min_size)\nfailed with error code 2 (out of memory)\n",
    "ethminer": "cu 16:40:30 cuda-0   Generating DAG + Light : 3.75 GB\ncu 16:40:30 cuda-0   Unexpected error CUDA error in func dev::eth::CUDAMiner::initEpoch_internal at line 123 out of memory on CUDA device 01:00.0\ncu 16:40:30 cuda-0   Mining suspended ...\n i 16:40:31 <unknown> Disconnected from eu1.ethermine.org\n",
    "PhoenixMiner": "GPU1: Allocating DAG (3.33) GB; good for epoch up to #298\nCUDA error in CudaProgram.cu:373 : out of memory (2)\nGPU1: CUDA memory: 4.00 GB total, 3.30 GB free\nGPU1 initMiner error: out of memory\nEth speed: 0.000 MH/s, shares: 0/0/0, time: 0:00\nFatal error detected. Restarting.\n",
    "Mitsuba 2": "2021-08-14 16:26:33 INFO  main  [mitsuba.cpp:219] Copyright 2020, Realistic Graphics Lab, EPFL\n\nCaught a critical exception: cuda_malloc(): out of memory!\n",
    "Dr.Jit": 'jit_flush_malloc_cache(): Dr.Jit exhausted the available memory and had to flush its allocation cache to free up additional memory. This is an expensive operation and will have a negative effect on performance.\n\nCritical Dr.Jit compiler failure: cuda_check(): API error 0002 (CUDA_ERROR_OUT_OF_MEMORY): "out of memory" in /project/ext/drjit-core/src/cuda_tex.cpp:149.\nAborted (core dumped)\n',
    "Dr.Jit, malloc": traceback(
        "RuntimeError: jit_malloc(): out of memory! Could not allocate 8589934592 bytes of device memory."
    )
    + "jit_malloc_shutdown(): leaked\n - device memory: 512 B in 1 allocation\n",
    "AMReX": "amrex::Abort::0::Arena out of memory!!!\nBytes to allocate: 1449379584 (1382 MiB)\nMemory type: GPU device memory\nMPI rank: 0\n !!!\nSIGABRT\nSee Backtrace.0 file for details\n"
    + MPI_ABORT,
    "AMReX on HIP": "amrex::Abort::1::HIP error in file /src/amrex/Src/Base/AMReX_GpuDevice.cpp line 402 hipErrorOutOfMemory !!!\nSIGABRT\nSee Backtrace.1 file for details\n"
    + MPI_ABORT
    + "srun: error: gpu07: task 1: Aborted\n",
    "DeepStream": "ERROR: [TRT]: 2: [virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further information)\nERROR: ../nvdsinfer/nvdsinfer_model_builder.cpp:1129 Build engine failed from config file\nERROR: ../nvdsinfer/nvdsinfer_model_builder.cpp:821 failed to build trt engine.\n** ERROR: <main:707>: Failed to set pipeline to PAUSED\nQuitting\nERROR from primary_gie: Failed to create NvDsInferContext instance\nDebug info: gstnvinfer.cpp(898): gst_nvinfer_start (): /GstPipeline:pipeline/GstNvInfer:primary_gie:\nConfig file path: config_infer_primary.txt, NvDsInfer Error: NVDSINFER_CONFIG_FAILED\nApp run failed\n",
    "AlphaFold's docker": prefixed(
        "I0309 12:51:51.372677 140505975940928 run_docker.py:247] ",
        traceback(
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.\nBufferAssignment OOM Debugging.\n"
            + "Buffer 14:\n\tSize: 660.94MiB\n\tXLA Label: parameter\n\tShape: f32[1152,2350,64]\n\t==========================\n\n"
            * 8
        ),
    ),
    "gpu4pyscf": "CUDA Error of GINTint2e_jk_kernel: out of memory\n",
    "ManagedCuda": "Unhandled exception. ManagedCuda.CudaException (0x80004005): ErrorOutOfMemory: The API call failed because it was unable to allocate enough memory to perform the requested operation.\n"
    + NET
    + "Aborted (core dumped)\n",
    "TorchSharp": f"Unhandled exception. System.Runtime.InteropServices.ExternalException (0x80004005): {TRIED} (malloc at /pytorch/c10/cuda/CUDACachingAllocator.cpp:289)\n"
    + NET,
    "ILGPU": "Unhandled exception. ILGPU.Runtime.Cuda.CudaException (0x80004005): out of memory\n   at ILGPU.Runtime.Cuda.CudaException.ThrowIfFailed(CudaError cudaStatus)\n"
    + NET,
    "JCuda": 'Exception in thread "main" jcuda.CudaException: CUDA_ERROR_OUT_OF_MEMORY\n' + JAVA,
    "torchrun, not destroyed": prefixed("[rank0]: ", traceback(OOM))
    + NOT_DESTROYED
    + child_failed(),
    "PennyLane": traceback(
        "pennylane_lightning.lightning_gpu_ops.LightningException: [/project/pennylane_lightning/core/src/utils/cuda_utils/DataBuffer.hpp][Line:50][Method:DataBuffer]: Error in PennyLane Lightning: out of memory"
    ),
    "FLAME GPU": traceback(
        "pyflamegpu.FLAMEGPURuntimeException: (CUDAError) /src/flamegpu/detail/cuda.cuh(30): CUDA Error: /src/flamegpu/simulation/detail/CUDAScatter.cu(210): out of memory"
    ),
    "Metashape": "Estimating quality...\nError: ciErrNum: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4) at line 136\n",
    "Octane": "CUDA error 2 on device 0: out of memory\n  -> failed to allocate device memory\ndevice 0: failed to upload the scene\nrender engine failed, stopping\n",
    "MMseqs2": "CUDA error: out of memory : /src/lib/libmarv/src/cudasw4.cuh, line 100\nError: Gpu search died\n",
    "cuVS": traceback(
        "cuvs.common.exceptions.CuvsException: CUDA error encountered at: file=/src/cpp/include/raft/util/cudart_utils.hpp line=148: call='cudaMallocAsync(&p, n, s)', Reason=cudaErrorMemoryAllocation:out of memory\nObtained 12 stack frames\n"
        + "#1 in /opt/libcuvs.so: raft::cuda_error::cuda_error(std::string const&) +0x5a [0x7f2b]\n"
        * 12
    ),
    "cuML": traceback(
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 40000000000 bytes) at: /opt/include/rmm/mr/device/cuda_memory_resource.hpp: cudaErrorMemoryAllocation out of memory"
    ),
    "HeavyDB": "Exception: Query ran out of GPU memory, unable to automatically retry on CPU\n",
    "FasterTransformer": abort(
        "std::runtime_error",
        "[FT][ERROR] CUDA runtime error: out of memory /workspace/FasterTransformer/src/fastertransformer/utils/memory_utils.cu:32 \n",
    )
    + "\n"
    + MPI_TRACE,
    "HugeCTR": "[HCTR][10:00:00.000][ERROR][RK0][main]: Runtime error: out of memory\n\tcudaMalloc(&ptr, size) at allocate (/workdir/HugeCTR/include/tensor2.hpp:120)\n"
    + traceback(
        "RuntimeError: Runtime error: out of memory\n\tcudaMalloc(&ptr, size) at allocate (/workdir/HugeCTR/include/tensor2.hpp:120)"
    ),
    "compute-sanitizer": '========= Program hit cudaErrorMemoryAllocation (error 2) due to "out of memory" on CUDA API call to cudaMalloc.\n=========     Saved host backtrace up to driver entry point at error\n'
    + "=========     Host Frame: [0x2f1a45]\n=========                in /usr/lib/libcuda.so.1\n"
    * 12
    + "========= ERROR SUMMARY: 1 error\n",
    "Horovod": prefixed("[1,3]<stderr>:", traceback(OOM)) + HOROVOD,
    "a parent's own words": traceback(OOM)
    + traceback("RuntimeError: training process exited with code 1"),
    "joblib": 'joblib.externals.loky.process_executor._RemoteTraceback: \n"""\n'
    + traceback(OOM, frames=8)
    + '"""\n'
    + DIRECT
    + traceback(OOM),
    "Sacred": 'ERROR - exp - Failed after 0:00:12!\nTraceback (most recent calls WITHOUT Sacred internals):\n  File "train.py", line 40, in main\n    loss.backward()\n'
    + f"RuntimeError: {TRIED}\n\n",
    "MLflow": traceback(OOM)
    + "🏃 View run bald-eagle at: http://gpu07:5000/#/experiments/1/runs/a1\n🧪 View experiment at: http://gpu07:5000/#/experiments/1\n",
    "Comet": traceback(OOM)
    + "COMET INFO: ---------------------------------------------------------------------------------------\nCOMET INFO: Comet.ml Experiment Summary\n"
    + "COMET INFO:     loss [100] : (0.1, 0.9)\n" * 40,
    "libomptarget": "omptarget error: Failure to allocate device memory: Error in cuMemAlloc[Host|Managed]: out of memory\nomptarget error: Call to getTargetPointer returned null pointer (device failure or illegal mapping).\nomptarget error: Call to targetDataBegin failed, abort target.\nomptarget error: Failed to process data before launching the kernel.\nomptarget error: Consult https://openmp.llvm.org/design/Runtimes.html for debugging options.\nomptarget fatal error 1: failure of target construct while offloading is mandatory\nAborted (core dumped)\n",
    "libgomp": "\nlibgomp: cuMemAlloc error: out of memory\n",
    "Chapel": "train.chpl:12: error: Error calling CUDA function: out of memory (Code: 2)\n",
    "DPC++": "PI CUDA ERROR:\n\tValue:           2\n\tName:            CUDA_ERROR_OUT_OF_MEMORY\n\tDescription:     out of memory\n\tFunction:        cuda_piextUSMDeviceAlloc\n\tSource Location: /src/sycl/plugins/cuda/pi_cuda.cpp:4811\n\n"
    + abort("sycl::_V1::exception", "No device of requested type available."),
    "alpaka": abort(
        "std::runtime_error",
        "/src/alpaka/mem/buf/BufUniformCudaHipRt.hpp(123) 'TApi::malloc(&memPtr, n)' returned error  : 'cudaErrorMemoryAllocation': 'out of memory'!",
    ),
    "Legate": "[0 - 7f2b9c000000]   12.345678 {5}{legate}: Mapper legate.core on Node 0 failed to allocate 6400000000 bytes on memory 1e00000000000006 (of kind GPU_FB_MEM: Framebuffer memory for one GPU and all its SMs) for region requirement(s) 0 of Task cupynumeric::Dot (UID 42).\nSignal 6 received by node 0, process 4711 - obtaining backtrace\n"
    + "Signal 6 received by process 4711 (thread 7f2b) at: stack trace: 10 frames\n"
    + "  [0] = raise at unknown file:0 [00007f2b9c8969fc]\n" * 10,
}
OTHER = {
    "dorado, a launch": CLEARED.format("CUDA error: unspecified launch failure")
    + abort(
        "c10::Error",
        "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at some other API call\n"
        + FRAMES,
    ),
    "dorado, recovered": CLEARED.format(TRIED)
    + "[2025-09-04 15:15:27.768] [info] > Simplex reads basecalled: 4000\n"
    + abort("std::runtime_error", "Failed to write SAM record, error code -1"),
    "Nextflow, SIGKILL": nextflow(
        ".command.sh: line 3: 4711 Killed dorado basecaller sup . --device cuda:all\n", 137
    ),
    "Snakemake, another": traceback("KeyError: 'gpu'") + SNAKEMAKE,
    "DL4J's host": 'Exception in thread "main" java.lang.RuntimeException: Failed to allocate 400 bytes from HOST memory\n'
    + JAVA,
    "DL4J falls back": "WARN  org.deeplearning4j.nn.layers.convolution.ConvolutionLayer: CuDNN execution failed - falling back on built-in implementation\njava.lang.RuntimeException: cudaMalloc failed; Bytes: [1077940224]; Error code [2]; DEVICE [0]\n"
    + JAVA
    + 'Exception in thread "main" java.lang.IllegalArgumentException: Labels mask has 3 columns, expected 4\n\tat Main.main(Main.java:12)\n',
    "DL4J, illegal": "java.lang.RuntimeException: execIndexReduce failed; Error code: [77]\n"
    + JAVA,
    "Spark's host": "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times, most recent failure: Lost task 3.3 (TID 37) (gpu07 executor 2): com.nvidia.spark.rapids.jni.CpuSplitAndRetryOOM: CPU OutOfMemory: could not split inputs and retry\n"
    + JAVA,
    "Spark's heap": "24/05/01 10:00:00 ERROR Executor: Exception in task 12.0 in stage 3.0 (TID 42)\njava.lang.OutOfMemoryError: GC overhead limit exceeded\n\tat ai.rapids.cudf.HostColumnVector.getBytes(HostColumnVector.java:12)\n",
    "Dr.Jit, pinned": traceback(
        "ImportError: jit_malloc(): out of memory! Could not allocate 512 bytes of host-pinned memory."
    )
    + "jit_malloc_shutdown(): leaked\n - device memory: 512 B in 1 allocation\n",
    "AlphaFold on host": prefixed(
        "I0226 14:43:19.339008 139872316952960 run_docker.py:247] ",
        ON_HOST * 3
        + traceback(
            "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: the function failed to launch on the GPU"
        ),
    ),
    "gpu4pyscf's host": traceback("RuntimeError: Out of CPU memory"),
    "ILGPU, illegal": "Unhandled exception. ILGPU.Runtime.Cuda.CudaException (0x80004005): an illegal memory access was encountered\n"
    + NET,
    "AMReX, another": "amrex::Abort::0::MLMG failed to converge after 200 iterations !!!\nSIGABRT\nFree  GPU global memory (MB): 8\n[The         Arena] space (MB) allocated: 49140\nSee Backtrace.0 file for details\n"
    + MPI_ABORT,
    "DeepStream, resources": "** INFO: <bus_callback:180>: Pipeline running\nCUDA failure: too many resources requested for launch in file yoloPlugins.cpp at line 149\nAborted (core dumped)\n",
    "DeepStream, a tactic": "WARNING: [TRT]: Skipping tactic 3 due to insufficient memory on requested size of 4294967296 detected for tactic 0x0000000000000004.\nTry decreasing the workspace size with IBuilderConfig::setMemoryPoolLimit().\nERROR: [TRT]: UffParser: Unsupported number of graph 0\nApp run failed\n",
    "torchrun, not destroyed": prefixed(
        "[rank0]: ", traceback("ValueError: 3 is not divisible by 2")
    )
    + NOT_DESTROYED
    + child_failed(),
    "icefall prunes": f"2022-02-23 19:35:10,513 INFO [decode.py:400] Caught exception:\n{TRIED}\n\n2022-02-23 19:35:10,513 INFO [decode.py:402] num_arcs before pruning: 103742\n2022-02-23 19:35:10,513 INFO [decode.py:405] This OOM is not an error. You can ignore it. If your model does not converge well, or --max-duration is too large, or the input sound file is difficult to decode, you will meet this exception.\n2022-02-23 19:35:11,513 INFO [decode.py:423] num_arcs after pruning: 45732\n"
    + traceback("FileNotFoundError: [Errno 2] No such file or directory: 'data/lm/G.pt'"),
    "Horovod, another": prefixed("[1,3]<stderr>:", traceback("ValueError: bad shape")) + HOROVOD,
    "a JVM": "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n# Native memory allocation (mmap) failed to map 12288 bytes for committing reserved memory.\n# An error report file with more information is saved as:\n# /home/me/gpu/hs_err_pid4711.log\n",
    "compute-sanitizer": "========= Invalid __global__ read of size 4 bytes\n=========     at kernel(float*)+0x70\n=========     by thread (0,0,0) in block (0,0,0)\n=========     Address 0x7f2b9c000000 is out of bounds\n=========     and is 1 bytes after the nearest allocation at 0x7f2b9b000000 of size 16777216 bytes\n========= ERROR SUMMARY: 1 error\n",
    "Legate's host": "[0 - 7f2b9c000000]   12.345678 {5}{legate}: Mapper legate.core on Node 0 failed to allocate 6400000000 bytes on memory 1e00000000000000 (of kind SYSTEM_MEM: Visible to all processors on a node) for region requirement(s) 0 of Task cupynumeric::Dot (UID 42).\n",
    "PennyLane": traceback(
        "pennylane_lightning.lightning_gpu_ops.LightningException: [/project/pennylane_lightning/core/src/utils/cuda_utils/DataBuffer.hpp][Line:50][Method:DataBuffer]: Error in PennyLane Lightning: invalid argument"
    ),
    "Octane": "CUDA error 700 on device 0: an illegal memory access was encountered\n  -> failed to wait for event\ndevice 0: path tracing kernel failed\n",
    "bitsandbytes": traceback(
        "RuntimeError: \n        CUDA Setup failed despite GPU being available. Please run the following command to get more information:\n\n        python -m bitsandbytes\n"
    ),
    "fabric manager": traceback(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
    ),
    "AutoGluon": "Fitting model: LightGBMXT_BAG_L1 ...\n\tWarning: Not enough memory to train LightGBMXT_BAG_L1... Skipping this model.\nNo base models to train on, skipping auxiliary stack level 2...\n"
    + traceback(
        "RuntimeError: No models were trained successfully during fit(). Inspect the log output to determine why no models were trained."
    ),
    "llama.cpp, host buffer": "ggml_backend_cuda_host_buffer_type_alloc_buffer: failed to allocate 8589.93 MiB of pinned memory: out of memory\nllama_model_load: error loading model: missing tensor 'blk.0.attn_q.weight'\nmain: error: unable to load model\n",
    "a tip at the start": "Tip: if you run out of GPU memory, lower --batch or use --fp16\n"
    + traceback("RuntimeError: weights are for another architecture"),
    "MONAI": "cuda out of memory might be solved by a smaller roi_size\n"
    + traceback("ValueError: Sequential patch size (96, 96, 96) exceeds the image"),
    "a search of sizes": f"batch 64: {TRIED}\nbatch 32: ok, 12.3 GB\n"
    + traceback("PermissionError: [Errno 13] Permission denied: 'best.json'"),
    "load fails": f"model A: {TRIED}, skipped\nmodel B: loaded\n"
    + traceback("RuntimeError: failed to load dataset 'c4'"),
    "none": "step 100 loss 0.1\n" * 5
    + traceback("TypeError: 'NoneType' object is not subscriptable"),
    "none, after a survived one": f"step 99 warning: {TRIED} (gradient step skipped)\n"
    + "step 100 loss 0.1\n" * 3
    + traceback("TypeError: 'NoneType' object is not subscriptable"),
    "worker exits": "worker 3: cuda memory 12.3 GB allocated, 20.1 GB reserved\n"
    + traceback("RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"),
    "worker's exit, host": "worker 3: MemoryError\n"
    + traceback("RuntimeError: GPU worker exited with exit code 1"),
    "engine fails": "CUDA error: device-side assert triggered\n"
    + traceback("RuntimeError: failed to create CUDA engine"),
    "load, on CPU": "alloc_tensor_range: failed to allocate CPU buffer of size 68719476736\nllama_model_load: error loading model: unable to allocate CPU buffer\n"
    + traceback("ValueError: Failed to load model from file: m.gguf"),
    "a git message": "[main 1a2b3c4] Handle CUDA out of memory in the trainer\n 2 files changed\nerror: failed to push some refs to 'github.com:me/gpu.git'\n",
}
