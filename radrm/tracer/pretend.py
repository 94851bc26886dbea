"""Make PyTorch believe in a GPU that does not exist.

Theory of operation: fake tensors have the device `cuda:0`, so PyTorch would ask the CUDA
driver about it. `begin` replaces every function of PyTorch that does. It works in builds with
CUDA (where no GPU is visible) and without. It changes this process for good.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import devices
import torch
import torch._subclasses.fake_tensor
import values
from devices import CUDA

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

META = torch.device("meta")
_CUDA_TYPE, _META_TYPE, _OWN_TYPE = 1, 14, 20
_HERE = os.path.dirname(os.path.abspath(__file__))
_PASSED_OVER = (
    os.path.join(_HERE, "pretend.py"),
    os.path.join(_HERE, "kernels.py"),
    os.path.join(_HERE, "watch.py"),
    os.path.join(_HERE, "mixed.py"),
    os.path.join("torch", "_ops.py"),
    "eval_frame.py",
    "_compile.py",
    "contextlib.py",
)
_keep: list[Any] = []
"""Objects that must stay alive; empty until `begin` has run."""
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"


def begin(gpus: int) -> None:
    """Make PyTorch believe in `gpus` GPUs from now on."""
    answers(gpus)
    if _keep:
        return
    _keep.append(True)
    _no_device_switching()
    # The backward pass needs one thread: the engine has no queue for a device without a driver.
    torch.autograd.set_multithreading_enabled(False)
    _no_context()
    _tensors_from_values()
    _moving()
    _without_the_driver()
    _claims()
    _attention()
    devices.begin(gpus)
    values.begin()


def in_backward_engine() -> bool:
    """Return whether the caller is autograd's engine itself, not Python code that it runs.

    The engine would ask a real GPU for its streams. So it gets `meta` as a tensor's device,
    which has no streams.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.endswith(_PASSED_OVER):
        frame = frame.f_back
    if frame is None:
        return False
    name, file = frame.f_code.co_name, frame.f_code.co_filename
    if name == "_engine_run_backward":
        return True
    return name in ("backward", "grad") and file.endswith(
        (os.path.join("autograd", "__init__.py"), os.path.join("autograd", "function.py"))
    )


