"""The operations of an attention module.

Attention counts as PyTorch's fused kernel (`scaled_dot_product_attention`). Models without
one (XLNet, T5, DeBERTa) count with their scores.
"""

from __future__ import annotations

from radrm.estimators.summaries.arguments import whole
from radrm.estimators.symbolic.nodes import FUSED, KEYS, OWN_PROJECTIONS, QUERIES, Node
from radrm.estimators.symbolic.operations import Operation
from radrm.estimators.symbolic.token_tensors import TokenTensors

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
