"""Files in RLinf's form become recipes that compose, and each of their keys is accounted for."""

from __future__ import annotations

import sys

import pytest
import yaml
from internals import compose
from rlcore_rlinf.reading import leaves, read
from rlcore_rlinf.translate import translate_file
from rlinf_checkout import (
    GAE,
    GROUP,
    METAWORLD,
    RECIPES,
    checkout,
    pi_on_metaworld,
    put,
    recipe,
    supervised,
    write,
)

from rlcore.cli.main import main
from rlcore.config.schema import OptimConfig
from rlcore.plugins.extras import install_command
from rlcore.plugins.registry import load_plugins

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return checkout(tmp_path_factory.mktemp("theirs"))


def verdicts_of(file):
    """The translation's verdicts by RLinf's key, or ours where RLinf has none."""
    verdicts = translate_file(file, read(file), load_plugins()).verdicts
    return {verdict.theirs or verdict.ours: verdict for verdict in verdicts}


def values_of(file):
    return translate_file(file, read(file), load_plugins()).values()


@pytest.fixture
def imported(theirs, tmp_path):
    """`imported(name)`: the translation's verdicts by key, and the composed configuration."""

    def run(name):
        file = theirs / f"{name}.yaml"
        assert main(["config", "import", str(file), "--out", f"{tmp_path}/{name}.yaml"]) == 0
        required = ("env", "model") if "eval" in name else ("env", "model", "algorithm")
        config = compose([f"experiment={name}"], config_dirs=[tmp_path], require=required)
        return verdicts_of(file), config

    return run


