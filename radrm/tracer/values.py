"""Values of tensors on the GPU: which are known, and what code gets that reads the others.

Theory of operation: a tensor on the pretended GPU has no data. But small tensors that come from
the CPU (labels, masks, lengths), and what is computed from them alone, have values that this
process can compute, too. `Known` keeps them beside the fake tensor. So a size, a mask or a
branch that depends on the *data* is real. What depends on weights is unknown; reading it gives
a made-up value: 1 for a number, False for a truth. A made-up whole number is a `Guess`, so that
a size made from it can be seen (`Sizes`): such a trace would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lines
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

MOST_WHOLE, MOST_FLOATS = 1 << 18, 1 << 12
"""Known tensors have at most this many elements, of whole numbers or truths, or of floats."""
_MOST_READ = 1 << 26
SMALL = 1e-6
"""The other value of a number that is made up."""


class Known:
    """The values of a fake tensor. `valid` is shared by all views of the same memory."""

    __slots__ = ("tensor", "valid")

    def __init__(self, tensor: torch.Tensor, valid: list[bool]) -> None:
        self.tensor, self.valid = tensor, valid


def known(tensor: Any) -> torch.Tensor | None:
    """Return a tensor's values, as a tensor on the CPU. None: they are unknown."""
    if not isinstance(tensor, FakeTensor):
        return tensor if isinstance(tensor, torch.Tensor) else None
    constant: torch.Tensor | None = getattr(tensor, "constant", None)
    if constant is not None:
        return constant
    kept = tensor.__dict__.get("known")
    return kept.tensor if kept is not None and kept.valid[0] else None


def small(tensor: torch.Tensor) -> bool:
    whole = not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
    return tensor.numel() <= (MOST_WHOLE if whole else MOST_FLOATS)


real = torch._C._DisableTorchDispatch
"""A context in which operators run for real, on the CPU."""


def count(mask: torch.Tensor) -> int:
    """Return how many elements a known mask selects."""
    with real():
        return int(mask.count_nonzero())


def forget(tensor: Any) -> None:
    """Note that something unknown was written into this tensor."""
    if isinstance(tensor, FakeTensor):
        kept = tensor.__dict__.get("known")
        if kept is not None:
            kept.valid[0] = False
            tensor.constant = None


# ------------------------------------------------------------------ made-up values


class Guess(int):
    """A whole number that was made up for a value on the GPU, or computed from one."""

    def __reduce__(self) -> Any:
        return int, (int(self),)


class Reading(float):
    """Likewise a number with a fraction."""

    def __reduce__(self) -> Any:
        return float, (float(self),)


def _guessed(value: Any) -> Any:
    kind = {int: Guess, float: Reading}.get(type(value))
    return value if kind is None else kind(value)


