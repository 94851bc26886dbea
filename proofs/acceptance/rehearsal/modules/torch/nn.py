"""`torch.nn`: layers that are only named, and a loss whose gradient takes time."""

from .work import context


class _Layer:
    def __init__(self, *given):
        pass

    def to(self, device):
        return self

    def parameters(self):
        return []

    def __call__(self, *given):
        return self

    def backward(self):
        context().enqueue(2e-4, 0.3)


Conv2d = ReLU = MaxPool2d = Flatten = Linear = Sequential = CrossEntropyLoss = _Layer
