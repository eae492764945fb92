"""The folder of a run from elsewhere: it runs no code here, learns nothing of this machine, and
writes nowhere but where its user lets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from internals import (
    Assembly,
    assemble,
    compose,
    config_to_evaluate,
    load,
    recipe_of,
    to_yaml,
    train,
    train_stages,
)
from refused import Started, the_error

from rlcore.cli.main import main
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, UserError

RUN = [
    "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    "runner.val_before_train=false", "runner.logger.logger_backends=[]",
    "env.train.total_num_envs=4", "env.eval.total_num_envs=4", "env.eval.trials_per_task=1",
    "actor.micro_batch_size=16", "actor.global_batch_size=16",
    "runner.logger.experiment_name=run",
]  # fmt: skip
SECRET = "a-token-of-this-machine"
VERBS = ["eval", "resume", "replay", "export"]

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    train(assemble(compose([*RUN, f"runner.logger.log_path={folder}"])))
    return folder / "run"


@pytest.fixture
def run(original: Path, nothing_starts: Path, monkeypatch) -> Path:
    """A copy, in a folder of its own."""
    monkeypatch.setenv("RLCORE_TEST_TOKEN", SECRET)
    return Path(shutil.copytree(original, nothing_starts / "theirs" / "run"))


def change(run: Path, path: str, value: Any) -> None:
    """Set a key of the saved configuration."""
    content = yaml.safe_load((run / "config.yaml").read_text())
    *sections, name = path.split(".")
    section = content
    for each in sections:
        section = section[each]
    section[name] = value
    (run / "config.yaml").write_text(yaml.safe_dump(content))


def command(verb: str, run: Path) -> list[str]:
    rest = {
        "resume": ["runner.max_epochs=2"],
        "replay": ["--task", "reach-left", "--trial", "0"],
        "export": [str(run.parent / "exported")],
    }
    return [verb, str(run), *rest.get(verb, [])]


def written(folder: Path) -> str:
    return "".join(file.read_bytes().decode("latin-1") for file in folder.rglob("*.*"))


# -- code -----------------------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize("verb", ["eval", "resume"])
def test_a_foreign_cluster_is_joined_only_with_trust(run, capsys, verb):
    change(run, "cluster.address", "192.0.2.7:6379")
    text = the_error(main(command(verb, run)), capsys.readouterr())
    assert "192.0.2.7:6379" in text and "--trust" in text
    for word in ("--trust", "cluster.address=null"):
        with pytest.raises(Started):
            main([*command(verb, run), word])


@pytest.mark.quick(1)
@pytest.mark.parametrize("verb", ["replay", "export"])
def test_commands_of_one_process_join_no_cluster(run, verb):
    change(run, "cluster.address", "192.0.2.7:6379")
    assert main(command(verb, run)) == 0


@pytest.mark.quick(1)
@pytest.mark.parametrize("address", ["auto", "local", None])
def test_the_cluster_of_this_machine_needs_no_trust(run, address):
    change(run, "cluster.address", address)
    with pytest.raises(Started):
        main(command("eval", run))


@pytest.mark.quick(1)
@pytest.mark.parametrize("side", ["train", "eval"])
def test_modules_are_imported_only_with_trust(tmp_path, monkeypatch, side, refused):
    """Also where the module lies in the folder, and that is where the user stands."""
    config = compose(["env=maniskill", f"env.{side}.register=[theirs]"], require=())
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    (tmp_path / "theirs.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    with refused(ConfigError, f"env.{side}.register", "theirs", text=False):
        load("config.yaml")
    assert load("config.yaml", trust=True) == config
    key = f"env.{side}.register"
    assert load("config.yaml", [f"{key}=[theirs]"]) == config
    assert load("config.yaml", [f"{key}=[]"]).recipe.choices == ["env=maniskill"]


@pytest.mark.parametrize("verb", VERBS)
def test_no_command_imports_modules_of_a_foreign_run(run, capsys, verb):
    """No verb gets as far as a spec, which would import them."""
    foreign = yaml.safe_load(to_yaml(compose(["env=maniskill"], require=())))
    foreign["env"]["train"]["register"] = ["theirs"]
    change(run, "env", foreign["env"])
    text = the_error(main(command(verb, run)), capsys.readouterr())
    assert "theirs" in text and "--trust" in text


def test_keys_in_other_letters_are_no_way_around(run, capsys):
    content = yaml.safe_load((run / "config.yaml").read_text())
    content["cluster"]["Address"] = "192.0.2.7:6379"
    del content["cluster"]["address"]
    (run / "config.yaml").write_text(yaml.safe_dump(content))
    assert "192.0.2.7" in the_error(main(command("eval", run)), capsys.readouterr())


# -- what is known here ---------------------------------------------------------------------------

LOOKED_UP = "${oc.env:RLCORE_TEST_TOKEN}"


@pytest.mark.quick(6)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("runner.logger.project_name", LOOKED_UP),
        ("env.train.tasks", ["reach-left", LOOKED_UP]),
        ("cluster.component_placement", {"env": LOOKED_UP}),
        ("runner.logger.project_name", "a${runner.seed}"),
    ],
)
def test_nothing_is_looked_up_for_a_run(run, capsys, verb, path, value):
    change(run, path, value)
    text = the_error(main(command(verb, run)), capsys.readouterr())
    assert path in text
    assert SECRET not in text + written(run.parent)


def test_an_override_takes_the_place_of_an_interpolation(run):
    change(run, "runner.logger.project_name", LOOKED_UP)
    with pytest.raises(Started):
        main([*command("eval", run), "runner.logger.project_name=mine"])


def test_a_report_shows_what_is_written(run):
    change(run, "runner.logger.project_name", LOOKED_UP)
    assert main(["report", str(run)]) == 0
    assert SECRET not in (run / "report.html").read_text()


def test_a_recipe_of_theirs_is_not_composed(run, tmp_path):
    theirs = tmp_path / "configs" / "experiment"
    theirs.mkdir(parents=True)
    recipe = f"# @package _global_\nrunner: {{logger: {{project_name: '{LOOKED_UP}'}}}}\n"
    (theirs / "x.yaml").write_text(recipe)
    looked_up = f"runner.logger.project_name={LOOKED_UP}"
    for choices in (["experiment=x"], ["env=toy", looked_up], [f"env={LOOKED_UP}"]):
        content = yaml.safe_load((run / "config.yaml").read_text())
        content["recipe"] = {"choices": choices, "config_dirs": [str(tmp_path / "configs")]}
        # interpolations are refused before; this is the second lock
        content = json.loads(json.dumps(content).replace("${", "$ {"))
        (run / "config.yaml").write_text(yaml.safe_dump(content))
        config = load(run / "config.yaml")
        assert config.recipe.config_dirs == []
        try:
            recipe_config = recipe_of(config)
        except UserError:
            recipe_config = None
        assert recipe_config is None or SECRET not in to_yaml(recipe_config)


# -- places ---------------------------------------------------------------------------------------


def test_an_evaluation_is_written_beside_the_run_wherever_that_is(run, tmp_path):
    keys = ("runner.logger.log_path", "collect.path", "collect.output")
    for path in (*keys, "env.eval.video_cfg.video_base_dir"):
        change(run, path, "/another/machine")
    config = config_to_evaluate(run)
    assert config.runner.logger.log_path == str(run.parent)
    assert config.collect.path is config.collect.output is None
    assert config.env.eval.video_cfg.video_base_dir is None
    mine = config_to_evaluate(run, f"runner.logger.log_path={tmp_path}")
    assert mine.runner.logger.log_path == str(tmp_path)


def test_a_run_that_was_moved_goes_on_where_it_is(run, monkeypatch):
    change(run, "runner.logger.log_path", "/proc/another")
    change(run, "runner.logger.experiment_name", "another")
    seen: list[RunConfig] = []

    def start(assembly: Assembly, *arguments: object) -> None:
        seen.append(assembly.config)
        raise Started

    monkeypatch.setattr(train_stages, "run", start)
    with pytest.raises(Started):
        main(command("resume", run))
    logger = seen[0].runner.logger
    assert (Path(logger.log_path), logger.experiment_name) == (run.parent, "run")


# -- links ----------------------------------------------------------------------------------------

CONTENT = "somebody else's " + SECRET


@pytest.fixture
def others(run: Path) -> Path:
    """A folder that is none of the run's."""
    folder = run.parent.parent / "others"
    folder.mkdir()
    (folder / "file").write_text(CONTENT)
    return folder


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    "name",
    ["metrics.jsonl", "manifest.json", "summary.json", "eval", "checkpoints/latest", ".lock",
     "tensorboard", "attempts", "checkpoints/superseded", "video"],
)  # fmt: skip
def test_a_run_does_not_go_on_through_a_link(run, others, capsys, name, monkeypatch):
    monkeypatch.undo()  # it is held before anything starts
    monkeypatch.chdir(run.parent)
    place = run / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(others if "." not in name and "latest" not in name else others / "file")
    text = the_error(main(command("resume", run)), capsys.readouterr())
    assert str(others) in text and name in text
    assert [file.read_text() for file in others.iterdir()] == [CONTENT]


