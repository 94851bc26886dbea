"""Record when storages on GPU 0 are allocated and freed.

Theory of operation: PyTorch calls `Watch` for every operator, in one thread. A storage is
allocated when an operator first returns a tensor in it. It is freed when Python collects it,
so a tracing loop must drop references exactly as a usual training loop does.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator
from typing import Any

import kernels
import pretend
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

_DEVICE = torch.ops.prim.device.default
_TO = torch.ops.aten._to_copy.default


class Watch(TorchDispatchMode):
    """Records every storage on `cuda:0` that an operator makes, until it is freed.

    `events`: n > 0 is an allocation of n bytes. Allocations are numbered from 1, and -k frees
    number k. `calls`: [index of the next event, kind, number], see `kernels`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[int] = []
        self.calls: list[list[int]] = []
        self.marks: list[list[Any]] = []
        self.convolutions: list[list[Any]] = []
        self.guesses: set[str] = set()
        """The subjects of guesses: results that depend on unknown values."""
        self.operators: set[str] = set()
        """The names of the operators that ran."""
        self.sizes: list[int] = []
        """The size of allocation k, at index k - 1."""
        self._numbers: dict[int, tuple[int, int, Any]] = {}
        self._shapes: dict[Any, int] = {}

    # -------------------------------------------------------------- writing

    def mark(self, name: str) -> None:
        self.marks.append([len(self.events), name])

    def call(self, kind: int, number: int = 0) -> None:
        self.calls.append([len(self.events), kind, number])

    def convolution(self, kind: int, shape: tuple[Any, ...]) -> None:
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self.convolutions)
            self.convolutions.append([list(s) if isinstance(s, tuple) else s for s in shape])
        self.call(kind, number)

    def allocate(self, size: int) -> int:
        """Record an allocation and return its number. A size of 0 is none; its number is 0."""
        if size <= 0:
            return 0
        self.sizes.append(size)
        self.events.append(size)
        return len(self.sizes)

    def free(self, number: int) -> None:
        if number:
            self.events.append(-number)

    def number_of(self, tensor: Any) -> int:
        """Return the number of a tensor's allocation; 0: it has none."""
        known = self._numbers.get(tensor.untyped_storage()._cdata)
        return known[0] if known is not None else 0

    @contextlib.contextmanager
    def borrowed(self, *sizes: int) -> Iterator[None]:
        """Record blocks that a kernel uses only inside the `with` block."""
        taken = [self.allocate(size) for size in sizes]
        yield
        for number in reversed(taken):
            self.free(number)

    # -------------------------------------------------------------- watching

    def note(self, result: Any) -> None:
        """Record every tensor in an operator's result."""
        if isinstance(result, FakeTensor):
            self._note(result)
        elif isinstance(result, (list, tuple)):
            for each in result:
                self.note(each)

    def _note(self, tensor: FakeTensor) -> None:
        device = tensor.fake_device
        if device.type != "cuda" or (device.index or 0) != 0:
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        known = self._numbers.get(key)
        if known is not None:
            if known[1] == size:
                return
            # The storage was resized in place.
            self.free(known[0])
        number = self.allocate(size)
        gone = known[2] if known is not None else weakref.ref(storage, self._gone(key))
        self._numbers[key] = (number, size, gone)

    def _gone(self, key: int) -> Any:
        def forget(_: Any) -> None:
            self.free(self._numbers.pop(key)[0])

        return forget

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.operators.add(func._schema.name)
        if func is _DEVICE:
            tensor = args[0]
            if not isinstance(tensor, FakeTensor):
                return func(*args)
            if tensor.fake_device.type == "cuda" and pretend.in_backward_engine():
                return pretend.META
            return tensor.fake_device
        if kwargs.get("device") == pretend.META and pretend.in_backward_engine():
            kwargs = {**kwargs, "device": pretend.CUDA}
        handler = kernels.HANDLERS.get(func.overloadpacket)
        result = handler(self, func, args, kwargs) if handler else func(*args, **kwargs)
        self.note(result)
        return result


class Builder(TorchDispatchMode):
    """Makes large new tensors fake while the user's function builds the model.

    Small ones stay real, so that code can read their values.
    """

    _SMALL = 1 << 16
    _CREATION = frozenset(
        getattr(torch.ops.aten, name)
        for name in ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "normal")
    )

    def __init__(self, fake: Any, watch: Watch) -> None:
        super().__init__()
        self._fake, self._watch = fake, watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _DEVICE:
            tensor = args[0]
            return tensor.fake_device if isinstance(tensor, FakeTensor) else func(*args)
        if func is _TO and kwargs.get("device") == pretend.META:
            # `cuda` without an index: the replaced device guard answers with its own, `meta`.
            kwargs = {**kwargs, "device": pretend.CUDA}
        if self._is_fake(func, args, kwargs):
            with self._fake, self._watch:
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _is_fake(self, func: Any, args: Any, kwargs: Any) -> bool:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            return True
        values = [*args, *kwargs.values()]
        values += [each for value in values if isinstance(value, (list, tuple)) for each in value]
        if any(isinstance(value, FakeTensor) for value in values):
            return True
        if func.overloadpacket not in self._CREATION:
            return False
        shape = next((value for value in args if isinstance(value, (list, tuple))), ())
        return math.prod(each for each in shape if isinstance(each, int)) > self._SMALL
