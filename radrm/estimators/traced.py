"""What a trace of a training step tells: a small record, and the replay that makes it.

`radrm.tracer` runs in the user's Python and writes which tensors came and went, as one
JSON document. It comes from the user and is untrusted: every figure is checked and
bounded here. Replayed through the caching allocator, it becomes a `Traced`, whose text
may lie at the end of a model's summary, or beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from radrm.errors import BadFile, plain
from radrm.estimators.allocator import CachingAllocator
from radrm.estimators.overheads import GROWTH, overheads
from radrm.estimators.workspaces import Convolution, Pass, workspace_bytes

HEADING = "Training step traced by radrm"
VERSION = 1

MAX_TEXT = 1 << 21
"""Characters in which a trace's text is looked for, from the end."""
MAX_EVENTS = 4_000_000
MAX_CALLS = 1_000_000
MAX_BYTES = 1 << 50
MOST_GUESSES = 12
_MAX_WORD = 60
_MAX_GUESS = 200
_MAX_BLOCK = 6000
_MAX_DIGITS = 14
_MAX_COUNT = 1 << 40
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced training step. Sizes in MiB, on the fullest GPU, without the CUDA context.

    `need_mib`: the most that is alive at one time, rounded to blocks, without workspaces
    that cuDNN can do without. `reserved_mib`: what PyTorch's allocator likely reserves,
    workspaces and what long runs add included; with the context, it is what `nvidia-smi`
    shows. `workspace_mib`: the largest workspace of one call. `faketensor_mib`: the figure
    that PyTorch's FakeTensor gives as RAD-RM used it. `batch_size` is each GPU's, of
    DataParallel all GPUs' together. `parallel` is `none`, `dp` or `ddp`. `cuda`: the
    version that PyTorch was built with, or `none`. `seconds`: how
    long the trace took. `guesses`: what nobody said of the step and the tracer took for granted,
    each a line that begins with what it is about, such as `batch size`.
    """

    need_mib: float
    reserved_mib: float
    workspace_mib: float
    weights_mib: float
    gradients_mib: float
    optimizer_mib: float
    faketensor_mib: float
    batch_size: int | None = None
    optimizer: str = "adam"
    precision: str = "fp32"
    gpus: int = 1
    parallel: str = "none"
    torch: str = "unknown"
    cuda: str = "unknown"
    seconds: float = 0.0
    guesses: tuple[str, ...] = ()

    @property
    def static_mib(self) -> float:
        """What does not grow with the batch size."""
        return self.weights_mib + self.gradients_mib + self.optimizer_mib

    def to_text(self) -> str:
        """A few lines, for people and `from_text`."""
        rows = [HEADING, "-" * len(HEADING), f"version: {VERSION}"]
        for name, label in _LABELS.items():
            value = getattr(self, name)
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            rows.append(f"{label}: {plain(shown)[:_MAX_WORD]}")
        rows += [f"guess {at}: {line}" for at, line in enumerate(self.guesses[:MOST_GUESSES], 1)]
        return "\n".join(rows) + "\n"

    @staticmethod
    def from_text(text: str) -> Traced | None:
        """The last trace in a text, such as a summary's; None where there is no sound one."""
        block = text[-MAX_TEXT:].rpartition(HEADING)
        if not block[1]:
            return None
        figures: dict[str, str] = {}
        for line in block[2][:_MAX_BLOCK].splitlines()[2:]:
            label, colon, value = line.partition(":")
            if not colon:
                break
            figures.setdefault(label.strip(), value.strip())
        if figures.get("version") != str(VERSION):
            return None
        return _of_figures(figures)

    @staticmethod
    def from_events(document: object, device_kind: str | None = None) -> Traced:
        """Replay what the tracer wrote, on a GPU of this kind.

        Raises BadFile with the tracer's own line where it could not trace, and for a
        document that is not what a tracer writes.
        """
        read = _Document(document)
        replay = replayed(document, device_kind)
        return Traced(
            need_mib=replay.peak_need / _MIB,
            reserved_mib=(replay.peak_reserved + GROWTH * replay.peak_need) / _MIB,
            workspace_mib=replay.largest_workspace / _MIB,
            weights_mib=read.whole("parameter_bytes", MAX_BYTES) / _MIB,
            gradients_mib=read.whole("gradient_bytes", MAX_BYTES) / _MIB,
            optimizer_mib=read.whole("optimizer_bytes", MAX_BYTES) / _MIB,
            faketensor_mib=read.whole("faketensor_bytes", MAX_BYTES) / _MIB,
            batch_size=read.whole("batch_size", _MAX_COUNT) or None,
            optimizer=read.word("optimizer"),
            precision=read.word("precision"),
            gpus=max(read.whole("gpus", _MAX_COUNT), 1),
            parallel=read.word("parallel"),
            torch=read.word("torch"),
            cuda=read.word("cuda", "unknown"),
            seconds=read.seconds(),
            guesses=read.lines("guesses"),
        )


