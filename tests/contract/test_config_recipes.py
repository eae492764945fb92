"""Every shipped recipe, and every installed combination, composes and passes the checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from internals import check, compose, to_yaml

from rlcore.checks import instruction_warnings as words
from rlcore.checks import places
from rlcore.checks.facts import env_spec
from rlcore.cli.main import main
from rlcore.config import instructions
from rlcore.config.catalog import Catalog
from rlcore.config.differences import differences
from rlcore.config.schema import RunConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")

EIGHT_GPUS = Inventory.uniform(1, Node(cpus=96, gpus=8))
CATALOG = Catalog(load_plugins())
# An env that is another one with one key changed, many times over, is tried as that one.
ENVS = [
    name
    for name in CATALOG.options("env")
    if name == "robotwin_adjust_bottle" or not name.startswith(("robotwin_", "data"))
]
DATA = yaml.safe_load(Path(__file__).with_name("published_recipes.yaml").read_text())
PUBLISHED, CHECKPOINTS = DATA["values"], DATA["checkpoints"]
ADAMW = {"adam_beta1": 0.9, "adam_eps": 1e-8, "weight_decay": 0.01}
BETA2 = {"openvla": 0.999, "openvla_oft": 0.999, "openpi": 0.95}
ONE_EACH = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"


REQUIRED = {"gymnasium": ["env.train.id=CartPole-v1", "env.train.success=return:40"]}
"""Keys of an env that have no default."""


def checked(*overrides: str) -> RunConfig:
    config = compose(overrides)
    check(config, plan=make_plan(config.cluster, EIGHT_GPUS))
    return config


@cache
def recipe(name: str, *overrides: str) -> RunConfig:
    return checked(f"experiment={name}", *overrides)


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 3 == 0 else [pytest.mark.long])
        for number, name in enumerate(CATALOG.options("experiment"))
    ],
)
def test_recipes_compose_pass_the_checks_and_fit_on_eight_gpus(name, capsys):
    assert main(["train", name, "cluster.inventory=8x80GB", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"experiment={name} -> ")
    assert "of 79.10 GiB" in output and "TOO MUCH" not in output


# Every sixth pair at once, which is some models of each env and some envs of each model.
PAIRS = [
    pytest.param(env, model, marks=[] if (row + column) % 6 == 0 else [pytest.mark.long])
    for row, env in enumerate(ENVS)
    for column, model in enumerate(CATALOG.options("model"))
]


@pytest.mark.quick(6)
@pytest.mark.parametrize(("env", "model"), PAIRS)
def test_any_installed_env_and_model_compose(env, model):
    words = [f"env={env}", f"model={model}", *REQUIRED.get(env, ())]
    config = compose(words, require=("env", "model"))
    assert config.env.train.env_type in load_plugins().names("env")
    assert config.actor.model.model_type in load_plugins().names("model")


TOKENS = ("openvla_tiny", "openvla_oft_tiny")


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("env", "model"),
    [
        pytest.param(env, model, marks=[] if (row + column) % 2 == 0 else [pytest.mark.long])
        for row, env in enumerate(ENVS)
        for column, model in enumerate(TOKENS)
    ],
)
def test_a_small_token_model_takes_the_longest_instruction_of_any_env(env, model):
    one_worker = (
        *REQUIRED.get(env, ()),
        ONE_EACH,
        "env.train.total_num_envs=1",
        "env.eval.total_num_envs=1",
    )
    checked(f"env={env}", f"model={model}", "runner.only_eval=true", *one_worker)


@pytest.mark.long
def test_the_prompts_of_shipped_recipes_keep_their_length():
    """32 is what the small models had for all envs, 41 stands in the recipe, 64 is what RoboTwin's
    longer sentences ask for."""
    from rlcore_prismatic.resolved import resolve

    found = {}
    for name in CATALOG.options("experiment"):
        config = recipe(name)
        if config.actor.model.model_type in ("openvla", "openvla_oft") and name.endswith("_tiny"):
            env = env_spec(load_plugins(), "env.train", config.env.train)
            found[name] = resolve(config.actor.model, env).prompt_length
    assert found == {
        "maniskill_put_on_plate_expo_openvlaoft_tiny": 41,
        "maniskill_put_on_plate_grpo_openvlaoft_tiny": 41,
        "metaworld_expo_openvlaoft_tiny": 32,
        "metaworld_grpo_openvlaoft_tiny": 32,
        "metaworld_ppo_openvla_tiny": 32,
        "robotwin_handover_block_grpo_openvlaoft_tiny": 64,
    }


# lerobot_tiny can't be chosen where LeRobot is not installed: plugins/models/lerobot/tests
TINY = [name for name in CATALOG.options("model") if "tiny" in name and "lerobot" not in name]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("model", "algorithm"),
    [
        pytest.param(model, algorithm, marks=[] if (row + column) % 3 == 0 else [pytest.mark.long])
        for row, model in enumerate(TINY)
        for column, algorithm in enumerate(CATALOG.options("algorithm"))
    ],
)
def test_a_recipe_runs_with_another_model_and_algorithm(model, algorithm, refused):
    words = ("experiment=quickstart_ppo", f"model={model}", f"algorithm={algorithm}")
    draws_noise = model.startswith(("pi0", "smolvla"))
    if algorithm == "sac" or (algorithm.startswith("dsrl") and not draws_noise):
        with refused(ConfigError, algorithm, text=False):
            checked(*words)
        return
    config = checked(*words)
    assert config.actor.model.add_value_head == (algorithm == "ppo")
    assert config.actor.model.num_action_chunks == 10  # means the same to all models


@pytest.mark.filterwarnings("default::rlcore.config.warning.ConfigWarning")
def test_settings_of_a_recipe_for_another_algorithm_are_left_out_with_a_warning():
    """Both algorithms have gamma, but grpo declares it anew: 1 there. update_epoch is 4 to both.
    The command line has the last word."""
    with pytest.warns(ConfigWarning) as warned:
        config = compose(["experiment=quickstart_ppo", "algorithm=grpo", "algorithm.group_size=4"])
    (text,) = (str(warning.message) for warning in warned)
    keys = ("algorithm.gamma", "algorithm.critic_warmup_updates")
    assert all(word in text for word in ("experiment=quickstart_ppo", "grpo", *keys))
    algorithm = config.algorithm
    assert (algorithm.gamma, algorithm.update_epoch, algorithm.group_size) == (1.0, 4, 4)
    assert compose(["experiment=quickstart_ppo", "algorithm=ppo"]).algorithm.gamma == 0.97


def test_the_quickstart_with_expo_begins_where_the_quickstart_does():
    one, other = (compose([f"experiment={name}"]) for name in ("quickstart", "quickstart_expo"))
    same = ("collect", "sft", "env", "rollout", "cluster")
    assert [vars(one)[key] for key in same] == [vars(other)[key] for key in same]
    assert one.actor.model == other.actor.model
    assert one.runner.max_epochs == 2 * other.runner.max_epochs


@pytest.mark.filterwarnings("default::rlcore.config.warning.ConfigWarning")
def test_another_suite_brings_its_own_time_limit_with_a_warning():
    """480 is RLinf's for libero_10; 220 is how libero_spatial is evaluated. What the suites do not
    differ in is the recipe's, and the command line has the last word."""
    words = ["experiment=libero_10_ppo_openpi", "env=libero_spatial"]
    with pytest.warns(ConfigWarning) as warned:
        config = compose([*words, "env.eval.max_episode_steps=240"])
    for side, warning in zip(("train", "eval"), warned, strict=True):
        assert f"env.{side}.max_episode_steps=220" in str(warning.message)
    train, evaluated = config.env.train, config.env.eval
    assert (train.suite, train.max_episode_steps, train.settle_steps) == ("libero_spatial", 220, 15)
    assert evaluated.max_episode_steps == 240
    assert compose(words[:1]).env.train.max_episode_steps == 480


