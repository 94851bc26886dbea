"""Operations of a training step: the tensors that each reads, makes and keeps for backward."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Operation:
    """One operation. Its tensors are indices into `Network.sizes`.

    `output` is one of the inputs if the operation works in place or is a view. `saves` are the
    tensors that the backward pass reads, `extra` the bytes kept beside them (masks, indices,
    statistics). `weights` are the bytes of each parameter. `forward_workspace` and
    `backward_workspaces` are borrowed while it runs; the latter one after the other. `passes`
    says that its gradient is passed on unchanged. `temporary` are the bytes of tensors that
    the backward pass makes beside the gradients.
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
    """A model's forward pass: `sizes` has the bytes of each tensor, `roots` are the inputs.

    Weights that several operations share are counted once, in the first.
    """

    sizes: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """The outputs, which the script holds until the next step."""
    uses_matrix_products: bool = False
    copied_weights: int = 0
    """Bytes of the copies of weights in lower precision that autocast keeps in the forward pass."""

    reduced: bool = False
    """The gradients have one more copy, for their sum over GPUs."""

    def tensor(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def root(self, size: int) -> int:
        self.roots.append(self.tensor(size))
        return self.roots[-1]
