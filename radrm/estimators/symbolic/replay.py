"""Replay a training step through the caching allocator: what it allocates and reserves."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from radrm.estimators.memory import CachingAllocator, Overheads, rounded
from radrm.estimators.symbolic.operations import Network, Operation, Optimizer

LARGE = 600
"""With more operations one step is replayed instead of two."""

HUGE = 1200
"""With more operations only the allocated bytes are followed."""

FRAGMENTS = 1.17
"""The ratio of reserved to allocated bytes for CNNs (median)."""

SMALL = 1 << 20
"""Parameters up to this many bytes are allocated together: the allocator has segments for them,
and one by one they would take most of the time."""


NEGLIGIBLE = 1 << 16
"""Statistics and similar tensors up to this many bytes are ignored."""


class Peak(Struct, frozen=True):
    """The peaks in bytes: `live` in tensors, `reserved` by the allocator."""

    live: int
    reserved: int


def replay(network: Network, optimizer: Optimizer, on: Overheads) -> Peak:
    """Replay the parameters, a first step, and a second one with the optimizer's state.

    A large network has only the second step, after its state was allocated: that changes the
    fragments by a few per cent and halves the time. A huge network gets the usual ratio of
    fragments.
    """
    huge = len(network.operations) > HUGE
    run = _Run(network, on, _Running() if huge else CachingAllocator())
    run.load()
    if len(network.operations) > LARGE:
        run.make_state(optimizer)
    else:
        run.step(optimizer)
    run.step(optimizer)
    return Peak(run.allocator.peak_allocated, run.allocator.peak_reserved)


class _Running(Struct):
    """The allocated bytes and their peak, with the methods of the allocator."""

    allocated: int = 0
    peak_allocated: int = 0
    sizes: list[int] = field(default_factory=list)

    def allocate(self, size: int) -> int:
        self.sizes.append(size)
        self.allocated += size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated
        return len(self.sizes) - 1

    def free(self, place: int) -> None:
        self.allocated -= self.sizes[place]

    @property
    def peak_reserved(self) -> int:
        return int(self.peak_allocated * FRAGMENTS)


class _Run(Struct):
    network: Network
    on: Overheads
    allocator: CachingAllocator | _Running
    parameters: list[int] = field(default_factory=list)
    """The bytes of each parameter; the small ones are together."""
    large: list[tuple[int, ...]] = field(default_factory=list)
    """The large parameters of each operation."""
    small: list[int] = field(default_factory=list)
    state: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Inputs and outputs of the last step; they stay until the next step has made its own."""
    uses: list[int] = field(default_factory=list)
    saves: list[int] = field(default_factory=list)
    warm: bool = False

    def load(self) -> None:
        network = self.network
        self.large = [
            tuple(size for size in each.weights if size > SMALL) for each in network.operations
        ]
        small = sum(
            rounded(size) for each in network.operations for size in each.weights if size <= SMALL
        )
        self.small = [SMALL] * (small // SMALL) + ([small % SMALL] if small % SMALL else [])
        self.parameters = [size for each in self.large for size in each] + self.small
        for size in self.parameters:
            self.allocator.allocate(size)
        self.uses = [0] * len(network.sizes)
        self.saves = [0] * len(network.sizes)
        for operation in network.operations:
            for tensor in operation.inputs:
                self.uses[tensor] += 1
            for tensor in operation.saves:
                self.saves[tensor] += 1
        for tensor in (*network.roots, *network.kept):
            self.uses[tensor] += 1

    def step(self, optimizer: Optimizer) -> None:
        gradients = self._passes()
        allocate, free = self.allocator.allocate, self.allocator.free
        if self.network.reduced:
            sums = [allocate(size) for size in self.parameters]
            for address in gradients:
                free(address)
            gradients = sums
        self.make_state(optimizer)
        temporary = [
            allocate(size) for _ in range(optimizer.temporaries) for size in self.parameters
        ]
        for address in temporary:
            free(address)
        # The next step first drops the gradients (`zero_grad` sets them to None).
        for address in gradients:
            free(address)

    def make_state(self, optimizer: Optimizer) -> None:
        if not self.state:
            for _ in range(optimizer.states):
                self.state.extend(self.allocator.allocate(size) for size in self.parameters)

    def _passes(self) -> list[int]:
        """Run forward and backward, and return the addresses of the parameters' gradients."""
        network, allocator = self.network, self.allocator
        allocate, free = allocator.allocate, allocator.free
        sizes = network.sizes
        left = [u + s for u, s in zip(self.uses, self.saves, strict=True)]
        address: list[int | None] = [None] * len(sizes)
        for root in network.roots:
            address[root] = allocate(sizes[root])
        for old in self.held:
            free(old)
        extras: list[list[int]] = []
        copies = allocate(network.copied_weights) if network.copied_weights else None

        def release(tensor: int) -> None:
            left[tensor] -= 1
            if not left[tensor]:
                place = address[tensor]
                if place is not None:
                    free(place)
                    address[tensor] = None

        for operation in network.operations:
            output = operation.output
            if address[output] is None:
                address[output] = allocate(sizes[output])
            extras.append([allocate(size) for size in operation.extra if size > NEGLIGIBLE])
            if operation.forward_workspace:
                free(allocate(operation.forward_workspace))
            for tensor in operation.inputs:
                release(tensor)
            if not left[output]:
                left[output] = 1
                release(output)
        if copies is not None:
            free(copies)
        if not self.warm and network.uses_matrix_products:
            # Each of the two threads keeps one handle.
            allocate(self.on.cublas_bytes)
            allocate(self.on.cublas_bytes)
        self.warm = True
        gradients = self._backward(release, extras)
        self.held = [place for place in address if place is not None]
        return gradients

    def _backward(self, release: Callable[[int], None], extras: list[list[int]]) -> list[int]:
        network = self.network
        allocate, free = self.allocator.allocate, self.allocator.free
        sizes, roots = network.sizes, frozenset(network.roots)
        parameters = [allocate(size) for size in self.small]
        pending: dict[int, _Gradient] = {}
        for operation, extra, weights in zip(
            reversed(network.operations), reversed(extras), reversed(self.large), strict=True
        ):
            output = operation.output
            gradient = pending.pop(output, None)
            if gradient is None:
                gradient = _Gradient(allocate(sizes[output]))
            if operation.passes:
                self._pass_on(operation, gradient, pending)
            else:
                if operation.temporary:
                    free(allocate(operation.temporary))
                workspaces = iter(operation.backward_workspaces)
                for tensor in operation.inputs:
                    if tensor in roots:
                        continue
                    place = allocate(sizes[tensor])
                    workspace = next(workspaces, 0)
                    if workspace:
                        free(allocate(workspace))
                    if tensor in pending:
                        free(place)
                    else:
                        pending[tensor] = _Gradient(place)
                for size in weights:
                    parameters.append(allocate(size))
                for workspace in workspaces:
                    if workspace:
                        free(allocate(workspace))
            gradient.holders -= 1
            if not gradient.holders:
                free(gradient.place)
            for place in extra:
                free(place)
            for tensor in operation.saves:
                release(tensor)
        for gradient in {id(each): each for each in pending.values()}.values():
            free(gradient.place)
        return parameters

    @staticmethod
    def _pass_on(operation: Operation, gradient: _Gradient, pending: dict[int, _Gradient]) -> None:
        """Pass a gradient on: all parts of a sum share its memory."""
        for tensor in operation.inputs:
            if tensor not in pending:
                pending[tensor] = gradient
                gradient.holders += 1


class _Gradient(Struct, eq=False):
    place: int
    holders: int = 1
