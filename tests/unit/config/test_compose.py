"""What a user writes, and the configuration or the sentence that comes of it."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig

from rlcore.config.catalog import Catalog
from rlcore.config.compose import compose, load, to_yaml
from rlcore.config.explain import explain
from rlcore.config.schema import RunConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError, MissingPackageError, PluginError
from rlcore.plugins import extras

TOY = ["env=toy", "model=toy", "algorithm=plain"]


def refused(made, *overrides: str, **more) -> str:
    with pytest.raises(ConfigError) as caught:
        made(*overrides, **more)
    return str(caught.value)


# -- what comes out -------------------------------------------------------------------------


def test_sections_are_the_plugins_dataclasses_with_every_default(made):
    config = made()
    assert isinstance(config.env.train, ToyEnvConfig)
    assert isinstance(config.env.eval, ToyEnvConfig)
    assert isinstance(config.actor.model, ToyModelConfig)
    assert (config.actor.model.hidden, config.algorithm.style) == (64, "calm")
    assert config.runner.seed == 0
    assert config.env.train.max_episode_steps == 20  # of env/toy.yaml, over the schema's 100


def test_one_env_fills_both_sides_and_sides_differ(made):
    config = made()
    assert (config.env.train.split, config.env.eval.split) == ("train", "heldout")


def test_a_file_sets_one_side(made):
    text = "env_type: toy\nrollout_epoch: 3\n_eval_:\n  trials_per_task: 7\n  rollout_epoch: 1\n"
    config = made(files={"env/mine.yaml": text}, base=["env=mine", *TOY[1:]])
    assert (config.env.train.rollout_epoch, config.env.eval.rollout_epoch) == (3, 1)
    assert (config.env.train.trials_per_task, config.env.eval.trials_per_task) == (10, 7)


def test_a_file_of_an_option_extends_another(made):
    files = {
        "env/mine.yaml": "defaults: [toy, _self_]\nreward_coef: 5.0\n",
        "model/wide.yaml": "defaults: [toy, _self_]\nhidden: 99\n",
    }
    config = made(files=files, base=["env=mine", "model=wide", "algorithm=plain"])
    assert config.env.eval.env_type == "toy"
    assert config.env.train.reward_coef == config.env.eval.reward_coef == 5.0
    assert (config.actor.model.model_type, config.actor.model.hidden) == ("toy", 99)


def test_one_side_is_overridden_on_the_command_line_and_in_a_file(made):
    files = {
        "env/mine.yaml": "env_type: toy\nreward_coef: 5.0\n",
        "experiment/e.yaml": "# @package _global_\ndefaults:\n"
        "  - override /env: toy\n  - override /env/eval: mine\n",
    }
    by_hand = made("env/eval=mine", files=files)
    by_file = made("experiment=e", files=files, base=TOY[1:])
    for config in (by_hand, by_file):
        assert (config.env.train.reward_coef, config.env.eval.reward_coef) == (1.0, 5.0)


def test_the_last_word_is_the_command_lines(made):
    text = (
        "# @package _global_\ndefaults:\n  - override /model: toy\n"
        "runner: {seed: 4, max_epochs: 3}\nactor: {model: {num_action_chunks: 10}}\n"
    )
    config = made(
        "runner.seed=5", "runner.seed=6", "experiment=e", files={"experiment/e.yaml": text}
    )
    assert (config.runner.seed, config.runner.max_epochs) == (6, 3)
    assert config.actor.model.num_action_chunks == 10  # over the option's 2
    assert config.runner.logger.experiment_name == "e"


def test_references_are_resolved(made):
    config = made(
        "runner.logger.log_path=/tmp/x",
        "env.eval.video_cfg.video_base_dir=${runner.logger.log_path}/video/eval",
    )
    assert config.env.eval.video_cfg.video_base_dir == "/tmp/x/video/eval"


def test_a_home_is_taken_as_a_shell_leaves_it(made, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert made("runner.logger.log_path=~/runs v2").runner.logger.log_path == "/home/ada/runs v2"


def test_the_configuration_is_frozen_and_can_be_copied_with_changes(made):
    config = made()
    with pytest.raises(AttributeError, match="frozen"):
        config.env.train.total_num_envs = 3
    other = dataclasses.replace(config.env.train, total_num_envs=3)
    assert (other.total_num_envs, config.env.train.total_num_envs) == (3, 8)
    assert pickle.loads(pickle.dumps(config)) == config


def test_written_and_read_back(made, refused, registry, tmp_path):
    config = made("runner.seed=3", "algorithm.dial.level=0.25", "cluster.component_placement.env=0")
    (tmp_path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    # but the user's own folders, which a saved configuration does not lead to
    recipe = dataclasses.replace(config.recipe, config_dirs=[])
    expected = dataclasses.replace(config, recipe=recipe)
    assert load(tmp_path / "config.yaml", registry=registry) == expected
    changed = load(tmp_path / "config.yaml", ["runner.seed=4"], registry=registry)
    assert (changed.runner.seed, changed.algorithm.dial.level) == (4, 0.25)
    with refused(ConfigError, "env=toy"):
        load(tmp_path / "config.yaml", ["env=toy"], registry=registry)
    with refused(ConfigError, tmp_path / "nothing.yaml"):
        load(tmp_path / "nothing.yaml", registry=registry)


def test_components_that_are_not_required_may_be_missing(registry):
    config = compose(["env=toy"], require=("env",), registry=registry)
    assert config.actor.model.model_type == ""
    with pytest.raises(ConfigError, match=r"no model is chosen: model=NAME.* toy"):
        compose(["env=toy"], registry=registry)


# -- placement: a mapping is a value as a whole ---------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "placement"),
    [
        ([], {"env,rollout,actor": "all"}),
        (["cluster.component_placement={env: 0-1, rollout: 2, actor: 2}"],
         {"env": "0-1", "rollout": 2, "actor": 2}),
        # a single name leaves the key that joined it with others
        (["cluster.component_placement.env=0-1"], {"rollout": "all", "actor": "all", "env": "0-1"}),
        (["cluster.component_placement=mine"], "mine"),
    ],
)  # fmt: skip
def test_placements_replace(made, overrides, placement):
    assert made(*overrides).cluster.component_placement == placement


def test_a_placement_in_a_file_replaces_the_default(made):
    text = "# @package _global_\ncluster: {component_placement: {env: 0, 'rollout,actor': 1}}\n"
    config = made("experiment=e", files={"experiment/e.yaml": text})
    assert config.cluster.component_placement == {"env": 0, "rollout,actor": 1}


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.quick(12)
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("runner.sead=1", "unknown key 'runner.sead'. Did you mean 'runner.seed'?"),
        ("+runner.sead=1", "unknown key 'runner.sead'. Did you mean 'runner.seed'?"),
        ("++runner.sead=1", "unknown key 'runner.sead'."),
        ("env.total_num_envs=4", "'env.train.total_num_envs' or 'env.eval.total_num_envs'"),
        ("env.train.fail_att=4", "Did you mean 'env.train.fail_at'?"),
        ("algorithm.dial.levle=1", "Did you mean 'algorithm.dial.level'?"),
        ("seed=1", "Did you mean 'runner.seed'?"),
        ("runner.seed.x=1", "runner.seed.x"),
        ("runner.seed=many", "runner.seed must be int, got 'many'"),
        ("runner.seed=1.5", "runner.seed must be int, got 1.5"),
        ("runner.only_eval=perhaps", "runner.only_eval must be bool, got 'perhaps'"),
        ("env.train.tasks=5", "env.train.tasks must be list[str] | None, got 5"),
        ("algorithm.gamma=1" + "0" * 400, "algorithm.gamma must be float, got 1000"),
        ("algorithm.gamma=null", "algorithm.gamma must be float, got None"),
        ("algorithm.dial.level=loud", "algorithm.dial.level must be float, got 'loud'"),
        ("rollout.sync=brodcast", "auto, broadcast, object_store, got 'brodcast'. Did you mean"),
        ("algorithm.style=loud", "algorithm.style must be one of calm, bold, got 'loud'"),
        ("env.train=toy", "env.train is a section"),
        ("actor.optim=adam", "actor.optim is a section (lr, value_lr"),
        ("~runner.seed", "a key can't be deleted"),
        ("runner.seed=1,2", "lists several values"),
        ("runner.seed", "can't read the override"),
        ("runner.logger.log_path=${runner.nothing}", "runner.nothing"),
        ("experiment=none", "there is no experiment 'none'"),
    ],
)
def test_bad_overrides_get_one_sentence(made, override, sentence):
    said = refused(made, override)
    assert sentence in said
    assert "+" not in said  # the advice to prefix it is never repeated


@pytest.mark.parametrize(
    ("yaml", "names"),
    [
        ("runner: {sead: 1}", ("'runner.sead'", "'runner.seed'")),
        ("runner: {seed: abc}", ("runner.seed", "int", "'abc'")),
        ("rnner: {seed: 1}", ("'rnner'", "'runner'")),
        ("env: {train: 5}", ("env.train", "section")),
        ("algorithm: {style: loud}", ("algorithm.style", "calm, bold")),
        ("actor: {model: {hiden: 1}}", ("'actor.model.hidden'",)),
        ("runner: [1", ("e.yaml",)),
    ],
)
def test_bad_files_are_refused_by_key_and_choices(made, yaml, names):
    files = {"experiment/e.yaml": f"# @package _global_\n{yaml}\n"}
    error = refused(made, "experiment=e", files=files)
    assert not [name for name in names if name not in error], error


def test_a_file_that_asks_for_a_missing_option(made):
    text = "# @package _global_\ndefaults:\n  - override /env: tooy\n"
    with pytest.raises(PluginError, match=r"env 'tooy'.*'toy'"):
        made("experiment=e", files={"experiment/e.yaml": text}, base=TOY[1:])


def test_an_unknown_option_lists_the_choices(made):
    with pytest.raises(PluginError, match=r"model 'toi'.* toy"):
        made(base=["env=toy", "model=toi"])
    with pytest.raises(PluginError, match="env 'tooy'"):
        made("env/eval=tooy")


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe an rlcore outside a clone whose extras `hut` and `owl` are not installed."""
    monkeypatch.setattr(extras, "SCRIPT", Path("/no/clone/requirements/install.sh"))
    requires = ["rlcore-env-hut==0.1.0; extra == 'hut'", "rlcore-model-owl==1; extra == 'owl'"]
    monkeypatch.setattr(extras, "requires", lambda name: requires)
    extras.extras.cache_clear()
    yield
    extras.extras.cache_clear()


