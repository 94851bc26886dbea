"""Ends of training and of what runs it, from reports: Ray, kohya, detectron2, Paddle, ROCm and others."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

from tests.last_words.corpus import abort
from tests.last_words.logs import TORCH, prefixed, traceback, vllm
from tests.last_words.reports import (
    FRAMES,
    NOT_A_FAILURE,
    OOM,
    SKIPPED,
    SUMMARY,
    TRIED,
    child_failed,
    panel,
)

SRUN = "srun: error: ib12gpu-002: task 4: Exited with exit code 1\nsrun: error: ib12gpu-001: tasks 0-1: Exited with exit code 1\n"
CALLED = "CalledProcessError: Command '['/opt/venv/bin/python', './sdxl_train_network.py', '--cache_latents', '--bucket_reso_steps=64']' returned non-zero exit status 1."
ACTOR_DIED = traceback(
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: LLMRayActor\n\tactor_id: e27c37e9\n\tpid: 347862\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors."
)
EVENTS = "[05/01 10:00:10 d2.engine.hooks]: Overall training speed: 12 iterations in 0:00:08 (0.6667 s / it)\n[05/01 10:00:10 d2.engine.hooks]: Total training time: 0:00:10 (0:00:01 on hooks)\n[05/01 10:00:10 d2.utils.events]:  eta: 1:00:00  iter: 14  total_loss: 2.1  time: 0.66  lr: 0.0001  max_mem: 10012M\n"
TIMED = "".join(
    f"\t{name}: 12\n"
    for name in (
        "Command being timed",
        "User time (seconds)",
        "Maximum resident set size (kbytes)",
        "Page size (bytes)",
        "Exit status",
    )
)
FILE_LOCKS = (
    "2024-11-20 14:37:16 DEBUG:filelock:Lock 140341412642880 released on /root/.triton/autotune/Fp16Matmul_2d_kernel.pickle.lock\n"
    * 60
)
LAUNCHED = "Error: failed to run torchrun --nproc_per_node=8 train.py on 127.0.0.1, is localhost: True, exception: Encountered a bad command exit code!\n\nCommand: 'cd /home/me && torchrun train.py'\n\nExit code: 1\n\nStdout: already printed\n\nStderr: already printed\n\n\n\n====== Training on All Nodes =====\n127.0.0.1: failure\n\n====== Stopping All Nodes =====\n127.0.0.1: finish\n"
STACK = "PaddlePaddle Call Stacks: \n" + "".join(
    f"{i}       0x7f5015099aa8p paddle::platform::GpuMaxChunkSize() + 5080\n" for i in range(24)
)

TRUE = {
    "EveryVoice": "OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 2 has a\ntotal capacty of 15.78 GiB of which 27.19 MiB is free. Process 307065 has 15.75\nGiB memory in use. If reserved but\nunallocated memory is large try setting max_split_size_mb to avoid\nfragmentation.  See documentation for Memory Management and\nPYTORCH_CUDA_ALLOC_CONF\n"
    + "Loading EveryVoice modules: 100%|██████████| 4/4 [00:15<00:00,  3.85s/it]\n" * 3
    + SRUN,
    "VIAME": f"ERROR: an <class 'RuntimeError'> error occurred in the train loop: RuntimeError('{TRIED}',)\nINFO: "
    + traceback(f"RuntimeError: {TRIED}")
    + "INFO: Attempting to checkpoint before crashing\nINFO: Saving EXPLICIT snapshot to /tmp/_explicit_epoch_00000000_2021.pt\n",
    "OpenRLHF": "(LLMRayActor pid=347862) CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n(ActorModelRayActor pid=348952) \nEpisode [1/16]:   0%|          | 0/309 [03:58<?, ?it/s]\n"
    + ACTOR_DIED,
    "object detection, TensorFlow 1": "INFO:tensorflow:Error reported to Coordinator: <class 'tensorflow.python.framework.errors_impl.ResourceExhaustedError'>, OOM when allocating tensor with shape[1,1024,51,38]\n\t [[Node: block3/unit_12 = FusedBatchNorm[_device=\"/job:localhost/replica:0/task:0/device:GPU:0\"]]]\n"
    + traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1,1024,51,38]\n\t [[Node: block3/unit_12 = FusedBatchNorm[_device=\"/job:localhost/replica:0/task:0/device:GPU:0\"]]]\n\nCaused by op 'block3/unit_12', defined at:\n"
        + '  File "train.py", line 163, in <module>\n    tf.app.run()\n' * 20
    ),
    "TensorFlow 1.14": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: 2 root error(s) found.\n  (0) Resource exhausted: OOM when allocating tensor with shape[32,960,10,10] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node gradients/AddN_162}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.\n\n  (1) Resource exhausted: OOM when allocating tensor with shape[32,960,10,10] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node gradients/AddN_162}}]]\n0 successful operations.\n0 derived errors ignored."
    ),
    "vLLM behind a supervisor": prefixed("2026-06-09 14:01:54.604 [Info] (Process) ", vllm(TORCH)),
    "vLLM 0.9": "ERROR 05-23 09:31:47 [core.py:396] EngineCore failed to start.\n"
    + prefixed("ERROR 05-23 09:31:47 [core.py:396] ", traceback(TORCH, frames=10))
    + "Process EngineCore_0:\n"
    + traceback(TORCH, frames=10)
    + traceback(
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}"
    ),
    "Paddle 0.11": traceback(
        "paddle.fluid.core.EnforceNotMet: enforce allocating <= available failed, 1829703254 > 1604058880\n at [/paddle/paddle/fluid/platform/gpu_info.cc:118]\n"
        + STACK
    ),
    "Paddle 1.4": "W0429 20:27:11.855363 29126 system_allocator.cc:122] Cannot malloc 7087.16 MB GPU memory. Please shrink FLAGS_fraction_of_gpu_memory_to_use environment variable to a lower value. Current value is 0.92\nW0429 20:27:11.855510 29126 legacy_allocator.cc:161] Cannot allocate 36.000000MB in GPU 0, available 342.625000MB\nW0429 20:27:11.855520 29126 legacy_allocator.cc:164] total 8502771712\n"
    + traceback(
        "paddle.fluid.core.EnforceNotMet: Cannot allocate 36.000000MB in GPU 0, available 342.625000MB at [/paddle/paddle/fluid/memory/allocation/legacy_allocator.cc:170]\n"
        + STACK
    ),
    "PaddleNLP": "----------------------\nError Message Summary:\n----------------------\nResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 172.000000MB memory on GPU 0, 23.486572GB memory has been allocated and available memory is only 167.062500MB.\n\nPlease check whether there is any other process using GPU 0.\n1. If yes, please stop them, or start PaddlePaddle on another GPU.\n2. If no, please decrease the batch size of your model. \n (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:86)\n\nI1026 09:51:11.657310 597454 tcp_store.cc:273] receive shutdown event and so quit from MasterDaemon run loop\nLAUNCH INFO 2023-10-26 09:51:12,809 Exit code 1\n[2023-10-26 09:51:12,809] [    INFO] controller.py:149 - Exit code 1\n",
    "ROCm's log": ":1:rocdevice.cpp            :1897: 9616777836 us: 4277 : [tid:0x7f2accbfe6c0] Failed creating memory\n:1:memory.cpp               :347 : 9616777840 us: 4277 : [tid:0x7f2accbfe6c0] Video memory allocation failed!\n:1:hip_memory.cpp           :303 : 9616777863 us: 4277 : [tid:0x7f2accbfe6c0] Allocation failed : Device memory : required :4294967296 | free :2314338304 | total :17163091968 \nAborted (core dumped)\n",
    "rocThrust": '[ RUN      ] TransformVectorTests/10.TestTransformIfBinarySimple\nunknown file: Failure\nC++ exception with description "std::bad_alloc: hipErrorOutOfMemory: out of memory" thrown in the test body.\n[  FAILED  ] TransformVectorTests/10.TestTransformIfBinarySimple (0 ms)\n[----------] Global test environment tear-down\n[==========] 12 tests from 3 test suites ran. (812 ms total)\n[  PASSED  ] 11 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] TransformVectorTests/10.TestTransformIfBinarySimple\n\n 1 FAILED TEST\n',
    "PIConGPU": "Unhandled exception of type 'St13runtime_error' with message '/src/alpaka/mem/buf/BufUniformCudaHipRt.hpp(360) 'cudaMalloc( &memPtr, static_cast<std::size_t>(widthBytes))' returned error  : 'cudaErrorMemoryAllocation': 'out of memory'!', terminating\n[cupla] Error: </src/pmacc/memory/buffers/HostBufferIntern.hpp>:73 \n[taurusml22:163119:0:163119] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x9)\n*** Error in `/home/me/bin/picongpu': free(): invalid pointer: 0x00000000151c07f0 ***\n",
    "Qwen's, with locks": prefixed("2024-11-20 14:37:16 ", prefixed("[rank3]: ", traceback(OOM)))
    + FILE_LOCKS,
    "kohya": "steps:   0%|          | 1/1600 [00:00<20:09,  1.32it/s, avr_loss=0.087]"
    + traceback(OOM, frames=8)
    + "steps:   0%|          | 1/1600 [00:01<30:09,  1.12it/s, avr_loss=0.087]\n"
    + traceback("subprocess." + CALLED, frames=3),
    "kohya in panels": panel("OutOfMemoryError: " + TRIED)
    + "steps:   0%|          | 1/1600 [00:01<30:09,  1.12it/s, avr_loss=0.087]\n"
    + panel(CALLED),
    "ultralytics on two GPUs": prefixed("[rank1]: ", traceback(OOM))
    + child_failed(ranks=2)
    + traceback(
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-m', 'torch.distributed.run', '--nproc_per_node', '2', '/root/.config/Ultralytics/DDP/_temp.py']' returned non-zero exit status 1."
    ),
    "milabench": prefixed("        | ", traceback(OOM))
    + "    * 1 x torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    + prefixed("        | ", child_failed(ranks=2)),
    "ColossalAI": traceback(OOM) + child_failed() + LAUNCHED,
    "AutoTrain": f"ERROR    | 2024-08-22 02:25:32 | autotrain.trainers.common:wrapper:120 - train has failed due to an exception: {traceback(OOM)}\nERROR    | 2024-08-22 02:25:32 | autotrain.trainers.common:wrapper:121 - {TRIED}\nINFO     | 2024-08-22 02:25:33 | autotrain.parser:run:211 - Job ID: 4711\n",
    "Determined": prefixed("[2024-05-01T10:00:00.1Z] 1a2b3c4d [rank=3] || ", traceback(OOM))
    + "[2024-05-01T10:00:01.1Z] 1a2b3c4d || ERROR: crashed: resources failed with non-zero exit code: container failed with non-zero exit code: 1 (exit code 1)\n",
    "SageMaker": traceback(OOM)
    + "2024-05-01 10:00:00,000 sagemaker-training-toolkit ERROR    Reporting training FAILURE\n2024-05-01 10:00:00,000 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:\nExitCode 1\n"
    + f'ErrorMessage "{OOM}\n"\nCommand "/opt/conda/bin/python3.10 train.py --epochs 1"\n2024-05-01 10:00:00,000 sagemaker-training-toolkit ERROR    Encountered exit_code 1\n',
    "detectron2": "ERROR [05/01 10:00:10 d2.engine.train_loop]: Exception during training:\n"
    + traceback(OOM)
    + EVENTS
    + traceback(OOM),
    "detectron2, once": "ERROR [05/01 10:00:10 d2.engine.train_loop]: Exception during training:\n"
    + traceback(OOM)
    + EVENTS,
    "fairseq": f"2021-08-02 18:54:21 | WARNING | fairseq.trainer | OOM: Ran out of memory with exception: {TRIED}\n2021-08-02 18:54:21 | WARNING | fairseq.trainer | "
    + SUMMARY.format(1)
    + "2021-08-02 18:54:21 | ERROR | fairseq.trainer | OOM during optimization, irrecoverable\n"
    + traceback(f"RuntimeError: {TRIED}"),
    "a script's trace": traceback(OOM)
    + "+ status=1\n+ echo 'failed with 1'\nfailed with 1\n+ exit 1\n\nreal\t0m12.345s\nuser\t0m10.000s\nsys\t0m2.000s\n",
    "time -v": traceback(OOM) + "Command exited with non-zero status 1\n" + TIMED * 5,
    "make": traceback(OOM) + "make: *** [Makefile:3: train] Error 1\n",
    "a job's epilogue": traceback(OOM)
    + "------------------------------------------------------------\nJob 4711 ended at Wed May  1 10:00:00 UTC 2024\nNode: gpu07\nElapsed: 00:12:03\nMax host memory: 12.3 GB\nGPU utilization: 87 %\n------------------------------------------------------------\n",
    "a notebook runner": " 33%|███▎      | 4/12 [00:08<00:16,  2.10s/cell]"
    + traceback(
        'papermill.exceptions.PapermillExecutionError: \n---------------------------------------------------------------------------\nException encountered at "In [4]":\n---------------------------------------------------------------------------\nOutOfMemoryError                          Traceback (most recent call last)\nCell In[4], line 2\n----> 2 model(x).sum().backward()\n\n'
        + OOM.removeprefix("torch.cuda.")
        + "\n"
    ),
    "a bare logger": f"2024-05-01 10:00:00,000 - root - CRITICAL - Uncaught exception\n{traceback(OOM)}2024-05-01 10:00:00,100 - root - INFO - Closing TensorBoard writer\n2024-05-01 10:00:00,200 - root - INFO - Bye\n",
    "HIP, aborted": abort(
        "c10::Error",
        "HIP out of memory. Tried to allocate 5.48 GiB. GPU 0 has a total capacity of 15.98 GiB of which 4.96 GiB is free.\nException raised from malloc at ../c10/hip/HIPCachingAllocator.cpp:936 (most recent call first):\n"
        + FRAMES,
    )
    + SRUN,
    "cuMemCreate": traceback("RuntimeError: CUDA driver error: out of memory")
    + "Exception ignored in atexit callback: <function _exit_function at 0x7f2b>\n"
    + traceback("KeyboardInterrupt"),
    "MLX's cousin on CUDA": traceback(
        "RuntimeError: cudaMallocAsync(&ptr, size, stream) failed: out of memory"
    ),
}
OTHER = {
    "kraken, Slurm": "stage 1/50\n"
    + traceback("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ")
    + "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\nsrun: error: gpu001: task 0: Out Of Memory\n",
    "verl's actor": "(WorkerDict pid=3566775) before init cache memory allocated: 5.96926464GB, reserved: 6.079643648GB\n"
    + ACTOR_DIED,
    "an assumption": "caught a RuntimeError, assuming OOM\n" * 5
    + traceback(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    ),
    "cryoSBI": " 65%|██████▌   | 98/150 [18:47:34<9:58:18, 690.35s/epoch, loss=-1.01]\n"
    + traceback(
        "RuntimeError: CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at some other API call"
    ),
    "SLRT": abort(
        "c10::CUDAError",
        "CUDA error: an illegal memory access was encountered\nException raised from insert_events at ../c10/cuda/CUDACachingAllocator.cpp:1423 (most recent call first):\n"
        + FRAMES,
    ),
    "AutoTrain on HIP": traceback(
        "RuntimeError: HIP error: no kernel image is available for execution on the device"
    )
    + "ERROR    | 2024-08-22 02:25:32 | autotrain.trainers.common:wrapper:121 - HIP error: no kernel image is available for execution on the device\n"
    + abort(
        "c10::Error",
        "invalid device pointer: 0x5400000\nException raised from free at ../c10/hip/HIPCachingAllocator.cpp:2994 (most recent call first):\n"
        + FRAMES,
    ),
    "rocHPL": "[MI250-1:103933] Read -1, expected 549888, errno = 14\n" * 10 + SRUN,
    "object detection, after warnings": NOT_A_FAILURE * 4 + "Killed\n",
    "vLLM's port": prefixed(
        "2026-06-09 14:01:54.604 [Info] (Process) ",
        vllm("OSError: [Errno 98] Address already in use"),
    ),
    "Paddle, cuDNN": traceback(
        "OSError: (External) CUDNN error(8), CUDNN_STATUS_EXECUTION_FAILED. \n  [Hint: 'CUDNN_STATUS_EXECUTION_FAILED'.  The GPU program failed to execute.  ] (at ../paddle/phi/kernels/gpudnn/conv_kernel.cu:340)"
    ),
    "Paddle warns": "W0429 20:27:11.855363 29126 system_allocator.cc:122] Cannot malloc 7087.16 MB GPU memory. Please shrink FLAGS_fraction_of_gpu_memory_to_use environment variable to a lower value.\n"
    + "epoch 1 loss 0.3\n" * 3
    + traceback("KeyError: 'label'"),
    "ultralytics on two GPUs": prefixed(
        "[rank1]: ", traceback("IndexError: list index out of range")
    )
    + child_failed(ranks=2)
    + traceback(
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-m', 'torch.distributed.run']' returned non-zero exit status 1."
    ),
    "kohya": "steps:   0%|          | 1/1600 [00:01<30:09,  1.12it/s, avr_loss=nan]\n"
    + panel("RuntimeError: NaN detected in latents: /data/img/1.png")
    + panel(CALLED),
    "EveryVoice": panel(
        "InvalidConfiguration: batch_size must be a positive integer; try a smaller one if you run out of GPU memory"
    )
    + SRUN,
    "VIAME": "ERROR: an <class 'ValueError'> error occurred in the train loop: ValueError('bad box',)\nINFO: "
    + traceback("ValueError: bad box"),
    "detectron2": "ERROR [05/01 10:00:10 d2.engine.train_loop]: Exception during training:\n"
    + traceback("FloatingPointError: Loss became infinite or NaN at iteration=14!")
    + EVENTS,
    "fairseq": SKIPPED
    + "2021-08-02 18:54:21 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 0.0001\n"
    + traceback(
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size."
    ),
    "time -v": "Command terminated by signal 9\n" + TIMED * 5,
    "ColossalAI's host": child_failed("-9", "Signal 9 (SIGKILL) received by PID 33054") + LAUNCHED,
    **{
        line: traceback(line)
        for line in """\