def _no_device_switching() -> None:
    """Use the device guard of `meta`, which does nothing, for `cuda`, too."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
        registry = (ctypes.c_void_p * (_OWN_TYPE + 1)).in_dll(ctypes.CDLL(library), _REGISTRY)
        meta, cuda = registry[_META_TYPE], registry[_CUDA_TYPE]
        if meta:
            registry[_CUDA_TYPE] = meta
            if cuda:
                _no_accelerator(registry, meta, cuda)
            return
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is not None:
        ensure()


def _no_accelerator(registry: Any, meta: int, cuda: int) -> None:
    """Let a build with CUDA not ask the driver in each backward pass (PyTorch 2.7 and later).

    It asks for each device of the accelerator, which is CUDA even if no GPU is visible. A
    backend of its own comes before CUDA. This one has no devices.
    """
    if not hasattr(torch, "accelerator") or registry[_OWN_TYPE]:
        return
    guard = _without_devices(meta, cuda)
    if guard is not None:
        registry[_OWN_TYPE] = guard
        torch.utils.rename_privateuse1_backend("radrm")
        torch._C._get_accelerator = lambda *_: torch.device("cuda")


_RETURN_1 = (b"\xb8\x01\x00\x00\x00\xc3", b"\x20\x00\x80\x52\xc0\x03\x5f\xd6")
_ENDBR = b"\xf3\x0f\x1e\xfa"
"""The machine code of `return 1` on x86-64 and 64-bit ARM, and what can precede it."""
_MOST_METHODS = 64


def _without_devices(meta: int, cuda: int) -> int | None:
    """Return `meta`'s device guard with CUDA's own count of devices: none is visible.

    The guard is a C++ object without data. Its first method that returns 1 counts the devices.
    None: there is no such method.
    """
    ours, theirs = (ctypes.c_void_p.from_address(guard).value or 0 for guard in (meta, cuda))
    word = ctypes.sizeof(ctypes.c_void_p)
    methods: list[int] = []
    while len(methods) < _MOST_METHODS:
        method = ctypes.c_void_p.from_address(ours + word * len(methods)).value
        if not method:
            break
        methods.append(method)
    for at, method in enumerate(methods):
        code = ctypes.string_at(method, 12)
        if code.startswith(_RETURN_1) or code.startswith(tuple(_ENDBR + c for c in _RETURN_1)):
            methods[at] = ctypes.c_void_p.from_address(theirs + word * at).value or method
            break
    else:
        return None
    # Two words with the type's description come before the first method.
    before = [ctypes.c_void_p.from_address(ours - word * back).value or 0 for back in (2, 1)]
    table = (ctypes.c_void_p * (len(methods) + 2))(*before, *methods)
    made = ctypes.c_void_p(ctypes.addressof(table) + 2 * word)
    _keep.extend((table, made))
    return ctypes.addressof(made)


def gpu_mib() -> int:
    """Return the memory of the pretended GPU."""
    return int(os.environ.get("RADRM_TRACE_GPU_MIB") or 40_339)


def answers(gpus: int) -> None:
    """Replace the functions of `torch.cuda` with the answers of an A100, with the memory of the
    GPUs here: a program can choose its batch by it."""
    total = gpu_mib() << 20
    properties = types.SimpleNamespace(
        name="NVIDIA A100-SXM4-40GB", major=8, minor=0, total_memory=total,
        multi_processor_count=108, is_integrated=False, is_multi_gpu_board=False,
        gcnArchName="", warp_size=32, max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536, shared_memory_per_block=49152,
        shared_memory_per_block_optin=166912, L2_cache_size=41943040,
    )  # fmt: skip
    state = torch.zeros(16, dtype=torch.uint8)
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "device_count": gpus,
        "current_device": 0,
        "get_device_properties": properties,
        "get_device_name": properties.name,
        "get_device_capability": (8, 0),
        "get_arch_list": ["sm_80"],
        "mem_get_info": (properties.total_memory, properties.total_memory),
        "memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_allocated": 0,
        "max_memory_reserved": 0,
        "memory_stats": {},
        "memory_summary": "",
        "get_rng_state": state,
        "get_rng_state_all": [state] * gpus,
    }
    silent = (
        "init", "_lazy_init", "synchronize", "set_device", "empty_cache", "manual_seed",
        "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all",
        "reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect",
        "set_per_process_memory_fraction", "_set_stream_by_id", "set_stream",
    )  # fmt: skip
    for name, answer in answers.items():
        _answer_with(torch.cuda, name, answer)
    for name in silent:
        _answer_with(torch.cuda, name, None)
    for name in ("get_rng_state", "set_rng_state", "manual_seed", "manual_seed_all"):
        _answer_with(torch.cuda.random, name, answers.get(name))
    stream, event = _stand_in(torch.cuda.Stream), _stand_in(torch.cuda.Event)
    _torch.cuda.Stream, _torch.cuda.Event = stream, event
    _torch.cuda.current_stream = _torch.cuda.default_stream = stream
    _torch.cuda.stream = _torch.cuda.StreamContext = stream


def _no_context() -> None:
    """Keep fake tensors from making a real CUDA context, which they do if there is a GPU."""
    for name in ("init_cuda_context", "init_gpu_context"):
        _answer_with(torch._subclasses.fake_tensor, name, None)


def _tensors_from_values() -> None:
    """Make tensors from values on the CPU first.

    `torch.tensor(..., device="cuda")` would use the real device, below the fake tensors.
    """
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, _on_cpu_first(getattr(torch, name)))


def _on_cpu_first(real: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        device = devices.settled(kwargs.get("device"))
        if device is None and devices.default_is_gpu():
            device = CUDA
        if device is None or torch.device(device).type != "cuda":
            return real(*args, **kwargs)
        needs_grad = kwargs.pop("requires_grad", False)
        made = real(*args, **{**kwargs, "device": "cpu"}).to(device)
        return made.requires_grad_() if needs_grad else made

    return make


replaced: dict[int, Any] = {}
"""The tensor that replaced a moved weight or buffer, by the id of the moved one."""
_moved: list[Any] = []
"""The moved tensors. They stay alive, so that no new object gets the id of one."""


def _moving() -> None:
    """Replace `Module._apply`, which `Module.to` and its like use.

    PyTorch's own puts the new tensor into the old object, which fake tensors do not allow.
    This one puts a new parameter in its place.
    """

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for table in (self._parameters, self._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = _replacement(tensor, fn)
        return self

    _torch.nn.Module._apply = _apply


def _replacement(tensor: Any, fn: Callable[[Any], Any]) -> Any:
    known = replaced.get(id(tensor))
    if known is not None:
        return known
    with torch.no_grad():
        new = fn(tensor)
    if new is tensor:
        return tensor
    if isinstance(tensor, torch.nn.Parameter):
        new = torch.nn.Parameter(new, tensor.requires_grad)
    if _swapped(tensor, new):
        return tensor
    _moved.append(tensor)
    replaced[id(tensor)] = new
    return new


def _swapped(tensor: Any, new: Any) -> bool:
    """Let the object `tensor` be the moved one, as after a real move. False: PyTorch refuses.

    So references that the program holds, such as a list of parameters, are to the moved ones.
    """
    if tensor.grad is not None:
        return False
    try:
        torch.utils.swap_tensors(tensor, new)
    except (RuntimeError, AttributeError, TypeError):
        return False
    for name, value in new.__dict__.items():
        if name != "known":
            tensor.__dict__.setdefault(name, value)
    return True


def latest(tensor: Any) -> Any:
    """Return the tensor that has replaced this one after all moves."""
    while id(tensor) in replaced:
        tensor = replaced[id(tensor)]
    return tensor


def _without_the_driver() -> None:
    """Replace the choices between kernels that ask the driver."""
    _C = torch._C
    real = _C._select_conv_backend

    def select(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except RuntimeError:
            return _C._ConvBackend.CudaDepthwise2d

    with contextlib.suppress(AttributeError):
        _C._select_conv_backend = select  # type: ignore[assignment]
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        with contextlib.suppress(AttributeError):
            setattr(torch._VF, name, _without_cudnn(getattr(torch._VF, name)))
    with contextlib.suppress(AttributeError):
        # Evaluation would use a fused operator that fake tensors do not support.
        torch.backends.mha.set_fastpath_enabled(False)


def _without_cudnn(real: Callable[..., Any]) -> Callable[..., Any]:
    """Run a recurrent layer without cuDNN, whose kernels need a GPU for their sizes."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.backends.cudnn.flags(enabled=False):
            return real(*args, **kwargs)

    return run