@pytest.fixture
def changed(theirs):
    """`changed(recipe, values)`: the file of a recipe with values at dotted paths."""

    def change(name, values):
        content = RECIPES[name]()
        for path, value in values.items():
            put(content, path, value)
        return write(theirs, "changed", content)

    return change


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", RECIPES)
def test_no_key_is_lost(theirs, name):
    """Every value of the composed file has one verdict, under its own name."""
    file = theirs / f"{name}.yaml"
    composed = read(file)
    verdicts = translate_file(file, composed, load_plugins()).verdicts
    keys = [verdict.theirs for verdict in verdicts if verdict.theirs]
    assert len(keys) == len(set(keys))
    for path, _ in leaves(composed, ()):
        assert any(path == key or path.startswith(f"{key}.") for key in keys), path


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", RECIPES)
def test_an_imported_recipe_passes_the_dry_run(theirs, tmp_path, name, capsys):
    out = tmp_path / "experiment" / f"{name}.yaml"
    assert main(["config", "import", f"{theirs}/{name}.yaml", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert str(out) in printed and "--dry-run" in printed
    here = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"
    assert main(["train", "--config-dir", str(tmp_path), name, here, "--dry-run"]) == 0


def test_pi_with_ppo_on_metaworld(imported, capsys):
    verdicts, config = imported("metaworld_ppo_pi")
    assert config.env.train.env_type == "metaworld"
    assert (config.env.train.benchmark, config.env.train.image_size) == ("mt50", 480)
    assert (config.env.train.total_num_envs, config.env.train.rollout_epoch) == (64, 8)
    assert config.env.eval.trials_per_task == 10  # 500 episodes on 50 tasks
    assert config.env.train.settle_steps == config.env.eval.settle_steps == 15 + 1
    model = config.actor.model
    assert (model.num_action_chunks, model.openpi.num_steps) == (5, 5)
    assert (model.openpi.config_name, model.openpi.detach_critic_input) == ("pi0_metaworld", True)
    algorithm = config.algorithm
    assert (algorithm.name, algorithm.gae_lambda) == ("ppo", 0.95)
    assert algorithm.bootstrap_type == "none"  # without auto_reset they bootstrap nothing
    assert algorithm.loss_agg_func == "seq-mean-token-mean"  # what they do when steps are masked
    assert algorithm.clip_ratio_c is None  # they don't read it
    assert config.runner.seed == 42  # actor.seed
    assert config.actor.optim.weight_decay == 0.01  # theirs where the file does not say
    assert verdicts["actor.model.precision"].word == "renamed"
    assert verdicts["algorithm.clip_ratio_c"].word == "dropped"
    assert verdicts["actor.optim.weight_decay"].word == "assumed"
    assert verdicts["env.train.sentences"].new == "checkpoint"  # no checkout is around the file
    printed = capsys.readouterr().out
    assert "  runner.max_epochs=1000\n" in printed
    assert "  actor.seed=42 -> runner.seed=42: " in printed
    assert "  critic.use_critic_model=false: " in printed


def test_interpolations_of_keys_that_are_kept_stay(theirs, tmp_path):
    main(["config", "import", f"{theirs}/metaworld_ppo_pi.yaml", "--out", f"{tmp_path}/a.yaml"])
    written = yaml.safe_load((tmp_path / "experiment/a.yaml").read_text())
    video = written["env"]["eval"]["video_cfg"]["video_base_dir"]
    assert video == "${runner.logger.log_path}/video/eval"


@pytest.mark.long
def test_their_cosine_counts_updates(imported):
    """64 envs x 8 x 20 decisions = 10240 samples, 5 batches of 2048, 4 epochs: 20 steps."""
    _, config = imported("metaworld_ppo_pi_cosine")
    assert config.actor.optim.total_training_steps == 1000 * 20


@pytest.mark.long
def test_each_side_has_its_tasks(imported):
    _, config = imported("metaworld_45_ppo_pi")
    assert (config.env.train.benchmark, config.env.eval.benchmark) == ("ml45_train", "ml45_test")
    assert config.env.eval.trials_per_task == 100  # 500 episodes on 5 tasks


def test_tokens_with_grpo_on_metaworld(imported):
    verdicts, config = imported("metaworld_grpo_oft")
    model = config.actor.model
    assert (model.temperature, model.top_k) == (1.6, -1)
    assert (config.rollout.eval_temperature, config.rollout.eval_deterministic) == (0.6, False)
    assert model.action_entries == [0, 1, 2, 6]  # four of the seven that it writes
    assert (config.algorithm.name, config.algorithm.group_size) == ("grpo", 8)
    assert config.algorithm.gamma == 1.0  # theirs, 0.99, is not used by GRPO
    assert config.env.train.reward_coef == 5.0  # ${algorithm.reward_coef}
    assert (config.algorithm.filter_rewards, config.algorithm.rewards_upper_bound) == (True, 0.9)
    assert verdicts["algorithm.gamma"].word == "dropped"
    assert not model.center_crop  # theirs is true, and not read
    assert verdicts["env.train.group_size"].word == "dropped"  # ${algorithm.group_size}
    assert verdicts["rollout.sampling_params.temperature_train"].ours == "actor.model.temperature"


@pytest.mark.long
def test_tokens_with_ppo_on_maniskill(imported):
    _, config = imported("maniskill_ppo_openvla")
    train = config.env.train
    assert train.tasks == ["PutOnPlateInScene25Main-v3"]
    assert (train.sim_backend, train.object_set, train.obs_mode) == ("gpu", "train", "rgb")
    # what their code does with a policy_setup of widowx_bridge
    assert (train.reward, train.action_units, train.gripper) == ("grasp", "metric", "binary")
    assert not train.use_rel_reward  # the reward is a difference already
    assert (train.auto_reset, train.max_steps_per_rollout_epoch) == (True, 160)
    assert config.algorithm.bootstrap_type == "always"
    assert config.algorithm.loss_agg_func == "token-mean"  # nothing is masked with auto_reset
    assert config.env.eval.trials_per_task == 16
    assert config.env.eval.max_steps_per_rollout_epoch is None


@pytest.mark.long
def test_pi_with_ppo_on_maniskill(imported):
    """Its policies get `agent.robot.get_qpos()` and the frames as they are recorded."""
    _, config = imported("maniskill_ppo_pi")
    for env in (config.env.train, config.env.eval):
        assert (env.robot_state, env.image_size, env.image_width) == ("joints", 480, 640)
    assert config.actor.model.openpi.config_name == "pi0_maniskill"


@pytest.mark.long
def test_pi_with_ppo_on_libero(imported):
    _, config = imported("libero_10_ppo_pi")
    train, evaluation = config.env.train, config.env.eval
    assert (train.suite, train.image_size, train.max_episode_steps) == ("libero_10", 256, 512)
    assert train.starts == evaluation.starts == "all"  # all 50 init states, as published
    assert (evaluation.split, evaluation.allow_training_trials) == ("train", True)
    assert evaluation.trials_per_task == 50  # 500 episodes on 10 tasks
    assert train.reward_coef == 5.0


@pytest.mark.long
def test_a_file_for_evaluation(imported):
    verdicts, config = imported("maniskill_oft_eval")
    assert config.runner.only_eval and config.algorithm.name == ""
    assert config.actor.model.unnorm_key == "bridge_orig"
    assert config.env.train.action_units == config.env.eval.action_units == "metric"
    assert verdicts["rollout.model.unnorm_key"].word == "taken"
    assert verdicts["rollout.model.model_path"].word == "choose"


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("path", "value", "word", "note"),
    [
        ("runner.max_epochz", 3, "choose", "runner.max_epochs"),
        ("algorithm.new_trick", 0.1, "choose", ""),
        ("runner.ckpt_path", "/x.pt", "choose", "actor.model.model_path"),
        ("runner.max_epochs", "many", "choose", "int"),
        ("actor.optim.lr", -1.0, "choose", "0"),
        ("env.train.task_suite_name", "metaworld_60", "choose", "metaworld_45_ind"),
        ("env.train.seed", "${oc.env:NO_SUCH_VARIABLE}", "choose", "NO_SUCH_VARIABLE"),
        ("env.train.rollout_epoch", "???", "choose", ""),
        ("rollout.model.precision", "bf16", "choose", ""),
        ("actor.optim.critic_warmup_steps", 100, "choose", "critic_warmup_updates"),
        ("actor.model.openpi.use_dsrl", True, "choose", "DSRL"),
        ("actor.fsdp_config.sharding_strategy", "half_shard", "choose", "no_shard"),
        ("runner.max_steps", 7, "dropped", "runner.max_epochs"),
        ("rollout.sampling_params.top_k", 50, "dropped", "flow policy"),
    ],
)
def test_a_key_without_a_counterpart_is_named(changed, tmp_path, path, value, word, note, capsys):
    file = changed("metaworld_ppo_pi", {path: value})
    out = tmp_path / "experiment/changed.yaml"
    assert main(["config", "import", str(file), "--out", str(out)]) == 0
    verdict = verdicts_of(file)[path]
    assert verdict.word == word and note in verdict.note
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith(f"  {path}="))
    assert verdict.note in line
    assert (f"#   {path}=" in out.read_text()) == (word == "choose")
    compose(["experiment=changed"], config_dirs=[tmp_path])


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("name", "values", "key", "expected"),
    [
        # twice 80 steps for each of 16 envs
        (
            "maniskill_oft_eval",
            {"env.eval.max_steps_per_rollout_epoch": 160, "env.eval.max_episode_steps": 80},
            "env.eval.trials_per_task",
            32,
        ),
        # an env that is not reset plays one episode
        (
            "maniskill_oft_eval",
            {"env.eval.max_steps_per_rollout_epoch": 160, "env.eval.auto_reset": False},
            "env.eval.trials_per_task",
            16,
        ),
        ("maniskill_oft_eval", {"env.eval.total_num_envs": "???"}, "env.eval.trials_per_task", 1),
        # Gymnasium's own size: their env asks for no other
        (
            "metaworld_ppo_pi",
            {"env.eval.init_params": {"camera_heights": 256, "camera_widths": 256}},
            "env.eval.image_size",
            480,
        ),
        (
            "maniskill_grpo_oft",
            {"env.train.reward_mode": "only_success"},
            "env.train.reward",
            "sparse",
        ),
        (
            "maniskill_grpo_oft",
            {"env.train.init_params.max_episode_steps": 40},
            "env.train.max_episode_steps",
            80,
        ),
    ],
)
def test_values_are_those_that_rlinfs_envs_read(changed, name, values, key, expected):
    assert values_of(changed(name, values))[key] == expected


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        # what pays for a success once there pays at each step here
        ("env.train.reward_mode", "only_success", "sparse, dense or grasp"),
        ("env.train.init_params.max_episode_steps", 40, "env.train.max_episode_steps"),
    ],
)
def test_a_contradiction_of_two_keys_is_left_to_the_user(changed, path, value, note):
    file = changed("maniskill_ppo_openvla", {path: value, "env.train.ignore_terminations": True})
    verdict = verdicts_of(file)[path]
    assert verdict.word == "choose" and note in verdict.note


