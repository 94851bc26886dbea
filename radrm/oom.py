"""Judge whether an attempt ran out of GPU memory. The daemon asks after its exit.

Theory of operation. Two things must agree: a failed exit, and a line that says so where the program
ended (`last_words.py`). Such a line has a *shape*, whatever program printed it:

- it names an interface, library or part of a GPU (`_FAMILIES`),
- it names a failed request for memory (`_FAILURES`),
- it states that: it is no advice, help, count or source code (`_NO_STATEMENT`),
- and it is not about the host's memory (`last_words.HOST_MEMORY`).

Some programs print a text of their own, without one of these words: `_TEXTS` has those.

Sources: CUDA Runtime API, `cudaError_t` (2: `cudaErrorMemoryAllocation`); the status codes of
cuBLAS, cuDNN, cuFFT, cuSPARSE, cuSOLVER, HIP, OpenCL, Vulkan and SYCL; and the texts of the
programs in `tests/last_words`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from radrm.core.records import Exit, OutOfMemory
from radrm.last_words import HEADER, HOST_MEMORY, ends_otherwise, lines_of, search
from radrm.structs import replace

# An abort, fault, trap or illegal instruction can follow an uncaught error. Other signals come
# from outside; the host's own OOM killer uses SIGKILL.
_CRASH_SIGNALS = frozenset({4, 5, 6, 11})


def _table(*rows: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in rows)


# The specific before the general: the first that is found names the evidence.
_FAMILIES = _table(
    ("cuBLAS", r"(?i:cublas)"),
    ("cuDNN", r"(?i:cudnn)"),
    ("cuFFT", r"(?i:cufft)"),
    ("cuSPARSE", r"(?i:cusparse)"),
    ("cuSOLVER", r"(?i:cusolver)"),
    ("NCCL", r"\bNCCL\b|\bRCCL\b|\bnccl[A-Z]|Cuda failure (?:\d{1,4} )?'|to CUDA calloc"),
    ("TensorRT", r"\[TRT\]|TensorRT|Error Code \d{1,3}: (?:OutOfMemory|Cuda Runtime)"),
    ("ONNX Runtime", r"(?i:onnxruntime)"),
    ("RMM", r"\bRMM\b|rmm::"),
    ("OptiX", r"(?i:\boptix)"),
    ("NVENC", r"(?i:_?nvenc\b|\bcuvid)"),
    ("nvJPEG", r"(?i:\bnvjpeg)"),
    ("WebGPU", r"\bwgpu\b|Device::create_"),
    (
        "ROCm",
        r"\bHIP\b|\bhip[A-Z]|(?i:\broc(?:m|blas|fft)|\bmiopen|\bhip(?:blas|fft|error)|\bhsa_)",
    ),
    ("OpenCL", r"\bCL_[A-Z]|\bcl[A-Z][a-z]{2,20}[A-Z(]|(?i:opencl|pyopencl)"),
    ("Vulkan", r"\bVK_[A-Z]|\bvk(?:::|[A-Z])|(?i:vulkan)"),
    ("SYCL", r"\b(?:UR|PI|ZE)_(?:RESULT_)?ERROR_|(?i:\bsycl|\bxpu\b)"),
    (
        "CUDA",
        r"(?i:(?<!/)cuda(?![\w-]{0,30}/)|\bcupy|\bpycuda)|\bCU[A-Z]{2,12}_(?:STATUS|ERROR)_"
        r"|\bcu(?:Mem|Ctx|Module|Launch|Array|Stream)[A-Z]\w|\bCUresult\b|\.cuh?\b",
    ),
    ("PyTorch", r"\btorch\.OutOfMemoryError"),
    (
        "XLA",
        r"RESOURCE_EXHAUSTED|Resource exhausted|\bResourceExhaustedError|XlaRuntimeError"
        r"|JaxRuntimeError|\[Op:",
    ),
    (
        "GPU",
        r"(?i:(?<![/\w.-])gpu(?!\d\d|[\w-]{0,30}/|-\w)|\bvram\b|\bvideo memory\b|\bon device\b"
        r"|\bdevice[ -](?:heap )?(?:memory|vector|buffer|array)"
        r"|\bdevice (?:ordinal )?\[?\d|\[device\]"
        # An exception of a module for GPUs.
        r"|^[\w.]{0,100}gpu\w{0,20}\.\w{1,60}(?:error|exception): "
        r"|\baccelerator\b|\bhbm\b|\bnpu\b|\bmps backend\b|arrayfire|\bhami\b)",
    ),
)
"""Interfaces and libraries of GPUs, and the words for a GPU and its memory. Folders and hosts have
such names, too."""

_SIZE = r"(?i:memory|bytes?|buffers?|tensors?|arrays?|workspace|pool|cache|\d ?[KMGT]i?B\b)"
_ENDS_HERE = r"(?:$|[\])\[:;,'\".]| at\b| in\b| -| \()"
_WORDS = _table(
    (
        "out of memory",
        r"(?i:\bout[ _]of[ _](?:[\w-]{1,20} ){0,4}memory\b)|(?<!_)\bOutOf\w{0,9}Memory",
    ),
    ("out of memory", r"(?i:\b(?:gpu|cuda|device) (?:\d{1,3} )?OOM\b)|\bOOM when allocating"),
    (
        "out of memory",
        r"(?i:(?:\b(?:not?|n't)(?: \w{1,10})? enough|\binsufficient)"
        r" (?:[\w-]{1,20}[ -]){0,3}(?:memory|vram)\b)",
    ),
    (
        "allocation failed",
        r"(?i:\bfail(?:ed|ure|s)? (?:to|in) (?:cuda )?\w{0,2}alloc\w{0,5}\b:?[^:;]{0,80})" + _SIZE,
    ),
    (
        "allocation failed",
        r"(?i:\b(?:could not|couldn't|cannot|can't|unable to) alloc(?:ate)?\b:?"
        rf"[^:;]{{0,80}}){_SIZE}",
    ),
    ("allocation failed", r"(?i:\bmemory\b.{0,60}\bcould not be allocated)"),
    ("allocation failed", r"(?i:memory\w{0,2} (?:object )?allocation (?:failed|failure|error))"),
    ("allocation failed", r"(?i:\bmemory allocation of (?:size )?\d{1,20}.{0,9} failed)"),
    ("allocation failed", r"(?i:\b(?:cuda|gpu|device) allocation (?:failed|failure))"),
    ("out of memory", r"(?i:\bmemory (?:is |was )?(?:not enough|exhausted|insufficient)\b)"),
    (
        "allocation failed",
        r"(?i:\bmemory not available to alloc|\ballocation failed ?: device memory"
        r"|\berror allocating device buffer\b)",
    ),
    (
        "allocation failed",
        r"(?i:\balloc fail\b)|\bfailed to \w{0,9}[mM]alloc\w{0,9}\b.{0,40}\bbytes",
    ),
)
"""Failed requests for memory, in words."""
_NAMES = _table(
    (
        "out of memory",
        r"\bcudaErrorMemoryAllocation\b|\bhipError(?:OutOfMemory|MemoryAllocation)\b",
    ),
    ("out of memory", r"(?<![a-z])[A-Z]{1,9}_[A-Z_]{0,40}OUT_OF_(?:DEVICE_)?MEMORY(?![_\w])"),
    ("allocation failed", r"ALLOC(?:ATION|ATOR)?_FAIL(?:ED|URE)(?![_\w])|\wAllocFailed\b"),
    ("allocation failed", r"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES|rocblas_status_memory_error"),
)
"""Names of errors. A line may mention one although none happened."""
_NUMBERS = _table(
    (
        "out of memory",
        r"(?i:\bcuda (?:runtime |driver |api )?(?:\w{1,12} failed with )?(?:error|failure|status)"
        r"(?: code)?[ :=#(]{1,3})2" + _ENDS_HERE,
    ),
    (
        "out of memory",
        r"\bcu(?:da)?(?:Mem)?(?:Alloc|Malloc)\w{0,12}\b.{0,120}"
        r"\b(?i:returned|error|code|stat(?:us)?|result)(?: code)?[ :=#(\[]{1,20}(?:code )?2"
        + _ENDS_HERE,
    ),
    ("out of memory", r"\bvkAllocateMemory failed -2\b"),
    ("out of memory", r"cudaSuccess\W{0,4} \(2 vs\. 0\)|\bCUresult\b.{0,40}\bresult[ :=]{1,3}2\b"),
)
"""CUDA's error 2, and Vulkan's -2, without their words."""
_FAILURES = (*_WORDS, *_NAMES, *_NUMBERS)

_TEXTS = _table(
    ("Accelerate: no batch size", r"RuntimeError: No executable batch size found, reached zero"),
    ("OpenCL", r"\bMemory Object Allocation Failure\b"),
    (
        "CUDA Fortran",
        r"ALLOCATE: \d{1,20} bytes requested; status = 2\b"
        r"|\bMem(?:cpy|set) \(.{0,100}\) FAILED: 2\(",
    ),
    (
        "Thrust",
        r"thrust::(?:system::)?(?:detail::)?bad_alloc"
        r"|temporary_buffer::allocate: get_temporary_buffer",
    ),
    ("Paddle: GPU memory", r"enforce allocating <= available failed"),
    ("CUDA out of memory", r"Check failed: \[?\w{1,20} == cudaSuccess\]? out of memory"),
    ("Dst tensor is not initialized", r"\bDst tensor is not initialized"),
    # Before PyTorch reports that memory ran out, it asks NVML which processes have it. On a MIG
    # instance NVML refuses that, and an assertion fails.
    (
        "NVML assertion",
        r"NVML_SUCCESS == .{1,80} INTERNAL ASSERT FAILED at .{1,200}CUDACachingAllocator",
    ),
    (
        "vLLM: free memory",
        r"Free memory on device .{1,60} on startup is less than desired GPU memory utilization",
    ),
    (
        "vLLM: cache blocks",
        r"No available memory for the cache blocks|larger than the available KV cache memory"
        r"|larger than the maximum number of tokens that can be stored in KV cache",
    ),
    ("cuDNN: free memory", r"cuda_dnn\.cc:\d{1,5}\] Memory usage: \d{1,8} bytes free\b"),
    ("cuFFT", r"Failed to create cuFFT batched plan with scratch allocator"),
    ("TGI: prefill tokens", r"Not enough memory to handle \d{1,9} prefill tokens"),
    ("Transformers: GPU memory", r"Make sure you have enough GPU RAM to fit the quantized model"),
    ("MindSpore", r"\bDevice ?\(id: ?\d{1,3}\) memory isn't enough"),
    ("Amber", r"^Error: out of memory launching kernel k[A-Z]"),
    ("SGLang: memory pool", r"Not enough memory\. Please try to increase --mem-fraction-static"),
    ("ONNX Runtime: arena", r"Failed to allocate memory for requested buffer of size \d"),
)
"""What single programs print, by their own names."""
_OPTIONS = {
    "vLLM: free memory": "--gpu-memory-utilization",
    "vLLM: cache blocks": "--gpu-memory-utilization",
    "SGLang: memory pool": "--mem-fraction-static",
}
"""Of programs that take a fraction of the GPU's total memory: the option that sets it."""

