"""Let every way to name the GPU mean `cuda:0`: `.cuda()`, `.to(0)`, `torch.accelerator`, ...

PyTorch asks the driver which device `cuda` without an index, or a plain number, is. Here the
answer is always the first GPU: all tensors of a process on GPUs are counted on it. The class
`Device` stands for `torch.device` only in a PyTorch that refuses a number, as a build without
CUDA does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._device import _device_constructors

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

CUDA = torch.device("cuda", 0)
_DEVICE = torch.device
on_other_gpu: list[Callable[[], None]] = []
"""Called when the program names another GPU than the first."""


def begin(gpus: int) -> None:
    """Install the hooks. Functions that make tensors from values are `pretend`'s."""
    _numbers()
    _moves()
    _legacy_types()
    _new_tensors()
    _accelerator(gpus)
    _contexts()
    _generators()


def settled(device: Any) -> Any:
    """Return `cuda:0` for anything that means a GPU, and everything else as it is."""
    if type(device) is bool or device is None:
        return device
    if isinstance(device, str):
        kind, _, number = device.partition(":")
        if kind != "cuda":
            return device
        device = int(number) if number.isdigit() else 0
    elif isinstance(device, _DEVICE):
        if device.type != "cuda":
            return device
        device = device.index or 0
    if type(device) is not int:
        return device
    if device > 0:
        for call in on_other_gpu:
            call()
    return CUDA


def default_is_gpu() -> bool:
    """Return whether new tensors are on the GPU if no device is given."""
    # Not `torch.get_default_device`: it can call `torch.tensor`, whose replacement asks here.
    return torch.empty(0).device.type == "cuda"


# ------------------------------------------------------------------ torch.device(0)


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _DEVICE)

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, _DEVICE)


