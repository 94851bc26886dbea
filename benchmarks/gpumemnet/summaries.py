"""A PyTorch module's summary as records, from one forward pass on the meta device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from radrm.estimators.summaries.layers import Form, Layer, ModelSummary, Shape


def summary_of(model: nn.Module, *inputs: Any) -> ModelSummary:
    """What `torchsummary` would list of it: one row per module and call, in order of
    return; the model itself and plain sequences have none."""
    layers: list[Layer] = []

    def note(module: nn.Module, _given: object, output: object) -> None:
        shapes = tuple(_shapes(output))
        own = sum(p.numel() for p in module.parameters(recurse=False))
        layers.append(Layer(kind=type(module).__name__, shapes=shapes, parameters=own))

    hooks = [
        module.register_forward_hook(note)
        for module in model.modules()
        if module is not model and not isinstance(module, nn.Sequential | nn.ModuleList)
    ]
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return ModelSummary(
        form=Form.TORCHSUMMARY,
        layers=tuple(layers),
        parameters=sum(p.numel() for p in model.parameters()),
    )


def _shapes(output: object) -> list[Shape]:
    """Shapes of all tensors in an output, batch dimension cut off."""
    if isinstance(output, torch.Tensor):
        return [tuple(output.shape[1:])]
    if isinstance(output, tuple | list):
        return [shape for each in output for shape in _shapes(each)]
    if isinstance(output, dict):
        return [shape for each in output.values() for shape in _shapes(each)]
    return []
