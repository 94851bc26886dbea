"""Factories for the models of the published jobs, for `radrm.tracer` and for measurements.

    vision       ImageNet CNNs (torchvision, and timm's Xception), and an MNIST CNN
    cifar        timm's models for 32 x 32 images
    text         language models of transformers, from their configurations
    timm_models  any model of timm, by name
    train        trains one of them on made-up data

No weights are ever downloaded. The published scripts are not at hand: what is not in the
job files or model summaries (sequence lengths, optimizers) is said in each file.
"""

from __future__ import annotations

import re
import sys


def allow_torchvision() -> None:
    """Let `import torchvision` succeed beside a PyTorch that its own operators do not fit.

    torchvision built for CUDA cannot load them beside a PyTorch without CUDA, and then
    fails to describe them. The models here use none.
    """
    for _ in range(30):
        try:
            import torchvision  # noqa: F401

            return
        except ImportError:
            return
        except (RuntimeError, AttributeError) as error:
            _define(str(error))
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]


def _define(error: str) -> None:
    """Declare the operator that an error misses; it is never called."""
    import torch

    missing = re.search(r"operator torchvision::(\w+) does not exist", error)
    if missing is not None:
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define(f"{missing[1]}(Tensor x) -> Tensor")
        _kept.append(library)


_kept: list[object] = []
