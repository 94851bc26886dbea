"""The arguments that PyTorch's modules print, and the parameters that follow from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

_PAIR = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)$", re.DOTALL)
_WHOLE = re.compile(r"\d{1,12}$")

# The names of positional arguments, by the beginning of the kind.
_NAMELESS = (
    ("conv", ("in_channels", "out_channels")),
    ("embedding", ("num_embeddings", "embedding_dim")),
    ("layernorm", ("normalized_shape",)),
    ("rmsnorm", ("normalized_shape",)),
    ("batchnorm", ("num_features",)),
    ("syncbatchnorm", ("num_features",)),
    ("instancenorm", ("num_features",)),
    ("groupnorm", ("num_groups", "num_channels")),
    ("lstm", ("input_size", "hidden_size")),
    ("gru", ("input_size", "hidden_size")),
    ("rnn", ("input_size", "hidden_size")),
    ("scaledwordembedding", ("num_embeddings", "embedding_dim")),
)


def attributes_of(text: str, kind: str = "") -> dict[str, str]:
    """Return arguments such as `in_features=768, kernel_size=(3, 3)` by name.

    Arguments without a name are `0`, `1`, ..., and have the name that the module gives them.
    """
    found: dict[str, str] = {}
    place = 0
    for part in _parts(text):
        pair = _PAIR.match(part)
        if pair:
            found[pair[1].casefold()] = pair[2].strip()
        elif part.strip():
            found[str(place)] = part.strip()
            place += 1
    if "0" in found:
        for beginning, names in _NAMELESS:
            if _bare(kind).startswith(beginning) or _bare(kind).endswith(beginning):
                for index, name in enumerate(names):
                    if str(index) in found:
                        found.setdefault(name, found[str(index)])
                break
    return found


def whole(attributes: Mapping[str, str], name: str) -> int | None:
    """Return the attribute as a whole number, or None."""
    text = attributes.get(name, "")
    return int(text) if text.isascii() and _WHOLE.match(text) else None


def sizes(attributes: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    """Return the attribute as sizes (`(3, 3)`, `(768,)` or `3`), or None."""
    words = [word.strip() for word in attributes.get(name, "").strip("()[] ").split(",")]
    words = [word for word in words if word]
    if not words or len(words) > 8 or not all(w.isascii() and _WHOLE.match(w) for w in words):
        return None
    return tuple(int(word) for word in words)


def parameters_of(kind: str, attributes: Mapping[str, str]) -> int | None:
    """Return the number of parameters that follows from a module's arguments, or None."""
    bare = _bare(kind)
    for beginning, count in _COUNTS:
        if bare.startswith(beginning) or bare.endswith(beginning):
            return count(attributes)
    return None


def _bare(kind: str) -> str:
    return kind.rpartition(".")[2].casefold()


def _parts(text: str) -> list[str]:
    """Split the text at the commas outside parentheses."""
    found, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth <= 0:
            found.append(text[begin:at])
            begin = at + 1
    found.append(text[begin:])
    return found


def _true(attributes: Mapping[str, str], name: str, default: bool) -> bool:
    return attributes.get(name, str(default)).casefold() == "true"


def _linear(given: Mapping[str, str]) -> int | None:
    inputs, outputs = whole(given, "in_features"), whole(given, "out_features")
    if inputs is None or outputs is None:
        return None
    return inputs * outputs + outputs * _true(given, "bias", True)


def _bilinear(given: Mapping[str, str]) -> int | None:
    one, other = whole(given, "in1_features"), whole(given, "in2_features")
    outputs = whole(given, "out_features")
    if one is None or other is None or outputs is None:
        return None
    return one * other * outputs + outputs * _true(given, "bias", True)


def _conv(given: Mapping[str, str]) -> int | None:
    if "nf" in given:
        outputs, inputs = whole(given, "nf"), whole(given, "nx")
        return None if outputs is None or inputs is None else (inputs + 1) * outputs
    inputs, outputs = whole(given, "in_channels"), whole(given, "out_channels")
    kernel, groups = sizes(given, "kernel_size"), whole(given, "groups") or 1
    if inputs is None or outputs is None or kernel is None:
        return None
    return inputs * outputs * math.prod(kernel) // groups + outputs * _true(given, "bias", True)


def _embedding(given: Mapping[str, str]) -> int | None:
    rows, width = whole(given, "num_embeddings"), whole(given, "embedding_dim")
    return None if rows is None or width is None else rows * width


def _norm(given: Mapping[str, str]) -> int | None:
    shape = sizes(given, "normalized_shape")
    if shape is None:
        return None
    affine = _true(given, "elementwise_affine", True)
    return math.prod(shape) * affine * (1 + _true(given, "bias", True))


def _rms_norm(given: Mapping[str, str]) -> int | None:
    shape = sizes(given, "normalized_shape")
    return None if shape is None else math.prod(shape) * _true(given, "elementwise_affine", True)


def _per_channel(given: Mapping[str, str]) -> int | None:
    channels = whole(given, "num_features") or whole(given, "num_channels")
    return None if channels is None else 2 * channels * _true(given, "affine", True)


def _instance_norm(given: Mapping[str, str]) -> int | None:
    return _per_channel(given) if _true(given, "affine", False) else 0


def _prelu(given: Mapping[str, str]) -> int | None:
    return whole(given, "num_parameters")


def _recurrent(gates: int) -> Callable[[Mapping[str, str]], int | None]:
    def count(given: Mapping[str, str]) -> int | None:
        inputs, hidden = whole(given, "input_size"), whole(given, "hidden_size")
        layers = min(whole(given, "num_layers") or 1, 1000)
        if inputs is None or hidden is None:
            return None
        ways = 1 + _true(given, "bidirectional", False)
        biases = 2 * _true(given, "bias", True)
        first = inputs + hidden + biases
        later = hidden * ways + hidden + biases
        return gates * hidden * ways * (first + (layers - 1) * later)

    return count


# By the beginning or the end of the kind, in small letters; the first that fits.
_COUNTS: tuple[tuple[str, Callable[[Mapping[str, str]], int | None]], ...] = (
    ("bilinear", _bilinear),
    ("linear", _linear),
    ("conv", _conv),
    ("embedding", _embedding),
    ("instancenorm", _instance_norm),
    ("batchnorm", _per_channel),
    ("groupnorm", _per_channel),
    ("rmsnorm", _rms_norm),
    ("layernorm", _norm),
    ("prelu", _prelu),
    ("lstm", _recurrent(4)),
    ("gru", _recurrent(3)),
    ("rnn", _recurrent(1)),
)
