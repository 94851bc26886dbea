"""Train a small network on synthetic images, on the job's GPU, else on the CPU."""

from __future__ import annotations

import small

from radrm.report import Reporter  # each job can import it


def main() -> None:
    args = small.arguments(__doc__ or "").parse_args()
    torch = small.import_torch()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"training on {device}", flush=True)

    pixels, labels = (part.to(device) for part in small.images(torch, args.seed))
    model = small.network(torch).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    report = Reporter()  # does nothing outside radrm
    for epoch in range(args.epochs):
        total = 0.0
        for chosen in small.batches(torch, len(labels), args.batch_size, seed=epoch):
            chosen = chosen.to(device)
            mean = torch.nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
            optimizer.zero_grad()
            mean.backward()
            optimizer.step()
            total += mean.item() * len(chosen)
        loss = total / len(labels)
        print(f"epoch {epoch + 1}/{args.epochs}  loss {loss:.4f}", flush=True)
        report.progress(step=epoch + 1, total=args.epochs, loss=loss)


if __name__ == "__main__":
    main()