_WORTH = re.compile(
    r"(?i:memor|alloc|\boom\b|exhausted|vram|cuda|CUresult|No executable batch|Dst tensor"
    r"|NVML_SUCC|FAILED: 2|GPU RAM)"
)
"""A line without any of these is none of the above; most lines are."""
_NO_STATEMENT = re.compile(
    # Help, comments, commands shown by `set -x`, errors of a program's source.
    r"^\s{0,200}(?:-{1,2}\w|#|//|\+{1,4} |usage: |srun: |slurmstepd: )"
    r"|^[\w.]{0,100}\b(?:Import|ModuleNotFound|Attribute|Name|Key|Type|Index|Syntax|Indentation"
    r"|FileNotFound|Permission|NotImplemented|Timeout|Connection\w{0,12}|Unicode\w{0,9})Error: "
    r"|\b(?:except|raises?|catch)[ (]|\bDID NOT RAISE\b"
    # What pytest shows of an assertion.
    r"|^E {3,40}(?:Regex|Input|Expected regex|Actual message|Assertion\w{1,9}|assert|[-+?]|where)\b"
    # The driver limits the encoder's sessions.
    r"|OpenEncodeSession"
)
_SUPPOSED = re.compile(
    r"(?i:\b(?:if|whenever|in case|avoid(?:s|ing)?|prevent(?:s|ing|ed)?|may|might|would|unless"
    r"|against|risk of|chance of|instead of|simulat\w{1,5}|test(?:s|ing|ed)?"
    r"|expect\w{0,4}|never|without|no|about|handle[sd]?|recover\w{0,4} from|survived?)"
    r"\s(?:[\w'\"(-]{1,20}[ /]){0,6}['\"]?)$"
)
"""What stands before words that suppose a failure, in the same sentence."""
_SUPPOSED_AFTER = re.compile(
    r"\s?(?:\?|->|=>)|(?i:(?:Error)?[ _-](?:errors|issues|problems|exceptions|situations"
    r"|handl\w{1,4}|retr\w{1,4}|counts?|counter|polic\w{1,3}|killer|protection|guard|recovery|detection"
    r"|tests?|checks?|does|is handled|was handled|can|may|will|should)\b)"
    r"|(?i:(?:Error)?['\"]?\s?[:=] ?['\"]?(?:0|no|false|none|off|on|disabled|enabled|true|ok|skip"
    r"|retry|ignore)\b)|(?i:\s?\((?:lower|reduce|decrease|increase|try|use|see|set)\b)"
    # What the program does about it. "Reduce the batch size" is advice.
    r"|(?i:.{0,100}[,;:(>-]\s{0,3}(?:so )?(?:skip(?:ping|ped)?|retry(?:ing)?|retried"
    r"|continu(?:ing|ed)|ignor(?:ing|ed)|reduc(?:ing|ed)|halv(?:ing|ed)|lower(?:ing|ed)|handled"
    r"|recovered|pruned|caught|using|switching|falling|moving|trying|clearing)\b)"
)
_SKIPPED = re.compile(r"(?i:\bskipp(?:ed|ing)\b)")
_SENTENCE = re.compile(r"[.;:!?>]\s")
_ALONE = re.compile(r"\s{0,20}(?:[\w.]{0,100}\.|[\w.]{1,100}\([^)]{0,100}\):? ?)?\w{0,40}")
"""A name that stands alone, or after its module or the function that returned it."""
_ERROR_WORD = re.compile(
    r"(?i:error|fail|could not|results? in|exception|fatal|abort|what\(\)|out of memory|\bstatus\b)"
)