def test_defaults_of_pi_are_rlinfs(theirs):
    write(theirs, "model/pi0_bare", {"model_type": "openpi", "model_path": "/path/to/model"})
    content = recipe("libero_10", "libero_10", "pi0_bare", {**GAE, "update_epoch": 4})
    file = write(theirs, "bare_pi", content)
    values = values_of(file)
    assert {
        name: values[f"actor.model.openpi.{name}"]
        for name in ("config_name", "num_images_in_input", "train_expert_only")
    } == {"config_name": "pi0_libero", "num_images_in_input": 2, "train_expert_only": False}


def test_defaults_of_robotwin_are_rlinfs(theirs):
    """Nothing is random, frames are whole, and there are wrist cameras."""
    task = {"task_name": "place_empty_cup", "embodiment": ["piper", "piper", 0.6], "camera": {}}
    task["domain_randomization"] = {"cluttered_table": True}
    env = {**METAWORLD, "env_type": "robotwin", "use_custom_reward": True, "task_config": task}
    write(theirs, "env/robotwin_bare", env)
    file = write(theirs, "bare", recipe("robotwin_bare", "robotwin_bare", "openvla_oft", GROUP))
    values = values_of(file)
    for side in ("train", "eval"):
        assert values[f"env.{side}.center_crop"] is False
        own = f"env.{side}.task_config"
        assert values[f"{own}.planner_backend"] == "curobo"
        assert values[f"{own}.camera.collect_wrist_camera"] is True
        section = f"{own}.domain_randomization."
        assert {
            key.removeprefix(section): value
            for key, value in values.items()
            if key.startswith(section)
        } == {
            "random_background": False,
            "cluttered_table": True,
            "clean_background_rate": 1.0,
            "random_head_camera_dis": 0.0,
            "random_table_height": 0.0,
            "random_light": False,
            "crazy_random_light_rate": 0.0,
        }


