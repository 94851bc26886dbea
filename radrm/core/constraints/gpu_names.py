"""Whether a type of GPU, as people and clusters write it, means a GPU of the driver's name.

`rtx3090`, `rtx_3090`, `nvidia_geforce_rtx_3090` and `RTX3090-24GB` mean "NVIDIA GeForce RTX 3090".

Theory of operation
-------------------
Both texts are read alike, into the parts of a name: makers' words (NVIDIA, GeForce, RTX), models
(A100, 3090), variants (Ti, Ada, Laptop), memory, form (SXM4, PCIe, NVL), a MIG profile, and other
words. Blanks and punctuation separate words, but none is needed: a word is cut where all of it
can be read (`rtxa6000`, `a100sxm480gb`). Then a type means a GPU if each part that it states fits:

    model and variants   are the same: `2080` is no 2080 Ti, `a100` no A10, `rtx6000` no A6000
    memory               that of the name, else of the device: makers round it (24G: 22.5 to 24.7G)
    form                 the same, where the name tells it: a bare H100 or H200 is the SXM form
    makers' words        decide only where the model alone does not: `6000` alone means no GPU
    profile, others      stand in the name

A part that is not stated fits all: `a100` means every A100, and its MIG instances. A type that is
the name of an architecture (`ampere`) means each model of it.

Names: what NVML prints (NVIDIA's product names). Types: those in published job files and in
`gres.conf` of clusters; Slurm's own are the driver's names in lower case, blanks as `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from msgspec import Struct

_MOST = 128
"""Characters of a name that are read: cutting a word takes time with its square."""
_VARIANTS = frozenset(
    {"ti", "super", "laptop", "maxq", "ada", "pro", "sff", "d", "m", "blackwell", "mobile"}
)
_EDITIONS = frozenset({"server", "workstation", "maxq", "blackwell"})
"""Words that tell editions of one model: the RTX PRO 6000 Blackwell has three."""
_NOISE = frozenset(
    {"gpu", "gpus", "graphics", "generation", "edition", "with", "design", "r", "tm", "card"}
)
_TITANS = ("rtx", "xp", "x", "v", "z", "black")
_AS_SXM = frozenset({"h100", "h200", "h800", "h20", "b200", "b300"})
"""Models whose SXM form has no form in its name, as `NVIDIA H100 80GB HBM3`."""
_LARGER = {"v100l": "v100 32g", "p100l": "p100 16g", "a100l": "a100 80g", "a100fat": "a100 80g"}
"""The larger of two cards, as clusters in Canada and Sweden write it."""

# A word is cut into these. Earlier ones are tried first.
_PIECES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("maker", re.compile("nvidia|geforce|tesla|quadro|instinct|rtx|gtx|amd|gt(?=[0-9])")),
    ("titan", re.compile(f"titan(?:{'|'.join(_TITANS)})?")),
    ("form", re.compile("sxm[2-9]?|pcie|nvl|dgxs")),
    ("hbm", re.compile("hbm[2-4]?e?")),
    ("memory", re.compile("[1-9][0-9]{0,3}g(?:i?b)?")),
    ("variant", re.compile("ti|super|laptop|mobile|maxq|ada|pro|sff|blackwell")),
    ("edition", re.compile("server|workstation")),
    ("noise", re.compile("gpu|generation|edition")),
    ("thousands", re.compile("[1-9]k")),
    ("model", re.compile("(?:gh|gb|mi|mx|[abchklmptv])[1-9][0-9]{0,3}(?:xm|[a-z])?")),
    ("number", re.compile("[1-9][0-9]{2,3}")),
    ("variant", re.compile("[dm]")),
    ("size", re.compile("[1-9][0-9]{0,2}")),
)
_PROFILE = re.compile(
    r"(?<![a-z0-9])(?:mig[ ._-]*)?(?:([1-7])c[._-]?)?([1-7])g[._-]?([1-9][0-9]{0,2})(gb)?"
    r"((?:[+-](?:me|gfx)(?:\.all)?)*)(?![a-z0-9])"
)


class _Parts(Struct, frozen=True):
    """A name as it was read. `plain` has all its letters and digits, without the maker's."""

    makers: frozenset[str]
    models: frozenset[str]
    variants: frozenset[str]
    editions: frozenset[str]
    memory_gb: int | None
    forms: frozenset[str]
    hbm: str | None
    profile: tuple[str | None, ...] | None
    others: frozenset[str]
    plain: str

    @property
    def says_something(self) -> bool:
        """It has more than words such as `GPU`."""
        parts = (self.makers, self.models, self.variants, self.editions, self.forms, self.others)
        return any(parts) or any((self.memory_gb, self.hbm, self.profile))


