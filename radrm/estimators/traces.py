"""Traces of a training step, which `radrm.tracer` writes in the user's Python."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from radrm.errors import BadFile, plain
from radrm.estimators.families import Family, family_named, family_of
from radrm.estimators.memory import (
    GROWTH,
    CachingAllocator,
    Convolution,
    Overheads,
    Pass,
    overheads,
    workspace_bytes,
)

# ------------------------------------------------------------------ A tracer's document, checked
# The document comes from a user's process, so nothing in it is trusted: every figure is
# checked and limited here.


VERSION = 1
MAX_EVENTS = 4_000_000
MAX_CALLS = 1_000_000
MAX_MARKS = 1000
MAX_BYTES = 1 << 50
MAX_COUNT = 1 << 40
MOST_GUESSES = 12
MOST_OPTIMIZERS = 8
MAX_WORD = 60
MAX_GUESS = 200

Call = tuple[int, int, int]
"""A call of a library: the index of the next event, its kind, and its handle or convolution."""
CUBLAS, CUBLASLT = 0, 1
_LAST_KIND = 4
"""The kinds 2, 3 and 4 are the passes of a convolution."""


class NoStep(BadFile):
    """The tracer saw no training step. `cause` is its own message, after the line of the user's
    file if it names one."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"The training step could not be traced: {cause}")
        self.cause = cause


class Document:
    """A tracer's document. Each method returns one part of it, or raises `BadFile`."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, Mapping):
            raise self.bad("it is not a JSON object")
        error = document.get("error")
        if error is not None:
            line = document.get("line")
            text, where = str(error)[:500], line[:MAX_WORD] if isinstance(line, str) else ""
            raise NoStep(plain(text if where in text else f"{where}: {text}"))
        if document.get("version") != VERSION:
            raise self.bad("it has another version")
        self._document = document

    @staticmethod
    def bad(cause: str) -> BadFile:
        return BadFile(f"The trace cannot be used: {cause}. Trace again with this radrm.")

    def whole(self, name: str, most: int) -> int:
        value = self._document.get(name) or 0
        if not _is_whole(value, most):
            raise self.bad(f"its {name} is not a valid number")
        return int(value)

    def word(self, name: str, otherwise: str | None = None) -> str:
        value = self._document.get(name, otherwise)
        if not isinstance(value, str):
            raise self.bad(f"its {name} is not text")
        return plain(value[:MAX_WORD])

    def lines(self, name: str) -> tuple[str, ...]:
        """Return lines of text. A tracer of another version may write none."""
        value = self._document.get(name)
        found = value[:MOST_GUESSES] if isinstance(value, list) else []
        return tuple(plain(line[:MAX_GUESS]) for line in found if isinstance(line, str))

    def is_true(self, name: str) -> bool:
        return self._document.get(name) is True

    def family(self) -> Family:
        """Return the kind of model, as far as its operators show it."""
        return family_of(self.convolutions(), self.lines("parts"), self.is_true("benchmark"))

    def script(self) -> Script | None:
        """Return how a job's command was traced; None: the document is of a factory."""
        told = self._document.get("script")
        if told is None:
            return None
        if not isinstance(told, Mapping):
            raise self.bad("its script is not an object")
        part = Document({**told, "version": VERSION})
        steps = part.numbers("steps")[:MOST_OPTIMIZERS]
        program = part.word("program").strip() or "a program"
        return Script(program, steps, part.word("reason", "steps"), part.lines("skipped"))

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return whole numbers."""
        found = self._list(name, MAX_MARKS)
        if not all(_is_whole(each, MAX_COUNT) for each in found):
            raise self.bad(f"its {name} have an invalid number")
        return tuple(each for each in found if isinstance(each, int))

    def seconds(self) -> float:
        value = self._document.get("seconds")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise self.bad("its seconds are not a valid number")
        return float(value)

    def events(self) -> list[int]:
        found = []
        for event in self._list("events", MAX_EVENTS):
            # `type` and not `isinstance`: True is not an event, and there are millions of events.
            if type(event) is not int or not 0 < abs(event) <= MAX_BYTES:
                raise self.bad("an event is not a valid number")
            found.append(event)
        return found

    def calls(self) -> list[Call]:
        found = []
        for call in self._list("calls", MAX_CALLS):
            if not isinstance(call, list) or len(call) != 3:
                raise self.bad("a call is not a list of three numbers")
            if not all(_is_whole(value, MAX_EVENTS) for value in call) or call[1] > _LAST_KIND:
                raise self.bad("a call has an invalid number")
            found.append((call[0], call[1], call[2]))
        return sorted(found, key=lambda call: call[0])

    def marks(self) -> list[tuple[int, str]]:
        found = []
        for mark in self._list("marks", MAX_MARKS):
            if not isinstance(mark, list) or len(mark) != 2:
                raise self.bad("a mark is not a pair")
            if not _is_whole(mark[0], MAX_EVENTS) or not isinstance(mark[1], str):
                raise self.bad("a mark is not a number and a text")
            found.append((mark[0], plain(mark[1][:MAX_WORD])))
        return sorted(found, key=lambda mark: mark[0])

    def convolutions(self) -> list[Convolution]:
        return [self._convolution(row) for row in self._list("convolutions", MAX_CALLS)]

    def _convolution(self, row: object) -> Convolution:
        if not isinstance(row, list) or len(row) != 10:
            raise self.bad("a convolution is not a list of ten")
        numbers = (row[0], row[1], row[2], row[7], row[8])
        sizes = row[3:7]
        if not all(_is_whole(value, MAX_COUNT) and value for value in numbers):
            raise self.bad("a convolution has an invalid number")
        for size in sizes:
            if not isinstance(size, list) or not 1 <= len(size) <= 3:
                raise self.bad("a convolution has an invalid size")
            if not all(_is_whole(value, MAX_COUNT) for value in size):
                raise self.bad("a convolution has an invalid size")
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
            raise self.bad("a convolution is too large")
        return layer

    def _list(self, name: str, most: int) -> list[object]:
        value = self._document.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.bad(f"its {name} are not a list, or too many")
        return value


def _is_whole(value: object, most: int) -> bool:
    """Return whether a value is a whole number from 0 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


