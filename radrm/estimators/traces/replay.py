"""Replay the events of a traced training step through PyTorch's caching allocator.

Between the events a document names calls of libraries, which borrow memory that the
tracer cannot see: cuBLAS keeps a workspace for each handle, cuBLASLt and a convolution
borrow one while they run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from radrm.estimators.memory.allocator import CachingAllocator
from radrm.estimators.memory.overheads import Overheads, overheads
from radrm.estimators.memory.workspaces import Convolution, Pass, workspace_bytes
from radrm.estimators.traces.document import CUBLAS, CUBLASLT, Call, Document

_PASSES = {2: Pass.FORWARD, 3: Pass.DATA, 4: Pass.WEIGHT}


@dataclass(slots=True)
class Replay:
    """The result, in bytes and without the CUDA context.

    `peak_need` is the most that was allocated at one time without the workspaces of calls,
    `peak_reserved` the most that the allocator reserved. `marks` holds, for each mark of the
    document, its name and what was allocated and reserved there.
    """

    peak_need: int = 0
    peak_reserved: int = 0
    largest_workspace: int = 0
    marks: tuple[tuple[str, int, int], ...] = ()


def replayed(document: object, device_kind: str | None = None) -> Replay:
    """Replay a tracer's document on a GPU of this kind. Raises `BadFile`."""
    read = Document(document)
    events, calls, marks = read.events(), read.calls(), read.marks()
    run = _Run(read.convolutions(), overheads(device_kind))
    memory, addresses = run.memory, run.addresses
    next_call = next_mark = 0
    for at in range(len(events) + 1):
        while next_mark < len(marks) and marks[next_mark][0] <= at:
            run.mark(marks[next_mark][1])
            next_mark += 1
        while next_call < len(calls) and calls[next_call][0] <= at:
            run.call(calls[next_call])
            next_call += 1
        if at == len(events):
            break
        # Inline: a document has millions of events.
        event = events[at]
        if event > 0:
            addresses.append(memory.allocate(event))
            continue
        number = -event - 1
        address = addresses[number] if number < len(addresses) else None
        if address is None:
            raise Document.bad("it frees something that it did not allocate")
        memory.free(address)
        addresses[number] = None
    return run.result()


@dataclass(slots=True)
class _Run:
    convolutions: list[Convolution]
    on: Overheads
    memory: CachingAllocator = field(default_factory=CachingAllocator)
    addresses: list[int | None] = field(default_factory=list)
    """By allocation, in order; None once it is freed."""
    marks: list[tuple[str, int, int]] = field(default_factory=list)
    handles: set[int] = field(default_factory=set)
    peak_need: int = 0
    largest_workspace: int = 0

    def mark(self, name: str) -> None:
        self.marks.append((name, self.memory.allocated, self.memory.reserved))

    def call(self, call: Call) -> None:
        _, kind, number = call
        if kind == CUBLAS:
            if number not in self.handles:
                self.handles.add(number)
                self.memory.allocate(self.on.cublas_bytes)
            return
        if kind == CUBLASLT:
            size = self.on.cublaslt_bytes
        elif number < len(self.convolutions):
            size = workspace_bytes(self.convolutions[number], _PASSES[kind], self.on)
        else:
            raise Document.bad("a call names a convolution that it does not describe")
        # The peak without workspaces: cuDNN can do without them where memory is short.
        self.peak_need = max(self.peak_need, self.memory.peak_allocated)
        if size:
            self.memory.free(self.memory.allocate(size))
        self.memory.reset_allocated_peak()
        self.largest_workspace = max(self.largest_workspace, size)

    def result(self) -> Replay:
        return Replay(
            peak_need=max(self.peak_need, self.memory.peak_allocated),
            peak_reserved=self.memory.peak_reserved,
            largest_workspace=self.largest_workspace,
            marks=tuple(self.marks),
        )
