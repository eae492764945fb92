"""What a reader of RLinf's documents types, as printed there.

The five launch lines, without another word: in a clone, of whose recipes the reader has edited the
file, with checkpoints in the published layouts and small numbers (`published.py`). Each with each
thing missing: one error names it, and the command that brings it. And what else is printed:
blocks of YAML, the install line, the evaluation, TensorBoard.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from internals import load_checkpoint, read_metrics, session
from libero_cases import assets_are_here
from published import DOCUMENTS, SENTENCES, Document, both, clone, edit, in_cache, robotwin
from refused import Started, refuse, the_error
from rlcore_simulation.known_interpreters import note
from test_metaworld_pi0 import PUBLISHED_METRICS

from rlcore.cli.main import main
from rlcore.placement import inventory
from rlcore.plugins.registry import load_plugins
from rlcore.runs.tables import read_results

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
TINY = [
    *("model=pi0_tiny", "cluster.backend=local", "cluster.component_placement={env: 0, "
      "rollout: 0, actor: 0}", "env.train.sentences=own"),
    *(f"env.{side}.{key}" for side in ("train", "eval")
      for key in ("tasks=[reach-v3]", "total_num_envs=2", "max_episode_steps=10",
                  "image_size=64", "num_processes=1")),
    *("env.train.rollout_epoch=1", "env.eval.trials_per_task=2", "actor.model.openpi.num_steps=2"),
]  # fmt: skip
# Blocks of the documents, line by line; only names of models and envs are exchanged.
AS_PRINTED = """# @package _global_
defaults:
  - env/train: metaworld_50
  - env/eval: metaworld_50
  - model/pi0_tiny@actor.model
  - override /algorithm: ppo
runner:
  task_type: embodied
  logger:
    log_path: "../results"
    project_name: rlinf
    experiment_name: "test_metaworld"
    logger_backends: ["tensorboard"]  # wandb, swanlab
  max_epochs: 1000
  max_steps: -1
  only_eval: True
cluster:
  num_nodes: 1
  component_placement:
    env,rollout,actor: all
rollout:
  pipeline_stage_num: 2
env:
  eval:
    video_cfg:
      save_video: True
      info_on_video: True
      video_base_dir: ${runner.logger.log_path}/video/eval
fsdp:
  gradient_checkpointing: False
algorithm:
  reward_type: chunk_level
  logprob_type: chunk_level
  adv_type: gae
  loss_type: actor_critic
"""


def typed(line: str, *more: str, cwd: Path = ROOT, **variables: object) -> str:
    """What a line of a shell prints, with further words behind it."""
    exported = {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        [*line.split(), *more], cwd=cwd, env=os.environ | {"PATH": PATH} | exported,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1700,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that the launch command leaves behind."""
    logs = tmp_path_factory.mktemp("work") / "logs"
    typed(
        "bash examples/embodiment/run_embodiment.sh metaworld_50_ppo_openpi",
        *TINY, "runner.max_epochs=1", "actor.micro_batch_size=4", "actor.global_batch_size=4",
        f"runner.logger.log_path={logs}",
    )  # fmt: skip
    return logs / "metaworld_50_ppo_openpi"


def test_the_install_line():
    output = typed(
        "bash requirements/install.sh embodied --model openpi --env metaworld", "--dry-run"
    )
    assert "-e .[metaworld,openpi]" in output and "source .venv/bin/activate" in output


@pytest.mark.long
def test_training_begins_with_the_recipes_name(trained):
    names = {name for line in read_metrics(trained / "metrics.jsonl") for name in line}
    assert names >= PUBLISHED_METRICS
    assert load_checkpoint(trained).step == 1


@pytest.mark.long
def test_evaluation_takes_the_recipes_file(trained, tmp_path):
    output = typed(
        "bash examples/embodiment/eval_embodiment.sh "
        "examples/embodiment/config/metaworld_50_ppo_openpi.yaml",
        *TINY, f"actor.model.model_path={load_checkpoint(trained).policy_path}",
        f"runner.logger.log_path={tmp_path}",
    )  # fmt: skip
    assert "all episodes" in output
    (rows,) = tmp_path.glob("*/eval/eval.parquet")
    assert len(read_results(rows)) == 2