torch.distributed.DistBackendError: NCCL error: ncclInvalidUsage, Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000
RuntimeError: Failed to import transformers.models.llama.modeling_llama because of the following error: libcudart.so.12: cannot open shared object file
RuntimeError: One of the subprocesses has abruptly died during map operation.
""".splitlines()
    },
    "a node's failure": "slurmstepd: error: *** STEP 4711.0 ON gpu07 CANCELLED AT 2024-05-01T10:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
    "evaluation skipped": f"evaluation skipped: {TRIED}\n"
    + "epoch 2 loss 0.3\n" * 3
    + traceback("AssertionError: no best model was saved"),
    "a batch reduced": f"{OOM}\nbatch size reduced to 8\nstep 12 loss 0.4\n"
    + traceback("RuntimeError: failed to create the checkpoint folder"),
    "a load that fails later": f"worker 1: {TRIED}; using cpu for this shard\nshard 2 done\n"
    + traceback("RuntimeError: worker 3 exited with exit code 2"),
}

LAST = {
    "OpenPose": "F0301 10:00:00.000000  4711 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory\n*** Check failure stack trace: ***\n"
    + "    @     0x7f2b  google::LogMessage::Fail()\n" * 20
    + "Aborted (core dumped)\n",
    "DeepFaceLab": "Error: OOM when allocating tensor with shape[8,512,64,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node conv2d_5}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current allocation info.\n\n"
    + traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: 2 root error(s) found.\n  (0) RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[8,512,64,64] and type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node conv2d_5}}]]"
    )
    + "Done.\n",
    "Real-ESRGAN": "vkAllocateMemory failed -2\n"
    + "vkQueueSubmit failed -4\n" * 3
    + "encode image out.png failed\n",
    "OpenFold": traceback("RuntimeError: CUDA error: out of memory")
    + "srun: error: gpu07: task 2: Exited with exit code 1\n"
    + prefixed(
        " 0: ",
        traceback(
            "torch.distributed.DistBackendError: [0] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store, but store->get('0') got error: Connection reset by peer"
        ),
    ),
    "Composer": traceback(OOM)
    + "----------End global rank 1 STDOUT----------\nERROR:composer.cli.launcher:Global rank 0 (PID 4711) exited with code 1\n",
    "Megatron": prefixed("[rank7]: ", traceback(f"torch.OutOfMemoryError: {TRIED}"))
    + "[rank7]:[W1024 10:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.\n"
    + child_failed(),
    "DiffDock": f"Failed on ['complex_12'] {TRIED}\n" + traceback(OOM),
    "spaCy": traceback(
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 536,870,912 bytes (allocated so far: 7,516,192,768 bytes)."
    )
    + "\n⚠ Aborting and saving the final best model. Encountered exception:\nOutOfMemoryError('Out of memory allocating 536,870,912 bytes')\n",
    "GENESIS": "error at cudaMalloc : out of memory (gpu_sp_energy.cu:1201)\n"
    + "srun: error: gpu07: task 0: Exited with exit code 1\n",
    "ABACUS": " Unexpected Device Error /src/source/module_base/cuda/memory_op.cu:120: cudaErrorMemoryAllocation, out of memory\n",
    "PyG": traceback("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB")
    + "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f2b>\n"
    + traceback("AssertionError: can only test a child process"),
    "InvokeAI": "[2024-05-01 10:00:00,000]::[InvokeAI]::ERROR --> Error while invoking session 4711, invocation a1 (denoise_latents): CUDA out of memory. Tried to allocate 2.00 GiB.\n[2024-05-01 10:00:00,000]::[InvokeAI]::ERROR --> "
    + traceback(OOM),
    "Whisper": '  File "/opt/whisper/transcribe.py", line 12\nRuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\nSkipping a.mp3 due to RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n',
    "a user's words": "FATAL: GPU memory allocation of 12884901888 bytes failed on device 0\n",
    "a user's other words": "[ERROR] not enough free GPU memory for the grid (need 31.2 GB, have 23.4 GB)\n",
    "Fortran's": "cudaMalloc stat =            2\nERROR STOP\n",
    "OpenACC by GCC": "libgomp: cuMemAlloc error: out of memory\n",
    "JAX behind pjit": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:GPU compile permanent error. Ran out of memory in memory space hbm. Used 31.2G of 23.6G hbm. Exceeded hbm capacity by 7.6G."
    ),
    "RFdiffusion": "Error executing job with overrides: ['inference.num_designs=10']\n"
    + traceback(
        "RuntimeError: The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\n    return torch.einsum('bijk', x)\n           ~~~~~~~~~~~~ <--- HERE\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )
    + "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
    "JAX, cuDNN": "2024-05-01 12:00:00.000000: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\n2024-05-01 12:00:00.000001: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: 1507328 bytes free, 42505273344 bytes total.\n"
    + traceback(
        "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above for more details."
    ),
    "PJRT": traceback(
        "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 4.00G. That was not possible. There are 3.20G free.; (0x0x0_HBM0)"
    ),
    "TensorFlow, plan": traceback(
        "tensorflow.python.framework.errors_impl.InternalError: Failed to create cuFFT batched plan with scratch allocator [Op:RFFT]"
    ),
    "vLLM, tokens": traceback(
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (14512). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    ),
    "TGI": 'Error: ShardCannotStart\nError: Warmup(Generation("Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"))\n',
    "bitsandbytes": traceback(
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model. If you want to dispatch the model on the CPU or the disk while keeping these modules in 32-bit, you need to set `llm_int8_enable_fp32_cpu_offload=True` and pass a custom `device_map` to `from_pretrained`."
    ),
    "Jittor": traceback(
        "RuntimeError: [f 0101 10:00:00.000000 executor.cc:682]\nExecute fused operator(1/2) failed.\nReason: [f 0101 cuda_device_allocator.cc:33] Unable to alloc cuda device memory for size 1073741824"
    ),
    "nvJPEG": traceback(
        "RuntimeError: Critical error in pipeline:\nError in GPU operator `nvidia.dali.fn.decoders.image`:\nnvjpeg error (5): NVJPEG_STATUS_ALLOCATOR_FAILURE"
    ),
}
LAST_OTHER = {
    "JAX, cuDNN with memory": "2024-05-01 12:00:00.000000: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\n2024-05-01 12:00:00.000001: E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: 38507273344 bytes free, 42505273344 bytes total.\n"
    + traceback(
        "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above for more details."
    ),
    "Boltz": "| WARNING: ran out of memory, skipping batch\nNumber of failed examples: 1\n"
    + traceback("FileNotFoundError: [Errno 2] No such file or directory: 'out/predictions'"),
    "Composer": "INFO: CUDA out of memory detected. Gradient Accumulation increased from 1 -> 2, and the batch will be retrained.\n"
    + traceback("RuntimeError: The dataloader is empty"),
    "spaCy": traceback(
        "ValueError: [E1041] Expected a string, Doc, or bytes as input, but got: <class 'NoneType'>"
    ),
    "TorchScript": traceback(
        "RuntimeError: The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\n    return x.view(3)\n           ~~~~~~ <--- HERE\nRuntimeError: shape '[3]' is invalid for input of size 4"
    ),
    "JAX's autotuner": "2024-05-01 10:00:00.1: W external/xla/xla/service/gpu/gemm_fusion_autotuner.cc:100] ran out of memory when profiling; skipping 3 configurations\n"
    + traceback("ValueError: Incompatible shapes for dot: got (3, 4) and (5, 6)."),
    "a thread": "Exception in thread Thread-3:\n"
    + traceback("queue.Full")
    + traceback("RuntimeError: prefetcher died"),
    "a disk cache": traceback(
        "RuntimeError: failed to allocate 12 GB in the cache on /scratch: no space left on device"
    ),
    "a limit of a language": "Error: memory exhausted (limit reached?)\nExecution halted\n",
    "MPI": "--------------------------------------------------------------------------\nA process failed to create a queue pair. This usually means either\nthe device has run out of queue pairs (too many connections) or\nthere are insufficient resources available to allocate a queue pair\n(out of memory). The level of insufficiency can be controlled by\n--------------------------------------------------------------------------\n",
    "UCX": "[1714550400.1] [gpu07:4711:0] mm_posix.c:233 UCX ERROR shared memory error: failed to allocate 8447 bytes: Not enough memory to write total of 4292720 bytes. Please check that /dev/shm or the directory you specified has more available memory.\n",
    "verbs": "[gpu07:4711] Failed to register memory for cuda buffer: Cannot allocate memory\n",
}
