"""The rows of a data set are read once by a process, unless something has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from arm_cases import DESCRIPTION, arm, described

from rlcore.contracts.errors import CheckpointError
from rlcore.demonstrations.datasets import DatasetSummary, format_of


def summary(file: Path) -> DatasetSummary:
    """What a new look at the data set finds, as each check of a run takes one."""
    return format_of(file).read(file).summary()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file with rows of the data set that `arm.yaml` describes."""
    return min(arm(tmp_path / "arm").glob("data/**/*.parquet"))


def replace_rows(rows: Path, *, later_ns: int) -> None:
    """Replace the content, which is as large, and the time of the change."""
    before = rows.stat()
    rows.write_bytes(bytes(before.st_size))
    os.utime(rows, ns=(before.st_atime_ns, before.st_mtime_ns + later_ns))


def test_rows_that_have_not_changed_are_not_read_again(tmp_path: Path, rows: Path) -> None:
    file = described(tmp_path)
    first = summary(file)
    assert first.frames > 0
    replace_rows(rows, later_ns=0)
    assert summary(file) == first


def test_rows_that_have_changed_are_read_again(tmp_path: Path, rows: Path) -> None:
    file = described(tmp_path)
    summary(file)
    replace_rows(rows, later_ns=1)
    with pytest.raises(CheckpointError, match=rows.name):
        summary(file)


def test_another_description_is_another_look(tmp_path: Path, rows: Path) -> None:
    """Of the second one, the actions use less than a tenth of the range, which is warned about."""
    file = described(tmp_path)
    assert not summary(file).warnings
    described(tmp_path, DESCRIPTION.replace("[-1.6, 1.6], convention: target in rad", "[-9, 9]"))
    assert summary(file).warnings
