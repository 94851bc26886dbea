"""The tensors of a transformer, and the operations of its leaves.

A leaf is a module without children, such as a linear layer or a norm. It reads the current
tensor and makes the next one, whose width for one token is `width`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from radrm.estimators.summaries.arguments import whole
from radrm.estimators.symbolic.nodes import Node
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.settings import Precision

# Activations that consist of several operations: tensors that they keep beside the input.
_COMPOSED = {
    "newgeluactivation": 3,
    "gelunew": 3,
    "quickgeluactivation": 1,
    "fastgeluactivation": 3,
}


@dataclass(slots=True)
class TokenTensors:
    batch: int
    sequence: int
    precision: Precision
    gathered: int
    network: Network = field(default_factory=lambda: Network(uses_matrix_products=True))
    current: int = 0
    width: int = 0
    residual: int = 0
    pooled: bool = False
    begins: bool = False
    """An embedding of words or a convolution of patches makes the first tokens."""
    rotary: bool = False
    drops_early: bool = False
    """There is dropout between the two projections of a feed-forward part, too (XLNet, T5)."""
    tied: bool = True
    heads: int = 0
    tables: dict[tuple[int, int], int] = field(default_factory=dict)
    """How many embeddings there are, by rows and width."""

    @property
    def tokens(self) -> int:
        return self.batch * (1 if self.pooled else self.sequence)

    def new(self, width: int, *, wide: bool = False, tokens: int | None = None) -> int:
        each = self.precision.wide if wide else self.precision.activation
        return self.network.tensor((self.tokens if tokens is None else tokens) * width * each)

    def put(self, operation: Operation) -> None:
        self.network.operations.append(operation)
        self.current = operation.output

    def weights(self, count: int) -> tuple[int, ...]:
        return (count * self.precision.parameter,) if count else ()

    def add(self, other: int) -> None:
        """Add another tensor if the sizes are equal."""
        sizes_ = self.network.sizes
        if sizes_[other] != sizes_[self.current]:
            return
        output = self.network.tensor(sizes_[self.current])
        self.put(Operation((self.current, other), output, passes=True))

    def embedding(self, node: Node) -> None:
        rows = whole(node.layer.attributes, "num_embeddings") or 0
        width = whole(node.layer.attributes, "embedding_dim") or 0
        again = self.tables.get((rows, width), 0)
        self.tables[rows, width] = again + 1
        shared = again and rows > 1000
        weights = () if shared else self.weights(rows * width)
        if node.name == "relative_attention_bias" or (again and not shared and rows <= 64):
            self.network.operations.append(Operation((), self.network.tensor(4), weights=weights))
            return
        if not shared and not again and self.width == width and self.width:
            # Positions and segments are added to the words, position tables once for all.
            output = self.new(width, tokens=self.sequence if "position" in node.name else None)
            self.network.operations.append(Operation((), output, weights=weights))
            total = self.network.tensor(self.network.sizes[self.current])
            self.put(Operation((self.current, output), total, passes=True))
            return
        index = 8 * self.tokens
        self.put(Operation((), self.new(width), extra=(index,), weights=weights))
        self.width = width

    def patches(self, node: Node) -> None:
        width = whole(node.layer.attributes, "out_channels") or self.width
        self.width = width
        image = self.network.root(self.tokens * self.precision.activation)
        self.put(
            Operation(
                (image,),
                self.new(width),
                saves=(image,),
                weights=self.weights(node.layer.parameters),
            )
        )

    def linear(self, node: Node, source: int, keep: bool = True) -> int:
        given = node.layer.attributes
        inputs = whole(given, "in_features") or whole(given, "nx") or self.width
        outputs = whole(given, "out_features") or whole(given, "nf")
        count = node.layer.parameters
        if outputs is None:
            outputs = max(count // (inputs + 1), 1) if inputs else 1
        if self.tied and (outputs, inputs) in self.tables and outputs > 1000:
            count = max(count - inputs * outputs, 0)
        weights = self.weights(count)
        copies = self.precision.activation * node.layer.parameters
        self.network.copied_weights += copies if self.precision.autocast else 0
        output = self.new(outputs)
        self.put(
            Operation(
                (source,) if self.network.sizes else (),
                output,
                saves=(source,) if keep else (),
                weights=weights,
            )
        )
        self.width = outputs
        return output

    def norm(self, node: Node) -> None:
        composed = "rms" in node.kind or "t5" in node.kind
        source = self.current
        output = self.new(self.width, wide=True)
        saves: tuple[int, ...] = (source,)
        if composed and node.kind != "rmsnorm":
            # x / rms(x) is a tensor of its own, and kept for the weight's gradient.
            middle = self.new(self.width, wide=True)
            self.put(Operation((source,), middle, saves=saves))
            source, saves = middle, (middle,)
        rows = 8 * self.tokens
        self.put(
            Operation(
                (source,),
                output,
                saves=saves,
                extra=(rows,),
                weights=self.weights(node.layer.parameters),
            )
        )
        self.residual = output

    def dropout(self, node: Node) -> None:
        if _never(node.layer.attributes.get("p", "0.1")) or not self.network.sizes:
            return  # before the first layer there is no tensor of the model's
        size = self.network.sizes[self.current]
        mask = size // self.precision.activation
        self.put(Operation((self.current,), self.network.tensor(size), extra=(mask,)))

    def activation(self, node: Node) -> None:
        if not self.network.sizes:
            return
        source = self.current
        size = self.network.sizes[source]
        output = self.network.tensor(size)
        if node.kind in ("relu", "tanh", "sigmoid", "tanhactivation"):
            self.put(Operation((source,), output, saves=(output,)))
            return
        more = _COMPOSED.get(node.kind, 0)
        self.put(Operation((source,), output, saves=(source,), extra=(size,) * more))


def _never(probability: str) -> bool:
    try:
        return float(probability) == 0
    except ValueError:
        return False
