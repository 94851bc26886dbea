"""Training scripts in everyday shapes, for the tracer of scripts: `scripts.py NAME`.

Their one large matrix makes the memory known: weights, gradients, and states of the optimizer
are multiples of `WEIGHTS`, and all else is small.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import math
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpoints
from torch.utils.data import DataLoader, Dataset, TensorDataset

WIDTH, CLASSES = 2048, 10


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def batches(samples: int = 96, size: int = 8) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(samples, WIDTH), torch.randint(0, CLASSES, (samples,)))
    return DataLoader(data, size, shuffle=True, num_workers=2, pin_memory=True)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train(model: Any, optimizer: Any, device: Any = "cuda", epochs: int = 3) -> None:
    for _ in range(epochs):
        for x, y in batches():
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()


# ------------------------------------------------------------------ naming the GPU


def plain() -> None:
    model = net().cuda()
    train(model, sgd(model))


def numbered() -> None:
    model = net().to(0)
    train(model, sgd(model), 0)


def device_of_number() -> None:
    device = torch.device(0)
    model = net().to(device)
    train(model, sgd(model), device)


def accelerator() -> None:
    device = torch.accelerator.current_accelerator()
    model = net().to(device)
    train(model, sgd(model), device)


def new_tensors() -> None:
    """Tensors made like another one, from values and sizes."""
    model = net().cuda()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        mean = loss.new([loss.item()]) + loss.new_tensor(2.0)
        assert mean.is_cuda and f"{mean.item():.1f}"
        assert loss.new(3, 4).shape == (3, 4) and loss.new(mean.shape).is_cuda


def unfrozen_later(epoch: int = 2) -> None:
    """The large layer is trained from a later epoch on."""
    model = net().cuda()
    model[0].requires_grad_(False)
    optimizer = sgd(model)
    for at in range(4):
        if at == epoch:
            for weight in model[0].parameters():
                weight.requires_grad = True
        train(model, optimizer, epochs=1)


def unfrozen_next() -> None:
    """From the second epoch on, which the trace reaches."""
    unfrozen_later(1)


def averaged_later(wanted: bool = True, first: int = 100) -> None:
    """The average of the weights begins after the steps that a trace sees."""
    model, mean, step = net().cuda(), None, 0
    optimizer = sgd(model)
    for _ in range(first + 2):
        for x, y in batches():
            optimizer.zero_grad()
            functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
            step += 1
            if wanted and step > first:
                if mean is None:
                    mean = torch.optim.swa_utils.AveragedModel(model)
                mean.update_parameters(model)


def not_averaged() -> None:
    """The same by an option that is off."""
    averaged_later(wanted=False)


def copied_by_hand() -> None:
    """The weights of the best epoch, in a function that has not run."""
    model, kept = net().cuda(), {}
    optimizer = sgd(model)

    def keep() -> None:
        for name, weight in model.named_parameters():
            kept[name] = weight.detach().clone()

    for epoch in range(100):
        train(model, optimizer, epochs=1)
        if epoch % 10 == 9:
            keep()


LIBRARY = """
class Callback:
    def on_step_end(self, trainer, model): pass
    def on_train_end(self, trainer, model): pass
class Trainer:
    def fit(self, model, optimizer, loader, callbacks):
        for self.step in range(1000):
            for x, y in loader:
                optimizer.zero_grad()
                (model(x.cuda()) - y.cuda()[:, None]).mean().backward()
                optimizer.step()
                for each in callbacks:
                    each.on_step_end(self, model)
