"""The record of one traced training step, and its text.

`radrm.tracer` writes a document of all tensors that came and went. Replayed, the document
becomes a `Traced`. Its text is the end of a model summary, or a separate file.
Texts come from users too, so their figures are checked and limited here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from radrm.errors import plain
from radrm.estimators.memory.overheads import GROWTH
from radrm.estimators.traces.document import (
    MAX_BYTES,
    MAX_COUNT,
    MAX_GUESS,
    MAX_WORD,
    MOST_GUESSES,
    VERSION,
    Document,
)
from radrm.estimators.traces.replay import replayed

HEADING = "Training step traced by radrm"

MAX_TEXT = 1 << 21
"""A trace is searched for in the last characters of a text, at most this many."""
_MAX_BLOCK = 6000
_MAX_DIGITS = 14
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced training step. Sizes in MiB, on the fullest GPU, without the CUDA context.

    `need_mib` is the most that is allocated at one time, without the workspaces that cuDNN
    can do without. `reserved_mib` is what PyTorch's allocator likely reserves, with
    workspaces and the growth of long runs; with the context it is what `nvidia-smi` shows.
    `workspace_mib` is the largest workspace of one call. `faketensor_mib` is the figure of
    PyTorch's FakeTensor as RAD-RM used it. `batch_size` is per GPU; with DataParallel, of
    all GPUs together. `parallel` is `none`, `dp` or `ddp`. `cuda` is the version that
    PyTorch was built with, or `none`. `seconds` is how long the trace took. `guesses` are
    the tracer's assumptions; each line begins with its subject, such as `batch size`.
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
        """Return the part that does not grow with the batch size."""
        return self.weights_mib + self.gradients_mib + self.optimizer_mib

    def to_text(self) -> str:
        """Return a few lines for people and for `from_text`."""
        rows = [HEADING, "-" * len(HEADING), f"version: {VERSION}"]
        for name, label in _LABELS.items():
            value = getattr(self, name)
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            rows.append(f"{label}: {plain(shown)[:MAX_WORD]}")
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
        guesses=tuple(
            plain(figures[f"guess {at}"][:MAX_GUESS])
            for at in range(1, MOST_GUESSES + 1)
            if f"guess {at}" in figures
        ),
    )


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
