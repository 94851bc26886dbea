"""The table of a model's layers in the form of torchsummary, in the order in which they end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

MAX_ROWS = 5000
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
_RULE = "-" * 64
_DOUBLE_RULE = "=" * 64


class Table:
    """The rows of a forward pass. `text` is empty without rows, or with too many."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, list[list[int]], int]] = []
        self._model: Any = None

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Add a row for each layer that runs in a forward pass inside the `with` block."""
        self._model = model
        hooks = [
            module.register_forward_hook(self._ran)
            for module in model.modules()
            if module is not model and type(module).__name__ not in _CONTAINERS
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _ran(self, module: Any, inputs: Any, output: Any) -> None:
        shapes = list(_shapes(output))[:8]
        if shapes and len(self._rows) < MAX_ROWS:
            own = sum(w.numel() for w in module.parameters(recurse=False))
            self._rows.append((type(module).__name__, shapes, own))

    def text(self) -> str:
        if not self._rows or len(self._rows) >= MAX_ROWS:
            return ""
        lines = [_RULE, f"{'Layer (type)':>20}  {'Output Shape':>25} {'Param #':>15}", _DOUBLE_RULE]
        for number, (kind, shapes, own) in enumerate(self._rows, 1):
            shown = str(shapes[0]) if len(shapes) == 1 else str(shapes)
            lines.append(f"{f'{kind}-{number}':>20}  {shown:>25} {own:>15,}")
        weights = {id(w): w for w in self._model.parameters()}.values()
        total = sum(w.numel() for w in weights)
        trainable = sum(w.numel() for w in weights if w.requires_grad)
        lines += [
            _DOUBLE_RULE,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
            _RULE,
        ]
        return "\n".join(lines) + "\n"


def _shapes(output: Any) -> Iterator[list[int]]:
    """Yield the shapes of the tensors in a module's output, batch dimension first."""
    if isinstance(output, torch.Tensor):
        if output.dim():
            yield [int(size) for size in output.shape]
    elif isinstance(output, (list, tuple)):
        for each in output:
            yield from _shapes(each)
    elif isinstance(output, dict):
        for each in output.values():
            yield from _shapes(each)
