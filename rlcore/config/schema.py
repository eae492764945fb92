"""The keys of a run, their types, defaults and meaning. Defaults live here and nowhere else.

Plugins subclass :class:`EnvConfig`, :class:`ModelConfig` and :class:`AlgorithmConfig` to add
keys of their own, declared with :func:`key` too. Its first argument is the help text
(`rlcore train --help KEY`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcore.config.keys import Door as Door
from rlcore.config.keys import Range as Range
from rlcore.config.keys import Settings as Settings
from rlcore.config.keys import When as When
from rlcore.config.keys import key as key

# -- cluster --------------------------------------------------------------------------------


@dataclass
class TimeoutsConfig(Settings):
    """Seconds after which a wait ends with an error that names what was waited for."""

    nodes: float = key(
        "for cluster.num_nodes nodes to join",
        60.0,
        above=0,
        when=When("cluster.address", unless=(None, "local")),
    )
    start: float = key("until all workers have started", 180.0, above=0)
    env: float = key(
        "for one chunk of simulation, or a reset; on the local backend to close simulators",
        120.0,
        above=0,
    )
    policy: float = key("for one decision of the policy", 300.0, above=0)
    update: float = key("for one policy update or supervised phase", 7200.0, above=0)
    sync: float = key("for one bucket of weights, or one piece of a trajectory", 120.0, above=0)
    stop: float = key(
        "for a worker to stop by itself before it is killed; for the whole run after a second "
        "Ctrl-C or SIGTERM",
        10.0,
        above=0,
    )
    ray: float = key(
        "for Ray itself to answer: its processes, and the queues between workers",
        60.0,
        above=0,
        when=When("cluster.backend", ("ray",)),
    )
    hook: float = key("for a hook of a plugin during a run", 3600.0, above=0)
    tracker: float = key("for a tracker to start, to take metrics, and to close", 60.0, above=0)


@dataclass
class ClusterConfig(Settings):
    """Where the workers run."""

    backend: str = key(
        "ray: a process per worker; local: all in this process (pdb works)",
        "ray",
        choices=("ray", "local"),
    )
    num_nodes: int = key(
        "nodes that must have joined the cluster", 1, least=1, when=When("backend", ("ray",))
    )
    inventory: str | None = key(
        "machines that are not there, to plan for: 8x80GB, 2x8x80GB, 16cpu or a YAML file of "
        "nodes; --dry-run, rlcore cluster and rlcore plan only",
    )
    address: str | None = key(
        "address of a running Ray cluster, or auto; null starts a new one on this machine",
        door=Door("joins the Ray cluster at", (None, "auto", "local")),
        when=When("backend", ("ray",)),
    )
    network_interface: str | None = key(
        "network interface through which actor ranks on several nodes talk, e.g. eth0; null: on "
        "each node the one with the address that the cluster knows it by",
        when=When("address", unless=(None, "local")),
    )
    component_placement: Any = key(
        "names: ranks, e.g. {'env,rollout,actor': all} or {env: 0-3, rollout: 4-7, actor: 0-7}",
        {"env,rollout,actor": "all"},
    )
    node_groups: list[Any] = key(
        "named nodes for placements, e.g. [{label: big, node_ranks: 0-1}]: an entry "
        "{node_group: big, placement: 0-7} counts ranks within them; node_labels instead of "
        "node_ranks chooses nodes by labels, ignore_hardware makes cores the ranks, env_vars are "
        "set in the processes",
        [],
    )
    timeouts: TimeoutsConfig = key("named timeouts in seconds", TimeoutsConfig())
    simulator_restarts: int = key(
        "how many times in a row simulators that died or hang are restarted and their episodes "
        "played again from the start; after that the run ends",
        3,
        least=0,
    )
    torch_threads: int | None = key(
        "torch threads of a policy worker; null: all its CPU slots", least=1
    )


# -- runner ---------------------------------------------------------------------------------


@dataclass
class LoggerConfig(Settings):
    """Where a run's folder is and where its metrics go."""

    log_path: str = key("parent of the run's folder", "logs", place="written")
    project_name: str = key("project name for trackers", "rlcore")
    experiment_name: str = key("name of the run's folder; -2, -3, ... is added when taken", "run")
    logger_backends: list[str] = key("trackers besides metrics.jsonl", [])


