"""What GPUMemNet looks at: a handful of figures of a model, read off its summary.

RAD-RM's thesis, section 5.4.4, lists them: counts of layers by kind, the batch size, the
parameters, the activations of one sample, activations times batch size, and the
activation function as a point on a circle. What is trained and what is estimated goes
through the same functions here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from radrm.estimators.summaries.layers import Form, Layer, ModelSummary


class Family(str, Enum):
    """The thesis trains one estimator for each."""

    MLP = "mlp"
    CNN = "cnn"
    TRANSFORMER = "transformer"


class Part(Enum):
    """What a layer counts as."""

    LINEAR = "linear"
    CONV = "conv"
    NORM = "norm"
    DROPOUT = "dropout"
    ACTIVATION = "activation"
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    POOL = "pool"
    RECURRENT = "recurrent"


# Kinds by what they count as, in lower case, in PyTorch's and Keras's words. Sisters such
# as `StdConv2dSame`, `BatchNormAct2d` or `NewGELUActivation` are found by their names.
# fmt: off
_PARTS = {
    Part.LINEAR: ("linear", "bilinear", "dense", "nondynamicallyquantizablelinear"),
    Part.CONV: tuple(
        f"{front}conv{way}{n}d{back}"
        for front in ("", "std", "scaledstd") for way in ("", "transpose") for n in (1, 2, 3)
        for back in ("", "same", "transpose")
    ),
    Part.DROPOUT: ("dropout", "dropout1d", "dropout2d", "dropout3d", "alphadropout",
                   "featurealphadropout", "spatialdropout1d", "spatialdropout2d"),
    Part.EMBEDDING: ("embedding", "embeddingbag"),
    Part.ATTENTION: ("multiheadattention",),
    Part.POOL: ("adaptiveavgpool1d", "adaptiveavgpool2d", "adaptiveavgpool3d"),
    Part.ACTIVATION: ("activation",),
    Part.RECURRENT: ("lstm", "gru", "rnn", "simplernn", "lstmcell", "grucell", "rnncell"),
}
_NORMS = ("batchnorm", "layernorm", "groupnorm", "rmsnorm", "instancenorm", "evonorm")
# The circle of activation functions: neighbours keep alike much for the backward pass.
_CIRCLE = ("relu", "relu6", "leakyrelu", "prelu", "elu", "selu", "celu", "tanh", "sigmoid",
           "hardsigmoid", "hardtanh", "softplus", "hardswish", "silu", "swish", "mish", "gelu")
# fmt: on
_PART_OF = {kind: part for part, kinds in _PARTS.items() for kind in kinds}
# In Keras they are layers; TIMM calls containers so.
_CONVS_OF_KERAS = ("depthwiseconv1d", "depthwiseconv2d", "separableconv1d", "separableconv2d")
_OF_ATTENTION = ("attention", "attn")
_ENDINGS = ("activation", "tanh", "act")
_LINEARS_OF_ATTENTION = 4
"""`MultiheadAttention` projects queries, keys, values and its output itself."""
_MAX_KIND = 200


def part_of(layer: Layer, form: Form) -> Part | None:
    """What a layer counts as; None for a container and for what keeps no activations."""
    kind = layer.kind.lower()[:_MAX_KIND]
    if kind == "conv1d" and form is Form.REPR and not _is_torch_conv(layer):
        return Part.LINEAR  # that of GPT-2: a linear layer under another name
    known = _PART_OF.get(kind)
    if known is not None:
        return known
    if form is Form.KERAS and kind in _CONVS_OF_KERAS:
        return Part.CONV
    if any(norm in kind for norm in _NORMS):
        return Part.NORM
    if kind.endswith("embedding") and "embedding_dim" in layer.attributes:
        return Part.EMBEDDING
    return Part.ACTIVATION if activation_of(layer.kind) is not None else None


def _is_torch_conv(layer: Layer) -> bool:
    return "kernel_size" in layer.attributes


def activation_of(kind: str) -> str | None:
    """The activation function that a layer is (`NewGELUActivation`: `gelu`), if it is one."""
    word = kind.lower()[:_MAX_KIND]
    if word in _CIRCLE:
        return word
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    for front in ("new", "fast", "quick", "python", "pytorch", "accurate"):
        word = word.removeprefix(front)
    return word if word in _CIRCLE else None


@dataclass(frozen=True, slots=True)
class Features:
    """Figures of one training job. Counts of layers; `activations` are elements per sample.

    `cos` and `sin` place the commonest activation function on the circle; both are 0
    where the model has none.
    """

    family: Family
    depth: int
    linears: int
    convs: int
    norms: int
    dropouts: int
    batch_size: int
    parameters: int
    activations: int
    cos: float
    sin: float

    def vector(self) -> tuple[float, ...]:
        """The inputs of the family's networks, in the order of the thesis."""
        grown = self.activations * self.batch_size
        sizes = (self.batch_size, self.parameters, self.activations, grown)
        if self.family is Family.MLP:
            counts: tuple[int, ...] = (self.linears, self.norms, self.dropouts)
        elif self.family is Family.CNN:
            counts = (self.depth, self.convs, self.linears, self.norms, self.dropouts)
        else:
            counts = (self.depth, self.linears, self.norms, self.dropouts)
        return (*(math.log1p(value) for value in (*counts, *sizes)), self.cos, self.sin)


GROWING = (-5, -3)
"""Where parameters, and activations times batch size, stand in every family's vector."""