@pytest.mark.long
def test_a_link_within_the_run_is_allowed(run, monkeypatch):
    (run / "newest").symlink_to("checkpoints/step_000001")
    monkeypatch.undo()
    assert main(["resume", str(run), "runner.max_epochs=2"]) == 0


def test_a_run_may_be_reached_through_a_link(run, tmp_path):
    (tmp_path / "there").symlink_to(run)
    assert main(["report", str(tmp_path / "there")]) == 0


def test_an_export_copies_nothing_that_lies_elsewhere(run, others, capsys):
    (run / "checkpoints/step_000001/actor/notes.txt").symlink_to(others / "file")
    text = the_error(main(command("export", run)), capsys.readouterr())
    assert "notes.txt" in text and str(others / "file") in text
    assert not (run.parent / "exported").exists()


@pytest.mark.parametrize(
    "name", ["recipe.yaml", "manifest.json", "metrics.jsonl", "eval/x.parquet"]
)
def test_a_report_shows_nothing_that_lies_elsewhere(run, others, capsys, name):
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(others / "file")
    text = the_error(main(["report", str(run)]), capsys.readouterr())
    assert name in text and SECRET not in text


def test_a_replay_is_not_written_through_a_link(run, others, capsys):
    (run / "replay").symlink_to(others)
    text = the_error(main(command("replay", run)), capsys.readouterr())
    assert "replay" in text
    assert [file.name for file in others.iterdir()] == ["file"]


def test_weights_are_read_through_links(run, others):
    """As the caches of downloads have them."""
    weights = next((run / "checkpoints/step_000001/actor").glob("*.safetensors"))
    shutil.move(weights, others / "blob")
    weights.symlink_to(others / "blob")
    with pytest.raises(Started):
        main(command("eval", run))
