"""Record when storages on GPU 0 are allocated and freed.

Theory of operation: PyTorch calls `Watch` for every operator, in one thread. A storage is
allocated when an operator first returns a tensor in it. It is freed when Python collects it,
so a tracing loop must drop references exactly as a usual training loop does.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import kernels
import pretend
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.ops.prim.device.default
"""The operator that asks for the device of a tensor."""


def device_of(tensor: Any) -> Any:
    """Return the device that `DEVICE` answers. The backward engine is told `meta` for the GPU."""
    if not isinstance(tensor, FakeTensor):
        return DEVICE(tensor)
    if tensor.fake_device.type == "cuda" and pretend.in_backward_engine():
        return pretend.META
    return tensor.fake_device


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
        self.live = self.peak = 0
        """Bytes allocated now, and the most since the start or `reset_peak`."""
        self.highest = self.copied = 0
        """The most bytes allocated, and the bytes copied to the GPU, since the last step."""
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
        self.live += size
        self.peak = max(self.peak, self.live)
        self.highest = max(self.highest, self.live)
        return len(self.sizes)

    def free(self, number: int) -> None:
        if number:
            self.events.append(-number)
            self.live -= self.sizes[number - 1]

    def written(self, first: int) -> dict[str, Any]:
        """Return what was recorded, after an allocation of `first` bytes that stays; 0: none."""
        # Copies: another thread of the program may still be running.
        events, calls, marks = list(self.events), list(self.calls), list(self.marks)
        if first:
            events = [first, *(each - (each < 0) for each in events)]
            calls, marks = ([[at + 1, *more] for at, *more in each] for each in (calls, marks))
        return {
            "events": events, "calls": calls, "marks": marks,
            "convolutions": list(self.convolutions),
        }  # fmt: skip

    def next_step(self) -> tuple[int, int]:
        """Return `highest` and `copied` of the step that ends, and begin another."""
        found = self.highest, self.copied
        self.highest, self.copied = self.live, 0
        return found

    def reset_peak(self) -> None:
        self.peak = self.live

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
        if func is DEVICE:
            return device_of(args[0])
        if kwargs.get("device") == pretend.META and pretend.in_backward_engine():
            kwargs = {**kwargs, "device": pretend.CUDA}
        handler = kernels.HANDLERS.get(func.overloadpacket)
        result = handler(self, func, args, kwargs) if handler else func(*args, **kwargs)
        self.note(result)
        return result