@pytest.mark.long
def test_names_of_one_component_are_not_kept_for_another():
    """MetaWorld's tasks are none of the toy env's, and a width of actions goes with the entries
    that one model picks of them; a time limit means the same to all."""
    config = checked("experiment=quickstart_ppo", "env=toy", "model=toy")
    for side in (config.env.train, config.env.eval):
        assert (side.env_type, side.tasks) == ("toy", None)
    assert config.env.train.max_episode_steps == 95
    chosen = checked("experiment=quickstart_ppo", "env=toy", "env.train.tasks=[reach-left]")
    assert (chosen.env.train.tasks, chosen.env.eval.tasks) == (["reach-left"], None)
    other = recipe("metaworld_50_grpo_openvlaoft", "model=pi0_tiny")
    assert other.actor.model.action_dim is None


@pytest.mark.long
def test_recipes_of_published_runs_name_their_checkpoint():
    """Without which they don't train 7.5 B random weights; the others start from nothing."""
    named = {name: recipe(name).actor.model.model_path for name in CATALOG.options("experiment")}
    assert {name: path for name, path in named.items() if path} == CHECKPOINTS
    for name in CHECKPOINTS:
        (row,) = [row for row in places.findings(recipe(name)) if row["status"] == "missing"]
        assert row["fix"].startswith(f"hf download {CHECKPOINTS[name]} --local-dir ")
        assert not [*places.findings(recipe(name, "actor.model.model_path=null"))]


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", [name for name in CHECKPOINTS if name.startswith("metaworld_")])
def test_recipes_of_published_checkpoints_look_for_their_sentences(name, tmp_path, monkeypatch):
    """Which are not the env's; a file that has those of all fifty tasks serves both sides. It is
    LeRobot's, beside the checkpoint."""
    monkeypatch.setattr(instructions, "find_spec", lambda name: None)  # there may be a LeRobot here
    config = compose([f"experiment={name}"])
    assert config.env.train.sentences == config.env.eval.sentences == "checkpoint"
    assert words.findings(config) == []  # that its checkpoint is not here is said already
    (tmp_path / "policy").mkdir()
    given = f"actor.model.model_path={tmp_path / 'policy'}"
    (row,) = words.findings(compose([f"experiment={name}", given]))
    for place in ("the checkpoint", "beside it", "lerobot", "sentences=FILE", "sentences=own"):
        assert place in row["detail"]
    tasks = load_target("rlcore_env_metaworld.tasks:SENTENCES")
    instructions_of = {task: f"Do {task} now" for task in tasks}
    content = {"TASK_DESCRIPTIONS": instructions_of}
    (tmp_path / "metaworld_config.json").write_text(json.dumps(content))
    config = compose([f"experiment={name}", given])
    assert words.findings(config) == []
    for side in (config.env.train, config.env.eval):
        spec = env_spec(load_plugins(), "env.train", side)
        assert spec.all_instructions == tuple(f"Do {task} now" for task in spec.tasks)
    scratch = compose([f"experiment={name}", "actor.model.model_path=null"])
    assert scratch.env.train.sentences == "own"