@lru_cache(maxsize=4096)
def is_name_of(name: str, wanted: str, total_mib: int | None = None) -> bool:
    """Return whether a type of GPU, as users and clusters write it, means a GPU of this name.

    `name`: the driver's, or that of a simulated GPU. `total_mib`: the GPU's memory, with which a
    size in `wanted` is compared where the name has none; None: any size is right.
    """
    architecture = _architecture_named(wanted)
    if architecture is not None:
        return architecture == _architecture(_read(name))
    asked, there = _read(wanted), _read(name)
    if not asked.says_something:
        return False
    return asked.plain == there.plain or (
        asked.models <= there.models
        and asked.others <= there.others
        and _same_variants(asked, there)
        and _same_makers(asked, there)
        and _same_memory(asked, there, total_mib)
        and _same_form(asked, there)
        and asked.profile in (None, there.profile)
    )


def is_type(text: str) -> bool:
    """Return whether a text is a type of GPU: an architecture, or a model that is known.

    Clusters name their nodes after much else, as processors and networks.
    """
    if _architecture_named(text) is not None:
        return True
    parts = _read(text)
    if parts.others - {"mig"}:
        return False
    if not parts.models:
        return "titan" in parts.makers
    return _architecture(parts) is not None or any(map(_OTHER_MODELS.fullmatch, parts.models))


