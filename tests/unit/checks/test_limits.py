"""Numbers outside the range of their key are refused."""

from __future__ import annotations

import pytest

from rlcore.checks import limits
from rlcore.config.compose import compose
from rlcore.config.ranges import range_violations
from rlcore.config.schema import RunnerConfig
from rlcore.config.schema_tree import walk

TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.parametrize(
    ("save", "validate", "updates", "judged"),
    [
        (10, 2, 50, 5),
        (4, 2, 14, 4),  # 4, 8, 12 and the last
        (4, 2, 13, 3),
        (None, 5, 50, 10),  # null is a tenth of 50
        (1, 1, 0, 0),
    ],
)
def test_checkpoints_with_an_evaluation_are_judged(save, validate, updates, judged):
    runner = RunnerConfig(max_epochs=50, save_interval=save, val_check_interval=validate)
    assert limits.judged_checkpoints(runner, updates) == judged


@pytest.mark.quick(14)
@pytest.mark.parametrize(
    "override",
    [
        "runner.seed=-1",
        "runner.max_epochs=0",
        "env.train.total_num_envs=0",
        "algorithm.gamma=1.5",
        "collect.speed=0",
        "sft.val_fraction=1",
        "algorithm.clip_ratio_high=1e308",
        "rollout.forward_batch=4294967297",
        "algorithm.entropy_bonus=-1e7",
        "rollout.forward_batch=0",
        "cluster.torch_threads=0",
        "env.train.num_processes=-1",
        "env.eval.num_processes=-1",
        "collect.action_noise=-0.1",
        "actor.optim.lr_warmup_steps=-1",
        "actor.optim.lr=0",
        "actor.optim.lr=nan",
        "actor.optim.value_lr=-1e-4",
        "sft.lr=0",
        "actor.optim.clip_grad=0",
        "actor.optim.adam_eps=0",
        "actor.optim.adam_beta1=1",
        "actor.optim.adam_beta2=-0.1",
        "cluster.timeouts.env=0",
        "cluster.timeouts.stop=-1",
        "env.eval.video_cfg.fps=0",
        "env.train.video_cfg.num_episodes=0",
    ],
)
def test_numbers_out_of_range_are_refused(registry, snapshot, override):
    video = "env.train.video_cfg.save_video=true"
    config = compose([*TOY, video, override], registry=registry)
    (problem,) = [*range_violations(config), *limits.videos(config)]
    assert problem.startswith(override.partition("=")[0])
    assert problem == snapshot  # with the bound and the number
    # what else is wrong is looked for with the defaults of the keys that problems begin with
    assert problem.partition(" ")[0] in {key.path for key in walk(config)}
