"""Checks of what collecting and supervised training need."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from rlcore.checks.demonstrations import check_supervised, describe_plateau
from rlcore.checks.facts import Facts, gather_facts
from rlcore.checks.run import check, survey
from rlcore.cli.main import main
from rlcore.config.compose import compose
from rlcore.contracts.errors import ConfigError
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.registry import load_plugins

TWO_ACTORS = "cluster.component_placement={env: 0, rollout: 0-1, actor: 0-1}"
WORDS = ("env=toy", "model=toy", "algorithm=ppo", TWO_ACTORS, "actor.global_batch_size=256")
LEARNING = "sft.enabled=true"
Made = Callable[..., Facts]


@pytest.fixture
def facts() -> Made:
    """`facts(*overrides)`: of the toy with two actor processes, on a machine that is described."""

    def make(*overrides: str) -> Facts:
        config = compose([*WORDS, *overrides])
        plan = make_plan(config.cluster, Inventory((Node(cpus=4),)))
        return gather_facts(config, load_plugins(), plan)

    return make


def keys(facts: Facts, *, collects: bool = False) -> list[str]:
    """The keys that the checks refuse; each problem begins with its key."""
    return [problem.split()[0] for problem in check_supervised(facts, collects=collects)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], []),
        (["sft.val_fraction=0", "sft.patience=2"], ["sft.patience"]),
        (["collect.episodes_per_task=1"], ["collect.episodes_per_task"]),
        (["sft.control=own_successes"], ["sft.control"]),
        (["sft.control=own_successes", "cluster.backend=local"], []),
    ],
)
def test_settings_of_supervised_training(facts: Made, words: list[str], wanted: list[str]) -> None:
    assert keys(facts(LEARNING, *words)) == wanted
    apart = [word for word in words if not word.startswith("sft.control")]
    assert keys(facts(*apart), collects=True) == []  # nothing is supervised


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], []),
        (["sft.patience=2"], ["sft.patience"]),
        (["sft.max_steps=0"], ["sft.max_steps"]),
        (["env.validation.trials_per_task=80"], []),
        (["runner.only_eval=true", "sft.patience=2"], []),
    ],
)
def test_success_alone_ends_training_to_a_plateau(
    facts: Made, words: list[str], wanted: list[str]
) -> None:
    assert keys(facts(LEARNING, "sft.until=plateau", *words)) == wanted


@pytest.mark.parametrize(("trials", "suffice"), [(0, False), (49, False), (50, True)])
def test_a_plateau_needs_200_validation_starts(facts: Made, trials: int, suffice: bool) -> None:
    """Of an env that has none, or 49 or 50 of each of the toy's 4 tasks."""
    supervised = facts(LEARNING, "sft.until=plateau")
    env = replace(supervised.envs["eval"], validation_trials=range(2000, 2000 + trials))
    envs = {**supervised.envs, "eval": env}
    problems = [*check_supervised(replace(supervised, envs=envs))]
    assert len(env.tasks) == 4 and (problems == []) is suffice
    if not suffice:
        assert "sft.until" in problems[0] and "sft.patience" in problems[0]


@pytest.mark.parametrize(("trials", "suffice"), [(3, False), (4, True), (49, True)])
def test_a_policy_that_starts_from_noise_plays_few_validation_starts_again(
    facts: Made, trials: int, suffice: bool
) -> None:
    """The toy has 4 tasks: 50 episodes of each are 17, 13 and 2 passes, of at most 16."""
    supervised = facts(LEARNING, "sft.until=plateau")
    assert supervised.policy is not None
    policy = replace(supervised.policy, starts_from_noise=True)
    env = replace(supervised.envs["eval"], validation_trials=range(2000, 2000 + trials))
    few = replace(supervised, envs={**supervised.envs, "eval": env}, policy=policy)
    assert ([*check_supervised(few)] == []) is suffice
    line = f"on {4 * trials} validation starts, each played {-(-50 // trials)} times,"
    assert (line in describe_plateau(few)) is suffice


def test_an_expert_and_a_loss_are_needed(facts: Made) -> None:
    supervised = facts(LEARNING)
    train = replace(supervised.envs["train"], has_expert=False)
    assert keys(replace(supervised, envs={**supervised.envs, "train": train})) == ["collect.path"]
    assert supervised.policy is not None
    without_loss = replace(supervised.policy, sft_objective=None)
    assert keys(replace(supervised, policy=without_loss)) == ["sft.enabled"]