def nearest(wanted: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like a type which means none of them; None if none is like it.

    The same model with another memory, form or variant comes first, then the most like letters.
    """
    asked = _read(wanted)

    def likeness(name: str) -> float:
        there = _read(name)
        letters = SequenceMatcher(None, asked.plain, there.plain).ratio()
        return letters + bool(asked.models & there.models)

    best = max(sorted(set(names)), key=likeness, default=None)
    return best if best is not None and likeness(best) >= _LIKE else None


_LIKE = 0.5
"""Part of the letters that must be alike."""


# ------------------------------------------------------------------ comparing


def _same_variants(asked: _Parts, there: _Parts) -> bool:
    if not asked.editions <= there.editions:
        return False
    # Without a model, `ada` means all Ada cards.
    return asked.variants == there.variants if asked.models else asked.variants <= there.variants


def _same_makers(asked: _Parts, there: _Parts) -> bool:
    if not asked.models:
        return asked.makers <= there.makers
    if any(map(_is_workstation, asked.models)) and not asked.variants & {"ada", "pro"}:
        # Quadro 6000, RTX 6000, A6000 and RTX 6000 Ada are four cards.
        known = asked.makers & {"rtx", "quadro"}
        return bool(known) and ("rtx" in asked.makers) == ("rtx" in there.makers)
    if any(model.startswith("titan") for model in asked.models):
        return asked.makers & {"gtx"} <= there.makers
    return True


def _is_workstation(model: str) -> bool:
    return len(model) == 4 and model.endswith("00") and model.isdecimal()


def _same_memory(asked: _Parts, there: _Parts, total_mib: int | None) -> bool:
    said = asked.memory_gb
    if said is None or said == there.memory_gb:
        return True
    # The name of a Grace Hopper has the memory of its CPU.
    told = there.memory_gb is not None and not any(m.startswith("gh") for m in there.models)
    if told or total_mib is None:
        return not told
    # ECC and the driver take up to 8 % of the nominal memory.
    return 0.92 <= total_mib / 1024 / said <= 1.03


def _same_form(asked: _Parts, there: _Parts) -> bool:
    """`sxm` means `SXM4`; a name that tells no form may have any, but for the models that tell."""
    real = "nvidia" in there.makers or there.hbm is not None
    as_sxm = bool(there.models & _AS_SXM)
    forms, hbm = there.forms, asked.hbm
    if not forms and as_sxm and real:
        forms = frozenset({"sxm"})
    wanted = asked.forms or (frozenset({"sxm"}) if hbm == "hbm3" and as_sxm else frozenset())
    alike = not forms or all(any(_begins(a, b) for b in forms) for a in wanted)
    return alike and (hbm is None or there.hbm is None or _begins(hbm, there.hbm))


def _begins(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


# ------------------------------------------------------------------ architectures

_ARCHITECTURES = {
    "kepler": "k(?:10|20|40|80)[mx]?|[67][0-9]0",
    "maxwell": "m(?:4|6|10|40|60)|9[5-8]0",
    "pascal": "p(?:4|6|40|100|[1-6]000)|10[1-8]0|titan(?:xp)",
    "volta": "g?v100[sl]?|titanv",
    "turing": "t(?:4|[46]00|1000|1200)|20[6-8]0|16[3-6]0|titanrtx",
    "ampere": "a(?:2|10[gm]?|16|30|40|100[xm]?|800|400|[12456]000|[45]500)|30[5-9]0",
    "ada": "l(?:2|4|20|40s?)|40[5-9]0",
    "hopper": "h(?:20|[128]00)|gh200",
    "blackwell": "g?b(?:100|200|300)|gb10|50[5-9]0",
}
"""NVIDIA's architectures and their models. Workstations' numbers (6000) are of several."""
_MODELS = {name: re.compile(models) for name, models in _ARCHITECTURES.items()}
_OTHER_MODELS = re.compile("mi[0-9]{2,3}[ax]?|titan[xz]")
"""AMD's, and those of two architectures."""


def _architecture_named(text: str) -> str | None:
    plain = re.sub("[^a-z]", "", text[:_MOST].lower())
    plain = "ada" if plain in ("lovelace", "adalovelace") else plain
    return plain if plain in _ARCHITECTURES and not re.search("[0-9]", text) else None


def _architecture(parts: _Parts) -> str | None:
    """The architecture of a GPU that was read; None if it is not known."""
    for model in parts.models:
        if _is_workstation(model):
            if parts.variants & {"pro", "ada"}:
                return "ada" if "ada" in parts.variants else "blackwell"
            return "turing" if "rtx" in parts.makers else None
        bare = len(model) == 3 and model.isdecimal() and not parts.makers & {"gtx", "geforce"}
        for name, models in _MODELS.items():
            if models.fullmatch(model) and not bare:
                return name
    return None


# ------------------------------------------------------------------ reading


@lru_cache(maxsize=1024)
def _read(text: str) -> _Parts:
    text = text[:_MOST].lower().replace("max-q", "maxq").replace("max_q", "maxq")
    text = text.replace("nvlink", "sxm")  # as clusters tell that form from PCIe
    found: dict[str, list[str]] = {}
    match = _PROFILE.search(text)
    profile, plain = None, re.sub("[^a-z0-9]", "", text)
    if match is not None:
        profile = (match[1], match[2], match[3], match[5].replace("-", "+"))
        text = f"{text[: match.start()]} {text[match.end() :]}"
    has_mig = re.search(r"(?<![a-z])mig(?![a-z])", text) is not None
    words = [_LARGER.get(word, word) for word in re.split(r"[^a-z0-9]+", text)]
    words = [word for word in " ".join(words).split() if word not in _NOISE | {"mig"}]
    for word in _joined(words):
        pieces = _cut(word) if len(word) > 1 or word in _VARIANTS else None
        for kind, piece in pieces or (("other", word),):
            found.setdefault(kind, []).append(piece)
    if has_mig or profile is not None:
        found.setdefault("other", []).append("mig")
    return _parts(found, profile, _SILENT.sub("", plain))


def _joined(words: Sequence[str]) -> list[str]:
    """Return the words with a Titan and its letter as one."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].endswith("titan") and word in _TITANS:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _cut(word: str) -> list[tuple[str, str]] | None:
    """Return the pieces that a whole word is made of; None if it is not. It has one model."""
    dead: set[tuple[int, bool]] = set()

    def after(at: int, model: bool) -> list[tuple[str, str]] | None:
        if at == len(word):
            return []
        if (at, model) in dead:
            return None
        for kind, pattern in _PIECES:
            for end in _ends(kind, pattern, word, at):
                piece = word[at:end]
                is_model = kind in ("model", "number", "thousands")
                if (is_model and model) or not _sound(kind, piece):
                    continue
                rest = after(end, model or is_model)
                if rest is not None:
                    return [(kind, piece), *rest]
        dead.add((at, model))
        return None

    return after(0, False)


def _ends(kind: str, pattern: re.Pattern[str], word: str, at: int) -> list[int]:
    """Return where a piece that begins here may end, the longest first."""
    found = pattern.match(word, at)
    if found is None:
        return []
    ends = [found.end()]
    if kind in ("model", "number"):
        shorter = range(found.end() - 1, at, -1)
        ends += [end for end in shorter if pattern.fullmatch(word, at, end) is not None]
    return ends


def _sound(kind: str, piece: str) -> bool:
    """Return whether a model has a number that models have: `m402` is an M40 and 2."""
    if kind != "model":
        return True
    digits = "".join(filter(str.isdecimal, piece))
    return len(digits) < 3 or piece.startswith("mi") or digits.endswith("0")


def _parts(
    found: dict[str, list[str]], profile: tuple[str | None, ...] | None, plain: str
) -> _Parts:
    models = set(found.get("model", ()))
    models |= {f"{each[0]}000" for each in found.get("thousands", ())}
    memory = [int(re.sub("[^0-9]", "", each)) for each in found.get("memory", ())]
    others = set(found.get("other", ()))
    for number in found.get("number", ()):
        # After a model, a number of three digits is its memory.
        if models and len(number) == 3:
            memory.append(int(number))
        else:
            models.add(number)
    for size in found.get("size", ()):
        if models and not memory:
            memory.append(int(size))
        else:
            others.add(size)
    makers = set(found.get("maker", ()))
    titans = found.get("titan", ())
    models |= {titan for titan in titans if titan != "titan"}
    makers |= {"titan"} if titans else set()
    variants = {_ALIKE.get(each, each) for each in found.get("variant", ())}
    editions = set(found.get("edition", ()))
    if variants & {"pro", "blackwell"}:
        editions |= variants & _EDITIONS
        variants = (variants - _EDITIONS) | {"pro"}
    return _Parts(
        makers=frozenset(makers),
        models=frozenset(models),
        variants=frozenset(variants),
        editions=frozenset(editions),
        memory_gb=memory[0] if memory else None,
        forms=frozenset(found.get("form", ())),
        hbm=max(found.get("hbm", ()), default=None),
        profile=profile,
        others=frozenset(others),
        plain=plain,
    )


_ALIKE = {"mobile": "laptop"}
_SILENT = re.compile("^(?:nvidia|geforce|tesla|amd|instinct)+(?=.)")
