"""Answer a model's call without gradient from an earlier call with the same shapes.

An evaluation before the first step, such as nanoGPT's of 200 batches, allocates the same in each
batch. Its first two calls run; a further one of the same shapes gets tensors like the second's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten, tree_unflatten

RUN = 2
_MOST_KEYS = 256
_SIMPLE = (int, float, bool, str, type(None))


class Evaluation:
    """The calls that were made without gradient, by module and shapes."""

    def __init__(self, script: Any) -> None:
        self._script = script
        self._seen: dict[Any, tuple[int, Any]] = {}
        self._depth = 0

    def begin(self) -> None:
        module: Any = torch.nn.Module
        call = module.__call__

        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth or this.training or torch.is_grad_enabled():
                return call(this, *args, **kwargs)
            return self._call(call, this, args, kwargs)

        module.__call__ = called

    def forget(self) -> None:
        """Run each call again: from now on more memory may be in use beside it."""
        self._seen.clear()

    def _call(self, call: Any, module: Any, args: Any, kwargs: Any) -> Any:
        key = _key(module, args, kwargs)
        times, answer = self._seen.get(key, (0, None))
        if answer is not None and times >= RUN:
            self._script.skip("evaluation")
            return _again(answer)
        self._depth += 1
        try:
            output = call(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if key is not None and len(self._seen) < _MOST_KEYS:
            self._seen[key] = (times + 1, _described(output))
        return output


def _key(module: Any, args: Any, kwargs: Any) -> Any:
    """Return what the result's shapes depend on. None: it may depend on more."""
    leaves = tree_flatten((args, kwargs))[0]
    parts: list[Any] = [id(module), torch.is_autocast_enabled()]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            parts.append((tuple(leaf.shape), leaf.dtype, leaf.device.type))
        elif isinstance(leaf, _SIMPLE):
            parts.append(leaf)
        else:
            return None
    return tuple(parts)


def _described(output: Any) -> Any:
    """Return an output's structure without its tensors. None: it has other parts."""
    leaves, form = tree_flatten(output)
    if not any(isinstance(leaf, FakeTensor) for leaf in leaves):
        return None
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, FakeTensor):
            found.append((tuple(leaf.shape), leaf.dtype, leaf.device))
        elif isinstance(leaf, _SIMPLE):
            found.append(leaf)
        else:
            return None
    return found, form


def _again(answer: Any) -> Any:
    leaves = [
        torch.empty(leaf[0], dtype=leaf[1], device=leaf[2]) if isinstance(leaf, tuple) else leaf
        for leaf in answer[0]
    ]
    return tree_unflatten(leaves, answer[1])