@dataclass
class RunnerConfig(Settings):
    """The course of a run."""

    seed: int = key("root of all randomness", 0, least=0)
    max_epochs: int = key("policy updates; -1: no limit", 10, least=1, off=-1)
    max_steps: int = key("env steps after which training ends; -1: no limit", -1, least=1, off=-1)
    only_eval: bool = key("evaluate the model and stop", False)
    val_before_train: bool = key("evaluate before the first update", True)
    val_check_interval: int = key(
        "updates between evaluations; -1: only before and after", -1, least=1, off=-1
    )
    save_interval: int = key("updates between checkpoints; -1: only the last", -1, least=1, off=-1)
    keep_last: int | None = key(
        "how many of the newest checkpoints to keep; null: all",
        least=1,
        when=When("save_interval", unless=(-1,)),
    )
    keep_best: bool = key(
        "also keep the checkpoint with the best success on training starts (mean over the "
        "updates since the previous one), as checkpoints/best",
        False,
        when=When("save_interval", unless=(-1,)),
    )
    resume_dir: str | None = key(
        "folder of a run, or of one of its checkpoints, to resume (rlcore resume RUN)",
        place="path",
    )
    auto_resume: bool = key(
        "resume from the last checkpoint when a worker fails, and resume the unfinished run in "
        "this run's folder if there is one",
        False,
    )
    logger: LoggerConfig = key("folder and trackers", LoggerConfig())


# -- env ------------------------------------------------------------------------------------


@dataclass
class VideoConfig(Settings):
    """Videos of episodes."""

    save_video: bool = key("write videos", False)
    info_on_video: bool = key(
        "write sentence, step, return so far and success below the frames", True
    )
    video_base_dir: str | None = key(
        "parent folder of the mosaics, with one folder per run; null: <run>/video/{train,eval}",
        place="written",
        when=When("save_video", (True,)),
    )
    num_episodes: int = key(
        "episodes filmed per rollout or evaluation, spread over tasks",
        8,
        least=0,
        when=When("save_video", (True,)),
    )
    fps: int = key("frames per second", 20, least=1)


OWN = "own"  # sentences of the env itself


@dataclass
class EnvConfig(Settings):
    """Settings every env has; a plugin's dataclass adds its own."""

    env_type: str = key("registered name of the env", "???")
    split: str = key("which trial numbers are visited", "train", choices=("train", "heldout"))
    tasks: list[str] | None = key("subset of the env's tasks by name; null: all", own=True)
    sentences: Any = key(
        "the policy's instructions: own, the env's sentences; or the file of the data set that it "
        "was trained on: task: sentence (YAML, JSON; FILE:KEY for a mapping inside), or meta/tasks"
        ".jsonl or .parquet with a column that names the env's tasks",
        OWN,
        own=True,
    )
    trials_per_task: int = key(
        "evaluation: trials of each task visited, each exactly once per pass", 10, least=1
    )
    allow_training_trials: bool = key(
        "evaluation: allow starts used in training; such results are marked", False
    )
    total_num_envs: int = key("sub-envs over all env workers", 8, least=1)
    rollout_epoch: int = key(
        "training: episodes per sub-env and update; evaluation: passes, how often each start is "
        "played, each time with other draws of the policy",
        1,
        least=1,
    )
    max_episode_steps: int = key("time limit in env steps", 100, least=1)
    max_steps_per_rollout_epoch: int | None = key(
        "env steps of a column; null: max_episode_steps; larger only with auto_reset", least=1
    )
    auto_reset: bool = key("start the next episode inside the same column", False)
    ignore_terminations: bool = key("only the time limit ends an episode", False)
    reward_coef: float = key("factor on rewards", 1.0)
    use_rel_reward: bool = key("reward is the change since the previous step", False)
    num_processes: int | None = key(
        "simulator processes per env worker; null: one per CPU slot", least=0
    )
    enable_offload: bool = key(
        "free the simulation's memory on an accelerator while an actor on the same accelerator "
        "updates",
        False,
    )
    video_cfg: VideoConfig = key("videos", VideoConfig())

    def interpreter(self) -> str | None:
        """The Python in which its simulators run, where that is not rlcore's own: the path of an
        interpreter, or of the folder of its virtual environment."""
        return None


