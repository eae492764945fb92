"""`rlcore plugins` lists presets and recipes beside components, and shows a single one."""

from __future__ import annotations

import pytest

from rlcore.cli.listing import presets_and_recipes
from rlcore.cli.main import main
from rlcore.plugins.registry import Registry


def test_recipes_of_absent_components_stand_apart_with_what_installs_them() -> None:
    whole = presets_and_recipes(Registry.load())
    assert "presets, model=NAME\n  " in whole and "lack" not in whole
    listed = presets_and_recipes(Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "openpi"}))
    usable, lacking = listed[: listed.index("lack")], listed[listed.index("lack") :]
    assert "pi0_tiny" in lacking and " quickstart," in lacking
    assert " quickstart," not in usable and "metaworld_grpo_openvlaoft_tiny" in usable


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("metaworld", ["rlcore_env_metaworld.env:make_env", "metaworld_45", "quickstart"]),
        ("pi0_tiny", ["model=pi0_tiny", "π0 at size tiny"]),
        ("quickstart_ppo", ["  env=metaworld\n", "  algorithm=ppo\n", "  hardware: "]),
    ],
)
def test_a_component_a_preset_or_a_recipe_is_shown_whole(
    capsys: pytest.CaptureFixture[str], name: str, named: list[str]
) -> None:
    assert main(["plugins", name]) == 0
    printed = capsys.readouterr().out
    assert not [text for text in named if text not in printed]
