"""The published table of all suites: its columns, its 6,500 episodes, and every pair once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from internals import compose, evaluation_columns
from libero_cases import needs_assets
from rlcore_env_libero.protocol import ALL_SUITES
from rlcore_env_libero.spec import env_spec
from rlcore_env_libero.suites import STEPS, SUITES

from rlcore.cli.main import main
from rlcore.runs.tables import read_results
from rlcore.training.protocol.rows import rows_of


def test_columns_are_those_of_published_tables() -> None:
    assert list(ALL_SUITES.groups) == ["Object", "Spatial", "Goal", "Long", "90"]
    assert dict(ALL_SUITES.totals) == {"130": tuple(ALL_SUITES.groups)}


def test_rows_visit_each_of_6500_pairs_once_within_the_published_time() -> None:
    config = compose(["env=libero_130", "model=toy", "algorithm=ppo"], require=("env",))
    pairs: Counter[tuple[str, int]] = Counter()
    for suite, row in rows_of(config, protocol="libero_130").items():
        spec = env_spec(row.env.eval)
        assert spec.max_episode_steps == STEPS[suite]
        for column in evaluation_columns(spec, row.env.eval):
            for episode in column.episodes:
                pairs[spec.tasks[episode.task], episode.trial] += 1
    assert len(pairs) == 6500 and set(pairs.values()) == {1}


def test_other_time_limits_and_starts_give_a_warning_and_other_suites_are_refused(capsys) -> None:
    words = ["eval", "env=libero_object", "model=toy", "algorithm=ppo", "protocol=libero_130"]
    words += ["env.train.stand_ins=true", "env.eval.stand_ins=true", "--dry-run"]
    held_out = ["env.eval.starts=split", "env.eval.split=heldout", "env.eval.trials_per_task=10"]
    assert main([*words, *held_out, "env.eval.max_episode_steps=512"]) == 0
    warning = capsys.readouterr().err
    for word in (*held_out, "env.eval.max_episode_steps=512", "protocol=libero_130"):
        assert word in warning
    assert main([*words, "env.eval.suite=libero_90"]) == 2
    assert "env.eval.suite" in capsys.readouterr().err
    assert main([*words, "env.eval.tasks=[turn_on_the_stove]"]) == 2
    assert "env.eval.tasks" in capsys.readouterr().err


@needs_assets
@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_every_suite_is_played_and_the_table_has_its_caveats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One start of each of the 130 tasks, four steps, by a policy that knows nothing."""
    words = ["env=libero_object", "model=toy", "algorithm=ppo", "cluster.backend=local"]
    for side in ("train", "eval"):
        words += [f"env.{side}.image_size=32", f"env.{side}.fast_render=true"]
    words += ["env.eval.trials_per_task=1", "env.eval.total_num_envs=4", "env.eval.settle_steps=0"]
    words += ["env.eval.simulator_timeout=1800", "cluster.timeouts.env=2000"]
    words += [
        "env.eval.max_episode_steps=4",
        f"runner.logger.log_path={tmp_path}",
        "runner.logger.experiment_name=run",
    ]
    assert main(["eval", *words, "protocol=libero_130"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    table = json.loads((tmp_path / "run/eval/libero_130.json").read_text())
    rows = {row["label"]: row for row in table["rows"]}
    won = 0
    for column, suites in ALL_SUITES.groups.items():
        (suite,) = suites
        results = read_results(tmp_path / f"run/eval/libero_130/{suite}.parquet")
        played = Counter((result.task, result.trial) for result in results)
        assert played == {(task, 0): 1 for task in SUITES[suite]}
        assert {result.length for result in results if not result.success} <= {4}
        successes = sum(result.success for result in results)
        for label in (suite, column):
            count = rows[label]["n"]
            assert (count, rows[label]["rate"] * count) == (len(results), successes)
            assert f" {label} " in printed
        won += successes
    assert (rows["130"]["n"], rows["130"]["rate"] * 130) == (130, pytest.approx(won))
    changed = "env.eval.max_episode_steps=4, env.eval.trials_per_task=1"
    assert changed in printed
    caveats = {row["caveat"] for row in table["evaluated"].values()}
    assert len(caveats) <= 2  # libero_object's starts are those of training, too
    assert all(caveat.startswith(changed) for caveat in caveats)