@pytest.mark.long
def test_the_evaluation_of_liberos_document_is_what_its_words_say():
    """`do_sample`, `temperature: 1.6` and `rollout_epoch=2` stand there without a section. The
    supervised checkpoint is evaluated greedily: `do_sample: False`."""
    words = ["experiment=libero_10_grpo_openvlaoft", "env=libero_130", "rollout_epoch=2"]
    tuned = compose([*words, "do_sample=True", "temperature=1.6"])
    assert (tuned.rollout.eval_deterministic, tuned.rollout.eval_temperature) == (False, 1.6)
    assert (tuned.env.eval.rollout_epoch, tuned.env.train.rollout_epoch) == (2, 16)
    assert compose([*words, "do_sample=False"]).rollout.eval_deterministic


def test_the_placement_of_the_published_runs_is_a_recipe_of_its_own():
    """It differs from the recipe for any machine in nothing else."""
    name = "maniskill_ppo_openvla"
    anywhere, placed = (checked(f"experiment={name}{end}") for end in ("", "_8gpu"))
    plan = make_plan(placed.cluster, EIGHT_GPUS)
    ranks = {
        component: [rank for process in plan.processes(component) for rank in process.resources]
        for component in ("env", "rollout", "actor")
    }
    assert ranks == {"env": [*range(4)], "rollout": [*range(4, 8)], "actor": [*range(8)]}
    mine, its = (yaml.safe_load(to_yaml(config)) for config in (anywhere, placed))
    changed = differences(mine, its, ignore=("recipe", "runner.logger"))
    assert {each.path.split("component_placement")[0] for each in changed} == {"cluster."}


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_have_the_published_values(name):
    config = recipe(name)
    for path, wanted in PUBLISHED[name].items():
        section = config
        for part in path.split("."):
            section = vars(section)[part]
        assert {key: vars(section)[key] for key in wanted} == wanted


OLDER = (  # than the others
    "libero_10_ppo_openvlaoft",
    "robotwin_place_empty_cup_grpo_openvlaoft",
    "robotwin_handover_block_grpo_openvlaoft",
)


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_optimizer_of_the_published_runs(name):
    actor = recipe(name).actor
    wanted = {**ADAMW, "adam_beta2": BETA2[actor.model.model_type]}
    if name in OLDER:
        wanted["adam_eps"] = 1e-5
    assert {key: vars(actor.optim)[key] for key in wanted} == wanted


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["metaworld_50_grpo_openvlaoft", "maniskill_ppo_openvla", "libero_10_grpo_openvlaoft"],
)
def test_the_script_of_the_seed_documents_takes_them(name):
    """On this machine: 7.5 B parameters are planned, and nothing is loaded."""
    script = Path(__file__).parents[2] / "examples/embodiment/run_embodiment.sh"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    line = ["bash", str(script), name, "--dry-run", ONE_EACH]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"experiment={name} -> ")
    assert re.search(r"openvla(_oft)?: 7,\d{3},\d{3},\d{3} parameters in bf16", done.stdout)


def test_any_combination_of_real_size_is_planned(capsys):
    words = ["env=metaworld_50", "model=openvla_oft", "algorithm=grpo", "--dry-run"]
    assert main(["train", *words, ONE_EACH]) == 0
    output = capsys.readouterr().out
    # all but the last blocks, norms and pools of the vision towers, which nothing reads
    assert "7,541,237,184 parameters in bf16, 7,498,156,704 trained" in output