@dataclass(slots=True)
class Replay:
    """Bytes, without the CUDA context. `marks`: allocated and reserved when each was passed."""

    peak_need: int = 0
    peak_reserved: int = 0
    largest_workspace: int = 0
    marks: tuple[tuple[str, int, int], ...] = ()


def replayed(document: object, device_kind: str | None = None) -> Replay:
    """The events of a tracer's document, through the allocator. Raises BadFile."""
    read = _Document(document)
    events, calls, marks = read.events(), read.calls(), read.marks()
    layers, on = read.convolutions(), overheads(device_kind)
    memory, replay = CachingAllocator(), Replay()
    addresses: list[int | None] = []
    passed: list[tuple[str, int, int]] = []
    handles: set[int] = set()
    next_call = next_mark = 0
    for at in range(len(events) + 1):
        while next_mark < len(marks) and marks[next_mark][0] <= at:
            passed.append((marks[next_mark][1], memory.allocated, memory.reserved))
            next_mark += 1
        while next_call < len(calls) and calls[next_call][0] <= at:
            _, kind, number = calls[next_call]
            next_call += 1
            if kind == _CUBLAS:
                if number not in handles:
                    handles.add(number)
                    memory.allocate(on.cublas_bytes)
                continue
            size = on.cublaslt_bytes
            if kind != _CUBLASLT:
                if number >= len(layers):
                    raise read.bad("a call names a convolution that is not there")
                size = workspace_bytes(layers[number], _PASSES[kind], on)
            replay.peak_need = max(replay.peak_need, memory.peak_allocated)
            if size:
                memory.free(memory.allocate(size))
            memory.reset_allocated_peak()
            replay.largest_workspace = max(replay.largest_workspace, size)
        if at == len(events):
            break
        event = events[at]
        if event > 0:
            addresses.append(memory.allocate(event))
            continue
        number = -event - 1
        address = addresses[number] if number < len(addresses) else None
        if address is None:
            raise read.bad("something is freed that is not there")
        memory.free(address)
        addresses[number] = None
    replay.peak_need = max(replay.peak_need, memory.peak_allocated)
    replay.peak_reserved = memory.peak_reserved
    replay.marks = tuple(passed)
    return replay


_CUBLAS, _CUBLASLT = 0, 1
_PASSES = {2: Pass.FORWARD, 3: Pass.DATA, 4: Pass.WEIGHT}


