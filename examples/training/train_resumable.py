"""Train, save on a warning (USR1 or TERM), exit with code 75, and resume when run again."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import small

EXIT_UNFINISHED = 75  # sysexits.h: a temporary failure, try again


class Warned:
    """Notes the signal that asks this process to end."""

    def __init__(self) -> None:
        self.by: str | None = None
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Only note it: a handler may run at any point, also while a checkpoint is saved.
        self.by = signal.Signals(number).name


def main() -> int:
    warned = Warned()
    parser = small.arguments(__doc__ or "")
    parser.add_argument("--checkpoints", type=Path, default=Path(), metavar="FOLDER")
    parser.add_argument("--save-every", type=int, default=10, metavar="EPOCHS")
    args = parser.parse_args()
    torch = small.import_torch()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pixels, labels = (part.to(device) for part in small.images(torch, args.seed))
    model = small.network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)

    file = args.checkpoints / "last.pt"
    first = load(torch, file, model, optimizer, device)
    print(f"training on {device} from epoch {first + 1}", flush=True)
    for epoch in range(first, args.epochs):
        total = 0.0
        for chosen in small.batches(torch, len(labels), args.batch_size, seed=epoch):
            chosen = chosen.to(device)
            loss = torch.nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}/{args.epochs}  loss {total / len(labels):.4f}", flush=True)
        done = epoch + 1
        if warned.by is not None and done < args.epochs:
            save(torch, file, model, optimizer, done)
            print(f"{warned.by}: saved after epoch {done}; run again to continue", flush=True)
            return EXIT_UNFINISHED
        if done % args.save_every == 0:
            save(torch, file, model, optimizer, done)
    file.unlink(missing_ok=True)  # nothing is left to resume
    return 0


def save(torch: Any, file: Path, model: Any, optimizer: Any, epochs: int) -> None:
    """Save completely or not at all: a kill in between leaves the previous checkpoint."""
    state = {"epochs": epochs, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    new = file.with_suffix(".new")
    with new.open("wb") as out:
        torch.save(state, out)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)


def load(torch: Any, file: Path, model: Any, optimizer: Any, device: str) -> int:
    """Load the last checkpoint. Returns the number of its epochs, 0 without a checkpoint."""
    if not file.exists():
        return 0
    state = torch.load(file, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epochs"])


if __name__ == "__main__":
    sys.exit(main())
