"""As much of PyTorch as tests/gpu/programs use. Its memory is lines of a file, its work sleep."""

from . import cuda, nn, optim, profiler
from .work import OutOfMemoryError, Tensor, context

__all__ = ["OutOfMemoryError", "Tensor", "cuda", "nn", "optim", "profiler"]

uint8, bfloat16, float32 = 1, 2, 4


def _made(shape, size):
    count = 1
    for each in shape:
        count *= each
    return Tensor(context().take(count * size), shape)


def empty(count, dtype=float32, device=None):
    return _made((count,), dtype)


zeros = empty


def randn(*shape, device=None, dtype=float32):
    return _made(shape, dtype)


def randint(low, high, shape, device=None):
    return _made(shape, 8)


def empty_like(other):
    return Tensor(context().take(other.held.size), other.shape)


def matmul(a, b, out=None):
    size = a.shape[0]
    context().enqueue(max(2e-5, 2.5e-12 * 1e-3 * size**3), 1.0)
    return out