@pytest.mark.parametrize(
    ("words", "wanted"), [([], ["collect.stride"]), (["collect.stride=2"], [])]
)
def test_an_expert_of_whole_chunks_needs_the_stride_of_the_policy(
    facts: Made, words: Sequence[str], wanted: list[str]
) -> None:
    """The toy policy's chunks have 2 actions."""
    supervised = facts(LEARNING, *words)
    train = replace(supervised.envs["train"], whole_chunks=True)
    assert keys(replace(supervised, envs={**supervised.envs, "train": train})) == wanted


def test_settings_of_supervised_training_refuse_a_run_and_not_its_evaluation() -> None:
    wrong = (LEARNING, "sft.val_fraction=0", "sft.patience=2", "cluster.inventory=4cpu")
    for words, is_refused in (((), True), (("runner.only_eval=true",), False)):
        config = compose([*WORDS, *wrong, *words])
        _, errors = survey(config, load_plugins(), only_look=True)
        assert any("sft.patience" in error.message for error in errors) == is_refused


# -- the path of a data set ------------------------------------------------------------------------

SMALL = (
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local"),
    *("env.train.total_num_envs=2", "env.train.tasks=[reach-left]"),
    *("env.eval.total_num_envs=2", "env.eval.trials_per_task=1"),
)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two demonstrations."""
    folder = tmp_path_factory.mktemp("collected")
    words = ["collect.episodes_per_task=2", f"collect.output={folder / 'shown'}"]
    assert main(["collect", *SMALL, *words, f"runner.logger.log_path={folder}"]) == 0
    return folder / "shown"


@pytest.fixture
def shown(elsewhere: Path, collected: Path) -> Path:
    """Where the user stands: a data set `shown`, a mixture `both.yaml`, a file that is none."""
    shutil.copytree(collected, elsewhere / "shown")
    (elsewhere / "both.yaml").write_text("mixture: {shown: 1}\n")
    (elsewhere / "other.yaml").write_text("a: 1\n")
    (elsewhere / "empty").mkdir()
    (elsewhere / "nowhere").symlink_to(elsewhere / "gone")
    return elsewhere


def test_a_collection_without_an_expert_is_refused_before_it_starts(
    facts: Made, refused: Any
) -> None:
    made = facts()
    envs = {side: replace(spec, has_expert=False) for side, spec in made.envs.items()}
    with refused(ConfigError, "env.train", "toy"):
        list(check_supervised(replace(made, envs=envs), collects=True))


def test_frames_of_a_data_set_are_counted(shown: Path) -> None:
    words = ["env=toy", "model=gaussian", "algorithm=sac", "collect.path=shown"]
    lengths = pq.read_table(shown / "shown/episodes.parquet").column("length").to_pylist()
    facts = gather_facts(compose(words), load_plugins())
    assert facts.demonstration_frames == sum(lengths) > 1  # each step has a frame
    untaught = replace(facts, needs=None)
    assert facts.memory["rollout+actor"].host > untaught.memory["rollout+actor"].host
    # a variant of the run knows them without another look, which new facts take
    shutil.rmtree(shown / "shown")
    assert replace(facts, config=replace(facts.config)).demonstration_frames == sum(lengths)
    assert gather_facts(facts.config, load_plugins()).demonstration_frames == 0


NEAR = "runner.demonstration_starts=0.5"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([NEAR], ["runner.demonstration_starts"]),
        ([NEAR, LEARNING], []),
        ([NEAR, LEARNING, "runner.max_epochs=-1", "runner.max_steps=9"], ["runner.max_epochs"]),
        ([NEAR, "collect.path=shown", "env.train.tasks=[reach-left]"], []),
        ([NEAR, "collect.path=shown"], ["runner.demonstration_starts"]),  # of one task of four
        ([NEAR, "runner.only_eval=true"], []),
    ],
)
def test_starts_of_demonstrations_must_be_known(
    shown: Path, words: list[str], wanted: list[str]
) -> None:
    config = compose([*WORDS, "cluster.inventory=4cpu", *words])
    _, errors = survey(config, load_plugins(), only_look=True)
    assert [error.message.split()[0] for error in errors] == wanted


def test_starts_of_episodes_that_failed_are_no_starts_of_demonstrations(shown: Path) -> None:
    table = pq.read_table(shown / "shown/episodes.parquet")
    failed = pa.array([False] * len(table))
    table = table.set_column(table.column_names.index("success"), "success", failed)
    pq.write_table(table, shown / "shown/episodes.parquet")
    config = compose([*SMALL, NEAR, "collect.path=shown", "env.train.tasks=[reach-left]"])
    _, errors = survey(config, load_plugins(), only_look=True)
    assert any(error.message.startswith("runner.demonstration_starts ") for error in errors)


def plan_supervised(*words: str, collects: bool = False) -> None:
    check(compose([*SMALL, LEARNING, *words]), load_plugins(), collects=collects)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("shwon", ("/shown'",)),
        ("both.yml", ("/both.yaml'",)),
        ("shwon/data", ("/shown/data'",)),
        ("q/r/s", ("no q in", "both.yaml, other.yaml, shown")),
        ("empty", ("folder",)),
        ("shown/info.json", ("file", "lerobot", "mixture", "safetensors")),
        ("both.yaml/x", ("both.yaml is a file",)),
        ("nowhere", ("link",)),
        ("/dev/null", ("file",)),
    ],
)
def test_a_misspelt_path_is_no_new_data_set(
    shown: Path, refused: Callable[..., Any], path: str, named: Sequence[str]
) -> None:
    before = {*shown.rglob("*")}
    lists_formats = path in ("empty", "shown/info.json", "/dev/null")  # those that are installed
    with refused(ConfigError, "collect.path", "collect.output=", *named, text=not lists_formats):
        plan_supervised(f"collect.path={path}")
    assert {*shown.rglob("*")} == before


def test_a_command_with_such_a_path_leaves_nothing(shown: Path) -> None:
    before = {*shown.rglob("*")}
    assert main(["sft", *SMALL, "collect.path=my_data.yaml"]) == ConfigError.exit_code
    assert {*shown.rglob("*")} == before


def test_a_misspelt_path_in_a_mixture_is_refused(shown: Path, refused: Callable[..., Any]) -> None:
    (shown / "both.yaml").write_text("mixture: {shown: 1, shwon: 1}\n")
    with refused(ConfigError, "both.yaml: mixture", "/shown'"):
        plan_supervised("collect.path=both.yaml")


def test_an_algorithm_that_reads_demonstrations_needs_the_path_too(
    shown: Path, refused: Callable[..., Any]
) -> None:
    taught = ["algorithm=rft", "sft.enabled=false", "env.train.total_num_envs=4"]
    with refused(ConfigError, "collect.path", "/shown'"):
        plan_supervised(*taught, "collect.path=shwon")


def test_a_collection_that_was_interrupted_is_finished_first(
    shown: Path, refused: Callable[..., Any]
) -> None:
    (shown / "shown" / "episodes.parquet").unlink()
    with refused(ConfigError, "2 episodes", "collect.output="):
        plan_supervised("collect.path=shown")
    assert main(["collect", *SMALL, "collect.episodes_per_task=2", "collect.output=shown"]) == 0
    plan_supervised("collect.path=shown")


def test_collect_writes_to_a_key_of_its_own(
    shown: Path, refused: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with refused(ConfigError, "collect.output"):
        plan_supervised("collect.path=shown", collects=True)
    # again: nothing is missing
    words = [*SMALL, "collect.output=shown"]
    assert main(["collect", *words, "collect.episodes_per_task=2"]) == 0
    # and a data set of other settings is not taken for the one that is asked for
    capsys.readouterr()
    assert main(["collect", *words, "collect.episodes_per_task=3"]) == ConfigError.exit_code
    assert "episodes_per_task" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "words", "named"),
    [
        ("sft", ["collect.path=shown"], ("/shown ", "safetensors", "2 of its 2")),
        ("train", [LEARNING, "collect.path=both.yaml"], ("/both.yaml ", "mixture", "2 of its 2")),
        ("sft", [], ("collected", "toy")),
        ("train", [LEARNING], ("collected", "toy")),
        ("collect", ["collect.output=more"], ("collected", "/more ")),
        ("train", [], None),
        ("train", [LEARNING, "runner.only_eval=true"], None),
    ],
)
def test_a_dry_run_shows_the_demonstrations(
    shown: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    words: list[str],
    named: Sequence[str] | None,
) -> None:
    assert main([verb, *SMALL, *words, "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "demonstrations:" in line]
    assert len(lines) == (named is not None)
    assert all(word in lines[0] for word in named or ())


@pytest.mark.parametrize("verb", ["sft", "train"])
def test_a_dry_run_tells_how_training_ends(
    shown: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """One task: all 200 starts are of it."""
    tasks = "env.eval.tasks=[reach-left]"
    words = [*SMALL, LEARNING, "sft.until=plateau", "sft.max_steps=100", tasks]
    assert main([verb, *words, "--dry-run"]) == 0
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if "supervised training:" in line
    ]
    assert "100, 200, 400, ..." in line and "6400" in line and "200 validation starts" in line
    assert main([verb, *words, "sft.patience=2", "--dry-run"]) == ConfigError.exit_code
    assert "sft.patience must be null" in capsys.readouterr().err
    assert main(["plan", *words, "sft.patience=2"]) == 1
    assert "sft.patience must be null" in capsys.readouterr().out