"""


def library(name: str, text: str) -> Any:
    """Import a module with this text, as an installed one; it comes first."""
    *packages, last = name.split(".")
    folder = "site-packages"
    os.makedirs(folder, exist_ok=True)
    sys.path.insert(0, os.path.abspath(folder))
    for package in packages:
        folder = f"{folder}/{package}"
        os.makedirs(folder, exist_ok=True)
        open(f"{folder}/__init__.py", "w").close()
    with open(f"{folder}/{last}.py", "w") as file:
        file.write(text)
    return importlib.import_module(name)


def library_loop(wanted: bool = True) -> None:
    """A library has the loop, and the user's callback copies the weights later on."""
    trainers = library("trainers", LIBRARY)

    class Averages(trainers.Callback):
        on, kept = wanted, None

        def on_step_end(self, trainer: Any, model: Any) -> None:
            if self.on and trainer.step > 500 and self.kept is None:
                self.kept = copy.deepcopy(model)

        def on_train_end(self, trainer: Any, model: Any) -> None:
            self.best = copy.deepcopy(model)

    model = net().cuda()
    trainers.Trainer().fit(model, sgd(model), batches(), [Averages()])


def library_loop_alone() -> None:
    """The same by an option that is off."""
    library_loop(wanted=False)


def finite() -> None:
    """Ends where the loss is not a number."""
    model = net().cuda()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x.cuda()), y.cuda())
        if not torch.isfinite(loss):
            sys.exit(1)
        loss.backward()
        assert loss.isfinite() and not loss.isnan()
        optimizer.step()


def frozen() -> None:
    """A layer that is never trained; another one is again."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *net()).cuda()
    model.requires_grad_(False)
    for weight in model[1:].parameters():
        weight.requires_grad = True
    train(model, sgd(model))


def best_kept() -> None:
    """The best weights so far, by a value on the GPU."""
    model, most, best = net().cuda(), torch.zeros((), device="cuda"), None
    for _ in range(2):
        train(model, sgd(model), epochs=1)
        right = sum((model(x.cuda()).argmax(1) == y.cuda()).sum() for x, y in batches())
        if right > most:
            most, best = right, copy.deepcopy(model.state_dict())
    assert best is not None


def doubled(epochs: int = 3) -> None:
    """The batch doubles in each epoch."""
    model = net().cuda()
    for epoch in range(epochs):
        optimizer, size = sgd(model), 1024 << epoch
        whole = [(torch.randn(size, WIDTH), torch.randint(0, CLASSES, (size,))) for _ in range(4)]
        for x, y in DataLoader(whole, batch_size=None):  # sample by sample it takes seconds
            optimizer.zero_grad()
            functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()


def longer() -> None:
    """Batches of its own, each larger than the one before, to the last."""
    model = net().cuda()
    optimizer = sgd(model)
    for step in range(8):
        optimizer.zero_grad()
        model(torch.randn(512 + 512 * step, WIDTH).cuda()).sum().backward()
        optimizer.step()


def leaking() -> None:
    """Keeps the graph of each step."""
    model, total = net().cuda(), 0.0
    optimizer = sgd(model)
    while True:
        optimizer.zero_grad()
        loss = model(torch.randn(64, WIDTH).cuda()).sum()
        total += loss
        loss.backward(retain_graph=True)
        optimizer.step()


def pinned() -> None:
    """Activations that wait in the CPU's memory."""
    model = net().cuda()
    optimizer = sgd(model)
    for x, y in batches(size=4096, samples=16384):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            loss = functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def policy() -> None:
    """Actions drawn from the model's output, as in reinforcement learning."""
    from torch.distributions import Categorical

    model = net().cuda()
    optimizer = sgd(model)
    for x, _ in batches():
        choice = Categorical(logits=model(x.cuda()))
        loss = -choice.log_prob(choice.sample()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def moved_by_threads() -> None:
    """Tensors that several threads move at a time, as transformers loads weights."""
    model = net()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: [torch.ones(8).cuda() for _ in range(8)], range(32)))
        list(pool.map(lambda layer: layer.cuda(), model))
    train(model, sgd(model))


