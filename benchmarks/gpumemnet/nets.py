"""Random CNNs and transformers in the ranges of the thesis (tables 5.4 and 5.6).

Each network is drawn from a seed alone, so a name such as `cnn-17` says all of it. What
the thesis leaves open is decided here and said in docs/lab/gpumemnet.md: image sizes, where a
network shrinks its feature maps, and how attention splits its projections.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CNN_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense")
ACTIVATIONS = ("ReLU", "ELU", "Tanh", "LeakyReLU", "PReLU", "SELU", "GELU", "SiLU", "Mish",
               "Softplus")  # fmt: skip
IMAGE_SIZES = (28, 32, 64, 96, 128, 160, 192, 224, 256, 299, 320)
SEQUENCES = (128, 256, 512, 1024)
_BYTES = 4
_MOST_BYTES = 48 << 30
_IN_PLACE = ("ReLU", "ELU", "LeakyReLU", "SELU", "SiLU", "Mish")


def activation(name: str, in_place: bool) -> nn.Module:
    made: nn.Module = getattr(nn, name)(**({"inplace": True} if in_place else {}))
    return made


def _batch_size(draw: random.Random, least: int, most: int, sample_bytes: float) -> int:
    """Draw a batch size: a third of them log-uniform, the others such that large jobs are as
    frequent as small ones, if the network is large enough."""
    if draw.random() < 1 / 3:
        return round(least * (most / least) ** draw.random())
    wanted = draw.random() * _MOST_BYTES / sample_bytes
    return min(max(round(wanted), least), most)


# ------------------------------------------------------------------ convolutional networks


@dataclass(frozen=True, slots=True)
class CnnPlan:
    """What is drawn of a CNN. `filters` has one number per convolution."""

    shape: str
    in_channels: int
    image: int
    classes: int
    kernel: int
    filters: tuple[int, ...]
    shrinks: tuple[bool, ...]
    pooled: bool
    """Feature maps shrink by max pooling, else by strides."""
    norm: bool
    dropout: float
    activation: str
    in_place: bool
    flat: bool
    """The last feature map goes into the linear layer whole, else its mean."""
    batch_size: int


def cnn_plan(seed: int) -> CnnPlan:
    draw = random.Random(f"cnn-{seed}")
    shape = draw.choice(CNN_SHAPES)
    depth = draw.randint(1, 29)
    image = draw.choice(IMAGE_SIZES)
    base = round(16 * 32 ** draw.random())
    name = draw.choice(ACTIVATIONS) if draw.random() < 0.6 else "ReLU"
    every = draw.randint(2, 9)
    shrinks = tuple(
        at % every == every - 1 and image >> ((at + 1) // every) >= 4 for at in range(depth)
    )
    left = image >> sum(shrinks)
    filters = _filters(shape, base, depth, draw)
    norm, dropped = draw.random() < 0.6, draw.random() < 0.4
    sides = [image >> sum(shrinks[: at + 1]) for at in range(depth)]
    elements = sum(f * side * side for f, side in zip(filters, sides, strict=True))
    return CnnPlan(
        shape=shape,
        in_channels=draw.choice((1, 3)),
        image=image,
        classes=round(2 * 11_000 ** draw.random()),
        kernel=draw.choice((3, 3, 5, 7)),
        filters=filters,
        shrinks=shrinks,
        pooled=draw.random() < 0.5,
        norm=norm,
        dropout=round(draw.uniform(0.1, 0.5), 2) if dropped else 0.0,
        activation=name,
        in_place=name in _IN_PLACE and draw.random() < 0.5,
        flat=left <= 8 and draw.random() < 0.5,
        batch_size=_batch_size(draw, 2, 128, elements * (2 + dropped) * _BYTES),
    )


def _filters(shape: str, base: int, depth: int, draw: random.Random) -> tuple[int, ...]:
    """Filters of each convolution, up to 1024."""
    last = max(depth - 1, 1)
    if shape == "pyramid":
        every = draw.randint(2, 6)
        filters = [base * 2 ** min(at // every, 4) for at in range(depth)]
    elif shape == "gradual":
        step = base * draw.uniform(0.1, 0.5)
        filters = [round(base + step * at) for at in range(depth)]
    elif shape == "bottleneck":
        filters = [base if at % 3 == 2 or at == 0 else max(base // 4, 4) for at in range(depth)]
    elif shape == "hourglass":
        filters = [max(round(base * (0.25 + 1.5 * abs(at / last - 0.5))), 4) for at in range(depth)]
    elif shape == "dense":
        growth = max(base // 4, 8)
        filters = [base, *[growth] * (depth - 1)]
    else:
        filters = [base] * depth
    return tuple(min(count, 1024) for count in filters)


class Cnn(nn.Module):
    """`residual` adds each pair's input to its output; `dense` gives each convolution the
    outputs of all before it since the feature map last shrank."""

    def __init__(self, plan: CnnPlan) -> None:
        super().__init__()
        self.plan = plan
        channels, size = plan.in_channels, plan.image
        blocks, joins = [], []
        for filters, shrinks in zip(plan.filters, plan.shrinks, strict=True):
            stride = 2 if shrinks and not plan.pooled else 1
            blocks.append(self._block(channels, filters, stride, shrinks and plan.pooled))
            join = (
                plan.shape == "residual" and channels != plan.in_channels and not shrinks
            ) and channels == filters
            joins.append(join)
            size = (size + 1) // 2 if stride == 2 else size // 2 if shrinks else size
            dense = plan.shape == "dense" and not shrinks
            channels = channels + filters if dense else filters
        self.blocks = nn.ModuleList(blocks)
        self.joins = joins
        self.pool = nn.Identity() if plan.flat else nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels * size * size if plan.flat else channels, plan.classes)

    def _block(self, inputs: int, filters: int, stride: int, pool: bool) -> nn.Sequential:
        plan = self.plan
        padding = plan.kernel // 2
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, filters, plan.kernel, stride, padding, bias=not plan.norm)
        ]
        if plan.norm:
            layers.append(nn.BatchNorm2d(filters))
        layers.append(activation(plan.activation, plan.in_place))
        if plan.dropout:
            layers.append(nn.Dropout(plan.dropout))
        if pool:
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block, join, shrinks in zip(self.blocks, self.joins, self.plan.shrinks, strict=True):
            out = block(x)
            if join:
                x = x + out
            elif self.plan.shape == "dense" and not shrinks:
                x = torch.cat((x, out), 1)
            else:
                x = out
        logits: torch.Tensor = self.head(torch.flatten(self.pool(x), 1))
        return logits


# ------------------------------------------------------------------ transformers


@dataclass(frozen=True, slots=True)
class TransformerPlan:
    layers: int
    width: int
    heads: int
    inner: int
    classes: int
    """0: the head names a token of the vocabulary at each place."""
    vocabulary: int
    sequence: int
    dropout: float
    fused: bool
    """Queries, keys and values come from one linear layer, else from three."""
    causal: bool
    activation: str
    batch_size: int


def transformer_plan(seed: int) -> TransformerPlan:
    draw = random.Random(f"transformer-{seed}")
    heads = draw.choice((2, 4, 8, 12, 16))
    width = max(round(128 * 16 ** draw.random() / (heads * 8)), 1) * heads * 8
    names_tokens = draw.random() < 0.25
    layers, inner = draw.randint(2, 39), width * draw.choice((2, 3, 4))
    sequence = draw.choice(SEQUENCES)
    return TransformerPlan(
        layers=layers,
        width=width,
        heads=heads,
        inner=inner,
        classes=0 if names_tokens else draw.randint(2, 1000),
        vocabulary=round((25_000 if names_tokens else 50_000) * 20 ** (draw.random() / 2)),
        sequence=sequence,
        dropout=round(draw.uniform(0.1, 0.5), 2),
        fused=draw.random() < 0.5,
        causal=draw.random() < 0.3,
        activation=draw.choice(("GELU", "GELU", "ReLU", "SiLU")),
        batch_size=_batch_size(
            draw, 1, 128, sequence * layers * (8 * width + 2.3 * inner) * _BYTES
        ),
    )


class Attention(nn.Module):
    def __init__(self, plan: TransformerPlan) -> None:
        super().__init__()
        self.heads, self.causal, self.p = plan.heads, plan.causal, plan.dropout
        width = plan.width
        self.projections = (
            nn.ModuleList([nn.Linear(width, 3 * width)])
            if plan.fused
            else nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        )
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        made = [projection(x) for projection in self.projections]
        parts = made[0].chunk(3, -1) if len(made) == 1 else made
        q, k, v = (p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in parts)
        p = self.p if self.training else 0.0
        seen = nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=p, is_causal=self.causal
        )
        out: torch.Tensor = self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return out


class Block(nn.Module):
    def __init__(self, plan: TransformerPlan) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(plan.width), nn.LayerNorm(plan.width)
        self.attention = Attention(plan)
        self.inner, self.outer = (
            nn.Linear(plan.width, plan.inner),
            nn.Linear(plan.inner, plan.width),
        )
        self.act = activation(plan.activation, False)
        self.drop1, self.drop2 = nn.Dropout(plan.dropout), nn.Dropout(plan.dropout)
        self.drop3 = nn.Dropout(plan.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.drop1(self.attention(x)))
        made = self.outer(self.drop2(self.act(self.inner(x))))
        out: torch.Tensor = self.norm2(x + self.drop3(made))
        return out


class Transformer(nn.Module):
    def __init__(self, plan: TransformerPlan) -> None:
        super().__init__()
        self.names_tokens = not plan.classes
        self.tokens = nn.Embedding(plan.vocabulary, plan.width)
        self.places = nn.Embedding(plan.sequence, plan.width)
        self.drop = nn.Dropout(plan.dropout)
        self.blocks = nn.ModuleList(Block(plan) for _ in range(plan.layers))
        self.head = nn.Linear(plan.width, plan.classes or plan.vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x if self.names_tokens else x.mean(1))
        return logits


# ------------------------------------------------------------------ one training job


def network_plan(family: str, seed: int) -> CnnPlan | TransformerPlan:
    return cnn_plan(seed) if family == "cnn" else transformer_plan(seed)


def network(family: str, seed: int) -> tuple[nn.Module, tuple[int, ...], int]:
    """A network, the shape of one sample, the batch size."""
    plan = network_plan(family, seed)
    if isinstance(plan, CnnPlan):
        return Cnn(plan), (plan.in_channels, plan.image, plan.image), plan.batch_size
    return Transformer(plan), (plan.sequence,), plan.batch_size


def training_job(family: str, seed: int) -> dict[str, Any]:
    """A network, a batch of data and the loss, as radrm's tracer takes them."""
    plan = network_plan(family, seed)
    model, shape, batch = network(family, seed)
    if isinstance(plan, CnnPlan):
        classes, inputs = plan.classes, torch.empty(batch, *shape)
        targets = torch.empty(batch, dtype=torch.long)
    else:
        classes = plan.classes or plan.vocabulary
        inputs = torch.empty(batch, *shape, dtype=torch.long)
        targets = torch.empty((batch,) if plan.classes else (batch, *shape), dtype=torch.long)

    def loss(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.view(-1, classes), wanted.view(-1))

    return {"model": model, "inputs": inputs, "targets": targets, "loss": loss}
