"""Keys of `env.train` and `env.eval` that every env has."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema.keys import Settings, When, key
from rlcore.contracts.specs import SPLITS, ComponentSpec


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
        minimum=0,
        when=When("save_video", (True,)),
    )
    fps: int = key("frames per second", 20, minimum=1, magnitude_limit=1000)


OWN_INSTRUCTIONS = "own"  # the env's instructions
# instructions that are searched for in files
CHECKPOINT = "checkpoint"
LEROBOT = "lerobot"


@dataclass
class EnvConfig(Settings):
    """Settings every env has; a plugin's dataclass adds its own."""

    env_type: str = key("registered name of the env", "???")
    split: str = key("which trial numbers are visited", "train", choices=SPLITS)
    tasks: list[str] | None = key("names of the env's tasks to play; null: all", own=True)
    sentences: Any = key(
        "the policy's instructions: own, the env's sentences; checkpoint, those it was trained "
        "on, looked for in its folder, beside it and in an installed lerobot; lerobot, the last "
        "of these; or a file: task: sentence (YAML, JSON; FILE:KEY for a mapping inside)",
        OWN_INSTRUCTIONS,
        own=True,
    )
    trials_per_task: int = key(
        "evaluation: trials of each task visited, each exactly once per pass", 10, minimum=1
    )
    allow_training_trials: bool = key(
        "evaluation: allow starts used in training; such results are marked", False
    )
    total_num_envs: int = key("sub-envs over all env workers", 8, minimum=1, magnitude_limit=65_536)
    rollout_epoch: int = key(
        "training: episodes per sub-env and update; evaluation: passes, how often each start is "
        "played, each time with different random draws of the policy",
        1,
        minimum=1,
    )
    max_episode_steps: int = key("time limit in env steps", 100, minimum=1)
    max_steps_per_rollout_epoch: int | None = key(
        "env steps of a column; null: max_episode_steps; larger only with auto_reset", minimum=1
    )
    auto_reset: bool = key("start the next episode in the same column when one ends", False)
    ignore_terminations: bool = key("only the time limit ends an episode", False)
    reward_coef: float = key("factor by which rewards are multiplied", 1.0)
    use_rel_reward: bool = key("use the change of the reward since the previous step", False)
    num_processes: int | None = key(
        "simulator processes per env worker; null: one per CPU core",
        minimum=0,
        magnitude_limit=1024,
    )
    enable_offload: bool = key(
        "free the simulation's memory on an accelerator while an actor on the same accelerator "
        "updates",
        False,
    )
    video_cfg: VideoConfig = key("videos", VideoConfig())
    wrappers: list[Any] = key(
        "what changes rewards and observations, from inside out: NAME or {NAME: {key: value}}", []
    )

    def chunks_per_column(self, num_action_chunks: int) -> int:
        """Return how many action chunks fill a column of fixed length.

        Args:
            num_action_chunks: env steps per chunk.
        """
        steps = self.max_steps_per_rollout_epoch or self.max_episode_steps
        return steps // num_action_chunks

    def interpreter(self) -> str | None:
        """Return the Python in which the env's simulators run; None: the one that runs rlcore.

        It is the path of an interpreter, or of the folder of its virtual environment.
        """
        return None

    def derive(self) -> None:
        """Set keys that are null from what the env itself states, such as its time limit.

        Called while a configuration is composed. The configuration of an earlier run already has
        the derived values, so :meth:`derive_again` is called when that is loaded.
        """

    def derive_again(self, saved: Mapping[str, Any], given: Set[str]) -> None:
        """Derive again the keys that an earlier run derived from keys with other values.

        Called when the configuration of an earlier run is loaded, and when one is changed.

        Args:
            saved: the values of the run, by the name of the key.
            given: names of the keys that are set now; their values stay.
        """

    def resolve(self, spec: ComponentSpec) -> None:
        """Set values that depend on this machine. Called while a configuration is composed.

        Args:
            spec: the registered spec of the env component.
        """


@dataclass
class ValidationConfig(Settings):
    """Starts to choose the best checkpoint on."""

    trials_per_task: int = key(
        "validation starts of each task of env.eval, played every runner.val_check_interval "
        "updates in place of those of env.eval, twice where runner.keep_best chooses by them; 0: "
        "none",
        0,
        minimum=0,
    )


@dataclass
class ForgettingConfig(Settings):
    """Tasks that are not trained on, played before and after training."""

    tasks: list[str] | None = key(
        "by name; []: none; null: four, where the env has others than those that are trained on "
        "and the policy begins from actor.model.model_path"
    )
    trials_per_task: int = key("starts of each of them, of the split of env.eval", 8, minimum=1)


@dataclass
class EnvPair(Settings):
    """The envs for training and evaluation, and further starts and envs to evaluate on."""

    train: EnvConfig = key("training", EnvConfig())
    eval: EnvConfig = key("evaluation", EnvConfig(split="heldout"))
    validation: ValidationConfig = key("starts to choose on", ValidationConfig())
    forgetting: ForgettingConfig = key("tasks that are not trained on", ForgettingConfig())

    @property
    def sides(self) -> dict[str, EnvConfig]:
        """Return the settings of both envs, by side."""
        return {"train": self.train, "eval": self.eval}
