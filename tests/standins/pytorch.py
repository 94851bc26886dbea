"""A stand-in of PyTorch: as much of it as counts optimizer steps."""

OPTIMIZER = """
hooks = []
def register_optimizer_step_post_hook(hook): hooks.append(hook)
class Optimizer:
    def step(self):
        for hook in hooks: hook(self, (), {})
"""
"""The text of `torch.optim.optimizer`, with the hook that each step calls."""
