"""The operations of a transformer whose modules were printed without shapes.

Sizes come from the modules' arguments and parameters, the number of tokens from the job.
The rules are those of Hugging Face's and PyTorch's own encoders and decoders: which
tensors a block keeps does not depend on whether its norms stand before or behind. Attention
is counted as PyTorch's fused kernel (`scaled_dot_product_attention`), that of models which
have none of it (XLNet, T5, DeBERTa) with its scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.estimators.overheads import Overheads
from radrm.estimators.summaries.arguments import sizes, whole
from radrm.estimators.summaries.layers import ModelSummary
from radrm.estimators.symbolic.nodes import (
    FUSED,
    KEYS,
    OWN_PROJECTIONS,
    QUERIES,
    Node,
    is_attention,
    is_feed_forward,
    is_stack,
    tree_of,
)
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.settings import Precision

MAX_TOKENS = 1 << 32
_HEAD_WIDTH = 64
_EAGER = ("xlnet", "t5attention", "deberta", "disentangled", "longformer", "bigbird")
_UNTIED = ("llama", "mistral", "mixtral", "qwen", "gptneox", "gptj", "phi", "falcon")
_POOLED = frozenset(
    ("pooler", "classifier", "sequence_summary", "logits_proj", "score", "pre_classifier")
)
# Activations that are made of several operations: tensors that they keep beside the input.
_COMPOSED = {
    "newgeluactivation": 3,
    "gelunew": 3,
    "quickgeluactivation": 1,
    "fastgeluactivation": 3,
}


def is_transformer(summary: ModelSummary) -> bool:
    return any("attention" in layer.kind.casefold() for layer in summary.layers)


def tokens_of(summary: ModelSummary, input_shape: Sequence[int] | None) -> int | None:
    """The tokens of an image: its patches, and one for its class."""
    if not input_shape or len(input_shape) != 3:
        return None
    for layer in summary.layers:
        kernel = sizes(layer.attributes, "kernel_size")
        if layer.kind == "Conv2d" and kernel and len(kernel) == 2 and 0 not in kernel:
            return (input_shape[1] // kernel[0]) * (input_shape[2] // kernel[1]) + 1
    return None


def network_of(
    summary: ModelSummary,
    batch: int,
    sequence_length: int,
    precision: Precision,
    on: Overheads,
    gathered: int = 1,
) -> Network | None:
    """The forward pass of a transformer with its loss; None where its sizes are not told.

    `gathered`: so many GPUs' outputs lie on this one (DataParallel).
    """
    if batch * sequence_length > MAX_TOKENS:
        return None
    walk = _Walk(batch, sequence_length, precision, on, gathered)
    root = tree_of(summary.layers)
    walk.survey(root)
    walk.visit(root)
    return walk.finish()


@dataclass(slots=True)
class _Walk:
    batch: int
    sequence: int
    precision: Precision
    on: Overheads
    gathered: int
    network: Network = field(default_factory=lambda: Network(uses_matrix_products=True))
    current: int = 0
    width: int = 0
    residual: int = 0
    pooled: bool = False
    begins: bool = False
    """A table of words or a convolution of patches makes the first tokens."""
    rotary: bool = False
    drops_early: bool = False
    """Between the two projections of a feed-forward part, too (XLNet, T5)."""
    tied: bool = True
    heads: int = 0
    tables: dict[tuple[int, int], int] = field(default_factory=dict)
    """Embeddings by rows and width: how many there are."""

    # ------------------------------------------------------------------ tensors

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

    # ------------------------------------------------------------------ the tree

    def survey(self, root: Node) -> None:
        """What only the whole model tells: rotary positions, tied weights, heads."""
        waiting, first = [root], 0
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children)
            self.drops_early |= node.kind.startswith(("xlnet", "t5", "mt5"))
            self.rotary |= "rotary" in node.kind
            self.tied &= not node.kind.startswith(_UNTIED)
            begins = node.embedding or (not node.children and node.kind.startswith("conv"))
            self.begins |= begins and node.kind != "conv1d"
            if node.linear:
                # Nodes come last first: what stays is the first one's.
                first = whole(node.layer.attributes, "in_features") or first
            if node.name == "relative_attention_bias" and node.embedding:
                self.heads = whole(node.layer.attributes, "embedding_dim") or 0
        if not self.begins and first:
            self.width = first
            self.current = self.network.root(self.tokens * first * self.precision.activation)

    def visit(self, node: Node) -> None:
        if node.name in _POOLED:
            self.pooled = True
        if not node.children:
            self.leaf(node)
        elif is_attention(node):
            self.attention(node)
        elif any(child.norm for child in node.children) and not is_stack(node):
            self.sublayers(node)
        elif is_feed_forward(node):
            self.feed_forward(node.children)
        else:
            for child in node.children:
                self.visit(child)

    def sublayers(self, node: Node) -> None:
        """A block: each of its parts with a norm, a dropout and a shortcut."""
        self.residual = self.current
        norms = [child for child in node.children if child.norm]
        drops = [child for child in node.children if child.dropout]
        parts = [child for child in node.children if child.children]
        loose = [c for c in node.children if not c.children and not c.norm and not c.dropout]
        if not parts:
            self.joined_behind(loose, drops, norms)
            return
        groups: list[list[Node]] = [[part] for part in parts]
        if any(child.linear for child in loose):
            groups.append(loose)
        shared = len(groups) > len(norms)
        for place, group in enumerate(groups):
            before = self.current
            if norms and not shared:
                self.norm(norms[min(place, len(norms) - 1)])
            if len(group) == 1 and group[0].children:
                self.visit(group[0])
            else:
                self.feed_forward(group)
            if drops:
                self.dropout(drops[-1])
            if self.network.operations and before != self.current:
                self.add(before)
        for norm in norms if shared else norms[len(groups) :]:
            self.norm(norm)

    def joined_behind(
        self, loose: Sequence[Node], drops: Sequence[Node], norms: Sequence[Node]
    ) -> None:
        """BERT's way: the shortcut and the norm stand behind the projection."""
        linears = sum(child.linear for child in loose)
        self.feed_forward(loose)
        for drop in drops[-1:]:
            self.dropout(drop)
        # One projection with an activation is a head, which has no shortcut.
        if linears > 1 or len(loose) == linears:
            self.add(self.residual)
        for norm in norms:
            self.norm(norm)

    def add(self, other: int) -> None:
        sizes_ = self.network.sizes
        if sizes_[other] != sizes_[self.current]:
            return
        output = self.network.tensor(sizes_[self.current])
        self.put(Operation((self.current, other), output, passes=True))

    # ------------------------------------------------------------------ leaves

    def leaf(self, node: Node) -> None:
        if node.linear:
            self.linear(node, self.current)
        elif node.norm:
            self.norm(node)
        elif node.dropout:
            self.dropout(node)
        elif node.embedding:
            self.embedding(node)
        elif node.kind.startswith("conv"):
            self.patches(node)
        elif node.kind not in ("identity",) and self.width and "embedding" not in node.kind:
            self.activation(node)

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
        if not shared and not again and not self.tables_of_words(width, rows):
            # Positions and segments are added to the words, position tables once for all.
            output = self.new(width, tokens=self.sequence if "position" in node.name else None)
            self.network.operations.append(Operation((), output, weights=weights))
            total = self.network.tensor(self.network.sizes[self.current])
            self.put(Operation((self.current, output), total, passes=True))
            return
        index = 8 * self.tokens
        self.put(Operation((), self.new(width), extra=(index,), weights=weights))
        self.width = width

    def tables_of_words(self, width: int, rows: int) -> bool:
        """Whether this is the first table, or one of another width."""
        return self.width != width or not self.width

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
        if _never(node.layer.attributes.get("p", "0.1")):
            return
        size = self.network.sizes[self.current]
        mask = size // self.precision.activation
        self.put(Operation((self.current,), self.network.tensor(size), extra=(mask,)))

    def activation(self, node: Node) -> None:
        source = self.current
        size = self.network.sizes[source]
        output = self.network.tensor(size)
        if node.kind in ("relu", "tanh", "sigmoid", "tanhactivation"):
            self.put(Operation((source,), output, saves=(output,)))
            return
        more = _COMPOSED.get(node.kind, 0)
        self.put(Operation((source,), output, saves=(source,), extra=(size,) * more))

    # ------------------------------------------------------------------ parts of a block

    def feed_forward(self, nodes: Sequence[Node]) -> None:
        linears = [node for node in nodes if node.linear]
        drops = [node for node in nodes if node.dropout]
        rest = [n for n in nodes if not n.linear and not n.dropout and not n.norm]
        acts = [node for node in rest if node.kind not in ("identity", "droppath")]
        source, width = self.current, self.width
        gated = [
            n for n in linears if n.name in ("gate_proj", "up_proj", "wi_0", "wi_1", "w1", "w3")
        ]
        if len(gated) == 2 and len(linears) > 2:
            gate = self.linear(gated[0], source)
            self.width = width
            up = self.linear(gated[1], source)
            self.current = gate
            for act in acts[:1]:
                self.activation(act)
            pair = (self.current, up)
            size = self.network.sizes[up]
            self.put(Operation(pair, self.network.tensor(size), saves=pair))
            for node in linears:
                if node not in gated:
                    self.linear(node, self.current)
        else:
            for place, node in enumerate(linears):
                self.linear(node, self.current)
                if place == 0:
                    for act in acts[:1]:
                        self.activation(act)
                    for drop in drops[:1] if len(linears) > 1 and self.drops_early else ():
                        self.dropout(drop)
                    if not acts and len(linears) > 1:
                        size = self.network.sizes[self.current]
                        made = self.network.tensor(size)
                        self.put(Operation((self.current,), made, saves=(made,)))
        for drop in drops[-1:]:
            self.dropout(drop)

    def attention(self, node: Node) -> None:
        """Projections, the product with the scores, the projection of what comes out."""
        source, width = self.current, self.width
        linears = [child for child in node.children if child.linear]
        projections = [c for c in linears if c.name in QUERIES | KEYS | FUSED]
        outputs = [c for c in linears if c not in projections]
        eager = node.kind.startswith(_EAGER)
        parts: list[int] = []
        for child in projections:
            self.width = width
            parts.append(self.linear(child, source))
        inner = width
        fused = any(child.name in FUSED for child in projections)
        queries = [c for c in projections if c.name in QUERIES]
        if queries:
            inner = whole(queries[0].layer.attributes, "out_features") or width
        squares = OWN_PROJECTIONS.get(node.kind, 0)
        own = node.layer.parameters or squares * width * width
        if own:
            # Projections that are parameters of the module itself (XLNet, torch.nn).
            made = 4 if eager else 3
            for place in range(made):
                twice = 2 if eager and place == 3 else 1
                part = self.new(width * twice)
                # XLNet adds a bias of its own to the queries for each kind of score.
                extra = (2 * self.network.sizes[part],) if eager and place == 0 else ()
                self.put(
                    Operation(
                        (source,),
                        part,
                        saves=(source,),
                        extra=extra,
                        weights=self.weights(own // made),
                    )
                )
                parts.append(part)
        parts = self.positioned(parts, inner) if self.rotary and not fused else parts
        self.product(tuple(parts), inner, eager)
        self.width = inner
        for child in outputs:
            self.linear(child, self.current)
        if own and eager:
            saved = self.current
            self.put(Operation((saved,), self.new(width), saves=(saved,)))
        self.width = width
        for child in node.children:
            late = child.name.startswith(("resid", "proj_drop", "out")) or (own and eager)
            if child.dropout and late:
                self.dropout(child)
                break
        norms = [c for c in node.children if c.norm and c.name in ("layer_norm", "layernorm")]
        if norms:
            self.add(source)
            self.norm(norms[0])

    def positioned(self, parts: list[int], inner: int) -> list[int]:
        """Queries and keys turned by their positions; keys and values for every head."""
        turned = []
        for place, part in enumerate(parts):
            narrow = self.network.sizes[part] < self.tokens * inner * self.precision.activation
            if place == 2 and not narrow:
                turned.append(part)
                continue
            output = self.new(inner)
            self.put(Operation((part,), output))
            turned.append(output)
        return turned

    def product(self, parts: tuple[int, ...], inner: int, eager: bool) -> None:
        output = self.new(inner)
        heads = self.heads or max(inner // _HEAD_WIDTH, 1)
        if not eager:
            rows = self.tokens * heads * 4
            self.put(Operation(parts, output, saves=(*parts, output), extra=(rows,)))
            return
        scores = self.tokens * self.sequence * heads * self.precision.activation
        raw = self.network.tensor(scores)
        # Scores by content and by position, both alive while they are summed.
        self.put(Operation(parts, raw, saves=parts, forward_workspace=2 * scores, temporary=scores))
        soft = self.network.tensor(scores)
        self.put(Operation((raw,), soft, saves=(soft,)))
        kept = self.network.tensor(scores)
        mask = scores // self.precision.activation
        self.put(Operation((soft,), kept, extra=(mask,)))
        self.put(Operation((kept,), output, saves=(kept,)))

    # ------------------------------------------------------------------ the end

    def finish(self) -> Network | None:
        """With the loss: for a model of language, over its vocabulary at every token."""
        network = self.network
        if not self.width or not network.operations:
            return None
        logits = self.current
        network.kept = [logits]
        size = network.sizes[logits]
        if self.gathered > 1:
            network.kept.append(network.tensor(size * self.gathered))
            network.operations.append(Operation((), network.kept[-1]))
        wide = self.network.tensor(size // self.precision.activation * self.precision.wide)
        self.put(Operation((logits,), wide, saves=(wide,)))
        return network


def _never(probability: str) -> bool:
    try:
        return float(probability) == 0
    except ValueError:
        return False
