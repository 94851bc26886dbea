"""`torch.nn`: layers that are only named, and a loss whose gradient takes time."""

from .work import context

_LAYER_S = 2e-5


class _Layer:
    made = 0

    def __init__(self, *given, **options):
        _Layer.made += 1

    def to(self, device):
        return self

    def parameters(self):
        return []

    def __call__(self, *given):
        return self

    def backward(self):
        context().enqueue(_LAYER_S * _Layer.made, 0.3)


Module = Sequential = Conv2d = BatchNorm2d = ReLU = MaxPool2d = AdaptiveAvgPool2d = _Layer
Flatten = Identity = Linear = CrossEntropyLoss = _Layer