_BAD_INDEX = re.compile(
    r"device-side assert|Assertion `[^`]{0,200}` failed|index out of (?:range|bounds)|IndexError:"
    r"|indexSelect(?:Large|Small)Index"
)
_ON_THE_CPU = re.compile(
    r"CUDAExecutionProvider' is not in available|Failed to create CUDAExecutionProvider"
)
# A weak signature has a more common cause, which other lines show: an index outside its table, or
# a session that uses the host's memory.
_WEAK = {"cuBLAS allocation failed": _BAD_INDEX, "ONNX Runtime: arena": _ON_THE_CPU}

_REQUEST = re.compile(
    r"(?:allocat(?:e|ing):? (?:memory |a memory region of )?|allocation of (?:size )?"
    r"|[cm]alloc |calloc async |request(?:ed)? (?:for |size was )?|size(?: of)?[ :]\s?"
    r"|GPU memory \(|Requested memory: |requestedSpace:\s{1,20})"
    r"([\d,]{1,24}(?:\.\d{1,12})?) ?(bytes|[KMGT]i?B|[BG])\b|buffer of size (\d{1,24})",
    re.IGNORECASE,
)
_MIB_PER = {"b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}
_MAX_REQUEST_MIB = 2**30
_ECHOED = 10
"""Lines that a script may print after the traceback of its program."""
_MOST_FRAMES = 200
_SAME_FAILURE = 4
"""Lines that one failure may take, as a library and its callers report it."""

# Reports of an error in several lines: the call, and the reason alone or before it.
_BARE = re.compile(
    r"(?i:(?:\b(?:failed|with|error|code|status|reason|message|text|string|description|what)\b"
    r"|[\W\d_]){0,40}(?:out of|not enough|insufficient) memory(?: left| available)?\W{0,20})$"
)
_REPORT = re.compile(
    r"(?i:\b(?:cuda|hip)\w{0,20}\b.{0,80}\b(?:error|fail)|\bcu[A-Z]\w{1,20} failed|\.cuh?\b"
    r"|\b(?:cuda|hip) call\b|\bDevice::create_\w)"
)
_REASON = re.compile(r"(?i:\b(?:error: |arena )out of memory\W{0,20}$)")
_ITS_CALL = re.compile(r"\s{1,20}(?:cuda|hip|cu)[A-Z]\w{2,40}\(|Memory type: GPU\b")
_REPORT_LINES = 5
"""The lines of such a report."""


def classify(exit: Exit, tail: str) -> OutOfMemory | None:
    """Return the evidence that GPU memory ran out. None: success, or no such evidence.

    Only the last `TAIL_BYTES` characters of `tail` count. This function never raises, and
    its time is linear in these characters: the output may come from any program.
    """
    if exit.ok or not ended_by_itself(exit):
        return None
    lines = _with_reports_joined(lines_of(tail))
    found = search(lines, _signature)
    if found is None:
        return None
    likelier = _WEAK.get(found.signature)
    if likelier is not None and any(map(likelier.search, lines)):
        return None
    return found if found.requested_mib is not None else _with_request(found, lines)


def _with_reports_joined(lines: list[str]) -> list[str]:
    """Return the lines, with the call in the line that has the reason why it failed."""
    joined = list(lines)
    for at, line in enumerate(lines):
        if _BARE.match(line):
            near = reversed(lines[max(0, at - _REPORT_LINES) : at])
            report = next(filter(_REPORT.search, near), "")
            joined[at] = f"{report[-200:]} {line.strip()}"
        elif _REASON.search(line):
            near = iter(lines[at + 1 : at + 1 + _REPORT_LINES])
            call = next(filter(_ITS_CALL.match, near), "")
            joined[at] = f"{line} {call.strip()[:200]}".rstrip()
    return joined


def _with_request(found: OutOfMemory, lines: list[str]) -> OutOfMemory:
    """Return the evidence with the size that the lines right before it tell of the same failure."""
    at = next((i for i in reversed(range(len(lines))) if _signature(lines[i]) == found), 0)
    for line in reversed(lines[max(0, at - _SAME_FAILURE) : at]):
        earlier = _signature(line)
        if earlier is None:
            break
        if earlier.requested_mib is not None:
            return replace(found, requested_mib=earlier.requested_mib)
    return found


def judge(exit: Exit, tails: Sequence[str]) -> OutOfMemory | None:
    """Return the evidence in an attempt's logs, standard error first."""
    for tail in tails:
        found = classify(exit, tail)
        if found is not None:
            return found
        if ends_otherwise(lines_of(tail)):
            return None
    return None


def seems_lost(tail: str) -> bool:
    """Return whether a program's output ends with out-of-memory, though its exit code is 0.

    It may have caught it and done its work. So only a line or two may follow, as of a script's
    `echo`; more after a traceback.
    """
    if classify(Exit(code=1), tail) is None:
        return False
    lines = lines_of(tail)
    at = next(i for i in reversed(range(len(lines))) if _signature(lines[i]))
    uncaught = any(HEADER in line for line in lines[max(0, at - _MOST_FRAMES) : at])
    return len(lines) - 1 - at <= (_ECHOED if uncaught else 1)


def classify_shared(exit: Exit, tail: str) -> OutOfMemory | None:
    """Return the evidence in an output to which other jobs wrote, too: its last line alone, which
    must be the job's own."""
    lines = lines_of(tail)
    return classify(exit, lines[-1]) if lines else None


def ended_by_itself(exit: Exit) -> bool:
    """Return whether its last words can explain the exit: no signal, or a crash.

    A shell reports signal n as 128 + n.
    """
    code = exit.shell_code
    if code is None:
        return False
    return code - 128 in _CRASH_SIGNALS or not 128 < code <= 128 + 64


def _signature(line: str) -> OutOfMemory | None:
    if not _WORTH.search(line) or HOST_MEMORY.search(line) or _NO_STATEMENT.search(line):
        return None
    for name, pattern in _TEXTS:
        if pattern.search(line):
            return OutOfMemory(name, _requested_mib(line), fraction=_OPTIONS.get(name))
    family = next((name for name, pattern in _FAMILIES if pattern.search(line)), None)
    if family is None:
        return None
    for failure in _FAILURES:
        name, pattern = failure
        found = pattern.search(line)
        if found is not None and _states(line, found, by_name=failure in _NAMES):
            return OutOfMemory(f"{family} {name}", _requested_mib(line))
    return None


def _states(line: str, found: re.Match[str], by_name: bool) -> bool:
    """Return whether a line says that it happened. `by_name`: it has the name of the error only."""
    before, after = line[max(0, found.start() - 200) : found.start()], line[found.end() :][:200]
    if _SUPPOSED_AFTER.match(after):
        return False
    sentence = _SENTENCE.split(before)[-1]
    if _SUPPOSED.search(sentence) or _SKIPPED.search(before):
        return False
    alone = _ALONE.fullmatch(before) and not after.strip(" '\")]}.,;:")
    return not by_name or bool(alone) or bool(_ERROR_WORD.search(before + after))


def _requested_mib(line: str) -> int | None:
    """Return the size of the request that failed, rounded up. None: the line has no size."""
    found = _REQUEST.search(line)
    if found is None:
        return None
    try:
        amount = float((found[1] or found[3]).replace(",", ""))
    except ValueError:
        return None
    mib = math.ceil(amount * _MIB_PER[(found[2] or "b")[0].lower()])
    return mib if 0 < mib <= _MAX_REQUEST_MIB else None