@pytest.mark.long
def test_a_recipe_of_printed_blocks_is_only_evaluated(tmp_path):
    own = tmp_path / "work" / "experiment" / "test_metaworld.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(AS_PRINTED)
    output = typed(
        f"bash {ROOT}/examples/embodiment/eval_embodiment.sh experiment/test_metaworld.yaml",
        *TINY[1:], "env.eval.total_num_envs=4", cwd=tmp_path / "work",
    )  # fmt: skip
    run = tmp_path / "results" / "test_metaworld"
    assert "results/test_metaworld" in output
    assert len(read_results(run / "eval" / "eval.parquet")) == 2
    assert not list((run / "checkpoints").glob("step_*"))
    assert list((tmp_path / "results" / "video" / "eval").rglob("*.mp4"))


@contextmanager
def tensorboard(logs: Path) -> Iterator[str]:
    """Its address, while the printed line runs; port 0 lets it take one that is free here."""
    line = f"tensorboard --logdir ./{logs.name} --port 0"
    text = logs.parent / "tensorboard.txt"
    with text.open("w") as file:
        running = subprocess.Popen(
            line.split(), cwd=logs.parent, env=os.environ | {"PATH": PATH},
            stdout=file, stderr=file,
        )  # fmt: skip
    try:
        while not (found := re.search(r"http://\S+", text.read_text())):
            assert running.poll() is None, text.read_text()
            time.sleep(0.1)
        yield found[0].rstrip("/")
    finally:
        running.kill()
        running.wait()


@pytest.mark.long
def test_tensorboard_shows_both_families_of_names(trained):
    with tensorboard(trained.parent) as address:
        wanted, shown = f"{address}/data/plugin/scalars/tags", {}
        # no proxy, whatever the variables name, leads to this machine
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not shown:  # it starts, and then reads
            with contextlib.suppress(OSError), direct.open(wanted, timeout=30) as answer:
                shown = json.load(answer)
            time.sleep(0.1)
    (tags,) = shown.values()
    assert set(tags) >= PUBLISHED_METRICS


# -- the five launch lines ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint of a document, each made once."""
    made: dict[object, Path] = {}

    def of(name: str) -> Path:
        make = DOCUMENTS[name].make
        if make not in made:
            made[make] = make(tmp_path_factory.mktemp("hub") / "checkpoint")
        return made[make]

    return of


@pytest.fixture
def prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[str], None]:
    """`prepared(NAME)`: variables and environments that a document asks for besides."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def prepare(name: str) -> None:
        if name == "LIBERO" and not assets_are_here():
            pytest.skip("LIBERO or its assets are not installed (rlcore install-libero)")
        if name == "RoboTwin":
            component = load_plugins().get("env", "robotwin").spec
            venv = request.getfixturevalue("other_venv")(
                "robotwin", *component.requirements, requires_python=component.requires_python
            )
            note(venv)
            monkeypatch.setenv("ROBOTWIN_PATH", str(robotwin(tmp_path / "RoboTwin")))
            monkeypatch.setenv("ROBOT_PLATFORM", "ALOHA")
            monkeypatch.delenv("ASSETS_PATH", raising=False)

    return prepare


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_printed_line_trains(
    name: str,
    checkpoint: Callable[[str], Path],
    prepared: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """The English documents name a folder, the Chinese one the hub's cache."""
    prepared(name)
    document, root = DOCUMENTS[name], clone(tmp_path / "RLinf")
    if name == "MetaWorld (Chinese)":
        in_cache(document.checkpoint, checkpoint(name))
        place = document.checkpoint
    else:
        place = str(shutil.copytree(checkpoint(name), root / document.folder))
    document.written(root / f"examples/embodiment/config/{document.recipe}.yaml", place)
    output = typed(document.line, cwd=root, PYTHONPATH=root)
    assert "update 1/1" in output and "success after" in output
    run = root / "logs" / document.recipe
    (step,) = {
        line["step"] for line in read_metrics(run / "metrics.jsonl") if "time/update" in line
    }
    assert step == 1
    assert load_checkpoint(run).step == 1
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert document.folder in config["actor"]["model"]["model_path"]
    if name.startswith("MetaWorld"):  # those of the checkpoint's folder
        assert config["env"]["train"]["sentences"]["reach-v3"].startswith("Carry out task ")


# -- each thing missing ---------------------------------------------------------------------------


