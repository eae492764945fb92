"""Compose a configuration from words and files, and refuse what can't be composed."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig

from rlcore.config.catalog import Catalog
from rlcore.config.compose import changed, compose, load, to_yaml
from rlcore.config.explain import explain
from rlcore.config.schema import RunConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError, MissingPackageError, PluginError
from rlcore.plugins import extras

TOY = ["env=toy", "model=toy", "algorithm=plain"]


# -- composed sections -------------------------------------------------------------------------


def test_sections_are_the_plugins_dataclasses_with_every_default(made):
    config = made()
    assert isinstance(config.env.train, ToyEnvConfig)
    assert isinstance(config.env.eval, ToyEnvConfig)
    assert isinstance(config.actor.model, ToyModelConfig)
    assert (config.actor.model.hidden, config.algorithm.style) == (64, "calm")
    assert config.runner.seed == 0
    assert config.env.train.max_episode_steps == 20  # of env/toy.yaml, over the schema's 100


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


def test_the_command_line_wins_over_files_and_its_last_word_over_earlier_ones(made):
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


def test_a_home_folder_is_expanded_as_a_shell_does(made, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert made("runner.logger.log_path=~/runs v2").runner.logger.log_path == "/home/ada/runs v2"


def test_the_configuration_is_frozen_and_can_be_copied_with_changes(made):
    config = made()
    with pytest.raises(AttributeError):
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


def test_components_that_are_not_required_may_be_missing(registry, refused):
    config = compose(["env=toy"], require=("env",), registry=registry)
    assert config.actor.model.model_type == ""
    with refused(ConfigError, "model=NAME", "toy"):
        compose(["env=toy"], registry=registry)


# -- placement: a mapping is a value as a whole ---------------------------------------------


@pytest.mark.parametrize(
    ("override", "placement"),
    [
        ("runner.seed=0", {"env,rollout,actor": "all"}),
        ("cluster.component_placement={env: 0, rollout: 2}", {"env": 0, "rollout": 2}),
        # a single name leaves the key that joined it with others
        ("cluster.component_placement.env=0-1", {"rollout": "all", "actor": "all", "env": "0-1"}),
        ("cluster.component_placement=mine", "mine"),
    ],
)
def test_placements_replace(made, override, placement):
    assert made(override).cluster.component_placement == placement


def test_a_placement_in_a_file_replaces_the_default(made):
    text = "# @package _global_\ncluster: {component_placement: {env: 0, 'rollout,actor': 1}}\n"
    config = made("experiment=e", files={"experiment/e.yaml": text})
    assert config.cluster.component_placement == {"env": 0, "rollout,actor": 1}


# -- refusals ------------------------------------------------------------------------


@pytest.mark.quick(12)
@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("runner.sead=1", "'runner.seed'"),
        ("+runner.sead=1", "'runner.seed'"),
        ("++runner.sead=1", "'runner.seed'"),
        ("env.total_num_envs=4", "'env.train.total_num_envs' or 'env.eval.total_num_envs'"),
        ("env.train.fail_att=4", "'env.train.fail_at'"),
        ("algorithm.dial.levle=1", "'algorithm.dial.level'"),
        ("seed=1", "'runner.seed'"),
        ("runner.seed.x=1", "runner.seed.x"),
        ("runner.seed=many", "'many'"),
        ("runner.seed=1.5", "1.5"),
        ("runner.only_eval=perhaps", "'perhaps'"),
        ("env.train.tasks=5", "5"),
        ("algorithm.gamma=1" + "0" * 400, "float"),
        ("algorithm.gamma=null", "None"),
        ("rollout.sync=brodcast", "auto, broadcast, object_store"),
        ("algorithm.style=loud", "calm, bold"),  # a choice of a plugin
        ("env.train=toy", "section"),
        ("actor.optim=adam", "lr, value_lr"),
        ("~runner.seed", "deleted"),
        ("runner.seed=1,2", "values"),
    ],
    ids=lambda text: text[:40],
)
def test_a_bad_override_is_refused_by_key_and_choices(made, refused, override, named):
    key = override.lstrip("+~").partition("=")[0]
    with refused(ConfigError, key, named) as error:
        made(override)
    assert "+" not in str(error.value)  # Hydra's advice to prefix the key is not repeated


@pytest.mark.parametrize(
    ("yaml", "names"),
    [
        ("runner: {sead: 1}", ("'runner.sead'", "'runner.seed'")),
        ("runner: {seed: abc}", ("runner.seed", "int", "'abc'")),
        ("rnner: {seed: 1}", ("'rnner'", "'runner'")),
        ("env: {train: 5}", ("env.train", "section")),
        ("algorithm: {style: loud}", ("algorithm.style", "calm, bold")),
        ("actor: {model: {hiden: 1}}", ("'actor.model.hidden'",)),
    ],
)
def test_a_bad_file_is_refused_by_key_and_choices(made, refused, yaml, names):
    with refused(ConfigError, *names):
        made("experiment=e", files={"experiment/e.yaml": f"# @package _global_\n{yaml}\n"})


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["experiment=e"], ("env 'tooy'", "'toy'")),
        (["env=toy", "model=toi"], ("model 'toi'", "toy")),
        ([*TOY, "env/eval=tooy"], ("env 'tooy'",)),
    ],
)
def test_an_unknown_option_lists_the_choices(made, refused, words, names):
    text = "# @package _global_\ndefaults:\n  - override /env: tooy\n"
    with refused(PluginError, *names):
        made(files={"experiment/e.yaml": text}, base=words)


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


def test_a_recipe_of_absent_extras_names_all_of_them(made, refused, metadata):
    files = {"experiment/e.yaml": RECIPE, "experiment/f.yaml": RECIPE.replace("owl", "toy")}
    for words in ([], ["env=toy"]):  # what a recipe says of its env is not known without it
        with refused(MissingPackageError, "'e'", "env 'hut_5'", "model 'owl'", "rlcore[hut,owl]"):
            made(base=["experiment=e", *words], files=files)
    with refused(MissingPackageError, "'f'", "env 'hut_5'", "rlcore[hut]"):
        made(base=["experiment=f"])


def test_a_recipe_that_names_an_unknown_component(made, refused, metadata):
    files = {"experiment/e.yaml": RECIPE.replace("owl", "owls")}
    with refused(PluginError, "experiment 'e'", "env"):
        made(base=["experiment=e"], files=files)


def test_help_tells_recipes_of_absent_extras_apart(registry, metadata, tmp_path):
    (tmp_path / "experiment").mkdir()
    for name, text in {"mine": "# @package _global_\n", "far": RECIPE, "broken": "a: [1"}.items():
        (tmp_path / "experiment" / f"{name}.yaml").write_text(text)
    lines = explain(Catalog(registry, [tmp_path]), RunConfig(), "experiment").splitlines()
    assert lines[0].startswith("experiment=NAME") and "broken, mine" in lines[0]
    (absent,) = [line for line in lines if "rlcore[hut,owl]" in line]
    assert absent.endswith(": far")


def test_a_missing_folder(registry, refused):
    with refused(ConfigError, "'/no/where'"):
        compose(TOY, config_dirs=["/no/where"], registry=registry)


def test_two_plugins_with_one_file_are_both_named(registry, refused, tmp_path):
    for owner in ("a-plugin", "b-plugin"):
        (tmp_path / owner / "env").mkdir(parents=True)
        (tmp_path / owner / "env" / "mine.yaml").write_text("env_type: toy\n", encoding="utf-8")
        registry.config_paths.append((owner, str(tmp_path / owner)))
    with refused(PluginError, "env=mine", "a-plugin", "b-plugin"):
        compose(["env=mine", *TOY[1:]], registry=registry)
    own = tmp_path / "own"
    (own / "env").mkdir(parents=True)
    (own / "env" / "mine.yaml").write_text("env_type: toy\nreward_coef: 2\n", encoding="utf-8")
    config = compose(["env=mine", *TOY[1:]], config_dirs=[own], registry=registry)
    assert config.env.train.reward_coef == 2  # the user's own file goes before both


# -- checkpoints of the acting policy -------------------------------------------------------


def test_the_acting_policys_checkpoint_is_the_models(made, refused):
    assert made("rollout.model.model_path=/a").actor.model.model_path == "/a"
    assert made("rollout.model.lora_path=/a").actor.model.lora_path == "/a"
    both = ["rollout.model.model_path=/a", "actor.model.model_path=/b"]
    with refused(ConfigError, "actor.model.model_path", "rollout.model.model_path"):
        made(*both)
    assert made(*both, "runner.only_eval=true").actor.model.model_path == "/a"


NAMED = "# @package _global_\nactor:\n  model:\n    model_path: ORG/NAME\n"


def test_a_checkpoint_by_its_name(made, elsewhere):
    """Which folder that was stands in the configuration from then on: a resumed run takes no other
    one. What is not found stays a name."""
    name = "actor.model.model_path=ORG/NAME"
    assert made(name).actor.model.model_path == "ORG/NAME"
    (elsewhere / "NAME").mkdir()
    with pytest.warns(ConfigWarning, match=rf"ORG/NAME.*{elsewhere}/NAME"):
        config = made(name, "rollout.model.model_path=ORG/NAME")
    assert config.actor.model.model_path == str(elsewhere / "NAME")
    assert config.rollout.model.model_path == str(elsewhere / "NAME")


def test_a_recipes_checkpoint_gives_way_to_the_acting_policys(made, refused, elsewhere):
    """The documents set either key, or both. A recipe's that is here is one, too."""
    files = {"experiment/named.yaml": NAMED}
    asked = ("experiment=named", "rollout.model.model_path=/a")
    assert made(*asked, files=files).actor.model.model_path == "/a"
    assert made("experiment=named", "actor.model.model_path=null").actor.model.model_path is None
    (elsewhere / "NAME").mkdir()
    with (
        pytest.warns(ConfigWarning, match="ORG/NAME"),
        refused(ConfigError, "rollout.model.model_path"),
    ):
        made(*asked)
    both = made(*asked, "actor.model.model_path=/a")
    assert both.actor.model.model_path == both.rollout.model.model_path == "/a"


