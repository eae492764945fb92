"""Import keys of RLinf's embodied files that belong to no component."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile, table

NAMES_OF_RAY = "rlcore names its Ray actors itself"
NOT_READ = "RLinf's embodied training does not read it"
BY_ADDRESS = "task and trial determine a start (env.*.split)"
ONE_PASS = "an evaluation plays each (task, trial) once, until its episode ends"
OFFLOAD = "if one process is actor and rollout worker, only the optimizer is offloaded"
NO_RTC = "rlcore has no real-time chunking"
CO_TRAINING = "rlcore has no supervised loss during RL"
PRECISION = "actor.model.precision decides"
OWN_WAY = "FSDP2's default is used"
LANGUAGE_SERVERS = "for servers of language models, which rlcore does not use"


def _updates(value: Any, file: RLinfFile) -> Any:
    """Return the smaller of two limits: RLinf's `max_steps` counts updates too."""
    limit = file.get("runner.max_steps", -1)
    return value if limit is None or limit < 0 else min(value, limit)


def _aggregation(_: Any, file: RLinfFile) -> str:
    """Return what RLinf's losses do whatever the key says: with a mask, each episode weighs the
    same."""
    ends_early = file.get("env.train.auto_reset") or file.get("env.train.ignore_terminations")
    return "token-mean" if ends_early else "seq-mean-token-mean"


def _cosine_steps(value: Any, file: RLinfFile) -> Any:
    """Convert updates to optimizer steps: RLinf's schedule advances once an update, rlcore's with
    each optimizer step."""
    if file.get("actor.optim.lr_scheduler", "constant") != "cosine":
        return UNSET
    chunk = file.get("actor.model.num_action_chunks", 1)
    decisions = file.get("env.train.max_steps_per_rollout_epoch", 0) // chunk
    episodes = file.get("env.train.total_num_envs", 0) * file.get("env.train.rollout_epoch", 1)
    batches = episodes * decisions // file.get("actor.global_batch_size", 1)
    steps = batches * file.get("algorithm.update_epoch", 1)
    if not steps or value < 1:
        raise ValueError("it counts updates there, optimizer steps here")
    return value * steps


