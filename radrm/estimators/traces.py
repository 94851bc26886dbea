"""Traces of a training step, which `radrm.tracer` writes in the user's Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert, field

from radrm.errors import BadFile, plain
from radrm.estimators.families import Family, family_named, family_of
from radrm.estimators.memory import (
    GROWTH,
    CachingAllocator,
    Convolution,
    Overheads,
    Pass,
    overheads,
    trial_bytes,
    workspace_bytes,
)

# ------------------------------------------------------------------ A tracer's document, checked
# The document comes from a user's process, so nothing in it is trusted: every figure is
# checked and limited here.


VERSION = 1
GPU_MIB = 40_339
"""The memory of the GPU that a tracer pretends, if it does not say."""
MAX_EVENTS = 4_000_000
MAX_CALLS = 1_000_000
MAX_MARKS = 1000
MAX_BYTES = 1 << 50
MAX_COUNT = 1 << 40
MOST_GUESSES = 12
MOST_OPTIMIZERS = 8
MAX_WORD = 60
MAX_GUESS = 200

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Bytes = Annotated[int, Meta(ge=0, le=MAX_BYTES)]
Event = Annotated[int, Meta(ge=-MAX_BYTES, le=MAX_BYTES)]
At = Annotated[int, Meta(ge=0, le=MAX_EVENTS)]
"""The index of the next event, or a handle or convolution."""
Kind = Annotated[int, Meta(ge=0, le=4)]
CUBLAS, CUBLASLT = 0, 1
"""Kinds of calls; 2, 3 and 4 are the passes of a convolution."""
Call = tuple[At, Kind, At]
"""A call of a library: the index of the next event, its kind, and its handle or convolution."""
Size = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=3)]
Row = tuple[Positive, Positive, Positive, Size, Size, Size, Size, Positive, Positive, Any]
"""The fields of a `Convolution`, in their order."""
Words = Any
"""Lines of text, as far as it is a list of them."""


class NoStep(BadFile):
    """The tracer saw no training step. `cause` is its own message, after the line of the user's
    file if it names one."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"The training step could not be traced: {cause}")
        self.cause = cause


class _ScriptTold(Struct):
    program: str
    steps: Annotated[list[Count], Meta(max_length=MAX_MARKS)]
    reason: str = "steps"
    skipped: Words = None


class Document(Struct):
    """A tracer's document."""

    version: Literal[1]
    events: Annotated[list[Event], Meta(max_length=MAX_EVENTS)]
    calls: Annotated[list[Call], Meta(max_length=MAX_CALLS)]
    marks: Annotated[list[tuple[At, str]], Meta(max_length=MAX_MARKS)]
    convolutions: Annotated[list[Row], Meta(max_length=MAX_CALLS)]
    optimizer: str
    precision: str
    parallel: str
    torch: str
    seconds: Annotated[float, Meta(ge=0, lt=1e9)]
    cuda: str = "unknown"
    parameter_bytes: Bytes | None = None
    gradient_bytes: Bytes | None = None
    optimizer_bytes: Bytes | None = None
    faketensor_bytes: Bytes | None = None
    batch_size: Count | None = None
    gpus: Count | None = None
    gpu_mib: Count | None = None
    guesses: Words = None
    parts: Words = None
    benchmark: Any = None
    script: _ScriptTold | None = None

    def layers(self) -> list[Convolution]:
        found = [Convolution(*row[:9], channels_last=bool(row[9])) for row in self.convolutions]
        for each in found:
            if max(each.input_bytes, each.output_bytes, each.weight_bytes) > MAX_BYTES:
                raise bad("a convolution is too large")
        return found


def bad(cause: str) -> BadFile:
    """Return the error of a document that cannot be used."""
    return BadFile(f"The trace cannot be used: {cause}. Trace again with this radrm.")


def read(document: object) -> Document:
    """Return a tracer's document, checked. Raises `BadFile`; `NoStep` with the tracer's message."""
    if isinstance(document, Mapping) and (error := document.get("error")) is not None:
        line = document.get("line")
        text, where = str(error)[:500], line[:MAX_WORD] if isinstance(line, str) else ""
        raise NoStep(plain(text if where in text else f"{where}: {text}"))
    try:
        found = convert(document, Document)
    except (ValidationError, RecursionError) as error:
        raise bad(str(error)) from None
    if 0 in found.events:
        raise bad("an event is no number of bytes")
    return found


def _word(text: str) -> str:
    return plain(text[:MAX_WORD])


def _lines(found: Words) -> tuple[str, ...]:
    texts = found[:MOST_GUESSES] if isinstance(found, list) else []
    return tuple(plain(line[:MAX_GUESS]) for line in texts if isinstance(line, str))


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
    `peak_reserved` the most that the allocator reserved. `peak_trial` is the most that was
    allocated while `cudnn.benchmark` tried algorithms. `marks` holds, for each mark of the
    document, its name and what was allocated and reserved there.
    """

    peak_need: int = 0
    peak_reserved: int = 0
    largest_workspace: int = 0
    peak_trial: int = 0
    marks: tuple[tuple[str, int, int], ...] = ()


def replayed(document: object, device_kind: str | None = None) -> Replay:
    """Replay a tracer's document on a GPU of this kind. Raises `BadFile`."""
    return _replayed(read(document), device_kind)


