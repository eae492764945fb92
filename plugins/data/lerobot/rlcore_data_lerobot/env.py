"""The env `data`: what recorded episodes show and command. No episode of it can be played."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from rlcore.contracts.errors import ConfigError, EnvError
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.files.reading import UnreadableError
from rlcore.files.typed import as_type
from rlcore.runs.env_facts import EnvFacts
from rlcore_data_lerobot.env_settings import DataEnvConfig, facts_of_data

UNPLAYABLE = "is known from recorded episodes alone and has no simulator"
UNNAMED_TASK = "recorded"
"""Name of the only task if a data set lists no sentences."""


def env_spec(config: DataEnvConfig) -> EnvSpec:
    """Return what the data set says of its cameras, states and actions; each sentence is a task.

    Raises:
        ConfigError: no data set is named, there is none, or `config.facts` are invalid.
        CheckpointError: the data set is damaged.
    """
    facts = _facts(config)
    sentences = dict(facts.sentences) or {UNNAMED_TASK: ""}
    try:
        return EnvSpec(
            name=config.env_type,
            tasks=tuple(sentences),
            instructions=tuple(sentences.values()),
            train_trials=range(0),
            heldout_trials=range(0),
            cameras=tuple(CameraSpec(name, *size) for name, size in facts.cameras.items()),
            states=tuple(as_type(StateChannel, channel) for channel in facts.states),
            actions=tuple(as_type(ActionChannel, channel) for channel in facts.actions),
            max_episode_steps=config.max_episode_steps,
            render_settings=facts.render_settings,
            open_instructions=True,
            caveat=f"env {config.env_type} {UNPLAYABLE}, so success is not measured",
            unplayable=UNPLAYABLE,
        )
    except (UnreadableError, TypeError) as error:
        raise _invalid(error) from None


def make_env(
    config: DataEnvConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> NoReturn:
    """Raise EnvError, as no episode can be played."""
    raise EnvError(
        f"env {config.env_type} {UNPLAYABLE}",
        hint="rlcore sft, serve, export and open-loop use it; choose an env with a simulator to "
        "play episodes",
    )


def _facts(config: DataEnvConfig) -> EnvFacts:
    facts = config.facts
    if facts is None:
        if config.data is None:
            raise ConfigError(
                "env=data takes cameras, states and actions from a data set: collect.path must "
                "name one, got null",
                hint="rlcore data describe FOLDER -o FILE.yaml writes a description of a LeRobot "
                "data set; then collect.path=FILE.yaml",
            )
        facts = facts_of_data(Path(config.data))
    try:
        return as_type(EnvFacts, facts)
    except UnreadableError as error:
        raise _invalid(error) from None


def _invalid(error: Exception) -> ConfigError:
    return ConfigError(
        f"facts must say what a data set is, as rlcore writes them: {error}",
        hint="facts=null reads them from the data set",
    )
