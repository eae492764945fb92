"""Translate the keys of RLinf's embodied files that belong to no component.

A component translates its own keys (`imports` of its spec). The page docs/coming-from-rlinf.md is
checked against these rules.
"""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

NAMES_OF_RAY = "a name inside Ray, which nobody needs"
NOT_READ = "embodied training does not read it there"
BY_ADDRESS = "which starts are played is fixed by task and trial (env.*.split)"
ONE_PASS = "an evaluation plays each (task, trial) once, until its episode ends"
OFFLOAD = "not where one process acts and learns: it keeps the weights, the optimizer leaves"
NO_RTC = "there is no real-time chunking"
CO_TRAINING = "there is no supervised loss beside RL"
PRECISION, OWN_WAY = "actor.model.precision decides", "FSDP2's own way is taken"


def _updates(value: Any, foreign: Foreign) -> Any:
    """Their `max_steps` counts updates too; the smaller one ends training."""
    limit = foreign.get("runner.max_steps", -1)
    return value if limit is None or limit < 0 else min(value, limit)


def _aggregation(_: Any, foreign: Foreign) -> str:
    """What their losses do whatever the key says: with a mask each episode weighs the same."""
    train = "env.train"
    masked = not foreign.get(f"{train}.auto_reset") and not foreign.get(
        f"{train}.ignore_terminations"
    )
    return "seq-mean-token-mean" if masked else "token-mean"


def _cosine_steps(value: Any, foreign: Foreign) -> Any:
    """Their schedule moves once an update, ours with each optimizer step."""
    if foreign.get("actor.optim.lr_scheduler", "constant") != "cosine":
        return UNSAID
    at = foreign.get
    chunk = at("actor.model.num_action_chunks", 1)
    decisions = at("env.train.max_steps_per_rollout_epoch", 0) // chunk
    samples = at("env.train.total_num_envs", 0) * at("env.train.rollout_epoch", 1) * decisions
    steps = samples // at("actor.global_batch_size", 1) * at("algorithm.update_epoch", 1)
    if not steps or value < 1:
        raise ValueError("it counts updates there, optimizer steps here")
    return value * steps