class _Document:
    """A tracer's document, read with suspicion."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, Mapping):
            raise self.bad("it is no JSON object")
        error = document.get("error")
        if error is not None:
            raise BadFile(f"The training step could not be traced: {plain(str(error)[:500])}")
        if document.get("version") != VERSION:
            raise self.bad("it is of another version")
        self._document = document

    @staticmethod
    def bad(cause: str) -> BadFile:
        return BadFile(f"The trace cannot be used: {cause}. Trace again with this radrm.")

    def whole(self, name: str, most: int) -> int:
        value = self._document.get(name) or 0
        if not _is_whole(value, most):
            raise self.bad(f"its {name} is no sound number")
        return int(value)

    def word(self, name: str, otherwise: str | None = None) -> str:
        value = self._document.get(name, otherwise)
        if not isinstance(value, str):
            raise self.bad(f"its {name} is no text")
        return plain(value[:_MAX_WORD])

    def lines(self, name: str) -> tuple[str, ...]:
        """Of a tracer of another version there may be none."""
        value = self._document.get(name)
        found = value[:MOST_GUESSES] if isinstance(value, list) else []
        return tuple(plain(line[:_MAX_GUESS]) for line in found if isinstance(line, str))

    def seconds(self) -> float:
        value = self._document.get("seconds")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise self.bad("its seconds are no sound number")
        return float(value)

    def events(self) -> list[int]:
        found = []
        for event in self._list("events", MAX_EVENTS):
            # `type`: True is no event, and this runs for every one of millions.
            if type(event) is not int or not 0 < abs(event) <= MAX_BYTES:
                raise self.bad("an event is no sound number")
            found.append(event)
        return found

    def calls(self) -> list[tuple[int, int, int]]:
        found = []
        for call in self._list("calls", MAX_CALLS):
            if not isinstance(call, list) or len(call) != 3:
                raise self.bad("a call is no three numbers")
            if not all(_is_whole(value, MAX_EVENTS) for value in call) or call[1] > max(_PASSES):
                raise self.bad("a call is no three sound numbers")
            found.append((call[0], call[1], call[2]))
        return sorted(found, key=lambda call: call[0])

    def marks(self) -> list[tuple[int, str]]:
        found = []
        for mark in self._list("marks", 1000):
            if not isinstance(mark, list) or len(mark) != 2:
                raise self.bad("a mark is no pair")
            if not _is_whole(mark[0], MAX_EVENTS) or not isinstance(mark[1], str):
                raise self.bad("a mark is no pair of number and text")
            found.append((mark[0], plain(mark[1][:_MAX_WORD])))
        return sorted(found, key=lambda mark: mark[0])

    def convolutions(self) -> list[Convolution]:
        return [self._convolution(row) for row in self._list("convolutions", MAX_CALLS)]

    def _convolution(self, row: object) -> Convolution:
        if not isinstance(row, list) or len(row) != 10:
            raise self.bad("a convolution is no list of ten")
        numbers = (row[0], row[1], row[2], row[7], row[8])
        sizes = row[3:7]
        if not all(_is_whole(value, _MAX_COUNT) and value for value in numbers):
            raise self.bad("a convolution has an unsound number")
        for size in sizes:
            if not isinstance(size, list) or not 1 <= len(size) <= 3:
                raise self.bad("a convolution has an unsound size")
            if not all(_is_whole(value, _MAX_COUNT) for value in size):
                raise self.bad("a convolution has an unsound size")
        layer = Convolution(
            batch=row[0],
            in_channels=row[1],
            out_channels=row[2],
            inputs=tuple(row[3]),
            outputs=tuple(row[4]),
            kernel=tuple(row[5]),
            stride=tuple(row[6]),
            groups=row[7],
            element_bytes=row[8],
            channels_last=bool(row[9]),
        )
        if max(layer.input_bytes, layer.output_bytes, layer.weight_bytes) > MAX_BYTES:
            raise self.bad("a convolution is beyond any size")
        return layer

    def _list(self, name: str, most: int) -> list[object]:
        value = self._document.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.bad(f"its {name} are no list, or too many")
        return value


_LABELS = {
    "need_mib": "needs at least (MiB)",
    "reserved_mib": "reserves (MiB)",
    "workspace_mib": "largest workspace (MiB)",
    "weights_mib": "weights (MiB)",
    "gradients_mib": "gradients (MiB)",
    "optimizer_mib": "optimizer (MiB)",
    "faketensor_mib": "FakeTensor (MiB)",
    "batch_size": "batch size",
    "optimizer": "optimizer's name",
    "precision": "precision",
    "gpus": "GPUs",
    "parallel": "parallel",
    "torch": "PyTorch",
    "cuda": "CUDA",
    "seconds": "seconds",
}


def _of_figures(figures: Mapping[str, str]) -> Traced | None:
    """None where a figure is missing or unsound."""
    sizes = {name: _size(figures.get(_LABELS[name])) for name in _LABELS if name.endswith("_mib")}
    seconds, gpus = _size(figures.get("seconds")), _count(figures.get("GPUs"))
    known = {name: value for name, value in sizes.items() if value is not None}
    if len(known) < len(sizes) or seconds is None or not gpus:
        return None
    words = {
        name: plain(figures.get(_LABELS[name], "unknown")[:_MAX_WORD])
        for name in ("optimizer", "precision", "parallel", "torch", "cuda")
    }
    batch_size = _count(figures.get("batch size"))
    return Traced(
        need_mib=known["need_mib"],
        reserved_mib=known["reserved_mib"],
        workspace_mib=known["workspace_mib"],
        weights_mib=known["weights_mib"],
        gradients_mib=known["gradients_mib"],
        optimizer_mib=known["optimizer_mib"],
        faketensor_mib=known["faketensor_mib"],
        batch_size=batch_size or None,
        optimizer=words["optimizer"],
        precision=words["precision"],
        gpus=gpus,
        parallel=words["parallel"],
        torch=words["torch"],
        cuda=words["cuda"],
        seconds=seconds,
        guesses=tuple(
            plain(figures[f"guess {at}"][:_MAX_GUESS])
            for at in range(1, MOST_GUESSES + 1)
            if f"guess {at}" in figures
        ),
    )


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _size(text: str | None) -> float | None:
    """A size of at most twelve digits before the point."""
    whole, _, part = (text or "").partition(".")
    digits = whole + (part or "0")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MAX_DIGITS or not whole:
        return None
    return float(f"{whole}.{part or 0}")


def _count(text: str | None) -> int | None:
    found = text or ""
    if not found.isascii() or not found.isdigit() or len(found) > _MAX_DIGITS:
        return None
    return int(found) if int(found) <= _MAX_COUNT else None
