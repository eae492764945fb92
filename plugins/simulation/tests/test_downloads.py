"""The command that brings a data set."""

from __future__ import annotations

from pathlib import Path

import pytest
from rlcore_simulation.downloads import download_command


def test_into_its_own_cache_only_the_hub_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "datasets--lerobot--libero-assets" / "snapshots" / "abc"
    assert download_command("lerobot/libero-assets", snapshot) == (
        "hf download --repo-type dataset lerobot/libero-assets"
    )
    assert download_command("lerobot/libero-assets", tmp_path / "my assets").endswith(
        f" --local-dir '{tmp_path}/my assets'"
    )