def test_a_file_of_supervised_training(theirs, tmp_path, capsys):
    """Its env is that of the data configuration; the data set is described by the user."""
    file = write(theirs, "libero_sft", supervised("pi05_libero"))
    assert main(["config", "import", str(file), "--out", f"{tmp_path}/a.yaml"]) == 0
    printed = capsys.readouterr().out
    assert f"rlcore sft --config-dir {tmp_path} a collect.path=FILE.yaml --dry-run" in printed
    verdicts = verdicts_of(file)
    assert all(verdict.theirs or verdict.ours for verdict in verdicts.values())
    config = compose(["experiment=a"], config_dirs=[tmp_path])
    assert config.env.train.env_type == config.env.eval.env_type == "libero"
    assert config.supervised_only
    sft = config.sft
    assert (sft.enabled, sft.max_steps, sft.batch_size) == (True, 30000, 32)
    assert (sft.lr, sft.lr_warmup_steps, sft.lr_scheduler) == (2.5e-5, 1000, "cosine")
    assert (sft.weight_decay, sft.val_fraction, sft.decoders) == (1e-10, 0.0, 4)
    assert (config.runner.seed, config.actor.model.num_action_chunks) == (3, 10)
    assert config.actor.model.openpi.config_name == "pi05_libero"
    assert config.actor.optim.lr == OptimConfig().lr  # theirs is of supervised training
    assert verdicts["data.train_data_paths"].word == "choose"
    assert "rlcore data describe" in verdicts["data.train_data_paths"].note
    assert verdicts["actor.optim.min_lr"].word == "choose"
    assert verdicts["runner.save_interval"].word == "dropped"
    assert verdicts["actor.micro_batch_size"].word == "dropped"


@pytest.mark.parametrize(
    ("values", "key", "word", "steps"),
    [
        ({"runner.max_steps": 2000}, "runner.max_epochs", "dropped", 2000),
        # passes over the data set: the schedule has another length
        ({"runner.max_epochs": 100}, "runner.max_epochs", "choose", 1000),
        (
            {"runner.max_epochs": -1, "runner.max_steps": 2000},
            "actor.optim.total_training_steps",
            "choose",
            2000,
        ),
    ],
)
def test_steps_of_supervised_training(theirs, tmp_path, values, key, word, steps):
    file = write(theirs, "steps", supervised("pi0_libero", **values))
    assert main(["config", "import", str(file), "--out", f"{tmp_path}/a.yaml"]) == 0
    assert verdicts_of(file)[key].word == word
    assert compose(["experiment=a"], config_dirs=[tmp_path]).sft.max_steps == steps


def test_a_robot_without_a_simulator_is_that_of_the_data_set(theirs, tmp_path):
    """A file of another implementation of the model, without an algorithm."""
    more = {"runner.task_type": "SFT", "actor.model.model_type": "openpi_rlinf"}
    content = supervised("pi05_so101_joint", **more)
    del content["algorithm"]
    file = write(theirs, "arm_sft", content)
    assert main(["config", "import", str(file), "--out", f"{tmp_path}/a.yaml"]) == 0
    config = compose(["experiment=a"], config_dirs=[tmp_path])
    assert config.env.train.env_type == "data"
    assert config.actor.model.model_type == "openpi"
    placed = config.cluster.component_placement
    assert placed == {"env,rollout,actor": "0-0"}