def test_a_recipes_checkpoint_is_not_for_another_size(made):
    """Another option of the same model has other weights; the rest of the recipe is for it too."""
    choices = "".join(f"  - override /{choice.replace('=', ': ')}\n" for choice in TOY)
    recipe = NAMED.replace("actor:", f"defaults:\n{choices}actor:") + "    num_action_chunks: 3\n"
    files = {"experiment/named.yaml": recipe, "model/wide.yaml": "model_type: toy\n"}
    config = made("experiment=named", files=files, base=())
    assert config.actor.model.model_path == "ORG/NAME"
    with pytest.warns(ConfigWarning, match=r"named.*wide.*actor\.model\.model_path"):
        config = made("experiment=named", "model=wide", base=())
    assert config.actor.model.model_path is None and config.actor.model.num_action_chunks == 3


def test_other_settings_of_an_algorithm_stand_alone(made):
    """Another option of the same algorithm is another set of settings, not to be mixed."""
    choices = "".join(f"  - override /{choice.replace('=', ': ')}\n" for choice in TOY)
    recipe = f"# @package _global_\ndefaults:\n{choices}algorithm: {{group_size: 2}}\n"
    files = {
        "experiment/named.yaml": recipe,
        "algorithm/fine.yaml": "name: plain\ncompare: true\n",
        "algorithm/short.yaml": "name: plain\n",
        "experiment/open.yaml": recipe.replace("group_size: 2", "wrappers: null"),
    }
    kept = made("experiment=named", files=files, base=())
    assert (kept.algorithm.group_size, kept.algorithm.compare) == (2, False)
    with pytest.warns(ConfigWarning, match=r"named is for plain; fine .* algorithm\.group_size$"):
        other = made("experiment=named", "algorithm=fine", base=())
    assert (other.algorithm.group_size, other.algorithm.compare) == (1, True)
    with pytest.warns(ConfigWarning, match=r"short .* algorithm\.wrappers$"):  # null is a value too
        assert made("experiment=open", "algorithm=short", base=()).algorithm.wrappers == []


