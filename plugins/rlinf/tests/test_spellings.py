"""RLinf's spellings: translated with a warning; refused where the meaning would be lost."""

from __future__ import annotations

import pytest
from internals import compose
from rlcore_rlinf.spellings import (
    CHUNK_STEPS,
    CROPS_OF_ENVS,
    DO_SAMPLE,
    ONE_VALUE,
    RENAMED,
    TEMPERATURES,
)

from rlcore.config import bind
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import Registry

TOY = ["env=toy", "model=toy", "algorithm=ppo"]


def sampled(config) -> tuple[bool, float | None]:
    return not config.rollout.eval_deterministic, config.rollout.eval_temperature


@pytest.mark.parametrize("turned", [False, True])
def test_do_sample_decides_whatever_the_temperature_and_the_order(turned):
    """The documents' settings of a supervised and of a trained policy."""
    for do_sample in (False, True):
        words = [f"do_sample={do_sample}", "temperature=1.6"]
        with pytest.warns(ConfigWarning):
            config = compose([*TOY, *(words[::-1] if turned else words)])
        assert sampled(config) == (do_sample, 1.6)


@pytest.mark.quick(7)
@pytest.mark.parametrize(
    ("override", "read"),
    [
        (
            "fsdp.sharding_strategy=full_shard",
            lambda c: c.actor.fsdp_config.sharding_strategy == "full_shard",
        ),
        (
            "actor.fsdp.gradient_checkpointing=true",
            lambda c: c.actor.fsdp_config.gradient_checkpointing,
        ),
        ("do_sample=true", lambda c: not c.rollout.eval_deterministic),
        ("rollout.sampling_params.do_sample=false", lambda c: c.rollout.eval_deterministic),
        ("algorithm.temperature=1.0", lambda c: not c.rollout.eval_deterministic),
        ("temperature=1.6", lambda c: sampled(c) == (True, 1.6)),
        ("rollout.sampling_params.temperature_eval=0.6", lambda c: sampled(c) == (True, 0.6)),
        ("algorithm.sampling_params.temperature_eval=2", lambda c: sampled(c) == (True, 2.0)),
        ("env.eval.temperature=0", lambda c: c.rollout.eval_deterministic),
        ("rollout_epoch=2", lambda c: c.env.eval.rollout_epoch == 2),
        ("algorithm.eval_rollout_epoch=2", lambda c: c.env.eval.rollout_epoch == 2),
        ("algorithm.rollout_epoch=2", lambda c: c.env.train.rollout_epoch == 2),
        ("env.train.group_size=4", lambda c: c.algorithm.group_size == 4),
        ("algorithm.n_chunk_steps=10", lambda c: True),  # 20 steps // chunks of 2
    ],
)
def test_spellings_are_translated_with_a_warning(override, read):
    with pytest.warns(ConfigWarning):
        assert read(compose([*TOY, override]))


def test_recipes_may_have_these_spellings(tmp_path):
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\nalgorithm: {n_chunk_steps: 10, Gamma: 0.5}\ndo_sample: true\n"
    (tmp_path / "experiment" / "e.yaml").write_text(text, encoding="utf-8")
    with pytest.warns(ConfigWarning):
        config = compose([*TOY, "experiment=e"], config_dirs=[tmp_path])
    assert (config.algorithm.gamma, config.rollout.eval_deterministic) == (0.5, False)


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
@pytest.mark.parametrize(
    "override",
    [
        "algorithm.n_chunk_steps=8",  # 20 // 2 = 10
        "algorithm.n_chunk_steps=some",
        "temperature=-1",
        "temperature=hot",
        "rollout.sampling_params.top_p=0.9",
        "do_sample=7",
        "env.eval.group_size=8",
    ],
)
def test_a_meaning_that_would_be_lost_is_refused(override, refused):
    key, _, value = override.partition("=")
    with refused(ConfigError, key, value):
        compose([*TOY, override])


def test_the_key_of_rlcore_wins_in_the_same_file(tmp_path):
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndo_sample: true\nrollout: {eval_deterministic: true}\n"
    (tmp_path / "experiment" / "e.yaml").write_text(text, encoding="utf-8")
    with pytest.warns(ConfigWarning):
        config = compose([*TOY, "experiment=e"], config_dirs=[tmp_path])
    assert config.rollout.eval_deterministic


def test_settings_that_have_one_value_are_taken_as_they_stand():
    words = ["runner.task_type=embodied", "rollout.sampling_params.top_p=1.0"]
    assert compose([*TOY, *words]) == compose(TOY)


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_the_crop_of_an_env_is_the_policys(refused):
    """The documents switch it off; a model that has it takes the value, another one can't."""
    words = ["env=toy", "algorithm=ppo"]
    off = ["env.train.center_crop=False", "env.eval.center_crop=False"]
    with_crop, without = "model=openvla_tiny", "model=toy"
    assert compose([*words, without, *off]) == compose([*words, without])
    on = compose([*words, with_crop, "env.train.center_crop=true"])
    assert on.actor.model.center_crop
    config = compose([*words, with_crop, "actor.model.center_crop=true", *off])
    assert not config.actor.model.center_crop
    with refused(ConfigError, "env.eval.center_crop"):
        compose([*words, without, "env.eval.center_crop=true"])


@pytest.mark.long
def test_keys_without_effect_are_passed_over_and_named(refused):
    """RoboTwin's own files have them."""
    words = ["env=robotwin_lift_pot", "model=pi0", "algorithm=ppo"]
    task = "env.train.task_config"
    with pytest.warns(ConfigWarning, match=rf"{task}\.save_freq"):
        assert compose([*words, f"{task}.save_freq=3"]) == compose(words)
    with pytest.warns(ConfigWarning, match=r"data_type\.rgb, .*data_type\.depth"):
        kept = compose([*words, f"{task}.data_type={{rgb: true, depth: true}}"])
    assert kept == compose(words)
    for key, value in (("data_type.qpos", "false"), ("render_freq", "1")):
        with refused(ConfigError, f"{task}.{key}"):
            compose([*words, f"{task}.{key}={value}"])
    with refused(ConfigError, "env.train.save_freq"):
        compose([*words, "env.train.save_freq=3"])


def test_without_the_plugin_a_spelling_is_refused_with_the_command_that_installs_it(
    monkeypatch, refused
):
    """`configs/extras.json` lists the keys that the plugin translates."""
    installed = {name: folder for name, folder in bind.folders().items() if name != "rlcore-rlinf"}
    monkeypatch.setattr(bind, "folders", lambda: installed)
    registry = Registry.load(environ={"RLCORE_BLOCK_PLUGINS": "rlinf"})
    keys = [*DO_SAMPLE, *TEMPERATURES, *RENAMED, *ONE_VALUE, *CROPS_OF_ENVS, CHUNK_STEPS]
    for key in keys:
        with refused(ConfigError, "requirements/install.sh", text=False):
            compose([*TOY, f"{key}=1"], registry=registry)