def _answer_with(module: types.ModuleType, name: str, answer: Any) -> None:
    if hasattr(module, name):
        setattr(module, name, lambda *args, **kwargs: answer)


class _Nothing:
    """A stand-in for a stream or event that does nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.device = CUDA
        self.cuda_stream = 0

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def elapsed_time(self, *args: object) -> float:
        return 0.0

    def query(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _stand_in(real: type) -> type:
    """Return a stand-in class with the real class's abstract bases: PyTorch checks for them."""
    abstract = [base for base in real.__mro__ if getattr(base, "__abstractmethods__", None)]
    missing = {name for base in abstract for name in base.__abstractmethods__}
    nothing = {name: lambda self, *args, **kwargs: None for name in missing}
    return type(real.__name__, (_Nothing, *abstract[:1]), nothing)


# Operators that have a CUDA kernel. A build without CUDA would split them into smaller ones,
# with other temporary tensors than on a GPU. The list has only the known cases.
_CLAIMED = ("silu_backward", "mish_backward", "_pad_circular")


def _claims() -> None:
    """Register CUDA kernels for these operators in a build without CUDA; none ever runs."""
    if torch.backends.cuda.is_built():
        return
    library = torch.library.Library("aten", "IMPL")
    _keep.append(library)
    for name in _CLAIMED:
        with contextlib.suppress(Exception):
            library.impl(name, _never, "CUDA")


def _never(*args: object, **kwargs: object) -> None:
    raise RuntimeError("a CUDA kernel was run during a trace; please report this")


def _attention() -> None:
    """Choose the fused attention kernel of an A100 here: PyTorch's choice asks the driver."""
    functional = torch.nn.functional
    plain = functional.scaled_dot_product_attention
    aten = torch.ops.aten

    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        more = {"enable_gqa": True} if enable_gqa else {}
        if query.device.type != "cuda" or query.dim() != 4:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)
        if enable_gqa and key.size(1) != query.size(1):
            times = query.size(1) // key.size(1)
            key = key.repeat_interleave(times, 1)
            value = value.repeat_interleave(times, 1)
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_gpu_dtype()
            query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
            if attn_mask is not None and attn_mask.dtype != torch.bool:
                attn_mask = attn_mask.to(dtype)
        needs_grad = torch.is_grad_enabled() and any(
            each.requires_grad for each in (query, key, value)
        )
        width = query.size(-1)
        half = query.dtype in (torch.float16, torch.bfloat16)
        same = width == value.size(-1)
        options = torch.backends.cuda
        with torch.amp.autocast("cuda", enabled=False):
            if half and attn_mask is None and same and width <= 256 and options.flash_sdp_enabled():
                return _flash(query, key, value, dropout_p, is_causal, scale)
            aligned = width % (8 if half else 4) == 0 and value.size(-1) % (8 if half else 4) == 0
            if aligned and options.mem_efficient_sdp_enabled():
                bias = _bias(attn_mask, query, key)
                return aten._scaled_dot_product_efficient_attention(
                    query, key, value, bias, needs_grad, dropout_p, is_causal, scale=scale
                )[0]
            return aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale
            )[0]

    def _flash(query: Any, key: Any, value: Any, dropout_p: float, causal: bool, scale: Any) -> Any:
        width = query.size(-1)
        if width % 8:
            scale = width**-0.5 if scale is None else scale
            wider = [functional.pad(each, (0, 8 - width % 8)) for each in (query, key, value)]
            query, key, value = wider
        out = aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, causal, False, scale=scale
        )[0]
        return out[..., :width] if width % 8 else out

    def _bias(mask: Any, query: Any, key: Any) -> Any:
        if mask is None:
            return None
        if mask.dtype == torch.bool:
            zero = torch.zeros_like(mask, dtype=query.dtype)
            mask = zero.masked_fill_(mask.logical_not(), float("-inf"))
        if key.size(2) % 16:
            mask = functional.pad(mask, (0, 16 - key.size(2) % 16))[..., : key.size(2)]
        return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))

    functional.scaled_dot_product_attention = attention  # type: ignore[assignment]
    with contextlib.suppress(AttributeError):
        _torch._C._nn.scaled_dot_product_attention = attention