@dataclass
class EnvPair(Settings):
    """The env for training and the env for evaluation."""

    train: EnvConfig = key("training", EnvConfig())
    eval: EnvConfig = key("evaluation", EnvConfig(split="heldout"))


# -- rollout, model, actor ------------------------------------------------------------------


@dataclass
class RolloutModelConfig(Settings):
    """The policy that acts; its weights are the actor's."""

    model_path: str | None = key(
        "folder of a checkpoint; null: actor.model.model_path", place="read"
    )
    lora_path: str | None = key("folder of adapters; null: actor.model.lora_path", place="read")


@dataclass
class RolloutConfig(Settings):
    """How decisions are made while data is gathered."""

    model: RolloutModelConfig = key("the acting policy", RolloutModelConfig())
    pipeline_stage_num: int = key(
        "stages: one simulates while the policy answers another", 1, least=1
    )
    enable_offload: bool = key(
        "the weights that act lie in host memory while an actor on the same accelerator updates",
        False,
    )
    forward_batch: int | None = key(
        "fixed forward batch (padded), for bitwise equal trajectories; null: all that wait",
        least=1,
    )
    sync: str = key(
        "how weights get to rollout processes that are not actors too. auto: over shared memory on "
        "one node, else over the network",
        "auto",
        choices=("auto", "shared_memory", "broadcast", "object_store"),
        when=When("cluster.backend", ("ray",)),
    )
    eval_deterministic: bool = key("evaluate without exploration noise", True)
    eval_temperature: float | None = key(
        "softmax temperature of evaluations, for models that sample tokens; null: that of training",
        above=0,
        when=When("eval_deterministic", (False,)),
    )


@dataclass
class ModelConfig(Settings):
    """Settings every model has; a plugin's dataclass adds its own."""

    model_type: str = key("registered name of the model", "???")
    model_path: str | None = key(
        "folder of a checkpoint; null: random weights of this size", own=True, place="read"
    )
    lora_path: str | None = key(
        "folder of low-rank adapters in peft's format for the model in model_path: trained on with "
        "is_lora, else merged into it; null: none, or those in model_path",
        own=True,
        place="read",
    )
    precision: str = key(
        "parameters and compute; the optimizer's are fp32", "fp32", choices=("fp32", "bf16")
    )
    num_action_chunks: int = key("C: actions executed per decision", 5, least=1)
    action_dim: int | None = key("entries of an env action; null: the env's", least=1, own=True)
    add_value_head: bool | None = key("add a critic; null: where the algorithm needs values")
    num_images_in_input: int = key("cameras the policy takes", 1, least=1)
    is_lora: bool = key("train low-rank adapters instead of the weights", False)
    lora_rank: int = key(
        "rank of the adapters (alpha equals it)", 32, least=1, when=When("is_lora", (True,))
    )
    save_adapters_only: bool = key(
        "with is_lora: checkpoints hold the adapters and point to the model they adapt; false: "
        "they are merged into its weights",
        False,
        when=When("is_lora", (True,)),
    )

    def beginning_with(self, folder: str | Path) -> ModelConfig:
        """The same model with the weights of a checkpoint that has all of its parts."""
        return replace(self, model_path=str(folder), lora_path=None)


@dataclass
class OptimConfig(Settings):
    """AdamW with one learning rate for the policy and one for the critic."""

    lr: float = key("policy learning rate", 1e-5, above=0)
    value_lr: float = key(
        "critic learning rate", 1e-4, above=0, when=When("actor.model.add_value_head", (True,))
    )
    adam_beta1: float = key("AdamW beta 1", 0.9, least=0, below=1)
    adam_beta2: float = key("AdamW beta 2", 0.95, least=0, below=1)
    adam_eps: float = key("AdamW epsilon", 1e-8, above=0)
    weight_decay: float = key("AdamW weight decay", 0.0, least=0)
    clip_grad: float = key("clip gradients to this norm", 1.0, above=0)
    lr_scheduler: str = key("after warm-up", "constant", choices=("constant", "cosine"))
    lr_warmup_steps: int = key("optimizer steps of linear warm-up", 0, least=0)
    total_training_steps: int | None = key(
        "optimizer steps of the cosine; needed by it",
        least=1,
        when=When("lr_scheduler", ("cosine",)),
    )


WHOLE = "no_shard"
DIVIDED = When("actor.fsdp_config.sharding_strategy", unless=(WHOLE,))


