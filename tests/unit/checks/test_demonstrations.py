"""What collecting and supervised training need is said before a run starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rlcore.checks.demonstrations import check_supervised
from rlcore.checks.facts import Facts, gather_facts
from rlcore.checks.run import survey
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
    """The keys that the checks refuse; each sentence begins with its key."""
    return [sentence.split()[0] for sentence in check_supervised(facts, collects=collects)]


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
def test_settings(facts: Made, words: list[str], wanted: list[str]) -> None:
    assert keys(facts(LEARNING, *words)) == wanted
    apart = [word for word in words if not word.startswith("sft.control")]
    assert keys(facts(*apart), collects=True) == []  # nothing is supervised


def test_a_teacher_and_a_loss(facts: Made) -> None:
    supervised = facts(LEARNING)
    train = replace(supervised.envs["train"], has_expert=False)
    assert keys(replace(supervised, envs={**supervised.envs, "train": train})) == ["collect.path"]
    assert supervised.policy is not None
    without_loss = replace(supervised.policy, sft_objective=None)
    assert keys(replace(supervised, policy=without_loss)) == ["sft.enabled"]


@pytest.mark.parametrize(
    ("words", "wanted"), [([], ["collect.stride"]), (["collect.stride=2"], [])]
)
def test_chunks_of_one_motion_are_as_long_as_the_policy_s(
    facts: Made, words: Sequence[str], wanted: list[str]
) -> None:
    """The toy policy's chunks have 2 actions."""
    supervised = facts(LEARNING, *words)
    train = replace(supervised.envs["train"], whole_chunks=True)
    assert keys(replace(supervised, envs={**supervised.envs, "train": train})) == wanted


def test_a_run_is_refused_by_them_and_its_evaluation_is_not() -> None:
    """The configuration of a run that was trained on a data set is evaluated without that."""
    wrong = (LEARNING, "sft.val_fraction=0", "sft.patience=2", "cluster.inventory=4cpu")
    for words, refused in (((), True), (("runner.only_eval=true",), False)):
        config = compose([*WORDS, *wrong, *words])
        _, errors = survey(config, load_plugins(), only_look=True)
        assert any("sft.patience must be null" in one.message for one in errors) == refused


# -- the path of a data set ------------------------------------------------------------------------

SMALL = (
    "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "env.train.total_num_envs=2",
    "env.eval.total_num_envs=2", "env.eval.trials_per_task=1", "env.train.tasks=[reach-left]",
)  # fmt: skip


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


def refused(verb: str, *words: str) -> ConfigError:
    """What a run would be refused for."""
    config = compose([*SMALL, "sft.enabled=true", *words])
    _, errors = survey(config, load_plugins(), collects=verb == "collect")
    (error,) = errors
    assert isinstance(error, ConfigError)
    return error


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("shwon", ("Did you mean", "/shown'")),
        ("both.yml", ("Did you mean", "/both.yaml'")),
        ("shwon/data", ("Did you mean", "/shown/data'")),
        ("q/r/s", ("there is no q in", "which holds both.yaml, other.yaml, shown")),
        ("empty", ("a folder without demonstrations",)),
        ("shown/info.json", ("a file that describes none", "lerobot", "mixture", "safetensors")),
        ("both.yaml/x", ("both.yaml is a file",)),
        ("nowhere", ("a link to a missing file",)),
        ("/dev/null", ("a file that describes none",)),
    ],
)
def test_a_slip_of_the_pen_is_no_new_data_set(shown: Path, path: str, words: Sequence[str]) -> None:
    before = {*shown.rglob("*")}
    error = refused("sft", f"collect.path={path}")
    assert error.message.startswith("collect.path must be a data set")
    assert not [word for word in words if word not in error.message], error.message
    assert "collect.output=" in str(error.hint)
    assert {*shown.rglob("*")} == before


def test_a_command_with_such_a_path_leaves_nothing(shown: Path) -> None:
    before = {*shown.rglob("*")}
    assert main(["sft", *SMALL, "collect.path=my_data.yaml"]) == ConfigError.exit_code
    assert {*shown.rglob("*")} == before


def test_a_slip_in_a_mixture_is_one_too(shown: Path) -> None:
    (shown / "both.yaml").write_text("mixture: {shown: 1, shwon: 1}\n")
    error = refused("sft", "collect.path=both.yaml")
    assert "both.yaml: mixture" in error.message and "/shown'" in error.message


def test_an_algorithm_that_is_taught_needs_it_too(shown: Path) -> None:
    taught = ["algorithm=rft", "sft.enabled=false", "env.train.total_num_envs=4"]
    assert "Did you mean" in refused("train", *taught, "collect.path=shwon").message


def test_a_collection_that_was_interrupted_is_finished_first(shown: Path) -> None:
    (shown / "shown" / "episodes.parquet").unlink()
    error = refused("sft", "collect.path=shown")
    assert "after 2 episodes" in error.message and "collect.output=" in str(error.hint)
    assert main(["collect", *SMALL, "collect.episodes_per_task=2", "collect.output=shown"]) == 0
    _, errors = survey(compose([*SMALL, LEARNING, "collect.path=shown"]), load_plugins())
    assert errors == []


def test_collect_writes_to_a_key_of_its_own(shown: Path, capsys) -> None:
    assert "collect.output" in refused("collect", "collect.path=shown").message
    # again: nothing is missing
    words = [*SMALL, "collect.output=shown"]
    assert main(["collect", *words, "collect.episodes_per_task=2"]) == 0
    # and a data set of other settings is not taken for the one that is asked for
    capsys.readouterr()
    assert main(["collect", *words, "collect.episodes_per_task=3"]) == ConfigError.exit_code
    assert "episodes_per_task" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "words", "said"),
    [
        ("sft", ["collect.path=shown"],
         "demonstrations: {}/shown (safetensors), 2 of its 2 episodes"),
        ("train", ["sft.enabled=true", "collect.path=both.yaml"],
         "demonstrations: {}/both.yaml (mixture), 2 of its 2 episodes"),
        ("sft", [], "demonstrations: collected into the run by the expert of toy"),
        ("train", ["sft.enabled=true"], "demonstrations: collected into the run by the expert"),
        ("collect", ["collect.output=more"], "demonstrations: collected into {}/more by"),
        ("train", [], None),
        ("train", ["sft.enabled=true", "runner.only_eval=true"], None),
    ],
)  # fmt: skip
def test_a_dry_run_says_which_are_learned_from(
    shown: Path, capsys: pytest.CaptureFixture[str], verb: str, words: list[str], said: str | None
) -> None:
    assert main([verb, *SMALL, *words, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert ("demonstrations:" in out) == (said is not None)
    assert said is None or said.format(shown) in out