# ------------------------------------------------------------------
# Replay the events of a traced training step through PyTorch's caching allocator.
#
# Between the events a document names calls of libraries, which borrow memory that the
# tracer cannot see: cuBLAS keeps a workspace for each handle, cuBLASLt and a convolution
# borrow one while they run.


_PASSES = {2: Pass.FORWARD, 3: Pass.DATA, 4: Pass.WEIGHT}


class Replay(Struct):
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


class _Run(Struct):
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


# ------------------------------------------------------------------
# The record of one traced training step, and its text.
#
# `radrm.tracer` writes a document of all tensors that came and went. Replayed, the document
# becomes a `Traced`. Its text is the end of a model summary, or a separate file.
# Texts come from users too, so their figures are checked and limited here.


HEADING = "Training step traced by radrm"

MAX_TEXT = 1 << 21
"""A trace is searched for in the last characters of a text, at most this many."""
_MAX_BLOCK = 6000
_MAX_DIGITS = 14
_MIB = 2**20


class Script(Struct, frozen=True):
    """How a job's own command was traced. `program` is the traced program's name, `steps` the
    training steps of each of its optimizers. `reason` says what ended the trace (`steps`,
    `backward passes`, `time`), `skipped` what was left out, in short nouns."""

    program: str
    steps: tuple[int, ...] = ()
    reason: str = "steps"
    skipped: tuple[str, ...] = ()


