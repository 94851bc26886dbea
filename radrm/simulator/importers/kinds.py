"""What a published job's model tells: its family, and its SM activity where nothing else does."""

from __future__ import annotations

from collections.abc import Sequence

# Where no profile tells it. Light jobs: guesses that go with the fit of `core.physics`; the
# rest: round figures near the middle of what the published exclusive run showed of each kind.
_SMACT = (
    ("mnist", 0.07),
    ("mobilenetv3", 0.20),
    ("resnet18", 0.30),
    ("resnet34", 0.35),
    ("efficientnet", 0.45),
    ("mobilenet", 0.35),
    ("resnet", 0.62),
    ("inception", 0.66),
    ("xception", 0.83),
    ("vgg", 0.87),
)
_SMACT_BY_FAMILY = {"transformer": 0.80, "light": 0.25, "tiny": 0.07, "vgg": 0.87, "cnn": 0.60}


def family_of(model: str, dataset: str) -> str:
    """The family of a published job, for its share weight in the physics."""
    model, dataset = model.lower(), dataset.lower()
    if "mnist" in model or "mnist" in dataset:
        return "tiny"
    if "cifar" in dataset or "cifar" in model:
        return "light"
    if any(word in model for word in ("bert", "xlnet", "gpt", "transformer", "llama")):
        return "transformer"
    return "vgg" if "vgg" in model else "cnn"


def usual_smact(model: str, family: str) -> float:
    named = [smact for word, smact in _SMACT if word in model.lower()]
    if family == "light" and "efficientnet" in model.lower():
        return _SMACT_BY_FAMILY["light"]
    return named[0] if named and family != "transformer" else _SMACT_BY_FAMILY[family]


def guesses(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    kinds = sorted(set(names))
    shown_ = ", ".join(kinds[:4]) + (", ..." if len(kinds) > 4 else "")
    return (
        f"no profile tells the SM activity of {len(names)} jobs ({shown_}): it is guessed from "
        "their model",
    )
