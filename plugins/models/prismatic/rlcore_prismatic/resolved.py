"""Fill in the nulls of `actor.model`, and check the values against the env. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import EnvSpec
from rlcore.files.damaged_files import damaged_error
from rlcore_prismatic import statistics
from rlcore_prismatic.config_files import PREPROCESSOR_FILE, with_pixels
from rlcore_prismatic.folders import Folders, find_folders
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.sizes import PrismaticSize, named_size
from rlcore_prismatic.stored import Component
from rlcore_prismatic.trained import written_settings

LONGEST_PROMPT = 2**14  # tokens; Llama was trained on 2048


@dataclass(frozen=True)
class Resolved:
    """The settings with every null filled in.

    Attributes:
        size: the network; means and stds of pixels are the checkpoint's.
        folders: folders of the checkpoint; None without one.
        action_dim: M, entries of the model's action.
        entries: indices of the A entries that the env executes.
        num_images: cameras that the policy reads.
        values: V, values per decision; 0 without a critic.
        prompt_length: L, tokens of a prompt after padding.
        proprio_dim: entries of the state that the policy reads; 0: none.
        epsilon: added to the range of an action entry, see :mod:`rlcore_prismatic.statistics`.
        film: whether the sentence modulates the vision towers.
        components: parts of the policy with their own files.
        left_out: such parts that the settings don't use.
    """

    size: PrismaticSize
    folders: Folders | None
    action_dim: int
    entries: tuple[int, ...]
    num_images: int
    values: int
    prompt_length: int
    proprio_dim: int = 0
    epsilon: float = 1e-8
    film: bool = False
    components: tuple[Component, ...] = ()
    left_out: tuple[Component, ...] = ()

    def idle(self, steps: int) -> tuple[int, ...]:
        """Return the slots of a decision of `steps` actions whose entries the env ignores."""
        slots = range(steps * self.action_dim)
        return tuple(slot for slot in slots if slot % self.action_dim not in self.entries)


def resolve(config: PrismaticModelConfig, env: EnvSpec) -> Resolved:
    """Fill in the nulls; a model's own spec adds its other settings.

    Raises:
        ConfigError: an unknown size, or settings that don't fit each other or the env.
        CheckpointError: the checkpoint prepares its images in an unknown way.
    """
    size = named_size(config.size)
    folders = find_folders(config)
    if folders is not None:
        size = with_pixels(folders.find(PREPROCESSOR_FILE), size)
    width = config.action_dim
    if width is None:
        width = env.action_dim if config.action_entries is None else max(config.action_entries) + 1
    entries = tuple(range(width) if config.action_entries is None else config.action_entries)
    _check_actions(width, entries, env)
    cameras = len(env.cameras)
    num_images = config.images(
        cameras,
        trained=None if folders is None else written_settings(folders).get("num_images_in_input"),
        most=None if len(size.towers) == 2 else 1,
    )
    _require(
        1 <= num_images <= cameras,
        f"actor.model.num_images_in_input must be in 1..{cameras}, the cameras of env "
        f"{env.name!r} ({', '.join(camera.name for camera in env.cameras)}), got "
        f"{num_images}",
    )
    _require(
        num_images == 1 or len(size.towers) == 2,
        f"actor.model.num_images_in_input must be 1 with size {config.size!r}, which has one tower",
    )
    _require(
        config.is_lora or not config.save_adapters_only,
        "actor.model.save_adapters_only must be false without is_lora: there are no adapters",
    )
    _require(
        not config.save_adapters_only or config.model_path is not None,
        "actor.model.save_adapters_only must be false without model_path: adapters need the model "
        "that they adapt",
    )
    values = config.num_action_chunks if config.value_type == "action_level" else 1
    return Resolved(
        size=size,
        folders=folders,
        action_dim=width,
        entries=entries,
        num_images=num_images,
        values=values if config.add_value_head else 0,
        prompt_length=_prompt_length(config, folders, size, env.all_instructions),
    )


def _prompt_length(
    config: PrismaticModelConfig,
    folders: Folders | None,
    size: PrismaticSize,
    sentences: tuple[str, ...],
) -> int:
    if config.max_prompt_length is not None:
        return config.max_prompt_length
    # imported here, as listing the models needs no tokenizer
    from rlcore_prismatic.prompt import FILE_NAME as TOKENIZER_FILE
    from rlcore_prismatic.prompt import STEP, derived_length

    if folders is None:
        return derived_length(sentences, None, size)
    trained = written_settings(folders).get("max_prompt_length")
    least = trained if isinstance(trained, int) else STEP
    if least > LONGEST_PROMPT:
        raise damaged_error(
            folders.find(statistics.CONFIG_FILE), f"its max_prompt_length is {least}"
        )
    try:
        return derived_length(sentences, folders.find(TOKENIZER_FILE).parent, size, least)
    except CheckpointError:  # reported later, by the check of the whole checkpoint
        return least


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _check_actions(width: int, entries: Sequence[int], env: EnvSpec) -> None:
    _require(
        len(set(entries)) == len(entries) and max(entries, default=-1) < width,
        f"actor.model.action_entries must be different numbers below {width}, the entries of the "
        f"model's action, got {list(entries)}",
    )
    if len(entries) == env.action_dim:
        return
    hint = f"choose a model with {env.action_dim} action entries, or set actor.model.action_dim"
    if width > env.action_dim:
        example = [*range(env.action_dim - 1), width - 1]
        hint = f"choose which ones to execute, e.g. actor.model.action_entries={example}"
    raise ConfigError(
        f"{len(entries)} entries of the model's action would be executed (actor.model.action_dim, "
        f"action_entries), but actions of env {env.name!r} have {env.action_dim}",
        hint=hint,
    )