def _replayed(read: Document, device_kind: str | None) -> Replay:
    events, calls = read.events, sorted(read.calls, key=lambda call: call[0])
    marks = sorted(read.marks, key=lambda mark: mark[0])
    on = overheads(device_kind)
    most = max((read.gpu_mib or GPU_MIB) - int(on.context_mib), 0) << 20
    run = _Run(read.layers(), on, most if read.benchmark is True else 0)
    memory, addresses = run.memory, run.addresses
    next_call = next_mark = 0
    for at in range(len(events) + 1):
        while next_mark < len(marks) and marks[next_mark][0] <= at:
            run.mark(_word(marks[next_mark][1]))
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
            raise bad("it frees something that it did not allocate")
        memory.free(address)
        addresses[number] = None
    return run.result()


class _Run(Struct):
    convolutions: list[Convolution]
    on: Overheads
    trial_room: int = 0
    """The bytes that a trial of algorithms may find; 0: there are no trials."""
    memory: CachingAllocator = field(default_factory=CachingAllocator)
    addresses: list[int | None] = field(default_factory=list)
    """By allocation, in order; None once it is freed."""
    marks: list[tuple[str, int, int]] = field(default_factory=list)
    handles: set[int] = field(default_factory=set)
    tried: set[tuple[int, int]] = field(default_factory=set)
    peak_need: int = 0
    largest_workspace: int = 0
    peak_trial: int = 0

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
            if self.trial_room and (kind, number) not in self.tried:
                self.tried.add((kind, number))
                trial = self.memory.allocated + trial_bytes(self.convolutions[number])
                if trial <= self.trial_room:
                    self.peak_trial = max(self.peak_trial, trial)
        else:
            raise bad("a call names a convolution that it does not describe")
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
            peak_trial=self.peak_trial,
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
    `workspace_mib` is the largest workspace of one call. `trial_mib` is the most that is allocated
    while `cudnn.benchmark` tries algorithms, for moments of the first step, and `map_mib` the
    largest convolution's input and output; both are 0 without `benchmark`. `faketensor_mib` is the
    figure of PyTorch's FakeTensor as RAD-RM used it. `batch_size` is per GPU; with DataParallel, of
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
    trial_mib: float = 0.0
    map_mib: float = 0.0
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
            rows += [
                "cudnn.benchmark: on",
                f"its trials (MiB): {self.trial_mib:.2f}",
                f"largest convolution (MiB): {self.map_mib:.2f}",
            ]
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
        found = read(document)
        replay = _replayed(found, device_kind)
        parts, layers, benchmark = _lines(found.parts), found.layers(), found.benchmark is True
        maps = (each.input_bytes + each.output_bytes for each in layers if benchmark)
        sizes = {
            "need_mib": replay.peak_need,
            "reserved_mib": replay.peak_reserved + GROWTH * replay.peak_need,
            "workspace_mib": replay.largest_workspace,
            "trial_mib": replay.peak_trial,
            "map_mib": max(maps, default=0),
            "weights_mib": found.parameter_bytes or 0,
            "gradients_mib": found.gradient_bytes or 0,
            "optimizer_mib": found.optimizer_bytes or 0,
            "faketensor_mib": found.faketensor_bytes or 0,
        }
        words: dict[str, Any] = {name: _word(getattr(found, name)) for name in _WORDS}
        words |= {name: size / _MIB for name, size in sizes.items()}
        return Traced(
            **words,
            batch_size=found.batch_size or None,
            gpus=max(found.gpus or 0, 1),
            seconds=found.seconds,
            guesses=_lines(found.guesses),
            benchmark=benchmark,
            script=_script_told(found.script),
            family=family_of(layers, parts, benchmark),
        )


def _script_told(told: _ScriptTold | None) -> Script | None:
    """Return how a job's command was traced; None: the document is of a factory."""
    if told is None:
        return None
    program = _word(told.program).strip() or "a program"
    steps = tuple(told.steps[:MOST_OPTIMIZERS])
    return Script(program, steps, _word(told.reason), _lines(told.skipped))


_WORDS = ("optimizer", "precision", "parallel", "torch", "cuda")
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
    words: dict[str, Any] = {n: _word(figures.get(_LABELS[n], "unknown")) for n in _WORDS}
    words |= known
    return Traced(
        **words,
        batch_size=_count(figures.get("batch size")) or None,
        gpus=gpus,
        seconds=seconds,
        guesses=_numbered(figures, "guess", MAX_GUESS),
        benchmark=figures.get("cudnn.benchmark") == "on",
        trial_mib=_size(figures.get("its trials (MiB)")) or 0.0,
        map_mib=_size(figures.get("largest convolution (MiB)")) or 0.0,
        script=_script(figures),
        family=family_named(figures.get("kind of model")),
    )


def _script(figures: Mapping[str, str]) -> Script | None:
    program = _word(figures.get("script", ""))
    if not program:
        return None
    steps = [_count(word) for word in figures.get("script's steps", "").split()[:MOST_OPTIMIZERS]]
    return Script(
        program=program,
        steps=tuple(each for each in steps if each is not None),
        reason=_word(figures.get("script's end", "steps")),
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
