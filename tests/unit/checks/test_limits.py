"""Numbers outside the range of their key are refused, with the number in the sentence."""

from __future__ import annotations

import pytest

from rlcore.checks import limits
from rlcore.config.compose import compose
from rlcore.config.ranges import range_violations
from rlcore.config.schema_tree import walk

TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.quick(14)
@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["runner.seed=-1"], "runner.seed must be at least 0, got -1"),
        (["runner.max_epochs=0"], "runner.max_epochs must be -1 (off) or at least 1, got 0"),
        (["env.train.total_num_envs=0"], "env.train.total_num_envs must be at least 1, got 0"),
        (["algorithm.gamma=1.5"], "algorithm.gamma must be in (0, 1], got 1.5"),
        (["collect.speed=0"], "collect.speed must be in (0, 1], got 0.0"),
        (["sft.val_fraction=1"], "sft.val_fraction must be in [0, 1), got 1.0"),
        (["algorithm.clip_ratio_high=1e308"],
         "algorithm.clip_ratio_high must be at most 1000000, got 1e+308"),
        (["rollout.forward_batch=4294967297"],
         "forward_batch must be at most 65536, got 4294967297"),
        (["algorithm.entropy_bonus=-1e7"], 
         "entropy_bonus must be at least -1000000, got -10000000.0"),
        (["rollout.forward_batch=0"], "rollout.forward_batch must be at least 1, got 0"),
        (["cluster.torch_threads=0"], "cluster.torch_threads must be at least 1, got 0"),
        (["env.train.num_processes=-1"], "env.train.num_processes must be at least 0, got -1"),
        (["env.eval.num_processes=-1"], "env.eval.num_processes must be at least 0, got -1"),
        (["collect.action_noise=-0.1"], "collect.action_noise must be at least 0, got -0.1"),
        (["actor.optim.lr_warmup_steps=-1"], "actor.optim.lr_warmup_steps must be at least 0"),
        (["actor.optim.lr=0"], "actor.optim.lr must be more than 0, got 0.0"),
        (["actor.optim.lr=nan"], "actor.optim.lr must be more than 0, got nan"),
        (["actor.optim.value_lr=-1e-4"], "actor.optim.value_lr must be more than 0, got -0.0001"),
        (["sft.lr=0"], "sft.lr must be more than 0, got 0.0"),
        (["actor.optim.clip_grad=0"], "actor.optim.clip_grad must be more than 0, got 0.0"),
        (["actor.optim.adam_eps=0"], "actor.optim.adam_eps must be more than 0, got 0.0"),
        (["actor.optim.adam_beta1=1"], "actor.optim.adam_beta1 must be in [0, 1), got 1.0"),
        (["actor.optim.adam_beta2=-0.1"], "actor.optim.adam_beta2 must be in [0, 1), got -0.1"),
        (["cluster.timeouts.env=0"], "cluster.timeouts.env must be more than 0, got 0.0"),
        (["cluster.timeouts.stop=-1"], "cluster.timeouts.stop must be more than 0, got -1.0"),
        (["env.eval.video_cfg.fps=0"], "env.eval.video_cfg.fps must be at least 1, got 0"),
        (["env.train.video_cfg.save_video=true", "env.train.video_cfg.num_episodes=0"],
         "env.train.video_cfg.num_episodes must be at least 1 with save_video, got 0"),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(registry, overrides, sentence):
    config = compose([*TOY, *overrides], registry=registry)
    said = [*range_violations(config), *limits.videos(config)]
    assert any(sentence in each for each in said)
    # what else is wrong is looked for with the defaults of the keys that these begin with
    assert {each.partition(" ")[0] for each in said} <= {one.path for one in walk(config)}