RECIPE = """# @package _global_
defaults:
  - override /env: hut_5
  - override /model: owl
  - override /algorithm: plain
"""


def test_a_recipe_of_absent_extras_names_all_of_them(made, metadata):
    files = {"experiment/e.yaml": RECIPE, "experiment/f.yaml": RECIPE.replace("owl", "toy")}
    for more in ([], ["env=toy"]):  # what a recipe says of its env is not known without it
        with pytest.raises(MissingPackageError) as caught:
            made(base=["experiment=e", *more], files=files)
        error = str(caught.value)
        names = ("experiment 'e'", "env 'hut_5'", "model 'owl'", 'pip install "rlcore[hut,owl]"')
        assert not [name for name in names if name not in error], error
    with pytest.raises(PluginError, match=r"'f'.* env 'hut_5'.*rlcore\[hut\]"):
        made(base=["experiment=f"])


def test_a_recipe_that_names_an_unknown_component(made, metadata):
    files = {"experiment/e.yaml": RECIPE.replace("owl", "owls")}
    with pytest.raises(PluginError, match=r"experiment 'e': .*env"):
        made(base=["experiment=e"], files=files)


def test_help_tells_recipes_of_absent_extras_apart(registry, metadata, tmp_path):
    (tmp_path / "experiment").mkdir()
    for name, text in {"mine": "# @package _global_\n", "far": RECIPE, "broken": "a: [1"}.items():
        (tmp_path / "experiment" / f"{name}.yaml").write_text(text)
    lines = explain(Catalog(registry, [tmp_path]), RunConfig(), "experiment").splitlines()
    assert lines[0].startswith("experiment=NAME, one of: broken, mine")
    assert 'not installed (pip install "rlcore[hut,owl]"): far' in lines


