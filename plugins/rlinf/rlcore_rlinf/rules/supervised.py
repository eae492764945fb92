"""Import the files of supervised training (`examples/sft`), in which keys mean other things.

Such a file names no env: its data set is one of LeRobot, and the name of the model's data
configuration says of which robot. rlcore needs an env with that robot's cameras, states and
actions: the one that the name contains, or else `env=data`, which has those of the data set.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile, constant, table

TASK_TYPE = "runner.task_type"
CONFIG_NAME = "actor.model.openpi.config_name"
DATA_ENV = "data"
ONE_POLICY = "rlcore sft saves one policy, at its end"
NO_ALGORITHM = "supervised training has no algorithm"
ADAMW = "rlcore's supervised training has AdamW's usual value"
MANY_FRAMES = "rlcore sft takes a batch at once; divide it over more actor processes"
DATA = (
    "the folder is described in a YAML file: rlcore data describe FOLDER -o FILE.yaml, then "
    "collect.path=FILE.yaml"
)


def is_supervised(task_type: Any) -> bool:
    """Return whether a value of `runner.task_type` is that of supervised training."""
    return str(task_type).lower() == "sft"


def env_of(config_name: Any, installed: Collection[str], with_rules: Collection[str]) -> str | None:
    """Return the name of the env whose robot a data configuration is for; None if none is known.

    Args:
        config_name: name of the data configuration, such as pi0_libero.
        installed: names of the installed envs.
        with_rules: names of the envs that RLinf has too.
    """
    named = [name for name in with_rules if name in str(config_name) and name in installed]
    return next(iter(named), DATA_ENV if DATA_ENV in installed else None)


def _data(value: Any, _: RLinfFile) -> Any:
    raise ValueError(DATA)


def _limit(value: Any, file: RLinfFile) -> Any:
    """Return `max_steps`; unset if it does not limit the steps, as `max_epochs` then does."""
    return value if value is not None and value > 0 else UNSET


def _epochs(value: Any, file: RLinfFile) -> Any:
    """Return `max_epochs` if it counts optimizer steps.

    RLinf's first version counted steps by it, later ones passes over the data set. It is taken for
    steps where the learning rate's schedule has as many.
    """
    limit = file.get("runner.max_steps")
    if limit is not None and limit > 0:
        return UNSET
    if value is None or value != file.get("actor.optim.total_training_steps"):
        raise ValueError("passes over the data set there: give the optimizer steps, sft.max_steps")
    return value


def _schedule(value: Any, _: RLinfFile) -> str:
    if str(value) not in ("constant", "cosine", "openpi_cosine"):
        raise ValueError("the schedules are constant and cosine")
    return "cosine" if "cosine" in str(value) else "constant"


def _schedule_length(value: Any, file: RLinfFile) -> Any:
    """Return nothing to set: rlcore's cosine ends with the training, at `sft.max_steps`."""
    limits = (file.get("runner.max_steps"), file.get("runner.max_epochs"))
    if value not in limits and value is not None:
        raise ValueError("the cosine of rlcore sft ends at sft.max_steps")
    return UNSET


def _decoders(value: Any, _: RLinfFile) -> Any:
    return max(1, value)


def _placement(value: Any, _: RLinfFile) -> Any:
    """Return the placement with env and rollout beside the actor, as rlcore places all three."""
    names = {name.strip() for key in value for name in key.split(",")} if value else set()
    if isinstance(value, dict) and names == {"actor"}:
        return {"env,rollout,actor": next(iter(value.values()))}
    return value


RULES = table(
    constant("sft.enabled", "the file trains supervised", True),
    constant("sft.val_fraction", "RLinf holds out no demonstrations", 0.0),
    ImportRule("runner.max_steps", "sft.max_steps", "optimizer steps", _limit),
    ImportRule("runner.max_epochs", "sft.max_steps", "optimizer steps", _epochs),
    ImportRule("data.train_data_paths", "collect.path", DATA, _data),
    ImportRule("data.data_paths", "collect.path", DATA, _data),
    ImportRule("data.data_path", "collect.path", DATA, _data),
    ImportRule("data.num_workers", "sft.decoders", "processes that read ahead", _decoders),
    ImportRule("actor.global_batch_size", "sft.batch_size", "frames of an optimizer step"),
    ImportRule("actor.optim.lr", "sft.lr", "learning rate"),
    ImportRule(
        "actor.optim.weight_decay", "sft.weight_decay", "RLinf's default is 0.01", default=0.01
    ),
    ImportRule("actor.optim.lr_warmup_steps", "sft.lr_warmup_steps", "steps of linear warm-up"),
    ImportRule("actor.optim.lr_scheduler", "sft.lr_scheduler", "constant or cosine", _schedule),
    ImportRule("actor.optim.warmup_style", "sft.lr_scheduler", "constant or cosine", _schedule),
    ImportRule(
        "actor.optim.total_training_steps",
        "sft.max_steps",
        "the cosine ends at sft.max_steps",
        _schedule_length,
    ),
    ImportRule(
        "cluster.component_placement",
        "cluster.component_placement",
        "env and rollout have a place too, where a policy is evaluated",
        _placement,
    ),
    harmless={
        "actor.optim.adam_beta1": (ADAMW, (0.9,)),
        "actor.optim.adam_beta2": (ADAMW, (0.95,)),
        "actor.optim.adam_eps": (ADAMW, (1e-8,)),
        "actor.optim.clip_grad": ("gradients are clipped to norm 1", (1.0, 1)),
        "actor.optim.min_lr": ("the cosine of rlcore sft ends at 0", (None, 0, 0.0)),
        "runner.resume_dir": ("RLinf's checkpoints can't be resumed", (None,)),
        "actor.fsdp_config.gradient_checkpointing_use_reentrant": ("torch recommends it", (False,)),
    },
    dropped={
        TASK_TYPE: "the command is rlcore sft",
        "runner.save_interval": ONE_POLICY,
        "runner.val_check_interval": "RLinf validates no supervised policy; here sft.val_fraction "
        "and sft.val_interval do",
        "runner.log_interval": "each step is logged",
        "actor.micro_batch_size": MANY_FRAMES,
        "actor.eval_batch_size": "validation takes batches of sft.batch_size",
        "actor.optim.value_lr": "supervised training leaves the critic as it is",
        "algorithm.*": NO_ALGORITHM,
    },
)
