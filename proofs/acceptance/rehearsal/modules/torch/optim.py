"""`torch.optim`."""


class SGD:
    def __init__(self, parameters, lr, momentum=0.0):
        pass

    def zero_grad(self):
        pass

    def step(self):
        pass
