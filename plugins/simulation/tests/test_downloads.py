"""Where the hub keeps its downloads, and the command that brings one."""

from __future__ import annotations

from pathlib import Path

import pytest
from rlcore_simulation.downloads import download_command, hub_cache


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, ".cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{}/xdg", "HF_HOME": "{}/hf"}, "hf/hub"),
        ({"HF_HOME": "{}/hf", "HUGGINGFACE_HUB_CACHE": "{}/old"}, "old"),
        ({"HF_HOME": "{}/hf", "HF_HUB_CACHE": "$HF_HOME/new"}, "hf/new"),
        ({"HF_HOME": "~/mine"}, "mine/hub"),
    ],
)
def test_the_hubs_cache_is_where_the_hub_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: str
) -> None:
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert hub_cache() == tmp_path / place
    snapshot = tmp_path / place / "datasets--lerobot--libero-assets" / "snapshots" / "abc"
    # into its own cache only the hub writes
    assert download_command("lerobot/libero-assets", snapshot) == (
        "hf download --repo-type dataset lerobot/libero-assets"
    )
    assert download_command("lerobot/libero-assets", tmp_path / "my assets").endswith(
        f" --local-dir '{tmp_path}/my assets'"
    )