@dataclass
class MixedPrecisionConfig(Settings):
    """Dtypes of divided parameters apart from their own, which is actor.model.precision."""

    reduce_dtype: str | None = key(
        "gradients are summed over actor processes in this; null: in that of the parameters",
        choices=("fp32", "bf16"),
        when=DIVIDED,
    )


@dataclass
class FSDPConfig(Settings):
    """How parameters are held in memory."""

    gradient_checkpointing: bool = key("recompute activations; where the model supports it", False)
    sharding_strategy: str = key(
        "no_shard: each actor process holds all parameters; full_shard: they divide them, with "
        "gradients and optimizer, and gather a block when it computes; shard_grad_op: what was "
        "gathered stays until the backward pass; hybrid_shard: fsdp_size processes divide one copy",
        WHOLE,
        choices=(WHOLE, "shard_grad_op", "full_shard", "hybrid_shard"),
    )
    fsdp_size: int | None = key(
        "actor processes that divide one copy of the parameters; null: those of a node",
        least=1,
        when=When("sharding_strategy", ("hybrid_shard",)),
    )
    reshard_after_forward: bool | None = key(
        "give up a gathered block after its forward; null: unless sharding_strategy=shard_grad_op",
        when=DIVIDED,
    )
    cpu_offload: bool = key(
        "the divided parameters, gradients and moments lie in host memory, and AdamW steps there",
        False,
        when=DIVIDED,
    )
    mixed_precision: MixedPrecisionConfig = key("dtypes of sums", MixedPrecisionConfig())

    @property
    def divides(self) -> int:
        """How many actor processes divide one copy of the parameters: all (0), one (1: nothing is
        divided), those of a node (-1), or so many."""
        if self.sharding_strategy == "hybrid_shard":
            return self.fsdp_size or -1
        return 1 if self.sharding_strategy == WHOLE else 0

    @property
    def gathers_again(self) -> bool:
        """Whether a block is given up after its forward, and gathered again for its backward."""
        asked = self.reshard_after_forward
        return self.sharding_strategy != "shard_grad_op" if asked is None else asked


@dataclass
class ActorConfig(Settings):
    """The trained policy and its optimizer."""

    model: ModelConfig = key("the model", ModelConfig())
    optim: OptimConfig = key("the optimizer", OptimConfig())
    fsdp_config: FSDPConfig = key("parameter placement", FSDPConfig())
    enable_offload: bool = key(
        "weights, gradients and optimizer lie in host memory while a rollout or an env on the same "
        "accelerator works; the weights stay where one process acts and learns",
        False,
    )
    micro_batch_size: int = key("chunks per forward and backward of a rank", 128, least=1)
    global_batch_size: int = key("chunks per optimizer step over all ranks", 1024, least=1)


# -- algorithm ------------------------------------------------------------------------------


