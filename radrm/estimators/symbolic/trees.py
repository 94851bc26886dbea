"""The operations of a transformer whose modules were printed without shapes.

Sizes come from the modules' arguments and parameters, the number of tokens from the job.
The rules are those of Hugging Face's and PyTorch's encoders and decoders. Which tensors a
block keeps does not depend on the place of its norms, before or after its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.estimators.summaries.arguments import sizes, whole
from radrm.estimators.summaries.layers import ModelSummary
from radrm.estimators.symbolic.attention import add_attention
from radrm.estimators.symbolic.nodes import Node, is_attention, is_feed_forward, is_stack, tree_of
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.settings import Precision
from radrm.estimators.symbolic.token_tensors import TokenTensors

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
