"""Process each item of a dataset, by workers whose number may change. It needs no PyTorch.

The workers lease items from radrun and need not wait for one another. What a worker that dies had
not reported goes to others. So an item may be processed twice after a death: the result of each is
written so that it may be written again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from radrm import elastic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    args.results.mkdir(exist_ok=True)
    data = elastic.ShardedDataset(range(args.items), shard=32, seed=None)
    elastic.load()
    for batch in elastic.loader(data, batch=8):
        for item in batch:
            (args.results / f"{item}.txt").write_text(f"{smallest_divisor(item)}\n")
        if elastic.step():
            elastic.save(None)  # all that is done is in the results
    print(f"done  {len(list(args.results.iterdir()))} of {args.items} results")


def smallest_divisor(number: int) -> int:
    return next((d for d in range(2, int(number**0.5) + 1) if number % d == 0), number)


if __name__ == "__main__":
    main()
