"""Damaged checkpoints, data sets and run folders: each ends with one error that names the file and
its fault, before a worker is started."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest
from checkpoint_damages import DAMAGES, EPISODE, HEADS, STATS, TOKENIZER, WEIGHTS, only
from internals import assemble, compose, train
from refused import Started, the_error
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec
from rlcore_model_openpi.policy import make

from rlcore.cli.main import main
from rlcore.contracts.errors import UserError

PI0 = ["env=metaworld", "model=pi0_tiny"]
CRITIC = "actor.model.add_value_head=true"  # else an evaluation reads no critic
TOY_RUN = [
    "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    "env.train.total_num_envs=4", "env.eval.total_num_envs=4", "env.eval.trials_per_task=1",
    "actor.micro_batch_size=16", "actor.global_batch_size=16",
    "sft.enabled=true", "sft.max_steps=2", "collect.episodes_per_task=2",
    "runner.logger.experiment_name=run",
]  # fmt: skip
ALL = [(place, name) for place, damages in DAMAGES.items() for name in damages]
CASES = [
    pytest.param(place, name, marks=[] if number % 3 == 0 else [pytest.mark.long])
    for number, (place, name) in enumerate(ALL)
]

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make the undamaged folders and return them by place."""
    folder = tmp_path_factory.mktemp("originals")
    model = compose([*PI0, "algorithm=ppo"]).actor.model
    policy, run, begun = folder / "policy", folder / "run", folder / "begun"
    make(model, env_spec=env_spec(MetaWorldConfig())).save_pretrained(policy)
    train(assemble(compose([*TOY_RUN, f"runner.logger.log_path={folder}"])))
    shutil.copytree(run, begun)
    for place in ("checkpoints", "sft", "eval"):
        shutil.rmtree(begun / place)
    (begun / "summary.json").unlink()
    (begun / "demonstrations" / "episodes.parquet").unlink()
    data = run / "demonstrations"
    return {"policy": policy, "resume": run, "begun": begun, "eval": run, "demonstrations": data,
            "report": run}  # fmt: skip


def copied(originals: dict[str, Path], place: str, to: Path) -> Path:
    return Path(shutil.copytree(originals[place], to / originals[place].name))


def command(place: str, folder: Path) -> list[str]:
    return {
        "policy": ["eval", *PI0, CRITIC, f"actor.model.model_path={folder}"],
        "resume": ["resume", str(folder), "runner.max_epochs=3"],
        "begun": ["resume", str(folder)],
        "eval": ["eval", str(folder)],
        "demonstrations": ["train", *TOY_RUN, f"collect.path={folder}"],
        "report": ["report", str(folder)],
    }[place]


@pytest.mark.quick(6)
@pytest.mark.parametrize(("place", "name"), CASES)
def test_a_damage_is_named(place: str, name: str, originals, nothing_starts: Path, capsys):
    folder = copied(originals, place, nothing_starts)
    damage, culprits = DAMAGES[place][name]
    damage(folder)
    text = the_error(main(command(place, folder)), capsys.readouterr())
    assert not [culprit for culprit in culprits if culprit not in text], text
    assert [entry.name for entry in nothing_starts.iterdir()] == [folder.name]


# files that each command reads: a pipe or a device in their place must not block it
READ = {
    "policy": [WEIGHTS, HEADS, TOKENIZER, STATS, "config.json"],
    "resume": ["config.yaml", "state.json", "learner.json", "before.parquet"],
    "begun": ["config.yaml", "info.json"],
    "eval": ["config.yaml", "state.json", "learner.safetensors"],
    "demonstrations": ["info.json", "episodes.parquet", EPISODE],
    "report": ["config.yaml", "recipe.yaml", "manifest.json", "metrics.jsonl", "summary.json",
               "after.parquet"],
}  # fmt: skip


@pytest.mark.quick(4)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("place", "name", "kind"),
    [(place, name, "a pipe") for place in READ for name in READ[place]]
    + [("policy", WEIGHTS, "a device"), ("report", "metrics.jsonl", "a device")],
)
def test_pipes_and_devices_are_refused_without_waiting(
    place: str, name: str, kind: str, originals, nothing_starts: Path, capsys
):
    folder = copied(originals, place, nothing_starts)
    file = only(folder, name)
    file.unlink()
    if kind == "a pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    text = the_error(main(command(place, folder)), capsys.readouterr())
    assert name in text or folder.name in text, text


@pytest.mark.quick(1)
@pytest.mark.parametrize("verb", ["train", "sft", "collect"])
def test_damaged_demonstrations_are_named_by_every_command(
    verb: str, originals, nothing_starts: Path, capsys
):
    folder = copied(originals, "demonstrations", nothing_starts)
    only(folder, "info.json").write_text("{")
    arguments = command("demonstrations", folder)[1:]
    assert "info.json" in the_error(main([verb, *arguments]), capsys.readouterr())
    assert "info.json" in the_error(main([verb, *arguments, "--dry-run"]), capsys.readouterr())


@pytest.mark.quick(2)
@pytest.mark.parametrize("place", DAMAGES)
def test_without_damage_the_run_starts(place: str, originals, nothing_starts: Path):
    folder = copied(originals, place, nothing_starts)
    with pytest.raises(Started):
        main(command(place, folder))


@pytest.mark.skipif("os.geteuid() == 0", reason="root may read everything")
@pytest.mark.parametrize("name", [WEIGHTS, HEADS, TOKENIZER, STATS, "config.json"])
def test_an_unreadable_file_is_named(name: str, originals, nothing_starts: Path, capsys):
    folder = copied(originals, "policy", nothing_starts)
    only(folder, name).chmod(0)
    assert main(command("policy", folder)) == UserError.exit_code
    assert name in capsys.readouterr().err


@pytest.mark.quick(1)
@pytest.mark.parametrize("place", ["resume", "eval"])
def test_a_configuration_changed_by_hand_is_announced(
    place: str, originals, nothing_starts: Path, capsys
):
    folder = copied(originals, place, nothing_starts)
    file = folder / "config.yaml"
    text = file.read_text()
    assert text.count("  gamma: 0.99\n") == 1
    file.write_text(text.replace("  gamma: 0.99\n", "  gamma: 0.5\n"))
    with warnings.catch_warnings(), pytest.raises(Started):
        warnings.simplefilter("always")
        main(command(place, folder))
    change = "was changed since attempts/0001: algorithm.gamma from 0.99 to 0.5\n"
    assert change in capsys.readouterr().err
    # if the run was killed while it recorded a new attempt, the attempt before counts too
    shutil.copytree(folder / "attempts" / "0001", folder / "attempts" / "0002")
    shutil.copy(file, folder / "attempts" / "0001" / "config.yaml")
    with warnings.catch_warnings(), pytest.raises(Started):
        warnings.simplefilter("always")
        main(command(place, folder))
    assert "was changed" not in capsys.readouterr().err
