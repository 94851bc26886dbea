"""The pictures of the documents: what policies do as drawn now, and nothing that loads or runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.paths import REPOSITORY
from tools.pictures.policies import PICTURES, Picture, drawn

PICTURES_FOLDER = REPOSITORY / "docs" / "pictures"
LARGEST_BYTES = 150_000


@pytest.fixture
def utc(zone: Callable[[str], None]) -> None:
    zone("UTC")


@pytest.mark.parametrize("path", sorted(PICTURES_FOLDER.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_is_small_and_loads_and_runs_nothing(path: Path) -> None:
    text = path.read_text()
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
    assert len(text.encode()) < LARGEST_BYTES
    assert not tags & {"script", "image", "foreignObject", "a"}
    assert not re.search(r'href="(?!#)|url\((?!#)|@import|@font-face|\son\w+="', text)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_pictures_of_policies_show_what_they_do_now(picture: Picture, utc: None) -> None:
    """If this fails and the change is wanted: `make picture`, and look at docs/policies.md."""
    assert drawn(picture) == (PICTURES_FOLDER / f"{picture.name}.svg").read_text()
