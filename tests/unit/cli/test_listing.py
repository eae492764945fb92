"""What `rlcore plugins` lists beside components, and tells of one name."""

from __future__ import annotations

import pytest

from rlcore.cli.listing import presets_and_recipes
from rlcore.cli.main import main
from rlcore.plugins.registry import Registry


def test_recipes_of_absent_components_stand_apart_with_what_installs_them() -> None:
    whole = presets_and_recipes(Registry.load())
    assert "presets, model=NAME\n  " in whole and "lack something" not in whole
    listed = presets_and_recipes(Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "openpi"}))
    usable, *lacking = listed.split("\nrecipes that lack something: ")
    assert any("pi0_tiny" in one.split("\n")[0] and " quickstart," in one for one in lacking)
    assert "quickstart" not in usable and "metaworld_grpo_openvlaoft_tiny" in usable


def test_all_of_a_component_a_preset_and_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "metaworld"]) == 0
    said = capsys.readouterr().out
    assert "env metaworld is rlcore_env_metaworld.env:make_env" in said
    assert "presets: metaworld, metaworld_45, metaworld_50\n" in said
    assert ", quickstart, " in said and "rlcore train env=metaworld --help env.train" in said
    assert main(["plugins", "pi0_tiny"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("preset model=pi0_tiny: ") and "π0 at size tiny" in said
    assert main(["plugins", "quickstart_ppo"]) == 0
    said = capsys.readouterr().out
    assert "  env=metaworld\n" in said and "  algorithm=ppo\n" in said and "  hardware: " in said
    assert main(["plugins", "quickstat"]) == 2
    assert "Did you mean 'quickstart'?" in capsys.readouterr().err
