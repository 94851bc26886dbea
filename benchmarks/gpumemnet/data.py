"""The rows to train and test on: features of a training job and the memory it takes.

Measured: `../shared/data/mlp` (MLPs) and `../shared/data/timm` (TIMM's models; their
features lie in `data/` here). Modelled: random CNNs and transformers in `data/` here,
labelled by radrm's tracer. Nothing here needs PyTorch.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msgspec.structs import asdict

from radrm.estimators.gpumemnet.features import Family, Features, features_of
from radrm.estimators.memory import context_mib
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary
from radrm.estimators.summaries.read import read_summary
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.structs import replace

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data"
MLP_MEASURED = SHARED / "mlp" / "mlp_train_memory_a100.csv"
TIMM_MEASURED = SHARED / "timm" / "train_memory_a100.csv"
TIMM_FEATURES = HERE / "data" / "timm_features.csv"
MODELLED = {
    Family.CNN: HERE / "data" / "cnn_modelled.csv",
    Family.TRANSFORMER: HERE / "data" / "transformer_modelled.csv",
}

_ADAM_BYTES = 16
_KINDS_IN_MLP_TABLE = {
    "linear": "Linear",
    "batch_normalization": "BatchNorm1d",
    "dropout": "Dropout",
}
_FIELDS = Features.__struct_fields__


@dataclass(frozen=True, slots=True)
class Row:
    """One job. Rows of one `group` (an architecture) are never parted by a split."""

    group: str
    features: Features
    memory_mib: float
    measured: bool


def measured_mlps() -> Iterator[Row]:
    """2,100 random MLPs; all differ, so each is a group."""
    with MLP_MEASURED.open() as file:
        for row in csv.DictReader(file):
            layers = tuple(
                Layer(
                    kind=_KINDS_IN_MLP_TABLE.get(kind, kind),
                    shapes=((width,),),
                    parameters=parameters,
                )
                for kind, width, parameters in ast.literal_eval(row["Activations-Params"])
            )
            total = sum(layer.parameters for layer in layers)
            summary = ModelSummary(Form.TORCHSUMMARY, layers, total)
            features = features_of(summary, int(row["Batch Size"]))
            if features is not None:
                memory_mib = float(row["Max GPU Memory (MiB)"])
                yield Row(row["Filename"], features, memory_mib, True)


def measured_timm(family: Family) -> Iterator[Row]:
    """TIMM's models of a family, grouped by the first word of their names.

    Left out beside what the table itself marks: runs with less memory than FakeTensor's
    figure, which is a lower bound (they crashed before their first step was through).
    """
    features = read_features(TIMM_FEATURES)
    with TIMM_MEASURED.open() as file:
        for row in csv.DictReader(file):
            found = features.get(row["model"])
            memory_mib = float(row["actual_mib"])
            sound = row["valid"] == "1" and memory_mib > float(row["faketensor_mib"])
            if sound and found is not None and found.family is family:
                job = replace(found, batch_size=int(row["batch_size"]))
                yield Row(timm_group(row["model"]), job, memory_mib, True)


def timm_group(name: str) -> str:
    """`tf_efficientnetv2_b0` and `efficientnet_b3` are both `efficientnet`."""
    words = [word for word in name.split("_") if word not in ("tf", "legacy", "gluon")]
    found = re.match(r"[a-z]+", words[0])
    letters = found[0] if found else words[0]
    return re.sub(r"v$", "", letters) or letters


def modelled(family: Family) -> Iterator[Row]:
    """Random networks, labelled by the tracer; each is a group."""
    with MODELLED[family].open() as file:
        for row in csv.DictReader(file):
            yield Row(row["name"], _features(row), float(row["memory_mib"]), False)


def published_jobs(gpus: int = 1) -> Mapping[str, JobFile]:
    """The measured jobs of the prototype on so many GPUs, by name; epochs make no difference. The
    batch size is the command's."""
    found: dict[str, JobFile] = {}
    for path in sorted((SHARED / "jobs").glob("*.rad")):
        job = read_job_file(path.read_bytes(), path.name, {})
        if job.measured is not None and (job.options.gpus or 1) == gpus:
            found.setdefault(path.stem.replace("50e", "20e"), job)
    return found


def summarized(job: JobFile) -> Features | None:
    """The features in a published job's summary; their names differ in their case."""
    summaries = {path.name.lower(): path for path in (SHARED / "jobs").glob("*.model")}
    path = summaries.get((job.options.model_summary or "").lower())
    if path is None:
        return None
    return features_of(read_summary(path.read_text()), job.options.batch_size or 0)


# ------------------------------------------------------------------ features on disk


def write_features(path: Path, features: Mapping[str, Features]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["name", *_FIELDS], lineterminator="\n")
        table.writeheader()
        for name, found in features.items():
            table.writerow({"name": name, **as_words(found)})


def read_features(path: Path) -> dict[str, Features]:
    with path.open() as file:
        return {row["name"]: _features(row) for row in csv.DictReader(file)}


def as_words(features: Features) -> dict[str, object]:
    return asdict(features) | {
        "family": features.family.value,
        "cos": round(features.cos, 6),
        "sin": round(features.sin, 6),
    }


def _features(row: Mapping[str, str]) -> Features:
    numbers = {name: int(row[name]) for name in _FIELDS if name not in ("family", "cos", "sin")}
    return Features(
        family=Family(row["family"]), cos=float(row["cos"]), sin=float(row["sin"]), **numbers
    )


# ------------------------------------------------------------------ between measurements


def between(rows: Iterable[Row], each: int, seed: int) -> Iterator[Row]:
    """`each` more rows for every two neighbouring batch sizes of one model.

    Training memory grows linearly with the batch size but for workspaces and rounding.
    Only for training: nothing is tested on such a row.
    """
    draw = random.Random(seed)
    models: dict[Features, list[Row]] = {}
    for row in rows:
        models.setdefault(replace(row.features, batch_size=1), []).append(row)
    for known in models.values():
        known.sort(key=lambda row: row.features.batch_size)
        for low, high in pairwise(known):
            at, end = low.features.batch_size, high.features.batch_size
            if end == at or high.memory_mib <= low.memory_mib:
                continue
            for _ in range(each):
                batch_size = draw.randint(at, end)
                share = (batch_size - at) / (end - at)
                memory_mib = low.memory_mib + share * (high.memory_mib - low.memory_mib)
                job = replace(low.features, batch_size=batch_size)
                yield dataclasses.replace(low, features=job, memory_mib=memory_mib, measured=False)


def elsewhere(rows: Iterable[Row], each: int, seed: int) -> Iterator[Row]:
    """`each` more rows for every modelled one, at up to eight times or an eighth of its
    batch size, and with up to twice or half its parameters.

    Weights, gradients and Adam's two moments take 16 bytes a parameter; they and the CUDA
    context stay, and the rest grows with the batch size. Only for training.
    """
    draw = random.Random(seed)
    for row in rows:
        old_mib = context_mib() + _ADAM_BYTES * row.features.parameters / 2**20
        grown_mib = max(row.memory_mib - old_mib, 0)
        for _ in range(each):
            batch_size = max(round(row.features.batch_size * 8 ** draw.uniform(-1, 1)), 1)
            parameters = round(row.features.parameters * 2 ** draw.uniform(-1, 1))
            job = replace(row.features, batch_size=batch_size, parameters=parameters)
            fixed_mib = context_mib() + _ADAM_BYTES * parameters / 2**20
            memory_mib = fixed_mib + grown_mib * batch_size / row.features.batch_size
            yield dataclasses.replace(row, features=job, memory_mib=memory_mib)
