"""Operators whose memory or result on a GPU differs from that of fake tensors.

A fake tensor has a shape but no values, and its operators make results without running. The
handlers here add the memory that CUDA kernels use while they run, and guess results that
depend on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pretend
import torch
import values
from torch._subclasses.fake_tensor import FakeTensor

CUBLAS, CUBLASLT, FORWARD, DATA, WEIGHT = range(5)
"""Kinds of call. CUBLAS uses a handle (number: 0 in forward, 1 in backward). CUBLASLT borrows
its workspace. FORWARD, DATA and WEIGHT are passes of a convolution (number: its index)."""

aten = torch.ops.aten
Handler = Callable[[Any, Any, Any, Any], Any]
HANDLERS: dict[Any, Handler] = {}


def _packets(*names: str) -> frozenset[Any]:
    return frozenset(getattr(aten, name) for name in names if hasattr(aten, name))


READS = _packets("_local_scalar_dense", "is_nonzero", "equal", "allclose")
"""Operators whose result is a Python value."""
SHAPED_BY_VALUES = _packets(
    "nonzero", "masked_select", "_unique2", "_unique", "unique_consecutive", "unique_dim",
    "unique_dim_consecutive", "bincount", "repeat_interleave",
)  # fmt: skip
"""Operators whose result's size depends on values."""
COPIES = _packets("_to_copy", "copy_")
"""Operators that bring tensors from the CPU to the GPU."""
UNINITIALISED = _packets("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for these operators of `aten`, as far as this PyTorch has them."""

    def register(handler: Handler) -> Handler:
        for name in names:
            packet = getattr(aten, name, None)
            if packet is not None:
                HANDLERS[packet] = handler
        return handler

    return register


def on_gpu(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.fake_device.type == "cuda"


def size_of(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def parts_of(operators: set[str]) -> list[str]:
    """Return what a model is made of, as far as these operators show it.

    Attention is a fused kernel, or a softmax beside products of batches of matrices.
    """
    names = {name.partition("::")[2] for name in operators}
    fused = any("attention" in name for name in names)
    recurrent = any("_rnn" in name or "lstm" in name or "gru" in name for name in names)
    found = {
        "attention": fused or ("_softmax" in names and not names.isdisjoint({"bmm", "baddbmm"})),
        "recurrence": recurrent,
        "matrix products": not names.isdisjoint({"mm", "addmm", "bmm", "baddbmm"}),
    }
    return [part for part, there in found.items() if there]


# ------------------------------------------------------------------ nothing to compute


@handles(
    "uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "log_normal_",
    "cauchy_", "fill_", "zero_", "add_", "sub_", "mul_", "div_", "addcmul_", "addcdiv_", "lerp_",
    "clamp_", "clamp_min_", "clamp_max_", "sqrt_", "reciprocal_", "neg_", "pow_", "copy_",
    "erfinv_", "trunc_", "masked_fill_", "relu_", "sigmoid_", "tanh_", "exp_", "abs_", "sign_",
)  # fmt: skip
def in_place(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the tensor itself: the values do not matter, and computing takes time."""
    target = args[0]
    fake = isinstance(target, FakeTensor) and getattr(target, "constant", None) is None
    if fake and func._schema.name.endswith("_"):
        source = args[1] if len(args) > 1 else None
        if (
            func.overloadpacket is aten.copy_
            and isinstance(source, torch.Tensor)
            and on_gpu(target)
        ):
            return _copied(watch, args[0], source)
        return args[0]
    return func(*args, **kwargs)


def _copied(watch: Any, target: Any, source: Any) -> Any:
    """Copy to the GPU. A tensor that is not contiguous, or of another type, needs a buffer."""
    if not on_gpu(source) and (source.dtype != target.dtype or not source.is_contiguous()):
        with watch.borrowed(source.numel() * source.element_size()):
            pass
    return target


@handles("_to_copy")
def to_copy(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Copy to the GPU without the values that PyTorch knows of small tensors.

    With its values the copy would be made on a real GPU.
    """
    tensor, device = args[0], kwargs.get("device")
    if device is None or torch.device(device).type != "cuda":
        return func(*args, **kwargs)
    if not on_gpu(tensor):
        watch.copied += size_of(tensor)
    if not isinstance(tensor, FakeTensor):
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        dtype = kwargs.get("dtype") or tensor.dtype
        return torch.empty_strided(shape, stride, dtype=dtype, device=pretend.CUDA)
    constant = getattr(tensor, "constant", None)
    tensor.constant = None
    try:
        return func(*args, **kwargs)
    finally:
        tensor.constant = constant


def _foreach_in_place(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return None


def _foreach(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return a result for each tensor, of the same size; for a norm a single element."""
    tensors = next((a for a in args if isinstance(a, (list, tuple))), None)
    if func._schema.name.endswith("norm"):
        return [t.new_empty(()) for t in _noted(watch, tensors)]
    return [torch.empty_like(t) for t in _noted(watch, tensors)]


def _noted(watch: Any, tensors: Any) -> Any:
    return tensors or ()


def _register_foreach() -> None:
    for name in dir(aten):
        if name.startswith("_foreach_"):
            HANDLERS[getattr(aten, name)] = _foreach_in_place if name.endswith("_") else _foreach


# ------------------------------------------------------------------ unknown values


@handles("_local_scalar_dense")
def scalar(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return a value for code that reads one: False, or 1, since it may be a size."""
    tensor = args[0]
    constant = getattr(tensor, "constant", None)
    if not isinstance(tensor, FakeTensor) or constant is not None:
        return func(*args, **kwargs)
    watch.guesses.add("a value read from the GPU")
    return values.made_up(tensor.dtype)


@handles("is_nonzero", "equal", "is_same_size", "allclose")
def truth(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    try:
        return func(*args, **kwargs)
    except RuntimeError:  # tensors without data raise this if the result depends on values
        watch.guesses.add("a value read from the GPU")
        return False


@handles("nonzero")
def nonzero(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the largest result: every element is selected."""
    tensor = args[0]
    watch.guesses.add("how many elements a mask selects")
    return tensor.new_empty((max(tensor.numel(), 1), tensor.dim()), dtype=torch.long)


@handles("masked_select")
def masked_select(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    mask = values.known(args[1])
    if mask is not None and mask.shape == args[0].shape:
        return args[0].new_empty((values.count(mask),))
    watch.guesses.add("how many elements a mask selects")
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return args[0].new_empty((math.prod(shape),))


@handles("index")
def index(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the largest result: a mask selects every element, unless its values are known."""
    tensor, indices = args[0], args[1]
    if not isinstance(tensor, FakeTensor) or not any(_is_mask(each) for each in indices):
        return func(*args, **kwargs)
    places: list[Any] = []
    for each in indices:
        if _is_mask(each):
            mask = values.known(each)
            if mask is None:
                watch.guesses.add("how many elements a mask selects")
            shape = (each.numel() if mask is None else values.count(mask),)
            places += [each.new_empty(shape, dtype=torch.long) for _ in range(each.dim())]
        else:
            places.append(each)
    return func(tensor, places)


@handles("index_put_", "_index_put_impl_")
def index_put(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(args[0], FakeTensor) and any(_is_mask(each) for each in args[1]):
        return args[0]
    return func(*args, **kwargs)


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


# ------------------------------------------------------------------ convolutions


@handles("convolution", "cudnn_convolution")
def convolution(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    result = func(*args, **kwargs)
    shape = _shape(args[0], args[1], result, *_geometry(func, args))
    if shape is None:
        return result
    with watch.borrowed(*_copies(shape, args[0], args[1])):
        watch.note(result)
        if not _native(args[0], shape):
            watch.convolution(FORWARD, shape)
    return result


@handles("convolution_backward")
def convolution_backward(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Add the two passes of cuDNN: the input's gradient, then the weights', with workspaces."""
    result = func(*args, **kwargs)
    output, inputs, weight = args[0], args[1], args[2]
    shape = _shape(inputs, weight, output, args[4], args[7], args[9])
    if shape is None:
        return result
    native = _native(inputs, shape)
    with watch.borrowed(*_copies(shape, output, inputs, weight)):
        for kind, gradient in zip((DATA, WEIGHT), result):  # noqa: B905
            if gradient is not None:
                watch.note(gradient)
                if not native:
                    watch.convolution(kind, shape)
    return result


def _geometry(func: Any, args: Any) -> tuple[Any, bool, int]:
    if func.overloadpacket is aten.convolution:
        return args[3], bool(args[6]), int(args[8])
    return args[3], False, int(args[5])


def _shape(
    inputs: Any, weight: Any, output: Any, stride: Any, transposed: bool, groups: int
) -> Any:
    """Return the figures of a convolution for `radrm.estimators.memory`.

    A transposed one has input and output exchanged. None: it does not run on the GPU.
    """
    if not on_gpu(inputs) or inputs.dim() < 3 or not 0 < inputs.dim() - 2 <= 3:
        return None
    if transposed:
        inputs, output = output, inputs
    last = torch.channels_last if inputs.dim() == 4 else torch.channels_last_3d
    channels_last = inputs.dim() in (4, 5) and any(
        t.is_contiguous(memory_format=last) and not t.is_contiguous() for t in (inputs, weight)
    )
    steps = tuple(int(s) for s in stride)
    if len(steps) == 1:
        steps *= inputs.dim() - 2
    return (
        int(inputs.shape[0]), int(inputs.shape[1]), int(output.shape[1]),
        tuple(int(s) for s in inputs.shape[2:]), tuple(int(s) for s in output.shape[2:]),
        tuple(int(s) for s in weight.shape[2:]), steps, int(groups),
        int(inputs.element_size()), int(channels_last),
    )  # fmt: skip


def _native(inputs: Any, shape: Any) -> bool:
    """Return whether PyTorch's own kernel runs: depthwise and 32 bits, without a workspace."""
    in_channels, out_channels, groups, element_bytes = shape[1], shape[2], shape[7], shape[8]
    depthwise = groups > 1 and groups == in_channels and out_channels % in_channels == 0
    return bool(depthwise and element_bytes != 2)


def _copies(shape: Any, *tensors: Any) -> list[int]:
    """Return the sizes of copies of tensors that do not have the layout of the kernel."""
    channels_last, sizes = shape[9], []
    for tensor in tensors:
        if channels_last and tensor.dim() in (4, 5):
            last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
            if tensor.is_contiguous(memory_format=last):
                continue
        elif tensor.is_contiguous():
            continue
        sizes.append(size_of(tensor))
    return sizes


# ------------------------------------------------------------------ recurrent cells


@handles("_thnn_fused_gru_cell")
def gru_cell(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a fused kernel that fake tensors do not support.

    It is the new state, and five values for each of its elements for the backward pass.
    """
    hidden = args[2]
    return torch.empty_like(hidden), hidden.new_empty((hidden.shape[0], 5 * hidden.shape[1]))


@handles("_thnn_fused_gru_cell_backward")
def gru_cell_backward(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    gradient, _, has_bias = args[:3]
    batch, width = gradient.shape
    gates = [gradient.new_empty((batch, 3 * width)) for _ in range(2)]
    biases = [gradient.new_empty((3 * width,)) if has_bias else None for _ in range(2)]
    return (*gates, torch.empty_like(gradient), *biases)


# ------------------------------------------------------------------ matrix products


@handles("mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "_addmm_activation")
def product(watch: Any, func: Any, args: Any, kwargs: Any) -> Any:
    result = func(*args, **kwargs)
    if on_gpu(result):
        watch.call(CUBLAS, int(pretend.in_backward_engine()))
        watch.note(result)
        if func.overloadpacket is aten.addmm and args[0].dim() == 1:
            watch.call(CUBLASLT)
    return result


_register_foreach()
