"""DataParallel and DistributedDataParallel, as GPU 0 sees them.

Tensors on other GPUs are left out. Copies that arrive on GPU 0 from them are counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from pretend import CUDA
from torch.utils._pytree import tree_flatten, tree_map

COALESCED = 10 << 20
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20


class _Replicate(torch.autograd.Function):
    """The weights of replica 0. The backward pass sums the replicas' gradients on GPU 0.

    As in `torch/nn/parallel/comm.py`, `reduce_add_coalesced`: each group of 10 MiB is made
    flat and added into a new flat tensor. The gradients are views of it.
    """

    @staticmethod
    def forward(ctx: Any, *weights: torch.Tensor) -> Any:
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        reduced: list[Any] = [None] * len(gradients)
        group: list[int] = []
        size = 0
        for at, gradient in enumerate(gradients):
            if gradient is None:
                continue
            group.append(at)
            size += gradient.numel() * gradient.element_size()
            if size >= COALESCED:
                _add_group(gradients, group, reduced)
                group, size = [], 0
        _add_group(gradients, group, reduced)
        return tuple(reduced)


def _add_group(gradients: Any, group: list[int], reduced: list[Any]) -> None:
    if not group:
        return
    flat = [gradients[at].contiguous().view(-1) for at in group]
    whole = torch.cat(flat) if len(flat) > 1 else flat[0]
    result, start = torch.empty_like(whole), 0
    for at in group:
        gradient = gradients[at]
        reduced[at] = result[start : start + gradient.numel()].view(gradient.shape)
        start += gradient.numel()


class _Gather(torch.autograd.Function):
    """The outputs of all replicas, joined on GPU 0."""

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, whole: int) -> Any:
        ctx.shape = part.shape
        if not part.dim():
            return part.new_empty((whole,))
        return part.new_empty((whole, *part.shape[1:]))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if not ctx.shape:
            return gradient[0], None
        return gradient[: ctx.shape[0]], None


class DataParallel(torch.nn.Module):
    """`torch.nn.DataParallel` over `gpus` GPUs."""

    def __init__(self, module: torch.nn.Module, gpus: int) -> None:
        super().__init__()
        self.module, self.gpus = module, gpus

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        batch = max((leaf.shape[0] for leaf in leaves if leaf.dim()), default=0)
        parts = min(self.gpus, batch) or 1
        if parts == 1:
            return self.module(*args, **kwargs)
        share = -(-batch // parts)

        def chunk(value: Any) -> Any:
            whole = isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == batch
            return value[:share] if whole else value

        def gather(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            alone = not value.dim() or value.shape[0] != share
            return _Gather.apply(value, parts if alone else batch)

        args, kwargs = tree_map(chunk, args), tree_map(chunk, kwargs)
        named = dict(self.module.named_parameters())
        if torch.is_grad_enabled():
            named = dict(zip(named, _Replicate.apply(*named.values())))  # noqa: B905
        output = torch.func.functional_call(self.module, named, args, kwargs)
        return tree_map(gather, _plain(output))


def _plain(output: Any) -> Any:
    """Return an output without mapping classes of a library, such as those of `transformers`.

    PyTorch's tree functions know plain containers only.
    """
    if isinstance(output, dict) and type(output) is not dict:
        return _Output({key: _plain(value) for key, value in output.items()})
    if isinstance(output, (list, tuple)):
        return tuple(_plain(value) for value in output)
    return output if isinstance(output, (torch.Tensor, dict)) else None


class _Output(dict):  # type: ignore[type-arg]
    """A dict whose values are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


_register = getattr(torch.utils._pytree, "register_pytree_node", None)
(_register or torch.utils._pytree._register_pytree_node)(
    _Output,
    lambda d: (list(d.values()), list(d)),
    lambda values, keys: _Output(zip(keys, values)),  # noqa: B905
)


class Buckets:
    """The flat copies of all gradients, which DistributedDataParallel reduces.

    As in `torch/csrc/distributed/c10d/reducer.cpp`: the first bucket has 1 MiB, the others
    25 MiB, in the reverse order of the parameters. They are replaced before the second step.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._weights = [w for w in module.parameters() if w.requires_grad]
        self._steps = 0
        self._buckets = self._made()

    def take_gradients(self) -> None:
        """Let each gradient be a view of its bucket, as `gradient_as_bucket_view` does."""
        for weight in self._weights:
            weight.register_post_accumulate_grad_hook(self._into_bucket)

    def _into_bucket(self, weight: torch.Tensor) -> None:
        # Any bucket of the type does: only the view's size matters, and it takes no memory.
        bucket = next(b for b in self._buckets if b.dtype == weight.dtype)
        weight.grad = bucket[:1].expand(weight.numel()).view(weight.shape)

    def before_step(self) -> None:
        self._steps += 1
        if self._steps == 2:
            self._buckets = []
            self._buckets = self._made()

    def _made(self) -> list[torch.Tensor]:
        buckets, elements, size, limit = [], 0, 0, FIRST_BUCKET
        dtype = None
        for weight in reversed(self._weights):
            if dtype not in (None, weight.dtype) or size >= limit:
                buckets.append(torch.empty(elements, dtype=dtype, device=CUDA))
                elements, size, limit = 0, 0, BUCKET
            dtype = weight.dtype
            elements += weight.numel()
            size += weight.numel() * weight.element_size()
        if elements:
            buckets.append(torch.empty(elements, dtype=dtype, device=CUDA))
        return buckets


class DistributedDataParallel(torch.nn.Module):
    """`torch.nn.parallel.DistributedDataParallel` in one of its processes."""

    def __init__(
        self, module: torch.nn.Module, *args: Any, gradient_as_bucket_view: bool = False, **_: Any
    ) -> None:
        super().__init__()
        self.module, self.device, self.device_ids = module, CUDA, [0]
        self.require_backward_grad_sync = True
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self._buckets_of_gradients = Buckets(module)
        if gradient_as_bucket_view:
            self._buckets_of_gradients.take_gradients()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            self._buckets_of_gradients.before_step()
        return self.module(*on_gpu(args), **on_gpu(kwargs))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def join(self, *_: Any, **__: Any) -> Iterator[None]:
        yield

    def _set_static_graph(self) -> None:
        pass

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        pass


def on_gpu(value: Any) -> Any:
    """Return the value with its tensors on the CPU moved to the GPU."""
    return tree_map(
        lambda t: t.to(CUDA) if isinstance(t, torch.Tensor) and t.device.type == "cpu" else t, value
    )
