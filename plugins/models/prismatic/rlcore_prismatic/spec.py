"""Resolves the shared keys, and checks that they fit each other and the env. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rlcore.errors import CheckpointError, ConfigError, all_of
from rlcore.specs import EnvSpec, PolicySpec, StateChannel, gathered
from rlcore.track.damage import damaged
from rlcore_prismatic import statistics
from rlcore_prismatic.activations import LIBRARIES, Reads, activations, stored
from rlcore_prismatic.adapters import Adapters, read_adapters
from rlcore_prismatic.config_files import PREPROCESSOR_FILE, with_pixels
from rlcore_prismatic.files import check_folders
from rlcore_prismatic.folders import Folders, find_folders
from rlcore_prismatic.layout import (
    Shape,
    adapter_shapes,
    count,
    is_film,
    is_unused,
    network_shapes,
    value_head_shapes,
)
from rlcore_prismatic.runs import check_beside
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.sizes import PrismaticSize, named_size
from rlcore_prismatic.stored import Component, merged_parts, stored_network
from rlcore_prismatic.trained import written_settings

LONGEST_PROMPT = 2**14  # tokens; Llama was trained on 2048
BLOCKS = r"(.*\.(?:blocks|layers)\.\d+)\."
"""What the names of a transformer block's parameters begin with."""
LIBERO_STATE = (
    StateChannel("ee_position", 3),
    StateChannel("ee_axis_angle", 3),
    StateChannel("gripper_finger_positions", 2),
)
"""That of the data sets called libero_10_no_noops and the like."""


