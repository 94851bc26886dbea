"""Small models, kind and hostile, for the tracer's tests. Runs in the user's Python."""

from __future__ import annotations

import os
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(nn.functional.gelu(self.first(x)))


def mlp() -> object:
    return nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def deep(batch_size: int) -> object:
    model = nn.Sequential(*(Block(256) for _ in range(6)), nn.Linear(256, 10))
    return model, torch.zeros(batch_size, 256)


def cnn(batch_size: int) -> object:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.SiLU(inplace=True),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.ReLU6(inplace=True),
        nn.Dropout(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return model, torch.zeros(batch_size, 3, 32, 32), torch.zeros(batch_size, dtype=torch.long)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.packed, self.out = nn.Linear(64, 192), nn.Linear(64, 1000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        query, key, value = self.packed(x).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


def attention() -> object:
    return Attention()


class Recurrent(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.layers, self.out = kind(32, 64, 2, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(x)[0][:, -1])


def lstm(batch_size: int) -> object:
    return Recurrent(nn.LSTM), torch.zeros(batch_size, 4, 32)


def gru(batch_size: int) -> object:
    return Recurrent(nn.GRU), torch.zeros(batch_size, 4, 32)


def encoder(batch_size: int) -> object:
    layer = nn.TransformerEncoderLayer(32, 4, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.zeros(batch_size, 8, 32)


class Reading(nn.Module):
    """Looks at values, when it is built and when it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(64, 64) for x in torch.linspace(0, 1, 4) if x.item() >= 0.5
        )
        assert len(self.layers) == 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        if (x > 1e9).any():
            raise ValueError("too large")
        return x[x > 0]


def reading(batch_size: int) -> object:
    return {"model": Reading(), "inputs": torch.zeros(batch_size, 64), "loss": torch.sum}


def own_step() -> object:
    model = nn.Linear(64, 64).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        assert torch.cuda.is_available()
        optimizer.zero_grad()
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()

    return step


def own_optimizer(batch_size: int) -> object:
    model = nn.Linear(512, 512)
    optimizer = torch.optim.Adam(model.parameters())
    return {"model": model, "inputs": torch.zeros(batch_size, 512), "optimizer": optimizer}


def own_batch(batch_size: int = 256) -> object:
    return nn.Sequential(nn.Linear(64, 64)), torch.zeros(batch_size, 64)


def own_sizes(batch_size: int = 48, input_shape: tuple[int, ...] = (64,)) -> object:
    return nn.Sequential(nn.Linear(64, 64))


def fixed_batch() -> object:
    return nn.Sequential(nn.Embedding(10, 64)), torch.zeros(128, 7, dtype=torch.long)


def any_keywords(**keywords: int) -> object:
    return nn.Sequential(nn.Linear(64, 64)), torch.zeros(keywords.get("batch_size", 96), 64)


# ------------------------------------------------------------------ hostile


def printing() -> object:
    print("{" * 100)
    return mlp()


def raising() -> object:
    raise RuntimeError("first line\nsecond line")


def exiting() -> object:
    sys.exit(0)


def leaving() -> object:
    os._exit(7)


def nothing() -> object:
    return None


def number() -> object:
    return 42


def wrong_tuple() -> object:
    return 1, 2, 3


def no_weights(batch_size: int) -> object:
    return nn.ReLU(), torch.zeros(batch_size, 4)


def wants_more(path: str) -> object:
    return path


def driver() -> object:
    return torch._C._cuda_getDriverVersion()


class Bad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, :3])


def wrong_shapes(batch_size: int) -> object:
    return Bad(), torch.zeros(batch_size, 4)


CONSTANT = 5
