"""What one operation of a training step reads, makes and keeps for its backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Operation:
    """Tensors are numbers into `Network.sizes`.

    `output`: what it makes; one of its inputs where it works in place or is a view.
    `saves`: tensors that its backward reads. `extra`: bytes that it keeps beside them
    (masks, indices, statistics). `weights`: bytes of each of its parameters.
    `forward_workspace`, `backward_workspaces`: bytes that it borrows while it runs, the
    backward's one after the other. `passes`: its gradient is handed on as it is.
    `temporary`: bytes of tensors that its backward makes beside the gradients.
    """

    inputs: tuple[int, ...]
    output: int
    saves: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    forward_workspace: int = 0
    backward_workspaces: tuple[int, ...] = ()
    passes: bool = False
    temporary: int = 0


@dataclass(slots=True)
class Network:
    """A model's forward pass: `sizes` in bytes by tensor, `roots` those it is given.

    Weights that stand in more than one operation are counted once, in the first.
    """

    sizes: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """Tensors that the script itself holds until the next step: the outputs."""
    uses_matrix_products: bool = False
    copied_weights: int = 0
    """Bytes of weights in a lower precision that autocast keeps for the forward pass."""

    reduced: bool = False
    """Gradients are copied once more, to be summed over GPUs."""

    def tensor(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def root(self, size: int) -> int:
        self.roots.append(self.tensor(size))
        return self.roots[-1]