def default_device() -> None:
    torch.set_default_device("cuda")
    model = net()
    optimizer = sgd(model)
    for _ in range(5):
        model(torch.randn(8, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def with_device() -> None:
    with torch.device("cuda"):
        model = net()
    train(model, sgd(model))


def legacy() -> None:
    kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    model = net().cuda()
    optimizer = sgd(model)
    for x, _ in batches():
        target = torch.autograd.Variable(kind(x.size(0), 1).fill_(1.0), requires_grad=False)
        loss = functional.mse_loss(model(x.type(kind))[:, :1], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def optimizer_first() -> None:
    model = net()
    optimizer = sgd(model)
    weights = list(model.parameters())
    model.to("cuda")
    for x, y in batches():
        optimizer.zero_grad()
        functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()


def data_moved() -> None:
    model = net()
    for weight in model.parameters():
        weight.data = weight.data.cuda()
    train(model, sgd(model))


# ------------------------------------------------------------------ reading values


def reading() -> None:
    model = net().cuda()
    optimizer = sgd(model)
    best, total = 1e9, 0.0
    for x, y in batches():
        x, y = x.cuda(), y.cuda()
        output = model(x)
        loss = functional.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        print(f"{loss:.3f} {math.log(loss.item())} {loss}")
        right = (output.argmax(1) == y).sum().item()
        print(right / len(y), output.detach().cpu().numpy().mean(), y.tolist())
        if loss < best or torch.isnan(loss):
            best = float(loss)


def indexed() -> None:
    model = net().cuda()
    optimizer = sgd(model)
    for x, y in batches():
        x, y = x.cuda(), y.cuda()
        y[:4] = -100
        output = model(x)
        kept = output[y != -100]
        assert kept.shape[0] == 4, "labels come from the CPU: the mask is known"
        copy_of = output.detach().clone()
        copy_of[copy_of < 0] = -1.0
        loss = functional.cross_entropy(output[:, [0, 1, 2]], y.clamp(0, 2)) + kept.sum()
        assert int(torch.unique(y).numel()) <= 5
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


SAMPLER = """
import torch
class BalancedPositiveNegativeSampler:
    def __init__(self, batch_size_per_image, positive_fraction):
        self.batch_size_per_image = batch_size_per_image
        self.positive_fraction = positive_fraction
    def __call__(self, matched_idxs):
        found = [], []
        wanted = int(self.batch_size_per_image * self.positive_fraction)
        for matched in matched_idxs:
            for masks, boxes in zip(found, (matched >= 1, matched == 0)):
                boxes = torch.where(boxes)[0]
                number = wanted if masks is found[0] else self.batch_size_per_image - wanted
                boxes = boxes[torch.randperm(boxes.numel(), device=boxes.device)[:number]]
                mask = torch.zeros_like(matched, dtype=torch.uint8)
                mask[boxes] = 1
                masks.append(mask)
        return found
"""
HEADS = """
import torch
class RoIHeads:
    def __init__(self, sampler):
        self.fg_bg_sampler = sampler
    def select_training_samples(self, proposals, targets=None):
        labels = [(each > 0).long() for each in proposals]
        masks = self.fg_bg_sampler(labels)
        chosen = [torch.where(one | other)[0] for one, other in zip(*masks)]
        labels = [each[at] for each, at in zip(labels, chosen)]
        return chosen, None, labels, None
"""


def detector() -> None:
    """Of 8,192 boxes 16 are sampled, 4 of them with an object, as by torchvision's detectors."""
    place = "torchvision.models.detection"
    utils, heads = library(f"{place}._utils", SAMPLER), library(f"{place}.roi_heads", HEADS)
    head = heads.RoIHeads(utils.BalancedPositiveNegativeSampler(16, 0.25))
    model = net().cuda()
    optimizer = sgd(model)
    for _ in range(4):
        scores = model(torch.zeros(8, WIDTH).cuda()).mean() * torch.zeros(8192).cuda()
        chosen, _, labels, _ = head.select_training_samples([scores.detach()])
        assert chosen[0].shape == (16,) and torch.where(labels[0] > 0)[0].shape == (4,)
        model(torch.zeros(len(chosen[0]), WIDTH).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def inference_mode() -> None:
    model = net().cuda()
    with torch.inference_mode():
        model(torch.zeros(4, WIDTH, device="cuda")).argmax(1).tolist()
    train(model, sgd(model))


def lengths() -> None:
    """The longest of a batch is a size. It comes from the data."""
    model = net().cuda()
    optimizer = sgd(model)
    for step in range(5):
        long = torch.tensor([3, 7, 5]).cuda()
        x = torch.randn(3, 9, WIDTH).cuda()[:, : long.max().item()]
        assert x.shape[1] == 7, step
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


# ------------------------------------------------------------------ optimizers


class Own(torch.optim.Optimizer):
    def __init__(self, weights: Any) -> None:
        super().__init__(weights, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["mean"] = torch.zeros_like(weight)
                state["mean"].mul_(0.9).add_(weight.grad)
                weight.add_(state["mean"], alpha=-group["lr"])


def own_optimizer() -> None:
    model = net().cuda()
    train(model, Own(model.parameters()))


def by_hand() -> None:
    model = net().cuda()
    for x, y in batches(960):
        model.zero_grad()
        functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.1 * weight.grad


def fused() -> None:
    model = net().cuda()
    train(model, torch.optim.AdamW(model.parameters(), fused=True))


def amp() -> None:
    model = net().cuda()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for x, y in batches():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = functional.cross_entropy(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()


def accumulation() -> None:
    """Hundreds of passes before the first step; the state comes by the tracer's own step."""
    model = net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(100_000):
        model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
        if number % 500 == 499:
            optimizer.step()
            optimizer.zero_grad()


def gan() -> None:
    one, two = net().cuda(), net().cuda()
    first, second = sgd(one), sgd(two)
    for number in range(1000):
        x = torch.randn(8, WIDTH, device="cuda")
        first.zero_grad()
        one(x).sum().backward()
        first.step()
        if number % 4 == 3:
            second.zero_grad()
            two(x).sum().backward()
            second.step()


def average() -> None:
    model = net().cuda()
    mean = copy.deepcopy(model).requires_grad_(False)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        for old, new in zip(mean.parameters(), model.parameters()):  # noqa: B905
            old.mul_(0.99).add_(new.detach(), alpha=0.01)


# ------------------------------------------------------------------ loops and files


def evaluated() -> None:
    """The evaluation after an epoch has a much larger batch."""
    model = net().cuda()
    optimizer = sgd(model)
    large = DataLoader(TensorDataset(torch.randn(8192, WIDTH)), batch_size=4096)
    for epoch in range(3):
        model.train()
        for x, y in batches():
            optimizer.zero_grad()
            functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for (x,) in large:
                model(x.cuda()).sum().item()
        print(epoch)


def evaluated_first() -> None:
    model = net().cuda()
    model.eval()
    with torch.no_grad():
        seen = [model(torch.randn(8, WIDTH, device="cuda")).mean().item() for _ in range(200)]
    assert len(seen) == 200
    model.train()
    train(model, sgd(model))


def checkpoint() -> None:
    model = net().cuda()
    optimizer = sgd(model)
    torch.save({"model": model.state_dict(), "step": 5}, "last.pt")
    found = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(found["model"])
    assert found["step"] == 5
    train(model, optimizer)


def compiled() -> None:
    model = torch.compile(net().cuda())

    @torch.compile
    def loss_of(output: Any, y: Any) -> Any:
        return functional.cross_entropy(output, y)

    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss_of(model(x.cuda()), y.cuda()).backward()
        optimizer.step()


def measured() -> None:
    torch.backends.cudnn.benchmark = True
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    model = net().cuda()
    assert torch.cuda.memory_allocated() >= 4 * WIDTH * WIDTH
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert torch.cuda.get_device_properties(0).total_memory > 1 << 30
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        start.record()
        train(model, sgd(model), epochs=1)
        end.record()
    torch.cuda.synchronize()
    print(start.elapsed_time(end), torch.cuda.max_memory_allocated())


def short() -> None:
    """It ends by itself, after two steps."""
    model = net().cuda()
    optimizer = sgd(model)
    for _ in range(2):
        model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
        optimizer.step()


class Sentences(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, at: int) -> Any:
        return torch.randint(0, 100, (at % 5 + 2,))


def recurrent() -> None:
    """Variable lengths, a hidden state that is kept, and no optimizer of PyTorch."""
    words, cell = nn.Embedding(100, 64).cuda(), nn.LSTM(64, WIDTH // 2).cuda()
    hidden = None
    loader = DataLoader(Sentences(), 4, collate_fn=lambda b: nn.utils.rnn.pad_sequence(b))
    for _ in range(10):
        for tokens in loader:
            output, hidden = cell(words(tokens.cuda()), hidden)
            hidden = tuple(part.detach() for part in hidden)
            output.mean().backward()
            for weight in (*words.parameters(), *cell.parameters()):
                weight.data.add_(weight.grad, alpha=-0.1)
                weight.grad = None


def packed() -> None:
    """Sequences of several lengths, packed: half of 4 x 20 numbers are padding."""
    cell, out = nn.LSTM(256, WIDTH // 4, batch_first=True).cuda(), nn.Linear(WIDTH // 4, 2).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.1)
    for _ in range(5):
        x, lengths = torch.randn(4, 20, 256).cuda(), torch.tensor([20, 12, 6, 2])
        sequence = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        assert sequence.data.shape == (40, 256)
        output, (hidden, _state) = cell(sequence)
        whole, sizes = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        assert whole.shape[:2] == (4, 20) and sizes.tolist() == [20, 12, 6, 2]
        optimizer.zero_grad()
        (out(hidden[-1]).sum() + whole.sum()).backward()
        optimizer.step()


# ------------------------------------------------------------------ several processes


def _rank(rank: int, world: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555")
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(net().to(rank), device_ids=[rank])
    optimizer = sgd(model)
    for _ in range(5):
        model(torch.randn(8, WIDTH).to(rank)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.distributed.all_reduce(torch.ones(1, device=rank))
    torch.distributed.destroy_process_group()


def spawned() -> None:
    torch.multiprocessing.spawn(_rank, args=(2,), nprocs=2)


def launched() -> None:
    _rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


def views_of_buckets() -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="0", WORLD_SIZE="2")
    torch.distributed.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(net().cuda(), gradient_as_bucket_view=True)
    train(model, sgd(model))


def forked() -> None:
    import multiprocessing

    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_rank, args=(rank, 2)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()


def data_parallel() -> None:
    model = nn.DataParallel(net()).cuda()
    train(model, sgd(model))


# ------------------------------------------------------------------ no answer


def on_cpu() -> None:
    model = net()
    train(model, sgd(model), "cpu", 1)


def no_training() -> None:
    model = net().cuda()
    with torch.no_grad():
        print(model(torch.zeros(8, WIDTH).cuda()).argmax(1).tolist())


def failing() -> None:
    model = net().cuda()
    model(torch.randn(8, WIDTH + 1, device="cuda"))


def failing_late() -> None:
    model = net().cuda()
    optimizer = sgd(model)
    model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
    optimizer.step()
    raise ValueError("after one step")


def size_of_a_guess() -> None:
    """How many boxes pass a threshold is a size that only the weights decide."""
    model = net().cuda()
    optimizer = sgd(model)
    for x, _ in batches():
        output = model(x.cuda())
        boxes = torch.zeros((output > 0.5).sum().item(), 4, device="cuda")
        (output.sum() + boxes.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()


def branch_on_a_guess() -> None:
    """The steps differ by a branch on a value that was made up."""
    model = net().cuda()
    optimizer = sgd(model)
    for number in range(20):
        x = torch.randn(8, WIDTH, device="cuda")
        loss = model(x).sum()
        if (loss > 0) == (number % 2 == 0):
            loss = loss + model(x.repeat(64, 1)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def branch_on_an_item(read: Any = torch.Tensor.item) -> None:
    """Likewise, and the value is read as a number first."""
    model = net().cuda()
    optimizer = sgd(model)
    best = 0.5
    for _ in range(20):
        x = torch.randn(8, WIDTH, device="cuda")
        loss = model(x).sum()
        if read(loss) / 2 < best / 2:
            loss = loss + model(x.repeat(4096, 1)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def branch_on_a_float() -> None:
    branch_on_an_item(float)


def growing() -> None:
    """A step that needs more from the third on, and reads a value: no branch."""
    model = net().cuda()
    optimizer = sgd(model)
    kept = []
    for number in range(20):
        loss = model(torch.randn(8, WIDTH, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(float(loss))
        if number == 1:
            kept.append(torch.zeros(WIDTH, WIDTH, device="cuda"))


def checkpointed() -> None:
    """Each of many blocks makes a backward pass inside of that of the model."""
    model = net().cuda()
    blocks = [nn.Linear(16, 16).cuda() for _ in range(20)]
    optimizer = torch.optim.SGD([p for each in (model, *blocks) for p in each.parameters()], lr=0.1)
    for _ in range(20):
        x = torch.randn(8, 16, device="cuda", requires_grad=True)
        for block in blocks:
            x = checkpoints.checkpoint(block, x, use_reentrant=True)
        model(x.repeat(1, WIDTH // 16)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def curved() -> None:
    """An optimizer that keeps two more vectors of each step, up to four steps."""
    model = net().cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), history_size=4, max_iter=1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.randn(8, WIDTH, device="cuda")).sum()
        loss.backward()
        return loss

    for _ in range(9):
        optimizer.step(closure)


def graphed() -> None:
    assert isinstance(torch.cuda.CUDAGraph, type), "it can be in annotations"
    model = net().cuda()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        model(torch.randn(8, WIDTH, device="cuda")).sum().backward()


def sentences() -> None:
    """Batches differ in size, and the largest comes long after the third."""
    model = net().cuda()
    optimizer = sgd(model)

    class Sentences(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, at: int) -> torch.Tensor:
            return torch.zeros(4096 if at == 30 else 1 + at, WIDTH)

    for x in DataLoader(Sentences(), batch_size=None):
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def generated() -> None:
    """Random numbers by generators of the GPU, which is the default device."""
    torch.set_default_device("cuda")
    generator = torch.Generator(device="cuda").manual_seed(3)
    model = net()
    optimizer = sgd(model)
    for _ in range(9):
        x = torch.randn(8, WIDTH, generator=generator)
        model(x[torch.randperm(8, generator=generator)]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def endless() -> None:
    model = net().cuda()
    optimizer = sgd(model)
    model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
    optimizer.step()
    while True:
        pass


def spread() -> None:
    """Parts of one model on two GPUs: only the fullest would count, and which is unknown."""
    first, second = nn.Linear(WIDTH, WIDTH).to("cuda:0"), nn.Linear(WIDTH, 1).to("cuda:1")
    second(first(torch.randn(8, WIDTH).to("cuda:0")).to("cuda:1")).sum().backward()


def sharded() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    FullyShardedDataParallel(net().cuda())


def random_sizes() -> None:
    """The steps differ by the program's own choice, and no value of the GPU decides."""
    model = net().cuda()
    optimizer = sgd(model)
    for _ in range(6):
        model(torch.randn(random.randint(4, 12), WIDTH, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def asked_for_help() -> None:
    argparse.ArgumentParser().parse_args(["--unknown"])


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        globals()[sys.argv[1]]()
