"""timm's models on CIFAR-100: 32 x 32 images, 100 classes, as the published summaries show."""

from __future__ import annotations

import torch

from benchmarks.models import allow_torchvision


def _model(name: str, batch_size: int) -> tuple[object, object, object]:
    allow_torchvision()
    import timm

    model = timm.create_model(name, pretrained=False, num_classes=100)
    labels = torch.zeros(batch_size, dtype=torch.long)
    return model, torch.zeros(batch_size, 3, 32, 32), labels


def resnet18(batch_size: int = 32) -> object:
    return _model("resnet18", batch_size)


def resnet34(batch_size: int = 32) -> object:
    return _model("resnet34", batch_size)


def efficientnet_b0(batch_size: int = 32) -> object:
    return _model("efficientnet_b0", batch_size)


def mobilenet(batch_size: int = 32) -> object:
    """MobileNetV3-small (thesis, Table 6.2); the summary published for it is another's."""
    return _model("mobilenetv3_small_100", batch_size)