def features_of(
    summary: ModelSummary, batch_size: int, sequence_length: int | None = None
) -> Features | None:
    """A model's figures. None where they cannot be had in full.

    That is: a summary that lacks rows, recurrent layers, no layer that counts, or no way
    to the activations. A summary without shapes (`repr`) tells them
    only for a model of tokens: width of each layer times `sequence_length`, for which the
    table of positions stands in (the longest sequence that the model takes).
    """
    if not summary.complete or batch_size <= 0:
        return None
    parts = [(layer, part_of(layer, summary.form)) for layer in summary.layers]
    counts = Counter(part for _, part in parts if part is not None)
    family = _family(parts, counts)
    if family is None:
        return None
    if any(layer.shapes for layer in summary.layers):
        tokens, (outputs, inner) = 1, _with_shapes(parts)
    elif family is Family.TRANSFORMER:
        tokens, (outputs, inner) = sequence_length or _positions(summary) or 0, _widths(parts)
    else:
        return None
    if family is Family.TRANSFORMER:
        outputs += _for_the_loss(outputs)
    activations = tokens * sum(outputs)
    if not activations:
        return None
    linears = counts[Part.LINEAR] + inner
    cos, sin = _on_circle(summary)
    return Features(
        family=family,
        depth=linears + counts[Part.CONV],
        linears=linears,
        convs=counts[Part.CONV],
        norms=counts[Part.NORM],
        dropouts=counts[Part.DROPOUT],
        batch_size=batch_size,
        parameters=summary.parameters,
        activations=activations,
        cos=cos,
        sin=sin,
    )


def _family(parts: list[tuple[Layer, Part | None]], counts: Counter[Part]) -> Family | None:
    """Attention among more linear layers than convolutions; else convolutions; else an MLP."""
    if counts[Part.RECURRENT]:
        return None
    attention = counts[Part.ATTENTION] or any(
        word in layer.kind.lower() for layer, _ in parts for word in _OF_ATTENTION
    )
    if attention and counts[Part.LINEAR] > counts[Part.CONV]:
        return Family.TRANSFORMER
    if counts[Part.CONV]:
        return Family.CNN
    return Family.MLP if counts[Part.LINEAR] and not counts[Part.EMBEDDING] else None


def _on_circle(summary: ModelSummary) -> tuple[float, float]:
    """The commonest activation function as cosine and sine (the first among equals)."""
    found = Counter(filter(None, (activation_of(layer.kind) for layer in summary.layers)))
    if not found:
        return 0.0, 0.0
    angle = 2 * math.pi * _CIRCLE.index(found.most_common(1)[0][0]) / len(_CIRCLE)
    return math.cos(angle), math.sin(angle)


def _with_shapes(parts: list[tuple[Layer, Part | None]]) -> tuple[list[int], int]:
    """What each layer that counts puts out, and linear layers that have no row of their own."""
    outputs, inner = [], 0
    for layer, part in parts:
        if part is Part.ATTENTION and layer.shapes:
            inner += _LINEARS_OF_ATTENTION
            outputs.append(_LINEARS_OF_ATTENTION * math.prod(layer.shapes[0]))
        elif part is not None:
            outputs.append(layer.elements)
    return outputs, inner


def _for_the_loss(outputs: list[int]) -> list[int]:
    """A head over a vocabulary, twice as wide as all else, leaves its output to the loss,
    which keeps the logarithms of probabilities and makes as many gradients."""
    if not outputs:
        return []
    head, rest = outputs[-1], max(outputs[:-1], default=0)
    return [2 * head] if head > 2 * rest else []


# ------------------------------------------------------------------ without shapes


def _widths(parts: list[tuple[Layer, Part | None]]) -> tuple[list[int], int]:
    """As `_with_shapes`, for one token."""
    widths = _Widths()
    outputs = [widths.of(layer, part) for layer, part in parts]
    return [width for width in outputs if width], widths.inner_linears


def _positions(summary: ModelSummary) -> int | None:
    """Rows of a table of positions, as BERT (`position_embeddings`) and GPT-2 (`wpe`) have."""
    for layer in summary.layers:
        name = layer.name.lower()
        if part_of(layer, summary.form) is Part.EMBEDDING and (name == "wpe" or "position" in name):
            return _number(layer, "num_embeddings", "0")
    return None


class _Widths:
    """The width of each layer's output for one token, from arguments and parameters.

    What only passes its input on (norms, dropout, activations) is as wide as what stands
    before it. Weights that a block holds itself, such as XLNet's attention, count as
    linear layers of the model's width.
    """

    def __init__(self) -> None:
        self.inner_linears = 0
        self._model = 0
        self._last = 0

    def of(self, layer: Layer, part: Part | None) -> int:
        if part is None or part is Part.ATTENTION:
            return self._inner(layer) if layer.parameters and self._model else 0
        if part is Part.EMBEDDING:
            self._last = _number(layer, "embedding_dim", "1") or self._last
            self._model = self._model or self._last
        elif part is Part.LINEAR:
            self._last = _number(layer, "out_features", "nf", "1") or self._solved(layer)
        elif part is Part.NORM:
            self._last = _number(layer, "normalized_shape", "0") or self._last
            self._model = self._last
        return self._last

    def _inner(self, block: Layer) -> int:
        inner = block.parameters // self._model**2
        self.inner_linears += inner
        return inner * self._model

    def _solved(self, layer: Layer) -> int:
        """(inputs + 1) x outputs parameters, where the inputs are one of two widths."""
        for inputs in (self._model, self._last):
            outputs, rest = divmod(layer.parameters, inputs + 1)
            if inputs and outputs and not rest:
                return outputs
        return self._last


def _number(layer: Layer, *names: str) -> int | None:
    """The first of these arguments that is there: a whole number, or one in a tuple."""
    for name in names:
        word = layer.attributes.get(name, "").strip("(), ")
        if word.isascii() and word.isdigit() and len(word) <= 12:
            return int(word)
    return None
