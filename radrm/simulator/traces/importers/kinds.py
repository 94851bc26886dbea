"""The family of a published job's model, and its usual SM activity if no profile has it."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.errors import plain

# By a part of the model's name; the first that matches counts. Light jobs: guesses that agree
# with the fit of `interference.model`. Others: round figures from the published exclusive run.
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
    """Return the family of a published job, for its share weight in `interference.model`."""
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
    shown_ = ", ".join(map(plain, kinds[:4])) + (", ..." if len(kinds) > 4 else "")
    return (
        f"no profile has the SM activity of {len(names)} jobs ({shown_}); it is guessed from "
        "their model",
    )
