"""A checkout in the form of RLinf's: groups, and recipes on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

VIDEO = {"save_video": True, "info_on_video": True,
         "video_base_dir": "${runner.logger.log_path}/video/train"}  # fmt: skip
ENV = {
    "total_num_envs": None, "auto_reset": False, "ignore_terminations": False,
    "max_steps_per_rollout_epoch": 100, "max_episode_steps": 100, "use_rel_reward": True,
    "seed": 0, "group_size": 1, "use_fixed_reset_state_ids": False, "video_cfg": VIDEO,
}  # fmt: skip
METAWORLD = {
    **ENV, "env_type": "metaworld", "reward_coef": 1.0, "is_eval": False,
    "init_params": {"camera_heights": 480, "camera_widths": 480},
}  # fmt: skip
MANISKILL = {
    **ENV, "env_type": "maniskill", "max_steps_per_rollout_epoch": 80, "max_episode_steps": 80,
    "init_params": {
        "id": "PutOnPlateInScene25Main-v3", "num_envs": None, "obs_mode": "rgb+segmentation",
        "control_mode": "None", "sim_backend": "gpu", "render_mode": "all", "obj_set": "train",
        "sim_config": {"sim_freq": 500, "control_freq": 5},
        "max_episode_steps": "${..max_episode_steps}",
        "sensor_configs": {"shader_pack": "default"},
    },
}  # fmt: skip
PI = {
    "model_type": "openpi", "model_path": "/path/to/model", "precision": None,
    "num_action_chunks": 10, "action_dim": 7, "is_lora": False, "lora_rank": 32,
    "use_proprio": True, "num_steps": 4, "add_value_head": False,
    "openpi": {
        "config_name": "pi0_libero", "num_images_in_input": 2, "noise_level": 0.5,
        "action_chunk": "${..num_action_chunks}", "num_steps": "${..num_steps}",
        "train_expert_only": True, "action_env_dim": "${..action_dim}",
        "noise_method": "flow_sde", "add_value_head": "${..add_value_head}",
        "detach_critic_input": None, "use_dsrl": False, "dsrl_state_dim": 8,
    },
}  # fmt: skip
TOKENS = {
    "model_path": "/path/to/model", "precision": "bf16", "use_proprio": False,
    "center_crop": True, "hidden_size": 4096, "vocab_size": 32000, "add_value_head": False,
    "image_size": [224, 224], "is_lora": False, "lora_rank": 32, "trust_remote_code": True,
    "low_cpu_mem_usage": True, "attn_implementation": "flash_attention_2",
    "policy_setup": "widowx_bridge",
}  # fmt: skip
GROUPS: dict[str, dict[str, Any]] = {
    "env/libero_10": {
        **METAWORLD, "env_type": "libero", "task_suite_name": "libero_10", "reward_coef": 5.0,
        "max_steps_per_rollout_epoch": 512, "max_episode_steps": 512, "reset_gripper_open": True,
        "init_params": {"camera_heights": 256, "camera_widths": 256},
    },
    "env/metaworld_50": {**METAWORLD, "task_suite_name": "metaworld_50"},
    "env/metaworld_45_ind": {**METAWORLD, "task_suite_name": "metaworld_45_ind"},
    "env/metaworld_45_ood": {**METAWORLD, "task_suite_name": "metaworld_45_ood"},
    "env/maniskill_put_on_plate_in_scene_25_main": MANISKILL,
    "env/maniskill_ood_template": {**MANISKILL, "policy_setup": "widowx_bridge"},
    "model/pi0": PI,
    "model/openvla": {**TOKENS, "model_type": "openvla", "action_dim": 7, "num_action_chunks": 1,
                      "unnorm_key": "bridge_orig", "max_prompt_length": 30},
    "model/openvla_oft": {**TOKENS, "model_type": "openvla_oft", "implement_version": "rlinf",
                          "value_type": "action_level", "action_dim": 7, "num_action_chunks": 8,
                          "use_film": False, "num_images_in_input": 1, "max_prompt_length": 50,
                          "unnorm_key": "libero_10_no_noops"},
    "training_backend/fsdp": {"strategy": "fsdp", "sharding_strategy": "full_shard",
                              "gradient_checkpointing": False, "cpu_offload": False,
                              "mixed_precision": {"param_dtype": None}},
    "weight_syncer/patch_syncer": {"type": "patch", "patch": {"snapshot_device": "cpu"}},
}  # fmt: skip
GAE = {
    "adv_type": "gae", "loss_type": "actor_critic", "loss_agg_func": "token-mean",
    "normalize_advantages": True, "kl_penalty": "kl", "group_size": 1, "kl_beta": 0.0,
    "entropy_bonus": 0, "clip_ratio_high": 0.2, "clip_ratio_low": 0.2, "clip_ratio_c": 3.0,
    "value_clip": 0.2, "huber_delta": 10.0, "gamma": 0.99, "gae_lambda": 0.95,
    "reward_type": "chunk_level", "logprob_type": "chunk_level", "entropy_type": "token_level",
}  # fmt: skip
GROUP = {
    **GAE, "adv_type": "grpo", "loss_type": "actor", "group_size": 8, "reward_coef": 5.0,
    "reward_type": "action_level", "logprob_type": "token_level", "filter_rewards": True,
    "rewards_lower_bound": 0.1, "rewards_upper_bound": 0.9, "clip_ratio_high": 0.28,
}  # fmt: skip
SAMPLING = {"do_sample": True, "temperature_train": 1.6, "temperature_eval": 0.6, "top_k": -1,
            "top_p": 1.0, "repetition_penalty": 1.0}  # fmt: skip
OPTIM = {"lr": 1.0e-5, "value_lr": 1.0e-4, "adam_beta1": 0.9, "adam_beta2": 0.95,
         "adam_eps": 1.0e-8, "clip_grad": 1.0}  # fmt: skip


def recipe(train: str, evaluation: str, model: str, algorithm: dict, **more: Any) -> dict:
    """A recipe for training; `more` gives values by dotted path, with `__` in place of the dots."""
    content: dict[str, Any] = {
        "defaults": [
            f"env/{train}@env.train", f"env/{evaluation}@env.eval", f"model/{model}@actor.model",
            "training_backend/fsdp@actor.fsdp_config", "weight_syncer/patch_syncer@weight_syncer",
            {"override hydra/job_logging": "stdout"},
        ],
        "hydra": {"run": {"dir": "."}, "output_subdir": None,
                  "searchpath": ["file://${oc.env:EMBODIED_PATH}/config/"]},
        "cluster": {"num_nodes": 1, "component_placement": {"actor,env,rollout": "all"}},
        "runner": {
            "task_type": "embodied", "max_epochs": 1000, "max_steps": -1, "only_eval": False,
            "val_check_interval": -1, "save_interval": 50, "resume_dir": None, "ckpt_path": None,
            "logger": {"log_path": "../results", "project_name": "rlinf",
                       "experiment_name": "theirs", "logger_backends": ["tensorboard"]},
        },
        "algorithm": {**algorithm},
        "env": {
            "group_name": "EnvGroup",
            "train": {"rollout_epoch": 8, "total_num_envs": 64},
            "eval": {"rollout_epoch": 1, "total_num_envs": 500, "auto_reset": True,
                     "ignore_terminations": True, "use_fixed_reset_state_ids": True,
                     "video_cfg": {"video_base_dir": "${runner.logger.log_path}/video/eval"}},
        },
        "rollout": {"group_name": "RolloutGroup", "backend": "huggingface",
                    "enable_offload": False, "pipeline_stage_num": 1,
                    "model": {"model_path": "/path/to/model",
                              "precision": "${actor.model.precision}"}},
        "actor": {"group_name": "ActorGroup", "training_backend": "fsdp", "seed": 42,
                  "micro_batch_size": 128, "global_batch_size": 2048, "enable_offload": False,
                  "model": {"model_path": "/path/to/model"}, "optim": {**OPTIM},
                  "fsdp_config": {"sharding_strategy": "no_shard"}},
        "reward": {"use_reward_model": False},
        "critic": {"use_critic_model": False},
    }  # fmt: skip
    for path, value in more.items():
        put(content, path.replace("__", "."), value)
    return content


def put(content: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path."""
    *sections, name = path.split(".")
    for section in sections:
        content = content.setdefault(section, {})
    content[name] = value


