"""The operations of a transformer whose modules were printed without shapes.

Sizes come from the modules' arguments and parameters, the number of tokens from the job.
The rules are those of Hugging Face's and PyTorch's encoders and decoders. Which tensors a
block keeps does not depend on the place of its norms, before or after its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from radrm.estimators.summaries.arguments import sizes, whole
from radrm.estimators.summaries.layers import Layer, ModelSummary
from radrm.estimators.symbolic.operations import Network, Operation, Precision

# ------------------------------------------------------------------
# A model's modules as a tree, and the parts of a transformer.


QUERIES = frozenset(("q", "query", "q_proj", "q_lin", "wq", "to_q", "query_proj"))
KEYS = frozenset(
    (
        "k",
        "v",
        "key",
        "value",
        "k_proj",
        "v_proj",
        "k_lin",
        "v_lin",
        "wk",
        "wv",
        "to_k",
        "to_v",
        "key_proj",
    )
)
FUSED = frozenset(("qkv", "c_attn", "query_key_value", "qkv_proj", "wqkv", "in_proj"))
# Modules whose projections are their own parameters, which no line shows: squares of the width.
OWN_PROJECTIONS = {"xlnetrelativeattention": 5, "multiheadattention": 3}


class Node(Struct):
    layer: Layer
    children: list[Node] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.layer.kind.rpartition(".")[2].casefold()

    @property
    def name(self) -> str:
        return self.layer.name.casefold()

    @property
    def linear(self) -> bool:
        return not self.children and (self.kind.endswith("linear") or self.kind == "conv1d")

    @property
    def norm(self) -> bool:
        return not self.children and "norm" in self.kind

    @property
    def dropout(self) -> bool:
        return not self.children and self.kind.endswith("dropout")

    @property
    def embedding(self) -> bool:
        return (
            not self.children
            and self.kind.endswith("embedding")
            and bool(whole(self.layer.attributes, "num_embeddings"))
        )


def tree_of(layers: Sequence[Layer]) -> Node:
    root = Node(layers[0])
    path = [root]
    for layer in layers[1:]:
        del path[max(layer.depth, 1) :]
        node = Node(layer)
        path[-1].children.append(node)
        path.append(node)
    return root


def is_stack(node: Node) -> bool:
    return any(
        child.kind in ("modulelist", "sequential") or child.embedding for child in node.children
    ) or not any(child.children or child.linear for child in node.children)


def is_attention(node: Node) -> bool:
    if "attention" not in node.kind and "attn" not in node.kind:
        return False
    direct = [child for child in node.children if child.linear]
    own = bool(node.layer.parameters) or node.kind in OWN_PROJECTIONS
    return own or any(child.name in QUERIES | KEYS | FUSED for child in direct)


def is_feed_forward(node: Node) -> bool:
    return any(child.linear for child in node.children) and not any(
        child.children for child in node.children
    )


# ------------------------------------------------------------------
# The tensors of a transformer, and the operations of its leaves.
#
# A leaf is a module without children, such as a linear layer or a norm. It reads the current
# tensor and makes the next one, whose width for one token is `width`.


# Activations that consist of several operations: tensors that they keep beside the input.
_COMPOSED = {
    "newgeluactivation": 3,
    "gelunew": 3,
    "quickgeluactivation": 1,
    "fastgeluactivation": 3,
}


class TokenTensors(Struct):
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


# ------------------------------------------------------------------
# The operations of an attention module.
#
# Attention counts as PyTorch's fused kernel (`scaled_dot_product_attention`). Models without
# one (XLNet, T5, DeBERTa) count with their scores.


_HEAD_WIDTH = 64
_EAGER = ("xlnet", "t5attention", "deberta", "disentangled", "longformer", "bigbird")


def add_attention(made: TokenTensors, node: Node) -> None:
    """Add the projections, the product with the scores, and the output's projection."""
    source, width = made.current, made.width
    linears = [child for child in node.children if child.linear]
    projections = [c for c in linears if c.name in QUERIES | KEYS | FUSED]
    outputs = [c for c in linears if c not in projections]
    eager = node.kind.startswith(_EAGER)
    parts: list[int] = []
    for child in projections:
        made.width = width
        parts.append(made.linear(child, source))
    inner = width
    fused = any(child.name in FUSED for child in projections)
    queries = [c for c in projections if c.name in QUERIES]
    if queries:
        inner = whole(queries[0].layer.attributes, "out_features") or width
    squares = OWN_PROJECTIONS.get(node.kind, 0)
    own = node.layer.parameters or squares * width * width
    if own:
        # Projections that are parameters of the module itself (XLNet, torch.nn).
        count = 4 if eager else 3
        for place in range(count):
            twice = 2 if eager and place == 3 else 1
            part = made.new(width * twice)
            # XLNet adds a bias of its own to the queries for each kind of score.
            extra = (2 * made.network.sizes[part],) if eager and place == 0 else ()
            made.put(
                Operation(
                    (source,),
                    part,
                    saves=(source,),
                    extra=extra,
                    weights=made.weights(own // count),
                )
            )
            parts.append(part)
    parts = _positioned(made, parts, inner) if made.rotary and not fused else parts
    _product(made, tuple(parts), inner, eager)
    made.width = inner
    for child in outputs:
        made.linear(child, made.current)
    if own and eager:
        saved = made.current
        made.put(Operation((saved,), made.new(width), saves=(saved,)))
    made.width = width
    for child in node.children:
        late = child.name.startswith(("resid", "proj_drop", "out")) or (own and eager)
        if child.dropout and late:
            made.dropout(child)
            break
    norms = [c for c in node.children if c.norm and c.name in ("layer_norm", "layernorm")]
    if norms:
        made.add(source)
        made.norm(norms[0])


def _positioned(made: TokenTensors, parts: list[int], inner: int) -> list[int]:
    """Add rotary positions to queries and keys, and copies of keys and values for each head."""
    turned = []
    for place, part in enumerate(parts):
        narrow = made.network.sizes[part] < made.tokens * inner * made.precision.activation
        if place == 2 and not narrow:
            turned.append(part)
            continue
        output = made.new(inner)
        made.put(Operation((part,), output))
        turned.append(output)
    return turned


def _product(made: TokenTensors, parts: tuple[int, ...], inner: int, eager: bool) -> None:
    output = made.new(inner)
    heads = made.heads or max(inner // _HEAD_WIDTH, 1)
    if not eager:
        rows = made.tokens * heads * 4
        made.put(Operation(parts, output, saves=(*parts, output), extra=(rows,)))
        return
    scores = made.tokens * made.sequence * heads * made.precision.activation
    raw = made.network.tensor(scores)
    # Scores by content and by position, both alive while they are summed.
    made.put(Operation(parts, raw, saves=parts, forward_workspace=2 * scores, temporary=scores))
    soft = made.network.tensor(scores)
    made.put(Operation((raw,), soft, saves=(soft,)))
    kept = made.network.tensor(scores)
    mask = scores // made.precision.activation
    made.put(Operation((soft,), kept, extra=(mask,)))
    made.put(Operation((kept,), output, saves=(kept,)))


MAX_TOKENS = 1 << 32
_UNTIED = ("llama", "mistral", "mixtral", "qwen", "gptneox", "gptj", "phi", "falcon")
_POOLED = frozenset(
    ("pooler", "classifier", "sequence_summary", "logits_proj", "score", "pre_classifier")
)


def is_transformer(summary: ModelSummary) -> bool:
    return any("attention" in layer.kind.casefold() for layer in summary.layers)


def tokens_of(summary: ModelSummary, input_shape: Sequence[int] | None) -> int | None:
    """Return the number of tokens of an image: its patches, and one for its class."""
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
    gathered: int = 1,
) -> Network | None:
    """Return the forward pass of a transformer, with its loss. None: its sizes are unknown.

    `gathered` is the number of GPUs whose outputs are gathered on this one (DataParallel).
    """
    if batch * sequence_length > MAX_TOKENS:
        return None
    made = TokenTensors(batch, sequence_length, precision, gathered)
    root = tree_of(summary.layers)
    _survey(made, root)
    _visit(made, root)
    return _with_loss(made)


def _survey(made: TokenTensors, root: Node) -> None:
    """Find what depends on the whole model: rotary positions, tied weights, heads."""
    waiting, first = [root], 0
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        made.drops_early |= node.kind.startswith(("xlnet", "t5", "mt5"))
        made.rotary |= "rotary" in node.kind
        made.tied &= not node.kind.startswith(_UNTIED)
        begins = node.embedding or (not node.children and node.kind.startswith("conv"))
        made.begins |= begins and node.kind != "conv1d"
        if node.linear:
            # The last node comes first, so the first linear layer of the model wins.
            first = whole(node.layer.attributes, "in_features") or first
        if node.name == "relative_attention_bias" and node.embedding:
            made.heads = whole(node.layer.attributes, "embedding_dim") or 0
    if not made.begins and first:
        made.width = first
        made.current = made.network.root(made.tokens * first * made.precision.activation)


def _visit(made: TokenTensors, node: Node) -> None:
    if node.name in _POOLED:
        made.pooled = True
    if not node.children:
        _add_leaf(made, node)
    elif is_attention(node):
        add_attention(made, node)
    elif any(child.norm for child in node.children) and not is_stack(node):
        _sublayers(made, node)
    elif is_feed_forward(node):
        _feed_forward(made, node.children)
    else:
        for child in node.children:
            _visit(made, child)


def _sublayers(made: TokenTensors, node: Node) -> None:
    """Add a block: each part has a norm, a dropout and a shortcut."""
    made.residual = made.current
    norms = [child for child in node.children if child.norm]
    drops = [child for child in node.children if child.dropout]
    parts = [child for child in node.children if child.children]
    loose = [c for c in node.children if not c.children and not c.norm and not c.dropout]
    if not parts:
        _joined_behind(made, loose, drops, norms)
        return
    groups: list[list[Node]] = [[part] for part in parts]
    if any(child.linear for child in loose):
        groups.append(loose)
    shared = len(groups) > len(norms)
    for place, group in enumerate(groups):
        before = made.current
        if norms and not shared:
            made.norm(norms[min(place, len(norms) - 1)])
        if len(group) == 1 and group[0].children:
            _visit(made, group[0])
        else:
            _feed_forward(made, group)
        if drops:
            made.dropout(drops[-1])
        if made.network.operations and before != made.current:
            made.add(before)
    for norm in norms if shared else norms[len(groups) :]:
        made.norm(norm)


def _joined_behind(
    made: TokenTensors, loose: Sequence[Node], drops: Sequence[Node], norms: Sequence[Node]
) -> None:
    """Add a part as in BERT: the shortcut and the norm follow the projection."""
    linears = sum(child.linear for child in loose)
    _feed_forward(made, loose)
    for drop in drops[-1:]:
        made.dropout(drop)
    # One projection with an activation is a head, which has no shortcut.
    if linears > 1 or len(loose) == linears:
        made.add(made.residual)
    for norm in norms:
        made.norm(norm)


def _add_leaf(made: TokenTensors, node: Node) -> None:
    if node.linear:
        made.linear(node, made.current)
    elif node.norm:
        made.norm(node)
    elif node.dropout:
        made.dropout(node)
    elif node.embedding:
        made.embedding(node)
    elif node.kind.startswith("conv"):
        made.patches(node)
    elif node.kind not in ("identity",) and made.width and "embedding" not in node.kind:
        made.activation(node)


def _feed_forward(made: TokenTensors, nodes: Sequence[Node]) -> None:
    linears = [node for node in nodes if node.linear]
    drops = [node for node in nodes if node.dropout]
    rest = [n for n in nodes if not n.linear and not n.dropout and not n.norm]
    acts = [node for node in rest if node.kind not in ("identity", "droppath")]
    source, width = made.current, made.width
    gated = [n for n in linears if n.name in ("gate_proj", "up_proj", "wi_0", "wi_1", "w1", "w3")]
    if len(gated) == 2 and len(linears) > 2:
        gate = made.linear(gated[0], source)
        made.width = width
        up = made.linear(gated[1], source)
        made.current = gate
        for act in acts[:1]:
            made.activation(act)
        pair = (made.current, up)
        size = made.network.sizes[up]
        made.put(Operation(pair, made.network.tensor(size), saves=pair))
        for node in linears:
            if node not in gated:
                made.linear(node, made.current)
    else:
        for place, node in enumerate(linears):
            made.linear(node, made.current)
            if place == 0:
                for act in acts[:1]:
                    made.activation(act)
                for drop in drops[:1] if len(linears) > 1 and made.drops_early else ():
                    made.dropout(drop)
                if not acts and len(linears) > 1:
                    size = made.network.sizes[made.current]
                    output = made.network.tensor(size)
                    made.put(Operation((made.current,), output, saves=(output,)))
    for drop in drops[-1:]:
        made.dropout(drop)


def _with_loss(made: TokenTensors) -> Network | None:
    """Add the loss; for a language model it covers the vocabulary at every token."""
    network = made.network
    if not made.width or not network.operations:
        return None
    logits = made.current
    network.kept = [logits]
    size = network.sizes[logits]
    if made.gathered > 1:
        network.kept.append(network.tensor(size * made.gathered))
        network.operations.append(Operation((), network.kept[-1]))
    wide = made.network.tensor(size // made.precision.activation * made.precision.wide)
    made.put(Operation((logits,), wide, saves=(wide,)))
    return network