def test_a_missing_folder(registry):
    with pytest.raises(ConfigError, match="'/no/where'"):
        compose(TOY, config_dirs=["/no/where"], registry=registry)


def test_two_plugins_with_one_file_are_both_named(registry, tmp_path):
    for owner in ("a-plugin", "b-plugin"):
        (tmp_path / owner / "env").mkdir(parents=True)
        (tmp_path / owner / "env" / "mine.yaml").write_text("env_type: toy\n", encoding="utf-8")
        registry.config_paths.append((owner, str(tmp_path / owner)))
    with pytest.raises(PluginError, match=r"env=mine.* a-plugin and b-plugin"):
        compose(["env=mine", *TOY[1:]], registry=registry)
    own = tmp_path / "own"
    (own / "env").mkdir(parents=True)
    (own / "env" / "mine.yaml").write_text("env_type: toy\nreward_coef: 2\n", encoding="utf-8")
    config = compose(["env=mine", *TOY[1:]], config_dirs=[own], registry=registry)
    assert config.env.train.reward_coef == 2  # the user's own file goes before both


# -- checkpoints of the acting policy -------------------------------------------------------


def test_the_acting_policys_checkpoint_is_the_models(made):
    assert made("rollout.model.model_path=/a").actor.model.model_path == "/a"
    assert made("rollout.model.lora_path=/a").actor.model.lora_path == "/a"
    both = ["rollout.model.model_path=/a", "actor.model.model_path=/b"]
    assert "actor.model.model_path" in refused(made, *both)
    assert made(*both, "runner.only_eval=true").actor.model.model_path == "/a"