def pi_on_metaworld(train: str = "metaworld_50", evaluation: str = "metaworld_50") -> dict:
    return recipe(
        train, evaluation, "pi0", {**GAE, "update_epoch": 4},
        actor__model__num_action_chunks=5, actor__model__action_dim=4, actor__model__num_steps=5,
        actor__model__add_value_head=True,
        actor__model__openpi={"config_name": "pi0_metaworld", "num_images_in_input": 1,
                              "detach_critic_input": True},
    )  # fmt: skip


def cosine() -> dict:
    content = pi_on_metaworld()
    content["actor"]["optim"] |= {"lr_scheduler": "cosine", "total_training_steps": 1000}
    return content


def oft_on_metaworld() -> dict:
    return recipe(
        "metaworld_50", "metaworld_50", "openvla_oft", GROUP,
        rollout__sampling_params=SAMPLING, actor__model__num_action_chunks=1,
        actor__model__unnorm_key="meta_world_strict",
        env__train__group_size="${algorithm.group_size}",
        env__train__reward_coef="${algorithm.reward_coef}",
    )  # fmt: skip


PLATE = "maniskill_put_on_plate_in_scene_25_main"


def openvla_on_maniskill() -> dict:
    return recipe(
        PLATE, "maniskill_ood_template", "openvla",
        {**GAE, "reward_type": "action_level", "logprob_type": "action_level",
         "entropy_type": "action_level", "bootstrap_type": "always"},
        rollout__sampling_params={**SAMPLING, "temperature_train": 1.0, "max_new_tokens": 7},
        actor__model__add_value_head=True, actor__model__is_lora=True,
        env__train__auto_reset=True, env__train__max_steps_per_rollout_epoch=160,
        env__eval__total_num_envs=16, env__eval__max_steps_per_rollout_epoch=80,
        env__eval__max_episode_steps=80,
    )  # fmt: skip