class Device(metaclass=_Kind):
    """`torch.device`, for which a number means a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("type", kwargs.get("device"))
        if type(first) is int:
            return _DEVICE("cuda", first)
        return _DEVICE(*args, **kwargs)


def _numbers() -> None:
    try:
        torch.device(0)
        return
    except RuntimeError:
        _torch.device = Device
    # This remembers PyTorch's own functions, which `torch.set_default_device` looks for.
    _device_constructors()
    for name in _MAKERS:
        setattr(torch, name, _with_numbers(getattr(torch, name)))


_MAKERS = (
    "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace", "eye",
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randperm",
)  # fmt: skip


def _with_numbers(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def make(*args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs["device"] = settled(kwargs["device"])
        return real(*args, **kwargs)

    return make


# ------------------------------------------------------------------ .to, .cuda


def _moves() -> None:
    tensor, module = _torch.Tensor, _torch.nn.Module
    to, parse = tensor.to, torch._C._nn._parse_to

    def settle(args: Any, kwargs: Any) -> tuple[Any, Any]:
        if args:
            args = (settled(args[0]), *args[1:])
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": settled(kwargs["device"])}
        return args, kwargs

    def tensor_to(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = settle(args, kwargs)
        return to(self, *args, **kwargs)

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = settle(args, kwargs)
        return parse(*args, **kwargs)

    def tensor_cuda(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return to(self, CUDA)

    def module_cuda(self: Any, device: Any = None) -> Any:
        return self._apply(lambda t: t.cuda())

    tensor.to, tensor.cuda = tensor_to, tensor_cuda
    module.cuda = module_cuda
    _torch._C._nn._parse_to = parse_to


# ------------------------------------------------------------------ torch.cuda.FloatTensor

_LEGACY = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16, "LongTensor": torch.int64, "IntTensor": torch.int32,
    "ShortTensor": torch.int16, "CharTensor": torch.int8, "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}  # fmt: skip


class _LegacyType(type):
    dtype: torch.dtype

    def __call__(cls, *args: Any, **_: Any) -> Any:
        """Make a tensor of these sizes, or of these values."""
        if all(type(a) is int for a in args) or isinstance(args[0], torch.Size):
            sizes = args[0] if args and isinstance(args[0], torch.Size) else args
            return torch.empty(tuple(sizes) or (0,), dtype=cls.dtype, device=CUDA)
        values = args[0]
        if isinstance(values, torch.Tensor):
            return values.to(CUDA, cls.dtype)
        return torch.tensor(values, dtype=cls.dtype).to(CUDA)

    def __instancecheck__(cls, value: object) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.dtype == cls.dtype
            and value.device.type == "cuda"
        )


def _legacy_types() -> None:
    kinds: dict[Any, torch.dtype] = {}
    for name, dtype in _LEGACY.items():
        made = _LegacyType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
        setattr(torch.cuda, name, made)
        kinds[made] = kinds[f"torch.cuda.{name}"] = dtype
    plain = torch.Tensor.type

    def tensor_type(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            if isinstance(self, FakeTensor) and self.device.type == "cuda":
                names = {d: n for n, d in _LEGACY.items()}
                return f"torch.cuda.{names.get(self.dtype, 'Tensor')}"
            return plain(self)
        known = kinds.get(dtype) if isinstance(dtype, (str, _LegacyType)) else None
        if known is not None:
            return self.to(CUDA, known)
        if isinstance(self, FakeTensor) and isinstance(dtype, torch.dtype):
            return self.to(dtype)
        return plain(self, dtype, *args, **kwargs)

    _torch.Tensor.type = tensor_type
    default = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        dtype = kinds.get(kind) if isinstance(kind, (str, _LegacyType)) else None
        if dtype is None:
            default(kind)
            return
        torch.set_default_dtype(dtype)
        torch.set_default_device(CUDA)

    torch.set_default_tensor_type = set_default_tensor_type


def _new_tensors() -> None:
    """Let `tensor.new(...)` and `tensor.new_tensor(...)` make a tensor where `tensor` is.

    PyTorch makes it below the operators, by the real device.
    """
    plain, plain_of_values = torch.Tensor.new, torch.Tensor.new_tensor

    def new_tensor(
        self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        target = settled(self.device if device is None else device)
        if not isinstance(self, FakeTensor) and target != CUDA:
            return plain_of_values(
                self, data, dtype=dtype, device=device, requires_grad=requires_grad
            )
        values = data.detach() if isinstance(data, torch.Tensor) else torch.tensor(data)
        made = values.to(target, dtype or self.dtype, copy=True)
        return made.requires_grad_() if requires_grad else made

    def new(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, FakeTensor):
            return plain(self, *args, **kwargs)
        first = args[0] if args else kwargs.get("data", 0)
        if isinstance(first, torch.Size):
            return self.new_empty(tuple(first))
        if type(first) is int:
            return self.new_empty(args or (0,))
        return new_tensor(self, first)

    _torch.Tensor.new = new
    _torch.Tensor.new_tensor = new_tensor


# ------------------------------------------------------------------ torch.accelerator


def _accelerator(gpus: int) -> None:
    """Answer for `torch.accelerator` (from PyTorch 2.6 on) as `torch.cuda` does."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    cuda = torch.cuda
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: gpus,
        "current_accelerator": lambda check_available=False: _DEVICE("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": lambda device=None: None,
        "set_device_idx": lambda device=None: None,
        "current_stream": lambda device=None: cuda.current_stream(),
        "set_stream": lambda stream: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
    }
    for name, answer in answers.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, answer)
    for name in (
        "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "memory_stats", "reset_peak_memory_stats",
    ):  # fmt: skip
        if hasattr(accelerator, name):
            setattr(accelerator, name, _as_cuda(name))
    if hasattr(accelerator, "get_memory_info"):
        accelerator.get_memory_info = lambda device=None: cuda.mem_get_info()


def _as_cuda(name: str) -> Callable[..., Any]:
    return lambda device=None: getattr(torch.cuda, name)(device)


class _Context:
    """`with torch.cuda.device(1)`: all GPUs are the first."""

    def __init__(self, *_: object) -> None:
        self.idx = 0

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _contexts() -> None:
    for name in ("device", "device_of", "_DeviceGuard"):
        setattr(torch.cuda, name, _Context)
    if hasattr(getattr(torch, "accelerator", None), "device_index"):
        _torch.accelerator.device_index = _Context


def _generators() -> None:
    """Make every generator one of the CPU: operators on the GPU use none here."""

    class Generator(torch.Generator):
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, "cpu")

    _torch.Generator = Generator
