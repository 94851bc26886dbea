"""Train one of four small models on the CPU; save when told to, and go on from what was saved.

    python -m benchmarks.checkpoint.train MODEL STEPS SAVE_AT

After step SAVE_AT it saves to `$RADRM_CHECKPOINT_DIR` and ends; 0: it trains to the end. It prints
one JSON object: the moment after its first step (seconds of the monotonic clock, which all
processes share), the seconds to save, the size of the file in bytes, the step and its loss.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

from radrm.report import Reporter

CLASSES, BATCH = 10, 16


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 512, num_layers=2, batch_first=True)
        self.head = nn.Linear(512, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.lstm(x)[0][:, -1])
        return out


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)  # with dropout
        self.layers = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.layers(x).mean(1))
        return out


def model_of(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Return a model and the shape of one input. Raises `KeyError` for an unknown name."""
    wide = (nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU())
    conv = (nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Flatten())
    known = {
        "mlp": (lambda: nn.Sequential(*wide, nn.Linear(2048, CLASSES)), (784,)),
        "cnn": (lambda: nn.Sequential(*conv, nn.Linear(64 * 49, CLASSES)), (3, 32, 32)),
        "lstm": (Lstm, (16, 64)),
        "transformer": (Transformer, (16, 256)),
    }
    make, shape = known[name]
    return make(), shape


def save(path: Path, state: dict[str, object]) -> None:
    """Write a state so that after any crash the file holds this one, or the one before."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def main(name: str, steps: int, save_at: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    report = Reporter()
    path = Path(os.environ["RADRM_CHECKPOINT_DIR"]) / "state.pt"
    model, shape = model_of(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    begun = 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        begun = state["step"]
    said: dict[str, float] = {}
    for step in range(begun + 1, steps + 1):
        inputs, targets = torch.randn(BATCH, *shape), torch.randint(CLASSES, (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        said.setdefault("first_step", time.monotonic())
        said.update(step=step, loss=loss.item())
        report.progress(step=step, total=steps, loss=loss)
        if step == save_at:
            at = time.monotonic()
            kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(path, {**kept, "random": torch.get_rng_state(), "step": step})
            report.saved(step=step)
            said.update(save_s=time.monotonic() - at, bytes=path.stat().st_size)
            break
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