RULES = (
    # cluster, runner
    ImportRule(
        "hydra.*", None, "Hydra's own settings; those of a sweep are given on the command line"
    ),
    ImportRule("runner.max_epochs", "runner.max_epochs", "updates", _updates),
    ImportRule(
        "runner.max_steps",
        None,
        "it counts updates there and is folded into runner.max_epochs; here it counts env steps",
    ),
    ImportRule(
        "runner.resume_dir",
        None,
        "their checkpoints can't be resumed; a path means a run of ours",
        only=(None,),
    ),
    ImportRule(
        "runner.ckpt_path",
        None,
        "give the policy to start from as actor.model.model_path",
        only=(None,),
    ),
    ImportRule("runner.eval_policy_path", None, NOT_READ),
    ImportRule("runner.seq_length", None, NOT_READ),
    ImportRule("runner.max_prompt_length", None, NOT_READ),
    ImportRule(
        "runner.overlap_env_bootstrap",
        None,
        "rollout.pipeline_stage_num=2 overlaps env and policy",
    ),
    ImportRule("runner.per_worker_log", None, "Ray keeps the output of each worker"),
    ImportRule("runner.per_worker_log_path", None, "Ray keeps the output of each worker"),
    ImportRule(
        "runner.weight_sync_interval",
        None,
        "the rollout gets new weights after each update",
        only=(1,),
    ),
    ImportRule("runner.rtc.enabled", None, NO_RTC, only=(False,)),
    ImportRule("runner.rtc.*", None, NO_RTC),
    # env
    ImportRule("env.group_name", None, NAMES_OF_RAY),
    ImportRule("env.enable_offload", None, "only env.train and env.eval are asked, here and there"),
    ImportRule("env.*.seed", None, "all randomness comes from runner.seed"),
    ImportRule("env.*.is_eval", None, "env.eval is for evaluation"),
    ImportRule("env.*.use_fixed_reset_state_ids", None, BY_ADDRESS),
    ImportRule("env.*.use_ordered_reset_state_ids", None, BY_ADDRESS),
    ImportRule("env.*.specific_reset_id", None, BY_ADDRESS, only=(None,)),
    ImportRule("env.eval.auto_reset", None, ONE_PASS),
    ImportRule("env.eval.ignore_terminations", None, ONE_PASS),
    ImportRule("env.eval.max_steps_per_rollout_epoch", None, ONE_PASS),
    # rollout
    ImportRule("rollout.group_name", None, NAMES_OF_RAY),
    ImportRule("rollout.generation_backend", None, NOT_READ),
    ImportRule("rollout.backend", None, "policies act in the rollout's own process"),
    ImportRule("rollout.enable_offload", "rollout.enable_offload", OFFLOAD),
    ImportRule(
        "rollout.recompute_logprobs", None, NOT_READ + "; algorithm.recompute_logprobs does it here"
    ),
    ImportRule("rollout.unnorm_key", None, NOT_READ),
    ImportRule("rollout.enforce_eager", None, "of servers for language models; none is used"),
    ImportRule(
        "rollout.gpu_memory_utilization", None, "of servers for language models; none is used"
    ),
    # actor
    ImportRule("actor.group_name", None, NAMES_OF_RAY),
    ImportRule("actor.training_backend", None, "one way to train", only=("fsdp",)),
    ImportRule("actor.enable_sft_co_train", None, CO_TRAINING, only=(False,)),
    ImportRule("actor.sft_data_path", None, CO_TRAINING),
    ImportRule("actor.sft_loss_weight", None, CO_TRAINING),
    ImportRule("actor.seed", "runner.seed", "the root of all randomness"),
    ImportRule("actor.enable_offload", "actor.enable_offload", OFFLOAD),
    ImportRule(
        "actor.model.precision",
        "actor.model.precision",
        "null: see the model",
        lambda value, _: UNSAID if value is None else value,
    ),
    ImportRule(
        "actor.optim.weight_decay",
        "actor.optim.weight_decay",
        "0.01 unless they say otherwise",
        silent=0.01,
    ),
    ImportRule(
        "actor.optim.critic_warmup_steps",
        None,
        "it counts optimizer steps there; algorithm.critic_warmup_updates counts updates",
        only=(0,),
    ),
    ImportRule(
        "actor.optim.total_training_steps",
        "actor.optim.total_training_steps",
        "their schedule moves once an update, ours with each optimizer step",
        _cosine_steps,
    ),
    ImportRule(
        "actor.optim.lr_warmup_steps",
        "actor.optim.lr_warmup_steps",
        "off is 0",
        lambda value, _: max(value, 0),
    ),
    ImportRule("actor.optim.min_lr_rate", None, "the cosine ends at 0 here", only=(None, 0, 0.0)),
    ImportRule("actor.optim.num_cycles", None, "the cosine has half a cycle here", only=(0.5,)),
    *(
        ImportRule(f"actor.fsdp_config.{name}", None, why, only=only)
        for name, why, only in (
            ("strategy", "both are FSDP2", ("fsdp", "fsdp2")),
            ("mixed_precision.param_dtype", PRECISION, None),
            ("mixed_precision.buffer_dtype", PRECISION, None),
            ("amp_autocast.enabled", PRECISION, (False,)),
            ("amp_autocast.precision", PRECISION, None),
            ("grad_scaler.enabled", "bf16 needs none", (False,)),
            ("use_liger_kernel", "there are no such kernels", (False,)),
            ("offload_pin_memory", OWN_WAY, None),
            ("forward_prefetch", OWN_WAY, None),
            ("limit_all_gathers", OWN_WAY, None),
            ("backward_prefetch", OWN_WAY, None),
            ("use_orig_params", OWN_WAY, None),
            (
                "enable_gradient_accumulation",
                "micro_batch_size and global_batch_size decide",
                None,
            ),
            ("wrap_policy", "the policy names its blocks", None),
        )
    ),
    # algorithm
    ImportRule(
        "algorithm.normalize_advantages",
        "algorithm.normalize_advantages",
        "always on there, whatever it says",
        lambda value, _: True,
    ),
    ImportRule("algorithm.kl_penalty", None, NOT_READ + "; the KL here is k3"),
    ImportRule("algorithm.kl_beta", None, NOT_READ + "; here it adds a KL to the starting weights"),
    ImportRule("algorithm.clip_ratio_c", None, NOT_READ + "; here it is the dual clip"),
    ImportRule("algorithm.ratio_clip_eps", None, NOT_READ),
    ImportRule("algorithm.reward_coef", None, "env.train.reward_coef is what counts"),
    ImportRule(
        "algorithm.loss_agg_func",
        "algorithm.loss_agg_func",
        "their losses don't read it: with masked steps each episode weighs the same",
        _aggregation,
        silent="token-mean",
    ),
    # the rest
    ImportRule("weight_syncer.*", None, "the weights travel in one way, and only what is trained"),
    ImportRule("reward.use_reward_model", None, "rewards come from the env", only=(False,)),
    ImportRule(
        "critic.use_critic_model", None, "the critic is a head of the policy", only=(False,)
    ),
)
