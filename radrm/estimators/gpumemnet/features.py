"""The features that GPUMemNet gets: a few figures of a model, from its summary.

RAD-RM's thesis, section 5.4.4, has nearly these for its perceptrons: counts of layers by kind,
batch size, parameters, activations of one sample, and activations times batch size. The activation
function is a point on a circle. Added here: for MLPs activations times batch size, for CNNs the
number of linear layers, for transformers the activation function. Counts and sizes are logarithms.
Training and estimation use the same functions.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import Enum

from msgspec import Struct

from radrm.estimators.summaries.layers import Form, Layer, ModelSummary


class Family(str, Enum):
    """The families of models; the thesis trains one estimator for each."""

    MLP = "mlp"
    CNN = "cnn"
    TRANSFORMER = "transformer"


class Part(Enum):
    """The kinds of layers that are counted."""

    LINEAR = "linear"
    CONV = "conv"
    NORM = "norm"
    DROPOUT = "dropout"
    ACTIVATION = "activation"
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    POOL = "pool"
    RECURRENT = "recurrent"


# The names of layers of each part, in lower case, of PyTorch and Keras. Variants such as
# `StdConv2dSame`, `BatchNormAct2d` or `NewGELUActivation` are found by parts of their names.
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
# The circle of activation functions: neighbours keep similar amounts for the backward pass.
_CIRCLE = ("relu", "relu6", "leakyrelu", "prelu", "elu", "selu", "celu", "tanh", "sigmoid",
           "hardsigmoid", "hardtanh", "softplus", "hardswish", "silu", "swish", "mish", "gelu")
# fmt: on
_PART_OF = {kind: part for part, kinds in _PARTS.items() for kind in kinds}
# In Keras these are layers, in TIMM containers.
_CONVS_OF_KERAS = ("depthwiseconv1d", "depthwiseconv2d", "separableconv1d", "separableconv2d")
_OF_ATTENTION = ("attention", "attn")
_ENDINGS = ("activation", "tanh", "act")
_LINEARS_OF_ATTENTION = 4
"""`MultiheadAttention` itself projects queries, keys, values and its output."""
_MAX_KIND = 200


def part_of(layer: Layer, form: Form) -> Part | None:
    """Return the part that a layer counts as. None: a container, or no kept activations."""
    kind = layer.kind.lower()[:_MAX_KIND]
    if kind == "conv1d" and form is Form.REPR and not _is_torch_conv(layer):
        return Part.LINEAR  # GPT-2's `Conv1D` is a linear layer
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
    """Return the activation function that a layer is (`NewGELUActivation`: `gelu`), or None."""
    word = kind.lower()[:_MAX_KIND]
    if word in _CIRCLE:
        return word
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    for front in ("new", "fast", "quick", "python", "pytorch", "accurate"):
        word = word.removeprefix(front)
    return word if word in _CIRCLE else None


class Features(Struct, frozen=True):
    """The features of one training job. `activations` counts elements per sample.

    `cos` and `sin` are the place of the most common activation function on the circle; both
    are 0 for a model without one.
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
        """Return the input of the family's networks, in the order in which they were trained."""
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
"""The places of parameters, and of activations times batch size, in every family's vector."""


def features_of(
    summary: ModelSummary, batch_size: int, sequence_length: int | None = None
) -> Features | None:
    """Return a model's features, or None if some are unknown.

    They are unknown for a summary that lacks rows, for recurrent layers, for a model without
    counted layers, and without the sizes of activations. A summary without shapes (`repr`)
    gives sizes only for a model of tokens: the width of each layer times `sequence_length`,
    or the length of the table of positions, the longest sequence that the model takes.
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
        outputs += _loss_elements(outputs)
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
    """Return the family: a transformer has attention, and more linear layers than convolutions."""
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
    """Return cosine and sine of the most common activation function (the first among equals)."""
    found = Counter(filter(None, (activation_of(layer.kind) for layer in summary.layers)))
    if not found:
        return 0.0, 0.0
    angle = 2 * math.pi * _CIRCLE.index(found.most_common(1)[0][0]) / len(_CIRCLE)
    return math.cos(angle), math.sin(angle)


def _with_shapes(parts: list[tuple[Layer, Part | None]]) -> tuple[list[int], int]:
    """Return the output of each counted layer, and the number of linear layers without a row."""
    outputs, inner = [], 0
    for layer, part in parts:
        if part is Part.ATTENTION and layer.shapes:
            inner += _LINEARS_OF_ATTENTION
            outputs.append(_LINEARS_OF_ATTENTION * math.prod(layer.shapes[0]))
        elif part is not None:
            outputs.append(layer.elements)
    return outputs, inner


def _loss_elements(outputs: list[int]) -> list[int]:
    """Return the elements that the loss adds for a head over a vocabulary.

    Such a head is more than twice as wide as every other layer. Its loss keeps logarithms of
    probabilities, and makes as many gradients.
    """
    if not outputs:
        return []
    head, rest = outputs[-1], max(outputs[:-1], default=0)
    return [2 * head] if head > 2 * rest else []


# ------------------------------------------------------------------ without shapes


def _widths(parts: list[tuple[Layer, Part | None]]) -> tuple[list[int], int]:
    """Return the same as `_with_shapes`, for one token."""
    widths = _Widths()
    outputs = [widths.width_of(layer, part) for layer, part in parts]
    return [width for width in outputs if width], widths.inner_linears


def _positions(summary: ModelSummary) -> int | None:
    """Return the rows of the table of positions (BERT's `position_embeddings`, GPT-2's `wpe`)."""
    for layer in summary.layers:
        name = layer.name.lower()
        if part_of(layer, summary.form) is Part.EMBEDDING and (name == "wpe" or "position" in name):
            return _number(layer, "num_embeddings", "0")
    return None


class _Widths:
    """The width of each layer's output for one token, from arguments and parameters.

    Norms, dropout and activations are as wide as the layer before. Weights of a block itself,
    such as XLNet's attention, count as linear layers of the model's width.
    """

    def __init__(self) -> None:
        self.inner_linears = 0
        self._model = 0
        self._last = 0

    def width_of(self, layer: Layer, part: Part | None) -> int:
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
        """Return the outputs: there are (inputs + 1) x outputs parameters, with known inputs."""
        for inputs in (self._model, self._last):
            outputs, rest = divmod(layer.parameters, inputs + 1)
            if inputs and outputs and not rest:
                return outputs
        return self._last


def _number(layer: Layer, *names: str) -> int | None:
    """Return the first of these arguments that exists: a whole number, or one in a tuple."""
    for name in names:
        word = layer.attributes.get(name, "").strip("(), ")
        if word.isascii() and word.isdigit() and len(word) <= 12:
            return int(word)
    return None
