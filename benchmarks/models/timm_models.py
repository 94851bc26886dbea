"""Any model of timm, by name: `benchmarks.models.timm_models:NAME`, at its own image size."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.models import allow_torchvision

CLASSES = 1000


def __getattr__(name: str) -> Callable[..., object]:
    if name.startswith("__"):
        raise AttributeError(name)

    def factory(batch_size: int = 32) -> object:
        allow_torchvision()
        import timm
        from timm.data import resolve_model_data_config

        model = timm.create_model(name.replace("__dot__", "."), pretrained=False)
        shape = resolve_model_data_config(model)["input_size"]
        labels = torch.zeros(batch_size, dtype=torch.long)
        return model, torch.zeros(batch_size, *shape), labels

    return factory