def test_the_smaller_limit_of_updates_is_taken(changed, tmp_path):
    file = changed("metaworld_ppo_pi", {"runner.max_steps": 7})
    main(["config", "import", str(file), "--out", f"{tmp_path}/a.yaml"])
    config = compose(["experiment=a"], config_dirs=[tmp_path])
    assert (config.runner.max_epochs, config.runner.max_steps) == (7, -1)


def test_instructions_of_the_checkout_are_taken(tmp_path):
    root = tmp_path / "RLinf"
    instructions = write(root / "rlinf/envs/metaworld", "x", {}).with_name("metaworld_config.json")
    instructions.write_text('{"TASK_DESCRIPTIONS": {}}')
    folder = checkout(root / "examples/embodiment/config")
    verdict = verdicts_of(folder / "metaworld_ppo_pi.yaml")["env.train.sentences"]
    assert verdict.new == f"{instructions}:TASK_DESCRIPTIONS"


def test_groups_are_found_in_the_checkout_and_by_config_dir(theirs, tmp_path, capsys):
    alone = write(tmp_path / "elsewhere", "lone", pi_on_metaworld())
    assert main(["config", "import", str(alone)]) == 2
    error = capsys.readouterr().err
    assert "weight_syncer/patch_syncer" in error and "--config-dir" in error
    out = f"{tmp_path}/lone.yaml"
    assert main(["config", "import", str(alone), "--config-dir", str(theirs), "--out", out]) == 0
    root = tmp_path / "RLinf"
    checkout(root / "examples/embodiment/config")
    inside = write(root / "evaluations/metaworld", "lone", pi_on_metaworld())
    assert main(["config", "import", str(inside), "--out", f"{tmp_path}/b.yaml"]) == 0


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("env.train.env_type", "kitchen", "'kitchen'"),
        ("actor.model.model_type", "gr00t", "'gr00t'"),
        ("algorithm.loss_type", "embodied_sac", "algorithm.loss_type=embodied_sac"),
        ("defaults", ["env/metaworld_5@env.train"], "metaworld_50"),
        ("defaults", {"env": "x"}, "defaults"),
        ("defaults", [], "env"),
    ],
)
def test_a_file_that_cant_be_translated_is_refused(changed, tmp_path, path, value, word, capsys):
    file = changed("metaworld_ppo_pi", {path: value})
    assert main(["config", "import", str(file), "--out", f"{tmp_path}/a.yaml"]) != 0
    error = capsys.readouterr().err
    assert word in error and file.name in error and "Traceback" not in error
    assert not list(tmp_path.rglob("*.yaml"))


@pytest.mark.parametrize("text", ["a: [1", "- a\n- b\n", "a: &x [*x]\n", "\x00", "1: 2\n"])
def test_a_damaged_file_is_refused(tmp_path, text, capsys):
    file = tmp_path / "damaged.yaml"
    file.write_text(text)
    assert main(["config", "import", str(file)]) == 2
    error = capsys.readouterr().err
    assert "damaged.yaml" in error and error.startswith("error: ") and "Traceback" not in error


def test_a_damaged_group_is_named(tmp_path, capsys):
    folder = checkout(tmp_path / "theirs")
    (folder / "model/pi0.yaml").write_text("a: [1")
    assert main(["config", "import", f"{folder}/metaworld_ppo_pi.yaml"]) == 2
    error = capsys.readouterr().err
    assert "pi0.yaml" in error and "Traceback" not in error


def test_no_file_is_overwritten(theirs, tmp_path, capsys):
    words = ["config", "import", f"{theirs}/metaworld_ppo_pi.yaml", "--out", f"{tmp_path}/a.yaml"]
    assert (main(words), main(words)) == (0, 2)
    assert f"{tmp_path}/experiment/a.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["import", "nothing.yaml"], "nothing.yaml"),
        (["import", "."], "folder"),
        (["export", "x.yaml"], "export"),
        (["import"], "FILE"),
        (["import", "{file}", "--out", "a.json"], "'a.json'"),
        (["import", "{file}", "--config-dir", "nowhere"], "'nowhere'"),
    ],
)
def test_wrong_arguments_are_refused(theirs, arguments, word, capsys):
    file = f"{theirs}/metaworld_ppo_pi.yaml"
    assert main(["config", *(each.replace("{file}", file) for each in arguments)]) == 2
    assert word in capsys.readouterr().err


def test_without_the_distribution_the_command_that_installs_it_is_named(
    theirs, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "rlcore_rlinf.convert", None)
    assert main(["config", "import", f"{theirs}/metaworld_ppo_pi.yaml"]) == 2
    assert install_command(["rlinf"]) in capsys.readouterr().err
