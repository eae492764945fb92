"""Define the keys of a run: types, defaults and meaning. Defaults live here and nowhere else.

Each section of the configuration has a module. :class:`RunConfig` contains all sections, and no
module of a section imports it; `keys.py` defines :func:`key`, which declares a key. Plugins
subclass :class:`EnvConfig`, :class:`ModelConfig` and :class:`AlgorithmConfig` to add keys, also
declared with :func:`key`. Its first argument is the help text (`rlcore train --help KEY`), and the
first paragraph of a section's docstring is the help text of the section.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.actor import (
    ActorConfig,
    FSDPConfig,
    MixedPrecisionConfig,
    OptimConfig,
)
from rlcore.config.schema.algorithm import AlgorithmConfig, NetworkOptimConfig
from rlcore.config.schema.cluster import ClusterConfig, TimeoutsConfig
from rlcore.config.schema.env import CHECKPOINT, EnvConfig, EnvPair, VideoConfig
from rlcore.config.schema.keys import Range, Settings, TrustedKey, When, key
from rlcore.config.schema.model import ModelConfig
from rlcore.config.schema.plugins import PluginConfig, PluginsConfig
from rlcore.config.schema.rollout import RolloutConfig, RolloutModelConfig
from rlcore.config.schema.runner import LoggerConfig, RunnerConfig
from rlcore.config.schema.sources import Sources
from rlcore.config.schema.supervised import OWN_SUCCESSES, UNTIL_PLATEAU, CollectConfig, SFTConfig
from rlcore.config.schema.wrappers import AlgorithmWrapping, EnvWrapping

__all__ = [
    "CHECKPOINT",
    "OWN_SUCCESSES",
    "ActorConfig",
    "AlgorithmConfig",
    "AlgorithmWrapping",
    "ClusterConfig",
    "CollectConfig",
    "EnvConfig",
    "EnvPair",
    "EnvWrapping",
    "FSDPConfig",
    "LoggerConfig",
    "MixedPrecisionConfig",
    "ModelConfig",
    "NetworkOptimConfig",
    "OptimConfig",
    "PluginConfig",
    "PluginsConfig",
    "Range",
    "RecipeConfig",
    "RolloutConfig",
    "RolloutModelConfig",
    "RunConfig",
    "RunnerConfig",
    "SFTConfig",
    "Settings",
    "TimeoutsConfig",
    "TrustedKey",
    "VideoConfig",
    "When",
    "key",
]


@dataclass
class RecipeConfig(Settings):
    """What the run was composed from. Written by compose, for reports; don't set it."""

    choices: list[str] = key("group choices, e.g. [experiment=NAME]", [])
    config_dirs: list[str] = key("further folders of groups", [])

    def __post_init__(self) -> None:
        self.sources: Sources | None = None
        """The files that the run was composed from; None for a configuration that was loaded."""

    @property
    def words(self) -> list[str]:
        """Return the words of a command line that make the same choices."""
        return [*(f"--config-dir={folder}" for folder in self.config_dirs), *self.choices]


@dataclass
class RunConfig(Settings):
    """Root of the configuration of one run."""

    cluster: ClusterConfig = key("where workers run", ClusterConfig())
    runner: RunnerConfig = key(
        "length, evaluations, checkpoints and logs of the run", RunnerConfig()
    )
    collect: CollectConfig = key("expert demonstrations", CollectConfig(), fixed="start")
    sft: SFTConfig = key("supervised training", SFTConfig(), fixed="start")
    env: EnvPair = key("env.train and env.eval", EnvPair())
    rollout: RolloutConfig = key("how experience is gathered", RolloutConfig())
    actor: ActorConfig = key("policy and optimizer", ActorConfig())
    algorithm: AlgorithmConfig = key("the algorithm", AlgorithmConfig())
    plugins: PluginsConfig = key("settings of plugins", PluginsConfig())
    recipe: RecipeConfig = key("where the values come from", RecipeConfig())

    @property
    def shard_over(self) -> int:
        """Return the number of actor processes over which one copy of the parameters is sharded.

        Encoded as :attr:`FSDPConfig.shard_over`; 1 on the local backend and if the run only
        evaluates.
        """
        divides_nothing = self.runner.only_eval or self.cluster.backend == "local"
        return 1 if divides_nothing else self.actor.fsdp_config.shard_over

    @property
    def selects_on_validation(self) -> bool:
        """Return whether validation starts decide which checkpoint `runner.keep_best` keeps."""
        evaluates = self.runner.keep_best and self.runner.val_check_interval > 0
        validates = self.env.validation.trials_per_task or self.env.eval.split == "validation"
        return evaluates and bool(validates)

    @property
    def trains_to_plateau(self) -> bool:
        """Return whether success on validation starts ends supervised training (`sft.until`)."""
        return self.sft.enabled and self.sft.until == UNTIL_PLATEAU and not self.runner.only_eval

    @property
    def supervised_only(self) -> bool:
        """Return whether supervised training is all that the run does: it has no algorithm."""
        return self.sft.enabled and not self.algorithm.name and not self.runner.only_eval

    @property
    def active_envs(self) -> dict[str, EnvConfig]:
        """Return the settings of the envs that the run plays, by side.

        With `runner.only_eval` that is "eval" alone.
        """
        return {"eval": self.env.eval} if self.runner.only_eval else self.env.sides

    @property
    def offloaded_roles(self) -> tuple[str, ...]:
        """Return which of "rollout" and "actor" offload to host memory (`enable_offload`)."""
        enabled = {"rollout": self.rollout.enable_offload, "actor": self.actor.enable_offload}
        return tuple(name for name, leaves in enabled.items() if leaves)
