"""The file for node_exporter: whole, readable, and never where a link leads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from radrm.errors import Refused, UsageError
from radrm.metrics.exposition import checked, write_textfile


def test_others_can_read_it_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        for text in (b"radrm_up 1\n", b"radrm_up 0\n"):
            write_textfile(f"{tmp_path}/radrm.prom", text)
            assert (tmp_path / "radrm.prom").read_bytes() == text
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "radrm.prom").stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["radrm.prom"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "radrm.prom").symlink_to(victim)
    write_textfile(f"{tmp_path}/radrm.prom", b"radrm_up 1\n")
    assert victim.read_text() == "mine" and not (tmp_path / "radrm.prom").is_symlink()


def test_a_folder_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")
    with pytest.raises(Refused, match="is a link; name the folder"):
        write_textfile(f"{tmp_path}/here/radrm.prom", b"")
    assert os.listdir(tmp_path / "there") == []


def test_what_cannot_be_written_is_one_line_and_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"No such file or directory; the folder must exist"):
        write_textfile(f"{tmp_path}/none/radrm.prom", b"")
    (tmp_path / "radrm.prom").mkdir()
    with pytest.raises(Refused, match="Is a directory"):
        write_textfile(f"{tmp_path}/radrm.prom", b"")
    assert os.listdir(tmp_path) == ["radrm.prom"]


@pytest.mark.parametrize("name", ["radrm.txt", "radrm", ".prom", ".radrm.prom", "", "/dev/null"])
def test_a_name_that_is_never_read_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"NAME\.prom"):
        checked(name)