def test_a_name_in_other_case_is_understood_with_a_warning(made):
    with pytest.warns(ConfigWarning, match="env=TOY.*env=toy"):
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
        "env.train.tasks=[push,???]",
        "cluster.component_placement={env: ???}",
        "cluster.component_placement={env: {placement: ???}}",
        "cluster.node_groups=[{label: ???}]",
    ],
)
def test_a_part_of_a_value_can_not_be_left_open(made, refused, text):
    with refused(ConfigError, text.partition("=")[0]):
        made(text)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("env.train.tasks=" + "[" * 3000, "env.train.tasks"),
        ("runner.seed=" + "9" * 6000, "runner.seed"),
        ("a={" + "a:{" * 3000, "a={a:{"),
        ("runner.seed", "runner.seed"),
        ("runner.logger.log_path=${runner.nothing}", "runner.nothing"),
        ("experiment=none", "experiment 'none'"),
        ("experiment=broken", "broken.yaml"),
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.timeout(120)
def test_what_can_not_be_read_is_a_short_error(made, refused, override, named):
    files = {"experiment/broken.yaml": "runner: [1"}
    with refused(ConfigError, named, text=False) as error:  # parsers word it, by their versions
        made(override, files=files)
    assert len(error.value.message) < 500


def test_an_error_of_deriving_again_is_reported_with_the_others(made, registry, monkeypatch):
    config = made()

    def fail(self, saved, given):
        raise ConfigError(f"{self.env_type} derives nothing from {self.max_episode_steps}")

    monkeypatch.setattr(ToyEnvConfig, "derive_again", fail)
    words = [
        "env.train.sentences=missing.yaml",
        "env.train.max_episode_steps=3",
        "env.eval.max_episode_steps=4",
    ]
    with pytest.raises(ConfigError) as error:
        changed(config, words, registry)
    for text in ("missing.yaml", "from 3", "from 4"):
        assert text in error.value.message