@dataclass
class AlgorithmConfig(Settings):
    """Settings all policy-gradient algorithms share; a plugin's dataclass adds its own."""

    name: str = key("registered name of the algorithm", "???")
    reward_type: str = key(
        "one reward per chunk or per action", "chunk_level", choices=("chunk_level", "action_level")
    )
    logprob_type: str = key(
        "granularity of the ratio",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    gamma: float = key(
        "discount per chunk (chunk_level) or per env step (action_level)", 0.99, above=0, most=1
    )
    group_size: int = key("episodes of an update that share one start", 1, least=1)
    update_epoch: int = key("passes over a rollout", 1, least=1)
    clip_ratio_low: float = key("ratio clipped below at 1 - this", 0.2, above=0, most=1)
    clip_ratio_high: float = key("ratio clipped above at 1 + this", 0.2, above=0)
    clip_ratio_c: float | None = key("dual clip for negative advantages; null: off", above=1)
    clip_log_ratio: float | None = key(
        "log ratio clamped to +- this, also against overflow (counted: "
        "train/actor/clamped_log_ratios); null: 20",
        above=0,
        most=20,
    )
    entropy_bonus: float = key("coefficient of the entropy", 0.0)
    entropy_type: str = key(
        "granularity of the entropy",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    kl_beta: float = key("coefficient of the k3 KL to the reference weights", 0.0, least=0)
    loss_agg_func: str = key(
        "weights of the samples",
        "token-mean",
        choices=("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"),
    )
    normalize_advantages: bool = key(
        "(A - mean) / (std + 1e-5) over all valid samples, std with n - 1; one sample gives 0", True
    )
    recompute_logprobs: bool = key("recompute old log-probs before the first epoch", False)


# -- demonstrations and supervised training ---------------------------------------------------


TO_LEARN = When("sft.enabled", (True,))  # or `rlcore collect`


@dataclass
class CollectConfig(Settings):
    """Expert demonstrations."""

    path: str | None = key(
        "data set folder to write or to read; null: <run>/demonstrations",
        place="read or written",
        when=TO_LEARN,
    )
    episodes_per_task: int = key(
        "successful demonstrations kept per task", 10, least=1, when=TO_LEARN
    )
    action_noise: float = key(
        "std of the noise on executed actions, for recovery, in units of half of each entry's "
        "range: of the action itself where it lies in [-1, 1]",
        0.0,
        least=0,
        when=TO_LEARN,
    )
    speed: float = key(
        "factor on the expert's motion commands, in (0, 1]", 1.0, above=0, most=1, when=TO_LEARN
    )
    stride: int = key("env steps between rendered frames", 1, least=1, when=TO_LEARN)
    max_episode_steps: int | None = key(
        "time limit of a demonstration in env steps; null: env.train.max_episode_steps",
        least=1,
        when=TO_LEARN,
    )


WITH_SFT = When("enabled", (True,))


@dataclass
class SFTConfig(Settings):
    """Supervised training on demonstrations, to make the starting checkpoint."""

    enabled: bool = key("train supervised before reinforcement", False)
    max_steps: int = key("optimizer steps", 1000, least=1, when=WITH_SFT)
    batch_size: int = key("frames per optimizer step", 64, least=1, when=WITH_SFT)
    lr: float = key("learning rate", 1e-3, above=0, when=WITH_SFT)
    lr_warmup_steps: int = key("optimizer steps of linear warm-up", 50, least=0, when=WITH_SFT)
    weight_decay: float = key("AdamW weight decay", 0.0, least=0, when=WITH_SFT)
    val_fraction: float = key(
        "share of the demonstrations kept for validation", 0.2, least=0, below=1, when=WITH_SFT
    )
    val_interval: int = key("optimizer steps between validation losses", 50, least=1, when=WITH_SFT)
    patience: int | None = key(
        "validations without a gain of 5% after which training ends; null: only at max_steps",
        least=1,
        when=WITH_SFT,
    )
    control: bool = key(
        "a control: after training, continue SFT from the same start for as long as RL took, "
        "and evaluate the result too",
        False,
        when=WITH_SFT,
    )


@dataclass
class RecipeConfig(Settings):
    """What the run was composed from. Written by compose, for reports; don't set it."""

    choices: list[str] = key("group choices, e.g. [experiment=NAME]", [])
    config_dirs: list[str] = key("further folders of groups", [])


@dataclass
class RunConfig(Settings):
    """Root of the configuration of one run."""

    cluster: ClusterConfig = key("where workers run", ClusterConfig())
    runner: RunnerConfig = key(
        "length, evaluations, checkpoints and logs of the run", RunnerConfig()
    )
    collect: CollectConfig = key("expert demonstrations", CollectConfig())
    sft: SFTConfig = key("supervised training", SFTConfig())
    env: EnvPair = key("env.train and env.eval", EnvPair())
    rollout: RolloutConfig = key("how experience is gathered", RolloutConfig())
    actor: ActorConfig = key("policy and optimizer", ActorConfig())
    algorithm: AlgorithmConfig = key("the algorithm", AlgorithmConfig())
    recipe: RecipeConfig = key("where the values come from", RecipeConfig())

    @property
    def divides(self) -> int:
        """How many actor processes divide one copy of the parameters, as a plan takes it."""
        divides_nothing = self.runner.only_eval or self.cluster.backend == "local"
        return 1 if divides_nothing else self.actor.fsdp_config.divides

    @property
    def offloads(self) -> tuple[str, ...]:
        """Which of "rollout" and "actor" are asked to leave accelerators to others meanwhile."""
        asked = {"rollout": self.rollout.enable_offload, "actor": self.actor.enable_offload}
        return tuple(name for name, leaves in asked.items() if leaves)