NAMED = "# @package _global_\nactor:\n  model:\n    model_path: ORG/NAME\n"


def test_a_checkpoint_by_its_name(made, elsewhere):
    """Which folder that was stands in the configuration from then on: a resumed run takes no other
    one. What is not found stays a name."""
    name = "actor.model.model_path=ORG/NAME"
    assert made(name).actor.model.model_path == "ORG/NAME"
    (elsewhere / "NAME").mkdir()
    with pytest.warns(ConfigWarning, match=rf"ORG/NAME is taken from {elsewhere}/NAME"):
        config = made(name, "rollout.model.model_path=ORG/NAME")
    assert config.actor.model.model_path == str(elsewhere / "NAME")
    assert config.rollout.model.model_path == str(elsewhere / "NAME")


def test_a_recipes_checkpoint_gives_way_to_the_acting_policys(made, elsewhere):
    """The documents set either key, or both. A recipe's that is here is one, too."""
    files = {"experiment/named.yaml": NAMED}
    asked = ("experiment=named", "rollout.model.model_path=/a")
    assert made(*asked, files=files).actor.model.model_path == "/a"
    assert made("experiment=named", "actor.model.model_path=null").actor.model.model_path is None
    (elsewhere / "NAME").mkdir()
    with pytest.warns(ConfigWarning, match="is taken from"):
        assert "rollout.model.model_path" in refused(made, *asked)
    both = made(*asked, "actor.model.model_path=/a")
    assert both.actor.model.model_path == both.rollout.model.model_path == "/a"


def test_a_recipes_checkpoint_is_not_for_another_size(made):
    """Another option of the same model has other weights; the rest of the recipe is for it too."""
    files = {
        "experiment/named.yaml": NAMED.replace("actor:", "defaults:\n  - override /env: toy\n"
        "  - override /model: toy\n  - override /algorithm: plain\nactor:")
        + "    num_action_chunks: 3\n",
        "model/wide.yaml": "model_type: toy\n",
        "model/own.yaml": "model_type: toy\nmodel_path: /mine\n",
    }  # fmt: skip
    config = made("experiment=named", files=files, base=())
    assert config.actor.model.model_path == "ORG/NAME"
    with pytest.warns(ConfigWarning, match=r"experiment=named .*wide .* actor\.model\.model_path$"):
        config = made("experiment=named", "model=wide", base=())
    assert config.actor.model.model_path is None and config.actor.model.num_action_chunks == 3


def test_a_name_in_other_case_is_understood_with_a_warning(made):
    with pytest.warns(ConfigWarning, match="env=TOY is read as env=toy"):
        assert made(base=["env=TOY", *TOY[1:]]).env.train.env_type == "toy"


def test_a_critic_comes_with_the_algorithm_that_wants_one(made):
    assert made().actor.model.add_value_head is True
    assert made("algorithm.compare=true").actor.model.add_value_head is False
    assert made("actor.model.add_value_head=false").actor.model.add_value_head is False
    kept = made("algorithm.compare=true", "actor.model.add_value_head=true")
    assert kept.actor.model.add_value_head is True


@pytest.mark.parametrize(
    "text",
    [
        "env.train.tasks=[???]",
        "env.train.tasks=[push,???]",
        "runner.logger.logger_backends=[???]",
        "cluster.component_placement={env: ???}",
        "cluster.component_placement={env: {placement: ???}}",
        "cluster.node_groups=[{label: ???}]",
    ],
)
def test_a_part_of_a_value_can_not_be_left_open(made, text):
    with pytest.raises(ConfigError, match=text.partition("=")[0]):
        made(text)


@pytest.mark.parametrize(
    "text",
    ["env.train.tasks=" + "[" * 3000, "runner.seed=" + "9" * 6000, "a={" + "a:{" * 3000],
    ids=["brackets", "digits", "braces"],
)
@pytest.mark.timeout(120)
def test_an_absurd_override_is_a_short_error(made, text):
    with pytest.raises(ConfigError, match="can't read the override") as caught:
        made(text)
    assert len(caught.value.message) < 500