RULES = table(
    ImportRule("runner.max_epochs", "runner.max_epochs", "updates", _updates),
    ImportRule("rollout.enable_offload", "rollout.enable_offload", OFFLOAD),
    ImportRule("actor.seed", "runner.seed", "the root of all randomness"),
    ImportRule("actor.enable_offload", "actor.enable_offload", OFFLOAD),
    ImportRule(
        "actor.model.precision",
        "actor.model.precision",
        "null: see the model",
        lambda value, _: UNSET if value is None else value,
    ),
    ImportRule(
        "actor.optim.weight_decay",
        "actor.optim.weight_decay",
        "RLinf's default is 0.01",
        default=0.01,
    ),
    ImportRule(
        "actor.optim.total_training_steps",
        "actor.optim.total_training_steps",
        "RLinf's schedule advances once per update, rlcore's with each optimizer step",
        _cosine_steps,
    ),
    ImportRule(
        "actor.optim.lr_warmup_steps",
        "actor.optim.lr_warmup_steps",
        "0 turns it off",
        lambda value, _: max(value, 0),
    ),
    ImportRule(
        "algorithm.normalize_advantages",
        "algorithm.normalize_advantages",
        "RLinf always normalizes, regardless of the key",
        lambda *_: True,
    ),
    ImportRule(
        "algorithm.loss_agg_func",
        "algorithm.loss_agg_func",
        "RLinf's losses ignore it: with masked steps each episode has equal weight",
        _aggregation,
        default="token-mean",
    ),
    harmless={
        "runner.resume_dir": (
            "RLinf's checkpoints can't be resumed; a path must be a run of rlcore",
            (None,),
        ),
        "runner.ckpt_path": (
            "give the policy to start from as actor.model.model_path",
            (None,),
        ),
        "runner.weight_sync_interval": ("rollout workers get new weights after each update", (1,)),
        "runner.rtc.enabled": (NO_RTC, (False,)),
        "env.*.specific_reset_id": (BY_ADDRESS, (None,)),
        "actor.training_backend": ("rlcore trains with FSDP2 only", ("fsdp",)),
        "actor.enable_sft_co_train": (CO_TRAINING, (False,)),
        "actor.optim.critic_warmup_steps": (
            "RLinf counts optimizer steps; algorithm.critic_warmup_updates counts updates",
            (0,),
        ),
        "actor.optim.min_lr_rate": ("rlcore's cosine schedule ends at 0", (None, 0, 0.0)),
        "actor.optim.num_cycles": ("rlcore's cosine schedule has half a cycle", (0.5,)),
        "actor.fsdp_config.strategy": ("both are FSDP2", ("fsdp", "fsdp2")),
        "actor.fsdp_config.amp_autocast.enabled": (PRECISION, (False,)),
        "actor.fsdp_config.grad_scaler.enabled": ("bf16 needs no gradient scaling", (False,)),
        "actor.fsdp_config.use_liger_kernel": ("rlcore has no such kernels", (False,)),
        "reward.use_reward_model": ("rewards come from the env", (False,)),
        "critic.use_critic_model": ("the critic is a head of the policy", (False,)),
    },
    dropped={
        "hydra.*": "Hydra's own settings; those of a sweep are given on the command line",
        "runner.max_steps": "RLinf counts updates, which runner.max_epochs includes; rlcore counts "
        "env steps",
        "runner.eval_policy_path": NOT_READ,
        "runner.seq_length": NOT_READ,
        "runner.max_prompt_length": NOT_READ,
        "runner.overlap_env_bootstrap": "rollout.pipeline_stage_num=2 overlaps env and policy",
        "runner.per_worker_log": "Ray keeps the output of each worker",
        "runner.per_worker_log_path": "Ray keeps the output of each worker",
        "runner.rtc.*": NO_RTC,
        "env.group_name": NAMES_OF_RAY,
        "env.enable_offload": "only env.train and env.eval are read",
        "env.*.seed": "all randomness comes from runner.seed",
        "env.*.is_eval": "env.eval is for evaluation",
        "env.*.use_fixed_reset_state_ids": BY_ADDRESS,
        "env.*.use_ordered_reset_state_ids": BY_ADDRESS,
        "env.eval.auto_reset": ONE_PASS,
        "env.eval.ignore_terminations": ONE_PASS,
        "env.eval.max_steps_per_rollout_epoch": ONE_PASS,
        "rollout.group_name": NAMES_OF_RAY,
        "rollout.generation_backend": NOT_READ,
        "rollout.backend": "policies run in the rollout worker's process",
        "rollout.recompute_logprobs": f"{NOT_READ}; rlcore has algorithm.recompute_logprobs",
        "rollout.unnorm_key": NOT_READ,
        "rollout.enforce_eager": LANGUAGE_SERVERS,
        "rollout.gpu_memory_utilization": LANGUAGE_SERVERS,
        "actor.group_name": NAMES_OF_RAY,
        "actor.sft_data_path": CO_TRAINING,
        "actor.sft_loss_weight": CO_TRAINING,
        "actor.fsdp_config.mixed_precision.param_dtype": PRECISION,
        "actor.fsdp_config.mixed_precision.buffer_dtype": PRECISION,
        "actor.fsdp_config.amp_autocast.precision": PRECISION,
        "actor.fsdp_config.offload_pin_memory": OWN_WAY,
        "actor.fsdp_config.forward_prefetch": OWN_WAY,
        "actor.fsdp_config.limit_all_gathers": OWN_WAY,
        "actor.fsdp_config.backward_prefetch": OWN_WAY,
        "actor.fsdp_config.use_orig_params": OWN_WAY,
        "actor.fsdp_config.enable_gradient_accumulation": "micro_batch_size and "
        "global_batch_size decide",
        "actor.fsdp_config.wrap_policy": "the policy defines which blocks are wrapped",
        "algorithm.kl_penalty": f"{NOT_READ}; rlcore's KL estimator is k3",
        "algorithm.kl_beta": f"{NOT_READ}; in rlcore it adds a KL to the initial weights",
        "algorithm.clip_ratio_c": f"{NOT_READ}; in rlcore it is the dual clip",
        "algorithm.ratio_clip_eps": NOT_READ,
        "algorithm.reward_coef": "env.train.reward_coef is used",
        "weight_syncer.*": "rlcore sends only trained weights",
    },
)
