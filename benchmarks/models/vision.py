"""CNNs on images of ImageNet's size, as the published summaries show them, and on MNIST.

Inception v3 without its auxiliary output and at 299 x 299, the others at 224 x 224.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.models import allow_torchvision

CLASSES = 1000


def _images(model: nn.Module, batch_size: int, size: int = 224) -> tuple[object, object, object]:
    images = torch.zeros(batch_size, 3, size, size)
    return model, images, torch.zeros(batch_size, dtype=torch.long)


def _torchvision(name: str, **options: object) -> nn.Module:
    allow_torchvision()
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **options)


def resnet50(batch_size: int = 32) -> object:
    return _images(_torchvision("resnet50"), batch_size)


def vgg16(batch_size: int = 32) -> object:
    return _images(_torchvision("vgg16"), batch_size)


def inception(batch_size: int = 32) -> object:
    model = _torchvision("inception_v3", aux_logits=False, init_weights=False)
    return _images(model, batch_size, 299)


def mobilenet_v2(batch_size: int = 32) -> object:
    return _images(_torchvision("mobilenet_v2"), batch_size)


def efficientnet_b0(batch_size: int = 32) -> object:
    return _images(_torchvision("efficientnet_b0"), batch_size)


def xception(batch_size: int = 32) -> object:
    allow_torchvision()
    import timm

    return _images(timm.create_model("legacy_xception", pretrained=False), batch_size)


class MnistCnn(nn.Module):
    """PyTorch's own MNIST example, which the published summary shows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu(self.conv1(images))
        x = nn.functional.relu(self.conv2(x))
        x = self.dropout1(nn.functional.max_pool2d(x, 2))
        x = nn.functional.relu(self.fc1(torch.flatten(x, 1)))
        return nn.functional.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def mnist_cnn(batch_size: int = 64) -> object:
    labels = torch.zeros(batch_size, dtype=torch.long)
    return MnistCnn(), torch.zeros(batch_size, 1, 28, 28), labels, nn.functional.nll_loss


class _Double(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        layers: list[nn.Module] = []
        for width in (inside, outside):
            layers += [
                nn.Conv2d(width, outside, 3, padding=1, bias=False),
                nn.BatchNorm2d(outside),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*layers)


class UNet(nn.Module):
    """The usual U-Net: four levels, 64 to 1024 channels, transposed convolutions."""

    def __init__(self, channels: int = 3, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.first = _Double(channels, width)
        self.down = nn.ModuleList(
            _Double(a, b)
            for a, b in zip(widths, widths[1:])  # noqa: B905, RUF007
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(wide, wide // 2, 2, stride=2) for wide in reversed(widths[1:])
        )
        self.joined = nn.ModuleList(_Double(wide, wide // 2) for wide in reversed(widths[1:]))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        levels = [self.first(images)]
        for down in self.down:
            levels.append(down(nn.functional.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, joined in zip(self.up, self.joined):  # noqa: B905
            x = joined(torch.cat([levels.pop(), up(x)], dim=1))
        return self.last(x)


def unet(batch_size: int = 8) -> object:
    labels = torch.zeros(batch_size, 256, 256, dtype=torch.long)
    return UNet(), torch.zeros(batch_size, 3, 256, 256), labels
