"""Train a small network on synthetic images, on the job's GPU, else on the CPU."""

from __future__ import annotations

import small


def main() -> None:
    args = small.arguments(__doc__ or "").parse_args()
    torch = small.import_torch()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"training on {device}", flush=True)

    pixels, labels = (part.to(device) for part in small.images(torch, args.seed))
    model = small.network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    for epoch in range(args.epochs):
        total = 0.0
        for chosen in small.batches(torch, len(labels), args.batch_size, seed=epoch):
            chosen = chosen.to(device)
            loss = torch.nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}/{args.epochs}  loss {total / len(labels):.4f}", flush=True)


if __name__ == "__main__":
    main()
