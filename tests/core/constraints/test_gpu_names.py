"""Types of GPU as clusters write them, and the names that drivers print.

The types are from job files and `gres.conf` of public repositories; beside each stand the GPUs
that such a cluster has.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radrm.core.constraints.gpu_names import is_name_of, is_type, nearest

# Models that differ, as NVML prints them.
DRIVER = (
    "Tesla K80",
    "Tesla M40 24GB",
    "Tesla P100-PCIE-16GB",
    "Tesla P40",
    "Tesla V100-SXM2-16GB",
    "Tesla V100-SXM2-32GB",
    "Tesla V100-PCIE-32GB",
    "Tesla V100S-PCIE-32GB",
    "Tesla T4",
    "NVIDIA A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA A100-PCIE-40GB",
    "NVIDIA A100 80GB PCIe",
    "NVIDIA A10",
    "NVIDIA A10G",
    "NVIDIA A16",
    "NVIDIA A2",
    "NVIDIA A30",
    "NVIDIA A40",
    "NVIDIA A800-SXM4-80GB",
    "NVIDIA L4",
    "NVIDIA L40",
    "NVIDIA L40S",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL",
    "NVIDIA H200",
    "NVIDIA H20",
    "NVIDIA GH200 480GB",
    "NVIDIA B200",
    "NVIDIA GB200",
    "NVIDIA GB10",
    "NVIDIA RTX A4000",
    "NVIDIA RTX A5000",
    "NVIDIA RTX A6000",
    "NVIDIA RTX 4000 Ada Generation",
    "NVIDIA RTX 4000 SFF Ada Generation",
    "NVIDIA RTX 5000 Ada Generation",
    "NVIDIA RTX 6000 Ada Generation",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "Quadro P6000",
    "Quadro RTX 4000",
    "Quadro RTX 5000",
    "Quadro RTX 6000",
    "Quadro RTX 8000",
    "NVIDIA TITAN V",
    "NVIDIA TITAN Xp",
    "NVIDIA TITAN X (Pascal)",
    "NVIDIA GeForce GTX TITAN X",
    "NVIDIA TITAN RTX",
    "NVIDIA GeForce GTX 1060 3GB",
    "NVIDIA GeForce GTX 1060 6GB",
    "NVIDIA GeForce GTX 1080",
    "NVIDIA GeForce GTX 1080 Ti",
    "NVIDIA GeForce GTX 1660 SUPER",
    "NVIDIA GeForce RTX 2080",
    "NVIDIA GeForce RTX 2080 Ti",
    "NVIDIA GeForce RTX 2080 SUPER",
    "NVIDIA GeForce RTX 2080 with Max-Q Design",
    "NVIDIA GeForce RTX 3080",
    "NVIDIA GeForce RTX 3080 Ti",
    "NVIDIA GeForce RTX 3080 Laptop GPU",
    "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
    "NVIDIA GeForce RTX 3090",
    "NVIDIA GeForce RTX 4070 Ti SUPER",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 5090",
    "AMD Instinct MI210",
    "AMD Instinct MI250",
    "AMD Instinct MI250X",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
)

A100S = tuple(n for n in DRIVER if "A100" in n)
V100S = tuple(n for n in DRIVER if "V100-" in n)
H100S = tuple(n for n in DRIVER if " H100" in n)
PROS = tuple(n for n in DRIVER if "RTX PRO" in n)

TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("k80", "K80", "tesla-k80"), ("Tesla K80",)),
    "TeslaM4024GB": ("Tesla M40 24GB",),
    **dict.fromkeys(("p100", "P100", "teslaP100", "p100l"), ("Tesla P100-PCIE-16GB",)),
    **dict.fromkeys(("v100", "V100", "tesla_v100"), V100S),
    "v100-sxm2": V100S[:2],
    **dict.fromkeys(("v100l", "v100-32", "v100-32gb", "v100_32gb"), V100S[1:]),
    "tesla_v100-pcie-32gb": ("Tesla V100-PCIE-32GB",),
    "tesla_v100-sxm2-16gb": ("Tesla V100-SXM2-16GB",),
    "v100s": ("Tesla V100S-PCIE-32GB",),
    **dict.fromkeys(("t4", "tesla_t4", "T4", "nvidia_tesla_t4"), ("Tesla T4",)),
    **dict.fromkeys(("a100", "A100", "nvidia_a100"), A100S),
    **dict.fromkeys(
        ("a100_80gb", "a100-80gb", "A100.80gb", "a100_80g", "a100_80", "a100l", "TeslaA100_80"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"),
    ),
    "a100_nvlink": tuple(n for n in A100S if "SXM" in n),
    "A100fat": ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"),
    **dict.fromkeys(
        ("a100-sxm4-80gb", "nvidia_a100-sxm4-80gb", "a100sxm480gb", "80gb sxm4 a100"),
        ("NVIDIA A100-SXM4-80GB",),
    ),
    **dict.fromkeys(
        ("nvidia_a100_80gb_pcie", "a100_80gb_pcie", "a100-pcie-80gb"), ("NVIDIA A100 80GB PCIe",)
    ),
    **dict.fromkeys(("a100_1g.5gb", "a100-1g.5gb"), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb",)),
    **dict.fromkeys(("1g.5gb", "mig-1g.5gb", "1g_5gb"), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb",)),
    **dict.fromkeys(("a100_3g.20gb", "3g.20gb"), ("NVIDIA A100-SXM4-40GB MIG 3g.20gb",)),
    "nvidia_h100_80gb_hbm3_1g.10gb": ("NVIDIA H100 80GB HBM3 MIG 1g.10gb",),
    "1g.10gb": ("NVIDIA H100 80GB HBM3 MIG 1g.10gb",),
    "mig": tuple(n for n in DRIVER if "MIG" in n),
    "a10": ("NVIDIA A10",),
    "a10g": ("NVIDIA A10G",),
    "nvidia_a16": ("NVIDIA A16",),
    **dict.fromkeys(("a40", "A40", "teslaa40", "NVIDIA_A40"), ("NVIDIA A40",)),
    "l4": ("NVIDIA L4",),
    "l40": ("NVIDIA L40",),
    **dict.fromkeys(("l40s", "L40S", "nvidia_l40s", "l40spcie"), ("NVIDIA L40S",)),
    **dict.fromkeys(("h100", "H100", "h100-80"), H100S),
    **dict.fromkeys(
        ("H100-80GB-HBM3", "nvidia_h100_80gb_hbm3"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
    ),
    **dict.fromkeys(("h100_nvl", "h100nvl", "h100-nvl"), ("NVIDIA H100 NVL",)),
    "h100_pcie": ("NVIDIA H100 PCIe",),
    "h100-sxm5": ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
    "h200": ("NVIDIA H200",),
    "h200_nvl": (),
    "gh200": ("NVIDIA GH200 480GB",),
    "b200": ("NVIDIA B200",),
    **dict.fromkeys(("a5000", "rtxa5000", "rtx_a5000"), ("NVIDIA RTX A5000",)),
    **dict.fromkeys(
        ("a6000", "A6000", "rtxa6000", "rtx_a6000", "nvidia_rtx_a6000", "RTXA6000-48GB"),
        ("NVIDIA RTX A6000",),
    ),
    **dict.fromkeys(
        ("rtx_6000_ada", "rtx6000ada", "6000_ada", "6000Ada", "ada6000", "Ada_RTX_6000"),
        ("NVIDIA RTX 6000 Ada Generation",),
    ),
    "nvidia_rtx_6000_ada_generation": ("NVIDIA RTX 6000 Ada Generation",),
    **dict.fromkeys(("RTX_6000", "RTX6000", "rtx6k", "quadro_rtx_6000"), ("Quadro RTX 6000",)),
    **dict.fromkeys(("rtx8000", "quadro_rtx_8000"), ("Quadro RTX 8000",)),
    **dict.fromkeys(("6000", "5000", "-", "", "gpu", "geforc", "600", "a1000", "h300"), ()),
    **dict.fromkeys(("rtx_pro_6000", "rtxpro6000", "6000_blackwell"), PROS),
    "6000pro_maxq": PROS[1:],
    "rtx_pro_6000_blackwell_server_edition": PROS[:1],
    "p6000": ("Quadro P6000",),
    **dict.fromkeys(("NVIDIATITANV", "titanv", "titan_v"), ("NVIDIA TITAN V",)),
    **dict.fromkeys(("titanxp", "titan_xp"), ("NVIDIA TITAN Xp",)),
    **dict.fromkeys(
        ("titanx", "titan_x", "titan-x"), ("NVIDIA TITAN X (Pascal)", "NVIDIA GeForce GTX TITAN X")
    ),
    **dict.fromkeys(("titanrtx", "Titan_RTX"), ("NVIDIA TITAN RTX",)),
    "GeForceGTX10606GB": ("NVIDIA GeForce GTX 1060 6GB",),
    **dict.fromkeys(("gtx1080", "1080"), ("NVIDIA GeForce GTX 1080",)),
    **dict.fromkeys(
        ("gtx1080ti", "rtx1080ti", "GeForceGTX1080Ti", "GEFORCEGTX1080TI"),
        ("NVIDIA GeForce GTX 1080 Ti",),
    ),
    **dict.fromkeys(
        ("2080", "rtx2080", "rtx_2080", "GEFORCERTX2080"), ("NVIDIA GeForce RTX 2080",)
    ),
    **dict.fromkeys(
        ("2080ti", "2080_ti", "rtx2080ti", "rtx_2080_ti", "GTX2080TI", "2080ti-11gb"),
        ("NVIDIA GeForce RTX 2080 Ti",),
    ),
    "3080": ("NVIDIA GeForce RTX 3080",),
    "3080_laptop": ("NVIDIA GeForce RTX 3080 Laptop GPU",),
    **dict.fromkeys(
        (
            "3090",
            *("rtx3090", "rtx_3090", "geforce_rtx_3090", "nvidia_geforce_rtx_3090"),
            *("RTX3090-24GB", "nvidia-geforce-rtx-3090"),
        ),
        ("NVIDIA GeForce RTX 3090",),
    ),
    "rtx4070tisuper": ("NVIDIA GeForce RTX 4070 Ti SUPER",),
    **dict.fromkeys(("rtx_4090", "geforce_rtx_4090"), ("NVIDIA GeForce RTX 4090",)),
    "RTX5090": ("NVIDIA GeForce RTX 5090",),
    "mi210": ("AMD Instinct MI210",),
    **dict.fromkeys(("mi250", "MI250"), ("AMD Instinct MI250",)),
    "gh200_144g": ("NVIDIA GH200 480GB",),
}


def test_a_type_means_these_of_the_driver_s_names_and_no_others() -> None:
    found = {each: tuple(name for name in DRIVER if is_name_of(name, each)) for each in TYPES}
    assert found == TYPES


SIMULATED = {
    "RTX3090-24GB": ("rtx3090", "rtx_3090", "3090", "nvidia_geforce_rtx_3090", "rtx3090-24gb"),
    "RTXA6000-48GB": ("a6000", "rtxa6000", "rtx_a6000", "nvidia_rtx_a6000"),
    "A100-80GB": ("a100", "a100-sxm4-80gb", "nvidia_a100_80gb_pcie", "a100l"),
    "H100-80GB": ("h100", "h100_nvl", "H100-80GB-HBM3", "h100-sxm5"),
    "V100-32GB": ("v100-32", "tesla_v100-sxm2-32gb"),
    "A100-40GB MIG 1g.5gb": ("1g.5gb", "a100_1g.5gb", "a100"),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_gpu_has_the_types_of_the_real_one(name: str) -> None:
    assert [each for each in SIMULATED[name] if not is_name_of(name, each)] == []


@pytest.mark.parametrize(
    ("name", "total_mib", "written", "matches"),
    [
        ("NVIDIA GeForce RTX 3090", 24576, "rtx3090-24gb", True),
        ("NVIDIA GeForce RTX 3090", 24576, "rtx3090-48gb", False),
        ("NVIDIA A10", 23028, "a10-24gb", True),
        ("Tesla T4", 15109, "t4_16gb", True),
        ("NVIDIA GeForce RTX 3080", 10240, "3080_12gb", False),
        ("NVIDIA H100 PCIe", 81559, "h100-80gb", True),
        ("NVIDIA H200", 143771, "h200_141gb", True),
        ("NVIDIA B200", 183359, "b200-192gb", True),
        ("NVIDIA GH200 480GB", 97871, "gh200_96g", True),
        ("NVIDIA GH200 480GB", 97871, "gh200_144g", False),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-40gb", False),
        ("RTX3090-24GB", 24576, "rtx3090-48gb", False),
        ("NVIDIA GeForce RTX 3090", None, "24gb", True),
    ],
)
def test_a_size_is_compared_with_the_name_or_the_memory(
    name: str, total_mib: int | None, written: str, matches: bool
) -> None:
    assert is_name_of(name, written, total_mib) is matches


SPELLINGS = (
    lambda name: re.sub("[ -]+", "_", name).lower(),
    lambda name: re.sub("[ _]+", "-", name).lower(),
    lambda name: re.sub("[^A-Za-z0-9.]", "", name),
    lambda name: name.replace(" ", "").upper(),
    lambda name: name.removeprefix("NVIDIA ").replace(" ", "_"),
    lambda name: f"  {name} GPU ",
)


@given(st.sampled_from(DRIVER), st.sampled_from(SPELLINGS))
def test_a_name_means_itself_in_each_spelling(name: str, spell: object) -> None:
    assert callable(spell)
    assert is_name_of(name, spell(name))


@given(st.sampled_from(DRIVER), st.sampled_from(DRIVER), st.sampled_from(SPELLINGS))
def test_no_model_is_meant_by_the_full_name_of_another(
    name: str, other: str, spell: object
) -> None:
    # The name of a GPU means its instances, too.
    assume(name != other and not name.startswith(f"{other} MIG"))
    assert callable(spell)
    assert not is_name_of(name, spell(other))


ARCHITECTURES = {
    "volta": ("Tesla V100-SXM2-16GB", "NVIDIA TITAN V"),
    "Turing": ("Tesla T4", "Quadro RTX 6000", "NVIDIA GeForce GTX 1660 SUPER", "NVIDIA TITAN RTX"),
    "ampere": ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"),
    "lovelace": ("NVIDIA L40S", "NVIDIA RTX 6000 Ada Generation", "NVIDIA GeForce RTX 4090 D"),
    "hopper": ("NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"),
    "blackwell": ("NVIDIA B200", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
}


def test_an_architecture_means_each_of_its_models() -> None:
    every = [name for names in ARCHITECTURES.values() for name in names]
    for written, names in ARCHITECTURES.items():
        assert [name for name in every if is_name_of(name, written)] == list(names)


def test_which_features_of_nodes_are_types_of_gpus() -> None:
    types = "a100 A100_80 gpu-a100 rtx_3090 2080ti titan_v gtx980 rtxa6000 mi250x ampere rtx6000"
    others = "6000 980 skylake c32 m64 7742 amd ib hdr100 epyc7742 gpu gpu80 nvlink e5-2680 avx512"
    assert [word for word in types.split() if not is_type(word)] == []
    assert [word for word in others.split() if is_type(word)] == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_read(name: str, written: str) -> None:
    is_name_of(name, written)
    is_type(written)
    nearest(written, [name])


def test_hostile_words_are_read_in_time() -> None:
    assert not is_name_of("NVIDIA A100", "a1" * 5000 + "ti" * 5000)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("a100-40gb", "NVIDIA A100-SXM4-80GB"),
        ("rtx3090ti", "NVIDIA GeForce RTX 3090"),
        ("rtx_a600", "NVIDIA RTX A6000"),
        ("geforc_3090", "NVIDIA GeForce RTX 3090"),
        ("6000", "NVIDIA RTX A6000"),
        ("zzz", None),
    ],
)
def test_the_nearest_name(written: str, found: str | None) -> None:
    here = ["NVIDIA A100-SXM4-80GB", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"]
    assert nearest(written, here) == found