@dataclass(frozen=True)
class Resolved:
    """The settings with every null filled in.

    Attributes:
        size: the network; means and stds of pixels are the checkpoint's.
        folders: of the checkpoint; None without one.
        action_dim: M, entries of the model's action.
        entries: the A of them that the env executes.
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
        """Slots, in a decision of that many steps, of entries that the env does not execute."""
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
    _require(
        1 <= config.num_images_in_input <= cameras,
        f"actor.model.num_images_in_input must be in 1..{cameras}, the cameras of env "
        f"{env.name!r} ({', '.join(camera.name for camera in env.cameras)}), got "
        f"{config.num_images_in_input}",
    )
    _require(
        config.num_images_in_input == 1 or len(size.towers) == 2,
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
        num_images=config.num_images_in_input,
        values=values if config.add_value_head else 0,
        prompt_length=_prompt_length(config, folders, size, env.said),
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
        raise damaged(folders.find(statistics.CONFIG_FILE), f"its max_prompt_length is {least}")
    try:
        return derived_length(sentences, folders.find(TOKENIZER_FILE).parent, size, least)
    except CheckpointError:  # what is wrong with the checkpoint is said when all of it is checked
        return least


def checked_spec(
    config: PrismaticModelConfig,
    resolved: Resolved,
    env: EnvSpec,
    *,
    sft: str | None,
    written: int,
    causal: bool = False,
) -> PolicySpec:
    """Facts of the policy, after checking its checkpoint.

    Args:
        sft: its supervised loss.
        written: tokens that the network reads behind the prompt.
        causal: whether a token sees only those before it.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or of another network or robot.
        ConfigError: the prompt of a sentence of the env is too long.
    """
    # imported here, as listing the models needs no tokenizer
    from rlcore_prismatic.prompt import FILE_NAME as TOKENIZER_FILE
    from rlcore_prismatic.prompt import fresh_tokenizer, load_tokenizer

    head = head_shapes(config, resolved)
    folders, adapters = resolved.folders, None
    states: tuple[StateChannel, ...] = ()
    if folders is None:
        fresh_tokenizer(env.said, resolved.prompt_length, resolved.size)
    else:
        check_beside(folders)
        place = folders.find(TOKENIZER_FILE).parent
        tokenizer, found, adapters = all_of(
            partial(load_tokenizer, place, resolved.prompt_length, resolved.size),
            partial(load_statistics, config, resolved),
            partial(_check_weights, config, resolved, folders, head),
        )
        tokenizer.checked(env.said)
        if found.key.startswith("libero_") and resolved.proprio_dim:
            states = LIBERO_STATE
    total, trainable = _parameters(config, resolved, head, adapters)
    reads = Reads(
        resolved.size,
        images=resolved.num_images,
        prompt=resolved.prompt_length,
        slots=config.num_action_chunks * resolved.action_dim,
    )
    return PolicySpec(
        name=config.model_type,
        num_images=resolved.num_images,
        state_dim=resolved.proprio_dim,
        states=states,
        action_dim=len(resolved.entries),
        num_action_chunks=config.num_action_chunks,
        action_horizon=config.num_action_chunks,
        value_dim=resolved.values,
        sft=sft,
        parameters=total,
        trainable_parameters=trainable,
        gathered_parameters=gathered(network_shapes(resolved.size, film=resolved.film), BLOCKS),
        activations=activations(config, reads, behind=written, causal=causal),
        sample_bytes=stored(config, reads),
        library_bytes=LIBRARIES,
        gradient_checkpointing=True,
        blocks=True,
        temperature=True,
    )


def _check_weights(
    config: PrismaticModelConfig, resolved: Resolved, folders: Folders, head: Mapping[str, Shape]
) -> Adapters | None:
    check_folders(
        folders,
        resolved.size,
        shapes=network_shapes(resolved.size),
        head=head,
        components=resolved.components,
        left_out=resolved.left_out,
    )
    adapters = load_adapters(config, resolved)
    if adapters is not None and adapters.copies:
        from rlcore_prismatic.copies import check_copies  # it needs torch

        check_copies(adapters, folders.base)
    return adapters


def load_adapters(config: PrismaticModelConfig, resolved: Resolved) -> Adapters | None:
    """What the checkpoint's adapters are; None if it has none. Headers only.

    Raises:
        CheckpointError: they don't fit the network, or can't be trained as the settings want.
    """
    folders = resolved.folders
    if folders is None or folders.adapters is None:
        return None
    return read_adapters(
        folders.adapters,
        network_shapes(resolved.size, film=resolved.film),
        config.lora_rank if config.is_lora else None,
        beside={
            name: part.shapes[own]
            for part in resolved.components
            if not part.in_network
            for name, own in part.names.items()
        },
        merged=merged_parts(folders, resolved.components, stored_network(folders.base)),
    )


@dataclass(frozen=True)
class Scaling:
    """Statistics of a checkpoint, and the bounds in use.

    Attributes:
        all: all statistics of the checkpoint, to be saved with it again.
        key: the data set in use.
        action: bounds of the M entries of an action.
        proprio: bounds of the state; None if the policy does not read it.
    """

    all: statistics.Statistics
    key: str
    action: statistics.Bounds
    proprio: statistics.Bounds | None


def load_statistics(config: PrismaticModelConfig, resolved: Resolved) -> Scaling:
    """Statistics of the checkpoint at `model_path`.

    Raises:
        CheckpointError: they are missing, damaged, of another robot, or lack `unnorm_key`.
    """
    assert resolved.folders is not None
    folder = resolved.folders.find(statistics.FILE_NAME).parent  # adapters may have their own
    found = statistics.read(folder)
    trained = written_settings(resolved.folders).get("unnorm_key")
    asked = config.unnorm_key or (trained if isinstance(trained, str) else None)
    key = statistics.choose(found, asked, folder)
    return scaling(config, resolved, found, key, origin=str(folder))


def scaling(
    config: PrismaticModelConfig,
    resolved: Resolved,
    found: statistics.Statistics,
    key: str,
    *,
    origin: str,
) -> Scaling:
    """The bounds of `key` in `found`."""

    def part(name: str, size: int) -> statistics.Bounds:
        return statistics.bounds(
            found, key, name, kind=config.action_norm, size=size, epsilon=resolved.epsilon,
            origin=origin,
        )  # fmt: skip

    proprio = part("proprio", resolved.proprio_dim) if resolved.proprio_dim else None
    return Scaling(found, key, part("action", resolved.action_dim), proprio)


def head_shapes(config: PrismaticModelConfig, resolved: Resolved) -> dict[str, Shape]:
    """Shapes of the critic's parameters; empty without a critic."""
    if not resolved.values:
        return {}
    inputs = resolved.size.width + int(config.critic_elapsed)
    return value_head_shapes(inputs, tuple(config.critic_hidden), resolved.values)


def _parameters(
    config: PrismaticModelConfig,
    resolved: Resolved,
    head: Mapping[str, Shape],
    loaded: Adapters | None,
) -> tuple[int, int]:
    """All parameters, and those that are trained.

    Args:
        loaded: adapters of the checkpoint.
    """
    size = resolved.size
    network = network_shapes(size, film=resolved.film)
    # FiLM's towers are counted with the network
    own = [part.shapes for part in resolved.components if not part.in_network]
    beside = count(head) + sum(count(shapes) for shapes in own)
    if config.is_lora:
        adapted = network
        if loaded is not None:
            adapted = {name: network[name] for name in (f"{m}.weight" for m in loaded.modules)}
        adapters = adapter_shapes(adapted, config.lora_rank)
        film = {name: shape for name, shape in network.items() if is_film(name)}
        trained = {n: s for n, s in {**adapters, **film}.items() if not is_unused(n, size)}
        return count(network) + count(adapters) + beside, count(trained) + beside
    trained = {name: shape for name, shape in network.items() if not is_unused(name, size)}
    return count(network) + beside, count(trained) + beside


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
        some = [*range(env.action_dim - 1), width - 1]
        hint = f"choose which ones to execute, e.g. actor.model.action_entries={some}"
    raise ConfigError(
        f"{len(entries)} entries of the model's action would be executed (actor.model.action_dim, "
        f"action_entries), but actions of env {env.name!r} have {env.action_dim}",
        hint=hint,
    )