class Traced(Struct, frozen=True):
    """One traced training step. Sizes in MiB, on the fullest GPU, without the CUDA context.

    `need_mib` is the most that is allocated at one time, without the workspaces that cuDNN
    can do without. `reserved_mib` is what PyTorch's allocator likely reserves, with
    workspaces and the growth of long runs; with the context it is what `nvidia-smi` shows.
    `workspace_mib` is the largest workspace of one call. `faketensor_mib` is the figure of
    PyTorch's FakeTensor as RAD-RM used it. `batch_size` is per GPU; with DataParallel, of
    all GPUs together. `parallel` is `none`, `dp` or `ddp`. `cuda` is the version that
    PyTorch was built with, or `none`. `seconds` is how long the trace took. `guesses` are
    the tracer's assumptions; each line begins with its subject, such as `batch size`.
    `benchmark`: the program leaves cuDNN to measure which algorithm is fastest, whose workspace
    may be large. `family`: the kind of model. `script`: how the job's command was traced; None: a
    factory was.
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
    benchmark: bool = False
    script: Script | None = None
    family: Family = Family.OTHER

    @property
    def static_mib(self) -> float:
        """Return the part that does not grow with the batch size."""
        return self.weights_mib + self.gradients_mib + self.optimizer_mib

    def to_text(self) -> str:
        """Return a few lines for people and for `from_text`."""
        rows = [HEADING, "-" * len(HEADING), f"version: {VERSION}"]
        for name, label in _LABELS.items():
            value = getattr(self, name)
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            rows.append(f"{label}: {plain(shown)[:MAX_WORD]}")
        if self.benchmark:
            rows.append("cudnn.benchmark: on")
        if self.family is not Family.OTHER:
            rows.append(f"kind of model: {self.family.value}")
        if self.script is not None:
            rows += [
                f"script: {self.script.program[:MAX_WORD]}",
                f"script's steps: {' '.join(map(str, self.script.steps[:MOST_OPTIMIZERS]))}",
                f"script's end: {self.script.reason[:MAX_WORD]}",
            ]
            skipped = self.script.skipped[:MOST_GUESSES]
            rows += [f"skipped {at}: {what[:MAX_WORD]}" for at, what in enumerate(skipped, 1)]
        rows += [f"guess {at}: {line}" for at, line in enumerate(self.guesses[:MOST_GUESSES], 1)]
        return "\n".join(rows) + "\n"

    @staticmethod
    def from_text(text: str) -> Traced | None:
        """Return the last trace in a text, such as a summary's. None: there is no valid one."""
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
        """Replay a tracer's document on a GPU of this kind.

        Raises `BadFile` for an invalid document, and with the tracer's own message where
        the tracer failed.
        """
        read = Document(document)
        replay = replayed(document, device_kind)
        return Traced(
            need_mib=replay.peak_need / _MIB,
            reserved_mib=(replay.peak_reserved + GROWTH * replay.peak_need) / _MIB,
            workspace_mib=replay.largest_workspace / _MIB,
            weights_mib=read.whole("parameter_bytes", MAX_BYTES) / _MIB,
            gradients_mib=read.whole("gradient_bytes", MAX_BYTES) / _MIB,
            optimizer_mib=read.whole("optimizer_bytes", MAX_BYTES) / _MIB,
            faketensor_mib=read.whole("faketensor_bytes", MAX_BYTES) / _MIB,
            batch_size=read.whole("batch_size", MAX_COUNT) or None,
            optimizer=read.word("optimizer"),
            precision=read.word("precision"),
            gpus=max(read.whole("gpus", MAX_COUNT), 1),
            parallel=read.word("parallel"),
            torch=read.word("torch"),
            cuda=read.word("cuda", "unknown"),
            seconds=read.seconds(),
            guesses=read.lines("guesses"),
            benchmark=read.is_true("benchmark"),
            script=read.script(),
            family=read.family(),
        )


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
    """Return the record. None: a figure is missing or invalid."""
    sizes = {name: _size(figures.get(_LABELS[name])) for name in _LABELS if name.endswith("_mib")}
    seconds, gpus = _size(figures.get("seconds")), _count(figures.get("GPUs"))
    known = {name: value for name, value in sizes.items() if value is not None}
    if len(known) < len(sizes) or seconds is None or not gpus:
        return None
    words = {
        name: plain(figures.get(_LABELS[name], "unknown")[:MAX_WORD])
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
        guesses=_numbered(figures, "guess", MAX_GUESS),
        benchmark=figures.get("cudnn.benchmark") == "on",
        script=_script(figures),
        family=family_named(figures.get("kind of model")),
    )


def _script(figures: Mapping[str, str]) -> Script | None:
    program = plain(figures.get("script", "")[:MAX_WORD])
    if not program:
        return None
    steps = [_count(word) for word in figures.get("script's steps", "").split()[:MOST_OPTIMIZERS]]
    return Script(
        program=program,
        steps=tuple(each for each in steps if each is not None),
        reason=plain(figures.get("script's end", "steps")[:MAX_WORD]),
        skipped=_numbered(figures, "skipped", MAX_WORD),
    )


def _numbered(figures: Mapping[str, str], name: str, most: int) -> tuple[str, ...]:
    lines = (f"{name} {at}" for at in range(1, MOST_GUESSES + 1))
    return tuple(plain(figures[line][:most]) for line in lines if line in figures)


def _size(text: str | None) -> float | None:
    """Read a size of at most `_MAX_DIGITS` digits."""
    whole, _, part = (text or "").partition(".")
    digits = whole + (part or "0")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MAX_DIGITS or not whole:
        return None
    return float(f"{whole}.{part or 0}")


def _count(text: str | None) -> int | None:
    found = text or ""
    if not found.isascii() or not found.isdigit() or len(found) > _MAX_DIGITS:
        return None
    return int(found) if int(found) <= MAX_COUNT else None