def oft_on_maniskill() -> dict:
    return recipe(
        PLATE, "maniskill_ood_template", "openvla_oft", GROUP, rollout__sampling_params=SAMPLING,
        actor__model__unnorm_key="bridge_orig", env__eval__total_num_envs=16,
        env__train__reward_coef=1.0,
    )  # fmt: skip


def pi_on_maniskill() -> dict:
    return recipe(
        PLATE, PLATE, "pi0", {**GAE, "update_epoch": 4, "bootstrap_type": "always"},
        actor__model__num_action_chunks=5, actor__model__add_value_head=True,
        actor__model__openpi__config_name="pi0_maniskill",
        actor__model__openpi__num_images_in_input=1,
    )  # fmt: skip


def pi_on_libero() -> dict:
    return recipe(
        "libero_10", "libero_10", "pi0", {**GAE, "update_epoch": 4},
        actor__model__num_action_chunks=8, actor__model__add_value_head=True,
        env__eval__max_steps_per_rollout_epoch=512,
    )  # fmt: skip


def evaluation_of_oft() -> dict:
    """The form of their `evaluations/` folder: no actor, no algorithm, one side."""
    content = recipe("metaworld_50", "metaworld_50", "pi0", {})
    del content["actor"], content["algorithm"], content["env"]["train"]
    content["defaults"] = ["env/maniskill_ood_template@env.eval", "model/openvla_oft@rollout.model"]
    content["runner"] |= {"task_type": "embodied_eval", "only_eval": True}
    content["cluster"]["component_placement"] = {"env, rollout": "all"}
    content["env"]["eval"]["total_num_envs"] = 16
    content["rollout"]["sampling_params"] = SAMPLING
    content["rollout"]["model"] = {"model_path": "/path/to/model", "unnorm_key": "bridge_orig"}
    return content


RECIPES = {
    "metaworld_ppo_pi": pi_on_metaworld,
    "metaworld_ppo_pi_cosine": cosine,
    "metaworld_45_ppo_pi": lambda: pi_on_metaworld("metaworld_45_ind", "metaworld_45_ood"),
    "metaworld_grpo_oft": oft_on_metaworld,
    "maniskill_ppo_openvla": openvla_on_maniskill,
    "maniskill_grpo_oft": oft_on_maniskill,
    "maniskill_ppo_pi": pi_on_maniskill,
    "libero_10_ppo_pi": pi_on_libero,
    "maniskill_oft_eval": evaluation_of_oft,
}


def supervised(config_name: str, **more: Any) -> dict:
    """A file of supervised training; `more` gives values by dotted path, as in :func:`recipe`."""
    content: dict[str, Any] = {
        "defaults": ["model/pi0@actor.model", "training_backend/fsdp@actor.fsdp_config"],
        "cluster": {"num_nodes": 1, "component_placement": {"actor": "0-0"}},
        "runner": {"task_type": "sft", "max_epochs": 30000, "max_steps": -1,
                   "val_check_interval": -1, "save_interval": 2000,
                   "logger": {"log_path": "../results", "experiment_name": "theirs",
                              "logger_backends": ["tensorboard"]}},
        "data": {"train_data_paths": "/path/to/data", "num_workers": 4},
        "algorithm": {"adv_type": "gae"},
        "actor": {"group_name": "ActorGroup", "training_backend": "fsdp", "seed": 3,
                  "micro_batch_size": 4, "global_batch_size": 32,
                  "model": {"num_action_chunks": 10, "openpi": {"config_name": config_name}},
                  "optim": {**OPTIM, "lr": 2.5e-5, "weight_decay": 1.0e-10,
                            "lr_scheduler": "cosine", "lr_warmup_steps": 1000,
                            "total_training_steps": 30000, "min_lr": 2.5e-6}},
        "reward": {"use_reward_model": False},
        "critic": {"use_critic_model": False},
    }  # fmt: skip
    for path, value in more.items():
        put(content, path.replace("__", "."), value)
    return content


def write(folder: Path, name: str, content: Any) -> Path:
    """`folder/NAME.yaml`."""
    file = folder / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return file


def checkout(folder: Path) -> Path:
    """A folder with the groups and all recipes; returns it."""
    for name, content in GROUPS.items():
        write(folder, name, content)
    for name, make in RECIPES.items():
        write(folder, name, make())
    return folder
