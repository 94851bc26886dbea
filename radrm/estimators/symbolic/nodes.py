"""A model's modules as a tree, and the parts of a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.estimators.summaries.arguments import whole
from radrm.estimators.summaries.layers import Layer

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


@dataclass(slots=True)
class Node:
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
