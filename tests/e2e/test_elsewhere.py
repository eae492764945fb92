"""A run resumes from any working directory and after a move; runs don't share videos."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from internals import assemble, compose, load, load_checkpoint, sft, train
from resume_cases import COMMON, REINFORCE

from rlcore.cli.main import main

FROM_A_CHECKPOINT = [*REINFORCE, "runner.max_epochs=1", "runner.logger.experiment_name=run"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    """The folder the user stands in, with a checkpoint in `logs/start/sft`."""
    monkeypatch.chdir(tmp_path)
    sft(assemble(compose([*COMMON, "runner.logger.experiment_name=start"])))
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    "keys",
    [
        ("rollout.model.model_path",),
        ("actor.model.model_path", "rollout.model.model_path"),
    ],
)
def test_relative_checkpoints(here: Path, keys: tuple[str, ...], monkeypatch, tmp_path: Path):
    train(assemble(compose([*FROM_A_CHECKPOINT, *(f"{key}=logs/start/sft" for key in keys)])))
    run = here / "logs" / "run"
    config = load(run / "config.yaml")
    assert config.rollout.model.model_path == config.actor.model.model_path == str(
        here / "logs" / "start" / "sft"
    )  # fmt: skip
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert main(["resume", str(run), "runner.max_epochs=2"]) == 0
    assert load_checkpoint(run).step == 2
    assert main(["eval", str(run)]) == 0
    assert main(["export", str(run), "policy"]) == 0


@pytest.mark.long
def test_a_moved_run_finds_what_is_in_it(here: Path):
    films = here / "logs" / "run" / "films"
    key = f"env.eval.video_cfg.video_base_dir={films}"
    train(
        assemble(
            compose([*COMMON, "runner.max_epochs=1", "runner.logger.experiment_name=run", key])
        )
    )
    moved = here / "kept" / "run"
    shutil.move(here / "logs" / "run", moved)
    there = load(moved / "config.yaml").env.eval.video_cfg.video_base_dir
    assert there == str(moved / "films")
    assert main(["resume", str(moved), "runner.max_epochs=2"]) == 0
    assert not films.exists()


@pytest.mark.long
def test_two_runs_film_into_one_folder(here: Path):
    film = [
        f"env.{side}.video_cfg.{setting}"
        for side in ("train", "eval")
        for setting in ("save_video=true", "num_episodes=1", "video_base_dir=films")
    ]
    for _ in range(2):
        train(assemble(compose([*FROM_A_CHECKPOINT, *film])))
    names = ["after.mp4", "before.mp4", "run.txt", "update_000001.mp4"]
    for run in ("run", "run-2"):
        assert sorted(path.name for path in (here / "films" / run).iterdir()) == names
        whose = (here / "films" / run / "run.txt").read_text().strip()
        assert whose == str(here / "logs" / run)
