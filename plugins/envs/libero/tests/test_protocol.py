"""The published table of all suites: its columns, its 6,500 episodes, and every pair once."""

from __future__ import annotations

from collections import Counter

from rlcore_env_libero.protocol import ALL_SUITES
from rlcore_env_libero.spec import env_spec
from rlcore_env_libero.suites import STEPS

from rlcore.config.compose import compose
from rlcore.loop.rows import rows_of
from rlcore.rollout.schedule import evaluation_columns


def test_columns_are_those_of_published_tables() -> None:
    assert list(ALL_SUITES.groups) == ["Object", "Spatial", "Goal", "Long", "90"]
    assert dict(ALL_SUITES.totals) == {"130": tuple(ALL_SUITES.groups)}


def test_rows_visit_each_of_6500_pairs_once_within_the_published_time() -> None:
    config = compose(
        ["env=libero_130", "model=toy", "algorithm=ppo", "env.eval.trials_per_task=50"],
        require=("env",),
    )
    pairs: Counter[tuple[str, int]] = Counter()
    for suite, row in rows_of(config, protocol="libero_130").items():
        spec = env_spec(row.env.eval)
        assert spec.max_episode_steps == STEPS[suite]
        for column in evaluation_columns(spec, row.env.eval):
            for episode in column.episodes:
                pairs[spec.tasks[episode.task], episode.trial] += 1
    assert len(pairs) == 6500 and set(pairs.values()) == {1}
