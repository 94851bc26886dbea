"""`torch.optim`."""


class SGD:
    def __init__(self, parameters, lr):
        pass

    def zero_grad(self):
        pass

    def step(self):
        pass