@dataclass
class Situation:
    """What a reader has when the line is typed; each is to lack one thing."""

    document: Document
    folder: Path  # of the checkpoint
    monkeypatch: pytest.MonkeyPatch
    changes: dict[str, object]

    def checkpoint(self) -> tuple[str, ...]:
        """It is named as on the hub, and was not downloaded."""
        name = self.document.checkpoint
        self.changes |= {f"{who}.model.model_path": name for who in ("actor", "rollout")}
        return "actor.model.model_path", f"hf download {name}"

    def tokenizer(self) -> tuple[str, ...]:
        (file,) = [*self.folder.glob("*tokenizer.model"), *self.folder.glob("tokenizer.json")]
        file.unlink()
        return f"{self.folder} has no", file.name

    def sentences(self) -> tuple[str, ...]:
        (self.folder / SENTENCES).unlink()
        self.monkeypatch.setattr("rlcore.config.instructions.find_spec", lambda name: None)
        places = "the checkpoint", "beside it", "lerobot"
        return "env.train.sentences", SENTENCES, *places, "env.train.sentences=own", "pip install"

    def assets(self) -> tuple[str, ...]:
        nowhere = self.folder.parent / "nowhere"
        if self.document.recipe.startswith("libero"):
            from rlcore_env_libero import assets

            self.monkeypatch.setenv("HOME", str(nowhere))
            self.monkeypatch.setattr(assets, "has_scenes", lambda folder: False)
            return "LIBERO's assets", "rlcore install-libero", "stand_ins=true"
        if self.document.recipe.startswith("maniskill"):
            self.monkeypatch.setenv("MANISKILL_ASSET_DIR", str(nowhere))
            self.changes |= both(stand_ins=False)
            return str(nowhere), "hf download --repo-type dataset RLinf/", "stand_ins=true"
        repository = Path(os.environ["ROBOTWIN_PATH"])
        shutil.rmtree(repository / "assets/objects/021_cup")
        return "021_cup", f"cd {repository} && bash script/_download_assets.sh", "stand_ins=true"

    def interpreter(self) -> tuple[str, ...]:
        self.monkeypatch.setenv("XDG_DATA_HOME", str(self.folder.parent / "nowhere"))
        return "simulators", "rlcore venv create robotwin"

    def accelerator(self) -> tuple[str, ...]:
        """The map as printed, on a machine without a GPU."""
        placed = {"env": "0-3", "rollout": "4-7", "actor": "0-7"}
        self.changes["cluster.component_placement"] = placed
        return "cluster.component_placement.env", "no GPU", "'cluster.component_placement={env,"

    def memory(self) -> tuple[str, ...]:
        """Of a machine that has 1 MiB."""
        self.monkeypatch.setattr(inventory, "local_memory", lambda: 2**20)
        return "main memory", "of 1.00 MiB", "rlcore plan"


LACKING = [
    *((name, thing) for name in DOCUMENTS
      for thing in ("checkpoint", "tokenizer", "accelerator", "memory")),
    *((name, "sentences") for name in DOCUMENTS if name.startswith("MetaWorld")),
    *((name, "assets") for name in ("LIBERO", "ManiSkill", "RoboTwin")),
    ("RoboTwin", "interpreter"),
]  # fmt: skip


@pytest.fixture
def types(
    checkpoint: Callable[[str], Path],
    prepared: Callable[[str], None],
    elsewhere: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[str, ...]]:
    """`types(NAME, THING)`: train by a file of the reader's own, where a run would get no further
    than its folder; returns what the error has to say."""
    monkeypatch.setattr(session.RunFolder, "create", refuse)
    monkeypatch.setattr(session, "make_group", refuse)

    def type_line(name: str, thing: str = "") -> tuple[int, tuple[str, ...]]:
        prepared(name)
        document = DOCUMENTS[name]
        folder = shutil.copytree(checkpoint(name), tmp_path / "published" / document.folder)
        file = elsewhere / "experiment" / f"{document.recipe}.yaml"
        file.parent.mkdir()
        shutil.copy(ROOT / "configs/experiment" / file.name, file)
        document.written(file, str(folder))
        situation = Situation(document, folder, monkeypatch, {})
        names = getattr(situation, thing)() if thing else ()
        edit(file, situation.changes)
        return main(["train", f"experiment/{file.name}"]), names

    return type_line


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 2 == 0 else [pytest.mark.long])
        for number, name in enumerate(DOCUMENTS)
    ],
)
def test_with_all_that_it_takes_a_line_starts(name: str, types) -> None:
    """Otherwise what is missing would show nothing."""
    with pytest.raises(Started):
        types(name)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("name", "thing"),
    [
        pytest.param(name, thing, marks=[] if number % 3 == 0 else [pytest.mark.long])
        for number, (name, thing) in enumerate(LACKING)
    ],
)
def test_a_missing_thing_is_named_with_what_brings_it(
    name: str, thing: str, types, capsys: pytest.CaptureFixture[str]
) -> None:
    code, named = types(name, thing)
    text = the_error(code, capsys.readouterr())
    assert "things keep this run" not in text, text
    missing = [words for words in named if words not in text]
    assert not missing, text
