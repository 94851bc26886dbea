"""Copy batches to the GPU, and compute a loss if the user gives none."""

from __future__ import annotations

from typing import Any

import torch
from pretend import CUDA
from torch.utils._pytree import tree_flatten, tree_map


def copied(value: Any) -> Any:
    """Return a copy on the GPU."""
    return tree_map(lambda t: t.to(CUDA) if isinstance(t, torch.Tensor) else t, value)


def resized(value: Any, old: int, new: int) -> Any:
    """Return the batch with `new` samples instead of `old`."""

    def one(tensor: Any) -> Any:
        if isinstance(tensor, torch.Tensor) and tensor.dim() and tensor.shape[0] == old:
            return tensor.new_empty((new, *tensor.shape[1:]))
        return tensor

    return tree_map(one, value)


def call(model: Any, batch: Any) -> Any:
    """Call the model with a batch: keyword arguments, positional arguments, or one tensor."""
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)


def usual_loss(output: Any, targets: Any, inputs: Any) -> Any:
    """Return the model's own loss, else a cross-entropy if the output looks like classes, else
    a sum."""
    own = getattr(output, "loss", None)
    if own is None and isinstance(output, dict):
        own = output.get("loss")
    if isinstance(own, torch.Tensor):
        return own
    if isinstance(output, dict) or hasattr(output, "keys"):
        output = next(v for v in output.values() if isinstance(v, torch.Tensor))
    if isinstance(output, (tuple, list)):
        parts = [part for part in output if isinstance(part, torch.Tensor) and is_float(part)]
        loss = _one_loss(parts[0], targets, inputs)
        if hasattr(output, "aux_logits") and len(parts) > 1:
            loss = loss + 0.4 * _one_loss(parts[1], targets, inputs)
        return loss
    return _one_loss(output, targets, inputs)


def _one_loss(output: Any, targets: Any, inputs: Any) -> Any:
    functional = torch.nn.functional
    if targets is not None:
        if not is_float(targets):
            if output.dim() == 3 and targets.dim() == 2:
                output, targets = output.reshape(-1, output.shape[-1]), targets.reshape(-1)
            return functional.cross_entropy(output, targets)
        return functional.mse_loss(output, targets)
    if output.dim() < 2 or output.shape[1] < 2:
        return output.sum()
    if output.dim() == 3:
        output = output.reshape(-1, output.shape[-1])
    labels = torch.empty(
        (output.shape[0], *output.shape[2:]), dtype=torch.long, device=output.device
    )
    return functional.cross_entropy(output, labels)


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def tensors(value: Any) -> list[Any]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def size_of(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
