"""The command that adds an extra is that of the installation: pip, pipx, uv, Debian's package."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from radrm import extras
from radrm.extras import command, packages

RECEIPT = """
[tool]
requirements = [
    { name = "radrm", extras = ["metrics"], path = "/tmp/radrm.whl" },
    { name = "wandb", specifier = ">=0.16" },
]
"""


@pytest.fixture(autouse=True)
def installed(mocker: MockerFixture) -> None:
    """A radrm of which the extra `web` needs two packages, and `top` one."""
    lines = ["msgspec>=0.18", 'numpy>=1; extra == "dev"', 'textual>=0.86; extra == "top"']
    lines += ['jinja2>=3.1; extra == "web"', "starlette>=0.40; extra == 'web'"]
    mocker.patch.object(metadata, "requires", return_value=lines)
    came = mocker.Mock(read_text=lambda _: json.dumps({"url": "file:///tmp/radrm.whl"}))
    mocker.patch.object(metadata, "distribution", return_value=came)


def test_packages() -> None:
    assert packages("web") == ["jinja2>=3.1", "starlette>=0.40"]
    assert packages("nothing") == ["radrm[nothing]"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (None, "", "/env/bin/python -m pip install 'radrm[top]'"),
        ("pipx_metadata.json", "{}", "pipx inject tools 'textual>=0.86'"),
        (
            "uv-receipt.toml",
            RECEIPT,
            "uv tool install --with 'wandb>=0.16' 'radrm[metrics,top] @ file:///tmp/radrm.whl'",
        ),
        ("uv-receipt.toml", "tool = 3", "uv tool install 'radrm[top] @ file:///tmp/radrm.whl'"),
        ("uv-receipt.toml", "[", "uv tool install 'radrm[top] @ file:///tmp/radrm.whl'"),
    ],
)
def test_the_command(tmp_path: Path, file: str | None, text: str, said: str) -> None:
    prefix = tmp_path / "tools"
    prefix.mkdir()
    if file is not None:
        (prefix / file).write_text(text)
    assert command("top", str(prefix), "/env/bin/python") == said


def test_in_an_environment_without_pip(mocker: MockerFixture) -> None:
    mocker.patch.object(extras, "find_spec", return_value=None)
    assert command("top").startswith(f"uv pip install --python {sys.executable} 'textual")


def test_of_debians_package() -> None:
    said = command("web", extras.PACKAGED, f"{extras.PACKAGED}/bin/python3")
    assert said.endswith(
        f"--python {extras.PACKAGED}/bin/python3 install 'jinja2>=3.1' 'starlette>=0.40'"
    )


def test_where_only_root_may_write(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(extras.os, "access", return_value=False)
    said = command("top", str(tmp_path), "/opt/radrm/bin/python")
    assert said == "sudo /opt/radrm/bin/python -m pip install 'radrm[top]'"
    (tmp_path / "pipx_metadata.json").write_text("{}")
    assert command("top", str(tmp_path)).startswith("sudo pipx inject --global ")
