"""An evaluation of several passes over the same starts, and one at another temperature."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from internals import read_note

from rlcore.cli.main import main
from rlcore.files.damaged_files import read_mapping
from rlcore.runs.tables import EpisodeResult, read_results

TOY = (
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=1"),
    "runner.logger.experiment_name=run",
)
LEARNT = ("sft.enabled=true", "sft.max_steps=150", "collect.episodes_per_task=5")
TWICE = ("algorithm.eval_rollout_epoch=2", "do_sample=true", "env.eval.trials_per_task=3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("logs")
    assert main(["train", *TOY, *LEARNT, *TWICE, f"runner.logger.log_path={logs}"]) == 0
    return logs / "run"


def by_start(rows: list[EpisodeResult]) -> dict[tuple[str, int], list[EpisodeResult]]:
    found = defaultdict(list)
    for row in rows:
        found[row.task, row.trial].append(row)
    return found


def test_each_pass_draws_its_own_and_all_are_counted(run: Path):
    rows = read_results(run / "eval" / "after.parquet")
    starts = by_start(rows)
    assert len(starts) == 4 * 3 and len(rows) == 24
    assert all(sorted(row.replica for row in passes) == [0, 1] for passes in starts.values())
    drawn = [{row.length for row in passes} for passes in starts.values()]
    assert sum(len(lengths) == 2 for lengths in drawn) > 2  # the noise is another one
    protocol = read_note(run / "eval" / "after.parquet")["protocol"]
    assert protocol["trials"]["reach-up"] == [1000, 1000, 1001, 1001, 1002, 1002]
    summary = read_mapping(run / "summary.json")
    assert summary["success_after"]["n"] == 24
    assert summary["paired_difference"] is not None


def test_the_first_pass_is_an_evaluation_of_one_pass(run: Path, tmp_path: Path):
    """Passes add episodes, and change none; the two are not compared, as their rules differ."""
    assert main(["eval", str(run), "env.eval.rollout_epoch=1",
                 f"runner.logger.log_path={tmp_path}"]) == 0  # fmt: skip
    (once,) = tmp_path.glob("*/eval/eval.parquet")
    rows = read_results(once)
    first = [row for row in read_results(run / "eval" / "after.parquet") if row.replica == 0]
    assert [(r.task, r.trial, r.episode_return, r.length) for r in rows] == [
        (r.task, r.trial, r.episode_return, r.length) for r in first
    ]
    assert {row.protocol for row in rows}.isdisjoint(row.protocol for row in first)


@pytest.mark.long
def test_passes_can_be_verified_and_replayed(run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", str(run), "--verify"]) == 0
    assert "all 24 episodes came out" in capsys.readouterr().out
    words = ("--task", "reach-up", "--trial", "1001", "--replica", "1")
    assert main(["replay", str(run), *words]) == 0
    assert "as evaluated:" in capsys.readouterr().out


@pytest.mark.long
def test_an_evaluation_at_the_documents_temperature(tmp_path: Path):
    """do_sample = True, temperature = 1.6, rollout_epoch = 2, with a policy that samples tokens."""
    words = ("env=toy", "model=openvla_tiny", "cluster.backend=local", "env.eval.trials_per_task=3",
             "env.eval.max_episode_steps=100", "rollout_epoch=2", "do_sample=True")  # fmt: skip
    seen = {}
    for temperature in (1.6, 1e-6):
        place = tmp_path / str(temperature)
        assert main(["eval", *words, f"temperature={temperature}",
                     f"runner.logger.log_path={place}",
                     "runner.logger.experiment_name=run"]) == 0  # fmt: skip
        seen[temperature] = read_results(place / "run" / "eval" / "eval.parquet")
    warm, cold = seen.values()
    assert {row.sampling for row in warm} == {"stochastic, temperature 1.6"}
    for rows, kinds in ((warm, {1, 2}), (cold, {1})):  # cold: the most likely tokens, both times
        assert {len({row.length for row in passes}) for passes in by_start(rows).values()} == kinds