def _closed(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: _guessed(plain(*values))


def _compared(plain: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Any, other: Any) -> Any:
        found = plain(self, other)
        return truths.answer(found) if isinstance(found, bool) else found

    return compare


for _kind, _plain in ((Guess, int), (Reading, float)):
    for _name in (
        "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv",
        "rfloordiv", "mod", "rmod", "neg", "abs", "pos",
    ):  # fmt: skip
        setattr(_kind, f"__{_name}__", _closed(getattr(_plain, f"__{_name}__")))
    for _name in ("lt", "le", "gt", "ge"):
        setattr(_kind, f"__{_name}__", _compared(getattr(_plain, f"__{_name}__")))


class Truths:
    """The answer to `if tensor:` and `if loss.item() < best:` where the values are unknown.

    Usually it is False, or what follows from 1. In one step the first `MOST` answers are the
    other ones, to see whether a branch on them changes what the step needs. A loop that waits for
    the usual one then still ends. After the steps the first `MOST` truths are True: `if accuracy >
    best` keeps the weights.
    """

    MOST = 32

    def __init__(self) -> None:
        self.left = self.eager = 0
        self.line: str | None = None
        """The user's line that got the latest other answer."""

    def try_other(self) -> None:
        self.left, self.line = self.MOST, None

    def answer(self, usual: bool) -> bool:
        if self.left <= 0:
            return usual
        self.left -= 1
        self.line = lines.here() or self.line
        return not usual


truths = Truths()


def made_up(dtype: torch.dtype) -> Any:
    """Return a value of this type for one that is unknown."""
    if dtype == torch.bool:
        truths.eager -= truths.eager > 0
        return truths.eager > 0 or truths.answer(False)
    if dtype.is_complex:
        return complex(1.0)
    if dtype.is_floating_point:  # for `float(loss) < best`, which gets a plain number
        return SMALL if truths.answer(False) else 1.0
    return Guess(1)


def array(tensor: Any) -> torch.Tensor:
    """Return a real tensor on the CPU with the known values, or with made-up ones."""
    values = known(tensor)
    if values is not None:
        return values.detach()
    if tensor.numel() > _MOST_READ:
        raise MemoryError(f"a tensor of {tensor.numel()} elements was read from the GPU")
    make = torch.ones if tensor.dtype.is_floating_point else torch.zeros
    with real():
        return make(tuple(tensor.shape), dtype=tensor.dtype, device="cpu")


_SIZED = frozenset(
    name
    for name in (
        "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace", "eye",
        "randperm", "new_zeros", "new_ones", "new_empty", "new_full", "view", "reshape", "expand",
        "repeat", "narrow", "split", "chunk", "topk", "pad", "interpolate", "one_hot", "tile",
        "repeat_interleave", "unfold", "resize_", "tril", "triu", "broadcast_to", "__getitem__",
    )
)  # fmt: skip


class Sizes(TorchFunctionMode):
    """Calls `found()` if a made-up number becomes a size of a tensor, and lets all be finite."""

    def __init__(self, found: Callable[[], None]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _SIZED and _has_guess((args, kwargs), name in _BY_LISTS):
            self._found()
        result = func(*args, **(kwargs or {}))
        if name in _USUAL and isinstance(result, torch.Tensor):
            suppose(result, result.numel(), _USUAL[name])
        return result


_USUAL = {"isfinite": True, "isnan": False, "isinf": False}
"""What holds for all values of a training that goes on: scripts end, or skip a step, otherwise."""


def suppose(tensor: Any, number: int, value: int, first: int = 0) -> None:
    """Let `number` elements of a tensor without known values, from the `first` on, be `value`, and
    the others zero."""
    if type(tensor) is FakeTensor and known(tensor) is None and small(tensor):
        with real():
            made = torch.zeros(tuple(tensor.shape), dtype=tensor.dtype)
            made.flatten()[first : first + number] = value
        tensor.known = Known(made, [True])


_BY_LISTS = frozenset(("full", "new_full", "randint", "linspace", "__getitem__"))
"""Of these only sizes in a list, or the ends of a slice, count: other numbers are values."""


def _has_guess(arguments: tuple[Any, Any], by_lists: bool) -> bool:
    positional, keywords = arguments
    for value in (*positional, *(keywords or {}).values()):
        if isinstance(value, Guess) and not by_lists:
            return True
        parts = value if isinstance(value, (list, tuple)) else (value,)
        for part in parts[:64]:
            if isinstance(part, slice):
                if any(isinstance(end, Guess) for end in (part.start, part.stop, part.step)):
                    return True
            elif isinstance(part, Guess) and parts is value:
                return True
    return False


# ------------------------------------------------------------------ fake tensors in Python


def begin() -> None:
    """Let fake tensors be printed, converted, indexed, assigned and copied like others."""
    fake: Any = FakeTensor
    fake.__format__ = _format
    fake.numpy = fake.__array__ = _numpy
    fake.tolist = _list
    fake.item = _item
    fake.__deepcopy__ = _deep_copy
    fake.__reduce_ex__ = _reduced
    _index_with_lists()
    _inference_mode()


def _format(self: Any, spec: str) -> str:
    return format(self.item(), spec) if self.dim() == 0 else object.__format__(str(self), spec)


def _numpy(self: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    values = array(self)
    with real():
        result = values.numpy()
    return result if dtype is None or isinstance(dtype, bool) else result.astype(dtype)


def _item(self: Any) -> Any:
    """PyTorch's own would return a plain number for a made-up one."""
    if known(self) is not None or self.dtype.is_complex or self.dtype == torch.bool:
        return _torch._C.TensorBase.item(self)
    left, truths.left = truths.left, 0  # the comparison gets the other answer, not the value
    try:
        return _guessed(_torch._C.TensorBase.item(self))
    finally:
        truths.left = left


def _list(self: Any) -> Any:
    values = array(self)
    with real():
        return values.tolist()


def _deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    done = memo.get(id(self))
    if done is not None:
        return done
    with torch.no_grad():
        copy = self.detach().clone()
    if isinstance(self, torch.nn.Parameter):
        copy = torch.nn.Parameter(copy, self.requires_grad)
    else:
        copy.requires_grad_(self.requires_grad)
    if self.grad is not None:
        copy.grad = self.grad.clone()
    memo[id(self)] = copy
    return copy


def _reduced(self: Any, protocol: int) -> Any:
    """A tensor in a pickle has its shape, and no values."""
    return _unpickled, (tuple(self.shape), self.dtype, self.device.type)


def _unpickled(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Any:
    return torch.empty(shape, dtype=dtype, device=device)


def _index_with_lists() -> None:
    """Move lists and arrays in an index to the GPU first: PyTorch would make them there."""
    tensor: Any = torch.Tensor
    get, put = tensor.__getitem__, tensor.__setitem__

    def moved(self: Any, key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(moved(self, each) for each in key)
        if isinstance(key, (list, range)) or type(key).__module__ == "numpy":
            made = torch.as_tensor(list(key) if isinstance(key, range) else key)
            return made.to(self.device) if made.dim() else key
        return key

    def get_item(self: Any, key: Any) -> Any:
        if isinstance(self, FakeTensor) and not isinstance(key, (int, slice)):
            key = moved(self, key)
        return get(self, key)

    def set_item(self: Any, key: Any, value: Any) -> None:
        if isinstance(self, FakeTensor):
            if not isinstance(key, (int, slice)):
                key = moved(self, key)
            if isinstance(value, torch.Tensor):
                value = value.to(self.device) if value.device != self.device else value
            elif isinstance(value, (list, tuple)) or type(value).__module__ == "numpy":
                value = torch.as_tensor(value).to(self.device)
            else:
                value = torch.full((), value, dtype=self.dtype, device=self.device)
        elif isinstance(value, FakeTensor):
            # A tensor on the CPU gets made-up values.
            value = array(value)
        put(self, key, value)

    tensor.__getitem__ = get_item
    tensor.__setitem__ = set_item


def _inference_mode() -> None:
    """Use `no_grad` for it: fake tensors do not know tensors of inference."""

    def inference_mode(mode: Any = True) -> Any:
        if callable(mode):
            return torch.no_grad()(mode)
        return torch.no_grad() if mode else torch.enable_grad()

    _torch.inference_mode = inference_mode
    _torch.autograd.inference_mode = inference_mode
