"""The time left of a run counts the evaluations that follow, by those that were like them."""

from rlcore.config.schema import RunnerConfig
from rlcore.training.train import remaining_evaluation_seconds

RUNNER = RunnerConfig(max_epochs=10, val_check_interval=3)


def test_evaluations_on_other_starts_do_not_count():
    """After update 4 those of 6 and 9 and the last follow: 3 times the mean of 2 and 4 seconds."""
    others = {"eval_plateau/steps_000200": 90.0, "eval_forgetting/before": 50.0}
    others |= {"eval_sampling/before": 7.0, "rollout": 100.0}
    like = {"eval_before": 2.0, "eval_validation/step_000003": 4.0}
    assert remaining_evaluation_seconds(RUNNER, {**others, **like}, 4) == 9.0
    assert remaining_evaluation_seconds(RUNNER, others, 4) == 0.0
