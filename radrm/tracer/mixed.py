"""Run a program's own code: real on the CPU, pretended and watched on the GPU.

Theory of operation: `Mixed` sees every operator. One that touches only tensors on the CPU runs
as it is, so data is loaded, and sizes that depend on it are real. One that makes a tensor on the
GPU, or takes a fake one, runs under the fake tensors and the watch. Large weights are fake on
the CPU as well, so a large model needs little memory.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import devices
import kernels
import pretend
import torch
import values
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from watch import DEVICE, Watch, device_of

SMALL = 1 << 16
"""Tensors of at most this many elements stay real: code may read their values."""

_CREATION = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "normal")
)
_CPU = torch.device("cpu")
ONE_AT_A_TIME = threading.RLock()
"""All threads share one mode of fake tensors, which knows of one operator at a time."""


class Mixed(TorchDispatchMode):
    """Makes what touches the GPU fake.

    `large_is_fake`: so is every large new tensor, as a factory that builds a model needs it.
    `keeps_values`: small tensors on the GPU keep their values as long as they are known.
    """

    def __init__(
        self, fake: Any, watch: Watch, *, large_is_fake: bool = False, keeps_values: bool = False
    ) -> None:
        super().__init__()
        self._fake, self._watch = fake, watch
        self._large_is_fake, self._keeps_values = large_is_fake, keeps_values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is DEVICE:
            return device_of(args[0])
        device = kwargs.get("device")
        if device == pretend.META and (
            func.overloadpacket is torch.ops.aten._to_copy or pretend.in_backward_engine()
        ):
            # `cuda` without an index: the replaced device guard answers with its own, `meta`.
            device = pretend.CUDA
            kwargs = {**kwargs, "device": device}
        kwargs.pop("pin_memory", None)
        on_gpu = device is not None and torch.device(device).type == "cuda"
        if on_gpu and device != pretend.CUDA:
            kwargs = {**kwargs, "device": devices.settled(device)}
        tensors = _tensors(args, kwargs)
        touches = on_gpu or any(isinstance(t, FakeTensor) for t in tensors)
        if not touches and not (self._large_is_fake and _is_large(func, args)):
            return func(*args, **kwargs)
        if "generator" in kwargs:  # it stays: an overload of its own can demand it
            kwargs = {**kwargs, "generator": None}
        if not self._keeps_values:
            with ONE_AT_A_TIME, self._fake, self._watch:
                return func(*args, **kwargs)
        return self._with_values(func, args, kwargs, tensors)

    def _with_values(self, func: Any, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
        """Run the operator, and once more on the values if all of them are known and few."""
        computed = _computed(func, args, kwargs, tensors)
        if computed is not None:
            packet = func.overloadpacket
            if packet in kernels.READS:
                return computed
            if packet in kernels.SHAPED_BY_VALUES:
                with ONE_AT_A_TIME, self._fake, self._watch:
                    result = _like(computed)
                _attach(result, computed, tensors)
                return result
        elif func._schema.is_mutable:
            for tensor in tensors:
                values.forget(tensor)
        if func._schema.is_mutable and tensors and not isinstance(tensors[0], FakeTensor):
            # Something unknown is written into a tensor on the CPU: it keeps its values.
            return args[0] if args else None
        with ONE_AT_A_TIME, self._fake, self._watch:
            if func.overloadpacket not in kernels.TAKE_REAL:
                args, kwargs = tree_map(_faked, (args, kwargs))
            result = func(*args, **kwargs)
        if computed is not None:
            _attach(result, computed, tensors)
        return result


def _tensors(args: Any, kwargs: Any) -> list[Any]:
    """Return all tensors among an operator's arguments; lists in them are at most two deep."""
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, torch.Tensor):
                    found.append(each)
                elif isinstance(each, (list, tuple)):
                    found += [deep for deep in each if isinstance(deep, torch.Tensor)]
    return found


def _is_large(func: Any, args: Any) -> bool:
    if func.overloadpacket not in _CREATION:
        return False
    shape = next((value for value in args if isinstance(value, (list, tuple))), ())
    return math.prod(each for each in shape if isinstance(each, int)) > SMALL


def _faked(value: Any) -> Any:
    """Return a fake tensor for a real one, so that PyTorch does not make and remember its own.

    It would compare the real one with that later, and does not expect changes. A number is a
    tensor without dimensions; its type counts less than that of others, so it stays.
    """
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return value
    if not value.dim() and not value.requires_grad:
        return value
    return torch.empty_strided(
        tuple(value.shape), tuple(value.stride()), dtype=value.dtype, device=_CPU
    )


# ------------------------------------------------------------------ known values


def _computed(func: Any, args: Any, kwargs: Any, tensors: list[Any]) -> Any:
    """Return the operator's result on the CPU. None: a value is unknown, or there are many."""
    for tensor in tensors:
        if not values.small(tensor) or values.known(tensor) is None:
            return None
    if not tensors and _new_elements(args) > values.MOST_WHOLE:
        return None
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": _CPU}
    try:
        result = func(*_real(args), **{name: _real(value) for name, value in kwargs.items()})
    except Exception:
        # The operator itself, on fake tensors, says what is wrong.
        return None
    if func.overloadpacket in kernels.UNINITIALISED:
        result.zero_()
    return result


def _new_elements(args: Any) -> int:
    shape = next((value for value in args if isinstance(value, (list, tuple))), ())
    if shape:
        return math.prod(each for each in shape if isinstance(each, int))
    return max((abs(int(value)) for value in args if isinstance(value, (int, float))), default=1)


def _real(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return values.known(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_real(each) for each in value)
    return value


def _like(computed: Any) -> Any:
    """Return fake tensors on the GPU of the computed sizes."""
    if isinstance(computed, torch.Tensor):
        return torch.empty_strided(
            tuple(computed.shape), tuple(computed.stride()), dtype=computed.dtype,
            device=pretend.CUDA,
        )  # fmt: skip
    if isinstance(computed, (list, tuple)):
        return type(computed)(_like(each) for each in computed)
    return computed


def _attach(result: Any, computed: Any, tensors: list[Any]) -> None:
    if isinstance(result, (list, tuple)) and isinstance(computed, (list, tuple)):
        for one, values_of_one in zip(result, computed):  # noqa: B905
            _attach(one, values_of_one, tensors)
        return
    if not isinstance(result, FakeTensor) or not isinstance(computed, torch.Tensor):
        return
    if result.shape != computed.shape or not values.small(computed):
        return
    memory = computed.untyped_storage()._cdata
    for tensor in tensors:
        kept = tensor.__dict__.get("known") if isinstance(tensor, FakeTensor) else None
        if kept is not None and kept.tensor.untyped_storage()._cdata == memory:
            result.known = values.Known(computed, kept.valid)
            return
    result.known = values.Known(computed, [True])
